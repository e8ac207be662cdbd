//! The counters that the writers of exchanges and the exporter of traces keep. Every series is made
//! at the start and kept as a handle, so counting is one atomic addition.

use std::time::Duration;

use domain::exchange::ExchangeOutcome;
use prometheus::core::Collector;
use prometheus::{Histogram, HistogramOpts, IntCounter, IntCounterVec, Opts};

/// A metric's name and its help text.
pub type Named = (&'static str, &'static str);

const OUTCOMES: Named =
    ("minitill_exchange_outcomes_total", "What became of exchanges, as the writers decided.");
const BATCH_SIZE: Named = ("minitill_exchange_batch_size", "Exchanges written together.");
const BATCH_DURATION: Named =
    ("minitill_exchange_batch_duration_seconds", "Time that a batch took, its repeats included.");
const BATCH_REPEATS: Named =
    ("minitill_exchange_batch_repeats_total", "Batches that were begun again, by reason.");
const TRACES: Named = (
    "minitill_traces_total",
    "Requests whose spans were for the collector of traces, by whether it took them.",
);

/// Upper ends of what requests and batches take, in seconds.
pub const SECONDS: [f64; 14] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// Upper ends of a batch's size.
const SIZES: [f64; 10] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];

/// Why a batch was begun again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// Another writer had changed what was read.
    Conflict,
    /// A wallet was held by somebody else for long.
    WalletHeld,
    /// The session ended.
    SessionLost,
}

impl Repeat {
    const ALL: [Self; 3] = [Self::Conflict, Self::WalletHeld, Self::SessionLost];

    fn name(self) -> &'static str {
        match self {
            Self::Conflict => "conflict",
            Self::WalletHeld => "wallet_held",
            Self::SessionLost => "session_lost",
        }
    }
}

/// What the writers of exchanges count. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ExchangeMetrics {
    outcomes: IntCounterVec,
    outcome_counters: Vec<IntCounter>,
    batch_size: Histogram,
    batch_duration: Histogram,
    repeats: IntCounterVec,
    repeat_counters: Vec<IntCounter>,
}

impl Default for ExchangeMetrics {
    fn default() -> Self {
        let outcomes = counters(OUTCOMES, &["outcome"]);
        let repeats = counters(BATCH_REPEATS, &["reason"]);
        let names = OUTCOME_NAMES.iter();
        Self {
            outcome_counters: names.map(|name| outcomes.with_label_values(&[*name])).collect(),
            outcomes,
            batch_size: histogram(BATCH_SIZE, &SIZES),
            batch_duration: histogram(BATCH_DURATION, &SECONDS),
            repeat_counters: Repeat::ALL.map(|reason| repeats.with_label_values(&[reason.name()])).to_vec(),
            repeats,
        }
    }
}

const OUTCOME_NAMES: [&str; 7] = [
    "done",
    "replayed",
    "biz_no_conflict",
    "biz_no_expired",
    "ts_outside_window",
    "unknown_wallet",
    "insufficient_balance",
];

fn outcome_index(outcome: &ExchangeOutcome) -> usize {
    match outcome {
        ExchangeOutcome::Done(_) => 0,
        ExchangeOutcome::Replayed(_) => 1,
        ExchangeOutcome::BizNoConflict => 2,
        ExchangeOutcome::BizNoExpired => 3,
        ExchangeOutcome::TsOutsideWindow => 4,
        ExchangeOutcome::UnknownWallet => 5,
        ExchangeOutcome::InsufficientBalance => 6,
    }
}

impl ExchangeMetrics {
    /// Its series, for a registry.
    #[must_use]
    pub fn collectors(&self) -> [Box<dyn Collector>; 4] {
        [
            Box::new(self.outcomes.clone()),
            Box::new(self.batch_size.clone()),
            Box::new(self.batch_duration.clone()),
            Box::new(self.repeats.clone()),
        ]
    }

    /// An exchange was decided.
    pub fn decided(&self, outcome: &ExchangeOutcome) {
        self.outcome_counters[outcome_index(outcome)].inc();
    }

    /// A batch of so many exchanges was carried out.
    pub fn wrote(&self, exchanges: usize, elapsed: Duration) {
        self.batch_size.observe(f64::from(u32::try_from(exchanges).unwrap_or(u32::MAX)));
        self.batch_duration.observe(elapsed.as_secs_f64());
    }

    /// A batch begins again.
    pub fn repeats(&self, reason: Repeat) {
        self.repeat_counters[reason as usize].inc();
    }
}

/// What the exporter of traces counts. Cheap to clone.
#[derive(Debug, Clone)]
pub struct TraceMetrics {
    outcomes: IntCounterVec,
    sent: IntCounter,
    dropped: IntCounter,
}

impl Default for TraceMetrics {
    fn default() -> Self {
        let outcomes = counters(TRACES, &["outcome"]);
        let counter = |outcome| outcomes.with_label_values(&[outcome]);
        Self { sent: counter("sent"), dropped: counter("dropped"), outcomes }
    }
}

impl TraceMetrics {
    /// Its series, for a registry.
    #[must_use]
    pub fn collector(&self) -> Box<dyn Collector> {
        Box::new(self.outcomes.clone())
    }

    /// The collector took the spans of so many requests.
    pub fn sent(&self, requests: usize) {
        self.sent.inc_by(requests as u64);
    }

    /// The spans of so many requests are lost.
    pub fn dropped(&self, requests: usize) {
        self.dropped.inc_by(requests as u64);
    }
}

/// Why making and registering a metric cannot fail.
pub const CONSTANT: &str = "names and labels are constants, each once";

/// A counter for each value of these labels.
///
/// # Panics
/// A name that Prometheus does not accept. The names are constants.
#[must_use]
pub fn counters((name, help): Named, labels: &[&str]) -> IntCounterVec {
    IntCounterVec::new(Opts::new(name, help), labels).expect(CONSTANT)
}

/// A histogram with these upper ends.
///
/// # Panics
/// A name that Prometheus does not accept. The names are constants.
#[must_use]
pub fn histogram((name, help): Named, ends: &[f64]) -> Histogram {
    Histogram::with_opts(HistogramOpts::new(name, help).buckets(ends.to_vec())).expect(CONSTANT)
}
