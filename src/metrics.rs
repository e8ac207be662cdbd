//! What the server counts and measures, for Prometheus. docs/metrics.md tells what each metric means.
//!
//! Every series that a request touches is made at the start and kept as a handle: counting is one
//! atomic addition, an observation of a histogram a few of them; nothing locks or allocates. What can
//! be read off when somebody asks (queue, pool, memory) is.

mod read_off;
mod samples;

use std::time::Duration;

use axum::http::StatusCode;
use prometheus::core::Collector;
use prometheus::{
    Gauge, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry, TextEncoder,
};
use tokio::time::Instant;

use crate::domain::image::Unacceptable;
use crate::error::Code;
use crate::fetch;
use crate::router::Endpoint;
use crate::store::ExchangeOutcome;
use read_off::ReadOff;
use samples::Samples;

pub use read_off::Reading;
pub use samples::{Answers, SAMPLE_INTERVAL, Sample};

/// A metric's name and what it means.
type Named = (&'static str, &'static str);

const REQUESTS: Named = (
    "minitill_http_requests_total",
    "Requests that were answered, by endpoint and code of the answer; 1 is success.",
);
const RESPONSES: Named = ("minitill_http_responses_total", "Answers by HTTP status.");
const REQUEST_DURATION: Named = (
    "minitill_http_request_duration_seconds",
    "Time from a request's head to its answer's head, by endpoint.",
);
const ADMIN_REQUESTS: Named =
    ("minitill_admin_requests_total", "Requests to the admin API, by operation and HTTP status.");
const CONNECTIONS: Named = ("minitill_connections_open", "Open connections of the public listener.");
const QUEUE: Named = ("minitill_exchange_queue_length", "Exchanges that wait or are being written.");
const QUEUE_MAX: Named =
    ("minitill_exchange_queue_length_max", "Exchanges that may wait; one more is answered 503.");
const OUTCOMES: Named =
    ("minitill_exchange_outcomes_total", "What became of exchanges, as the writers decided.");
const BATCH_SIZE: Named = ("minitill_exchange_batch_size", "Exchanges written together.");
const BATCH_DURATION: Named =
    ("minitill_exchange_batch_duration_seconds", "Time that a batch took, its repeats included.");
const BATCH_REPEATS: Named =
    ("minitill_exchange_batch_repeats_total", "Batches that were begun again, by reason.");
const POOL: Named = ("minitill_database_pool_connections", "Connections of the pool, by state.");
const POOL_MAX: Named = ("minitill_database_pool_connections_max", "Connections that the pool may have.");
const DATABASE_UP: Named =
    ("minitill_database_up", "1 when the database answered this scrape and holds the schema, else 0.");
const DATABASE_PROBE: Named = (
    "minitill_database_probe_duration_seconds",
    "Time that this scrape waited for a connection and a first answer.",
);
const JUDGE_DURATION: Named =
    ("minitill_image_judge_duration_seconds", "Time to judge and prepare a picture, waiting not included.");
const IMAGE_REFUSALS: Named =
    ("minitill_image_refusals_total", "Pictures that were not acceptable, by reason.");
const FETCH_REFUSALS: Named =
    ("minitill_fetch_refusals_total", "Uploads by URL whose fetch was refused or failed, by reason.");
const FETCHES: Named = ("minitill_fetches_under_way", "Places for fetches that are taken.");
const UPLOAD_MEMORY: Named = ("minitill_upload_memory_bytes", "Memory that uploads by file hold.");
const UPLOAD_MEMORY_MAX: Named =
    ("minitill_upload_memory_bytes_max", "Memory that uploads by file may hold; more wait.");
const LAST_CLEAN_AUDIT: Named = (
    "minitill_last_clean_audit_timestamp_seconds",
    "When the last audit that found nothing saw the books, in Unix time, by what it read.",
);
const LAST_AUDIT_DIFFERENCES: Named =
    ("minitill_last_audit_differences", "What the last audit found, by what it read; 0 is clean.");
const TRACES: Named = (
    "minitill_traces_total",
    "Requests whose spans were for the collector of traces, by whether it took them.",
);
const BUILD: Named = ("minitill_build_info", "1, with the version of the program.");
const UPTIME: Named = ("minitill_uptime_seconds", "Time since the server started.");
const START_TIME: Named = ("process_start_time_seconds", "When the server started, in Unix time.");
const CPU: Named = ("process_cpu_seconds_total", "Processor time that the process has used.");
const RESIDENT: Named = ("process_resident_memory_bytes", "Memory of the process, without its PostgreSQL.");
const OPEN_FILES: Named = ("process_open_fds", "Open files of the process.");
const OPEN_FILES_MAX: Named = ("process_max_fds", "Files that the process may open.");

/// Upper ends of what requests and batches take, in seconds.
const SECONDS: [f64; 14] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// Upper ends of a batch's size.
const SIZES: [f64; 10] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];
/// Statuses that have a series of their own; any other is "other".
const STATUSES: [u16; 17] =
    [200, 206, 304, 400, 401, 403, 404, 405, 408, 409, 413, 416, 422, 429, 500, 503, 505];

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
    /// The collector took the spans of so many requests.
    pub fn sent(&self, requests: usize) {
        self.sent.inc_by(requests as u64);
    }

    /// The spans of so many requests are lost.
    pub fn dropped(&self, requests: usize) {
        self.dropped.inc_by(requests as u64);
    }
}

/// Everything that one server counts and measures.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    started: Instant,
    /// By endpoint, unknown paths last; then success and every row of the code table.
    requests: Vec<Vec<IntCounter>>,
    durations: Vec<Histogram>,
    /// As [`STATUSES`], and any other last.
    responses: Vec<IntCounter>,
    admin_requests: IntCounterVec,
    judge_duration: Histogram,
    image_refusals: IntCounterVec,
    fetch_refusals: IntCounterVec,
    traces: TraceMetrics,
    read_off: ReadOff,
    samples: Samples,
}

impl Metrics {
    /// Nothing counted yet, but for what `exchanges` has.
    ///
    /// # Panics
    /// Never: names and labels are constants of this file, each once.
    #[must_use]
    pub fn new(exchanges: &ExchangeMetrics, now_millis: i64) -> Self {
        let registry = Registry::new();
        let requests = counters(REQUESTS, &["endpoint", "code"]);
        let durations = HistogramOpts::new(REQUEST_DURATION.0, REQUEST_DURATION.1).buckets(SECONDS.to_vec());
        let durations = HistogramVec::new(durations, &["endpoint"]).expect(CONSTANT);
        let responses = counters(RESPONSES, &["status"]);
        let endpoints = || Endpoint::ALL.iter().map(|endpoint| endpoint.name()).chain(["unknown"]);
        let of_endpoint = |endpoint: &str| {
            let codes = Code::ALL.iter().map(|code| code.number().to_string());
            let codes = std::iter::once("1".to_owned()).chain(codes);
            codes.map(|code| requests.with_label_values(&[endpoint, &code])).collect()
        };
        let statuses = STATUSES.iter().map(ToString::to_string).chain(["other".to_owned()]);
        let metrics = Self {
            requests: endpoints().map(of_endpoint).collect(),
            durations: endpoints().map(|endpoint| durations.with_label_values(&[endpoint])).collect(),
            responses: statuses.map(|status| responses.with_label_values(&[status])).collect(),
            admin_requests: counters(ADMIN_REQUESTS, &["endpoint", "status"]),
            judge_duration: histogram(JUDGE_DURATION, &SECONDS),
            image_refusals: counters(IMAGE_REFUSALS, &["reason"]),
            fetch_refusals: counters(FETCH_REFUSALS, &["reason"]),
            traces: TraceMetrics::default(),
            read_off: ReadOff::new(&registry),
            samples: Samples::default(),
            started: Instant::now(),
            registry,
        };
        let build = IntGaugeVec::new(Opts::new(BUILD.0, BUILD.1), &["version"]).expect(CONSTANT);
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        let start = Gauge::new(START_TIME.0, START_TIME.1).expect(CONSTANT);
        start.set(seconds(now_millis));
        let collectors: [Box<dyn Collector>; 14] = [
            Box::new(requests),
            Box::new(durations),
            Box::new(responses),
            Box::new(metrics.admin_requests.clone()),
            Box::new(metrics.judge_duration.clone()),
            Box::new(metrics.image_refusals.clone()),
            Box::new(metrics.fetch_refusals.clone()),
            Box::new(metrics.traces.outcomes.clone()),
            Box::new(build),
            Box::new(start),
            Box::new(exchanges.outcomes.clone()),
            Box::new(exchanges.batch_size.clone()),
            Box::new(exchanges.batch_duration.clone()),
            Box::new(exchanges.repeats.clone()),
        ];
        for collector in collectors {
            metrics.registry.register(collector).expect(CONSTANT);
        }
        metrics
    }

    /// A request was answered: with success where there is no code. `None` is a path that is none.
    pub fn answered(
        &self,
        endpoint: Option<Endpoint>,
        code: Option<Code>,
        status: StatusCode,
        elapsed: Duration,
    ) {
        let endpoint = endpoint.map_or(Endpoint::ALL.len(), |endpoint| endpoint as usize);
        self.requests[endpoint][code.map_or(0, |code| code as usize + 1)].inc();
        self.durations[endpoint].observe(elapsed.as_secs_f64());
        let status = STATUSES.iter().position(|known| *known == status.as_u16());
        self.responses[status.unwrap_or(STATUSES.len())].inc();
    }

    /// What the exporter of traces counts.
    #[must_use]
    pub fn traces(&self) -> &TraceMetrics {
        &self.traces
    }

    /// A request to the admin API was answered. A series appears with its first request.
    pub fn admin_answered(&self, endpoint: &str, status: StatusCode) {
        self.admin_requests.with_label_values(&[endpoint, status.as_str()]).inc();
    }

    /// A picture was judged.
    pub fn judged(&self, elapsed: Duration, refused: Option<&Unacceptable>) {
        self.judge_duration.observe(elapsed.as_secs_f64());
        if let Some(reason) = refused {
            self.image_refusals.with_label_values(&[reason.name()]).inc();
        }
    }

    /// A fetch gave no picture.
    pub fn fetch_refused(&self, reason: fetch::Refused) {
        self.fetch_refusals.with_label_values(&[reason.cause()]).inc();
    }

    /// Time since the start.
    #[must_use]
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// Everything in Prometheus' text format, version 0.0.4.
    ///
    /// # Errors
    /// None that is known: the encoder writes into memory.
    pub fn text(&self, reading: &Reading) -> Result<String, prometheus::Error> {
        self.read_off.set(reading, self.uptime());
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }
}

/// Why making and registering a metric cannot fail.
const CONSTANT: &str = "names and labels are constants of this file, each once";

fn gauge((name, help): Named) -> IntGauge {
    IntGauge::new(name, help).expect(CONSTANT)
}

fn counters((name, help): Named, labels: &[&str]) -> IntCounterVec {
    IntCounterVec::new(Opts::new(name, help), labels).expect(CONSTANT)
}

fn histogram((name, help): Named, ends: &[f64]) -> Histogram {
    Histogram::with_opts(HistogramOpts::new(name, help).buckets(ends.to_vec())).expect(CONSTANT)
}

fn seconds(millis: i64) -> f64 {
    // Exact for every moment of the next thousands of years: whole seconds fit, and so do the rest.
    let (whole, rest) = (millis.div_euclid(1000), millis.rem_euclid(1000));
    Duration::new(u64::try_from(whole).unwrap_or(0), u32::try_from(rest * 1_000_000).unwrap_or(0))
        .as_secs_f64()
}
