//! A small picture made of a big one, for thumbnails and hashes.

#[cfg(test)]
mod tests;

use super::boxes::Boxes;
use super::{Format, Picture, Unacceptable, jpeg, png};

/// A square of pixels, the right way up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reduced {
    side: u32,
    pixels: Vec<[u8; 4]>,
}

impl Reduced {
    /// `pixels` are `side` times `side`.
    #[cfg(test)]
    pub(super) fn new(side: u32, pixels: Vec<[u8; 4]>) -> Self {
        assert_eq!(pixels.len(), (side * side) as usize);
        Self { side, pixels }
    }

    /// Width and height in pixels, at least 1.
    #[must_use]
    pub const fn side(&self) -> u32 {
        self.side
    }

    /// Red, green, blue and alpha (255 is opaque; colours are not multiplied by it), row by row.
    #[must_use]
    pub fn pixels(&self) -> &[[u8; 4]] {
        &self.pixels
    }

    /// The same, made smaller by averaging: `side_max` across and down, or as it is where it is not
    /// larger.
    #[must_use]
    pub fn smaller(&self, side_max: u32) -> Self {
        let side = self.side.min(side_max.max(1));
        let mut boxes = Boxes::new(self.side, 1, side);
        for (y, row) in self.pixels.chunks_exact(self.side as usize).enumerate() {
            boxes.add_row(y, 0, 1, row.iter().copied());
        }
        Self { side, pixels: boxes.averages() }
    }
}

/// Makes a small picture of `bytes`, which [`super::inspect`] found to be `picture`.
///
/// Its side is the smaller of the picture's side and `side_max` (at least 1). Each of its pixels is
/// the average of those it stands for, in the file's own colour values (profiles and gamma are not
/// applied), colours weighted by their alpha; the orientation that EXIF asks for is applied. An
/// animated PNG counts as its default image.
///
/// Memory depends on `side_max`, not on what the picture claims, and the picture in full size is
/// never held: 36 bytes for each pixel of the result, and
/// - for a PNG one copy of the file and a few rows, interlaced or not;
/// - for a JPEG at most twice as many samples as boxes, across and down, and what fills up a unit,
///   for each component, 3 bytes each. They come from the lowest frequencies of each block: where
///   the picture's side is at least 8 times the result's, from the means alone, else from 2x2, 4x4
///   or all coefficients; a component that is sampled more coarsely takes more of them. A component
///   of a progressive picture that takes more than the means has a record of 8 bytes a block.
///
/// For 50 megapixels that is less than the verdict takes. It needs up to about a second of a core,
/// so call it off the async threads.
///
/// # Errors
///
/// A reason why the picture is not acceptable; there is none for one that was accepted.
pub fn reduce(bytes: &[u8], picture: &Picture, side_max: u32) -> Result<Reduced, Unacceptable> {
    let side = picture.side.min(side_max.max(1));
    let (pixels, orientation) = match picture.format {
        Format::Png => png::reduce(bytes, picture.side, side)?,
        Format::Jpeg => jpeg::reduce(bytes, picture.side, side)?,
    };
    let (width, last) = (side as usize, side as usize - 1);
    let turned = (0..width * width).map(|place| {
        let (x, y) = orientation.source(place % width, place / width, last);
        pixels[y * width + x]
    });
    Ok(Reduced { side, pixels: turned.collect() })
}
