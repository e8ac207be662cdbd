//! Texts in CSV files that spreadsheets open (contract 13.2).

use std::borrow::Cow;

use crate::strays::is_zero_width;

/// Signs with which a formula begins. Spreadsheets read the wide and the small forms of Asian keyboards as well.
const SIGNS: &str = "=+-@\u{2212}\u{fe62}\u{fe63}\u{fe66}\u{fe6b}\u{ff0b}\u{ff0d}\u{ff1d}\u{ff20}";
/// Behind each of these a spreadsheet may begin a cell. Where it takes another separator than the comma, the quotation mark
/// of a text stands inside a cell and holds nothing together. Then a line break begins a row.
const BEFORE_CELL: [char; 4] = [';', '\t', '\r', '\n'];

/// A free text as a cell of CSV, not yet quoted: with an apostrophe before what a spreadsheet would calculate. That is a
/// text which begins with a sign of a formula, a tab or a carriage return. What is not seen before the sign does not
/// count. The same holds behind a semicolon, a tab and a line break.
#[must_use]
pub fn csv_text(text: &str) -> Cow<'_, str> {
    if !cells(text).any(is_formula) {
        return text.into();
    }
    let cell = |cell: &str| if is_formula(cell) { format!("'{cell}") } else { cell.to_owned() };
    cells(text).map(cell).collect::<String>().into()
}

/// The text of a cell that [`csv_text`] may have made: without the apostrophe before what would be a formula.
#[must_use]
pub fn plain_text(cell: &str) -> Cow<'_, str> {
    let plain = |part| str::strip_prefix(part, '\'').filter(|text| is_formula(text)).unwrap_or(part);
    let bare: String = cells(cell).map(plain).collect();
    if bare != cell && csv_text(&bare) == cell { Cow::Owned(bare) } else { Cow::Borrowed(cell) }
}

/// What a spreadsheet may take for cells, each with what separates it from the next one.
fn cells(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(BEFORE_CELL)
}

/// Whether a spreadsheet would calculate a cell. It takes off a quotation mark at its beginning, and calculates what follows.
fn is_formula(cell: &str) -> bool {
    let is_unseen = |character: char| {
        character == '"' || character.is_whitespace() || character.is_control() || is_zero_width(character)
    };
    let seen = cell.trim_start_matches(is_unseen);
    cell.starts_with(['\t', '\r']) || seen.starts_with(|first| SIGNS.contains(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_spreadsheet_would_calculate_is_a_text() {
        for formula in ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "\"=1"] {
            assert_eq!(csv_text(formula), format!("'{formula}"));
        }
        for (text, cell) in [
            ("", ""),
            ("a=b", "a=b"),
            ("1-2", "1-2"),
            ("x;=1;y", "x;'=1;y"),
            ("x\n=1+1;y", "x\n'=1+1;y"),
            ("x\r\n=1\r-1\t@a\nb", "x\r\n'=1\r'-1\t'@a\nb"),
            ("\t=1", "'\t'=1"),
            ("x;\"=1;y", "x;'\"=1;y"),
            ("a\nb\n", "a\nb\n"),
            (" a", " a"),
            ("\u{feff}", "\u{feff}"),
        ] {
            assert_eq!(csv_text(text), cell);
        }
    }

    #[test]
    fn a_cell_that_was_made_so_is_read_back() {
        for text in ["=1+1", "x;=1;y", "=x;-y", "=x;'a", "a=b", "'a", ""] {
            assert_eq!(plain_text(&csv_text(text)), text);
        }
        for cell in ["'=1;=2", "'a", "x;'a", "=1"] {
            assert_eq!(plain_text(cell), cell, "it was not made so");
        }
    }

    proptest::proptest! {
        /// Texts of what stands before cells, of signs and of what is not seen. They have no apostrophe: before a formula it
        /// would be taken for one of ours.
        #[test]
        fn each_text_is_read_back(text in "[a=;\t\r\n\" \u{ff1d}-]{0,12}") {
            let cell = csv_text(&text);
            proptest::prop_assert!(cells(&cell).all(|cell| !is_formula(cell)), "{cell:?}");
            proptest::prop_assert_eq!(plain_text(&cell), text.as_str());
        }
    }

    #[test]
    fn wide_signs_and_what_is_not_seen_before_a_sign_make_a_formula_too() {
        for sign in ["\u{ff1d}", "\u{ff0b}", "\u{ff0d}", "\u{ff20}", "\u{fe66}", "\u{2212}"] {
            assert_eq!(csv_text(&format!("{sign}1")), format!("'{sign}1"));
        }
        for unseen in [" ", "\u{a0}", "\u{3000}", "\0", "\u{200b}", "\u{feff}", "\u{202e}", "\u{ad} \u{2060}"]
        {
            assert_eq!(csv_text(&format!("{unseen}=1")), format!("'{unseen}=1"), "{unseen:?}");
        }
        assert_eq!(csv_text("x;\u{200b}\u{ff1d}1"), "x;'\u{200b}\u{ff1d}1");
    }
}
