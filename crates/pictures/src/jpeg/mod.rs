//! JPEG (ITU-T T.81): the verdict, the copy without metadata, and the small picture.
//!
//! Decoders that show pictures fill missing parts with grey and continue. This one notices them: it
//! reads every scan to its end. Where the standard leaves room it follows libjpeg. A picture that
//! libjpeg decodes without a warning is accepted.

mod bits;
mod coefficients;
mod colours;
mod decoder;
mod entropy;
mod frame;
mod huffman;
mod reduce;
mod refusals;
mod scan;
mod segments;
mod tables;
#[cfg(test)]
mod tests;

pub(crate) use self::decoder::FIRST_BYTES;

use self::decoder::Decoder;
use crate::processed::Processed;
use crate::reduced::Reduced;
use crate::verdict::{Format, Picture, Unacceptable};

/// Processes `bytes`, which begin with [`FIRST_BYTES`].
pub(crate) fn process(bytes: &[u8], side_max: u32) -> Result<Processed, Unacceptable> {
    let mut decoder = Decoder::new(bytes, side_max);
    let frame = decoder.read_to_end()?;
    let small = frame.side.min(side_max);
    let pixels = reduce::reduce(&frame, &decoder.coefficients, &decoder.segments, small);
    Ok(Processed {
        picture: Picture { format: Format::Jpeg, side: frame.side, length: decoder.position },
        reduced: Reduced::turned(small, &pixels, decoder.segments.orientation()),
        contents: decoder.without_metadata()?,
    })
}
