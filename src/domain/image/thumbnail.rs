//! A small picture as a file.

use jpeg_encoder::{ColorType, Encoder};

use super::{Format, Reduced};

/// JPEG's scale of 1 to 100; the usual one for pictures that are looked at.
const JPEG_QUALITY: u8 = 85;

/// A small picture as a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thumbnail {
    /// JPEG where every pixel is opaque, else PNG.
    pub format: Format,
    /// The file. It holds no metadata.
    pub bytes: Vec<u8>,
}

/// A thumbnail of `reduced`, `width` (at least 1) pixels wide and high, or as large as `reduced` where
/// that is smaller. Averages pixels; so that nothing is lost before, `reduced` is best made
/// with a `side_max` of `width` or more.
///
/// It takes some 40 bytes for each pixel of the thumbnail.
#[must_use]
pub fn thumbnail(reduced: &Reduced, width: u32) -> Thumbnail {
    let small = reduced.smaller(width);
    if small.pixels().iter().all(|&[_, _, _, alpha]| alpha == 255) {
        Thumbnail { format: Format::Jpeg, bytes: to_jpeg(&small) }
    } else {
        Thumbnail { format: Format::Png, bytes: to_png(&small) }
    }
}

fn to_jpeg(picture: &Reduced) -> Vec<u8> {
    let side = u16::try_from(picture.side()).expect("a side is at most 7,071");
    let pixels: Vec<u8> =
        picture.pixels().iter().flat_map(|&[red, green, blue, _]| [red, green, blue]).collect();
    let mut bytes = Vec::new();
    Encoder::new(&mut bytes, JPEG_QUALITY)
        .encode(&pixels, side, side, ColorType::Rgb)
        .expect("writing to a Vec cannot fail, and the sizes fit");
    bytes
}

fn to_png(picture: &Reduced) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, picture.side(), picture.side());
    encoder.set_color(png::ColorType::Rgba);
    encoder.set_depth(png::BitDepth::Eight);
    let written = encoder
        .write_header()
        .and_then(|mut writer| writer.write_image_data(picture.pixels().as_flattened()).and(writer.finish()));
    written.expect("writing to a Vec cannot fail, and the sizes fit");
    bytes
}
