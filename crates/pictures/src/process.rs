//! The entry points of the crate: verdict, copy without metadata, small picture.

use crate::processed::Processed;
use crate::reduced::Reduced;
use crate::verdict::{BYTES_MAX, Picture, Unacceptable};
use crate::{jpeg, png};

/// Judges a picture, strips its metadata and makes a small picture of it (see [`reduce`]), all in
/// one pass over the pixel data.
///
/// A picture is accepted if every byte that a decoder needs is there and makes sense. README.md has
/// the rules.
///
/// The stripped copy loses everything that is not needed to show it. That is EXIF with its location and thumbnail, XMP,
/// IPTC, comments, text and time stamps. It is also the further pictures of a camera's file, and the frames of an
/// animation. Unknown segments and chunks, damaged optional chunks, and the bytes after the end go too.
///
/// The compressed data stays byte for byte, so every program shows the same pixels as before.
/// Information about colours stays too. These are an ICC profile (in a JPEG if it is complete),
/// Adobe's marker, JFIF's density, and some chunks. The chunks are `cHRM`, `cICP`, `gAMA`, `iCCP`,
/// `sBIT`, `sRGB`, `bKGD`, `pHYs`, `tRNS`. An orientation that is not upright stays in a new EXIF
/// block that holds nothing else. Damaged EXIF counts as none.
///
/// The copy is itself accepted, is not longer than the picture, and a second pass changes nothing.
///
/// # Errors
/// The first reason found to refuse the picture. The size is judged from the header, before
/// anything is decoded.
pub fn process(bytes: &[u8], side_max: u32) -> Result<Processed, Unacceptable> {
    let side_max = side_max.max(1);
    if bytes.is_empty() {
        Err(Unacceptable::Empty)
    } else if bytes.len() > BYTES_MAX {
        Err(Unacceptable::TooLong { bytes: bytes.len() })
    } else if bytes.starts_with(&png::SIGNATURE) {
        png::process(bytes, side_max)
    } else if bytes.starts_with(&jpeg::FIRST_BYTES) {
        jpeg::process(bytes, side_max)
    } else {
        Err(Unacceptable::of_format(bytes))
    }
}

/// Judges a picture as [`process`] does, and makes nothing of it.
///
/// # Errors
/// As [`process`].
pub fn inspect(bytes: &[u8]) -> Result<Picture, Unacceptable> {
    process(bytes, 1).map(|processed| processed.picture)
}

/// Makes a small picture, for example to show a thumbnail.
///
/// Its side is the smaller of the picture's side and `side_max` (at least 1). Each pixel is the
/// average of the pixels that it stands for, in the colour values of the file: profiles and gamma are
/// not applied. Colours are weighted by their alpha. The small picture is turned as EXIF asks.
///
/// Memory depends on `side_max` and on the length of the file, not on the number of pixels. It is 36
/// bytes for each pixel of the result, a copy of the file, and
/// - for a PNG a few rows;
/// - for a JPEG 3 bytes for each sample. There are at most twice as many samples as pixels of the
///   result, across and down, for each component. A progressive JPEG also has 8 bytes for each
///   block of 8x8 pixels of each component.
///
/// # Errors
/// As [`process`].
pub fn reduce(bytes: &[u8], side_max: u32) -> Result<Reduced, Unacceptable> {
    process(bytes, side_max).map(|processed| processed.reduced)
}

#[cfg(test)]
mod tests;
