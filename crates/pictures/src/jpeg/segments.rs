//! The segments of a JPEG, without a look at its coefficients.

use super::bits::{data_end, marker_at};
use crate::exif::Orientation;

/// The end marker.
pub(super) const END: u8 = 0xd9;

const START_OF_SCAN: u8 = 0xda;
const JFIF: &[u8] = b"JFIF\0";
/// Length of JFIF before its thumbnail.
const JFIF_BYTES: usize = 12;
const EXIF: &[u8] = b"Exif\0\0";
const PROFILE: &[u8] = b"ICC_PROFILE\0";
const ADOBE: &[u8] = b"Adobe";
/// All there is in an Adobe segment.
const ADOBE_BYTES: usize = 12;

/// A marker, and the bytes that belong to it.
pub(super) struct Segment<'a> {
    pub(super) marker: u8,
    /// Without its length; empty for a marker that stands alone.
    pub(super) body: &'a [u8],
    /// After the header of a scan: its entropy-coded data, as it stands in the file.
    pub(super) data: &'a [u8],
}

/// Iterates over the segments up to the end marker, or up to the first damage.
pub(super) struct Segments<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Segments<'a> {
    /// `bytes` begin with the start marker.
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 2 }
    }
}

impl<'a> Iterator for Segments<'a> {
    type Item = Segment<'a>;

    fn next(&mut self) -> Option<Segment<'a>> {
        let (offset, marker) = marker_at(self.bytes, self.position)?;
        self.position = offset + 1;
        match marker {
            0 | END => None,
            0x01 | 0xd0..=0xd7 => Some(Segment { marker, body: &[], data: &[] }),
            _ => {
                let (length, rest) = self.bytes[self.position..].split_first_chunk::<2>()?;
                let body = rest.get(..usize::from(u16::from_be_bytes(*length)).saturating_sub(2))?;
                let start = self.position + 2 + body.len();
                let end = if marker == START_OF_SCAN { data_end(self.bytes, start) } else { start };
                self.position = end;
                Some(Segment { marker, body, data: &self.bytes[start..end] })
            }
        }
    }
}

/// The application segments before the first scan that change how the picture is shown. Decoders
/// ignore later ones.
pub(super) struct AppSegments<'a> {
    /// JFIF before its thumbnail: version and density.
    pub(super) jfif: Option<&'a [u8]>,
    pub(super) orientation: Orientation,
    /// The bodies of the segments of an ICC profile; none unless they are complete.
    pub(super) profile: Vec<&'a [u8]>,
    /// The body of Adobe's segment.
    pub(super) adobe: Option<&'a [u8]>,
}

impl<'a> AppSegments<'a> {
    /// `bytes` begin with the start marker.
    pub(super) fn read(bytes: &'a [u8]) -> Self {
        let mut found =
            Self { jfif: None, orientation: Orientation::UPRIGHT, profile: Vec::new(), adobe: None };
        let mut exif = None;
        for Segment { marker, body, .. } in Segments::new(bytes) {
            match marker {
                START_OF_SCAN => break,
                // The size of its thumbnail takes two more bytes. If there are several, the last one
                // counts, as in libjpeg.
                0xe0 if body.starts_with(JFIF) && body.len() >= JFIF_BYTES + 2 => {
                    found.jfif = body.get(..JFIF_BYTES);
                }
                0xe1 if exif.is_none() => exif = body.strip_prefix(EXIF),
                0xe2 if body.starts_with(PROFILE) => found.profile.push(body),
                0xee if body.starts_with(ADOBE) && body.len() >= ADOBE_BYTES => {
                    found.adobe = body.get(..ADOBE_BYTES);
                }
                _ => {}
            }
        }
        found.orientation = exif.and_then(Orientation::parse).unwrap_or(Orientation::UPRIGHT);
        if !is_complete(&found.profile) {
            found.profile.clear();
        }
        found
    }

    /// The colour transform in Adobe's segment: 0 none, 1 YCbCr, 2 YCCK.
    pub(super) fn adobe_transform(&self) -> Option<u8> {
        self.adobe.and_then(|body| body.last().copied())
    }

    /// Writes the segments that follow the start marker: JFIF without a thumbnail, EXIF with nothing
    /// but an orientation that is not upright, the profile, and Adobe's.
    pub(super) fn write(&self, output: &mut Vec<u8>) {
        if let Some(jfif) = self.jfif {
            write_segment(output, 0xe0, &[jfif, &[0, 0]]);
        }
        if self.orientation != Orientation::UPRIGHT {
            write_segment(output, 0xe1, &[EXIF, &self.orientation.to_tiff()]);
        }
        for body in &self.profile {
            write_segment(output, 0xe2, &[body]);
        }
        if let Some(adobe) = self.adobe {
            write_segment(output, 0xee, &[adobe]);
        }
    }
}

/// Whether the parts of a profile have the numbers from 1 to the last, each once, in any order.
fn is_complete(profile: &[&[u8]]) -> bool {
    let mut numbers: Vec<u8> = Vec::with_capacity(profile.len());
    for body in profile {
        match body[PROFILE.len()..] {
            [number, count, ..] if usize::from(count) == profile.len() => numbers.push(number),
            _ => return false,
        }
    }
    numbers.sort_unstable();
    numbers.into_iter().eq((1..=u8::MAX).take(profile.len()))
}

/// Writes a segment whose body is `parts`, at most 65,533 bytes together.
pub(super) fn write_segment(output: &mut Vec<u8>, marker: u8, parts: &[&[u8]]) {
    let length = 2 + parts.iter().map(|part| part.len()).sum::<usize>();
    let length = u16::try_from(length).expect("bodies come from segments, or are shorter than theirs");
    output.extend([0xff, marker]);
    output.extend(length.to_be_bytes());
    for part in parts {
        output.extend_from_slice(part);
    }
}
