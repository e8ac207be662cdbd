//! Reads the data of a scan to its end (T.81, F.2.2 and G.2).

use super::bits::{BitReader, Fault};
use super::frame::{Component, Frame};
use super::huffman::HuffmanTable;
use super::scan::{Scan, Tables};

/// Coefficients in a block, the mean among them.
const COEFFICIENTS: u32 = 64;
/// A run of 15 zeros and a size of 0 stand for sixteen zeros.
const SIXTEEN_ZEROS: u8 = 15;

/// Takes the coefficients of a picture as they are read.
///
/// A verdict has no use for them ([`Nothing`]) and then pays nothing for them; there is one reader
/// all the same, so that what is accepted and what is shown cannot differ.
pub(super) trait Sink {
    /// Whether scans that bring but details (AC) of this component have to be read at all.
    fn wants_details(&self, frame: &Frame, component: &Component) -> bool;
    /// What follows, up to the next call, is the data of this scan.
    fn begin_scan(&mut self, scan: &Scan, frame: &Frame, tables: &Tables);
    /// The scan goes on behind a restart marker.
    fn restart(&mut self);
    /// What follows is block number `block` of the part `part` of the scan in its unit `unit`.
    fn begin_block(&mut self, part: usize, unit: usize, block: u32);
    /// The mean (DC), as the difference to the block before it.
    fn mean(&mut self, difference: i32);
    /// One more bit of the mean.
    fn mean_bit(&mut self, bit: u32);
    /// A detail (AC), 1 to 63 in the order of the file, in units of the lowest bit of the scan.
    fn detail(&mut self, index: u32, value: i32);
    /// Reads one bit for each detail that is set in `details`, the lowest first: whether its
    /// absolute value has the lowest bit of the scan.
    fn correct(&mut self, reader: &mut BitReader<'_>, details: u64) -> Result<(), Fault>;
}

/// Takes coefficients and keeps none.
pub(super) struct Nothing;

impl Sink for Nothing {
    /// They are judged too.
    fn wants_details(&self, _: &Frame, _: &Component) -> bool {
        true
    }
    fn begin_scan(&mut self, _: &Scan, _: &Frame, _: &Tables) {}
    fn restart(&mut self) {}
    fn begin_block(&mut self, _: usize, _: usize, _: u32) {}
    fn mean(&mut self, _: i32) {}
    fn mean_bit(&mut self, _: u32) {}
    fn detail(&mut self, _: u32, _: i32) {}
    fn correct(&mut self, reader: &mut BitReader<'_>, details: u64) -> Result<(), Fault> {
        reader.skip(details.count_ones())
    }
}

/// How the units of a scan are coded. The number beside a table is how many blocks of a unit it is
/// for.
pub(super) enum Coding<'a> {
    /// Whole blocks, with the tables for their means (DC) and their details (AC).
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
    pub(super) fn read_unit<S: Sink>(
        &mut self,
        reader: &mut BitReader<'_>,
        unit: usize,
        sink: &mut S,
    ) -> Result<(), Fault> {
        match self {
            Self::Sequential(parts) => {
                for (part, &(blocks, dc, ac)) in parts.iter().enumerate() {
                    for block in 0..blocks {
                        sink.begin_block(part, unit, block);
                        read_mean(reader, dc, sink)?;
                        read_details(reader, ac, sink)?;
                    }
                }
                Ok(())
            }
            Self::DcFirst(parts) => {
                for (part, &(blocks, dc)) in parts.iter().enumerate() {
                    for block in 0..blocks {
                        sink.begin_block(part, unit, block);
                        read_mean(reader, dc, sink)?;
                    }
                }
                Ok(())
            }
            Self::DcRefine(parts) => {
                for (part, &blocks) in parts.iter().enumerate() {
                    for block in 0..blocks {
                        sink.begin_block(part, unit, block);
                        sink.mean_bit(reader.number(1)?);
                    }
                }
                Ok(())
            }
            Self::AcFirst(band, nonzero) => {
                sink.begin_block(0, unit, 0);
                band.read_first(reader, &mut nonzero[unit], sink)
            }
            Self::AcRefine(band, nonzero) => {
                sink.begin_block(0, unit, 0);
                band.read_refinement(reader, &mut nonzero[unit], sink)
            }
        }
    }

    /// At a restart marker everything that reaches from one unit to the next begins anew.
    pub(super) const fn restart(&mut self) {
        match self {
            Self::Sequential(_) | Self::DcFirst(_) | Self::DcRefine(_) => {}
            Self::AcFirst(band, _) | Self::AcRefine(band, _) => band.empty_blocks = 0,
        }
    }
}

fn read_mean<S: Sink>(reader: &mut BitReader<'_>, dc: &HuffmanTable, sink: &mut S) -> Result<(), Fault> {
    let size = reader.symbol(dc)?;
    sink.mean(read_value(reader, size)?);
    Ok(())
}

/// A number of `size` bits, at most 15 (T.81, F.2.2.1): half of them are below zero.
fn read_value(reader: &mut BitReader<'_>, size: u8) -> Result<i32, Fault> {
    let bits = reader.number(size.into())?.cast_signed();
    let below_zero = size > 0 && bits >> (size - 1) == 0;
    Ok(if below_zero { bits - (1 << size) + 1 } else { bits })
}

fn read_details<S: Sink>(reader: &mut BitReader<'_>, ac: &HuffmanTable, sink: &mut S) -> Result<(), Fault> {
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
        index += u32::from(zeros);
        if index >= COEFFICIENTS {
            return Err(Fault::CoefficientOverflow);
        }
        sink.detail(index, read_value(reader, size)?);
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

    fn read_first<S: Sink>(
        &mut self,
        reader: &mut BitReader<'_>,
        nonzero: &mut u64,
        sink: &mut S,
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
            sink.detail(index, read_value(reader, size)?);
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
    fn read_refinement<S: Sink>(
        &mut self,
        reader: &mut BitReader<'_>,
        nonzero: &mut u64,
        sink: &mut S,
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
            sink.correct(reader, *nonzero & mask(index, end))?;
            if size == 1 {
                sink.detail(end, value);
                *nonzero |= 1 << end;
            }
            index = end + 1;
        }
        if self.empty_blocks > 0 {
            if index <= self.last {
                sink.correct(reader, *nonzero & mask(index, self.last))?;
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
