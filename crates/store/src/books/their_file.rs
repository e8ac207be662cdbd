//! The books of others as a file of CSV with a heading.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};
use std::path::Path;

use csv::{ByteRecord, Position, Reader, StringRecord};
use domain::body::without_mark;
use domain::period::TimeZone;
use domain::text;
use domain::text::Text;

use super::bill::SheetWords;
use super::book_column::{BookColumn, ComparedBooks, ComparedBy, FileColumn};
use super::reconcile::ReconcileError;
use crate::wallet::{
    LINE_BYTES_MAX, QuoteCheck, bare_cell, csv_fault, csv_line, fault_line, heading_fault, is_separator_line,
    not_csv, separator, shortened,
};

const BUFFER_BYTES: usize = 256 * 1024;
/// Longest `biz_no` that is compared, in bytes. It must fit into a key of the database.
const NUMBER_BYTES_MAX: usize = 512;
const BYTE_ORDER_MARK: &str = "\u{feff}";
/// Begins a line that is no part of the books, in files of some providers.
const REMARK: u8 = b'#';

/// The fault of a file that cannot be compared (contract 13.5.6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileFault<C = BookColumn> {
    /// It lacks a column that the comparison needs.
    NoColumnOfOurs {
        /// The column that it lacks.
        column: C,
        /// Their names, with commas between them.
        columns: String,
    },
    /// It lacks a column that was said to be one of the bill.
    NoColumn {
        /// The name that it lacks.
        name: String,
        /// What the column was said to be.
        column: C,
        /// The names of its columns, with commas between them.
        columns: String,
    },
    /// Two columns are this one.
    Twice(C),
    /// A line is not acceptable.
    Line {
        /// Its number, as editors count.
        line: u64,
        /// What is wrong with it.
        cause: Text,
    },
    /// The file, or its first line, cannot be read.
    Unreadable(Text),
}

impl<C: FileColumn> FileFault<C> {
    /// The column of the bill whose name in the file is at fault; `None` where the file is.
    #[must_use]
    pub fn column(&self) -> Option<C> {
        match self {
            Self::NoColumnOfOurs { column, .. } | Self::NoColumn { column, .. } => Some(*column),
            Self::Twice(_) | Self::Line { .. } | Self::Unreadable(_) => None,
        }
    }

    /// The words, without the file.
    #[must_use]
    pub fn text(&self) -> Text {
        match self {
            Self::NoColumnOfOurs { column: name, columns } => {
                text!(
                    "there is no column {name}; there are {columns}",
                    name,
                    columns = shown_columns(columns)
                )
            }
            Self::NoColumn { name, columns, .. } => {
                text!(
                    "there is no column {name}; there are {columns}",
                    name,
                    columns = shown_columns(columns)
                )
            }
            Self::Twice(column) => text!("two columns are {column}", column),
            Self::Line { line, cause } => text!("line {line}: {cause}", line, cause),
            Self::Unreadable(cause) => cause.clone(),
        }
    }
}

/// The names of columns, with commas between them, as a refusal shows them.
fn shown_columns(columns: &str) -> Text {
    let is_empty = columns.trim_matches([',', ' ']).is_empty();
    if is_empty { text!("none: the heading is empty") } else { Text::same(columns) }
}

/// A file that cannot be compared, in the words of the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRefusal<C = BookColumn> {
    file: String,
    /// What is wrong with it.
    pub fault: FileFault<C>,
}

impl<C: FileColumn> fmt::Display for FileRefusal<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, words) = (&self.file, self.fault.text().english());
        match &self.fault {
            FileFault::NoColumnOfOurs { column, columns } => {
                let words =
                    format!("there is no column {column}; name it with --map NAME={column}; there are");
                write!(f, "{file}: {words} {}", shown_columns(columns).english())
            }
            FileFault::NoColumn { .. } => write!(f, "{file}: --map: {words}"),
            FileFault::Twice(_) | FileFault::Line { .. } | FileFault::Unreadable(_) => {
                write!(f, "{file}: {words}")
            }
        }
    }
}

/// Columns, each with its place in a line.
type ColumnPlaces<C> = Vec<(C, usize)>;

/// A file of CSV, and the columns of it that the books have too.
#[derive(Debug)]
pub struct TheirFile<B: ComparedBooks = ComparedBy> {
    /// What refusals call it.
    name: String,
    /// The file once more, for the place of a line that is refused.
    file: File,
    reader: Reader<Bounded>,
    /// What is compared by.
    by: B,
    /// The column of its numbers.
    number: usize,
    /// The other columns that are compared, each with its place.
    columns: ColumnPlaces<B::Column>,
    /// The columns that nothing is compared with.
    ignored: Vec<String>,
    /// How many columns its heading has.
    width: usize,
    record: StringRecord,
    /// The time zone of times without an offset.
    zone: TimeZone,
}

/// A file that gives so many bytes for a line.
#[derive(Debug)]
struct Bounded {
    file: QuoteCheck<BufReader<File>>,
    left: usize,
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(self.left);
        if length == 0 && !buffer.is_empty() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let read = self.file.read(&mut buffer[..length])?;
        self.left -= read;
        Ok(read)
    }
}

/// A line of the file.
pub struct TheirLine<'a, C> {
    /// Its number, which is higher than that of the line before.
    pub(super) line: u64,
    /// What names it. It may be empty.
    pub(super) number: &'a str,
    record: &'a StringRecord,
    columns: &'a [(C, usize)],
}

impl<C: FileColumn> TheirLine<'_, C> {
    /// Its values, in the order of the compared columns.
    pub(super) fn values(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|(_, place)| self.record.get(*place).unwrap_or_default())
    }

    /// Its value in this column, where the file has it.
    pub(super) fn value(&self, wanted: C) -> Option<&str> {
        let place = self.columns.iter().find(|(column, _)| *column == wanted).map(|(_, place)| *place);
        self.record.get(place?)
    }
}

impl<B: ComparedBooks> TheirFile<B> {
    /// Opens a file. `map` has names of its columns, each with the column that it is; other columns have our names or
    /// are ignored. The headings may be those of a bill's workbook in one of these languages. Then each column has its
    /// name of the bill, and times are in the time zone of the heading.
    ///
    /// # Errors
    /// The file cannot be read, has no `biz_no`, lacks a column of `map`, or has two for one column of the bill.
    pub fn open(
        path: &Path,
        (by, map): (B, &[(String, B::Column)]),
        languages: &[SheetWords],
    ) -> Result<Self, ReconcileError<B::Column>> {
        let name = path.display().to_string();
        let refused = |cause| FileRefusal { file: name.clone(), fault: FileFault::Unreadable(cause) };
        let file = File::open(path).map_err(|error| refused(Text::same(error)))?;
        if file.metadata().is_ok_and(|of| of.is_dir()) {
            return Err(refused("it is a folder".into()).into());
        }
        Ok(Self::read(file, &name, (by, map), languages)?)
    }

    /// The same of an open file, which refusals call by this name.
    ///
    /// # Errors
    /// As [`TheirFile::open`].
    pub fn read(
        file: File,
        name: &str,
        (by, map): (B, &[(String, B::Column)]),
        languages: &[SheetWords],
    ) -> Result<Self, FileRefusal<B::Column>> {
        let refused = |fault| FileRefusal { file: name.to_owned(), fault };
        let again = file.try_clone().map_err(|error| refused(FileFault::Unreadable(Text::same(error))))?;
        let (reader, mut names) = heading_of::<B::Column>(file, map).map_err(refused)?;
        let width = names.len();
        let is_mapped = map.iter().any(|(theirs, ours)| theirs != ours.as_str());
        let zone = B::Column::zone_of_workbook(&mut names, languages, is_mapped);
        if let Some((missing, column)) = map.iter().find(|(theirs, _)| !names.contains(theirs)) {
            let (name, column) = (missing.clone(), *column);
            return Err(refused(FileFault::NoColumn { name, column, columns: names.join(", ") }));
        }
        let (mut columns, ignored) = columns_of(&names, map).map_err(refused)?;
        if let Some((column, _)) = by.constant() {
            if columns.iter().any(|(known, _)| *known == column) {
                return Err(refused(FileFault::Twice(column)));
            }
            // Each line gets its value behind the last column.
            columns.push((column, names.len()));
        }
        let place = |wanted| {
            let found = columns.iter().find(|(column, _)| *column == wanted).map(|(_, place)| *place);
            found.ok_or_else(|| {
                refused(FileFault::NoColumnOfOurs { column: wanted, columns: names.join(", ") })
            })
        };
        let number = place(by.column())?;
        by.second_column().map(place).transpose()?;
        let columns = columns.into_iter().filter(|(column, _)| !column.is_number()).collect();
        let (name, record) = (name.to_owned(), StringRecord::new());
        let zone = zone.unwrap_or_default();
        Ok(Self { name, file: again, reader, by, number, columns, ignored, width, record, zone })
    }

    /// The columns of the file that nothing is compared with.
    #[must_use]
    pub fn ignored(&self) -> &[String] {
        &self.ignored
    }

    /// The time zone of its times without an offset.
    pub(super) fn zone(&self) -> TimeZone {
        self.zone.clone()
    }

    /// What is compared by.
    pub(super) fn by(&self) -> &B {
        &self.by
    }

    /// The columns that are compared.
    pub(super) fn columns(&self) -> Vec<B::Column> {
        self.columns.iter().map(|(column, _)| *column).collect()
    }

    /// The next line. `None` at the end.
    ///
    /// # Errors
    /// It has more or fewer columns than the heading, is no UTF-8 or is too long.
    pub(super) fn next(&mut self) -> Result<Option<TheirLine<'_, B::Column>>, FileRefusal<B::Column>> {
        let Self { name, file, reader, by, number, columns, width, record, .. } = self;
        let of_line =
            |line, cause| FileRefusal { file: name.clone(), fault: FileFault::Line { line, cause } };
        let refused = |position, cause: Text| of_line(csv_line(&*file, position), cause);
        let unreadable = |error: csv::Error, begins: &Position| {
            of_line(fault_line(&error, &*file, begins), csv_fault(&error))
        };
        reader.get_mut().left = LINE_BYTES_MAX;
        let begins = reader.position().clone();
        match reader.read_record(record) {
            Ok(false) => return Ok(None),
            Ok(true) => {}
            Err(error) => return Err(unreadable(error, &begins)),
        }
        let at = &record.position().unwrap_or(&begins).clone();
        if record.len() != *width {
            if is_remark(record.as_byte_record(), *width) {
                match only_remarks_follow(reader, *width) {
                    Ok(true) => return Ok(None),
                    Ok(false) => {}
                    Err((error, begins)) => return Err(unreadable(error, &begins)),
                }
            }
            let (expected, got) = (*width, record.len());
            return Err(refused(at, text!("expected {expected} columns, got {got}", expected, got)));
        }
        if let Some((_, value)) = by.constant() {
            record.push_field(value);
        }
        if record.as_slice().contains('\0') {
            return Err(refused(at, "expected a text without zero bytes".into()));
        }
        let number = by.bare(bare_cell(record.get(*number).unwrap_or_default().trim()));
        if number.len() > NUMBER_BYTES_MAX {
            let max = NUMBER_BYTES_MAX;
            return Err(refused(at, text!("{name}: expected at most {max} bytes", name = by.column(), max)));
        }
        if let Some(fault) = shortened(number).filter(|_| by.refuses_shortened()) {
            return Err(refused(at, text!("{column}: {fault}", column = by.column(), fault)));
        }
        Ok(Some(TheirLine { line: at.line(), number, record, columns }))
    }
}

/// The reader of a file behind its heading, and the names of the heading.
fn heading_of<C: FileColumn>(
    file: File,
    map: &[(String, C)],
) -> Result<(Reader<Bounded>, Vec<String>), FileFault<C>> {
    let unreadable = |cause: Text| FileFault::<C>::Unreadable(cause);
    let mut file = BufReader::with_capacity(BUFFER_BYTES, file);
    let begins = file.fill_buf().map_err(|error| unreadable(Text::same(error)))?;
    if let Some(kind) = not_csv(begins) {
        return Err(unreadable(kind));
    }
    let is_column = |name: &str| map.iter().any(|(theirs, _)| theirs == name) || C::from_str(name).is_ok();
    let (remarks, begins) = behind_remarks(begins, is_column);
    // Lines have as many columns as the heading, which is not the first line of each file.
    let separator = separator(begins);
    let file = QuoteCheck::new(file, separator);
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(separator)
        .has_headers(false)
        .flexible(true)
        .from_reader(Bounded { file, left: LINE_BYTES_MAX });
    for _ in 0..remarks {
        next_bytes(&mut reader).map_err(|error| unreadable(heading_fault(&error)))?;
    }
    let mut heading = next_text(&mut reader).map_err(unreadable)?;
    if is_separator_line(&heading) {
        heading = next_text(&mut reader).map_err(unreadable)?;
    }
    let name = |name: &str| name.trim_start_matches(BYTE_ORDER_MARK).trim().to_owned();
    Ok((reader, heading.iter().map(name).collect()))
}

/// The next line, whatever its encoding. It is empty at the end.
fn next_bytes(reader: &mut Reader<Bounded>) -> Result<ByteRecord, csv::Error> {
    reader.get_mut().left = LINE_BYTES_MAX;
    let mut line = ByteRecord::new();
    reader.read_byte_record(&mut line)?;
    Ok(line)
}

/// The next line as a text.
fn next_text(reader: &mut Reader<Bounded>) -> Result<StringRecord, Text> {
    let line = next_bytes(reader).map_err(|error| heading_fault(&error))?;
    let line = StringRecord::from_byte_record(line);
    line.map_err(|_| "expected UTF-8 text; in a spreadsheet, save it as CSV UTF-8".into())
}

/// How many lines before the heading are remarks, and what is behind them. A heading may begin as they do, but names a column.
fn behind_remarks(begins: &[u8], is_column: impl Fn(&str) -> bool) -> (usize, &[u8]) {
    let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let names_column = |line: &[u8]| {
        let separator = separator(line);
        let mut cells = line.split(|byte| *byte == separator).map(String::from_utf8_lossy);
        cells.any(|cell| is_column(cell.trim().trim_matches('"').trim()))
    };
    let (mut remarks, mut rest) = (0, without_mark(begins));
    loop {
        let start = rest.iter().position(|byte| !is_end(byte)).unwrap_or(rest.len());
        rest = &rest[start..];
        let (line, behind) = rest.split_at(rest.iter().position(is_end).unwrap_or(rest.len()));
        let seen = line.strip_prefix(b"\"").unwrap_or(line);
        if seen.first() != Some(&REMARK) || names_column(line) {
            return (remarks, rest);
        }
        (remarks, rest) = (remarks + 1, behind);
    }
}

/// Whether a line is a remark and none of the books, which has as many columns as the heading.
fn is_remark(line: &ByteRecord, width: usize) -> bool {
    line.len() != width && line.get(0).is_some_and(|cell| cell.first() == Some(&REMARK))
}

/// Whether the rest of a file is remarks. Between lines of the books there are none: a ref may begin as they do.
///
/// # Errors
/// The rest cannot be read up to a line that is none. The place is where the line at fault begins.
fn only_remarks_follow(reader: &mut Reader<Bounded>, width: usize) -> Result<bool, (csv::Error, Position)> {
    loop {
        let begins = reader.position().clone();
        let line = next_bytes(reader).map_err(|error| (error, begins))?;
        if line.is_empty() {
            return Ok(true);
        }
        if !is_remark(&line, width) {
            return Ok(false);
        }
    }
}

/// The columns of a file that the books have too, each with its place, and the names of the others.
fn columns_of<C: FileColumn>(
    names: &[String],
    map: &[(String, C)],
) -> Result<(ColumnPlaces<C>, Vec<String>), FileFault<C>> {
    let (mut columns, mut ignored) = (Vec::new(), Vec::new());
    for (place, name) in names.iter().enumerate() {
        let mapped = map.iter().find(|(theirs, _)| theirs == name).map(|(_, column)| *column);
        // A column that `map` gives to another name is not this one.
        let by_name = C::from_str(name).ok();
        let by_name = by_name.filter(|column| map.iter().all(|(_, mapped)| mapped != column));
        match mapped.or(by_name) {
            Some(column) if columns.iter().any(|(known, _)| *known == column) => {
                return Err(FileFault::Twice(column));
            }
            Some(column) => columns.push((column, place)),
            None => ignored.push(name.clone()),
        }
    }
    Ok((columns, ignored))
}
