//! The counters that the writers of exchanges and the exporter of traces keep. Every series is made
//! at the start and kept as a handle, so counting is one atomic addition.

use std::time::Duration;

use domain::wallet::{Refused, WalletOutcome};
use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{Histogram, HistogramOpts, IntCounter, IntCounterVec, Opts, Registry};

/// A metric's name and its help text.
pub type Named = (&'static str, &'static str);

const OUTCOMES: Named =
    ("minitill_exchange_outcomes_total", "What became of requests to wallets, as the writers decided.");
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
pub enum BatchRetry {
    /// Another writer had changed what was read.
    Conflict,
    /// A wallet was held by somebody else for long.
    WalletHeld,
    /// The session ended.
    SessionLost,
}

/// In the order of [`BatchRetry`].
const REPEAT_NAMES: [&str; 3] = ["conflict", "wallet_held", "session_lost"];

/// The counters of the writers of exchanges. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ExchangeMetrics {
    registry: Registry,
    outcomes: Vec<IntCounter>,
    batch_size: Histogram,
    batch_duration: Histogram,
    repeats: Vec<IntCounter>,
}

impl Default for ExchangeMetrics {
    fn default() -> Self {
        let registry = Registry::new();
        let outcomes = counters(&registry, OUTCOMES, &["outcome"]);
        let repeats = counters(&registry, BATCH_REPEATS, &["reason"]);
        Self {
            outcomes: OUTCOME_NAMES.map(|name| outcomes.with_label_values(&[name])).to_vec(),
            batch_size: histogram(&registry, BATCH_SIZE, &SIZES),
            batch_duration: histogram(&registry, BATCH_DURATION, &SECONDS),
            repeats: REPEAT_NAMES.map(|reason| repeats.with_label_values(&[reason])).to_vec(),
            registry,
        }
    }
}

const OUTCOME_NAMES: [&str; 15] = [
    "done",
    "replayed",
    "balance",
    "number",
    "biz_no_conflict",
    "biz_no_expired",
    "biz_no_closed",
    "ts_outside_window",
    "unknown_wallet",
    "insufficient_balance",
    "more_than_left",
    "unknown_number",
    "purse_full",
    "frozen",
    "not_for_sale",
];

fn outcome_index(outcome: &WalletOutcome) -> usize {
    match outcome {
        WalletOutcome::Done(_) => 0,
        WalletOutcome::Replayed(_) => 1,
        WalletOutcome::Balance { .. } => 2,
        WalletOutcome::Number(_) => 3,
        WalletOutcome::Refused(why, _) => match why {
            Refused::Conflict => 4,
            Refused::Expired => 5,
            Refused::Closed => 6,
            Refused::TsOutsideWindow => 7,
            Refused::UnknownWallet => 8,
            Refused::InsufficientBalance(_) => 9,
            Refused::MoreThanLeft { .. } => 10,
            Refused::UnknownNumber => 11,
            Refused::PurseFull => 12,
            Refused::Frozen(_) => 13,
            Refused::NotForSale => 14,
        },
    }
}

impl ExchangeMetrics {
    /// Its series.
    #[must_use]
    pub fn gather(&self) -> Vec<MetricFamily> {
        self.registry.gather()
    }

    /// A request was decided.
    pub fn decided(&self, outcome: &WalletOutcome) {
        self.outcomes[outcome_index(outcome)].inc();
    }

    /// A batch of so many exchanges was carried out.
    pub fn wrote(&self, exchanges: usize, elapsed: Duration) {
        self.batch_size.observe(f64::from(u32::try_from(exchanges).unwrap_or(u32::MAX)));
        self.batch_duration.observe(elapsed.as_secs_f64());
    }

    /// A batch begins again.
    pub fn retries(&self, reason: BatchRetry) {
        self.repeats[reason as usize].inc();
    }
}

/// The counters of the exporter of traces. Cheap to clone.
#[derive(Debug, Clone)]
pub struct TraceMetrics {
    sent: IntCounter,
    dropped: IntCounter,
}

impl TraceMetrics {
    /// The counters, in this registry.
    #[must_use]
    pub fn new(registry: &Registry) -> Self {
        let outcomes = counters(registry, TRACES, &["outcome"]);
        let counter = |outcome| outcomes.with_label_values(&[outcome]);
        Self { sent: counter("sent"), dropped: counter("dropped") }
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
const CONSTANT: &str = "names and labels are constants, each once";

/// Registers a metric that was made of constants.
///
/// # Panics
/// A name that Prometheus does not accept, or that the registry has already.
pub fn register<M: Collector + Clone + 'static>(registry: &Registry, made: prometheus::Result<M>) -> M {
    let metric = made.expect(CONSTANT);
    registry.register(Box::new(metric.clone())).expect(CONSTANT);
    metric
}

/// A counter for each value of these labels.
#[must_use]
pub fn counters(registry: &Registry, (name, help): Named, labels: &[&str]) -> IntCounterVec {
    register(registry, IntCounterVec::new(Opts::new(name, help), labels))
}

/// A histogram with these upper ends.
#[must_use]
pub fn histogram(registry: &Registry, (name, help): Named, ends: &[f64]) -> Histogram {
    register(registry, Histogram::with_opts(HistogramOpts::new(name, help).buckets(ends.to_vec())))
}
