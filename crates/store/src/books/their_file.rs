//! The books of others as a file of CSV with a heading.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use csv::{ByteRecord, Position, Reader, StringRecord};

use super::bill::BillColumn;
use super::reconcile::ReconcileError;
use crate::csv_line;

const BUFFER_BYTES: usize = 256 * 1024;
/// Longest line, in bytes. A quotation mark without its pair would make one line of the rest of the file.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// Longest `biz_no` that is compared, in bytes. It must fit into a key of the database.
const NUMBER_BYTES_MAX: usize = 512;
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// A file of CSV, and the columns of it that the bill has too.
#[derive(Debug)]
pub struct TheirFile {
    path: PathBuf,
    reader: Reader<Bounded>,
    /// Where the `biz_no` stands.
    number: usize,
    /// The other columns that are compared, each with its place.
    columns: Vec<(BillColumn, usize)>,
    /// The columns that nothing is compared with.
    ignored: Vec<String>,
    record: StringRecord,
}

/// A file that gives so many bytes for a line.
#[derive(Debug)]
struct Bounded {
    file: BufReader<File>,
    left: usize,
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(self.left);
        if length == 0 && !buffer.is_empty() {
            let cause =
                format!("expected at most {LINE_BYTES_MAX} bytes; is a quotation mark without its pair?");
            return Err(io::Error::new(io::ErrorKind::InvalidData, cause));
        }
        let read = self.file.read(&mut buffer[..length])?;
        self.left -= read;
        Ok(read)
    }
}

/// A line of the file.
pub(super) struct TheirLine<'a> {
    /// Its number, which is higher than that of the line before.
    pub(super) line: u64,
    /// Its `biz_no`. It may be empty.
    pub(super) number: &'a str,
    record: &'a StringRecord,
    columns: &'a [(BillColumn, usize)],
}

impl TheirLine<'_> {
    /// Its values, in the order of the compared columns.
    pub(super) fn values(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|(_, place)| self.record.get(*place).unwrap_or_default())
    }
}

impl TheirFile {
    /// Opens a file. `map` has names of its columns, each with the column of the bill that it is; other columns have the
    /// names of the bill or are ignored.
    ///
    /// # Errors
    /// The file cannot be read, has no `biz_no`, lacks a column of `map`, or has two for one column of the bill.
    pub fn open(path: &Path, map: &[(String, BillColumn)]) -> Result<Self, ReconcileError> {
        let refused = |cause: String| ReconcileError::File(format!("{}: {cause}", path.display()));
        let file = File::open(path).map_err(|error| refused(error.to_string()))?;
        if file.metadata().is_ok_and(|of| of.is_dir()) {
            return Err(refused("it is a folder".to_owned()));
        }
        let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(Bounded {
            file: BufReader::with_capacity(BUFFER_BYTES, file),
            left: LINE_BYTES_MAX,
        });
        let mut heading = ByteRecord::new();
        reader.read_byte_record(&mut heading).map_err(|error| refused(error.to_string()))?;
        let names: Vec<String> =
            heading.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        let name = |name: &str| name.trim_start_matches(BYTE_ORDER_MARK).trim().to_owned();
        let names: Vec<String> = names.iter().map(|text| name(text)).collect();
        if let Some((missing, _)) = map.iter().find(|(theirs, _)| !names.contains(theirs)) {
            return Err(refused(format!(
                "--map: there is no column {missing}; there are {}",
                names.join(", ")
            )));
        }
        let (mut number, mut columns, mut ignored) = (None, Vec::new(), Vec::new());
        for (place, name) in names.iter().enumerate() {
            let mapped = map.iter().find(|(theirs, _)| theirs == name).map(|(_, column)| *column);
            // A column of the bill that `map` gives to another name is not this one.
            let by_name = BillColumn::parse(name).ok();
            let by_name = by_name.filter(|column| map.iter().all(|(_, mapped)| mapped != column));
            match mapped.or(by_name) {
                Some(BillColumn::BizNo) if number.is_none() => number = Some(place),
                Some(column)
                    if column != BillColumn::BizNo && columns.iter().all(|(known, _)| *known != column) =>
                {
                    columns.push((column, place));
                }
                Some(column) => return Err(refused(format!("two columns are {column}"))),
                None => ignored.push(name.clone()),
            }
        }
        // A game's entry has no ref, so there is nothing to compare.
        columns.retain(|(column, _)| *column != BillColumn::Ref);
        let number = number.ok_or_else(|| {
            refused(format!(
                "there is no column biz_no; name it with --map NAME=biz_no; there are {}",
                names.join(", ")
            ))
        })?;
        Ok(Self { path: path.to_owned(), reader, number, columns, ignored, record: StringRecord::new() })
    }

    /// The columns of the file that nothing is compared with.
    #[must_use]
    pub fn ignored(&self) -> &[String] {
        &self.ignored
    }

    /// The columns that are compared.
    pub(super) fn columns(&self) -> Vec<BillColumn> {
        self.columns.iter().map(|(column, _)| *column).collect()
    }

    /// The next line. `None` at the end.
    ///
    /// # Errors
    /// It has more or fewer columns than the heading, is no UTF-8 or is too long.
    pub(super) fn next(&mut self) -> Result<Option<TheirLine<'_>>, ReconcileError> {
        let Self { path, reader, number, columns, record, .. } = self;
        let refused = |position: &Position, cause: String| {
            ReconcileError::File(format!("{}: line {}: {cause}", path.display(), csv_line(path, position)))
        };
        reader.get_mut().left = LINE_BYTES_MAX;
        let begins = reader.position().clone();
        match reader.read_record(record) {
            Ok(false) => return Ok(None),
            Ok(true) => {}
            Err(error) => {
                let cause = match error.kind() {
                    csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
                        format!("expected {expected_len} columns, got {len}")
                    }
                    csv::ErrorKind::Utf8 { .. } => "expected UTF-8".to_owned(),
                    csv::ErrorKind::Io(error) => error.to_string(),
                    _ => error.to_string(),
                };
                return Err(refused(error.position().unwrap_or(&begins), cause));
            }
        }
        let at = record.position().unwrap_or(&begins);
        if record.as_slice().contains('\0') {
            return Err(refused(at, "expected a text without zero bytes".to_owned()));
        }
        let number = record.get(*number).unwrap_or_default().trim();
        if number.len() > NUMBER_BYTES_MAX {
            return Err(refused(at, format!("biz_no: expected at most {NUMBER_BYTES_MAX} bytes")));
        }
        Ok(Some(TheirLine { line: at.line(), number, record, columns }))
    }
}
