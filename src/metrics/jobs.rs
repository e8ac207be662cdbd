//! Counters of the jobs of a server.

use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};
use telemetry::metrics::{Named, counters, register};

const FAILURES: Named = ("minitill_job_failures_total", "Runs of a job that failed.");
const LAST_SUCCESS: Named = (
    "minitill_job_last_success_timestamp_seconds",
    "When a run of a job last ended well, in Unix time; 0 before the first one.",
);

/// Prometheus gives each series a label `job` of its own, so this one has another name.
const LABEL: &str = "name";

/// The counters of all jobs.
#[derive(Debug)]
pub struct JobMetrics {
    failures: IntCounterVec,
    last_success: IntGaugeVec,
}

/// The counters of one job.
#[derive(Debug)]
pub struct JobCounters {
    /// Runs that failed.
    pub failures: IntCounter,
    /// Unix seconds of the last run that ended well.
    pub last_success: IntGauge,
}

impl JobMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let last_success = IntGaugeVec::new(Opts::new(LAST_SUCCESS.0, LAST_SUCCESS.1), &[LABEL]);
        Self {
            failures: counters(registry, FAILURES, &[LABEL]),
            last_success: register(registry, last_success),
        }
    }

    /// The counters of the job of this name, which are served from now on. Names are constants of a table.
    #[must_use]
    pub fn of(&self, job: &'static str) -> JobCounters {
        JobCounters {
            failures: self.failures.with_label_values(&[job]),
            last_success: self.last_success.with_label_values(&[job]),
        }
    }
}
