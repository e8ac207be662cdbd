//! Quotation marks of a file of CSV (contract 8.3.14). The reader of CSV makes cells of whatever comes, so a mark without
//! its pair would make one cell of other lines.

use std::error::Error;
use std::fmt;
use std::io::{self, Read};

use domain::text;
use domain::text::Text;

/// Why a quoted cell is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QuoteFault {
    /// The file ends in it.
    Unclosed,
    /// It goes on behind the quote that closes it.
    TextBehind,
}

impl QuoteFault {
    /// The fault that ended the bytes of a [`QuoteCheck`].
    pub(crate) fn of(error: &csv::Error) -> Option<Self> {
        let csv::ErrorKind::Io(error) = error.kind() else { return None };
        error.get_ref()?.downcast_ref::<Self>().copied()
    }

    /// The fault in words.
    pub(crate) fn text(self) -> Text {
        match self {
            Self::Unclosed => text!("a cell opens with a quote that nothing closes"),
            Self::TextBehind => text!("a quoted cell has text behind its quote"),
        }
    }
}

impl fmt::Display for QuoteFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text().english())
    }
}

impl Error for QuoteFault {}

/// Where a byte of CSV stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QuotePlace {
    /// At the beginning of the file, where a byte-order mark may stand.
    FileStart,
    /// At the beginning of a cell.
    CellStart,
    /// In a cell without quotes around it. A quote in it is a sign as all others are.
    Bare,
    /// In a quoted cell.
    Quoted,
    /// Behind a quote of a quoted cell. Another one makes a quote of both.
    Closed,
    /// Behind a quoted cell and a blank.
    Behind,
}

impl QuotePlace {
    /// The place behind a byte. `None` where the byte is text behind a quoted cell.
    fn after(self, byte: u8, separator: u8) -> Option<Self> {
        Some(match (self, byte) {
            (Self::Quoted, b'"') => Self::Closed,
            (Self::Quoted, _) | (Self::FileStart | Self::CellStart | Self::Closed, b'"') => Self::Quoted,
            (_, byte) if byte == separator || matches!(byte, b'\r' | b'\n') => Self::CellStart,
            (Self::FileStart, 0xef | 0xbb | 0xbf) => Self::FileStart,
            (Self::Closed | Self::Behind, b' ' | b'\t') => Self::Behind,
            (Self::Closed | Self::Behind, _) => return None,
            _ => Self::Bare,
        })
    }
}

/// The bytes of a file of CSV, which end with an error at a [`QuoteFault`]. All lines before that line are read, so the
/// error is of the line that is read next.
#[derive(Debug)]
pub(crate) struct QuoteCheck<R> {
    source: R,
    separator: u8,
    place: QuotePlace,
    fault: Option<QuoteFault>,
}

impl<R> QuoteCheck<R> {
    pub(crate) fn new(source: R, separator: u8) -> Self {
        Self { source, separator, place: QuotePlace::FileStart, fault: None }
    }
}

impl<R: Read> Read for QuoteCheck<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(fault) = self.fault {
            return Err(io::Error::other(fault));
        }
        let read = self.source.read(buffer)?;
        if read == 0 && !buffer.is_empty() && self.place == QuotePlace::Quoted {
            return Err(io::Error::other(QuoteFault::Unclosed));
        }
        for (good, byte) in buffer[..read].iter().enumerate() {
            let Some(place) = self.place.after(*byte, self.separator) else {
                self.fault = Some(QuoteFault::TextBehind);
                // What is before it belongs to lines that are read first.
                return if good == 0 { Err(io::Error::other(QuoteFault::TextBehind)) } else { Ok(good) };
            };
            self.place = place;
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A source that gives so many bytes at once.
    struct InPieces<'a>(&'a [u8], usize);

    impl Read for InPieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = buffer.len().min(self.1);
            self.0.read(&mut buffer[..length])
        }
    }

    /// Rule 8.3.14: quotes stand around a whole cell, wherever the pieces of a file end.
    #[test]
    fn a_quote_without_its_pair_is_a_fault() {
        let unclosed = Some(QuoteFault::Unclosed);
        let behind = Some(QuoteFault::TextBehind);
        for (file, expected) in [
            ("a,b\n\"x\",\"y\"\n", None),
            ("\u{feff}\"a\",b\n", None),
            ("a,\"x\r\ny\",\"\"\"z\"\"\",\"\"\n", None),
            ("a,5\" gun,=\"1\", \"x\"\n", None),
            ("a,\"x\" ,\"y\"\t\r\n\"z\"", None),
            ("", None),
            ("a,b\nx,\"y\nz,1\n", unclosed),
            ("a,b\nx,\"Gold", unclosed),
            ("a,b\nx,\"Gold\"\"", unclosed),
            ("\u{feff}\"a,b\n", unclosed),
            ("a,b\n\"a1\"x,1\n", behind),
            ("a,b\n\"5\" gun\",1\n", behind),
            ("a,b\n\"5\" \"gun\",1\n", behind),
            ("a,b\nx,\"y\nz,\"w\"\n", behind),
        ] {
            // Not 3: the reader of CSV takes a byte-order mark that comes alone for the end of the file.
            for length in [1, 2, 4, 5, 100] {
                let mut reader = csv::ReaderBuilder::new()
                    .has_headers(false)
                    .flexible(true)
                    .from_reader(QuoteCheck::new(InPieces(file.as_bytes(), length), b','));
                let fault = reader.byte_records().find_map(Result::err);
                assert_eq!(fault.as_ref().and_then(QuoteFault::of), expected, "{file:?} by {length}");
            }
        }
    }
}
