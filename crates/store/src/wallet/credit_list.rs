//! A list of credits as text: its columns, and its lines with what is wrong with each (contract 8.3.5).

use std::io::{BufRead as _, BufReader, Read};

use csv::{ErrorKind, Position, Reader, StringRecord};
use domain::fields::{Expected, FieldError};
use domain::ids::{CreditRef, OpenId};
use domain::operation::wallet::{Credit, CreditCells, CreditsForAll, credit_amount};
use domain::text;
use domain::text::Text;

use super::csv_file::{bare_cell, csv_fault, listed_id, not_csv, separator, shortened, surrounded};

/// The columns that a list may have, in any order.
const COLUMNS: [&str; 4] = ["open_id", "free", "charge", "ref"];
const BYTE_ORDER_MARK: &str = "\u{feff}";
/// How much of a list is looked at for the separator of its cells.
const SEPARATOR_BYTES: usize = 8 * 1024;

/// A line that counts, with its place in the list.
#[derive(Debug)]
pub struct CreditOfList {
    /// Where it stands, for [`csv_line`](super::csv_line).
    pub position: Position,
    /// The credit, or what is wrong with the line.
    pub credit: Result<Credit, Text>,
}

/// A list that is read line by line.
#[derive(Debug)]
pub struct CreditList<'a, R> {
    reader: Reader<BufReader<R>>,
    /// Where each of [`COLUMNS`] stands.
    places: [Option<usize>; 4],
    width: usize,
    for_all: &'a CreditsForAll,
    /// The first line of a list without a heading.
    first: Option<StringRecord>,
}

/// Why a list has no lines of credits.
#[derive(Debug)]
pub enum ListFault {
    /// It cannot be read.
    Unreadable(csv::Error),
    /// It is something else.
    NotCsv(Text),
    /// Its first line does not name its columns.
    Heading(String),
    /// It lacks this column.
    Lacks(&'static str),
    /// This column is there, and the face was given a value for all lines besides.
    Twice(&'static str),
}

impl ListFault {
    /// What is wrong, where the face calls the values for all lines by these names: `free`, `charge`, and the prefix of the
    /// refs.
    #[must_use]
    pub fn text(&self, [free, charge, prefix]: [&'static str; 3]) -> Text {
        let expected = Text::new("expected a heading of open_id, free, charge and ref");
        match self {
            Self::Unreadable(error) => csv_fault(error),
            Self::NotCsv(kind) => kind.clone(),
            Self::Heading(got) => text!("{expected}, got {got}", expected, got),
            Self::Lacks("open_id") => text!("there is no column open_id; {expected}", expected),
            Self::Lacks("ref") => {
                let prefix = Text::new(prefix);
                text!("there is no column ref, and no {prefix}; {expected}", prefix, expected)
            }
            Self::Lacks(_) => text!("there is no column free or charge; {expected}", expected),
            Self::Twice(column) => {
                let option = match *column {
                    "free" => free,
                    "charge" => charge,
                    _ => prefix,
                };
                text!(
                    "the column {column} and {option} name the same twice",
                    column,
                    option = Text::new(option)
                )
            }
        }
    }
}

impl<'a, R: Read> CreditList<'a, R> {
    /// Begins to read a list. Its first line names its columns. What it has no column for comes from `for_all`. Its
    /// first line tells what separates its cells. Where `needs_heading` is false, a list of one column without a heading has
    /// players.
    ///
    /// # Errors
    /// It cannot be read, or its columns are not those of a list of credits.
    pub fn open(source: R, for_all: &'a CreditsForAll, needs_heading: bool) -> Result<Self, ListFault> {
        let mut source = BufReader::with_capacity(SEPARATOR_BYTES, source);
        let begins = source.fill_buf().map_err(|error| ListFault::Unreadable(error.into()))?;
        if let Some(kind) = not_csv(begins) {
            return Err(ListFault::NotCsv(kind));
        }
        let mut reader = csv::ReaderBuilder::new()
            .delimiter(separator(begins))
            .trim(csv::Trim::All)
            .flexible(true)
            .has_headers(false)
            .from_reader(source);
        let mut heading = StringRecord::new();
        reader.read_record(&mut heading).map_err(ListFault::Unreadable)?;
        let names: Vec<&str> =
            heading.iter().map(|name| name.trim_start_matches(BYTE_ORDER_MARK).trim()).collect();
        let mut places = COLUMNS.map(|column| names.iter().position(|name| *name == column));
        let (known, width) = (places.iter().flatten().count(), names.len());
        let mut first = None;
        if known == 0 && width == 1 && !needs_heading {
            places = [Some(0), None, None, None];
            let record = StringRecord::from(names);
            first = Some(record).map(|mut record| {
                record.set_position(heading.position().cloned());
                record
            });
        } else if known != width {
            return Err(ListFault::Heading(names.join(",")));
        }
        let CreditsForAll { free, charge, ref_prefix, .. } = for_all;
        let given = [false, free.is_some(), charge.is_some(), ref_prefix.is_some()];
        let twice =
            COLUMNS.iter().zip(places).zip(given).find(|((_, place), given)| place.is_some() && *given);
        if let Some(((column, _), _)) = twice {
            return Err(ListFault::Twice(column));
        }
        let has = |place: usize| places[place].is_some() || given[place];
        let lacking = [("open_id", has(0)), ("free", has(1) || has(2)), ("ref", has(3))];
        if let Some((column, _)) = lacking.into_iter().find(|(_, has)| !has) {
            return Err(ListFault::Lacks(column));
        }
        Ok(Self { reader, places, width, for_all, first })
    }

    fn credit(&self, record: &StringRecord) -> Result<Credit, Text> {
        if record.len() != self.width {
            let (expected, got) = (self.width, record.len());
            return Err(text!("expected {expected} columns, got {got}", expected, got));
        }
        let [at_open_id, at_free, at_charge, at_ref] = self.places;
        let mut wrong = Vec::new();
        let open_id = cell(record, at_open_id, 0, OpenId::parse);
        let free = cell(record, at_free, 1, credit_amount);
        let charge = cell(record, at_charge, 2, credit_amount);
        let reference = cell(record, at_ref, 3, CreditRef::parse);
        let cells = CreditCells {
            open_id: open_id.unwrap_or_else(|fault| keep(&mut wrong, fault)),
            free: free.unwrap_or_else(|fault| keep(&mut wrong, fault)),
            charge: charge.unwrap_or_else(|fault| keep(&mut wrong, fault)),
            reference: reference.unwrap_or_else(|fault| keep(&mut wrong, fault)),
        };
        if wrong.is_empty() {
            return self.for_all.credit(cells).map_err(|fault| fault.text());
        }
        let first = wrong.remove(0);
        Err(wrong.iter().fold(first, |text, fault| text!("{text}; {fault}", text, fault)))
    }
}

impl<R: Read> Iterator for CreditList<'_, R> {
    type Item = Result<CreditOfList, csv::Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut record = StringRecord::new();
        if let Some(first) = self.first.take() {
            let position = first.position().cloned().unwrap_or_else(Position::new);
            return Some(Ok(CreditOfList { position, credit: self.credit(&first) }));
        }
        loop {
            let begins = self.reader.position().clone();
            let credit = match self.reader.read_record(&mut record) {
                Ok(false) => return None,
                Ok(true) if record.iter().all(str::is_empty) => continue,
                Ok(true) => self.credit(&record),
                Err(error) => match error.kind() {
                    ErrorKind::Utf8 { .. } => Err(csv_fault(&error)),
                    _ => return Some(Err(error)),
                },
            };
            let position = record.position().cloned().unwrap_or(begins);
            return Some(Ok(CreditOfList { position, credit }));
        }
    }
}

/// A value of a column; `None` where the list has no such column.
fn cell<T>(
    record: &StringRecord,
    place: Option<usize>,
    column: usize,
    parse: impl Fn(&str) -> Result<T, Expected>,
) -> Result<Option<T>, Text> {
    let Some(text) = place.and_then(|place| record.get(place)) else { return Ok(None) };
    let name = COLUMNS[column];
    let bare = bare_cell(text);
    let (text, fault) = match name {
        "open_id" => (listed_id(bare), shortened(bare)),
        "ref" => (bare, surrounded(bare).or_else(|| shortened(bare))),
        _ => (bare, None),
    };
    if let Some(fault) = fault {
        return Err(text!("{column}: {fault}", column = name, fault));
    }
    let wrong = |Expected(expected)| FieldError::malformed(name, expected, text).text();
    parse(text).map(Some).map_err(wrong)
}

fn keep<T>(wrong: &mut Vec<Text>, fault: Text) -> Option<T> {
    wrong.push(fault);
    None
}
