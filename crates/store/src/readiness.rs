//! Readiness: whether the database can serve, asked on a session of its own.
//!
//! No reader and no payment holds this session, so a full pool is not taken for a database that is away. It is a single
//! session and no pool: one that hangs, because its host died, is thrown away with the question.

use std::time::Duration;

use sqlx::{Connection as _, PgConnection};
use tokio::time::{Instant, timeout};

use crate::error::{Result, StoreError};
use crate::migrate::pending_migrations;
use crate::readiness_session::Readiness;
use crate::session::prepare_session;
use crate::store::Store;

/// How long the database has to answer, with the opening of the session. Callers wait less; then the session is thrown
/// away.
const ANSWER_WITHIN: Duration = Duration::from_millis(2500);

impl Store {
    /// Whether the database is ready. Those who ask at the same time share one question.
    ///
    /// # Errors
    /// It is away, or does not answer in time.
    pub async fn readiness(&self) -> Result<Readiness> {
        let ask = |_| {
            let store = self.clone();
            async move {
                let asked = timeout(ANSWER_WITHIN, store.ask_readiness()).await;
                asked.unwrap_or_else(|_| Err(too_slow())).map(Some)
            }
        };
        let found = self.readiness.get_or(&(), self.clock.monotonic(), ANSWER_WITHIN, ask).await?;
        found.ok_or_else(too_slow)
    }

    async fn ask_readiness(&self) -> Result<Readiness> {
        if self.public_pool.is_closed() {
            return Err(sqlx::Error::PoolClosed.into());
        }
        let asked = Instant::now();
        let mut kept = self.readiness_session.0.lock().await;
        // It comes back after a whole answer alone.
        let session = kept.take().filter(|(_, opened)| self.hosts.is_present(opened.elapsed()));
        let answered = match session {
            Some((mut session, opened)) => {
                pending_migrations(&mut session).await.ok().map(|pending| (pending, session, opened))
            }
            None => None,
        };
        let (pending, session, opened) = if let Some(answered) = answered {
            answered
        } else {
            // There was none yet, or the database ended it.
            let opened = Instant::now();
            let mut session = PgConnection::connect_with(self.hosts.address()).await?;
            prepare_session(&mut session, self.settings.statement_timeout, self.settings.must_write).await?;
            (pending_migrations(&mut session).await?, session, opened)
        };
        *kept = Some((session, opened));
        let reason = pending.map(|pending| format!("{pending} migrations are not applied"));
        Ok(Readiness { reason, took: asked.elapsed() })
    }
}

fn too_slow() -> StoreError {
    StoreError::Unavailable("the database does not answer".to_owned())
}
