//! What a person reads: what was measured on which machine, and one table.

use std::fs;
use std::time::{Duration, UNIX_EPOCH};

use comfy_table::{CellAlignment, Table, presets};
use minitill::clock::{Clock as _, SystemClock};

use crate::Fallible;
use crate::options::Options;
use crate::rounds::Results;
use crate::rows::{Row, Work};
use crate::sample::Sample;
use crate::stage::{Stage, file_system};
use crate::usage::mebibytes;

const HEADING: [&str; 12] = [
    "",
    "exchanges/s",
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
/// Where a figure would mean nothing.
const NONE: &str = "-";

/// Machine, versions, settings and the command itself.
pub(crate) fn heading(options: &Options, stage: &mut Stage) -> Fallible<String> {
    let millis = u64::try_from(SystemClock::new().unix_millis())?;
    let date = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_millis(millis));
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let session = stage.session();
    let version = session.text("SHOW server_version")?;
    let (fsync, commit) = (session.text("SHOW fsync")?, session.text("SHOW synchronous_commit")?);
    let file_system = file_system(stage.folder());
    let lines = [
        ("command", format!("cargo bench --bench exchange -- {}", arguments.join(" "))),
        ("date", date.to_string()),
        ("machine", machine()),
        ("PostgreSQL", format!("{version}, fsync {fsync}, synchronous_commit {commit}, on {file_system}")),
        ("server", format!("minitill {}, with its default settings", env!("CARGO_PKG_VERSION"))),
        (
            "measured",
            format!(
                "{} wallets; rounds: {}, {} s a row; the table shows medians",
                grouped(&options.wallets().to_string()),
                options.rounds(),
                options.seconds().as_secs()
            ),
        ),
    ];
    Ok(lines.map(|(name, value)| format!("{name:<11}{}", value.trim())).join("\n"))
}

fn machine() -> String {
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processors.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let gibibytes = mebibytes(&memory, "MemTotal:") / 1024.0;
    format!(
        "{cores} cores, {}, {gibibytes:.1} GiB of memory",
        model.map_or("unknown model", |(_, name)| name)
    )
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
        ratio(Row::Classic),
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

/// 1234567 as 1,234,567.
pub(crate) fn grouped(digits: &str) -> String {
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
