//! What the server counts and measures, for Prometheus. docs/metrics.md tells what each metric means.
//!
//! Every series that a request touches is made at the start and kept as a handle: counting is one
//! atomic addition, an observation of a histogram a few of them; nothing locks or allocates. What can
//! be read off when somebody asks (queue, pool, memory) is.

mod read_off;
mod samples;

use std::time::Duration;

use axum::http::StatusCode;
use pictures::Unacceptable;
use prometheus::core::Collector;
use prometheus::{
    Gauge, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry, TextEncoder,
};
use read_off::ReadOff;
use samples::Samples;
use telemetry::metrics::{CONSTANT, ExchangeMetrics, Named, SECONDS, TraceMetrics, counters, histogram};
use tokio::time::Instant;

use crate::error::Code;
use domain::endpoint::Endpoint;

pub use read_off::Reading;
pub use samples::{Answers, SAMPLE_INTERVAL, Sample};

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
const BUILD: Named = ("minitill_build_info", "1, with the version of the program.");
const UPTIME: Named = ("minitill_uptime_seconds", "Time since the server started.");
const START_TIME: Named = ("process_start_time_seconds", "When the server started, in Unix time.");
const CPU: Named = ("process_cpu_seconds_total", "Processor time that the process has used.");
const RESIDENT: Named = ("process_resident_memory_bytes", "Memory of the process, without its PostgreSQL.");
const OPEN_FILES: Named = ("process_open_fds", "Open files of the process.");
const OPEN_FILES_MAX: Named = ("process_max_fds", "Files that the process may open.");

/// Statuses that have a series of their own; any other is "other".
const STATUSES: [u16; 17] =
    [200, 206, 304, 400, 401, 403, 404, 405, 408, 409, 413, 416, 422, 429, 500, 503, 505];

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
        let endpoints = || Endpoint::ALL.iter().map(|endpoint| endpoint.as_str()).chain(["unknown"]);
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
        let collectors: [Box<dyn Collector>; 10] = [
            Box::new(requests),
            Box::new(durations),
            Box::new(responses),
            Box::new(metrics.admin_requests.clone()),
            Box::new(metrics.judge_duration.clone()),
            Box::new(metrics.image_refusals.clone()),
            Box::new(metrics.fetch_refusals.clone()),
            metrics.traces.collector(),
            Box::new(build),
            Box::new(start),
        ];
        for collector in collectors.into_iter().chain(exchanges.collectors()) {
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
    pub fn fetch_refused(&self, reason: guarded_fetch::FetchError) {
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

fn gauge((name, help): Named) -> IntGauge {
    IntGauge::new(name, help).expect(CONSTANT)
}

fn seconds(millis: i64) -> f64 {
    // Exact for every moment of the next thousands of years: whole seconds fit, and so do the rest.
    let (whole, rest) = (millis.div_euclid(1000), millis.rem_euclid(1000));
    Duration::new(u64::try_from(whole).unwrap_or(0), u32::try_from(rest * 1_000_000).unwrap_or(0))
        .as_secs_f64()
}
