//! Quotation marks of a file of CSV (contract 8.3.14). The reader of CSV makes cells of whatever comes, so a mark without
//! its pair would make one cell of other lines.

use std::error::Error;
use std::fmt;
use std::io::{self, Read};

use domain::strays::shows_nothing;
use domain::text;
use domain::text::Text;

/// The most bytes of a character.
const UTF8_BYTES_MAX: u64 = 4;

/// A quoted cell that is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QuoteFault {
    /// The line where its record begins, as editors count.
    pub(crate) line: u64,
    cause: QuoteCause,
}

/// Why a quoted cell is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QuoteCause {
    /// The file ends in it.
    Unclosed,
    /// It goes on behind the quote that closes it, with this character. `None` where its bytes are no UTF-8.
    TextBehind(Option<char>),
}

impl QuoteFault {
    /// The fault that ended the bytes of a [`QuoteCheck`].
    pub(crate) fn of(error: &csv::Error) -> Option<Self> {
        let csv::ErrorKind::Io(error) = error.kind() else { return None };
        error.get_ref()?.downcast_ref::<Self>().copied()
    }

    /// The fault in words.
    pub(crate) fn text(self) -> Text {
        match self.cause {
            QuoteCause::Unclosed => text!("a cell opens with a quote that nothing closes"),
            // Who looks at the line sees no text there.
            QuoteCause::TextBehind(Some(character)) if shows_nothing(character) => {
                let code_point = format!("U+{:04X}", u32::from(character));
                text!(
                    "a quoted cell has text behind its quote: the unseen character {code_point}",
                    code_point
                )
            }
            QuoteCause::TextBehind(_) => text!("a quoted cell has text behind its quote"),
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
    /// The line of the next byte, from 1.
    line: u64,
    /// The line where the present record begins. `None` between two records, where lines may be empty.
    record: Option<u64>,
    /// What ended the bytes before the end of the source.
    ended: Option<QuoteCause>,
}

impl<R> QuoteCheck<R> {
    pub(crate) fn new(source: R, separator: u8) -> Self {
        Self { source, separator, place: QuotePlace::FileStart, line: 1, record: None, ended: None }
    }

    /// Passes a byte. False for text behind a quoted cell.
    fn passes(&mut self, byte: u8) -> bool {
        let Some(place) = self.place.after(byte, self.separator) else { return false };
        let ends_line = matches!(byte, b'\r' | b'\n');
        if !ends_line {
            self.record.get_or_insert(self.line);
        } else if place != QuotePlace::Quoted {
            self.record = None;
        }
        self.line += u64::from(byte == b'\n');
        self.place = place;
        true
    }

    fn fault(&self, cause: QuoteCause) -> io::Error {
        io::Error::other(QuoteFault { line: self.record.unwrap_or(self.line), cause })
    }
}

impl<R: Read> Read for QuoteCheck<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(cause) = self.ended {
            return Err(self.fault(cause));
        }
        let read = self.source.read(buffer)?;
        if read == 0 && !buffer.is_empty() && self.place == QuotePlace::Quoted {
            return Err(self.fault(QuoteCause::Unclosed));
        }
        let Some(good) = buffer[..read].iter().position(|byte| !self.passes(*byte)) else {
            return Ok(read);
        };
        let cause = QuoteCause::TextBehind(first_character(&buffer[good..read], &mut self.source));
        self.ended = Some(cause);
        // What is before it belongs to lines that are read first.
        if good == 0 { Err(self.fault(cause)) } else { Ok(good) }
    }
}

/// The character at the beginning of these bytes, which go on in the source. `None` where they are no UTF-8.
fn first_character(begins: &[u8], source: &mut impl Read) -> Option<char> {
    let mut bytes = Vec::new();
    begins.chain(source).take(UTF8_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    bytes.utf8_chunks().next()?.valid().chars().next()
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
    fn a_quote_without_its_pair_is_a_fault_of_its_line() {
        let unclosed = |line| Some(QuoteFault { line, cause: QuoteCause::Unclosed });
        let behind = |line, first| Some(QuoteFault { line, cause: QuoteCause::TextBehind(first) });
        for (file, expected) in [
            ("a,b\n\"x\",\"y\"\n", None),
            ("\u{feff}\"a\",b\n", None),
            ("a,\"x\r\ny\",\"\"\"z\"\"\",\"\"\n", None),
            ("a,5\" gun,=\"1\", \"x\"\n", None),
            ("a,\"x\" ,\"y\"\t\r\n\"z\"", None),
            ("", None),
            ("a,b\nx,\"y\nz,1\n", unclosed(2)),
            ("a,b\r\nx,\"Gold", unclosed(2)),
            ("\r\n\na,b\n\nx,\"Gold\"\"", unclosed(5)),
            ("\u{feff}\"a,b\n", unclosed(1)),
            ("\u{feff}\n# note\r\n\"a,b\n", unclosed(3)),
            ("a,b\n\"a1\"x,1\n", behind(2, Some('x'))),
            ("a,b\n\"5\" gun\",1\n", behind(2, Some('g'))),
            ("a,\"b\nc\"\n\"5\" \"gun\",1\n", behind(3, Some('"'))),
            ("a,b\nx,\"y\nz,\"w\"\n", behind(2, Some('w'))),
            ("a,b\n\"x\"\u{a0},1\n", behind(2, Some('\u{a0}'))),
            ("a,b\n\"x\" \u{3000}", behind(2, Some('\u{3000}'))),
            ("a,b\n\"x\"\u{1f600}\u{a0}\n", behind(2, Some('\u{1f600}'))),
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

    /// Rule 8.3.14: a character that nobody sees is named, because the line looks as if nothing were there.
    #[test]
    fn an_unseen_character_behind_a_quote_is_named() {
        for (behind, expected) in [
            ("\u{a0}".as_bytes(), ": the unseen character U+00A0"),
            ("\u{3000}x".as_bytes(), ": the unseen character U+3000"),
            (" \u{200b}".as_bytes(), ": the unseen character U+200B"),
            (b"\0", ": the unseen character U+0000"),
            ("\u{e0001}".as_bytes(), ": the unseen character U+E0001"),
            (b"x\xc2\xa0", ""),
            // The no-break space of Latin-1 is no UTF-8.
            (b"\xa0", ""),
        ] {
            let file = [&b"a,\"b\""[..], behind, b",c\n"].concat();
            let mut read = Vec::new();
            let error = QuoteCheck::new(file.as_slice(), b',').read_to_end(&mut read).unwrap_err();
            let fault = QuoteFault::of(&error.into()).unwrap().text().english();
            assert_eq!(fault, format!("a quoted cell has text behind its quote{expected}"), "{behind:?}");
        }
    }
}
