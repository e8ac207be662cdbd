//! Reads a JPEG from its first marker to its last.

use super::bits::{BitReader, Fault, marker_at};
use super::coefficients::Coefficients;
use super::entropy::Coding;
use super::frame::Frame;
use super::huffman::HuffmanTable;
use super::refusals::{corrupt, fault, truncated, unsupported};
use super::scan::Scan;
use super::segments::END;
use super::tables::Tables;
use crate::verdict::Unacceptable;

/// The start marker and the first byte of the marker that must follow.
pub(crate) const FIRST_BYTES: [u8; 3] = [0xff, 0xd8, 0xff];

/// An honest encoder makes about ten. A file with thousands keeps a decoder busy for minutes.
const SCANS_MAX: u32 = 100;
/// Bytes that may be left over between the end of a scan's data and the next marker. Some encoders
/// pad their data to whole words, and libjpeg drops up to so many without a warning.
const SCAN_PADDING_BYTES_MAX: usize = 7;
/// A mean (DC) has at most so many bits.
const DC_SIZE_MAX: u8 = 15;

/// What has been read so far.
pub(super) struct Decoder<'a> {
    bytes: &'a [u8],
    /// Offset of the next byte to read.
    position: usize,
    tables: Tables,
    frame: Option<Frame>,
    /// Units between two restart markers; 0 for no such markers.
    restart_interval: u32,
    scans: u32,
    coefficients: Coefficients,
}

impl<'a> Decoder<'a> {
    /// `bytes` begin with [`FIRST_BYTES`]. Keeps the coefficients that a picture of `side_max` pixels
    /// across and down needs.
    pub(super) fn new(bytes: &'a [u8], side_max: u32) -> Self {
        Self {
            bytes,
            // The start marker is two bytes long.
            position: 2,
            tables: Tables::default(),
            frame: None,
            restart_interval: 0,
            scans: 0,
            coefficients: Coefficients::new(side_max),
        }
    }

    /// Gives the frame, of which nothing is missing, the coefficients that are kept, and the length of
    /// the picture in bytes.
    pub(super) fn read_to_end(mut self) -> Result<(Frame, Coefficients, usize), Unacceptable> {
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
                0xe0..=0xef | 0xfe | 0xdc | 0xcc => self.skip_segment()?,
                0xd8 => return Err(corrupt("a second start marker stands inside it")),
                other => return Err(unsupported(other)),
            }
        }
        let mut frame = self.frame.ok_or_else(|| truncated("its end marker comes before any picture"))?;
        frame.check_complete()?;
        // They may be most of the memory.
        frame.components.iter_mut().for_each(|component| component.nonzero = Vec::new());
        Ok((frame, self.coefficients, self.position))
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

    /// Steps over a segment that nobody needs. If its length does not even count its own two bytes, the
    /// segment ends there, as in libjpeg.
    fn skip_segment(&mut self) -> Result<(), Unacceptable> {
        if let Some(&[0, 0 | 1]) = self.bytes[self.position..].first_chunk::<2>() {
            self.position += 2;
            return Ok(());
        }
        self.read_segment().map(|_| ())
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
            let table;
            (table, body) = if wide == 1 {
                let (words, rest) = rest.split_first_chunk::<128>().ok_or_else(too_short)?;
                (
                    std::array::from_fn(|index| u16::from_be_bytes([words[2 * index], words[2 * index + 1]])),
                    rest,
                )
            } else {
                let (bytes, rest) = rest.split_first_chunk::<64>().ok_or_else(too_short)?;
                (bytes.map(u16::from), rest)
            };
            self.tables.quantization[usize::from(slot)] = Some(table);
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
        self.scans += 1;
        if self.scans > SCANS_MAX {
            return Err(Unacceptable::TooManyScans { scans_max: SCANS_MAX });
        }
        let scan = Scan::parse(body, frame)?;
        let (across, down) = scan.units(frame);
        let side = frame.side;
        let components: Vec<usize> = scan.parts.iter().map(|part| part.index).collect();
        self.coefficients.begin_scan(frame, &self.tables, &components, scan.has_means(), scan.low);
        let mut coding = scan.begin(frame, &self.tables)?;
        let mut reader = BitReader::new(self.bytes, self.position);
        let interval = self.restart_interval;
        read_units(&mut coding, &mut reader, across * down, interval, &mut self.coefficients).map_err(
            |(unit, found)| {
                let row = unit / across * side / down;
                fault(found, reader.next_marker(), row, side)
            },
        )?;
        let left = reader.bytes_left();
        if left > SCAN_PADDING_BYTES_MAX {
            return Err(corrupt(format!("{left} bytes follow the last row of a scan")));
        }
        self.position = reader.position();
        Ok(())
    }
}

/// Reads all units of a scan. On failure gives the number of the unit that could not be read.
fn read_units(
    coding: &mut Coding<'_>,
    reader: &mut BitReader<'_>,
    units: u32,
    restart_interval: u32,
    coefficients: &mut Coefficients,
) -> Result<(), (u32, Fault)> {
    let mut until_restart = restart_interval;
    let mut due = 0;
    for unit in 0..units {
        if restart_interval > 0 && until_restart == 0 {
            reader.restart(due).map_err(|fault| (unit, fault))?;
            coding.restart();
            coefficients.restart();
            due = (due + 1) % 8;
            until_restart = restart_interval;
        }
        coefficients.begin_unit(unit);
        coding.read_unit(reader, unit as usize, coefficients).map_err(|fault| (unit, fault))?;
        until_restart = until_restart.saturating_sub(1);
    }
    Ok(())
}
