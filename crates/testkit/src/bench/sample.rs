//! A sample: the figures of one measurement, and the median of several.

use std::time::Duration;

use super::usage::{Memory, Usage};

/// Tenths of a microsecond: fine enough for a ceiling, and four bytes an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Latency(u32);

impl Latency {
    pub fn of(duration: Duration) -> Self {
        Self(u32::try_from(duration.as_nanos() / 100).unwrap_or(u32::MAX))
    }

    fn millis(self) -> f64 {
        f64::from(self.0) / 10_000.0
    }
}

/// One measurement of one row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Answers a second.
    pub rate: f64,
    /// Latencies in milliseconds.
    pub p50: f64,
    pub p99: f64,
    pub p999: f64,
    /// CPU seconds per 10,000 answers.
    pub cpu: Cpu,
    /// Of the servers, right after the measurement.
    pub memory: Option<Memory>,
}

/// CPU seconds per 10,000 answers, by who spent them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cpu {
    /// `None` where no server of ours took part.
    pub server: Option<f64>,
    pub postgres: f64,
    pub load: f64,
}

impl Sample {
    /// Sums up one measurement; `None` when there was no answer at all.
    pub fn new(mut latencies: Vec<Latency>, rate: f64, used: &Usage, memory: Option<Memory>) -> Option<Self> {
        latencies.sort_unstable();
        let percentile = |per_mille| percentile(&latencies, per_mille).map(Latency::millis);
        let ten_thousands = f64::from(u32::try_from(latencies.len()).unwrap_or(u32::MAX)) / 10_000.0;
        let per_10_000 = |cpu: Duration| cpu.as_secs_f64() / ten_thousands;
        Some(Self {
            rate,
            p50: percentile(500)?,
            p99: percentile(990)?,
            p999: percentile(999)?,
            cpu: Cpu {
                server: memory.map(|_| per_10_000(used.servers)),
                postgres: per_10_000(used.postgres),
                load: per_10_000(used.load),
            },
            memory,
        })
    }

    /// The median of each figure by itself; the memory is that of the last measurement.
    pub fn median(samples: &[Self]) -> Option<Self> {
        let last = samples.last()?;
        let of = |figure: fn(&Self) -> f64| median(samples.iter().map(figure).collect());
        Some(Self {
            rate: of(|sample| sample.rate),
            p50: of(|sample| sample.p50),
            p99: of(|sample| sample.p99),
            p999: of(|sample| sample.p999),
            cpu: Cpu {
                server: last.cpu.server.map(|_| of(|sample| sample.cpu.server.unwrap_or_default())),
                postgres: of(|sample| sample.cpu.postgres),
                load: of(|sample| sample.cpu.load),
            },
            memory: last.memory,
        })
    }
}

/// The smallest latency that `per_mille` of all did not exceed.
fn percentile(sorted: &[Latency], per_mille: usize) -> Option<Latency> {
    let rank = (sorted.len() * per_mille).div_ceil(1000);
    sorted.get(rank.saturating_sub(1)).copied()
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len().is_multiple_of(2) {
        f64::midpoint(values[middle - 1], values[middle])
    } else {
        values[middle]
    }
}
