//! Reads workbooks (.xlsx) back as text.

use std::io::{Cursor, Read as _};

use regex_lite::Regex;
use time::macros::datetime;
use time::{Duration, PrimitiveDateTime};
use zip::ZipArchive;

/// The media type of a workbook.
pub(crate) const XLSX: &str = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";

/// The sheets of a workbook: the name, and the rows. A cell is its text; a figure has `#` in front; a moment and a day have
/// `@` in front.
pub(crate) fn sheets(book: &[u8]) -> Vec<(String, Vec<Vec<String>>)> {
    let mut parts = ZipArchive::new(Cursor::new(book)).expect("a workbook");
    let mut part = |name: &str| {
        let mut text = String::new();
        parts.by_name(name).expect(name).read_to_string(&mut text).unwrap();
        text
    };
    let formats = formats(&part("xl/styles.xml"));
    let names = part("xl/workbook.xml");
    let name = Regex::new(r#"<sheet name="([^"]*)""#).unwrap();
    let sheet = |(number, name): (usize, regex_lite::Captures<'_>)| {
        let sheet = part(&format!("xl/worksheets/sheet{}.xml", number + 1));
        (name[1].to_owned(), rows(&sheet, &formats))
    };
    name.captures_iter(&names).enumerate().map(sheet).collect()
}

/// The rows of one sheet without its heading, with tabs between the cells.
pub(crate) fn sheet_lines(book: &[u8], sheet: &str) -> Vec<String> {
    let sheets = sheets(book);
    let (_, rows) =
        sheets.iter().find(|(name, _)| name == sheet).unwrap_or_else(|| panic!("no sheet {sheet}"));
    rows[1..].iter().map(|row| row.join("\t")).collect()
}

/// The format of figures of each style.
fn formats(styles: &str) -> Vec<String> {
    let own = Regex::new(r#"<numFmt numFmtId="(\d+)" formatCode="([^"]*)""#).unwrap();
    let own: Vec<(String, String)> =
        own.captures_iter(styles).map(|found| (found[1].to_owned(), found[2].to_owned())).collect();
    let cells = styles.split_once("<cellXfs").unwrap().1.split_once("</cellXfs>").unwrap().0;
    let of = |id: &str| own.iter().find(|(known, _)| known == id).map_or(id, |(_, code)| code).to_owned();
    let style = Regex::new(r#"<xf numFmtId="(\d+)""#).unwrap();
    style.captures_iter(cells).map(|found| of(&found[1])).collect()
}

fn rows(sheet: &str, formats: &[String]) -> Vec<Vec<String>> {
    let cell = Regex::new(concat!(
        r#"<c r="([A-Z])\d+"(?: s="(\d+)")?(?: t="(\w+)")?>"#,
        r#"(?:<is><t(?: xml:space="preserve")?>([^<]*)</t></is>|<v>([^<]*)</v>)</c>"#
    ))
    .unwrap();
    let row = Regex::new(r"(?s)<row [^>]*>(.*?)</row>").unwrap();
    let rows = row.captures_iter(sheet).map(|row| {
        let mut cells: Vec<String> = Vec::new();
        for found in cell.captures_iter(&row[1]) {
            cells.resize(usize::from(found[1].as_bytes()[0] - b'A'), String::new());
            let style = found.get(2).map_or(0, |style| style.as_str().parse().unwrap());
            let format = formats[style].as_str();
            cells.push(match found.get(4) {
                Some(text) => {
                    assert_eq!(format, TEXT, "a text cell has the format of texts: {}", &found[0]);
                    unescaped(text.as_str())
                }
                None => figure(&found[5], format),
            });
        }
        cells
    });
    rows.collect()
}

/// The number of the format `@`.
const TEXT: &str = "49";

fn figure(value: &str, format: &str) -> String {
    if format == "0" {
        return format!("#{value}");
    }
    let serial: f64 = value.parse().unwrap();
    let at: PrimitiveDateTime = datetime!(1899-12-30 0:00) + Duration::seconds_f64(serial * 86_400.0);
    // The nearest second.
    let (hour, minute, second) = (at + Duration::milliseconds(500)).as_hms();
    match format {
        "yyyy-mm-dd" => format!("@{}", at.date()),
        "yyyy-mm-dd hh:mm:ss" => format!("@{} {hour:02}:{minute:02}:{second:02}", at.date()),
        other => panic!("format {other}"),
    }
}

fn unescaped(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let code = Regex::new("_x([0-9A-F]{4})_").unwrap();
    let character = |found: &regex_lite::Captures<'_>| {
        char::from_u32(u32::from_str_radix(&found[1], 16).unwrap()).unwrap().to_string()
    };
    code.replace_all(&text, character).into_owned()
}
