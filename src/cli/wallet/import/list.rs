//! A CSV file with credits: its columns, and its lines with what is wrong with each (contract 8.3.5).

use std::fs::File;
use std::path::Path;

use anyhow::{Result, anyhow, bail, ensure};
use csv::{ErrorKind, Position, Reader, StringRecord};
use domain::fields::{Expected, FieldError, parse_integer};
use domain::ids::{CreditRef, OpenId};
use domain::operation::wallet::Credit;
use domain::wallet::check_credit;
use store::{csv_fault, csv_line};

/// The columns that a file may have, in any order.
const COLUMNS: [&str; 4] = ["open_id", "free", "charge", "ref"];
/// Longest prefix of refs, in bytes. The `open_id` fits behind it.
const PREFIX_BYTES_MAX: usize = 63;
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// What holds for all lines of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct ForAll<'a> {
    pub(super) free: Option<i64>,
    pub(super) charge: Option<i64>,
    pub(super) ref_prefix: Option<&'a str>,
    pub(super) note: &'a str,
    /// Whether players become known.
    pub(super) create: bool,
}

/// A line that counts, with its place in the file.
pub(super) struct CreditOfList {
    position: Position,
    /// The credit, or what is wrong with the line.
    pub(super) credit: Result<Credit, String>,
}

impl CreditOfList {
    /// Its number, as editors count.
    pub(super) fn number(&self, file: &Path) -> u64 {
        csv_line(file, &self.position)
    }
}

/// A file that is read line by line.
pub(super) struct CreditList<'a> {
    reader: Reader<File>,
    /// Where each of [`COLUMNS`] stands.
    places: [Option<usize>; 4],
    width: usize,
    for_all: ForAll<'a>,
}

impl<'a> CreditList<'a> {
    /// Opens a file. Its first line names its columns. What it has no column for comes from `for_all`.
    ///
    /// # Errors
    /// It cannot be read, or its columns are not those of a list of credits.
    pub(super) fn open(file: &Path, for_all: ForAll<'a>) -> Result<Self> {
        let fault_of = |problem: String| anyhow!("{}: {problem}", file.display());
        let opened = File::open(file).map_err(|error| fault_of(error.to_string()))?;
        let mut reader = csv::ReaderBuilder::new()
            .trim(csv::Trim::All)
            .flexible(true)
            .has_headers(false)
            .from_reader(opened);
        let mut heading = StringRecord::new();
        reader.read_record(&mut heading).map_err(|error| fault_of(csv_fault(&error).english()))?;
        let names: Vec<&str> =
            heading.iter().map(|name| name.trim_start_matches(BYTE_ORDER_MARK).trim()).collect();
        let places = COLUMNS.map(|column| names.iter().position(|name| *name == column));
        let known = places.iter().flatten().count();
        let expected = "expected a heading of open_id, free, charge and ref";
        ensure!(known == names.len(), fault_of(format!("{expected}, got {}", names.join(","))));
        let given = [false, for_all.free.is_some(), for_all.charge.is_some(), for_all.ref_prefix.is_some()];
        let option = ["", "--free", "--charge", "--ref-prefix"];
        for (place, column) in COLUMNS.iter().enumerate() {
            if places[place].is_some() && given[place] {
                bail!(fault_of(format!("the column {column} and {} name the same twice", option[place])));
            }
        }
        let has = |place: usize| places[place].is_some() || given[place];
        ensure!(has(0), fault_of(format!("there is no column open_id; {expected}")));
        ensure!(has(1) || has(2), fault_of(format!("there is no column free or charge; {expected}")));
        ensure!(has(3), fault_of(format!("there is no column ref, and no --ref-prefix; {expected}")));
        Ok(Self { reader, places, width: names.len(), for_all })
    }

    fn credit(&self, record: &StringRecord) -> Result<Credit, String> {
        if record.len() != self.width {
            return Err(format!("expected {} columns, got {}", self.width, record.len()));
        }
        let ForAll { free, charge, ref_prefix, note, create } = self.for_all;
        let mut wrong = Vec::new();
        let [at_open_id, at_free, at_charge, at_ref] = self.places;
        let open_id =
            cell(record, at_open_id, 0, OpenId::parse).unwrap_or_else(|fault| keep(&mut wrong, &fault));
        let free = cell(record, at_free, 1, amount).unwrap_or_else(|fault| keep(&mut wrong, &fault)).or(free);
        let charge =
            cell(record, at_charge, 2, amount).unwrap_or_else(|fault| keep(&mut wrong, &fault)).or(charge);
        let reference =
            cell(record, at_ref, 3, CreditRef::parse).unwrap_or_else(|fault| keep(&mut wrong, &fault));
        let (free, charge) = (free.unwrap_or_default(), charge.unwrap_or_default());
        if wrong.is_empty()
            && let Err(expected) = check_credit(free, charge)
        {
            wrong.push(format!("free and charge: {expected}, got 0 and 0"));
        }
        let prefixed = || {
            let reference = format!("{}-{}", ref_prefix?, open_id.as_ref()?);
            CreditRef::parse(&reference).ok()
        };
        match (&open_id, reference.or_else(prefixed)) {
            (Some(open_id), Some(reference)) if wrong.is_empty() => {
                let (open_id, note) = (open_id.clone(), note.to_owned());
                Ok(Credit { open_id, free, charge, reference, note, create })
            }
            _ => Err(wrong.join("; ")),
        }
    }
}

impl Iterator for CreditList<'_> {
    type Item = Result<CreditOfList>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut record = StringRecord::new();
        loop {
            let begins = self.reader.position().clone();
            let credit = match self.reader.read_record(&mut record) {
                Ok(false) => return None,
                Ok(true) if record.iter().all(str::is_empty) => continue,
                Ok(true) => self.credit(&record),
                Err(error) => match error.kind() {
                    ErrorKind::Utf8 { .. } => Err(csv_fault(&error).english()),
                    _ => return Some(Err(error.into())),
                },
            };
            let position = record.position().cloned().unwrap_or(begins);
            return Some(Ok(CreditOfList { position, credit }));
        }
    }
}

/// A value of a column; `None` where the file has no such column.
fn cell<T>(
    record: &StringRecord,
    place: Option<usize>,
    column: usize,
    parse: impl Fn(&str) -> Result<T, Expected>,
) -> Result<Option<T>, FieldError> {
    let Some(text) = place.and_then(|place| record.get(place)) else { return Ok(None) };
    let wrong = |Expected(expected)| FieldError::malformed(COLUMNS[column], expected, text);
    parse(text).map(Some).map_err(wrong)
}

fn keep<T>(wrong: &mut Vec<String>, fault: &FieldError) -> Option<T> {
    wrong.push(fault.to_string());
    None
}

fn amount(text: &str) -> Result<i64, Expected> {
    parse_integer(text, 0, i64::MAX, "an integer from 0 to 9223372036854775807")
}

/// Reads a prefix of refs.
pub(in super::super) fn parse_prefix(text: &str) -> Result<String, String> {
    match CreditRef::parse(text) {
        Ok(_) if text.len() <= PREFIX_BYTES_MAX => Ok(text.to_owned()),
        _ => Err(format!("expected 1 to {PREFIX_BYTES_MAX} bytes without control characters")),
    }
}
