//! Readiness: whether the database can serve, asked on a session of its own.
//!
//! No reader and no payment holds this session, so a full pool is not taken for a database that is away. It is a single
//! session and no pool: one that hangs, because its host died, is thrown away with the question. It may outlast all
//! others, so after a writer was given no session, the question includes whether one is given now.

use std::fmt;
use std::time::Duration;

use sqlx::{Connection as _, PgConnection};
use tokio::time::{Instant, timeout};

use crate::error::{Result, StoreError};
use crate::hosts::takes_writes;
use crate::migrate::pending_migrations;
use crate::readiness_session::Readiness;
use crate::session::prepare_session;
use crate::store::Store;
use crate::writer;

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
                let answer = asked.unwrap_or_else(|_| Err(too_slow()));
                store.tell_readiness(&answer);
                answer.map(Some)
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
                self.lack(&mut session).await.ok().map(|lack| (lack, session, opened))
            }
            None => None,
        };
        let (lack, session, opened) = if let Some(answered) = answered {
            answered
        } else {
            // There was none yet, or the database ended it.
            let opened = Instant::now();
            let mut session = PgConnection::connect_with(self.hosts.address()).await?;
            prepare_session(&mut session, self.settings.statement_timeout, false).await?;
            (self.lack(&mut session).await?, session, opened)
        };
        // One that takes no writes is not kept: it may stay as it is after the database has changed.
        if lack != Some(Lack::Writes) {
            *kept = Some((session, opened));
        }
        drop(kept);
        let took = asked.elapsed();
        if let Some(lack) = lack {
            return Ok(Readiness { reason: Some(lack.to_string()), cause: None, took });
        }
        let cause = self.refused_session().await;
        let reason = cause.as_ref().map(|_| "the database gives no new session".to_owned());
        Ok(Readiness { reason, cause, took })
    }

    /// The parts that the database lacks.
    async fn lack(&self, session: &mut PgConnection) -> Result<Option<Lack>> {
        if self.settings.must_write && !takes_writes(session).await? {
            return Ok(Some(Lack::Writes));
        }
        Ok(pending_migrations(session).await?.map(Lack::Migrations))
    }

    /// Why writers get no session. It asks for one itself, because writers do so only with work, and a proxy sends none
    /// while the server is not ready.
    async fn refused_session(&self) -> Option<String> {
        self.opening.refusal.reason()?;
        // It keeps the outcome.
        drop(writer::connect(&self.opening).await);
        self.opening.refusal.reason()
    }

    /// Writes a change of readiness to the log, with the cause, which `readyz` does not tell.
    fn tell_readiness(&self, answer: &Result<Readiness>) {
        // The end of a process is no outage.
        if !self.public_pool.is_closed() {
            self.readiness_told.tell(match answer {
                Ok(Readiness { reason, cause, .. }) => {
                    let words = reason.iter().chain(cause).cloned().collect::<Vec<_>>();
                    (!words.is_empty()).then(|| words.join(": "))
                }
                Err(error) => Some(error.to_string()),
            });
        }
    }
}

/// The obstacle of a database that answers and does not serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lack {
    Writes,
    /// So many are not applied.
    Migrations(usize),
}

impl fmt::Display for Lack {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Writes => formatter.write_str("the database takes no writes"),
            Self::Migrations(count) => write!(formatter, "{count} migrations are not applied"),
        }
    }
}

fn too_slow() -> StoreError {
    StoreError::unavailable("the database does not answer")
}
