//! Runs of `minitill audit`, each with what it took.

use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::program::Program;
use crate::usage::{Usage, Watched};
use crate::{Fallible, interrupt};

/// How often a run's memory is looked at; its peak cannot be read once it has ended.
const MEMORY_EVERY: Duration = Duration::from_millis(5);
/// How long PostgreSQL may take to notice that the program has gone.
const SESSIONS_END_WITHIN: Duration = Duration::from_millis(500);

/// One run of the program.
pub(crate) struct Audit {
    pub(crate) name: &'static str,
    pub(crate) entries: u64,
    pub(crate) elapsed: Duration,
    /// Processor time of the program (its `load`) and of PostgreSQL: much the same on a busy machine.
    pub(crate) used: Usage,
    pub(crate) peak_mib: f64,
}

/// Runs an audit, which must find nothing.
pub(crate) fn run(
    program: &Program,
    postmaster: u32,
    name: &'static str,
    arguments: &[&str],
) -> Fallible<Audit> {
    interrupt::check()?;
    eprintln!("{name} ...");
    let mut watched = Watched { servers: Vec::new(), postmaster };
    let before = watched.usage();
    let started = Instant::now();
    let mut child = program.minitill().args(arguments).arg("--json").stdout(Stdio::piped()).spawn()?;
    watched.servers.push(child.id());
    let mut peak_mib = 0.0_f64;
    let ended = loop {
        peak_mib = watched.memory().map_or(peak_mib, |memory| peak_mib.max(memory.peak_mib));
        if let Some(ended) = child.try_wait()? {
            break ended;
        }
        thread::sleep(MEMORY_EVERY);
    };
    let elapsed = started.elapsed();
    // Its sessions end a moment after it.
    thread::sleep(SESSIONS_END_WITHIN);
    watched.servers.clear();
    let used = watched.usage() - before;
    let report: Value = serde_json::from_reader(child.stdout.take().ok_or("no output")?)?;
    if !ended.success() || report["clean"] != true {
        return Err(format!("the audit is not clean: {report}").into());
    }
    let entries = report["entries"].as_u64().unwrap_or_default();
    Ok(Audit { name, entries, elapsed, used, peak_mib })
}
