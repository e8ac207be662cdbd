//! Decodes the entropy-coded data of a scan to its end (T.81, F.2.2 and G.2).

use super::bits::{BitReader, Fault};
use super::coefficients::Coefficients;
use super::huffman::HuffmanTable;

/// Coefficients in a block, the mean among them.
const COEFFICIENTS: u32 = 64;
/// A run of 15 zeros and a size of 0 stand for sixteen zeros.
const SIXTEEN_ZEROS: u8 = 15;

/// How the units of a scan are coded. The number beside a table is the number of blocks of a unit.
pub(super) enum Coding<'a> {
    /// Whole blocks, with the tables for the means (DC) and the details (AC).
    Sequential(Vec<(u32, &'a HuffmanTable, &'a HuffmanTable)>),
    /// The high bits of the means.
    DcFirst(Vec<(u32, &'a HuffmanTable)>),
    /// One more bit of the means.
    DcRefine(Vec<u32>),
    /// The high bits of a band of one component, and the record of its blocks.
    AcFirst(Band<'a>, &'a mut [u64]),
    /// One more bit of a band of one component, and the record of its blocks.
    AcRefine(Band<'a>, &'a mut [u64]),
}

impl Coding<'_> {
    /// Reads the unit with this number, counted row by row.
    pub(super) fn read_unit(
        &mut self,
        reader: &mut BitReader<'_>,
        unit: usize,
        coefficients: &mut Coefficients,
    ) -> Result<(), Fault> {
        match self {
            Self::Sequential(parts) => {
                for (part, &(blocks, dc, ac)) in parts.iter().enumerate() {
                    for block in 0..blocks {
                        coefficients.begin_block(part, block);
                        read_mean(reader, dc, coefficients)?;
                        read_details(reader, ac, coefficients)?;
                    }
                }
                Ok(())
            }
            Self::DcFirst(parts) => {
                for (part, &(blocks, dc)) in parts.iter().enumerate() {
                    for block in 0..blocks {
                        coefficients.begin_block(part, block);
                        read_mean(reader, dc, coefficients)?;
                    }
                }
                Ok(())
            }
            Self::DcRefine(parts) => {
                for (part, &blocks) in parts.iter().enumerate() {
                    for block in 0..blocks {
                        coefficients.begin_block(part, block);
                        coefficients.mean_bit(reader.number(1)?);
                    }
                }
                Ok(())
            }
            Self::AcFirst(band, nonzero) => {
                coefficients.begin_block(0, 0);
                band.read_first(reader, &mut nonzero[unit], coefficients)
            }
            Self::AcRefine(band, nonzero) => {
                coefficients.begin_block(0, 0);
                band.read_refinement(reader, &mut nonzero[unit], coefficients)
            }
        }
    }

    /// At a restart marker a run of empty blocks ends.
    pub(super) const fn restart(&mut self) {
        match self {
            Self::Sequential(_) | Self::DcFirst(_) | Self::DcRefine(_) => {}
            Self::AcFirst(band, _) | Self::AcRefine(band, _) => band.empty_blocks = 0,
        }
    }
}

fn read_mean(
    reader: &mut BitReader<'_>,
    dc: &HuffmanTable,
    coefficients: &mut Coefficients,
) -> Result<(), Fault> {
    let size = reader.symbol(dc)?;
    coefficients.mean(read_value(reader, size)?);
    Ok(())
}

/// A number of `size` bits, at most 15 (T.81, F.2.2.1). Half of the numbers are below zero.
fn read_value(reader: &mut BitReader<'_>, size: u8) -> Result<i32, Fault> {
    let bits = reader.number(size.into())?.cast_signed();
    let below_zero = size > 0 && bits >> (size - 1) == 0;
    Ok(if below_zero { bits - (1 << size) + 1 } else { bits })
}

fn read_details(
    reader: &mut BitReader<'_>,
    ac: &HuffmanTable,
    coefficients: &mut Coefficients,
) -> Result<(), Fault> {
    let mut index = 1;
    while index < COEFFICIENTS {
        let (zeros, size) = split(reader.symbol(ac)?);
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
            return Err(Fault::CoefficientOverflow);
        }
        coefficients.detail(index, read_value(reader, size)?);
        index += 1;
    }
    Ok(())
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
    /// Number of the following blocks that bring nothing new (T.81, G.1.2.2).
    empty_blocks: u32,
}

impl<'a> Band<'a> {
    /// `first` to `last`, 1 to 63.
    pub(super) fn new(first: u8, last: u8, table: &'a HuffmanTable) -> Self {
        Self { first: first.into(), last: last.into(), table, empty_blocks: 0 }
    }

    fn read_first(
        &mut self,
        reader: &mut BitReader<'_>,
        nonzero: &mut u64,
        coefficients: &mut Coefficients,
    ) -> Result<(), Fault> {
        if self.empty_blocks > 0 {
            self.empty_blocks -= 1;
            return Ok(());
        }
        let mut index = self.first;
        while index <= self.last {
            let (zeros, size) = split(reader.symbol(self.table)?);
            if size == 0 {
                if zeros != SIXTEEN_ZEROS {
                    self.empty_blocks = Self::read_empty_blocks(reader, zeros)? - 1;
                    break;
                }
                index += 16;
                continue;
            }
            index += u32::from(zeros);
            if index > self.last {
                return Err(Fault::CoefficientOverflow);
            }
            coefficients.detail(index, read_value(reader, size)?);
            *nonzero |= 1 << index;
            index += 1;
        }
        Ok(())
    }

    /// The number of blocks, this one included, that bring nothing from here on.
    fn read_empty_blocks(reader: &mut BitReader<'_>, size: u8) -> Result<u32, Fault> {
        Ok((1 << size) + reader.number(size.into())?)
    }

    /// Each old coefficient that is not zero has a correction bit, between the new coefficients.
    fn read_refinement(
        &mut self,
        reader: &mut BitReader<'_>,
        nonzero: &mut u64,
        coefficients: &mut Coefficients,
    ) -> Result<(), Fault> {
        let mut index = self.first;
        while self.empty_blocks == 0 && index <= self.last {
            let (zeros, size) = split(reader.symbol(self.table)?);
            if size == 0 && zeros != SIXTEEN_ZEROS {
                self.empty_blocks = Self::read_empty_blocks(reader, zeros)?;
                break;
            }
            if size > 1 {
                return Err(Fault::RefinementSize);
            }
            // The sign of the new coefficient.
            let value = read_value(reader, size)?;
            let place = self.zero_after(index, zeros, *nonzero);
            if size == 1 && place.is_none() {
                return Err(Fault::CoefficientOverflow);
            }
            let end = place.unwrap_or(self.last);
            coefficients.correct(reader, *nonzero & mask(index, end))?;
            if size == 1 {
                coefficients.detail(end, value);
                *nonzero |= 1 << end;
            }
            index = end + 1;
        }
        if self.empty_blocks > 0 {
            if index <= self.last {
                coefficients.correct(reader, *nonzero & mask(index, self.last))?;
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
