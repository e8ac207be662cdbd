//! Texts in CSV files that spreadsheets open (contract 13.2).

use std::borrow::Cow;

/// A free text as a cell of CSV, not yet quoted: with an apostrophe before what a spreadsheet would calculate. That is a
/// text which begins with `=`, `+`, `-`, `@`, a tab or a carriage return. In some languages a semicolon separates cells.
#[must_use]
pub fn csv_text(text: &str) -> Cow<'_, str> {
    let begins = |cell: &str| cell.starts_with(['=', '+', '-', '@', '\t', '\r']);
    if !text.split(';').any(begins) {
        return text.into();
    }
    let cell = |text: &str| if begins(text) { format!("'{text}") } else { text.to_owned() };
    text.split(';').map(cell).collect::<Vec<_>>().join(";").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_spreadsheet_would_calculate_is_a_text() {
        for formula in ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"] {
            assert_eq!(csv_text(formula), format!("'{formula}"));
        }
        for (text, cell) in [("", ""), ("a=b", "a=b"), ("1-2", "1-2"), ("x;=1;y", "x;'=1;y")] {
            assert_eq!(csv_text(text), cell);
        }
    }
}
