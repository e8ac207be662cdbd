//! Writes workbooks of spreadsheets (Office Open XML, `.xlsx`) row by row. Rows go to temporary files without names, so
//! memory does not grow with them, and the workbook comes when all rows are there.
//!
//! Texts are text cells: no spreadsheet calculates them, or takes a long number for a figure.

use std::io::Write;

use rust_xlsxwriter::{Format, Worksheet, XlsxError};
use time::{Date, Month, PrimitiveDateTime};

/// Rows of a sheet, with its heading: the limit of the format.
const SHEET_ROWS_MAX: u32 = 1_048_576;
/// Characters of a text, as UTF-16 counts: the limit of the format.
const TEXT_UNITS_MAX: usize = 32_767;
/// Characters of a sheet's name: the limit of the format.
const NAME_CHARS_MAX: usize = 31;
/// The number of the format of texts, `@`, which every spreadsheet has.
const TEXT_FORMAT: u8 = 49;
/// The first integer whose digits a spreadsheet does not keep: it calculates with 15.
const INTEGER_END: u128 = 1_000_000_000_000_000;
/// The last day that spreadsheets count as if February 1900 had 28 days. Day 0 is the one before.
const DAY_ZERO: Date = date(1899, Month::December, 30);
/// The first day that all spreadsheets show alike.
const FIRST_DAY: Date = date(1900, Month::March, 1);

const fn date(year: i32, month: Month, day: u8) -> Date {
    match Date::from_calendar_date(year, month, day) {
        Ok(date) => date,
        Err(_) => panic!("a day of the calendar"),
    }
}

/// Why there is no workbook.
#[derive(Debug, thiserror::Error)]
pub enum WorkbookError {
    /// The folder for temporary files has no room, or the reader of the workbook has gone.
    #[error("a workbook cannot be written: {0}")]
    Io(#[from] std::io::Error),
    /// A fault of the caller: a name that a sheet has, or a row in front of the first sheet.
    #[error("a workbook cannot be made: {0}")]
    Faulty(String),
}

impl From<XlsxError> for WorkbookError {
    fn from(error: XlsxError) -> Self {
        match error {
            XlsxError::IoError(error) | XlsxError::TempFileError(_, error) => Self::Io(error),
            error => Self::Faulty(error.to_string()),
        }
    }
}

/// A column: its heading, and its width in characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SheetColumn {
    /// The text of the first row.
    pub heading: String,
    /// About so many characters are seen.
    pub width: u8,
}

/// The content of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SheetCell<'a> {
    /// Nothing.
    Empty,
    /// A text, whatever it looks like. One of more than 32,767 characters is cut.
    Text(&'a str),
    /// An integer. One of more than 15 digits is a text, so that no digit is lost.
    Integer(i128),
    /// A moment of a clock, down to the second. One before March 1900 is a text.
    Moment(PrimitiveDateTime),
    /// A day. One before March 1900 is a text.
    Day(Date),
}

/// A workbook that is being written.
pub struct Workbook {
    book: rust_xlsxwriter::Workbook,
    /// The sheet under way: its name, its number among those of this name, and its columns.
    name: String,
    part: u32,
    columns: Vec<SheetColumn>,
    /// The next row of the sheet.
    row: u32,
    rows_max: u32,
    text: Format,
    moment: Format,
    day: Format,
    heading: Format,
}

impl Default for Workbook {
    fn default() -> Self {
        Self {
            book: rust_xlsxwriter::Workbook::new(),
            name: String::new(),
            part: 0,
            columns: Vec::new(),
            row: 0,
            rows_max: SHEET_ROWS_MAX,
            text: Format::new().set_num_format_index(TEXT_FORMAT),
            moment: Format::new().set_num_format("yyyy-mm-dd hh:mm:ss"),
            day: Format::new().set_num_format("yyyy-mm-dd"),
            heading: Format::new().set_num_format_index(TEXT_FORMAT).set_bold(),
        }
    }
}

impl Workbook {
    /// Begins a sheet. Rows that do not fit into it go on in sheets named `name 2`, `name 3` and so on, which have the same
    /// heading.
    ///
    /// # Errors
    /// There is no room for a temporary file, or a sheet has this name.
    pub fn sheet(&mut self, name: &str, columns: Vec<SheetColumn>) -> Result<(), WorkbookError> {
        (self.name, self.part, self.columns) = (name.to_owned(), 0, columns);
        self.next_sheet()
    }

    /// Adds a row to the sheet under way.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn row<'a>(&mut self, cells: impl IntoIterator<Item = SheetCell<'a>>) -> Result<(), WorkbookError> {
        if self.row == self.rows_max {
            self.next_sheet()?;
        }
        let row = self.row;
        let Self { book, text, moment, day, .. } = self;
        let sheet = last(book)?;
        for (column, cell) in (0..).zip(cells) {
            match cell {
                SheetCell::Empty | SheetCell::Text("") => {}
                SheetCell::Text(words) => write_text(sheet, (row, column), words, text)?,
                SheetCell::Integer(number) if number.unsigned_abs() < INTEGER_END => {
                    sheet.write_number(row, column, exact(number))?;
                }
                SheetCell::Integer(number) => write_text(sheet, (row, column), &number.to_string(), text)?,
                SheetCell::Moment(at) if at.date() >= FIRST_DAY => {
                    sheet.write_number_with_format(row, column, serial(at), moment)?;
                }
                SheetCell::Moment(at) => write_text(sheet, (row, column), &at.to_string(), text)?,
                SheetCell::Day(at) if at >= FIRST_DAY => {
                    sheet.write_number_with_format(row, column, serial(at.midnight()), day)?;
                }
                SheetCell::Day(at) => write_text(sheet, (row, column), &at.to_string(), text)?,
            }
        }
        self.row += 1;
        Ok(())
    }

    /// Writes the workbook. A reader who is slow holds it up.
    ///
    /// # Errors
    /// The reader has gone, or a temporary file cannot be read.
    pub fn save(mut self, out: impl Write + Send) -> Result<(), WorkbookError> {
        Ok(self.book.save_to_writer(out)?)
    }

    fn next_sheet(&mut self) -> Result<(), WorkbookError> {
        self.part += 1;
        let part = if self.part == 1 { String::new() } else { format!(" {}", self.part) };
        let kept = self.name.chars().take(NAME_CHARS_MAX - part.len());
        let name = kept.collect::<String>() + &part;
        let sheet = self.book.add_worksheet_with_constant_memory()?;
        sheet.set_name(name)?;
        sheet.set_freeze_panes(1, 0)?;
        for (number, column) in (0..).zip(&self.columns) {
            sheet.set_column_width(number, f64::from(column.width))?;
            write_text(sheet, (0, number), &column.heading, &self.heading)?;
        }
        self.row = 1;
        Ok(())
    }
}

fn last(book: &mut rust_xlsxwriter::Workbook) -> Result<&mut Worksheet, WorkbookError> {
    let none = || WorkbookError::Faulty("a row in front of the first sheet".to_owned());
    book.worksheets_mut().last_mut().ok_or_else(none)
}

fn write_text(
    sheet: &mut Worksheet,
    (row, column): (u32, u16),
    words: &str,
    format: &Format,
) -> Result<(), WorkbookError> {
    let mut units = 0;
    let kept = words.char_indices().find(|(_, character)| {
        units += character.len_utf16();
        units > TEXT_UNITS_MAX
    });
    let words = kept.map_or(words, |(end, _)| &words[..end]);
    // XML has no place for these two, not even escaped.
    if words.contains(['\u{fffe}', '\u{ffff}']) {
        sheet.write_string_with_format(
            row,
            column,
            words.replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}"),
            format,
        )?;
    } else {
        sheet.write_string_with_format(row, column, words, format)?;
    }
    Ok(())
}

/// An integer of 15 digits at most.
#[expect(clippy::cast_precision_loss, reason = "a float has 15 digits")]
fn exact(number: i128) -> f64 {
    number as f64
}

/// Days since the zero of spreadsheets. Parts of a second are cut: rounded up, the last of a day would be on the next.
fn serial(at: PrimitiveDateTime) -> f64 {
    let days = at.date().to_julian_day() - DAY_ZERO.to_julian_day();
    let (hour, minute, second) = at.as_hms();
    let seconds = (u32::from(hour) * 60 + u32::from(minute)) * 60 + u32::from(second);
    f64::from(days) + f64::from(seconds) / 86_400.0
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Read as _};

    use zip::ZipArchive;

    use super::*;

    fn part(book: &[u8], name: &str) -> String {
        let mut text = String::new();
        ZipArchive::new(Cursor::new(book)).unwrap().by_name(name).unwrap().read_to_string(&mut text).unwrap();
        text
    }

    fn columns(headings: &[&str]) -> Vec<SheetColumn> {
        headings.iter().map(|heading| SheetColumn { heading: (*heading).to_owned(), width: 12 }).collect()
    }

    fn rows_of(sheet: &str) -> &str {
        sheet.split_once("<sheetData>").unwrap().1.split_once("</sheetData>").unwrap().0
    }

    fn written(book: Workbook) -> Vec<u8> {
        let mut bytes = Vec::new();
        book.save(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn cells_are_texts_figures_and_moments() {
        let mut book = Workbook::default();
        book.sheet("Lines", columns(&["a", "b"])).unwrap();
        let night = date(2026, Month::October, 31).with_hms_micro(23, 59, 59, 999_999).unwrap();
        book.row([SheetCell::Text("12345678901234567"), SheetCell::Integer(-999_999_999_999_999)]).unwrap();
        book.row([SheetCell::Text("=1+1"), SheetCell::Integer(1_000_000_000_000_000)]).unwrap();
        book.row([SheetCell::Moment(night), SheetCell::Day(date(1900, Month::March, 1))]).unwrap();
        book.row([SheetCell::Empty, SheetCell::Text("a<\u{1}\u{ffff}_x0041_\n")]).unwrap();
        book.row([SheetCell::Moment(date(1899, Month::May, 1).midnight()), SheetCell::Text("")]).unwrap();
        let text = |cell: &str, style: u8, text: &str| {
            format!("<c r=\"{cell}\" s=\"{style}\" t=\"inlineStr\"><is><t>{text}</t></is></c>")
        };
        let last = text("B5", 2, "a&lt;_x0001_\u{fffd}_x005F_x0041_\n");
        let last = last.replace("<t>", "<t xml:space=\"preserve\">");
        let expected = [
            "<row r=\"1\">".to_owned() + &text("A1", 1, "a") + &text("B1", 1, "b"),
            "<row r=\"2\">".to_owned()
                + &text("A2", 2, "12345678901234567")
                + "<c r=\"B2\"><v>-999999999999999</v></c>",
            "<row r=\"3\">".to_owned() + &text("A3", 2, "=1+1") + &text("B3", 2, "1000000000000000"),
            "<row r=\"4\"><c r=\"A4\" s=\"3\"><v>46326.99998842592</v></c><c r=\"B4\" s=\"4\"><v>61</v></c>"
                .to_owned(),
            "<row r=\"5\">".to_owned() + &last,
            "<row r=\"6\">".to_owned() + &text("A6", 2, "1899-05-01 0:00:00.0"),
        ];
        let book = written(book);
        let sheet = part(&book, "xl/worksheets/sheet1.xml");
        assert_eq!(rows_of(&sheet), expected.map(|row| row + "</row>").concat());
    }

    #[test]
    fn rows_go_on_in_further_sheets() {
        let mut book = Workbook { rows_max: 3, ..Workbook::default() };
        book.sheet("Lines", columns(&["n"])).unwrap();
        for number in 0..5 {
            book.row([SheetCell::Integer(number)]).unwrap();
        }
        book.sheet("Sums", columns(&["sum"])).unwrap();
        book.row([SheetCell::Integer(10)]).unwrap();
        let book = written(book);
        let names = part(&book, "xl/workbook.xml");
        for (number, name) in ["Lines", "Lines 2", "Lines 3", "Sums"].into_iter().enumerate() {
            assert!(names.contains(&format!("<sheet name=\"{name}\" sheetId=\"{}\"", number + 1)), "{names}");
        }
        for (sheet, figures) in [(1, &[0, 1][..]), (2, &[2, 3]), (3, &[4]), (4, &[10])] {
            let sheet = part(&book, &format!("xl/worksheets/sheet{sheet}.xml"));
            let found: Vec<i32> = sheet
                .split("<v>")
                .skip(1)
                .map(|rest| rest.split_once('<').unwrap().0.parse().unwrap())
                .collect();
            assert_eq!((found.as_slice(), sheet.matches("inlineStr").count()), (figures, 1));
        }
    }
}
