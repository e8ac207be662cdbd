//! Reads the data of a scan to its end without making pixels of it (T.81, F.2.2 and G.2).

use super::bits::{BitReader, Fault};
use super::frame::COEFFICIENTS;
use super::huffman::HuffmanTable;

/// A run of 15 zeros and a size of 0 stand for sixteen zeros.
const SIXTEEN_ZEROS: u8 = 15;

/// How the units of a scan are coded. The number beside a table is how many blocks of a unit it is
/// for.
pub(super) enum Coding<'a> {
    /// Whole blocks, with the tables for their means (DC) and their details (AC).
    Sequential(Vec<(u32, &'a HuffmanTable, &'a HuffmanTable)>),
    /// The high bits of the means.
    DcFirst(Vec<(u32, &'a HuffmanTable)>),
    /// One more bit of the means.
    DcRefine {
        /// Blocks in a unit.
        blocks: u32,
    },
    /// The high bits of a band of one component, and the record of its blocks.
    AcFirst(Band<'a>, &'a mut [u64]),
    /// One more bit of a band of one component, and the record of its blocks.
    AcRefine(Band<'a>, &'a mut [u64]),
}

impl Coding<'_> {
    /// Reads the unit with this number, counted row by row.
    pub(super) fn read_unit(&mut self, reader: &mut BitReader<'_>, unit: usize) -> Result<(), Fault> {
        match self {
            Self::Sequential(parts) => {
                for &(blocks, dc, ac) in &*parts {
                    for _ in 0..blocks {
                        read_whole_block(reader, dc, ac)?;
                    }
                }
                Ok(())
            }
            Self::DcFirst(parts) => {
                for &(blocks, dc) in &*parts {
                    for _ in 0..blocks {
                        let size = reader.symbol(dc)?;
                        reader.skip(size.into())?;
                    }
                }
                Ok(())
            }
            Self::DcRefine { blocks } => reader.skip(*blocks),
            Self::AcFirst(band, nonzero) => band.read_first(reader, &mut nonzero[unit]),
            Self::AcRefine(band, nonzero) => band.read_refinement(reader, &mut nonzero[unit]),
        }
    }

    /// At a restart marker everything that reaches from one unit to the next begins anew.
    pub(super) const fn restart(&mut self) {
        match self {
            Self::Sequential(_) | Self::DcFirst(_) | Self::DcRefine { .. } => {}
            Self::AcFirst(band, _) | Self::AcRefine(band, _) => band.empty_blocks = 0,
        }
    }
}

fn read_whole_block(reader: &mut BitReader<'_>, dc: &HuffmanTable, ac: &HuffmanTable) -> Result<(), Fault> {
    let size = reader.symbol(dc)?;
    reader.skip(size.into())?;
    let mut index = 1;
    while index < COEFFICIENTS {
        let (zeros, size) = split(reader.symbol(ac)?);
        if size == 0 {
            if zeros != SIXTEEN_ZEROS {
                break;
            }
            // Zeros past the end of the block are harmless, and there are encoders that write them.
            index += 16;
            continue;
        }
        index += usize::from(zeros);
        if index >= COEFFICIENTS {
            return Err(Fault::CoefficientOverflow);
        }
        reader.skip(size.into())?;
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
    /// So many blocks from the next one on bring nothing new (T.81, G.1.2.2).
    empty_blocks: u32,
}

impl<'a> Band<'a> {
    /// `first` to `last`, 1 to 63.
    pub(super) fn new(first: u8, last: u8, table: &'a HuffmanTable) -> Self {
        Self { first: first.into(), last: last.into(), table, empty_blocks: 0 }
    }

    fn read_first(&mut self, reader: &mut BitReader<'_>, nonzero: &mut u64) -> Result<(), Fault> {
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
            reader.skip(size.into())?;
            *nonzero |= 1 << index;
            index += 1;
        }
        Ok(())
    }

    /// The number of blocks, this one included, that bring nothing from here on.
    fn read_empty_blocks(reader: &mut BitReader<'_>, size: u8) -> Result<u32, Fault> {
        Ok((1 << size) + reader.number(size.into())?)
    }

    /// Between the new coefficients, each old one that is not zero has a correction bit.
    fn read_refinement(&mut self, reader: &mut BitReader<'_>, nonzero: &mut u64) -> Result<(), Fault> {
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
            reader.skip(size.into())?;
            let place = self.zero_after(index, zeros, *nonzero);
            if size == 1 && place.is_none() {
                return Err(Fault::CoefficientOverflow);
            }
            let end = place.unwrap_or(self.last);
            reader.skip((*nonzero & mask(index, end)).count_ones())?;
            if size == 1 {
                *nonzero |= 1 << end;
            }
            index = end + 1;
        }
        if self.empty_blocks > 0 {
            if index <= self.last {
                reader.skip((*nonzero & mask(index, self.last)).count_ones())?;
            }
            self.empty_blocks -= 1;
        }
        Ok(())
    }

    /// The coefficient at or after `index` that is zero so far and has `zeros` such before it.
    fn zero_after(&self, index: u32, zeros: u8, nonzero: u64) -> Option<u32> {
        let mut place = index + u32::from(zeros);
        // Each coefficient on the way that is not zero pushes the place one further. Its correction
        // bit pays for the step, so that the work stays in proportion to the data.
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
