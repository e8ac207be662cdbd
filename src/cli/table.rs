//! Tables of commands (contract 8.1.6): aligned for people on a terminal, with tabs for programs.

use domain::moment;
use domain::period::TimeZone;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::visible::visible;

/// Columns of free text. They are shortened where a terminal is too narrow; ids, figures and times never are.
const TEXTS: [&str; 9] =
    ["change", "detail", "error", "meaning", "name", "note", "product_name", "reason", "text"];
/// A text keeps so many columns at least.
const TEXT_COLUMNS_MIN: usize = 16;
/// Blanks between two columns.
const GAP: usize = 2;

/// The form of a table on a terminal.
#[derive(Debug, Clone)]
pub(super) struct TableStyle {
    /// Columns of the terminal. `None` where standard output is none.
    pub(super) width: Option<u16>,
    /// Whether every column is shown, and texts in full, however narrow the terminal is.
    pub(super) is_wide: bool,
    /// The time zone of times on a terminal.
    pub(super) zone: TimeZone,
}

/// A table with a heading.
pub(super) fn table(
    style: &TableStyle,
    heading: &[&str],
    rows: impl IntoIterator<Item = Vec<String>>,
) -> String {
    let Some(width) = style.width else {
        let heading = heading.iter().map(|name| (*name).to_owned()).collect();
        let lines = std::iter::once(heading).chain(rows).map(|cells| tab_separated(&cells));
        return lines.collect::<Vec<_>>().join("\n");
    };
    let rows: Vec<Vec<String>> =
        rows.into_iter().map(|cells| cells.iter().map(|cell| visible(cell).into_owned()).collect()).collect();
    let mut columns: Vec<TableColumn> = heading
        .iter()
        .enumerate()
        .map(|(at, name)| {
            TableColumn::new(name, rows.iter().map(|row| row[at].clone()).collect(), &style.zone)
        })
        .collect();
    let hidden = if style.is_wide { Vec::new() } else { fit(&mut columns, width.into()) };
    let shown = aligned(&columns);
    if hidden.is_empty() {
        return shown;
    }
    let names = hidden.iter().map(|column| column.heading.as_str()).collect::<Vec<_>>().join(", ");
    format!("{shown}\nNot shown: {names}. -o wide shows all.")
}

/// Cells for programs: a tab or a line end within one is escaped.
pub(super) fn tab_separated(cells: &[String]) -> String {
    cells.iter().map(|cell| visible(cell)).collect::<Vec<_>>().join("\t")
}

struct TableColumn {
    heading: String,
    is_text: bool,
    is_figure: bool,
    cells: Vec<String>,
}

impl TableColumn {
    fn new(name: &str, cells: Vec<String>, zone: &TimeZone) -> Self {
        let mut column = Self {
            heading: name.replace('_', " ").to_uppercase(),
            is_text: TEXTS.contains(&name),
            is_figure: cells.iter().all(|cell| cell.parse::<i128>().is_ok()),
            cells,
        };
        column.show_times(zone);
        column
    }

    /// Shows a column of times in the zone, which the heading names. The other cells of it say that there is none.
    fn show_times(&mut self, zone: &TimeZone) {
        let moments: Vec<_> =
            self.cells.iter().map(|cell| OffsetDateTime::parse(cell, &Rfc3339).ok()).collect();
        let are_times = moments.iter().any(Option::is_some)
            && self.cells.iter().zip(&moments).all(|(cell, moment)| moment.is_some() || cell == "none");
        if are_times {
            self.heading = format!("{} ({})", self.heading, zone.as_str());
            for (cell, moment) in self.cells.iter_mut().zip(moments) {
                if let Some(moment) = moment {
                    *cell = moment::plain(zone.clock(moment).assume_utc());
                }
            }
        }
    }

    fn width(&self) -> usize {
        self.cells.iter().map(|cell| cell.width()).max().unwrap_or_default().max(self.heading.width())
    }

    fn shorten(&mut self, width: usize) {
        for cell in &mut self.cells {
            if cell.width() > width {
                *cell = shortened(cell, width);
            }
        }
    }
}

/// The beginning of a text, with an ellipsis.
fn shortened(text: &str, width: usize) -> String {
    let mut used = 1;
    let fits = |character: &char| {
        used += character.width().unwrap_or_default();
        used <= width
    };
    text.chars().take_while(fits).chain(['\u{2026}']).collect()
}

/// Shortens texts, the widest first, and then takes the last columns away until the rest fits.
fn fit(columns: &mut Vec<TableColumn>, width: usize) -> Vec<TableColumn> {
    let needed =
        |columns: &[TableColumn]| columns.iter().map(|column| column.width() + GAP).sum::<usize>() - GAP;
    while needed(columns) > width {
        let over = needed(columns) - width;
        let widest = columns.iter_mut().filter(|column| column.is_text).max_by_key(|column| column.width());
        let Some(text) = widest.filter(|text| text.width() > TEXT_COLUMNS_MIN.max(text.heading.width()))
        else {
            break;
        };
        let to = text.width().saturating_sub(over).max(TEXT_COLUMNS_MIN);
        text.shorten(to);
    }
    let mut hidden = Vec::new();
    while columns.len() > 1 && needed(columns) > width {
        hidden.extend(columns.pop());
    }
    hidden.reverse();
    hidden
}

/// The lines of a table: figures end where their column ends, all else begins where it begins.
fn aligned(columns: &[TableColumn]) -> String {
    let widths: Vec<_> = columns.iter().map(TableColumn::width).collect();
    let line = |cells: &[&str]| {
        let padded = cells.iter().zip(columns).zip(&widths).map(|((cell, column), width)| {
            let blanks = " ".repeat(width - cell.width());
            if column.is_figure { format!("{blanks}{cell}") } else { format!("{cell}{blanks}") }
        });
        padded.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end().to_owned()
    };
    let rows = columns.first().map(|column| column.cells.len()).unwrap_or_default();
    let heading: Vec<_> = columns.iter().map(|column| column.heading.as_str()).collect();
    let rows = (0..rows).map(|row| {
        let cells: Vec<_> = columns.iter().map(|column| column.cells[row].as_str()).collect();
        line(&cells)
    });
    std::iter::once(line(&heading)).chain(rows).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn style(width: u16) -> TableStyle {
        let zone = TimeZone::parse("Asia/Shanghai").unwrap();
        TableStyle { width: Some(width), is_wide: false, zone }
    }

    fn rows() -> Vec<Vec<String>> {
        [
            ["2026-10-20T16:30:00Z", "player-0000000001", "7", "a purse of \u{5251} and gold, \u{1b}[31mred"],
            ["none", "o2", "-1200", ""],
        ]
        .map(|row| row.map(str::to_owned).to_vec())
        .to_vec()
    }

    const HEADING: [&str; 4] = ["last_at", "open_id", "free_change", "note"];

    /// Rule 8.1.6: no box, whole ids, figures to the right, times in the zone that the heading names.
    #[test]
    fn a_table_on_a_terminal_is_aligned() {
        assert_eq!(
            table(&style(120), &HEADING, rows()),
            "LAST AT (Asia/Shanghai)  OPEN ID            FREE CHANGE  NOTE\n\
             2026-10-21 00:30:00      player-0000000001            7  a purse of \u{5251} and gold, \\u{1b}[31mred\n\
             none                     o2                       -1200"
        );
    }

    /// Rule 8.1.6: a narrow terminal shortens texts first, and then hides the last columns; `-o wide` does neither.
    #[test]
    fn what_does_not_fit_is_shortened_or_hidden() {
        let shown = table(&style(80), &HEADING, rows());
        assert_eq!(
            shown.lines().nth(1).unwrap().split("7  ").nth(1),
            Some("a purse of \u{5251} and gold\u{2026}")
        );
        assert!(shown.lines().all(|line| line.width() <= 80), "{shown}");
        assert_eq!(
            table(&style(60), &HEADING, rows()),
            "LAST AT (Asia/Shanghai)  OPEN ID            FREE CHANGE\n\
             2026-10-21 00:30:00      player-0000000001            7\n\
             none                     o2                       -1200\n\
             Not shown: NOTE. -o wide shows all."
        );
        let whole = table(&TableStyle { is_wide: true, ..style(60) }, &HEADING, rows());
        assert_eq!(whole, table(&style(1000), &HEADING, rows()));
        assert!(table(&style(1), &HEADING, rows()).starts_with("LAST AT"), "one column is always there");
    }

    /// Rule 8.1.6: programs get tabs, the names of the fields, and times as in JSON.
    #[test]
    fn a_program_reads_tabs() {
        let shown = table(&TableStyle { width: None, ..style(80) }, &HEADING, rows());
        assert_eq!(shown.lines().next(), Some("last_at\topen_id\tfree_change\tnote"));
        assert!(shown.contains("2026-10-20T16:30:00Z\tplayer-0000000001\t7\ta purse"), "{shown}");
        assert_eq!(
            tab_separated(&["a1".to_owned(), "two\nlines\tand a tab".to_owned()]),
            "a1\ttwo\\nlines\\tand a tab"
        );
    }
}
