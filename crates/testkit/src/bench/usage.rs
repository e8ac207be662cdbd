//! CPU time and memory of processes, as Linux tells them under `/proc`. Elsewhere all of it is 0.

use std::fs;
use std::ops::Sub;
use std::time::Duration;

/// Linux counts CPU time for `/proc` in hundredths of a second, on every machine.
const TICK: Duration = Duration::from_millis(10);

/// The processes whose CPU time is read.
#[derive(Debug, Clone)]
pub struct Watched {
    pub servers: Vec<u32>,
    pub postmaster: u32,
}

/// CPU time up to some moment, or between two.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    pub servers: Duration,
    pub postgres: Duration,
    /// This process and those it has waited for, pgbench among them.
    pub load: Duration,
}

impl Watched {
    pub fn usage(&self) -> Usage {
        let own = Stat::of(std::process::id());
        Usage {
            servers: self.servers.iter().map(|&pid| Stat::of(pid).own).sum(),
            postgres: of_postgres(self.postmaster),
            load: own.own + own.ended_children,
        }
    }

    /// The memory of all servers together.
    pub fn memory(&self) -> Option<Memory> {
        let of_each = self.servers.iter().map(|&pid| Memory::of(pid));
        of_each.reduce(|one, other| Memory {
            now_mib: one.now_mib + other.now_mib,
            peak_mib: one.peak_mib + other.peak_mib,
        })
    }
}

impl Sub for Usage {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            servers: self.servers.saturating_sub(earlier.servers),
            postgres: self.postgres.saturating_sub(earlier.postgres),
            load: self.load.saturating_sub(earlier.load),
        }
    }
}

/// PostgreSQL's first process, its children that live, and those that have ended: every session is
/// a child of the first process.
fn of_postgres(postmaster: u32) -> Duration {
    let first = Stat::of(postmaster);
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let children = pids.map(Stat::of).filter(|stat| stat.parent == postmaster);
    first.own + first.ended_children + children.map(|stat| stat.own).sum::<Duration>()
}

/// What is of use in `/proc/PID/stat`.
#[derive(Debug, Default)]
struct Stat {
    parent: u32,
    own: Duration,
    ended_children: Duration,
}

impl Stat {
    /// Of a process that is gone, nothing.
    fn of(pid: u32) -> Self {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The name of the program comes first, in brackets, and may hold anything.
        let Some((_, rest)) = text.rsplit_once(") ") else { return Self::default() };
        let fields: Vec<u32> =
            rest.split(' ').map(|field| field.trim().parse().unwrap_or_default()).collect();
        let time = |user: usize| match fields.get(user..user + 2) {
            Some(ticks) => TICK * ticks.iter().sum::<u32>(),
            None => Duration::ZERO,
        };
        Self { parent: fields.get(1).copied().unwrap_or_default(), own: time(11), ended_children: time(13) }
    }
}

/// Memory that is resident.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Memory {
    pub now_mib: f64,
    pub peak_mib: f64,
}

impl Memory {
    fn of(pid: u32) -> Self {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        Self { now_mib: mebibytes(&status, "VmRSS:"), peak_mib: mebibytes(&status, "VmHWM:") }
    }
}

/// A line such as `MemTotal:  1024 kB`, in mebibytes.
pub fn mebibytes(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    let kibibytes: u32 = line.trim().trim_end_matches(" kB").parse().unwrap_or_default();
    f64::from(kibibytes) / 1024.0
}
