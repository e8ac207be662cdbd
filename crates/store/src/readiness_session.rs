//! The session of `readiness.rs`, and what is learned on it.

use std::sync::{Arc, Mutex as SyncMutex, PoisonError};
use std::time::Duration;

use sqlx::PgConnection;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// The session, while nothing is asked on it.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReadinessSession(pub(crate) Arc<Mutex<Option<(PgConnection, Instant)>>>);

impl ReadinessSession {
    pub(crate) async fn close(&self) {
        *self.0.lock().await = None;
    }
}

/// What the database said of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readiness {
    /// The reason why the database is not ready, or `None`.
    pub reason: Option<String>,
    /// The words of the database behind the reason. Only the log may have them.
    pub(crate) cause: Option<String>,
    /// How long the question took.
    pub took: Duration,
}

/// The reason that the log was told last. All clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReadinessTold(Arc<SyncMutex<Option<String>>>);

impl ReadinessTold {
    /// Writes a line when the reason is another than before: probes ask every second, and a log with a line of each hides
    /// what matters. Returns whether it wrote one.
    pub(crate) fn tell(&self, reason: Option<String>) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if *told == reason {
            return false;
        }
        if let Some(reason) = &reason {
            tracing::warn!(reason, "not ready");
        } else {
            tracing::info!("ready again");
        }
        *told = reason;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rule 9.7.8.
    #[test]
    fn the_log_has_one_line_for_each_change_of_readiness() {
        let told = ReadinessTold::default();
        let away = || Some("the database is not available".to_owned());
        let standby = || Some("the database takes no writes".to_owned());
        let reasons = [None, away(), away(), standby(), standby(), away(), None, None];
        let written = reasons.map(|reason| told.tell(reason));
        assert_eq!(written, [false, true, false, true, false, true, true, false]);
    }
}
