//! What is done with a picture that a developer uploads (contract 5).
//!
//! [`inspect`] judges it without making pixels. It is acceptable when every byte that a decoder
//! would need is there and makes sense, so both formats are walked through to their end with a few
//! kilobytes of memory (a progressive JPEG: 8 bytes for each 8x8 block).
//!
//! Of an accepted picture, [`without_metadata`] is what is kept and served, and [`reduce`] makes a
//! small one with memory that depends on the small one's size: the source of [`thumbnail`] and of
//! the [`PerceptualHash`] by which copies of a blocked picture are known. docs/images.md has
//! figures.

mod boxes;
mod exif;
mod jpeg;
mod kept;
mod perceptual_hash;
mod png;
mod reduced;
mod strip;
#[cfg(test)]
mod tests;
mod thumbnail;

pub use self::kept::{Kept, keep, marks};
pub use self::perceptual_hash::{HASH_SIDE, NEAR_COPY_DISTANCE_MAX, PerceptualHash, hashes_of_near_copies};
pub use self::reduced::{Reduced, reduce};
pub use self::strip::without_metadata;
pub use self::thumbnail::{Thumbnail, thumbnail};

use std::fmt::Write as _;

use serde::Serialize;
use thiserror::Error;

/// The longest file that is accepted, in bytes, both ends of the picture and whatever follows it
/// included (contract 5).
pub const BYTES_MAX: usize = 10_485_760;
/// The most pixels a picture may have, width times height (contract 5).
pub const PIXELS_MAX: u64 = 50_000_000;

/// How many of a stranger's first bytes an error repeats.
const FIRST_BYTES_SHOWN: usize = 8;

/// What a picture was found to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Picture {
    /// By its first bytes, whatever its name says.
    pub format: Format,
    /// Width and height, which are equal, in pixels; at least 1.
    pub side: u32,
    /// Bytes of the picture itself. What follows them in the file is allowed and not kept.
    pub length: usize,
}

/// The two formats that are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Portable Network Graphics; an animated one counts as its default image.
    Png,
    /// JPEG, baseline, extended sequential or progressive, with 8-bit samples and Huffman codes.
    Jpeg,
}

impl Format {
    /// The value of a `Content-Type` header for it.
    #[must_use]
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
        }
    }

    /// The form in which the database keeps it. It never changes.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Png => "png",
            Self::Jpeg => "jpeg",
        }
    }

    /// Reads what [`Format::as_str`] wrote; `None` for anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "png" => Some(Self::Png),
            "jpeg" => Some(Self::Jpeg),
            _ => None,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Png => "PNG",
            Self::Jpeg => "JPEG",
        }
    }
}

/// Why a picture is not accepted (contract 5), in words that the developer who sent it can act on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Unacceptable {
    /// There are no bytes at all.
    #[error("the picture is empty; a PNG or JPEG is expected")]
    Empty,
    /// More than [`BYTES_MAX`] bytes.
    #[error("the picture is {bytes} bytes long; at most {BYTES_MAX} are accepted")]
    TooLong {
        /// Bytes that came.
        bytes: usize,
    },
    /// Neither format, by the first bytes.
    #[error("the picture is neither a PNG nor a JPEG: its first bytes are {first_bytes}")]
    UnknownFormat {
        /// The first bytes that came, in hexadecimal.
        first_bytes: String,
    },
    /// A width or height of zero.
    #[error("the picture is {width}x{height} pixels; width and height must not be zero")]
    NoPixels {
        /// Width in pixels.
        width: u32,
        /// Height in pixels.
        height: u32,
    },
    /// Width and height differ.
    #[error("the picture is {width}x{height} pixels; width and height must be equal")]
    NotSquare {
        /// Width in pixels.
        width: u32,
        /// Height in pixels.
        height: u32,
    },
    /// More than [`PIXELS_MAX`] pixels.
    #[error("the picture is {side}x{side} pixels; at most {PIXELS_MAX} pixels in all are accepted")]
    TooManyPixels {
        /// Width and height in pixels.
        side: u32,
    },
    /// A kind of JPEG that few programs can show.
    #[error("the JPEG is {kind}, which is not accepted; save it as a baseline or progressive 8-bit JPEG")]
    UnsupportedJpeg {
        /// The kind, in words that follow "the JPEG is".
        kind: &'static str,
    },
    /// A JPEG that is sent in more passes than any honest encoder makes.
    #[error("the JPEG has more than {scans_max} scans; save it again")]
    TooManyScans {
        /// The most scans that are accepted.
        scans_max: u32,
    },
    /// The file ends before the picture does, or an end marker was put in its middle.
    #[error("the {} is cut: {detail}", format.name())]
    Truncated {
        /// The format of the picture.
        format: Format,
        /// Where it ends, or what is not there.
        detail: String,
    },
    /// The bytes contradict the format.
    #[error("the {} is corrupt: {detail}", format.name())]
    Corrupt {
        /// The format of the picture.
        format: Format,
        /// What is wrong, and where.
        detail: String,
    },
}

impl Unacceptable {
    /// The reason as a short, stable name, for metrics.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::TooLong { .. } => "too_long",
            Self::UnknownFormat { .. } => "unknown_format",
            Self::NoPixels { .. } => "no_pixels",
            Self::NotSquare { .. } => "not_square",
            Self::TooManyPixels { .. } => "too_many_pixels",
            Self::UnsupportedJpeg { .. } => "unsupported_jpeg",
            Self::TooManyScans { .. } => "too_many_scans",
            Self::Truncated { .. } => "truncated",
            Self::Corrupt { .. } => "corrupt",
        }
    }
}

/// Judges one picture by the rules of contract 5 ("What is accepted").
///
/// Pure and bounded: at most 32 MB of memory, and for the worst file of [`BYTES_MAX`] bytes about
/// a second of one core, so call it off the async threads.
///
/// # Errors
///
/// The first reason found for which the picture is not accepted. Sizes are judged from the header
/// before anything is decoded.
pub fn inspect(bytes: &[u8]) -> Result<Picture, Unacceptable> {
    if bytes.is_empty() {
        return Err(Unacceptable::Empty);
    }
    if bytes.len() > BYTES_MAX {
        return Err(Unacceptable::TooLong { bytes: bytes.len() });
    }
    if bytes.starts_with(&png::SIGNATURE) {
        png::inspect(bytes)
    } else if bytes.starts_with(&jpeg::FIRST_BYTES) {
        jpeg::inspect(bytes)
    } else {
        Err(Unacceptable::UnknownFormat { first_bytes: hexadecimal(bytes) })
    }
}

/// The rules on width and height, which both formats state in their headers. Gives the side.
fn check_size(width: u32, height: u32) -> Result<u32, Unacceptable> {
    if width == 0 || height == 0 {
        return Err(Unacceptable::NoPixels { width, height });
    }
    if width != height {
        return Err(Unacceptable::NotSquare { width, height });
    }
    if u64::from(width) * u64::from(height) > PIXELS_MAX {
        return Err(Unacceptable::TooManyPixels { side: width });
    }
    Ok(width)
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (index, byte) in bytes.iter().take(FIRST_BYTES_SHOWN).enumerate() {
        let space = if index == 0 { "" } else { " " };
        write!(text, "{space}{byte:02x}").expect("writing to a String cannot fail");
    }
    text
}
