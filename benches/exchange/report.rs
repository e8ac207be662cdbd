//! The report of the benchmark of exchanges: machine, figures and one table for people.

use comfy_table::{CellAlignment, Table, presets};

use crate::Fallible;
use crate::heading::{self, grouped};
use crate::options::Options;
use crate::rounds::Results;
use crate::rows::{Row, Work};
use crate::sample::Sample;
use crate::stage::Stage;

const HEADING: [&str; 12] = [
    "",
    "a second",
    "x classic",
    "x one\nstatement",
    "x ceiling",
    "p50 ms",
    "p99 ms",
    "p99.9 ms",
    "CPU s per\n10,000:\nserver",
    "\n\nPostgreSQL",
    "\n\nload",
    "server\nMiB now\n/ peak",
];
/// The cases in which a figure would mean nothing.
const NONE: &str = "-";

/// Machine, versions, settings and the command itself.
pub(crate) fn heading(options: &Options, stage: &mut Stage) -> Fallible<String> {
    let measured = format!(
        "{} wallets; rounds: {}, {} s a row; the table shows medians",
        grouped(&options.wallets().to_string()),
        options.rounds(),
        options.seconds().as_secs()
    );
    heading::text("exchange", stage, &measured)
}

/// One line for each row.
pub(crate) fn table(results: &Results) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_header(HEADING);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for (row, sample) in &results.fresh {
        table.add_row(line(row.name().to_owned(), *row, sample, &results.fresh));
    }
    let exchanges = grouped(&results.filled_to.to_string());
    for (row, sample) in &results.filled {
        let name = format!("{exchanges} exchanges: {}", row.name());
        table.add_row(line(name, *row, sample, &results.filled));
    }
    table.to_string()
}

type Rows = std::collections::BTreeMap<Row, Sample>;

fn line(name: String, row: Row, sample: &Sample, among: &Rows) -> Vec<String> {
    let ratio = |to: Row| match among.get(&to) {
        // A schedule says nothing about what could have been.
        Some(other) if !matches!(row.work(), Work::Paced(_)) => format!("{:.2}", sample.rate / other.rate),
        _ => NONE.to_owned(),
    };
    let memory = sample.memory.map(|memory| format!("{:.0} / {:.0}", memory.now_mib, memory.peak_mib));
    vec![
        name,
        grouped(&format!("{:.0}", sample.rate)),
        ratio(row.classic()),
        ratio(Row::OneStatement),
        ratio(Row::Ceiling),
        format!("{:.2}", sample.p50),
        format!("{:.2}", sample.p99),
        format!("{:.2}", sample.p999),
        sample.cpu.server.map_or_else(|| NONE.to_owned(), |cpu| format!("{cpu:.2}")),
        format!("{:.2}", sample.cpu.postgres),
        format!("{:.2}", sample.cpu.load),
        memory.unwrap_or_else(|| NONE.to_owned()),
    ]
}
