//! PNG: the verdict, the copy without metadata, and the small picture.
//!
//! [`strip`] goes through the chunks and copies what stays. The crate `png` decodes that copy,
//! so it never sees an optional chunk that it could stumble over or inflate. The order and the
//! checksums of chunks are checked here: the errors of the crate do not name them.

mod chunks;
mod pixels;
mod refusals;
mod strip;
#[cfg(test)]
mod tests;

pub(crate) use self::chunks::SIGNATURE;

use crate::process::Decoded;
use crate::verdict::{Format, Picture, Unacceptable};

/// Judges `bytes`, which begin with [`SIGNATURE`]. Gives a small picture, at most `side_max` pixels
/// wide, and the picture without metadata.
pub(crate) fn decode(bytes: &[u8], side_max: u32) -> Result<(Decoded, Vec<u8>), Unacceptable> {
    let stripped = strip::strip(bytes)?;
    let small = stripped.header.side.min(side_max.max(1));
    let decoded = Decoded {
        picture: Picture { format: Format::Png, side: stripped.header.side, length: stripped.length },
        small,
        pixels: pixels::read(&stripped, small)?,
        orientation: stripped.orientation,
    };
    Ok((decoded, stripped.contents))
}
