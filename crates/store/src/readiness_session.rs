//! The session of `readiness.rs`, and what is learned on it.

use std::sync::Arc;
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
    /// How long the question took.
    pub took: Duration,
}
