//! Statements of a wallet as CSV (contract 8.3.9).

use std::io::{self, BufReader, Read, Seek, SeekFrom};

use csv::{IntoInnerError, Position, WriterBuilder};
use domain::csv::csv_text;
use domain::ledger::EXCHANGE;
use domain::moment::rfc3339;
use domain::text;
use domain::text::Text;

use super::LedgerRow;

/// Longest line, in bytes. A quotation mark without its pair would make one line of the rest of the file.
pub(crate) const LINE_BYTES_MAX: usize = 64 * 1024;

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

/// What is wrong with a line of CSV, in words.
#[must_use]
pub(crate) fn csv_fault(error: &csv::Error) -> Text {
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            text!("expected {expected} columns, got {got}", expected = expected_len, got = len)
        }
        csv::ErrorKind::Utf8 { .. } => "expected UTF-8".into(),
        csv::ErrorKind::Io(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            text!("expected at most {max} bytes; is a quotation mark without its pair?", max = LINE_BYTES_MAX)
        }
        csv::ErrorKind::Io(error) => Text::same(error),
        _ => Text::same(error),
    }
}

/// What a file is that begins so and is no CSV, in words that follow "it is". `None` for what may be CSV.
#[must_use]
pub(crate) fn not_csv(begins: &[u8]) -> Option<Text> {
    let kinds: [(&[u8], &'static str); 7] = [
        (b"PK\x03\x04", "a workbook of a spreadsheet"),
        (b"\xd0\xcf\x11\xe0", "a workbook of a spreadsheet"),
        (b"\xff\xfe", "text in UTF-16"),
        (b"\xfe\xff", "text in UTF-16"),
        (b"\x1f\x8b", "gzip data"),
        (b"%PDF-", "a PDF"),
        (b"--", "a multipart body"),
    ];
    let (_, kind) = kinds.into_iter().find(|(start, _)| begins.starts_with(start))?;
    Some(text!("it is {kind}: save it as CSV in UTF-8", kind = Text::new(kind)))
}

/// A cell without what makes a spreadsheet show it as text: `="000123"`.
#[must_use]
pub(crate) fn bare_cell(cell: &str) -> &str {
    cell.strip_prefix("=\"").and_then(|cell| cell.strip_suffix('"')).unwrap_or(cell)
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

    #[test]
    fn a_text_that_looks_like_a_formula_is_text_in_a_spreadsheet() {
        for formula in ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1"] {
            let csv = statement_line(&row("credit", formula, formula)).unwrap();
            assert_eq!(
                csv,
                format!("1,credit,,'{formula},-1,0,1,0,1970-01-01T00:00:00Z,,'{formula},'=alice\n")
            );
        }
        let csv = statement_line(&row("credit", "a=b", "x;=1;y")).unwrap();
        assert_eq!(csv, "1,credit,,a=b,-1,0,1,0,1970-01-01T00:00:00Z,,x;'=1;y,'=alice\n");
        let quoted = statement_line(&row("credit", "a,\"b\"", "\r=1")).unwrap();
        assert_eq!(quoted, "1,credit,,\"a,\"\"b\"\"\",-1,0,1,0,1970-01-01T00:00:00Z,,\"'\r=1\",'=alice\n");
    }
}
