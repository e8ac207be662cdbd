//! Reads a JPEG (ITU-T T.81) from its first marker to its last, every scan to its end, without
//! making pixels of it (contract 5).
//!
//! Decoders that show pictures fill with grey what is not there and go on; this one is there to
//! notice. Where the standard leaves room it follows libjpeg: what that decodes without a warning
//! is accepted.

mod bits;
mod entropy;
mod frame;
mod huffman;
mod scan;
#[cfg(test)]
mod tests;

use self::bits::{BitReader, Fault, marker_at};
use self::entropy::Coding;
use self::frame::Frame;
use self::huffman::HuffmanTable;
use self::scan::{Scan, Tables};
use super::{Format, Picture, Unacceptable};

/// The start marker and the first byte of the marker that must follow.
pub(super) const FIRST_BYTES: [u8; 3] = [0xff, 0xd8, 0xff];

/// An honest encoder makes about ten; a file with thousands keeps a decoder busy for minutes.
const SCANS_MAX: u32 = 100;
/// Bytes that may be left over between the end of a scan's data and the next marker. Some encoders
/// pad their data to whole words, and libjpeg drops up to so many unseen.
const SCAN_PADDING_BYTES_MAX: usize = 7;
/// A mean (DC) has at most so many bits.
const DC_SIZE_MAX: u8 = 15;

const END: u8 = 0xd9;

/// Judges `bytes`, which begin with [`FIRST_BYTES`].
pub(super) fn inspect(bytes: &[u8]) -> Result<Picture, Unacceptable> {
    let mut decoder = Decoder::new(bytes);
    loop {
        let marker = decoder.read_marker()?;
        match marker {
            END => break,
            0xc0..=0xc2 => decoder.read_frame(marker == 0xc2)?,
            0xc4 => decoder.read_huffman_tables()?,
            0xda => decoder.read_scan()?,
            0xdb => decoder.read_quantization_tables()?,
            0xdd => decoder.read_restart_interval()?,
            // Restart markers that no scan asked for, and TEM, stand alone and mean nothing.
            0xd0..=0xd7 | 0x01 => {}
            // Application data, comments, and what only other kinds of JPEG need (DNL, DAC).
            0xe0..=0xef | 0xfe | 0xdc | 0xcc => {
                decoder.read_segment()?;
            }
            0xd8 => return Err(corrupt("a second start marker stands inside it")),
            other => return Err(unsupported(other)),
        }
    }
    let frame = decoder.frame.ok_or_else(|| truncated("its end marker comes before any picture"))?;
    frame.check_complete()?;
    Ok(Picture { format: Format::Jpeg, side: frame.side, length: decoder.position })
}

fn corrupt(detail: impl Into<String>) -> Unacceptable {
    Unacceptable::Corrupt { format: Format::Jpeg, detail: detail.into() }
}

fn truncated(detail: impl Into<String>) -> Unacceptable {
    Unacceptable::Truncated { format: Format::Jpeg, detail: detail.into() }
}

/// The markers of the kinds of JPEG that are not accepted.
fn unsupported(marker: u8) -> Unacceptable {
    let kind = match marker {
        0xc3 | 0xf7 => "lossless",
        0xc5..=0xc7 | 0xcd..=0xcf | 0xde | 0xdf => "hierarchical",
        0xc9..=0xcb => "arithmetic-coded",
        _ => return corrupt(format!("it has a marker {marker:02x} of unknown meaning")),
    };
    Unacceptable::UnsupportedJpeg { kind }
}

/// What has been read so far.
struct Decoder<'a> {
    bytes: &'a [u8],
    /// Offset of the next byte to read.
    position: usize,
    tables: Tables,
    frame: Option<Frame>,
    /// Units between two restart markers; 0 for no such markers.
    restart_interval: u32,
    scans: u32,
}

impl<'a> Decoder<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        // The start marker is two bytes long.
        Self { bytes, position: 2, tables: Tables::default(), frame: None, restart_interval: 0, scans: 0 }
    }

    /// The next marker, which any number of 0xff may precede.
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
            let length = if wide == 1 { 128 } else { 64 };
            body = rest
                .get(length..)
                .ok_or_else(|| corrupt("a quantization table is longer than its segment"))?;
            self.tables.quantization[usize::from(slot)] = true;
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
        let mut coding = scan.begin(frame, &self.tables)?;
        let mut reader = BitReader::new(self.bytes, self.position);
        read_units(&mut coding, &mut reader, across * down, self.restart_interval).map_err(
            |(unit, fault)| {
                let row = unit / across * side / down;
                explain(fault, reader.next_marker(), row, side)
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

/// Reads all units of a scan; on failure gives the number of the one that could not be read.
fn read_units(
    coding: &mut Coding<'_>,
    reader: &mut BitReader<'_>,
    units: u32,
    restart_interval: u32,
) -> Result<(), (u32, Fault)> {
    let mut until_restart = restart_interval;
    let mut due = 0;
    for unit in 0..units {
        if restart_interval > 0 && until_restart == 0 {
            reader.restart(due).map_err(|fault| (unit, fault))?;
            coding.restart();
            due = (due + 1) % 8;
            until_restart = restart_interval;
        }
        coding.read_unit(reader, unit as usize).map_err(|fault| (unit, fault))?;
        until_restart = until_restart.saturating_sub(1);
    }
    Ok(())
}

/// Puts a fault in the data of a scan into words. `next` is the marker that follows the data.
fn explain(fault: Fault, next: Option<u8>, row: u32, side: u32) -> Unacceptable {
    let at = format!("at row {row} of {side}");
    match (fault, next) {
        (Fault::OutOfBits, None | Some(END)) | (Fault::RestartMissing { found: END, .. }, _) => {
            truncated(format!("its data ends {at}"))
        }
        (Fault::OutOfBits, Some(marker)) => corrupt(format!("marker {marker:02x} interrupts its data {at}")),
        (Fault::UndefinedCode, _) => corrupt(format!("its data has an undefined code {at}")),
        (Fault::CoefficientOverflow, _) => corrupt(format!("its data overflows a block {at}")),
        (Fault::RefinementSize, _) => corrupt(format!("its data has a refinement of several bits {at}")),
        (Fault::BytesBeforeRestart, _) => {
            corrupt(format!("bytes are left over before a restart marker {at}"))
        }
        (Fault::RestartMissing { due, found }, _) => {
            corrupt(format!("marker {found:02x} stands where restart marker {due} is due {at}"))
        }
    }
}
