//! Sessions of writers with PostgreSQL, through tokio-postgres, and what each error code means for a batch.
//!
//! All other statements of this program use sqlx. tokio-postgres sends statements without a wait
//! for earlier answers, so a batch takes two round trips in place of six. The writer's own task
//! drives the session.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use tokio::time::Instant;
use tokio_postgres::error::Severity;
use tokio_postgres::{Client, Error, NoTls, Row};

use super::refusal::SessionRefusal;
use super::tls;
use crate::engine::{Engine, PresentEngine};
use crate::error::StoreError;
use crate::hosts::Hosts;
use crate::session::{IDLE_IN_TRANSACTION_TIMEOUT, READ_COMMITTED};

/// Whoever waits for an answer waits this much longer than a statement may run.
pub(crate) const ANSWER_MARGIN: Duration = Duration::from_secs(1);
/// How long a batch waits for a row that another transaction has locked. Then it goes on without
/// that row.
pub(crate) const LOCK_TIMEOUT: Duration = Duration::from_millis(200);

/// How long query plans are used.
const PLANS_KEPT_FOR: Duration = Duration::from_secs(1);

/// Settings of a new session.
#[derive(Debug, Clone)]
pub(crate) struct Opening {
    pub(crate) hosts: Hosts,
    pub(crate) engine: PresentEngine,
    pub(crate) connect_timeout: Duration,
    pub(crate) statement_timeout: Duration,
    /// Why the last session was not given.
    pub(crate) refusal: SessionRefusal,
}

/// The reason why a batch failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SessionFault {
    /// The transaction must be repeated.
    Again,
    /// Another session holds a lock for too long.
    Blocked,
    /// The session has ended. A COMMIT that was sent may have succeeded or not.
    Lost(String),
    /// Any other fault. The session is usable.
    Other(StoreError),
}

impl SessionFault {
    /// The fault of an SQLSTATE.
    pub(crate) fn from_code(code: &str, message: String) -> Self {
        match code {
            // 22012: the guard of the write, because a wallet has changed. 23505: another
            // transaction has recorded the same biz_no. The name of the key is not checked: a
            // partition has its own.
            "22012" | "23505" => Self::Again,
            // A node of Citus has met a key that exists. The coordinator passes on its words alone.
            "XX000" if message.contains("duplicate key value") => Self::Again,
            "55P03" => Self::Blocked,
            // The server has become a standby. A new session finds the new primary.
            "25006" => Self::Lost(message),
            code => match StoreError::from_code(code, message) {
                StoreError::Again => Self::Again,
                other => Self::Other(other),
            },
        }
    }

    /// What the database said.
    fn words(&self) -> String {
        match self {
            Self::Lost(words) | Self::Other(StoreError::Unavailable(_, words)) => words.clone(),
            Self::Other(error) => error.to_string(),
            Self::Again | Self::Blocked => "it asks for another try".to_owned(),
        }
    }
}

/// When the plans of a session were made. A plan depends on the sizes of the tables. A plan for a nearly empty table would
/// read the whole table for every batch after the table has grown.
pub(crate) struct PlansMade(Instant);

impl PlansMade {
    pub(crate) fn at(now: Instant) -> Self {
        Self(now)
    }

    /// Whether the session discards its plans at `now`.
    pub(crate) fn are_outdated(&mut self, now: Instant) -> bool {
        let outdated = now.duration_since(self.0) >= PLANS_KEPT_FOR;
        if outdated {
            self.0 = now;
        }
        outdated
    }
}

/// Drives a session while it is polled. It ends with the session, and returns the fault.
pub(crate) type Connection = Pin<Box<dyn Future<Output = SessionFault> + Send>>;

impl Opening {
    /// How long a writer waits for an answer before it gives the session up.
    pub(crate) fn answer_timeout(&self) -> Duration {
        self.statement_timeout + ANSWER_MARGIN
    }

    /// What a new session sets.
    pub(crate) fn settings(&self, engine: Engine) -> String {
        format!(
            "SET statement_timeout = {}; SET lock_timeout = {}; SET idle_in_transaction_session_timeout = {}; {READ_COMMITTED}; {}",
            self.statement_timeout.as_millis(),
            LOCK_TIMEOUT.as_millis(),
            IDLE_IN_TRANSACTION_TIMEOUT.as_millis(),
            planning(engine, ""),
        )
    }
}

/// One plan for batches of every size, which uses the keys. A table without a key that fits has a plan of an enormous
/// cost then, and PostgreSQL would compile it for tens of milliseconds. Citus must see the app to find its node, so it
/// plans each statement. `scope` is `LOCAL ` inside a transaction, else empty.
pub(crate) fn planning(engine: Engine, scope: &str) -> String {
    let plans = match engine {
        Engine::Postgres => "force_generic_plan",
        Engine::Citus => "force_custom_plan",
    };
    format!(
        "SET {scope}plan_cache_mode = {plans}; SET {scope}enable_seqscan = off; \
         SET {scope}enable_hashjoin = off; SET {scope}enable_mergejoin = off; SET {scope}jit = off"
    )
}

/// Connects within `connect_timeout`. Keeps for readiness whether that succeeded.
pub(crate) async fn connect(opening: &Opening) -> Result<(Client, Connection), SessionFault> {
    let connecting = tokio::time::timeout(opening.connect_timeout, connect_now(opening.hosts.address()));
    let too_slow = || SessionFault::Other(StoreError::unavailable("it does not answer"));
    let connected = connecting.await.unwrap_or_else(|_| Err(too_slow()));
    opening.refusal.keep(connected.as_ref().err().map(SessionFault::words));
    connected
}

async fn connect_now(options: &PgConnectOptions) -> Result<(Client, Connection), SessionFault> {
    let config = tls::configuration(options);
    let unavailable = |error: Error| {
        let was_ended = error.code().is_some_and(|code| code.code() == "57P01");
        if was_ended {
            SessionFault::Lost(message(&error))
        } else {
            SessionFault::Other(StoreError::unavailable(message(&error)))
        }
    };
    if let Some(connector) = tls::connector(options).map_err(SessionFault::Other)? {
        let (client, connection) = config.connect(connector).await.map_err(unavailable)?;
        Ok((client, Box::pin(end_of(connection))))
    } else {
        let (client, connection) = config.connect(NoTls).await.map_err(unavailable)?;
        Ok((client, Box::pin(end_of(connection))))
    }
}

/// The fault of a session that has ended.
async fn end_of(connection: impl Future<Output = Result<(), Error>>) -> SessionFault {
    SessionFault::Lost(
        connection.await.err().map_or_else(|| "it closed the session".to_owned(), |error| message(&error)),
    )
}

/// Drives a session until `work` has ended, for as long as `patience` lasts.
pub(crate) async fn drive<T>(
    connection: &mut (impl Future<Output = SessionFault> + Unpin),
    patience: impl Future<Output = ()>,
    work: impl Future<Output = Result<T, SessionFault>>,
) -> Result<T, SessionFault> {
    tokio::select! {
        biased;
        done = work => done,
        lost = connection => Err(lost),
        () = patience => Err(SessionFault::Lost("it does not answer".to_owned())),
    }
}

/// The same, for at most `timeout`. It is no `async fn`, so the work is not moved once more.
pub(crate) fn drive_within<T>(
    connection: &mut Connection,
    timeout: Duration,
    work: impl Future<Output = Result<T, SessionFault>>,
) -> impl Future<Output = Result<T, SessionFault>> {
    drive(connection, tokio::time::sleep(timeout), work)
}

/// Sends a statement without parameters.
pub(crate) async fn execute(client: &Client, sql: &str) -> Result<(), SessionFault> {
    client.batch_execute(sql).await.map_err(|error| fault(&error))
}

/// The rows of an answer.
pub(crate) fn answered(rows: Result<Vec<Row>, Error>) -> Result<Vec<Row>, SessionFault> {
    rows.map_err(|error| fault(&error))
}

/// The fault that an error means.
pub(crate) fn fault(error: &Error) -> SessionFault {
    let Some(reported) = error.as_db_error() else { return SessionFault::Lost(message(error)) };
    if matches!(reported.parsed_severity(), Some(Severity::Fatal | Severity::Panic)) {
        return SessionFault::Lost(message(error));
    }
    SessionFault::from_code(reported.code().code(), message(error))
}

/// The message of an error, without its details: they quote values of players.
fn message(error: &Error) -> String {
    match error.as_db_error() {
        Some(reported) => format!("{}: {}", reported.code().code(), reported.message()),
        None => std::error::Error::source(error)
            .map_or_else(|| error.to_string(), |source| format!("{error}: {source}")),
    }
}
