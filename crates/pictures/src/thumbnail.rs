//! Thumbnails: encodes a small picture as JPEG or PNG.

use jpeg_encoder::{ColorType, Encoder, SamplingFactor};

use crate::reduced::Reduced;
use crate::verdict::Format;

/// The usual quality for pictures on a screen, on JPEG's scale of 1 to 100.
const JPEG_QUALITY: u8 = 85;

/// A small picture as a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thumbnail {
    /// JPEG if every pixel is opaque, else PNG.
    pub format: Format,
    /// The file. It holds no metadata.
    pub bytes: Vec<u8>,
}

/// Makes a thumbnail that is `width` (at least 1) pixels wide and high, or as large as `reduced` if
/// that is smaller. Make `reduced` with a `side_max` of `width` or more, so that no detail is lost
/// before.
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
    let mut encoder = Encoder::new(&mut bytes, JPEG_QUALITY);
    // In so small a picture, a lower resolution of the colours would be visible.
    encoder.set_sampling_factor(SamplingFactor::R_4_4_4);
    encoder
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{inspect, reduce};

    fn read(file: &Thumbnail) -> Reduced {
        let picture = inspect(&file.bytes).unwrap();
        assert_eq!(picture.format, file.format);
        assert_eq!(picture.length, file.bytes.len());
        reduce(&file.bytes, u32::MAX).unwrap()
    }

    #[test]
    fn an_opaque_picture_becomes_a_jpeg_of_the_width_asked_for() {
        let pixels = (0..=255).flat_map(|value| [[value / 2 + 60, 255 - value / 2, 60, 255]; 4]).collect();
        let large = Reduced::new(32, pixels);
        for (width, side) in [(1, 1), (16, 16), (31, 31), (32, 32), (33, 32), (u32::MAX, 32), (0, 1)] {
            let file = thumbnail(&large, width);
            assert_eq!((file.format, read(&file).side()), (Format::Jpeg, side));
        }
        let shown = read(&thumbnail(&large, 8));
        for (pixel, expected) in shown.pixels().iter().zip(large.smaller(8).pixels()) {
            assert!(pixel.iter().zip(expected).all(|(value, expected)| value.abs_diff(*expected) < 16));
        }
    }

    #[test]
    fn a_transparent_picture_becomes_a_png_of_the_same_pixels() {
        let pixels = (1..=64).map(|value| [value, 7, 200, 4 * (value - 1)]).collect();
        let large = Reduced::new(8, pixels);
        for width in [1, 4, 8, 100] {
            let file = thumbnail(&large, width);
            assert_eq!(file.format, Format::Png);
            assert_eq!(read(&file).smaller(100).pixels()[..], large.smaller(width).smaller(100).pixels()[..]);
        }
    }
}
