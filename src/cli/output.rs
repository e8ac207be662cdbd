//! The output of commands: text for people, or one JSON object for scripts.

use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write};

use anyhow::Result;
use domain::changes::words;
use domain::period::TimeZone;
use indexmap::IndexMap;
use indicatif::{ProgressBar, ProgressStyle};
use rustix::termios::tcgetwinsize;
use serde::Serialize;
use serde_json::{Value, json};

use super::table::{TableStyle, table};
use super::visible::{visible, visible_lines};

/// What stands for a list that is of everything.
const ALL: &str = "all";
/// Columns of a terminal that does not tell them.
const TERMINAL_COLUMNS: u16 = 80;

/// Prints a remark of one line to standard error.
pub(super) fn complain(text: &str) {
    complain_at_length(&visible(text));
}

/// Prints a remark with lines of its own to standard error.
#[expect(clippy::print_stderr, reason = "a command line complains there")]
pub(super) fn complain_at_length(text: &str) {
    eprintln!("minitill: {}", visible_lines(text));
}

/// Prints what is wrong with the usage to standard error.
#[expect(clippy::print_stderr, reason = "a command line complains there")]
pub(super) fn refuse_usage(is_json: bool, text: &str) {
    if is_json { fail(true, text) } else { eprintln!("{}", visible_lines(text)) }
}

/// Prints the error that ended the command to standard error (contract 8.1.3).
#[expect(clippy::print_stderr, reason = "a command line complains there")]
pub(super) fn fail(is_json: bool, text: &str) {
    if is_json { eprintln!("{}", json!({ "error": text })) } else { complain(text) }
}

/// Prints the result of a command.
#[derive(Clone)]
pub(super) struct Output {
    /// Whether the result is one JSON object.
    pub(super) is_json: bool,
    /// The form of tables on a terminal.
    pub(super) style: TableStyle,
}

impl Output {
    /// Prints `value` as JSON, or the text for people.
    pub(super) fn print(&self, value: &impl Serialize, text: impl Display) -> Result<()> {
        if self.is_json {
            let json = serde_json::to_string(value)?;
            return write_out(|out| writeln!(out, "{json}"));
        }
        write_out(|out| out.write_all(visible_document(&text.to_string()).as_bytes()))
    }

    /// Prints the members of `value`, for people with a name and a value on each line.
    pub(super) fn show(&self, value: &impl Serialize) -> Result<()> {
        self.print(value, lines(&members(value)?))
    }

    /// The same for secrets that are not shown again.
    pub(super) fn show_once(&self, value: &impl Serialize) -> Result<()> {
        let lines = lines(&members(value)?);
        self.print(value, format!("{lines}\nSave this now. It is not shown again."))
    }

    /// Prints an object with the list `rows` under `name`. People get a table of these columns, named with blanks
    /// between them, or the text `none` if the list is empty.
    pub(super) fn list<Row: Serialize>(
        &self,
        name: &str,
        rows: &[Row],
        columns: &str,
        none: &str,
    ) -> Result<()> {
        let is_table = !self.is_json && !rows.is_empty();
        let text = if is_table { self.object_table(columns, rows)? } else { none.to_owned() };
        self.print(&json!({ name: rows }), text)
    }

    /// A table of these members of objects.
    pub(super) fn object_table<Row: Serialize>(
        &self,
        columns: &str,
        rows: &[Row],
    ) -> serde_json::Result<String> {
        let columns: Vec<&str> = columns.split(' ').collect();
        let rows = rows.iter().map(serde_json::to_value).collect::<Result<Vec<_>, _>>()?;
        let cells = rows.iter().map(|row| columns.iter().map(|column| cell(column, &row[*column])).collect());
        Ok(self.table(&columns, cells))
    }

    /// A table with a heading.
    pub(super) fn table(&self, heading: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
        table(&self.style, heading, rows)
    }

    /// The same with times in another zone, where one was given.
    pub(super) fn in_zone(&self, zone: Option<TimeZone>) -> Self {
        let style = self.style.clone();
        Self { style: TableStyle { zone: zone.unwrap_or(style.zone), ..style }, ..*self }
    }
}

/// A document for people, as it is printed.
pub(super) fn visible_document(text: &str) -> String {
    visible_lines(text.trim_end()).into_owned() + "\n"
}

/// A progress bar on standard error. It appears only on a terminal.
pub(super) fn progress_bar(length: u64, unit: &str) -> ProgressBar {
    let template = format!("{{bar:40}} {{human_pos}}/{{human_len}} {unit}, {{eta}} left");
    let style = ProgressStyle::with_template(&template).expect("the template is one of this program");
    ProgressBar::new(length).with_style(style)
}

/// Writes to standard output. A closed pipe (`| head`) is not an error.
pub(super) fn write_out(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let mut out = io::stdout().lock();
    ignore_gone_reader(write(&mut out).and_then(|()| out.flush()))
}

/// Turns the error of a closed pipe into success: the reader needs no more lines.
pub(super) fn ignore_gone_reader(outcome: io::Result<()>) -> Result<()> {
    match outcome {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// The columns of the terminal of standard output; `None` where that is no terminal.
pub(super) fn terminal_width() -> Option<u16> {
    let out = io::stdout();
    let columns = |size: rustix::termios::Winsize| Some(size.ws_col).filter(|columns| *columns > 0);
    out.is_terminal().then(|| tcgetwinsize(&out).ok().and_then(columns).unwrap_or(TERMINAL_COLUMNS))
}

/// The members of an object, in its own order. A [`Value`] would sort them.
pub(super) fn members(value: &impl Serialize) -> serde_json::Result<IndexMap<String, Value>> {
    serde_json::from_str(&serde_json::to_string(value)?)
}

/// Names and values, one pair on each line.
pub(super) fn lines(members: &IndexMap<String, Value>) -> String {
    let width = members.keys().map(String::len).max().unwrap_or_default();
    let lines = members.iter().map(|(name, value)| {
        let text = if is_all(name, value) { ALL.to_owned() } else { text_of(value) };
        format!("{name:<width$}  {text}")
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A cell of a table in words.
fn cell(name: &str, value: &Value) -> String {
    if is_all(name, value) { ALL.to_owned() } else { words(value) }
}

/// Whether a list names no items because it is of all of them: the apps of a key, the events of a receiver.
fn is_all(name: &str, value: &Value) -> bool {
    matches!(name, "apps" | "events") && value.as_array().is_some_and(Vec::is_empty)
}

/// A value in words. Each object of a list has a line of its own.
fn text_of(value: &Value) -> String {
    match value {
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| format!("{name}: {}", visible(&words(value))))
            .collect::<Vec<_>>()
            .join(", "),
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        Value::Array(items) if items[0].is_object() => {
            items.iter().map(|item| format!("\n  {}", text_of(item))).collect::<Vec<_>>().concat()
        }
        other => visible(&words(other)).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rule 8.1.2: an empty list that is of everything does not read as none.
    #[test]
    fn a_key_of_all_apps_is_of_all() {
        let key = json!({"apps": [], "events": [], "images": []});
        assert_eq!(lines(&members(&key).unwrap()), "apps    all\nevents  all\nimages  none");
        let one = json!({"apps": ["a1"]});
        assert_eq!(lines(&members(&one).unwrap()), "apps  a1");
        let shown = ["apps", "events", "poi_ids"].map(|name| cell(name, &json!([])));
        assert_eq!(shown, ["all", "all", ""]);
    }

    #[test]
    fn people_read_names_and_values_in_the_order_of_the_fields() {
        #[derive(Serialize)]
        struct Shown {
            seq: u32,
            blocked: bool,
            at: Option<u32>,
            block: Value,
            damaged: [Value; 2],
            pages: [&'static str; 0],
        }
        let shown = Shown {
            seq: 7,
            blocked: true,
            at: None,
            block: json!({"images": 1, "reason": "r"}),
            damaged: [json!({"a": 1}), json!({"a": 2})],
            pages: [],
        };
        let text = lines(&members(&shown).unwrap());
        assert_eq!(
            text,
            "seq      7\nblocked  yes\nat       none\nblock    images: 1, reason: r\n\
             damaged  \n  a: 1\n  a: 2\npages    none"
        );
    }
}
