//! Counters of notifications.

use std::time::Duration;

use prometheus::{Histogram, IntCounter, Registry};
use telemetry::metrics::{Named, SECONDS, counters, histogram, register};

const TRIES: Named =
    ("minitill_notify_tries_total", "Tries to send an event to a receiver, by whether it was taken.");
const FAILED: Named =
    ("minitill_notify_failed_total", "Events that a receiver did not take at their last try.");
const DELAY: Named =
    ("minitill_notify_first_try_delay_seconds", "Time from a change to the first try to send its event.");

/// The counters of notifications. Cheap to clone.
#[derive(Debug, Clone)]
pub struct NotifyMetrics {
    taken: IntCounter,
    not_taken: IntCounter,
    failed: IntCounter,
    delay: Histogram,
}

impl NotifyMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let tries = counters(registry, TRIES, &["outcome"]);
        Self {
            taken: tries.with_label_values(&["taken"]),
            not_taken: tries.with_label_values(&["not_taken"]),
            failed: register(registry, IntCounter::new(FAILED.0, FAILED.1)),
            delay: histogram(registry, DELAY, &SECONDS),
        }
    }

    /// An event was tried.
    pub fn tried(&self, is_taken: bool) {
        if is_taken { &self.taken } else { &self.not_taken }.inc();
    }

    /// An event was not accepted at its last try.
    pub fn failed(&self) {
        self.failed.inc();
    }

    /// An event is tried for the first time, this long after its change.
    pub fn first_try(&self, after: Duration) {
        self.delay.observe(after.as_secs_f64());
    }
}
