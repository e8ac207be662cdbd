//! Pictures to upload: JPEG of a wanted size, each with contents of its own.

use jpeg_encoder::{ColorType, Encoder};

use crate::Fallible;

/// The name of a quantisation table in a JPEG, its length and its number.
const FIRST_TABLE: [u8; 5] = [0xff, 0xdb, 0x00, 0x43, 0x00];
/// Values of a quantisation table.
const TABLE_VALUES: usize = 64;
/// Of these the last are changed from picture to picture: they scale the finest detail.
const CHANGED: usize = 3;

/// A size of picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Size {
    Small,
    Middle,
    Large,
}

impl Size {
    pub(crate) const ALL: [Self; 3] = [Self::Small, Self::Middle, Self::Large];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Small => "100 KB",
            Self::Middle => "1 MB",
            Self::Large => "10 MB",
        }
    }

    /// No picture of this size is longer, and none much shorter.
    const fn bytes_max(self) -> usize {
        match self {
            Self::Small => 100_000,
            Self::Middle => 1_000_000,
            Self::Large => 10_000_000,
        }
    }

    /// Pixels of width and height, as a camera or a designer would have it for so many bytes.
    const fn width(self) -> u16 {
        match self {
            Self::Small => 512,
            Self::Middle => 1600,
            Self::Large => 4800,
        }
    }
}

/// One picture, of which any number that differ can be made.
pub(crate) struct Template {
    bytes: Vec<u8>,
    /// Where the values that are changed begin.
    changed_at: usize,
}

impl Template {
    /// A smooth picture with grain in it, in the best quality that fits the size.
    pub(crate) fn new(size: Size) -> Fallible<Self> {
        let width = size.width();
        let pixels = grain(width);
        let (mut fits, mut over) = (1, 101);
        let mut bytes = encode(&pixels, width, fits)?;
        while over - fits > 1 {
            let quality = u8::midpoint(fits, over);
            let tried = encode(&pixels, width, quality)?;
            if tried.len() <= size.bytes_max() {
                (fits, bytes) = (quality, tried);
            } else {
                over = quality;
            }
        }
        let table = bytes.windows(FIRST_TABLE.len()).position(|window| window == FIRST_TABLE);
        let table = table.ok_or("a JPEG without a quantisation table")? + FIRST_TABLE.len();
        Ok(Self { bytes, changed_at: table + TABLE_VALUES - CHANGED })
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes of one picture, in three pieces: what is before the values that make it another
    /// than all others, these, and what is behind them.
    pub(crate) fn pieces(&self, number: u32) -> (&[u8], [u8; CHANGED], &[u8]) {
        // Each from 1 to 255: a table holds no 0.
        let digit = |place: u32| u8::try_from(number / 255_u32.pow(place) % 255 + 1).unwrap_or(1);
        let changed = [digit(2), digit(1), digit(0)];
        (&self.bytes[..self.changed_at], changed, &self.bytes[self.changed_at + CHANGED..])
    }

    /// The same in one piece.
    pub(crate) fn bytes(&self, number: u32) -> Vec<u8> {
        let (before, changed, behind) = self.pieces(number);
        [before, &changed, behind].concat()
    }
}

fn encode(pixels: &[u8], side: u16, quality: u8) -> Fallible<Vec<u8>> {
    let mut bytes = Vec::new();
    Encoder::new(&mut bytes, quality).encode(pixels, side, side, ColorType::Rgb)?;
    Ok(bytes)
}

/// Slopes in each colour, and noise as a camera has it.
fn grain(side: u16) -> Vec<u8> {
    let side = u32::from(side);
    let mut state = 1_u32;
    let mut noise = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 27
    };
    let slope = |along: u32| along * 200 / side;
    let pixel = |x: u32, y: u32| [slope(x), slope(y), slope(u32::midpoint(x, y))];
    let all = (0..side).flat_map(|y| (0..side).flat_map(move |x| pixel(x, y)));
    all.map(|value| u8::try_from(value + noise()).unwrap_or(u8::MAX)).collect()
}
