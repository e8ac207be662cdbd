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
pub(super) struct Plane {
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

/// Keeps the lowest `scale` x `scale` coefficients of every block.
pub(super) struct Coefficients {
    scale: usize,
    planes: Vec<Plane>,
    parts: Vec<Part>,
    /// Units of the scan, across.
    units_across: usize,
    /// The lowest bit of the scan.
    low: u8,
    /// Whose the current block is, and where its values begin.
    part: usize,
    start: usize,
    /// For each coefficient in the order of the file: its place among those that are kept.
    places: [Option<usize>; COEFFICIENTS],
}

impl Coefficients {
    /// `scale` is 1 (means alone), 2, 4 or 8 (all).
    pub(super) fn new(scale: u32) -> Self {
        let scale = scale as usize;
        let places = ZIGZAG.map(|(row, column)| {
            let (row, column) = (usize::from(row), usize::from(column));
            (row < scale && column < scale).then_some(row * scale + column)
        });
        let parts = Vec::new();
        Self { scale, planes: Vec::new(), parts, units_across: 1, low: 0, part: 0, start: 0, places }
    }

    fn add(&mut self, place: usize, value: i32) {
        let kept = &mut self.planes[self.parts[self.part].plane].values[self.start + place];
        // Honest values have 11 bits; what does not fit is nonsense, and only must not harm.
        *kept = clamped(i32::from(*kept).saturating_add(value));
    }

    /// The samples of each component, in the order of the frame.
    pub(super) fn samples(&self) -> Vec<Samples> {
        self.planes.iter().map(|plane| self.samples_of(plane)).collect()
    }

    fn samples_of(&self, plane: &Plane) -> Samples {
        let scale = self.scale;
        let steps = plane.steps.expect("a picture that was read to its end had a scan of each component");
        let mut step_at = [0_i64; COEFFICIENTS];
        for (place, step) in self.places.iter().zip(steps) {
            if let &Some(place) = place {
                step_at[place] = step.into();
            }
        }
        let wave = waves(scale);
        let width = plane.across * scale;
        let mut bytes = vec![0; plane.values.len()];
        for (block, values) in plane.values.chunks_exact(scale * scale).enumerate() {
            let start = block / plane.across * scale * width + block % plane.across * scale;
            let mut columns = [0_i64; COEFFICIENTS];
            for (row, values) in values.chunks_exact(scale).enumerate() {
                for x in 0..scale {
                    let sum = values.iter().zip(&step_at[row * scale..]).zip(&wave[x]);
                    columns[row * scale + x] =
                        sum.map(|((&value, step), wave)| i64::from(value) * step * wave).sum();
                }
            }
            for y in 0..scale {
                for x in 0..scale {
                    let sum: i64 = (0..scale).map(|row| columns[row * scale + x] * wave[y][row]).sum();
                    bytes[start + y * width + x] = to_byte(sum);
                }
            }
        }
        Samples { width, bytes }
    }
}

/// The samples of one component.
pub(super) struct Samples {
    /// Of a row, the padding to whole units included.
    pub(super) width: usize,
    pub(super) bytes: Vec<u8>,
}

impl Sink for Coefficients {
    fn wants_details(&self) -> bool {
        self.scale > 1
    }

    fn begin_scan(&mut self, scan: &Scan, frame: &Frame, tables: &Tables) {
        if self.planes.is_empty() {
            let kept = self.scale * self.scale;
            self.planes = frame.components.iter().map(|component| plane(frame, component, kept)).collect();
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
        self.start = (y * self.planes[part.plane].across + x) * self.scale * self.scale;
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
        if let Some(place) = self.places[index as usize] {
            self.add(place, value.saturating_mul(1 << self.low));
        }
    }

    fn correct(&mut self, reader: &mut BitReader<'_>, mut details: u64) -> Result<(), Fault> {
        while details != 0 {
            let index = details.trailing_zeros();
            details &= details - 1;
            if reader.number(1)? == 1
                && let Some(place) = self.places[index as usize]
            {
                let kept = self.planes[self.parts[self.part].plane].values[self.start + place];
                self.add(place, i32::from(kept.signum()) << self.low);
            }
        }
        Ok(())
    }
}

/// Room for the coefficients of a component, `kept` of each block: that is two bytes for each
/// sample of the small picture.
fn plane(frame: &Frame, component: &Component, kept: usize) -> Plane {
    let (units_across, units_down) = frame.units();
    let (own_across, own_down) = frame.blocks(component);
    let across = (units_across * component.horizontal).max(own_across) as usize;
    let down = (units_down * component.vertical).max(own_down) as usize;
    Plane { across, values: vec![0; across * down * kept], steps: None }
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
