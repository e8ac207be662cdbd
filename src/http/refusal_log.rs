//! Writes refused and failed requests to the log (contract 9.7). It samples them, so that a flood of
//! refusals fills no disk. Metrics count all of them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::{Method, StatusCode};

/// So many lines of each kind are written in an interval.
const LINES_MAX: u64 = 20;

/// A request that was refused or failed.
pub(crate) struct Unsuccessful<'a> {
    pub(crate) method: &'a Method,
    /// Path of the route.
    pub(crate) endpoint: &'static str,
    /// The path that came, where no route has it.
    pub(crate) path: Option<&'a str>,
    pub(crate) status: StatusCode,
    /// Row of the code table.
    pub(crate) code: Option<u32>,
    pub(crate) cause: &'a str,
    /// The user of the console.
    pub(crate) user: Option<&'a str>,
    pub(crate) elapsed: Duration,
}

/// The methods of HTTP. What a stranger makes up in their place may be a secret.
const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];

/// The method, if it is one of HTTP's own.
pub(crate) fn known_method(method: &Method) -> Option<&'static str> {
    METHODS.into_iter().find(|known| *known == method.as_str())
}

/// The method as the log shows it (contract 9.7.9).
pub(crate) fn shown_method(method: &Method) -> &'static str {
    known_method(method).unwrap_or("other")
}

/// The key of a count: endpoint, status and code.
type CountedRefusal = (&'static str, u16, Option<u32>);

/// How many requests of each kind came in this interval. Kinds are rows of our tables, so they are few.
#[derive(Debug, Default)]
pub struct RefusalLog {
    came: Mutex<HashMap<CountedRefusal, u64>>,
}

impl RefusalLog {
    fn lock(&self) -> MutexGuard<'_, HashMap<CountedRefusal, u64>> {
        self.came.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the line of a request, or counts it where its kind has had its lines. Every fault is written.
    pub(crate) fn write(&self, request: &Unsuccessful<'_>) {
        let Unsuccessful { method, endpoint, path, status, code, cause, user, elapsed } = request;
        let method = shown_method(method);
        let (status, elapsed_ms) = (status.as_u16(), u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX));
        if status == 503 {
            if self.is_written((endpoint, status, *code)) {
                tracing::warn!(
                    method,
                    endpoint,
                    status,
                    code,
                    cause,
                    elapsed_ms,
                    "overloaded or not available"
                );
            }
        } else if status >= 500 {
            tracing::error!(method, endpoint, status, code, cause, elapsed_ms, "failed");
        } else if self.is_written((endpoint, status, *code)) {
            tracing::info!(method, endpoint, path, status, code, user, cause, elapsed_ms, "refused");
        }
    }

    fn is_written(&self, kind: CountedRefusal) -> bool {
        let mut came = self.lock();
        let came = came.entry(kind).or_default();
        *came += 1;
        *came <= LINES_MAX
    }

    /// Ends an interval: a line for each kind says how many requests have none.
    pub(crate) fn end_interval(&self) {
        let came = std::mem::take(&mut *self.lock());
        for ((endpoint, status, code), came) in came {
            let more = came.saturating_sub(LINES_MAX);
            if more > 0 {
                tracing::warn!(
                    endpoint,
                    status,
                    code,
                    more,
                    "refused or overloaded: more like the lines before"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rule 9.7.5: each kind has its lines in each interval.
    #[test]
    fn a_kind_has_so_many_lines_in_an_interval_and_no_more() {
        let log = RefusalLog::default();
        let written = |kind| (0..100).filter(|_| log.is_written(kind)).count();
        let (one, other) = (("/a", 200, Some(7)), ("/a", 200, Some(8)));
        assert_eq!((written(one), written(one), written(other)), (20, 0, 20));
        log.end_interval();
        assert_eq!(written(one), 20);
    }

    /// Rule 9.7.9.
    #[test]
    fn a_method_that_a_stranger_made_up_is_not_shown() {
        let shown = |name: &str| shown_method(&name.parse().unwrap());
        assert_eq!((shown("POST"), shown("PATCH")), ("POST", "PATCH"));
        assert_eq!((shown("a2644ee9"), shown("post"), shown("PROPFIND")), ("other", "other", "other"));
    }
}
