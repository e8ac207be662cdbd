//! A small picture in memory: the source of thumbnails and perceptual hashes.

#[cfg(test)]
mod tests;

use crate::boxes::Boxes;
use crate::exif::Orientation;

/// A square of pixels, turned the right way up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reduced {
    side: u32,
    pixels: Vec<[u8; 4]>,
}

impl Reduced {
    /// `pixels` are `side` times `side`.
    #[cfg(test)]
    pub(crate) fn new(side: u32, pixels: Vec<[u8; 4]>) -> Self {
        debug_assert_eq!(pixels.len(), (side * side) as usize);
        Self { side, pixels }
    }

    /// `pixels` have the order of a file. They are turned as the orientation asks.
    pub(crate) fn turned(side: u32, pixels: &[[u8; 4]], orientation: Orientation) -> Self {
        let (width, last) = (side as usize, side as usize - 1);
        let turned = (0..width * width).map(|place| {
            let (x, y) = orientation.source(place % width, place / width, last);
            pixels[y * width + x]
        });
        Self { side, pixels: turned.collect() }
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

    /// A smaller copy, made by averaging. Its side is `side_max`, or the same if it is not larger.
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
