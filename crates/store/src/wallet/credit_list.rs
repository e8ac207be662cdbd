//! A list of credits as text: its columns, and its lines with what is wrong with each (contract 8.3.5).

use std::io::{BufRead as _, BufReader, Read};

use csv::{ErrorKind, Position, Reader, StringRecord};
use domain::fields::{Expected, FieldError, shown};
use domain::ids::{CreditRef, OpenId};
use domain::operation::wallet::{Credit, CreditCells, CreditsForAll, credit_amount};
use domain::text;
use domain::text::Text;

use super::csv_file::{
    bare_cell, csv_fault, fits_heading, heading_fault, is_separator_line, listed_id, names_of, not_csv,
    separator, shortened, surrounded,
};
use super::csv_quotes::{QuoteCheck, QuoteFault};

/// The columns that a list may have, in any order.
const COLUMNS: [&str; 4] = ["open_id", "free", "charge", "ref"];
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
    reader: Reader<QuoteCheck<BufReader<R>>>,
    /// The place of each of [`COLUMNS`] in the heading.
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
    /// It is no CSV.
    NotCsv(Text),
    /// Its first line does not name its columns.
    Heading {
        /// The line as it came.
        got: String,
        /// The first cell of several that is no column.
        stray: Option<String>,
    },
    /// It lacks this column.
    Lacks(&'static str),
    /// This column is there, and the face was given a value for all lines besides.
    Twice(&'static str),
}

impl ListFault {
    /// The heading cannot be read.
    fn of_heading(error: csv::Error) -> Self {
        match QuoteFault::of(&error) {
            Some(_) => Self::NotCsv(heading_fault(&error)),
            None => Self::Unreadable(error),
        }
    }

    /// What is wrong, where the face calls the values for all lines by these names: `free`, `charge`, and the prefix of the
    /// refs.
    #[must_use]
    pub fn text(&self, [free, charge, prefix]: [&'static str; 3]) -> Text {
        let expected = Text::new("expected a heading of open_id, free, charge and ref");
        match self {
            Self::Unreadable(error) => csv_fault(error),
            Self::NotCsv(kind) => kind.clone(),
            Self::Heading { got, stray } => {
                let got = if got.is_empty() { text!("nothing") } else { Text::same(got) };
                let fault = text!("{expected}, got {got}", expected, got);
                match stray {
                    Some(stray) => text!("{fault}; {stray} is none of them", fault, stray),
                    None => fault,
                }
            }
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
        let separator = separator(begins);
        let mut reader = csv::ReaderBuilder::new()
            .delimiter(separator)
            .trim(csv::Trim::All)
            .flexible(true)
            .has_headers(false)
            .from_reader(QuoteCheck::new(source, separator));
        let mut heading = StringRecord::new();
        reader.read_record(&mut heading).map_err(ListFault::of_heading)?;
        if is_separator_line(&heading) {
            reader.read_record(&mut heading).map_err(ListFault::of_heading)?;
        }
        let names = names_of(&heading);
        let mut places = COLUMNS.map(|column| names.iter().position(|name| *name == column));
        let (known, width) = (places.iter().flatten().count(), names.len());
        let mut first = None;
        if known == 0 && width == 1 && !needs_heading && !names[0].is_empty() && !is_other_heading(names[0]) {
            places = [Some(0), None, None, None];
            let record = StringRecord::from(names);
            first = Some(record).map(|mut record| {
                record.set_position(heading.position().cloned());
                record
            });
        } else if known != width {
            return Err(wrong_heading(&names, separator));
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
        if !fits_heading(record, self.width) {
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
                Err(error) if QuoteFault::of(&error).is_some() => {
                    Err(text!("{fault}; nothing behind it was read", fault = csv_fault(&error)))
                }
                Err(error) if matches!(error.kind(), ErrorKind::Utf8 { .. }) => Err(csv_fault(&error)),
                Err(error) => return Some(Err(error)),
            };
            let position = record.position().cloned().unwrap_or(begins);
            return Some(Ok(CreditOfList { position, credit }));
        }
    }
}

/// The fault of a line that should name columns. Cells are told apart as the list does it.
fn wrong_heading(names: &[&str], separator: u8) -> ListFault {
    let got = names.join(char::from(separator).to_string().as_str());
    let stray = names.iter().find(|name| !COLUMNS.contains(name) && names.len() > 1);
    ListFault::Heading { got, stray: stray.map(|name| shown(name)) }
}

/// Whether the first line of a list of players is `open_id` in another writing: the player of that name would be credited, and
/// registered.
fn is_other_heading(line: &str) -> bool {
    let letters = listed_id(bare_cell(line)).chars();
    let letters: String =
        letters.filter(|sign| !matches!(sign, '_' | '-') && !sign.is_whitespace()).collect();
    letters.eq_ignore_ascii_case("openid")
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

#[cfg(test)]
mod tests {
    use super::*;

    fn for_all() -> CreditsForAll {
        CreditsForAll { free: Some(5), ref_prefix: Some("fair".to_owned()), ..CreditsForAll::default() }
    }

    /// The players of a list without a heading, or why it is none.
    fn players(list: &str) -> Result<Vec<String>, String> {
        let for_all = for_all();
        let lines = CreditList::open(list.as_bytes(), &for_all, false);
        let lines = lines.map_err(|fault| fault.text(["--free", "--charge", "--ref-prefix"]).english())?;
        Ok(lines.map(|line| line.unwrap().credit.unwrap().open_id.to_string()).collect())
    }

    /// Rule 8.3.14: a heading in another writing is no player.
    #[test]
    fn a_heading_in_another_writing_credits_nobody() {
        for heading in
            ["Openid", "openid", "OPEN_ID", "Open_Id", "open-id", "Open ID", "\u{feff}openid", "'openid"]
        {
            let refused = players(&format!("{heading}\nplayer-1\n")).unwrap_err();
            let expected = "expected a heading of open_id, free, charge and ref, got ";
            assert!(refused.starts_with(expected), "{heading}: {refused}");
        }
        assert_eq!(players("open_id\nplayer-1\n").unwrap(), ["player-1"]);
        // They are players as all others are.
        for player in ["player_id", "openid1", "o"] {
            assert_eq!(players(&format!("{player}\nplayer-1\n")).unwrap(), [player, "player-1"]);
        }
    }

    /// Rules 8.3.5 and 8.3.14: a wrong heading is shown as it came, with the cell that is no column. A line for spreadsheets
    /// alone is none.
    #[test]
    fn a_wrong_heading_is_shown_as_it_came() {
        let expected = "expected a heading of open_id, free, charge and ref, got";
        let of_import = CreditsForAll::default();
        let refused = |list: &str| {
            let fault = CreditList::open(list.as_bytes(), &of_import, true).unwrap_err();
            fault.text(["--free", "--charge", "--ref-prefix"]).english()
        };
        for (list, got) in [
            ("open_id,charge,ref,note\n", "open_id,charge,ref,note; \"note\" is none of them"),
            ("open_id;charge;Ref\n", "open_id;charge;Ref; \"Ref\" is none of them"),
            ("open_id,free,ref,free\n", "open_id,free,ref,free"),
            ("open_id|free|charge|ref\n", "open_id|free|charge|ref"),
            (",,\n", "nothing"),
        ] {
            assert_eq!(refused(list), format!("{expected} {got}"));
        }
        let list = "\u{feff}sep=;\nopen_id;free;charge;ref\no1;1;2;r1\n";
        let mut lines = CreditList::open(list.as_bytes(), &of_import, true).unwrap();
        let line = lines.next().unwrap().unwrap();
        let credit = line.credit.unwrap();
        let number = super::super::csv_line(std::io::Cursor::new(list), &line.position);
        assert_eq!((number, credit.open_id.as_str(), credit.charge), (3, "o1", 2));
        assert!(lines.next().is_none());
    }

    /// Rule 8.3.14: empty columns at the end, which a spreadsheet writes, do not count. Others do.
    #[test]
    fn empty_columns_at_the_end_do_not_count() {
        let of_import = CreditsForAll::default();
        let list = "open_id,free,charge,ref,,\no1,1,0,a1,,\no2,1,0,a2\no3,1,0,a3,\no4,1,0,a4,,x\no5,1,0\n";
        let lines = CreditList::open(list.as_bytes(), &of_import, true).unwrap();
        let read: Vec<Result<String, String>> = lines
            .map(|line| line.unwrap().credit)
            .map(|credit| credit.map(|credit| credit.open_id.to_string()).map_err(|fault| fault.english()))
            .collect();
        let columns = |got: u8| Err(format!("expected 4 columns, got {got}"));
        let player = |id: &str| Ok(id.to_owned());
        assert_eq!(read, [player("o1"), player("o2"), player("o3"), columns(6), columns(3)]);
        assert_eq!(players("player-1,\nplayer-2,\n").unwrap(), ["player-1", "player-2"]);
        let fault = CreditList::open(&b"open_id,,free,charge,ref,\n"[..], &of_import, true).unwrap_err();
        let fault = fault.text(["--free", "--charge", "--ref-prefix"]).english();
        let expected = "expected a heading of open_id, free, charge and ref, got open_id,,free,charge,ref; \"\" is none of them";
        assert_eq!(fault, expected);
    }

    /// Rule 8.3.14: a quote that is not around a whole cell is a fault of its line, and nothing behind it is read.
    #[test]
    fn a_quote_without_its_pair_is_a_fault_of_its_line() {
        let of_import = CreditsForAll::default();
        let heading = "open_id,free,charge,ref\n";
        for (lines, expected) in [
            (
                "o1,1,0,\"a\n1\"\"\"\n\no2,1,0,\"a2\no3,1,0,a3\n",
                (5, "a cell opens with a quote that nothing closes; nothing behind it was read"),
            ),
            (
                "o1,1,0,a1\no2,1,0,\"a2\"x\no3,1,0,a3\n",
                (3, "a quoted cell has text behind its quote; nothing behind it was read"),
            ),
        ] {
            let list = format!("{heading}{lines}");
            let read: Vec<CreditOfList> =
                CreditList::open(list.as_bytes(), &of_import, true).unwrap().map(Result::unwrap).collect();
            assert_eq!(read.len(), 2, "{list}");
            let number = super::super::csv_line(std::io::Cursor::new(&list), &read[1].position);
            let fault = read[1].credit.as_ref().unwrap_err().english();
            assert_eq!((number, fault.as_str()), expected, "{list}");
        }
        for (list, line) in [
            ("open_id,\"free\no1,1\n", 1),
            ("\r\nopen_id,\"free\no1,1\n", 2),
            ("sep=;\r\n\r\nopen_id;\"free\no1,1\n", 3),
        ] {
            let fault = CreditList::open(list.as_bytes(), &of_import, true).unwrap_err();
            let fault = fault.text(["--free", "--charge", "--ref-prefix"]).english();
            assert_eq!(
                fault,
                format!("line {line}: a cell opens with a quote that nothing closes"),
                "{list:?}"
            );
        }
    }
}
