//! The frame of a JPEG (T.81, B.2.2): its components, and how much of each the scans brought.

use super::refusals::{corrupt, truncated};
use crate::verdict::{Unacceptable, check_size};

/// Coefficients in a block.
pub(super) const COEFFICIENTS: usize = 64;
/// The largest sampling factor.
const SAMPLING_MAX: u8 = 4;

/// The frame header, and what the scans brought so far.
pub(super) struct Frame {
    /// Width and height in pixels.
    pub(super) side: u32,
    pub(super) progressive: bool,
    /// One (greyscale), three or four.
    pub(super) components: Vec<Component>,
    pub(super) horizontal_max: u32,
    pub(super) vertical_max: u32,
}

/// One component (colour) of the picture.
pub(super) struct Component {
    pub(super) id: u8,
    pub(super) horizontal: u32,
    pub(super) vertical: u32,
    /// Number of its quantization table, 0 to 3.
    pub(super) quantization: u8,
    /// For each coefficient, how many of its low bits are still missing. `None` before its first
    /// scan. A sequential scan brings all at once.
    pub(super) bits_missing: [Option<u8>; COEFFICIENTS],
    /// Progressive only: for each block, row by row, which coefficients are not zero so far. The
    /// lowest bit is the first coefficient. Refinement scans cannot be read without it.
    pub(super) nonzero: Vec<u64>,
}

impl Frame {
    /// Reads the body of a frame header of an accepted kind.
    pub(super) fn parse(body: &[u8], progressive: bool) -> Result<Self, Unacceptable> {
        let &[precision, h1, h0, w1, w0, count, ref rest @ ..] = body else {
            return Err(corrupt("its frame header is too short"));
        };
        if precision == 12 {
            return Err(Unacceptable::UnsupportedJpeg { kind: "of 12-bit samples" });
        }
        if precision != 8 {
            return Err(corrupt(format!("its frame header claims samples of {precision} bits")));
        }
        let side = check_size(u16::from_be_bytes([w1, w0]).into(), u16::from_be_bytes([h1, h0]).into())?;
        if count == 2 {
            return Err(Unacceptable::UnsupportedJpeg { kind: "of two colours" });
        }
        let (triples, odd) = rest.as_chunks::<3>();
        if !matches!(count, 1 | 3 | 4) || triples.len() != usize::from(count) || !odd.is_empty() {
            return Err(corrupt(format!("its frame header names {count} colours in {} bytes", rest.len())));
        }
        let components = triples.iter().copied().map(Component::parse).collect::<Result<Vec<_>, _>>()?;
        let horizontal_max = components.iter().map(|component| component.horizontal).max().unwrap_or(1);
        let vertical_max = components.iter().map(|component| component.vertical).max().unwrap_or(1);
        let mut frame = Self { side, progressive, components, horizontal_max, vertical_max };
        for index in 0..frame.components.len() {
            let (wide, high) = frame.blocks(&frame.components[index]);
            let blocks = if progressive { wide as usize * high as usize } else { 0 };
            frame.components[index].nonzero = vec![0; blocks];
        }
        Ok(frame)
    }

    /// Blocks of a component, across and down, in a scan of its own (T.81, A.2.2).
    pub(super) const fn blocks(&self, component: &Component) -> (u32, u32) {
        (
            (self.side * component.horizontal).div_ceil(self.horizontal_max * 8),
            (self.side * component.vertical).div_ceil(self.vertical_max * 8),
        )
    }

    /// Units of a scan of several components, across and down (T.81, A.2.3).
    pub(super) const fn units(&self) -> (u32, u32) {
        (self.side.div_ceil(self.horizontal_max * 8), self.side.div_ceil(self.vertical_max * 8))
    }

    /// At the end marker every bit of every coefficient of every component must be there. A decoder
    /// shows something without them, and a picture that was cut between two scans lacks them.
    pub(super) fn check_complete(&self) -> Result<(), Unacceptable> {
        for (number, component) in (1..).zip(&self.components) {
            if component.bits_missing.iter().all(Option::is_none) {
                return Err(truncated(format!(
                    "no scan brings colour {number} of {}",
                    self.components.len()
                )));
            }
            if let Some(index) = component.bits_missing.iter().position(|&missing| missing != Some(0)) {
                return Err(truncated(format!(
                    "the scans that complete colour {number} are missing (coefficient {index})"
                )));
            }
        }
        Ok(())
    }
}

impl Component {
    fn parse([id, sampling, quantization]: [u8; 3]) -> Result<Self, Unacceptable> {
        let (horizontal, vertical) = (sampling >> 4, sampling & 15);
        if !(1..=SAMPLING_MAX).contains(&horizontal) || !(1..=SAMPLING_MAX).contains(&vertical) {
            return Err(corrupt(format!("there is no sampling of {horizontal}x{vertical}")));
        }
        if quantization > 3 {
            return Err(corrupt(format!("there is no quantization table {quantization}")));
        }
        Ok(Self {
            id,
            horizontal: horizontal.into(),
            vertical: vertical.into(),
            quantization,
            bits_missing: [None; COEFFICIENTS],
            nonzero: Vec::new(),
        })
    }

    /// Blocks of this component in a unit of a scan of several components.
    pub(super) const fn blocks_per_unit(&self) -> u32 {
        self.horizontal * self.vertical
    }
}
