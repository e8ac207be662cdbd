//! Decodes the entropy-coded data of a scan to its end (T.81, F.2.2 and G.2).

use super::bits::{BitReader, JpegFault};
use super::coefficients::Coefficients;
use super::huffman::HuffmanTable;

/// Coefficients in a block, the mean among them.
const COEFFICIENTS: u32 = 64;
/// A run of 15 zeros and a size of 0 stand for sixteen zeros.
const SIXTEEN_ZEROS: u8 = 15;

/// The data of a scan while it is read: its bits, and where its coefficients go.
pub(super) struct ScanData<'a> {
    pub(super) bits: BitReader<'a>,
    pub(super) coefficients: &'a mut Coefficients,
}

/// How the units of a scan are coded.
pub(super) enum Coding<'a> {
    /// The means (DC) of each part of the scan. In a sequential frame, the details (AC) too.
    Means(Vec<PartCoding<'a>>),
    /// A band of the details (AC) of one component, and the record of its blocks.
    Details(Band<'a>, &'a mut [u64]),
}

/// How the blocks of one component are coded.
pub(super) struct PartCoding<'a> {
    /// Blocks of a unit.
    pub(super) blocks: u32,
    /// The table for the high bits of the means. `None`: the scan brings one more bit of each.
    pub(super) dc: Option<&'a HuffmanTable>,
    /// The table for the details of a sequential frame.
    pub(super) ac: Option<&'a HuffmanTable>,
}

impl Coding<'_> {
    /// Reads the unit with this number, counted row by row.
    pub(super) fn read_unit(&mut self, data: &mut ScanData<'_>, unit: usize) -> Result<(), JpegFault> {
        match self {
            Self::Means(parts) => {
                for (index, part) in parts.iter().enumerate() {
                    for block in 0..part.blocks {
                        data.coefficients.begin_block(index, block);
                        match part.dc {
                            Some(dc) => data.read_mean(dc)?,
                            None => data.coefficients.mean_bit(data.bits.number(1)?),
                        }
                        if let Some(ac) = part.ac {
                            data.read_details(ac)?;
                        }
                    }
                }
                Ok(())
            }
            Self::Details(band, nonzero) => {
                data.coefficients.begin_block(0, 0);
                if band.refines {
                    band.read_refinement(data, &mut nonzero[unit])
                } else {
                    band.read_first(data, &mut nonzero[unit])
                }
            }
        }
    }

    /// At a restart marker a run of empty blocks ends.
    pub(super) const fn restart(&mut self) {
        if let Self::Details(band, _) = self {
            band.empty_blocks = 0;
        }
    }
}

impl ScanData<'_> {
    fn read_mean(&mut self, dc: &HuffmanTable) -> Result<(), JpegFault> {
        let size = self.bits.symbol(dc)?;
        self.coefficients.mean(read_value(&mut self.bits, size)?);
        Ok(())
    }

    fn read_details(&mut self, ac: &HuffmanTable) -> Result<(), JpegFault> {
        let mut index = 1;
        while index < COEFFICIENTS {
            let (zeros, size) = split(self.bits.symbol(ac)?);
            if size == 0 {
                if zeros != SIXTEEN_ZEROS {
                    break;
                }
                // Zeros past the end of the block are harmless, and some encoders write them.
                index += 16;
                continue;
            }
            index += u32::from(zeros);
            if index >= COEFFICIENTS {
                return Err(JpegFault::CoefficientOverflow);
            }
            self.coefficients.detail(index, read_value(&mut self.bits, size)?);
            index += 1;
        }
        Ok(())
    }
}

/// A number of `size` bits, at most 15 (T.81, F.2.2.1). Half of the numbers are below zero.
fn read_value(bits: &mut BitReader<'_>, size: u8) -> Result<i32, JpegFault> {
    let value = bits.number(size.into())?.cast_signed();
    let below_zero = size > 0 && value >> (size - 1) == 0;
    Ok(if below_zero { value - (1 << size) + 1 } else { value })
}

/// A run of zeros, and the size in bits of the coefficient after it.
const fn split(symbol: u8) -> (u8, u8) {
    (symbol >> 4, symbol & 15)
}

/// A band of the coefficients of one component.
pub(super) struct Band<'a> {
    first: u32,
    last: u32,
    table: &'a HuffmanTable,
    /// The scan brings one more bit, not the high bits.
    refines: bool,
    /// Number of the following blocks that bring nothing new (T.81, G.1.2.2).
    empty_blocks: u32,
}

impl<'a> Band<'a> {
    /// `first` to `last`, 1 to 63.
    pub(super) fn new(first: u8, last: u8, table: &'a HuffmanTable, refines: bool) -> Self {
        Self { first: first.into(), last: last.into(), table, refines, empty_blocks: 0 }
    }

    fn read_first(&mut self, data: &mut ScanData<'_>, nonzero: &mut u64) -> Result<(), JpegFault> {
        let ScanData { bits, coefficients } = data;
        if self.empty_blocks > 0 {
            self.empty_blocks -= 1;
            return Ok(());
        }
        let mut index = self.first;
        while index <= self.last {
            let (zeros, size) = split(bits.symbol(self.table)?);
            if size == 0 {
                if zeros != SIXTEEN_ZEROS {
                    self.empty_blocks = Self::read_empty_blocks(bits, zeros)? - 1;
                    break;
                }
                index += 16;
                continue;
            }
            index += u32::from(zeros);
            if index > self.last {
                return Err(JpegFault::CoefficientOverflow);
            }
            coefficients.detail(index, read_value(bits, size)?);
            *nonzero |= 1 << index;
            index += 1;
        }
        Ok(())
    }

    /// The number of blocks, this one included, that bring nothing from here on.
    fn read_empty_blocks(bits: &mut BitReader<'_>, size: u8) -> Result<u32, JpegFault> {
        Ok((1 << size) + bits.number(size.into())?)
    }

    /// Each old coefficient that is not zero has a correction bit, between the new coefficients.
    fn read_refinement(&mut self, data: &mut ScanData<'_>, nonzero: &mut u64) -> Result<(), JpegFault> {
        let ScanData { bits, coefficients } = data;
        let mut index = self.first;
        while self.empty_blocks == 0 && index <= self.last {
            let (zeros, size) = split(bits.symbol(self.table)?);
            if size == 0 && zeros != SIXTEEN_ZEROS {
                self.empty_blocks = Self::read_empty_blocks(bits, zeros)?;
                break;
            }
            if size > 1 {
                return Err(JpegFault::RefinementSize);
            }
            // The sign of the new coefficient.
            let value = read_value(bits, size)?;
            let place = self.zero_after(index, zeros, *nonzero);
            if size == 1 && place.is_none() {
                return Err(JpegFault::CoefficientOverflow);
            }
            let end = place.unwrap_or(self.last);
            coefficients.correct(bits, *nonzero & mask(index, end))?;
            if size == 1 {
                coefficients.detail(end, value);
                *nonzero |= 1 << end;
            }
            index = end + 1;
        }
        if self.empty_blocks > 0 {
            if index <= self.last {
                coefficients.correct(bits, *nonzero & mask(index, self.last))?;
            }
            self.empty_blocks -= 1;
        }
        Ok(())
    }

    /// The coefficient at or after `index` that is zero so far, after `zeros` others that are zero.
    fn zero_after(&self, index: u32, zeros: u8, nonzero: u64) -> Option<u32> {
        let mut place = index + u32::from(zeros);
        // Each coefficient on the way that is not zero moves the place one further. It has a correction
        // bit, so the work stays in proportion to the data.
        let mut in_the_way = nonzero & mask(index, self.last);
        while in_the_way != 0 && in_the_way.trailing_zeros() <= place {
            place += 1;
            in_the_way &= in_the_way - 1;
        }
        (place <= self.last).then_some(place)
    }
}

/// Bits `first` to `last`, both 0 to 63.
const fn mask(first: u32, last: u32) -> u64 {
    (u64::MAX << first) & (u64::MAX >> (63 - last))
}
