//! Metrics of the server, for Prometheus. docs/metrics.md says what each metric means.
//!
//! Every series that a request touches is made at the start and kept as a handle. So counting is one
//! atomic addition, an observation of a histogram is a few of them, and nothing locks or allocates. The
//! counters of an app are found under a lock that requests share (`by_app`). Other values (queue, pool,
//! memory) are read at each scrape.

mod by_app;
mod jobs;
mod notify;
mod read_off;
mod samples;

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use http_server::TlsIdentity;
use pictures::Unacceptable;
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGaugeVec, Opts, Registry,
    TextEncoder,
};
use telemetry::metrics::{ExchangeMetrics, Named, SECONDS, TraceMetrics, counters, histogram, register};
use tokio::time::Instant;

use crate::http::refusal::Code;
use domain::endpoint::Endpoint;
use domain::ids::AppId;

use self::by_app::AppRequests;

pub use by_app::APPS_MAX;
pub use jobs::{JobCounters, JobMetrics};
pub use notify::NotifyMetrics;
pub use read_off::Gauges;
pub use samples::{AnswerCounts, SAMPLE_INTERVAL, Sample};

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
const JUDGE_DURATION: Named =
    ("minitill_image_judge_duration_seconds", "Time to judge and prepare a picture, waiting not included.");
const IMAGE_REFUSALS: Named =
    ("minitill_image_refusals_total", "Pictures that were not acceptable, by reason.");
const FETCH_REFUSALS: Named =
    ("minitill_fetch_refusals_total", "Uploads by URL whose fetch was refused or failed, by reason.");
const LAST_CLEAN_AUDIT: Named = (
    "minitill_last_clean_audit_timestamp_seconds",
    "When the last audit that found nothing saw the books, in Unix time, by what it read.",
);
const LAST_AUDIT_DIFFERENCES: Named =
    ("minitill_last_audit_differences", "What the last audit found, by what it read; 0 is clean.");
const CERTIFICATE_EXPIRES: Named = (
    "minitill_certificate_expires_timestamp_seconds",
    "When the certificate of a listener expires, in Unix time.",
);
const CERTIFICATE_RENEWAL_DUE: Named = (
    "minitill_certificate_renewal_due_timestamp_seconds",
    "By when the certificate of a listener should have been renewed, in Unix time.",
);

/// Statuses that have a series of their own; any other is "other".
const STATUSES: [u16; 17] =
    [200, 206, 304, 400, 401, 403, 404, 405, 408, 409, 413, 416, 422, 429, 500, 503, 505];

/// Everything that one server counts and measures.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    exchanges: ExchangeMetrics,
    started: Instant,
    started_at_millis: i64,
    /// By endpoint, unknown paths last; then success and every row of the code table.
    requests: Vec<Vec<IntCounter>>,
    durations: Vec<Histogram>,
    by_app: AppRequests,
    /// As [`STATUSES`], and any other last.
    responses: Vec<IntCounter>,
    admin_requests: IntCounterVec,
    judge_duration: Histogram,
    image_refusals: IntCounterVec,
    fetch_refusals: IntCounterVec,
    traces: TraceMetrics,
    notify: NotifyMetrics,
    jobs: JobMetrics,
    last_clean_audit: IntGaugeVec,
    last_audit_differences: IntGaugeVec,
    certificate_expires: IntGaugeVec,
    certificate_renewal_due: IntGaugeVec,
    /// By the listener.
    certificates: Mutex<Vec<(&'static str, TlsIdentity)>>,
    /// Of the last hour, oldest first.
    samples: Mutex<VecDeque<Sample>>,
}

impl Metrics {
    /// Nothing counted yet, but for what `exchanges` has.
    ///
    /// # Panics
    /// Never: names and labels are constants of this file, each once.
    #[must_use]
    pub fn new(exchanges: ExchangeMetrics, now_millis: i64) -> Self {
        let registry = Registry::new();
        let requests = counters(&registry, REQUESTS, &["endpoint", "code"]);
        let durations = HistogramOpts::new(REQUEST_DURATION.0, REQUEST_DURATION.1).buckets(SECONDS.to_vec());
        let durations = register(&registry, HistogramVec::new(durations, &["endpoint"]));
        let responses = counters(&registry, RESPONSES, &["status"]);
        let endpoints = || Endpoint::ALL.iter().map(|endpoint| endpoint.as_str()).chain(["unknown"]);
        let of_endpoint = |endpoint: &str| {
            let codes = Code::ALL.iter().map(|code| code.number().to_string());
            let codes = std::iter::once("1".to_owned()).chain(codes);
            codes.map(|code| requests.with_label_values(&[endpoint, &code])).collect()
        };
        let statuses = STATUSES.iter().map(ToString::to_string).chain(["other".to_owned()]);
        let gauges = |(name, help): Named, label: &str| {
            register(&registry, IntGaugeVec::new(Opts::new(name, help), &[label]))
        };
        Self {
            requests: endpoints().map(of_endpoint).collect(),
            durations: endpoints().map(|endpoint| durations.with_label_values(&[endpoint])).collect(),
            responses: statuses.map(|status| responses.with_label_values(&[status])).collect(),
            by_app: AppRequests::new(&registry),
            admin_requests: counters(&registry, ADMIN_REQUESTS, &["endpoint", "status"]),
            judge_duration: histogram(&registry, JUDGE_DURATION, &SECONDS),
            image_refusals: counters(&registry, IMAGE_REFUSALS, &["reason"]),
            fetch_refusals: counters(&registry, FETCH_REFUSALS, &["reason"]),
            traces: TraceMetrics::new(&registry),
            notify: NotifyMetrics::new(&registry),
            jobs: JobMetrics::new(&registry),
            last_clean_audit: gauges(LAST_CLEAN_AUDIT, "scope"),
            last_audit_differences: gauges(LAST_AUDIT_DIFFERENCES, "scope"),
            certificate_expires: gauges(CERTIFICATE_EXPIRES, "listener"),
            certificate_renewal_due: gauges(CERTIFICATE_RENEWAL_DUE, "listener"),
            certificates: Mutex::default(),
            samples: Mutex::default(),
            started: Instant::now(),
            started_at_millis: now_millis,
            exchanges,
            registry,
        }
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

    /// A request whose token or secret was right was answered: with success where there is no code.
    pub fn answered_app(&self, app_id: &AppId, endpoint: Endpoint, code: Option<Code>) {
        self.by_app.answered(app_id, endpoint, code);
    }

    /// Gives labels to these apps, before their first request.
    pub fn name_apps(&self, app_ids: &[AppId]) {
        for app_id in app_ids {
            self.by_app.name(app_id);
        }
    }

    /// The counters of the exporter of traces.
    #[must_use]
    pub fn traces(&self) -> &TraceMetrics {
        &self.traces
    }

    /// The counters of the sending of notifications.
    #[must_use]
    pub fn notify(&self) -> &NotifyMetrics {
        &self.notify
    }

    /// The counters of the jobs of the server.
    #[must_use]
    pub fn jobs(&self) -> &JobMetrics {
        &self.jobs
    }

    /// Gives a series to the faults of each of these calls of the admin API: `increase()` does not see the first value of
    /// a series that appears.
    pub fn name_admin_calls<'a>(&self, endpoints: impl Iterator<Item = &'a str>) {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        for endpoint in endpoints {
            drop(self.admin_requests.with_label_values(&[endpoint, status.as_str()]));
        }
    }

    /// A request to the admin API was answered. A series of another status than 500 appears with its first request.
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

    /// From now on says when the certificate of this listener expires and is to be renewed, if it has one.
    pub fn show_certificate(&self, listener: &'static str, tls: Option<&TlsIdentity>) {
        let mut certificates = self.certificates.lock().unwrap_or_else(PoisonError::into_inner);
        certificates.extend(tls.map(|tls| (listener, tls.clone())));
    }

    fn read_certificates(&self) {
        for (listener, tls) in &*self.certificates.lock().unwrap_or_else(PoisonError::into_inner) {
            if let Some(validity) = tls.validity() {
                self.certificate_expires.with_label_values(&[listener]).set(validity.not_after);
                self.certificate_renewal_due.with_label_values(&[listener]).set(validity.renewal_due());
            }
        }
    }

    /// Everything in Prometheus' text format, version 0.0.4. What tells of single apps comes only `with_apps`.
    ///
    /// # Errors
    /// None that is known: the encoder writes into memory.
    pub fn text(&self, reading: &Gauges, with_apps: bool) -> Result<String, prometheus::Error> {
        for audit in &*reading.audits {
            let scope = [audit.scope.as_str()];
            self.last_audit_differences.with_label_values(&scope).set(audit.differences);
            if let Some(at) = audit.last_clean_at {
                self.last_clean_audit.with_label_values(&scope).set(at.unix_timestamp());
            }
        }
        self.read_certificates();
        let mut families = self.registry.gather();
        families.extend(self.exchanges.gather());
        families.extend(reading.gather(self.started_at_millis, self.uptime()));
        families.retain(|family| with_apps || family.name() != by_app::NAME);
        families.sort_by(|one, other| one.name().cmp(other.name()));
        TextEncoder::new().encode_to_string(&families)
    }
}
