//! The header of a scan (T.81, B.2.3), and the rules for the order of scans.

use super::entropy::{Band, Coding, PartCoding};
use super::frame::{COEFFICIENTS, Frame};
use super::huffman::HuffmanTable;
use super::refusals::corrupt;
use super::tables::Tables;
use crate::verdict::Unacceptable;

/// The most blocks in a unit of a scan of several components.
const BLOCKS_PER_UNIT_MAX: u32 = 10;
/// The highest bit that a progressive scan may begin with.
const LOW_BIT_MAX: u8 = 13;

/// The header of one scan.
pub(super) struct Scan {
    pub(super) parts: Vec<ScanComponent>,
    first: u8,
    last: u8,
    /// Low bits that were missing before this scan; 0 for a first one.
    high: u8,
    /// Low bits that are missing after it.
    pub(super) low: u8,
}

/// One component of a scan.
pub(super) struct ScanComponent {
    /// Index of the component in the frame.
    pub(super) index: usize,
    /// Numbers of its Huffman tables. A scan may name any number for a table that it does not use.
    dc: u8,
    ac: u8,
}

impl Scan {
    /// Reads the body of a scan header.
    pub(super) fn parse(body: &[u8], frame: &Frame) -> Result<Self, Unacceptable> {
        let (&count, rest) = body.split_first().ok_or_else(|| corrupt("a scan header is empty"))?;
        let (pairs, tail) = rest.as_chunks::<2>();
        let (Some((&[first, last], pairs)), &[approximation]) = (pairs.split_last(), tail) else {
            return Err(corrupt("a scan header is too short"));
        };
        if !(1..=4).contains(&count) || pairs.len() != usize::from(count) {
            return Err(corrupt(format!("a scan header names {count} colours in {} bytes", body.len())));
        }
        let mut parts: Vec<ScanComponent> = Vec::with_capacity(pairs.len());
        for &[id, slots] in pairs {
            // Some encoders give all components the same number, and list them in order.
            let index = (0..frame.components.len())
                .find(|&index| {
                    frame.components[index].id == id && parts.iter().all(|part| part.index != index)
                })
                .ok_or_else(|| {
                    corrupt(format!("a scan names colour number {id}, which the frame has not"))
                })?;
            parts.push(ScanComponent { index, dc: slots >> 4, ac: slots & 15 });
        }
        let scan = Self { parts, first, last, high: approximation >> 4, low: approximation & 15 };
        scan.check_unit(frame)?;
        Ok(scan)
    }

    fn check_unit(&self, frame: &Frame) -> Result<(), Unacceptable> {
        let blocks: u32 = self.parts.iter().map(|part| frame.components[part.index].blocks_per_unit()).sum();
        if self.parts.len() > 1 && blocks > BLOCKS_PER_UNIT_MAX {
            return Err(corrupt(format!("a scan has {blocks} blocks in a unit; 10 are the most")));
        }
        Ok(())
    }

    /// Whether it brings means (DC). Otherwise it brings only details (AC), of one component.
    pub(super) const fn has_means(&self) -> bool {
        self.first == 0
    }

    /// Units of the scan, across and down.
    pub(super) fn units(&self, frame: &Frame) -> (u32, u32) {
        match self.parts.as_slice() {
            [part] => frame.blocks(&frame.components[part.index]),
            _ => frame.units(),
        }
    }

    /// Checks that the scan may come now, records what it brings, and gives the way to read it.
    pub(super) fn begin<'a>(
        &self,
        frame: &'a mut Frame,
        tables: &'a Tables,
    ) -> Result<Coding<'a>, Unacceptable> {
        for part in &self.parts {
            let slot = frame.components[part.index].quantization;
            if tables.quantization[usize::from(slot)].is_none() {
                return Err(corrupt(format!("a scan needs quantization table {slot}, which is not defined")));
            }
        }
        if frame.progressive {
            self.note_progress(frame)?;
        } else if !matches!((self.first, self.last, self.high, self.low), (0, 63 | 0, 0, 0)) {
            // The second form is not in the standard. Old encoders write it, and decoders ignore it.
            return Err(corrupt("a scan of a sequential frame has the parameters of a progressive one"));
        }
        if !self.has_means() {
            let part = &self.parts[0];
            let table = huffman(&tables.ac, "AC", part.ac)?;
            let band = Band::new(self.first, self.last, table, self.high > 0);
            return Ok(Coding::Details(band, &mut frame.components[part.index].nonzero));
        }
        let mut parts = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            if !frame.progressive {
                let bits_missing = &mut frame.components[part.index].bits_missing;
                if std::mem::replace(bits_missing, [Some(0); COEFFICIENTS])[0].is_some() {
                    return Err(corrupt(format!("colour {} is sent twice", part.index + 1)));
                }
            }
            let dc = (self.high == 0).then(|| huffman(&tables.dc, "DC", part.dc)).transpose()?;
            let ac = (!frame.progressive).then(|| huffman(&tables.ac, "AC", part.ac)).transpose()?;
            parts.push(PartCoding { blocks: self.blocks(frame, part), dc, ac });
        }
        Ok(Coding::Means(parts))
    }

    /// Each scan of a coefficient must continue where the one before stopped. The first scan of a
    /// block is that of its mean (T.81, G.1.1.1).
    fn note_progress(&self, frame: &mut Frame) -> Result<(), Unacceptable> {
        let &Self { first, last, high, low, .. } = self;
        let band_fits = if first == 0 {
            last == 0
        } else {
            first <= last && usize::from(last) < COEFFICIENTS && self.parts.len() == 1
        };
        if !band_fits || low > LOW_BIT_MAX || (high > 0 && high != low + 1) {
            return Err(corrupt(format!(
                "a progressive scan of {} colours brings coefficients {first} to {last}, bits {high} to {low}",
                self.parts.len()
            )));
        }
        let band = usize::from(first)..=usize::from(last);
        for part in &self.parts {
            let (number, bits_missing) = (part.index + 1, &mut frame.components[part.index].bits_missing);
            if first > 0 && bits_missing[0].is_none() {
                return Err(corrupt(format!("details of colour {number} come before its means")));
            }
            for (index, missing) in band.clone().zip(&mut bits_missing[band.clone()]) {
                if missing.unwrap_or(0) != high {
                    return Err(corrupt(format!(
                        "coefficient {index} of colour {number} is refined out of order (bit {low})"
                    )));
                }
                *missing = Some(low);
            }
        }
        Ok(())
    }

    /// Blocks of a component in a unit. It is one in a scan of its own.
    fn blocks(&self, frame: &Frame, part: &ScanComponent) -> u32 {
        if self.parts.len() == 1 { 1 } else { frame.components[part.index].blocks_per_unit() }
    }
}

/// The Huffman table with this number, for DC or AC.
fn huffman<'a>(
    tables: &'a [Option<HuffmanTable>; 4],
    kind: &str,
    number: u8,
) -> Result<&'a HuffmanTable, Unacceptable> {
    let table = tables.get(usize::from(number)).and_then(Option::as_ref);
    table.ok_or_else(|| corrupt(format!("a scan needs Huffman table {kind} {number}, which is not defined")))
}
