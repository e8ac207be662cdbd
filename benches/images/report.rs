//! The report of the benchmark of pictures: one table for people.

use std::collections::BTreeMap;

use comfy_table::{CellAlignment, Table, presets};

use crate::heading::grouped;
use crate::rounds::{Measured, Row};

const HEADING: [&str; 13] = [
    "",
    "in\nflight",
    "uploads/s",
    "MB/s",
    "x INSERT",
    "x judging",
    "p50 ms",
    "p99 ms",
    "CPU ms:\nserver",
    "\nPostgreSQL",
    "INSERT\np50 ms",
    "judging\nms",
    "server\nMiB now\n/ peak",
];

/// One line for each row.
pub(crate) fn table(results: &BTreeMap<Row, Measured>) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_header(HEADING);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for (row, measured) in results {
        table.add_row(line(*row, measured));
    }
    format!(
        "{table}\nx INSERT: uploads a second, as a share of the rows of the same bytes that pgbench inserts with as many \
         clients.\nx judging: time from one upload to the next, as a multiple of the time to judge one picture on one core."
    )
}

fn line(row: Row, measured: &Measured) -> Vec<String> {
    let uploads = &measured.uploads;
    let megabytes = f64::from(u32::try_from(measured.bytes).unwrap_or(u32::MAX)) / 1e6;
    // Samples count CPU seconds for 10,000 answers.
    let millis_each = |seconds: f64| format!("{:.1}", seconds / 10.0);
    let memory = uploads.memory.map(|memory| format!("{:.0} / {:.0}", memory.now_mib, memory.peak_mib));
    vec![
        format!("{} ({} bytes)", row.size.name(), grouped(&measured.bytes.to_string())),
        row.in_flight.to_string(),
        format!("{:.1}", uploads.rate),
        format!("{:.1}", uploads.rate * megabytes),
        format!("{:.2}", uploads.rate / measured.inserts.rate),
        format!("{:.2}", 1.0 / uploads.rate / measured.judging),
        format!("{:.1}", uploads.p50),
        format!("{:.1}", uploads.p99),
        uploads.cpu.server.map(millis_each).unwrap_or_default(),
        millis_each(uploads.cpu.postgres),
        format!("{:.1}", measured.inserts.p50),
        format!("{:.1}", measured.judging * 1000.0),
        memory.unwrap_or_default(),
    ]
}
