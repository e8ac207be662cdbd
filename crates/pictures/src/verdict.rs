//! The types of the verdict on a picture: what was found, and each reason to refuse it.

use std::ops::RangeInclusive;

use serde::Serialize;
use thiserror::Error;

use crate::other_formats;

/// The longest file that is accepted, in bytes. Bytes after the end of the picture count too.
pub const BYTES_MAX: usize = 10_485_760;
/// The most pixels that a picture may have: width times height.
pub const PIXELS_MAX: u64 = 50_000_000;

/// How many of the first bytes an error repeats.
const FIRST_BYTES_SHOWN: usize = 8;
/// How many characters of a text are shown.
const FIRST_CHARS_SHOWN: usize = 24;
/// Characters of a word that may be a credential.
const CREDENTIAL_CHARS: RangeInclusive<usize> = 32..=80;

/// The properties of an accepted picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Picture {
    /// The format by the first bytes, whatever the name of the file says.
    pub format: Format,
    /// Width and height in pixels. They are equal (aspect ratio 1:1), and at least 1.
    pub side: u32,
    /// Length of the picture itself in bytes. Bytes may follow it in the file.
    pub length: usize,
}

/// The two formats that are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Portable Network Graphics. An animated one counts as its default image.
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

    /// A short, stable name, made for a database. [`Format::parse`] reads it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Png => "png",
            Self::Jpeg => "jpeg",
        }
    }

    /// Reads what [`Format::as_str`] wrote. Anything else is `None`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Png, Self::Jpeg].into_iter().find(|format| format.as_str() == text)
    }

    /// Its name for people: PNG or JPEG.
    #[must_use]
    pub fn name(self) -> String {
        self.as_str().to_ascii_uppercase()
    }
}

/// Why a picture is not accepted. The texts are for the person who sent the picture.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Unacceptable {
    /// There are no bytes at all.
    #[error("the picture is empty; a PNG or JPEG is expected")]
    Empty,
    /// There are more than [`BYTES_MAX`] bytes.
    #[error("the picture is {bytes} bytes long; at most {BYTES_MAX} are accepted")]
    TooLong {
        /// Length of the file in bytes.
        bytes: usize,
    },
    /// It is another format that has a name.
    #[error("it is {kind}; a PNG or JPEG is expected")]
    OtherFormat {
        /// The format, in words that follow "it is".
        kind: &'static str,
    },
    /// The first bytes are those of neither format, and of no other that is known.
    #[error("the picture is neither a PNG nor a JPEG: its first bytes are {first_bytes}")]
    UnknownFormat {
        /// The first bytes of the file, in hexadecimal, and those of a text as it reads.
        first_bytes: String,
    },
    /// The width or the height is zero.
    #[error("the picture is {width}x{height} pixels; width and height must not be zero")]
    NoPixels {
        /// Width in pixels.
        width: u32,
        /// Height in pixels.
        height: u32,
    },
    /// The aspect ratio is not 1:1: width and height differ.
    #[error("the picture is {width}x{height} pixels; width and height must be equal")]
    NotSquare {
        /// Width in pixels.
        width: u32,
        /// Height in pixels.
        height: u32,
    },
    /// There are more than [`PIXELS_MAX`] pixels.
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
    /// A JPEG with more scans than any honest encoder makes.
    #[error("the JPEG has more than {scans_max} scans; save it again")]
    TooManyScans {
        /// The most scans that are accepted.
        scans_max: usize,
    },
    /// The file ends before the picture does, or an end marker stands in the middle of the picture.
    #[error("the {} is cut: {detail}", format.name())]
    Truncated {
        /// The format of the picture.
        format: Format,
        /// The end of the picture, or the missing part.
        detail: String,
    },
    /// The bytes break the rules of the format.
    #[error("the {} is corrupt: {detail}", format.name())]
    Corrupt {
        /// The format of the picture.
        format: Format,
        /// The fault, and its place.
        detail: String,
    },
}

impl Unacceptable {
    /// The reason as a short, stable name, for metrics.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::TooLong { .. } => "too_long",
            Self::OtherFormat { .. } | Self::UnknownFormat { .. } => "unknown_format",
            Self::NoPixels { .. } => "no_pixels",
            Self::NotSquare { .. } => "not_square",
            Self::TooManyPixels { .. } => "too_many_pixels",
            Self::UnsupportedJpeg { .. } => "unsupported_jpeg",
            Self::TooManyScans { .. } => "too_many_scans",
            Self::Truncated { .. } => "truncated",
            Self::Corrupt { .. } => "corrupt",
        }
    }

    /// Of bytes that are neither a PNG nor a JPEG.
    pub(crate) fn of_format(bytes: &[u8]) -> Self {
        if let Some(kind) = other_formats::name(bytes) {
            return Self::OtherFormat { kind };
        }
        let first_bytes: Vec<_> =
            bytes.iter().take(FIRST_BYTES_SHOWN).map(|byte| format!("{byte:02x}")).collect();
        let (first_bytes, head) = (first_bytes.join(" "), &bytes[..shown_chars(bytes)]);
        // A text says what was sent by mistake, such as the path of a file.
        let is_text = head.iter().all(|byte| matches!(byte, b' '..=b'~'));
        let text =
            if is_text { format!(" (the text {:?})", String::from_utf8_lossy(head)) } else { String::new() };
        Self::UnknownFormat { first_bytes: first_bytes + &text }
    }
}

/// How many characters of a text are shown. A word of the length of a credential is not cut, so that whoever answers can tell
/// that it is one.
fn shown_chars(text: &[u8]) -> usize {
    let shown = text.len().min(FIRST_CHARS_SHOWN);
    let is_of_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let start = text[..shown].iter().rposition(|byte| !is_of_word(byte)).map_or(0, |before| before + 1);
    let word = text[start..].iter().take_while(|byte| is_of_word(byte)).count();
    if CREDENTIAL_CHARS.contains(&word) { start + word } else { shown }
}

/// Checks the width and height of a header: aspect ratio 1:1, and not too large. Gives the side.
pub(crate) fn check_size(width: u32, height: u32) -> Result<u32, Unacceptable> {
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
