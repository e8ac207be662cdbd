//! A picture as it is kept and served (contract 5): without anything that tells more than it shows.

#[cfg(test)]
mod tests;

use super::{Format, Picture, jpeg, png};

/// The picture without metadata. `bytes` are those that [`super::inspect`] found to be `picture`.
///
/// Gone is everything that is not needed to show it: EXIF with its location and thumbnail, XMP,
/// IPTC, comments, text, time stamps, the other pictures of a camera's file, the frames of an
/// animation, unknown segments and chunks, damaged optional chunks, and what follows the end.
///
/// It is not encoded anew: the compressed data stays byte for byte, so every program shows the same
/// pixels as before. What says how colours are meant stays too: ICC profile (in a JPEG if it is
/// complete), Adobe's marker, JFIF's density, and the chunks `cHRM`, `cICP`, `gAMA`, `iCCP`, `sBIT`,
/// `sRGB`, `bKGD`, `pHYs`, `tRNS`. Of EXIF the orientation survives, where it is not upright, in
/// EXIF of our own making that holds nothing else; EXIF that is damaged counts as none.
///
/// The result is itself accepted, with the same format and side, is not longer than the picture
/// was, and stripping it again changes nothing. It takes one copy of the bytes.
#[must_use]
pub fn without_metadata(bytes: &[u8], picture: &Picture) -> Vec<u8> {
    match picture.format {
        Format::Png => png::without_metadata(bytes),
        Format::Jpeg => jpeg::without_metadata(bytes),
    }
}
