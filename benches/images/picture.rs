//! Pictures to upload: JPEG of a wanted size, each with contents of its own.

use jpeg_encoder::{ColorType, Encoder};

use crate::Fallible;

/// The name of a quantisation table in a JPEG, its length and its number.
const FIRST_TABLE: [u8; 5] = [0xff, 0xdb, 0x00, 0x43, 0x00];
/// Values of a quantisation table.
const TABLE_VALUES: usize = 64;
/// Of these the last are changed from picture to picture: they scale the finest detail.
const CHANGED: usize = 3;

/// As cameras have it.
const QUALITY: u8 = 92;
/// The width at which it is tried how many bytes a pixel takes.
const TRIED_WIDTH: u16 = 512;

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

    /// What a picture of this size has, within a few hundredths.
    const fn bytes(self) -> f64 {
        match self {
            Self::Small => 1e5,
            Self::Middle => 1e6,
            Self::Large => 1e7,
        }
    }
}

/// One picture, of which any number that differ can be made.
pub(crate) struct Template {
    bytes: Vec<u8>,
    /// The start of the values that are changed.
    changed_at: usize,
}

impl Template {
    /// A smooth picture with grain in it, as wide as makes it the size that is asked for.
    pub(crate) fn new(size: Size) -> Fallible<Self> {
        let tried = f64::from(u32::try_from(encode(TRIED_WIDTH)?.len())?);
        let width = f64::from(TRIED_WIDTH) * (size.bytes() / tried).sqrt();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some thousands")]
        let bytes = encode(width as u16)?;
        let table = bytes.windows(FIRST_TABLE.len()).position(|window| window == FIRST_TABLE);
        let table = table.ok_or("a JPEG without a quantisation table")? + FIRST_TABLE.len();
        Ok(Self { bytes, changed_at: table + TABLE_VALUES - CHANGED })
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes of one picture, in three pieces. They are the bytes before the values that make it
    /// another than all others, these values, and the bytes behind them.
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

/// Width and height are equal.
fn encode(width: u16) -> Fallible<Vec<u8>> {
    let mut bytes = Vec::new();
    Encoder::new(&mut bytes, QUALITY).encode(&grain(width), width, width, ColorType::Rgb)?;
    Ok(bytes)
}

/// Slopes in each colour, and noise as a camera has it.
fn grain(width: u16) -> Vec<u8> {
    let width = u32::from(width);
    let mut state = 1_u32;
    let mut noise = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 27
    };
    let slope = |along: u32| along * 200 / width;
    let pixel = |x: u32, y: u32| [slope(x), slope(y), slope(u32::midpoint(x, y))];
    let all = (0..width).flat_map(|y| (0..width).flat_map(move |x| pixel(x, y)));
    all.map(|value| u8::try_from(value + noise()).unwrap_or(u8::MAX)).collect()
}
