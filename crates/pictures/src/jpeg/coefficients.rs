//! Keeps the low frequencies of a JPEG while it is read, and makes the samples of a small picture
//! of them.

use super::bits::{BitReader, JpegFault};
use super::frame::{COEFFICIENTS, Component, Frame};
use super::scan::{self, Scan};
use super::tables::Tables;

/// Samples of a block, across and down, in the picture's full size.
pub(super) const BLOCK_SIDE: u32 = 8;

/// Row and column of each coefficient in the order of the file (T.81, figure A.6).
const ZIGZAG: [(u8, u8); COEFFICIENTS] = zigzag();

const fn zigzag() -> [(u8, u8); COEFFICIENTS] {
    let mut places = [(0, 0); COEFFICIENTS];
    let (mut row, mut column) = (0_u8, 0_u8);
    let mut index = 0;
    while index < COEFFICIENTS {
        places[index] = (row, column);
        let upwards = (row + column).is_multiple_of(2);
        match (upwards, row, column) {
            (true, _, 7) | (false, 0..=6, 0) => row += 1,
            (true, 0, _) | (false, 7, _) => column += 1,
            (true, _, _) => (row, column) = (row - 1, column + 1),
            (false, _, _) => (row, column) = (row + 1, column - 1),
        }
        index += 1;
    }
    places
}

/// Only the first coefficient, the mean, is kept.
const MEAN: u64 = 1;
/// A coefficient that has no place.
const NOT_KEPT: u8 = u8::MAX;

/// The coefficients of one component that are kept.
struct Plane {
    /// How many of each block, across and down: 1, 2, 4 or 8.
    wide: usize,
    high: usize,
    /// For each coefficient in the order of the file: its place among those that are kept, or
    /// [`NOT_KEPT`].
    places: [u8; COEFFICIENTS],
    /// Blocks across, with those that only fill up a unit.
    across: usize,
    /// The kept coefficients of each block, row by row, not yet multiplied by their steps.
    values: Vec<i16>,
    /// The quantization table at the first scan of the component, in the order of the file.
    steps: Option<[u16; COEFFICIENTS]>,
}

/// A component of the scan that is being read.
struct ComponentProgress {
    plane: usize,
    /// For each block of a unit: where its values begin in those of the unit.
    blocks: Vec<usize>,
    /// Values of a unit, and of a row of units.
    unit: usize,
    row: usize,
    /// The start of the values of the current unit.
    start: usize,
    /// The coefficients that are kept, the lowest bit for the first.
    kept: u64,
    /// The mean of the block before.
    mean: i32,
}

/// Takes the coefficients of a picture as they are read, and keeps the lowest of every block.
#[derive(Default)]
pub(super) struct Coefficients {
    /// The most pixels of the small picture, across and down.
    side_max: u32,
    planes: Vec<Plane>,
    parts: Vec<ComponentProgress>,
    /// Units of the scan, across.
    units_across: u32,
    /// The lowest bit of the scan.
    low: u8,
    /// Anything of the scan is kept.
    is_kept: bool,
    /// The part of the current block, which of its coefficients are kept, and where they begin.
    part: usize,
    kept: u64,
    start: usize,
}

impl Coefficients {
    /// Keeps what gives each pixel of a small picture a sample of its own.
    pub(super) fn new(side_max: u32) -> Self {
        Self { side_max, ..Self::default() }
    }

    /// The next units are those of this scan.
    pub(super) fn begin_scan(&mut self, frame: &Frame, tables: &Tables, scan: &Scan) {
        if self.planes.is_empty() {
            let side_max = self.side_max;
            let planes = frame.components.iter().map(|component| Plane::new(frame, component, side_max));
            self.planes = planes.collect();
        }
        self.parts.clear();
        for &scan::ScanComponent { index, .. } in &scan.parts {
            let component = &frame.components[index];
            let plane = &mut self.planes[index];
            plane.steps = plane.steps.or(tables.quantization[usize::from(component.quantization)]);
            let (horizontal, vertical) = match scan.parts[..] {
                [_] => (1, 1),
                _ => (component.horizontal as usize, component.vertical as usize),
            };
            let size = plane.wide * plane.high;
            let blocks = (0..horizontal * vertical)
                .map(|block| (block / horizontal * plane.across + block % horizontal) * size);
            self.parts.push(ComponentProgress {
                plane: index,
                blocks: blocks.collect(),
                unit: horizontal * size,
                row: vertical * plane.across * size,
                start: 0,
                kept: plane.kept(),
                mean: 0,
            });
        }
        self.units_across = scan.units(frame).0;
        self.low = scan.low;
        self.is_kept = scan.has_means() || self.parts.iter().any(|part| part.kept != MEAN);
        // In a scan of which nothing is kept it stays so.
        self.kept = 0;
    }

    /// The scan continues after a restart marker.
    pub(super) fn restart(&mut self) {
        self.parts.iter_mut().for_each(|part| part.mean = 0);
    }

    /// The next blocks are those of this unit of the scan.
    pub(super) fn begin_unit(&mut self, unit: u32) {
        if !self.is_kept {
            return;
        }
        let across = self.units_across;
        let (row, column) = ((unit / across) as usize, (unit % across) as usize);
        for part in &mut self.parts {
            part.start = row * part.row + column * part.unit;
        }
    }

    /// The next coefficients are those of block number `block` of the part `part`, in the unit.
    pub(super) fn begin_block(&mut self, part: usize, block: u32) {
        if !self.is_kept {
            return;
        }
        self.part = part;
        let part = &self.parts[part];
        (self.kept, self.start) = (part.kept, part.start + part.blocks[block as usize]);
    }

    /// The mean (DC), as the difference to the block before it.
    pub(super) fn mean(&mut self, difference: i32) {
        let part = &mut self.parts[self.part];
        part.mean = part.mean.saturating_add(difference);
        let value = part.mean.saturating_mul(1 << self.low);
        self.add(0, value);
    }

    /// One more bit of the mean.
    pub(super) fn mean_bit(&mut self, bit: u32) {
        // The bits below are still zero, also in a number below zero: it is rounded down.
        self.add(0, bit.cast_signed() << self.low);
    }

    /// A detail (AC), 1 to 63 in the order of the file, in units of the lowest bit of the scan.
    #[inline]
    pub(super) fn detail(&mut self, index: u32, value: i32) {
        if self.kept >> index & 1 == 1 {
            self.add(index, value.saturating_mul(1 << self.low));
        }
    }

    /// Reads one bit for each detail in `details`, the lowest first. It says whether the absolute
    /// value has the lowest bit of the scan.
    pub(super) fn correct(&mut self, reader: &mut BitReader<'_>, mut details: u64) -> Result<(), JpegFault> {
        if self.kept & details == 0 {
            return reader.skip(details.count_ones());
        }
        while details != 0 {
            let index = details.trailing_zeros();
            details &= details - 1;
            if reader.number(1)? == 1 && self.kept >> index & 1 == 1 {
                let sign = self.value(index).signum();
                self.add(index, i32::from(sign) << self.low);
            }
        }
        Ok(())
    }

    /// A coefficient of the current block that is kept.
    fn value(&mut self, index: u32) -> &mut i16 {
        let plane = &mut self.planes[self.parts[self.part].plane];
        &mut plane.values[self.start + usize::from(plane.places[index as usize])]
    }

    fn add(&mut self, index: u32, value: i32) {
        let kept = self.value(index);
        // Honest values have 11 bits. A value that does not fit makes no sense, and must only do no
        // harm.
        *kept = clamped(i32::from(*kept).saturating_add(value));
    }

    /// The samples of each component, in the order of the frame.
    pub(super) fn samples(&self) -> Vec<Samples> {
        self.planes.iter().map(Plane::samples).collect()
    }
}

impl Plane {
    /// Room for the coefficients of a component: two bytes for each sample of the small picture.
    fn new(frame: &Frame, component: &Component, side_max: u32) -> Self {
        let (units_across, units_down) = frame.units();
        let (own_across, own_down) = frame.blocks(component);
        let across = (units_across * component.horizontal).max(own_across) as usize;
        let down = (units_down * component.vertical).max(own_down) as usize;
        let (wide, high) = kept_of(frame, component, side_max);
        let places = ZIGZAG.map(|(row, column)| {
            let (row, column) = (usize::from(row), usize::from(column));
            let place = u8::try_from(row * wide + column).expect("a block has 64 coefficients");
            if row < high && column < wide { place } else { NOT_KEPT }
        });
        Self { wide, high, places, across, values: vec![0; across * down * wide * high], steps: None }
    }

    /// A bit for each coefficient that is kept, the lowest for the first.
    fn kept(&self) -> u64 {
        (0..)
            .zip(self.places)
            .filter(|&(_, place)| place != NOT_KEPT)
            .fold(0, |kept, (bit, _)| kept | 1 << bit)
    }

    fn samples(&self) -> Samples {
        let &Self { wide, high, .. } = self;
        let steps = self.steps.expect("a picture that was read to its end had a scan of each component");
        let mut step_at = [0_i64; COEFFICIENTS];
        for (place, step) in self.places.into_iter().zip(steps) {
            if place != NOT_KEPT {
                step_at[usize::from(place)] = step.into();
            }
        }
        let (waves_across, waves_down) = (waves(wide), waves(high));
        let width = self.across * wide;
        let mut bytes = vec![0; self.values.len()];
        for (block, values) in self.values.chunks_exact(wide * high).enumerate() {
            let start = block / self.across * high * width + block % self.across * wide;
            // First the rows of coefficients, then the columns.
            let mut columns = [[0_i64; 8]; 8];
            for (row, (values, steps)) in
                values.chunks_exact(wide).zip(step_at.chunks_exact(wide)).enumerate()
            {
                for (x, waves) in waves_across[..wide].iter().enumerate() {
                    let products = values.iter().zip(steps).zip(waves);
                    columns[x][row] =
                        products.map(|((&value, step), wave)| i64::from(value) * step * wave).sum();
                }
            }
            for (y, waves) in waves_down[..high].iter().enumerate() {
                for (x, column) in columns[..wide].iter().enumerate() {
                    let sum = column[..high].iter().zip(waves).map(|(value, wave)| value * wave).sum();
                    bytes[start + y * width + x] = to_byte(sum);
                }
            }
        }
        Samples { width, wide, high, bytes }
    }
}

/// The samples of one component.
pub(super) struct Samples {
    /// Of a row, the padding to whole units included.
    pub(super) width: usize,
    /// Of a block, across and down.
    pub(super) wide: usize,
    pub(super) high: usize,
    pub(super) bytes: Vec<u8>,
}

/// How many coefficients, across or down, are kept of each block if `side` pixels become `boxes`
/// boxes: 1, 2, 4 or 8. It is the fewest that give each box a sample of its own, or 8. The component is
/// sampled `own` times where the finest is sampled `most` times.
pub(super) fn kept(side: u32, boxes: u32, own: u32, most: u32) -> u32 {
    let is_enough = |&kept: &u32| side * own * kept >= BLOCK_SIDE * boxes * most;
    [1, 2, 4].into_iter().find(is_enough).unwrap_or(BLOCK_SIDE)
}

/// The same for a component, across and down.
fn kept_of(frame: &Frame, component: &Component, side_max: u32) -> (usize, usize) {
    let boxes = frame.side.min(side_max);
    let wide = kept(frame.side, boxes, component.horizontal, frame.horizontal_max);
    let high = kept(frame.side, boxes, component.vertical, frame.vertical_max);
    (wide as usize, high as usize)
}

fn clamped(value: i32) -> i16 {
    i16::try_from(value).unwrap_or(if value < 0 { i16::MIN } else { i16::MAX })
}

/// The factors of the inverse cosine transform (T.81, A.3.3), in units of 1 / 16,384. There is one for
/// each sample of a block and each coefficient of a row. With fewer than eight samples, the same waves
/// are sampled at fewer places.
fn waves(scale: usize) -> [[i64; 8]; 8] {
    /// Half the cosine of so many sixteenths of a half turn.
    const HALF_COSINES: [i64; 9] = [8192, 8035, 7568, 6811, 5793, 4551, 3135, 1598, 0];
    let half_cosine = |sixteenths: usize| match sixteenths % 32 {
        turn @ 0..=8 => HALF_COSINES[turn],
        turn @ 9..=16 => -HALF_COSINES[16 - turn],
        turn @ 17..=24 => -HALF_COSINES[turn - 16],
        turn => HALF_COSINES[32 - turn],
    };
    // The mean counts with the square root of a half, which is the cosine of four sixteenths.
    std::array::from_fn(|x| {
        std::array::from_fn(|u| half_cosine(if u == 0 { 4 } else { (2 * x + 1) * u * (8 / scale) }))
    })
}

/// A sample from a sum of products with two factors of [`waves`].
fn to_byte(sum: i64) -> u8 {
    let value = ((sum + (1 << 27)) >> 28) + 128;
    u8::try_from(value).unwrap_or(if value < 0 { 0 } else { u8::MAX })
}
