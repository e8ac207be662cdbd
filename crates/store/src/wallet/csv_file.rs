//! Statements of a wallet as CSV (contract 8.3.9).

use std::io::{self, BufReader, Read, Seek, SeekFrom};

use csv::{IntoInnerError, Position, StringRecord, WriterBuilder};
use domain::body::BodyKind;
use domain::csv::csv_text;
use domain::fields::{Expected, shown};
use domain::ledger::EXCHANGE;
use domain::moment::rfc3339;
use domain::strays::{without_strays, without_unseen};
use domain::text;
use domain::text::Text;
use serde::Serialize;

use super::LedgerRow;
use super::csv_quotes::QuoteFault;

/// Longest line, in bytes. A quotation mark without its pair would make one line of the rest of the file.
pub(crate) const LINE_BYTES_MAX: usize = 64 * 1024;

const BYTE_ORDER_MARK: &str = "\u{feff}";

/// The most faults of a file that are named. A file can have as many as lines, and each takes more than its line.
const NAMED_MAX: usize = 100;

/// The faults of the lines of a file.
#[derive(Debug)]
pub struct NamedFaults<T> {
    /// The first 100.
    pub named: Vec<T>,
    /// How many there are.
    pub count: usize,
}

impl<T> Default for NamedFaults<T> {
    fn default() -> Self {
        Self { named: Vec::new(), count: 0 }
    }
}

impl<T> NamedFaults<T> {
    pub(crate) fn add(&mut self, fault: T) {
        self.count += 1;
        if self.named.len() < NAMED_MAX {
            self.named.push(fault);
        }
    }
}

/// The first line of a wallet's statement.
pub const STATEMENT_HEADING: &str = "seq,kind,biz_no,ref,free_change,charge_change,free_balance,charge_balance,at,product_name,note,operator\n";

/// An entry as a line of that statement. An exchange has a product; a credit has a note and its operator. No text of it is
/// a formula.
///
/// # Errors
/// None is known, because it writes into memory.
pub fn statement_line(row: &LedgerRow) -> io::Result<String> {
    let line = &row.line;
    let (product, note) =
        if line.kind == EXCHANGE { (row.text.as_str(), "") } else { ("", row.text.as_str()) };
    let mut writer = WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    writer.serialize((
        (line.seq, &line.kind, &line.biz_no, line.reference.as_deref().map(csv_text)),
        (line.free_change, line.charge_change, line.free_balance, line.charge_balance, rfc3339(line.at)),
        (csv_text(product), csv_text(note), row.operator.as_deref().map(csv_text)),
    ))?;
    let bytes = writer.into_inner().map_err(IntoInnerError::into_error)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// CSV of this heading and these lines.
///
/// # Errors
/// None is known, because it writes into memory.
pub fn csv_of(
    heading: impl IntoIterator<Item = impl AsRef<[u8]>>,
    lines: impl IntoIterator<Item = impl Serialize>,
) -> io::Result<Vec<u8>> {
    let mut writer = WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    writer.write_record(heading)?;
    for line in lines {
        writer.serialize(line)?;
    }
    writer.into_inner().map_err(IntoInnerError::into_error)
}

/// The fault of a line of CSV, in words.
#[must_use]
pub(crate) fn csv_fault(error: &csv::Error) -> Text {
    if let Some(fault) = QuoteFault::of(error) {
        return fault.text();
    }
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            text!("expected {expected} columns, got {got}", expected = expected_len, got = len)
        }
        csv::ErrorKind::Utf8 { .. } => "expected UTF-8; in a spreadsheet, save it as CSV UTF-8".into(),
        csv::ErrorKind::Io(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            text!("expected at most {max} bytes; is a quotation mark without its pair?", max = LINE_BYTES_MAX)
        }
        csv::ErrorKind::Io(error) => Text::same(error),
        _ => Text::same(error),
    }
}

/// The fault of a heading of CSV, in words. A fault of a quote names its line: the rest of the file may lie between the
/// two quotes.
#[must_use]
pub(crate) fn heading_fault(error: &csv::Error) -> Text {
    let cause = csv_fault(error);
    match QuoteFault::of(error) {
        Some(fault) => text!("line {line}: {cause}", line = fault.line, cause),
        None => cause,
    }
}

/// The line of a fault, as editors count. `begins` is where its record begins, where the fault itself does not tell. The
/// place of the file changes.
#[must_use]
pub(crate) fn fault_line(error: &csv::Error, file: impl Read + Seek, begins: &Position) -> u64 {
    match QuoteFault::of(error) {
        Some(fault) => fault.line,
        None => csv_line(file, error.position().unwrap_or(begins)),
    }
}

/// The names of a heading, without the empty ones at its end: spreadsheets write columns that were emptied.
#[must_use]
pub(crate) fn names_of(heading: &StringRecord) -> Vec<&str> {
    let mut names: Vec<&str> =
        heading.iter().map(|name| name.trim_start_matches(BYTE_ORDER_MARK).trim()).collect();
    while names.len() > 1 && names.last().is_some_and(|name| name.is_empty()) {
        names.pop();
    }
    names
}

/// Whether a line has a cell for each name of a heading of this width, and behind them empty ones at most.
#[must_use]
pub(crate) fn fits_heading(line: &StringRecord, width: usize) -> bool {
    line.len() >= width && line.iter().skip(width).all(str::is_empty)
}

/// The kind of a file that begins with these bytes and is no CSV, in words that follow "it is". `None` for what may be
/// CSV.
#[must_use]
pub(crate) fn not_csv(begins: &[u8]) -> Option<Text> {
    let kinds: [(&[u8], &'static str); 5] = [
        (b"PK\x03\x04", "a workbook of a spreadsheet"),
        (b"\xd0\xcf\x11\xe0", "a workbook of a spreadsheet"),
        (b"\x1f\x8b", "gzip data"),
        (b"%PDF-", "a PDF"),
        (b"--", "a multipart body"),
    ];
    let known = kinds.into_iter().find(|(start, _)| begins.starts_with(start)).map(|(_, kind)| kind);
    // Without its mark, UTF-16 of Latin letters is UTF-8 with NULs.
    let kind = known.or_else(|| (BodyKind::of(begins) == BodyKind::Utf16).then_some("text in UTF-16"))?;
    Some(text!("it is {kind}: save it as CSV in UTF-8", kind = Text::new(kind)))
}

/// A cell without what makes a spreadsheet show it as text: `="000123"`.
#[must_use]
pub(crate) fn bare_cell(cell: &str) -> &str {
    cell.strip_prefix("=\"").and_then(|cell| cell.strip_suffix('"')).unwrap_or(cell)
}

/// A value of the books of others without what stands around it so that a spreadsheet keeps it as a text (contract 13.5.3).
#[must_use]
pub(crate) fn bare_value(cell: &str) -> &str {
    let seen = without_unseen(cell);
    without_unseen(bare_cell(seen.strip_prefix(['`', '\'']).unwrap_or(seen)))
}

/// What separates the cells of a file that begins so: what its first line has most of outside quotation marks. Of as many,
/// it is the comma, and then the tab.
#[must_use]
pub(crate) fn separator(begins: &[u8]) -> u8 {
    const SEPARATORS: [u8; 3] = [b',', b'\t', b';'];
    let (mut counts, mut is_quoted) = ([0_usize; SEPARATORS.len()], false);
    let lines = begins.split(|byte| matches!(byte, b'\r' | b'\n'));
    for byte in lines.filter(|line| !line.is_empty()).take(1).flatten() {
        is_quoted ^= *byte == b'"';
        if let Some(place) = SEPARATORS.iter().position(|separator| separator == byte).filter(|_| !is_quoted)
        {
            counts[place] += 1;
        }
    }
    let mut most = 0;
    for (place, count) in counts.iter().enumerate() {
        if *count > counts[most] {
            most = place;
        }
    }
    SEPARATORS[most]
}

/// Whether a first line tells a spreadsheet what separates the cells, such as `sep=;`, and nothing else. Then the heading is
/// behind it (contract 8.3.14).
#[must_use]
pub(crate) fn is_separator_line(line: &StringRecord) -> bool {
    let named = line.get(0).unwrap_or_default().trim_start_matches(BYTE_ORDER_MARK);
    line.len() == 2 && named.eq_ignore_ascii_case("sep=") && line.get(1) == Some("")
}

/// An id of a cell without what stands around it, where that makes it one.
#[must_use]
pub(crate) fn bare_id<T>(cell: &str, parse: impl FnOnce(&str) -> Result<T, Expected>) -> &str {
    let bare = without_strays(cell);
    if parse(bare).is_ok() { bare } else { cell }
}

/// An id of a list without an apostrophe in front, and without blanks and unseen characters around it (contract 8.3.16).
#[must_use]
pub(crate) fn listed_id(cell: &str) -> &str {
    let seen = without_unseen(cell);
    without_unseen(seen.strip_prefix('\'').unwrap_or(seen))
}

/// The fault of a ref with an apostrophe before it, by which a spreadsheet marks a text, or with something unseen around it.
/// It is not taken off: a file that was credited with it would be credited again without it. `None` for all else.
#[must_use]
pub(crate) fn surrounded(reference: &str) -> Option<Text> {
    let got = shown(reference);
    if without_unseen(reference) != reference {
        Some(text!("expected no blank or unseen character around it, got {got}", got))
    } else if reference.starts_with('\'') {
        Some(text!("expected no apostrophe before it, got {got}", got))
    } else {
        None
    }
}

/// The errors of a cell without a mark at their end, in the languages of spreadsheets.
const UNMARKED_ERRORS: [&str; 11] = [
    "#N/A",
    "#NV",
    "#N/D",
    "#N/V",
    "#N/B",
    "#I/T",
    "#Н/Д",
    "#YOK",
    "#HIÁNYZIK",
    "#NENÍ_K_DISPOZICI",
    "#GETTING_DATA",
];

/// Whether a cell has what spreadsheets write in place of a value that they have not. Their languages have words of their
/// own for it, so its form tells.
fn is_cell_error(cell: &str) -> bool {
    let is_of_word = |letter: char| letter.is_alphabetic() || "/¡¿_0".contains(letter);
    let word = cell.strip_prefix('#').and_then(|rest| rest.strip_suffix(['!', '?']));
    let is_narrow = !cell.is_empty() && cell.bytes().all(|byte| byte == b'#');
    let number = cell.strip_prefix("Err:").unwrap_or_default();
    is_narrow
        || UNMARKED_ERRORS.contains(&cell)
        || word.is_some_and(|word| !word.is_empty() && word.chars().all(is_of_word))
        || (number.len() == 3 && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The fault of a number that a spreadsheet has destroyed: written in exponent form, such as 1.79603E+12, its last digits
/// are lost. An error of a cell, such as #REF!, is the same in each line, so that lines of other values would be one.
/// `None` for all else.
#[must_use]
pub(crate) fn shortened(cell: &str) -> Option<Text> {
    if is_cell_error(cell) {
        let got = shown(cell);
        return Some(text!("expected a value, got {got}, which is an error of a spreadsheet", got));
    }
    let (digits, exponent) = cell.split_once(['e', 'E'])?;
    // Without a sign and a point it may be an id, such as 1e50.
    let exponent = match exponent.strip_prefix('+') {
        Some(exponent) => exponent,
        None if digits.contains(['.', ',']) => exponent,
        None => return None,
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, behind) = digits.split_once(['.', ',']).unwrap_or((digits, "0"));
    let is_short =
        whole.len() == 1 && exponent.len() >= 2 && [whole, behind, exponent].into_iter().all(is_number);
    let got = shown(cell);
    is_short
        .then(|| text!("expected the digits of a number, got {got}, which a spreadsheet has shortened", got))
}

/// The number of a record's line, as editors count: a quoted record can span several lines, and empty lines
/// count. The position of the reader is before the empty lines that it skipped. The place of the file changes.
#[must_use]
pub fn csv_line(mut file: impl Read + Seek, position: &Position) -> u64 {
    let mut before = || -> io::Result<u64> {
        file.seek(SeekFrom::Start(position.byte()))?;
        let mut empty = 0;
        for byte in BufReader::new(&mut file).bytes() {
            match byte? {
                b'\n' => empty += 1,
                b'\r' => {}
                _ => break,
            }
        }
        Ok(empty)
    };
    position.line() + before().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;

    use super::*;
    use crate::wallet::LedgerLine;

    fn row(kind: &str, reference: &str, text: &str) -> LedgerRow {
        let is_exchange = kind == EXCHANGE;
        let line = LedgerLine {
            seq: 1,
            kind: kind.to_owned(),
            biz_no: is_exchange.then(|| reference.to_owned()),
            reference: (!is_exchange).then(|| reference.to_owned()),
            free_change: -1,
            charge_change: 0,
            free_balance: 1,
            charge_balance: 0,
            at: OffsetDateTime::UNIX_EPOCH,
        };
        LedgerRow {
            line,
            text: text.to_owned(),
            pay_biz_no: None,
            operator: (!is_exchange).then(|| "=alice".to_owned()),
        }
    }

    /// Rule 8.3.14.
    #[test]
    fn the_first_line_tells_what_separates_cells() {
        for (begins, expected) in [
            ("biz_no,amount\n1;2;3", b','),
            ("biz_no;amount\n1,2,3", b';'),
            ("biz_no\tamount\r\n", b'\t'),
            ("\r\n\nbiz_no;amount", b';'),
            ("\"a,b,c\";amount", b';'),
            ("Amount, CNY;biz_no;at", b';'),
            ("Amount; CNY,biz_no", b','),
            ("open_id", b','),
            ("", b','),
        ] {
            assert_eq!(separator(begins.as_bytes()), expected, "{begins:?}");
        }
    }

    /// Rule 8.3.16.
    #[test]
    fn what_a_spreadsheet_put_around_a_ref_is_a_fault() {
        let fault = |cell: &str| surrounded(cell).map(|fault| fault.english());
        let apostrophe = "expected no apostrophe before it, got \"'gift1\"";
        assert_eq!(fault("'gift1").as_deref(), Some(apostrophe));
        let unseen = "expected no blank or unseen character around it, got \"gift1\\u{200b}\"";
        assert_eq!(fault("gift1\u{200b}").as_deref(), Some(unseen));
        for cell in ["\u{feff}gift1", "'\u{200b}gift1\u{200b}", "'=x"] {
            assert!(surrounded(cell).is_some(), "{cell:?}");
        }
        for cell in ["gift1", "gift(1)", "a'b", "=x;-y", "gift1'"] {
            assert_eq!(surrounded(cell), None, "{cell:?}");
        }
    }

    #[test]
    fn utf_16_is_named_with_its_mark_or_without() {
        for begins in [&b"\xff\xfeo\0p\0"[..], b"\xfe\xff\0o\0p", b"o\0p\0e\0n\0", b"\0o\0p\0e\0n"] {
            let kind = not_csv(begins).map(|kind| kind.english());
            let expected = "it is text in UTF-16: save it as CSV in UTF-8";
            assert_eq!(kind.as_deref(), Some(expected), "{begins:?}");
        }
        for begins in [&b"open_id,free\n"[..], b"\xef\xbb\xbfopen_id\n", b"o,\0\n", b"a", b""] {
            assert_eq!(not_csv(begins), None, "{begins:?}");
        }
    }

    /// Rule 13.5.3.
    #[test]
    fn what_keeps_a_value_a_text_is_not_of_it() {
        for cell in ["o1", "`o1", "'o1", "=\"o1\"", " o1\t", "\u{feff}` o1", "'=\"o1\"", "=\" o1 \""] {
            assert_eq!(bare_value(cell), "o1", "{cell:?}");
        }
        for (cell, bare) in [("", ""), ("a'b", "a'b"), ("\"o1\"", "\"o1\""), ("=o1", "=o1")] {
            assert_eq!(bare_value(cell), bare);
        }
    }

    /// Rule 8.3.16.
    #[test]
    fn a_number_in_exponent_form_is_refused() {
        let fault = shortened("1.79603E+12").map(|fault| fault.english());
        let expected =
            "expected the digits of a number, got \"1.79603E+12\", which a spreadsheet has shortened";
        assert_eq!(fault.as_deref(), Some(expected));
        for cell in [
            "4.20001E+27",
            "4,20001E+27",
            "4E+27",
            "1E+05",
            "1.79607e+12",
            "1.796030000000000000e+12",
            "1.80E16",
            "1.8e16",
            "1,8e16",
            "4e+27",
        ] {
            assert!(shortened(cell).is_some(), "{cell}");
        }
        for cell in [
            "",
            "E+12",
            "1.E+12",
            "12.5E+12",
            "gift1E+12",
            "1E+1",
            "12E5",
            "1e5",
            "1e50",
            "1E2E3",
            "1.5e1f",
            "1.5E-12",
            "e",
        ] {
            assert!(shortened(cell).is_none(), "{cell}");
        }
    }

    /// Rule 8.3.16: an error of a cell is no value. Two lines with it would be one credit.
    #[test]
    fn an_error_of_a_cell_is_refused() {
        let fault = shortened("#REF!").map(|fault| fault.english());
        let expected = "expected a value, got \"#REF!\", which is an error of a spreadsheet";
        assert_eq!(fault.as_deref(), Some(expected));
        let errors = "#N/A #REF! #VALUE! #NAME? #DIV/0! #NULL! #NUM! #SPILL! #CALC! #NV #WERT! #BEZUG! #VALEUR! #¡VALOR! \
                      #¿NOMBRE? #NOMBRE? #N/D #N/V #Н/Д #ЗНАЧ! #ССЫЛКА! #VÄRDEFEL! #名前? #GETTING_DATA #FIELD! #BLOCKED! \
                      #CONNECT! #BUSY! #UNKNOWN! #PYTHON! #EXTERNAL! #ERROR! #YOK #HIÁNYZIK Err:502 Err:504 ######## #";
        for cell in errors.split_whitespace() {
            assert!(shortened(cell).is_some(), "{cell}");
        }
        for cell in [
            "#1", "REF!", "#REF!-1", "gift#", "N/A", "#!", "#1!", "#a b!", "#gift", "Err:50", "Err:5020",
            "Err:abc",
        ] {
            assert!(shortened(cell).is_none(), "{cell}");
        }
    }

    #[test]
    fn a_text_that_looks_like_a_formula_is_text_in_a_spreadsheet() {
        for formula in ["=1+1", "+1", "-1", "@SUM(A1)", "\tx"] {
            let csv = statement_line(&row("credit", formula, formula)).unwrap();
            assert_eq!(
                csv,
                format!("1,credit,,'{formula},-1,0,1,0,1970-01-01T00:00:00Z,,'{formula},'=alice\n")
            );
        }
        let csv = statement_line(&row("credit", "a=b", "x;=1;y")).unwrap();
        assert_eq!(csv, "1,credit,,a=b,-1,0,1,0,1970-01-01T00:00:00Z,,x;'=1;y,'=alice\n");
        let quoted = statement_line(&row("credit", "a,\"b\"", "\r=1")).unwrap();
        assert_eq!(quoted, "1,credit,,\"a,\"\"b\"\"\",-1,0,1,0,1970-01-01T00:00:00Z,,\"'\r'=1\",'=alice\n");
    }
}
