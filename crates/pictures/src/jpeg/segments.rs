//! The application segments of a JPEG: what they say about how to show it, and what stays of them.

use crate::exif::Orientation;

/// The end marker.
pub(super) const END: u8 = 0xd9;

const JFIF: &[u8] = b"JFIF\0";
/// Length of JFIF before its thumbnail.
const JFIF_BYTES: usize = 12;
const EXIF: &[u8] = b"Exif\0\0";
const PROFILE: &[u8] = b"ICC_PROFILE\0";
const ADOBE: &[u8] = b"Adobe";
/// All there is in an Adobe segment.
const ADOBE_BYTES: usize = 12;

/// The application segments before the first scan that change how the picture is shown. Decoders
/// ignore later ones.
#[derive(Default)]
pub(super) struct AppSegments<'a> {
    /// JFIF before its thumbnail: version and density.
    pub(super) jfif: Option<&'a [u8]>,
    exif: Option<&'a [u8]>,
    /// The bodies of the segments of an ICC profile.
    profile: Vec<&'a [u8]>,
    /// The body of Adobe's segment.
    adobe: Option<&'a [u8]>,
}

impl<'a> AppSegments<'a> {
    /// Notes a segment before the first scan.
    pub(super) fn note(&mut self, marker: u8, body: &'a [u8]) {
        match marker {
            // The size of its thumbnail takes two more bytes. If there are several, the last one
            // counts, as in libjpeg.
            0xe0 if body.starts_with(JFIF) && body.len() >= JFIF_BYTES + 2 => {
                self.jfif = body.get(..JFIF_BYTES);
            }
            0xe1 if self.exif.is_none() => self.exif = body.strip_prefix(EXIF),
            0xe2 if body.starts_with(PROFILE) => self.profile.push(body),
            0xee if body.starts_with(ADOBE) && body.len() >= ADOBE_BYTES => {
                self.adobe = body.get(..ADOBE_BYTES);
            }
            _ => {}
        }
    }

    pub(super) fn orientation(&self) -> Orientation {
        self.exif.and_then(Orientation::parse).unwrap_or(Orientation::UPRIGHT)
    }

    /// The colour transform in Adobe's segment: 0 none, 1 YCbCr, 2 YCCK.
    pub(super) fn adobe_transform(&self) -> Option<u8> {
        self.adobe.and_then(|body| body.last().copied())
    }

    /// The segments that follow the start marker of the copy. They are JFIF without a thumbnail,
    /// EXIF with nothing but an orientation that is not upright, the profile if it is complete, and
    /// Adobe's.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let (orientation, has_profile) = (self.orientation(), is_complete(&self.profile));
        let is_turned = orientation != Orientation::UPRIGHT;
        let jfif = self.jfif.map(|jfif| segment(0xe0, &[jfif, &[0, 0]]));
        let exif = is_turned.then(|| segment(0xe1, &[EXIF, &orientation.to_tiff()]));
        let profile = self.profile.iter().filter(|_| has_profile).map(|body| segment(0xe2, &[body]));
        let adobe = self.adobe.map(|adobe| segment(0xee, &[adobe]));
        jfif.into_iter().chain(exif).chain(profile).chain(adobe).flatten().collect()
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

/// A segment whose body is `parts`, at most 65,533 bytes together.
fn segment(marker: u8, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let length =
        u16::try_from(2 + body.len()).expect("bodies come from segments, or are shorter than theirs");
    [&[0xff, marker], &length.to_be_bytes()[..], &body].concat()
}
