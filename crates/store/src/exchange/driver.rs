//! The session of a writer with PostgreSQL, through tokio-postgres.
//!
//! All other statements of this program use sqlx. tokio-postgres sends statements without a wait
//! for earlier answers, so a batch takes two round trips in place of six. The writer's own task
//! drives the session.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use domain::ids::WalletNo;
use futures_util::future::join;
use sqlx::postgres::PgConnectOptions;
use time::OffsetDateTime;
use tokio::time::Instant;
use tokio_postgres::error::Severity;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, NoTls, Row};

use super::batch::{Batch, ExchangeDetail, Record, WalletState};
use super::columns::Columns;
use super::database::{Database, DatabaseClient};
use super::fault::SessionFault;
use super::known::Known;
use super::session::{LOCK_TIMEOUT, drive};
use super::statements::{PreparedStatements, REPLAY_HOURS, planning};
use super::{rows, tls};
use crate::{IDLE_IN_TRANSACTION_TIMEOUT, StoreError};

/// The writer waits this much longer than a statement may run.
const ANSWER_MARGIN: Duration = Duration::from_secs(1);

/// Settings of a new session.
#[derive(Debug, Clone)]
pub(crate) struct Opening {
    pub(crate) options: PgConnectOptions,
    pub(crate) connect_timeout: Duration,
    pub(crate) statement_timeout: Duration,
}

/// A session with its prepared statements.
pub(super) struct PostgresClient {
    client: tokio_postgres::Client,
    statements: PreparedStatements,
}

impl Database for Opening {
    type Client = PostgresClient;
    type Connection = Connection;

    async fn connect(&self) -> Result<(Self::Client, Self::Connection), SessionFault> {
        let connecting = tokio::time::timeout(self.connect_timeout, connect(&self.options));
        let (client, mut connection) = connecting
            .await
            .map_err(|_| SessionFault::Other(StoreError::Unavailable("it does not answer".to_owned())))??;
        let statements = drive(self, &mut connection, prepare(&client, self)).await?;
        Ok((PostgresClient { client, statements }, connection))
    }

    fn answer_timeout(&self) -> Duration {
        self.statement_timeout + ANSWER_MARGIN
    }

    fn now(&self) -> Instant {
        Instant::now()
    }

    async fn pause(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

impl DatabaseClient for PostgresClient {
    async fn begin(&self, discards_plans: bool) -> Result<(), SessionFault> {
        self.execute(if discards_plans { "DISCARD PLANS; BEGIN" } else { "BEGIN" }).await
    }

    async fn commit(&self) -> Result<(), SessionFault> {
        self.execute("COMMIT").await
    }

    async fn roll_back(&self) -> Result<(), SessionFault> {
        self.execute("ROLLBACK").await
    }

    async fn read(&self, batch: &Batch<'_>, discards_plans: bool) -> Result<Known, SessionFault> {
        let owners = || batch.owners.iter().map(|owner| batch.requests[*owner]);
        let app_nos: Vec<i32> = owners().map(|(app_no, _)| app_no.0).collect();
        let open_ids: Vec<&str> = owners().map(|(_, request)| request.open_id.as_str()).collect();
        let positions = batch.numbers.position_of.iter();
        let numbers: Vec<&str> = positions.map(|position| batch.numbers.names[*position]).collect();
        let (discarded, rows) = join(
            async { if discards_plans { self.execute("DISCARD PLANS").await } else { Ok(()) } },
            self.client.query(&self.statements.read, &[&REPLAY_HOURS, &app_nos, &open_ids, &numbers]),
        )
        .await;
        discarded?;
        rows::known(batch, &answered(rows)?)
    }

    async fn lock(
        &self,
        batch: &Batch<'_>,
        skips_held: bool,
    ) -> Result<Vec<(usize, WalletState)>, SessionFault> {
        let lock = if skips_held { &self.statements.lock_skipping_held } else { &self.statements.lock };
        let wallets = &batch.wallets;
        let rows = self.client.query(lock, &[&wallets.app_nos, &wallets.names]).await;
        rows::wallets(&answered(rows)?)
    }

    async fn time(&self) -> Result<OffsetDateTime, SessionFault> {
        let row = self.client.query_one(&self.statements.now, &[]).await;
        row.and_then(|row| row.try_get(0)).map_err(|error| fault(&error))
    }

    async fn existing(&self, batch: &Batch<'_>) -> Result<Vec<(usize, WalletNo)>, SessionFault> {
        let wallets = &batch.wallets;
        let rows = self.client.query(&self.statements.existing, &[&wallets.app_nos, &wallets.names]).await;
        rows::existing(&answered(rows)?)
    }

    async fn records(&self, batch: &Batch<'_>) -> Result<Vec<(usize, Record<'static>)>, SessionFault> {
        let numbers = &batch.numbers;
        let parameters: [&(dyn ToSql + Sync); 3] = [&REPLAY_HOURS, &numbers.app_nos, &numbers.names];
        rows::records(&answered(self.client.query(&self.statements.records, &parameters).await)?)
    }

    async fn details(&self, batch: &Batch<'_>) -> Result<Vec<(usize, ExchangeDetail)>, SessionFault> {
        let queries = || batch.queries().map(|position| batch.requests[position]);
        let app_nos: Vec<i32> = queries().map(|(app_no, _)| app_no.0).collect();
        let numbers: Vec<&str> = queries().map(|(_, request)| request.reference.as_str()).collect();
        rows::details(&answered(self.client.query(&self.statements.details, &[&app_nos, &numbers]).await)?)
    }

    async fn write(&self, columns: &Columns<'_>) -> Result<(), SessionFault> {
        let has_items = !columns.items.item_id.is_empty();
        let statement = if has_items { &self.statements.write_with_items } else { &self.statements.write };
        answered(self.client.query(statement, &columns.parameters()).await).map(drop)
    }
}

impl PostgresClient {
    async fn execute(&self, sql: &str) -> Result<(), SessionFault> {
        self.client.batch_execute(sql).await.map_err(|error| fault(&error))
    }
}

fn answered(rows: Result<Vec<Row>, Error>) -> Result<Vec<Row>, SessionFault> {
    rows.map_err(|error| fault(&error))
}

pub(super) type Connection = Pin<Box<dyn Future<Output = SessionFault> + Send>>;

async fn connect(options: &PgConnectOptions) -> Result<(tokio_postgres::Client, Connection), SessionFault> {
    let config = tls::configuration(options);
    let unavailable = |error: Error| {
        let was_ended = error.code().is_some_and(|code| code.code() == "57P01");
        if was_ended {
            SessionFault::Lost(message(&error))
        } else {
            SessionFault::Other(StoreError::Unavailable(message(&error)))
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

async fn prepare(
    client: &tokio_postgres::Client,
    opening: &Opening,
) -> Result<PreparedStatements, SessionFault> {
    let session = format!(
        "SET statement_timeout = {}; SET lock_timeout = {}; SET idle_in_transaction_session_timeout = {}; {}",
        opening.statement_timeout.as_millis(),
        LOCK_TIMEOUT.as_millis(),
        IDLE_IN_TRANSACTION_TIMEOUT.as_millis(),
        planning(""),
    );
    client.batch_execute(&session).await.map_err(|error| fault(&error))?;
    PreparedStatements::prepare(client).await.map_err(|error| fault(&error))
}

fn fault(error: &Error) -> SessionFault {
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
