//! The entry points of the crate: verdict, copy without metadata, small picture.

use crate::exif::Orientation;
use crate::jpeg::{self, Purpose};
use crate::png;
use crate::reduced::Reduced;
use crate::verdict::{BYTES_MAX, Format, Picture, Unacceptable};

/// What [`process`] makes of an accepted picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Processed {
    /// What the picture is.
    pub picture: Picture,
    /// The picture without metadata, as a file of the same format.
    pub contents: Vec<u8>,
    /// The picture, made smaller.
    pub reduced: Reduced,
}

/// A picture whose pixel data was read to the end.
pub(crate) struct Decoded {
    pub(crate) picture: Picture,
    /// Width and height of the small picture.
    pub(crate) small: u32,
    /// Pixels of the small picture, in the order of the file.
    pub(crate) pixels: Vec<[u8; 4]>,
    pub(crate) orientation: Orientation,
}

/// Judges a picture, strips its metadata and makes a small picture of it (see [`reduce`]), all in
/// one pass over the pixel data.
///
/// A picture is accepted if every byte that a decoder needs is there and makes sense. README.md has
/// the rules.
///
/// The stripped copy loses everything that is not needed to show it. That is EXIF with its location
/// and thumbnail, XMP, IPTC, comments, text and time stamps. It is also the further pictures of a
/// camera's file, the frames of an animation, unknown segments and chunks, damaged optional chunks,
/// and the bytes after the end.
///
/// The compressed data stays byte for byte, so every program shows the same pixels as before.
/// Information about colours stays too: an ICC profile (in a JPEG if it is complete), Adobe's
/// marker, JFIF's density, and the chunks `cHRM`, `cICP`, `gAMA`, `iCCP`, `sBIT`, `sRGB`, `bKGD`,
/// `pHYs`, `tRNS`. An orientation that is not upright stays in a new EXIF block that holds nothing
/// else. Damaged EXIF counts as none.
///
/// The copy is itself accepted, is not longer than the picture, and a second pass changes nothing.
///
/// # Errors
/// The first reason found to refuse the picture. The size is judged from the header, before
/// anything is decoded.
pub fn process(bytes: &[u8], side_max: u32) -> Result<Processed, Unacceptable> {
    let (decoded, contents) = match format_of(bytes)? {
        Format::Png => png::decode(bytes, side_max)?,
        Format::Jpeg => {
            let decoded = jpeg::decode(bytes, side_max, Purpose::Verdict)?;
            (decoded, jpeg::without_metadata(bytes))
        }
    };
    Ok(Processed { picture: decoded.picture, contents, reduced: decoded.into() })
}

/// Judges a picture as [`process`] does, and makes nothing of it.
///
/// # Errors
/// As [`process`].
pub fn inspect(bytes: &[u8]) -> Result<Picture, Unacceptable> {
    match format_of(bytes)? {
        Format::Png => png::decode(bytes, 1).map(|(decoded, _)| decoded.picture),
        Format::Jpeg => jpeg::decode(bytes, 1, Purpose::Verdict).map(|decoded| decoded.picture),
    }
}

/// Makes a small picture of a picture that was accepted before, for example to show a thumbnail.
///
/// Its side is the smaller of the picture's side and `side_max` (at least 1). Each pixel is the
/// average of the pixels that it stands for, in the colour values of the file: profiles and gamma are
/// not applied. Colours are weighted by their alpha. The small picture is turned as EXIF asks.
///
/// This is no verdict: it skips scans of a progressive JPEG that the small picture does not need.
///
/// Memory depends on `side_max` and not on the size of the picture: 36 bytes for each pixel of the
/// result, and
/// - for a PNG one copy of the file and a few rows;
/// - for a JPEG 3 bytes for each sample, and at most twice as many samples as pixels of the result,
///   across and down, for each component. A component of a progressive JPEG has 8 bytes for each
///   block of 8x8 pixels, unless the averages of the blocks are enough.
///
/// # Errors
/// A reason to refuse the picture. There is none for a picture that was accepted.
pub fn reduce(bytes: &[u8], side_max: u32) -> Result<Reduced, Unacceptable> {
    match format_of(bytes)? {
        Format::Png => png::decode(bytes, side_max).map(|(decoded, _)| decoded.into()),
        Format::Jpeg => jpeg::decode(bytes, side_max, Purpose::SmallPicture).map(Reduced::from),
    }
}

impl From<Decoded> for Reduced {
    /// Turns the pixels as the orientation asks.
    fn from(decoded: Decoded) -> Self {
        let (width, last) = (decoded.small as usize, decoded.small as usize - 1);
        let turned = (0..width * width).map(|place| {
            let (x, y) = decoded.orientation.source(place % width, place / width, last);
            decoded.pixels[y * width + x]
        });
        Self::new(decoded.small, turned.collect())
    }
}

fn format_of(bytes: &[u8]) -> Result<Format, Unacceptable> {
    if bytes.is_empty() {
        Err(Unacceptable::Empty)
    } else if bytes.len() > BYTES_MAX {
        Err(Unacceptable::TooLong { bytes: bytes.len() })
    } else if bytes.starts_with(&png::SIGNATURE) {
        Ok(Format::Png)
    } else if bytes.starts_with(&jpeg::FIRST_BYTES) {
        Ok(Format::Jpeg)
    } else {
        Err(Unacceptable::unknown_format(bytes))
    }
}
