//! The heading of a benchmark: what was measured, when, and on which machine.

use std::fs;
use std::time::{Duration, UNIX_EPOCH};

use domain::clock::{Clock as _, SystemClock};

use super::Fallible;
use super::stage::{Stage, file_system};
use super::usage::mebibytes;

/// Machine, versions, settings and the command itself.
pub fn text(benchmark: &str, stage: &mut Stage, measured: &str) -> Fallible<String> {
    let millis = u64::try_from(SystemClock::new().unix_millis())?;
    let date = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_millis(millis));
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let session = stage.session();
    let version = session.text("SHOW server_version")?;
    let (fsync, commit) = (session.text("SHOW fsync")?, session.text("SHOW synchronous_commit")?);
    let file_system = file_system(stage.folder());
    let lines = [
        ("command", format!("cargo bench --bench {benchmark} -- {}", arguments.join(" "))),
        ("date", date.to_string()),
        ("machine", machine()),
        ("PostgreSQL", format!("{version}, fsync {fsync}, synchronous_commit {commit}, on {file_system}")),
        ("server", format!("minitill {}, with its default settings", env!("CARGO_PKG_VERSION"))),
        ("measured", measured.to_owned()),
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

/// 1234567 as 1,234,567.
pub fn grouped(digits: &str) -> String {
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
