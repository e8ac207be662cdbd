//! PNG: the verdict, the copy without metadata, and the small picture.
//!
//! [`strip`] goes through the chunks and copies what stays. The crate `png` decodes that copy,
//! so it never sees an optional chunk that it could stumble over or inflate. The order and the
//! checksums of chunks are checked here: the errors of the crate do not name them.

mod chunks;
mod pixels;
mod profile;
mod refusals;
mod strip;
#[cfg(test)]
mod tests;

pub(crate) use self::chunks::SIGNATURE;

use crate::processed::Processed;
use crate::reduced::Reduced;
use crate::verdict::{Format, Picture, Unacceptable};

/// Processes `bytes`, which begin with [`SIGNATURE`].
pub(crate) fn process(bytes: &[u8], side_max: u32) -> Result<Processed, Unacceptable> {
    let stripped = strip::strip(bytes)?;
    let side = stripped.header.side;
    let small = side.min(side_max);
    let pixels = pixels::read(&stripped, small)?;
    Ok(Processed {
        picture: Picture { format: Format::Png, side, length: stripped.length },
        contents: stripped.contents,
        reduced: Reduced::turned(small, &pixels, stripped.orientation),
    })
}
