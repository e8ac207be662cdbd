//! Keeps the low frequencies of a JPEG while it is read, and makes a small picture's samples of
//! them.

use super::bits::{BitReader, Fault};
use super::entropy::Sink;
use super::frame::{COEFFICIENTS, Component, Frame};
use super::scan::{Scan, Tables};

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

/// The coefficients of one component that are kept.
struct Plane {
    /// How many of each block, across and down: 1, 2, 4 or 8.
    wide: usize,
    high: usize,
    /// For each coefficient in the order of the file: its place among those that are kept.
    places: [Option<usize>; COEFFICIENTS],
    /// Blocks across, those included that only fill up a unit.
    across: usize,
    /// What is kept of each block, row by row, as the file has it.
    values: Vec<i16>,
    /// The steps in which the file counts each coefficient, in the order of the file; those in
    /// force at the component's first scan.
    steps: Option<[u16; COEFFICIENTS]>,
}

/// A part of the scan that is being read.
struct Part {
    plane: usize,
    /// Blocks of a unit, across and down.
    horizontal: usize,
    vertical: usize,
    /// The mean of the block before.
    mean: i32,
}

/// Keeps the lowest coefficients of every block.
pub(super) struct Coefficients {
    /// Boxes of the small picture, across and down.
    boxes: u32,
    planes: Vec<Plane>,
    parts: Vec<Part>,
    /// Units of the scan, across.
    units_across: usize,
    /// The lowest bit of the scan.
    low: u8,
    /// Whose the current block is, and where its values begin.
    part: usize,
    start: usize,
}

impl Coefficients {
    /// Keeps what gives each of `boxes` boxes, across and down, a sample of its own.
    pub(super) const fn new(boxes: u32) -> Self {
        Self { boxes, planes: Vec::new(), parts: Vec::new(), units_across: 1, low: 0, part: 0, start: 0 }
    }

    fn add(&mut self, index: usize, value: i32) {
        let plane = self.parts[self.part].plane;
        let kept = &mut self.planes[plane].values[self.start + index];
        // Honest values have 11 bits; what does not fit is nonsense, and only must not harm.
        *kept = clamped(i32::from(*kept).saturating_add(value));
    }

    /// The samples of each component, in the order of the frame.
    pub(super) fn samples(&self) -> Vec<Samples> {
        self.planes.iter().map(Plane::samples).collect()
    }

    /// The plane of the current block.
    fn plane(&self) -> &Plane {
        &self.planes[self.parts[self.part].plane]
    }
}

impl Plane {
    /// Room for the coefficients of a component: two bytes for each sample of the small picture.
    fn new(frame: &Frame, component: &Component, boxes: u32) -> Self {
        let (units_across, units_down) = frame.units();
        let (own_across, own_down) = frame.blocks(component);
        let across = (units_across * component.horizontal).max(own_across) as usize;
        let down = (units_down * component.vertical).max(own_down) as usize;
        let (wide, high) = kept_of(frame, component, boxes);
        let places = ZIGZAG.map(|(row, column)| {
            let (row, column) = (usize::from(row), usize::from(column));
            (row < high && column < wide).then_some(row * wide + column)
        });
        Self { wide, high, places, across, values: vec![0; across * down * wide * high], steps: None }
    }

    fn samples(&self) -> Samples {
        let &Self { wide, high, .. } = self;
        let steps = self.steps.expect("a picture that was read to its end had a scan of each component");
        let mut step_at = [0_i64; COEFFICIENTS];
        for (place, step) in self.places.iter().zip(steps) {
            if let &Some(place) = place {
                step_at[place] = step.into();
            }
        }
        let (waves_across, waves_down) = (waves(wide), waves(high));
        let width = self.across * wide;
        let mut bytes = vec![0; self.values.len()];
        for (block, values) in self.values.chunks_exact(wide * high).enumerate() {
            let start = block / self.across * high * width + block % self.across * wide;
            // First the waves of each row of coefficients, then of each column.
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

impl Sink for Coefficients {
    fn wants_details(&self, frame: &Frame, component: &Component) -> bool {
        kept_of(frame, component, self.boxes) != (1, 1)
    }

    fn begin_scan(&mut self, scan: &Scan, frame: &Frame, tables: &Tables) {
        if self.planes.is_empty() {
            let boxes = self.boxes;
            let planes = frame.components.iter().map(|component| Plane::new(frame, component, boxes));
            self.planes = planes.collect();
        }
        let alone = scan.parts.len() == 1;
        self.parts.clear();
        for part in &scan.parts {
            let component = &frame.components[part.index];
            let plane = &mut self.planes[part.index];
            plane.steps = plane.steps.or(tables.quantization[usize::from(component.quantization)]);
            let (horizontal, vertical) =
                if alone { (1, 1) } else { (component.horizontal, component.vertical) };
            let (horizontal, vertical) = (horizontal as usize, vertical as usize);
            self.parts.push(Part { plane: part.index, horizontal, vertical, mean: 0 });
        }
        self.units_across = scan.units(frame).0 as usize;
        self.low = scan.low;
    }

    fn restart(&mut self) {
        self.parts.iter_mut().for_each(|part| part.mean = 0);
    }

    fn begin_block(&mut self, part: usize, unit: usize, block: u32) {
        self.part = part;
        let (block, part) = (block as usize, &self.parts[part]);
        let x = unit % self.units_across * part.horizontal + block % part.horizontal;
        let y = unit / self.units_across * part.vertical + block / part.horizontal;
        let plane = &self.planes[part.plane];
        self.start = (y * plane.across + x) * plane.wide * plane.high;
    }

    fn mean(&mut self, difference: i32) {
        let part = &mut self.parts[self.part];
        part.mean = part.mean.saturating_add(difference);
        let value = part.mean.saturating_mul(1 << self.low);
        self.add(0, value);
    }

    fn mean_bit(&mut self, bit: u32) {
        // The bits below are still zero, also in a number below zero: it is rounded down.
        self.add(0, bit.cast_signed() << self.low);
    }

    fn detail(&mut self, index: u32, value: i32) {
        if let Some(place) = self.plane().places[index as usize] {
            self.add(place, value.saturating_mul(1 << self.low));
        }
    }

    fn correct(&mut self, reader: &mut BitReader<'_>, mut details: u64) -> Result<(), Fault> {
        while details != 0 {
            let index = details.trailing_zeros();
            details &= details - 1;
            if reader.number(1)? == 1
                && let Some(place) = self.plane().places[index as usize]
            {
                let kept = self.plane().values[self.start + place];
                self.add(place, i32::from(kept.signum()) << self.low);
            }
        }
        Ok(())
    }
}

/// How many coefficients, across or down, are kept of each block where `side` pixels make `boxes`
/// boxes: 1, 2, 4 or 8, the fewest that give each box a sample of its own, if there are so many.
/// `own` of `most` is how much finer than this component the finest may be sampled.
pub(super) fn kept(side: u32, boxes: u32, own: u32, most: u32) -> u32 {
    let is_enough = |&kept: &u32| side * own * kept >= BLOCK_SIDE * boxes * most;
    [1, 2, 4].into_iter().find(is_enough).unwrap_or(BLOCK_SIDE)
}

/// The same for a component, across and down.
fn kept_of(frame: &Frame, component: &Component, boxes: u32) -> (usize, usize) {
    let wide = kept(frame.side, boxes, component.horizontal, frame.horizontal_max);
    let high = kept(frame.side, boxes, component.vertical, frame.vertical_max);
    (wide as usize, high as usize)
}

fn clamped(value: i32) -> i16 {
    i16::try_from(value).unwrap_or(if value < 0 { i16::MIN } else { i16::MAX })
}

/// For each sample of a block and each coefficient of a row: the wave's height there, in units of
/// 1 / 16,384 (T.81, A.3.3). With fewer samples than eight the same waves are looked at in fewer
/// places.
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

/// A sum of two products with heights of waves as a sample.
fn to_byte(sum: i64) -> u8 {
    let value = ((sum + (1 << 27)) >> 28) + 128;
    u8::try_from(value).unwrap_or(if value < 0 { 0 } else { u8::MAX })
}
