//! The output of commands: tables and lines for people, or one JSON object for scripts.

use std::io::{self, Write};

use comfy_table::{Table, presets};
use serde::Serialize;

use super::Failure;
pub(super) use domain::moment::rfc3339;

/// Prints an error to standard error.
#[expect(clippy::print_stderr, reason = "a command line complains there")]
pub(super) fn complain(text: &str) {
    eprintln!("minitill: {text}");
}

/// Prints a question to standard error, because standard output is for the result.
pub(super) fn prompt(question: &str) -> Result<(), Failure> {
    let mut out = io::stderr().lock();
    out.write_all(question.as_bytes()).and_then(|()| out.flush()).map_err(Failure::from)
}

/// Prints the result of a command.
pub(super) struct Output {
    json: bool,
}

impl Output {
    pub(super) fn new(json: bool) -> Self {
        Self { json }
    }

    /// Whether the result is one JSON object.
    pub(super) fn is_json(&self) -> bool {
        self.json
    }

    /// Prints `value` as JSON, or the text for people.
    pub(super) fn print(&self, value: &impl Serialize, text: impl FnOnce() -> String) -> Result<(), Failure> {
        let printed = if self.json {
            serde_json::to_string(value).map_err(|error| Failure(error.to_string()))?
        } else {
            text()
        };
        write_out(|out| writeln!(out, "{}", printed.trim_end()))
    }
}

/// Writes to standard output. A closed pipe (`| head`) is not an error.
pub(super) fn write_out(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    ignore_gone_reader(write(&mut out).and_then(|()| out.flush()))
}

/// Turns the error of a closed pipe into success: the reader needs no more lines.
pub(super) fn ignore_gone_reader(outcome: io::Result<()>) -> Result<(), Failure> {
    match outcome {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// A table with a heading.
pub(super) fn table(heading: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_header(heading.to_vec());
    for row in rows {
        table.add_row(row);
    }
    table.to_string()
}

/// Names and values, one pair per line.
pub(super) fn lines(pairs: &[(&str, String)]) -> String {
    let width = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    pairs.iter().map(|(name, value)| format!("{name:<width$}  {value}")).collect::<Vec<_>>().join("\n")
}

/// `yes` or `no`.
pub(super) fn yes_no(value: bool) -> String {
    if value { "yes" } else { "no" }.to_owned()
}
