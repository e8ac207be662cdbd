//! Reads a JPEG from its first marker to its last.

use super::bits::{BitReader, JpegFault, marker_at};
use super::coefficients::Coefficients;
use super::entropy::{Coding, ScanData};
use super::frame::{COEFFICIENTS, Frame};
use super::huffman::HuffmanTable;
use super::refusals::{corrupt, fault, truncated, unsupported};
use super::scan::Scan;
use super::segments::{AppSegments, END};
use super::tables::Tables;
use crate::verdict::Unacceptable;

/// The start marker.
const START: [u8; 2] = [0xff, 0xd8];
/// The start marker and the first byte of the marker that must follow.
pub(crate) const FIRST_BYTES: [u8; 3] = [0xff, 0xd8, 0xff];

/// An honest encoder makes about ten. A file with thousands keeps a decoder busy for minutes.
const SCANS_MAX: usize = 100;
/// Bytes that may be left over between the end of a scan's data and the next marker. Some encoders
/// pad their data to whole words, and libjpeg drops up to so many without a warning.
const SCAN_PADDING_BYTES_MAX: usize = 7;
/// A mean (DC) has at most so many bits.
const DC_SIZE_MAX: u8 = 15;

/// The data that has been read so far.
#[derive(Default)]
pub(super) struct Decoder<'a> {
    bytes: &'a [u8],
    /// Offset of the next byte to read.
    pub(super) position: usize,
    tables: Tables,
    frame: Option<Frame>,
    /// Units between two restart markers; 0 for no such markers.
    restart_interval: u32,
    /// The end of the data of each scan.
    scan_ends: Vec<usize>,
    pub(super) coefficients: Coefficients,
    pub(super) segments: AppSegments<'a>,
}

impl<'a> Decoder<'a> {
    /// `bytes` begin with [`FIRST_BYTES`]. Keeps the coefficients that a picture of `side_max` pixels
    /// across and down needs.
    pub(super) fn new(bytes: &'a [u8], side_max: u32) -> Self {
        let coefficients = Coefficients::new(side_max);
        Self { bytes, position: START.len(), coefficients, ..Self::default() }
    }

    /// Reads up to the end marker. Gives the frame, of which nothing is missing.
    pub(super) fn read_to_end(&mut self) -> Result<Frame, Unacceptable> {
        loop {
            let marker = self.read_marker()?;
            match marker {
                END => break,
                0xc0..=0xc2 => self.read_frame(marker == 0xc2)?,
                0xc4 => self.read_huffman_tables()?,
                0xda => self.read_scan()?,
                0xdb => self.read_quantization_tables()?,
                0xdd => self.read_restart_interval()?,
                // Restart markers that no scan asked for, and TEM, stand alone and mean nothing.
                0xd0..=0xd7 | 0x01 => {}
                // Application data, comments, and what only other kinds of JPEG need (DNL, DAC).
                0xe0..=0xef | 0xfe | 0xdc | 0xcc => {
                    let body = self.skip_segment()?;
                    if self.scan_ends.is_empty() {
                        self.segments.note(marker, body);
                    }
                }
                0xd8 => return Err(corrupt("a second start marker stands inside it")),
                other => return Err(unsupported(other)),
            }
        }
        let mut frame =
            self.frame.take().ok_or_else(|| truncated("its end marker comes before any picture"))?;
        frame.check_complete()?;
        // They may be most of the memory.
        frame.components.iter_mut().for_each(|component| component.nonzero = Vec::new());
        Ok(frame)
    }

    /// Copies the picture, which was read to its end, without its metadata.
    pub(super) fn without_metadata(mut self) -> Result<Vec<u8>, Unacceptable> {
        let mut contents = Vec::with_capacity(self.position);
        contents.extend(START);
        contents.extend(self.segments.to_bytes());
        self.position = START.len();
        let mut scan_ends = std::mem::take(&mut self.scan_ends).into_iter();
        loop {
            let marker = self.read_marker()?;
            let start = self.position;
            match marker {
                END => break,
                0xd0..=0xd7 | 0x01 => {}
                0xda => self.position = scan_ends.next().unwrap_or(start),
                _ => drop(self.skip_segment()?),
            }
            // A decoder reads these. Everything else describes the picture, or means nothing.
            if matches!(marker, 0xc0..=0xc2 | 0xc4 | 0xda | 0xdb | 0xdd) {
                contents.extend([0xff, marker]);
                contents.extend_from_slice(&self.bytes[start..self.position]);
            }
        }
        contents.extend([0xff, END]);
        Ok(contents)
    }

    /// The next marker. Any number of 0xff may stand before it.
    fn read_marker(&mut self) -> Result<u8, Unacceptable> {
        match (marker_at(self.bytes, self.position), self.bytes.get(self.position)) {
            (Some((offset, marker)), _) if marker != 0 => {
                self.position = offset + 1;
                Ok(marker)
            }
            (None, None | Some(0xff)) => Err(truncated("its end marker is missing")),
            (_, _) => Err(corrupt(format!("no marker stands at byte {}, where one is due", self.position))),
        }
    }

    /// The body of the segment whose marker was just read.
    fn read_segment(&mut self) -> Result<&'a [u8], Unacceptable> {
        let rest = &self.bytes[self.position..];
        let Some((length, body)) = rest.split_first_chunk::<2>() else {
            return Err(truncated("it ends inside the head of a segment"));
        };
        // The length counts its own two bytes.
        let Some(length) = usize::from(u16::from_be_bytes(*length)).checked_sub(2) else {
            return Err(corrupt(format!("the segment at byte {} has no length", self.position)));
        };
        let body =
            body.get(..length).ok_or_else(|| truncated("it ends inside a segment before its last scan"))?;
        self.position += 2 + length;
        Ok(body)
    }

    /// The body of a segment that the picture does without. If its length does not even count its own
    /// two bytes, the segment ends there, as in libjpeg.
    fn skip_segment(&mut self) -> Result<&'a [u8], Unacceptable> {
        if let Some(&[0, 0 | 1]) = self.bytes[self.position..].first_chunk::<2>() {
            self.position += 2;
            return Ok(&[]);
        }
        self.read_segment()
    }

    fn read_frame(&mut self, progressive: bool) -> Result<(), Unacceptable> {
        let body = self.read_segment()?;
        if self.frame.is_some() {
            return Err(corrupt("it has a second frame header"));
        }
        self.frame = Some(Frame::parse(body, progressive)?);
        Ok(())
    }

    fn read_huffman_tables(&mut self) -> Result<(), Unacceptable> {
        let mut body = self.read_segment()?;
        while let Some((&place, rest)) = body.split_first() {
            let too_short = || corrupt("a Huffman table is longer than its segment");
            let (counts, rest) = rest.split_first_chunk::<16>().ok_or_else(too_short)?;
            let total = counts.iter().map(|&count| usize::from(count)).sum();
            let (symbols, rest) = rest.split_at_checked(total).ok_or_else(too_short)?;
            if total > 256 {
                return Err(corrupt(format!("a Huffman table has {total} codes; 256 are the most")));
            }
            let table = HuffmanTable::new(counts, symbols)
                .ok_or_else(|| corrupt("a Huffman table has more codes than there can be"))?;
            match (place >> 4, place & 15) {
                (0, _) if table.symbol_max() > DC_SIZE_MAX => {
                    return Err(corrupt("a Huffman table for means (DC) has a symbol above 15"));
                }
                (0, slot @ 0..=3) => self.tables.dc[usize::from(slot)] = Some(table),
                (1, slot @ 0..=3) => self.tables.ac[usize::from(slot)] = Some(table),
                _ => return Err(corrupt(format!("there is no Huffman table {place:02x}"))),
            }
            body = rest;
        }
        Ok(())
    }

    fn read_quantization_tables(&mut self) -> Result<(), Unacceptable> {
        let mut body = self.read_segment()?;
        while let Some((&place, rest)) = body.split_first() {
            let (wide, slot) = (place >> 4, place & 15);
            if wide > 1 || slot > 3 {
                return Err(corrupt(format!("there is no quantization table {place:02x}")));
            }
            let too_short = || corrupt("a quantization table is longer than its segment");
            let (steps, rest) = rest.split_at_checked(COEFFICIENTS << wide).ok_or_else(too_short)?;
            let step = |index| match wide {
                0 => u16::from(steps[index]),
                _ => u16::from_be_bytes([steps[2 * index], steps[2 * index + 1]]),
            };
            self.tables.quantization[usize::from(slot)] = Some(std::array::from_fn(step));
            body = rest;
        }
        Ok(())
    }

    fn read_restart_interval(&mut self) -> Result<(), Unacceptable> {
        let body = self.read_segment()?;
        let interval = body.try_into().map_err(|_| {
            corrupt(format!("its restart interval is {} bytes long; 2 are expected", body.len()))
        })?;
        self.restart_interval = u16::from_be_bytes(interval).into();
        Ok(())
    }

    fn read_scan(&mut self) -> Result<(), Unacceptable> {
        let body = self.read_segment()?;
        let frame = self.frame.as_mut().ok_or_else(|| corrupt("a scan comes before the frame header"))?;
        if self.scan_ends.len() == SCANS_MAX {
            return Err(Unacceptable::TooManyScans { scans_max: SCANS_MAX });
        }
        let scan = Scan::parse(body, frame)?;
        let (across, down) = scan.units(frame);
        let side = frame.side;
        self.coefficients.begin_scan(frame, &self.tables, &scan);
        let mut coding = scan.begin(frame, &self.tables)?;
        let bits = BitReader::new(self.bytes, self.position);
        let mut data = ScanData { bits, coefficients: &mut self.coefficients };
        let read = read_units(&mut coding, &mut data, across * down, self.restart_interval);
        read.map_err(|(unit, found)| {
            let row = unit / across * side / down;
            fault(found, data.bits.next_marker(), row, side)
        })?;
        let left = data.bits.bytes_left();
        if left > SCAN_PADDING_BYTES_MAX {
            return Err(corrupt(format!("{left} bytes follow the last row of a scan")));
        }
        self.position = data.bits.position();
        // Restart markers that follow the last row belong to the data of the scan.
        while let Some((offset, 0xd0..=0xd7)) = marker_at(self.bytes, self.position) {
            self.position = offset + 1;
        }
        self.scan_ends.push(self.position);
        Ok(())
    }
}

/// Reads all units of a scan. On failure gives the number of the unit that could not be read.
fn read_units(
    coding: &mut Coding<'_>,
    data: &mut ScanData<'_>,
    units: u32,
    restart_interval: u32,
) -> Result<(), (u32, JpegFault)> {
    let mut until_restart = restart_interval;
    let mut due = 0;
    for unit in 0..units {
        if restart_interval > 0 && until_restart == 0 {
            data.bits.restart(due).map_err(|fault| (unit, fault))?;
            coding.restart();
            data.coefficients.restart();
            due = (due + 1) % 8;
            until_restart = restart_interval;
        }
        data.coefficients.begin_unit(unit);
        coding.read_unit(data, unit as usize).map_err(|fault| (unit, fault))?;
        until_restart = until_restart.saturating_sub(1);
    }
    Ok(())
}
