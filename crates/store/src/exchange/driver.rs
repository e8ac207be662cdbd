//! A writer's session with PostgreSQL: how it is opened, and how its statements are sent.
//!
//! The other statements of this program go through sqlx. These go through tokio-postgres, because
//! it sends statements without waiting for the answers of those before: a batch is two round trips
//! where it would be six. The session is driven by the writer's own task, without a hop.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::time::Duration;

use domain::ledger::ChainHash;
use futures_util::future::join;
use sqlx::postgres::PgConnectOptions;
use time::OffsetDateTime;
use tokio::time::Instant;
use tokio_postgres::error::Severity;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, NoTls, Row};

use super::batch::{Batch, Record};
use super::columns::Columns;
use super::database::{Client, Database};
use super::session::{Fault, LOCK_TIMEOUT, drive};
use super::statements::{
    FoundWallet, Known, REPLAY_HOURS, Statements, UNCHAINED_MAX, chain_on, locked_wallets, places, records,
};
use super::tls;
use crate::{IDLE_IN_TRANSACTION_TIMEOUT, StoreError};

/// How much longer than a statement may run its answer is waited for.
const ANSWER_MARGIN: Duration = Duration::from_secs(1);

/// How a session is opened.
#[derive(Debug, Clone)]
pub(crate) struct Opening {
    pub(crate) options: PgConnectOptions,
    pub(crate) connect_timeout: Duration,
    pub(crate) statement_timeout: Duration,
}

/// The statements of one session, all of them prepared.
pub(super) struct PostgresClient {
    client: tokio_postgres::Client,
    statements: Statements,
}

impl Database for Opening {
    type Client = PostgresClient;
    type Connection = Connection;

    async fn connect(&self) -> Result<(Self::Client, Self::Connection), Fault> {
        let connecting = tokio::time::timeout(self.connect_timeout, connect(&self.options));
        let (client, mut connection) = connecting
            .await
            .map_err(|_| Fault::Other(StoreError::Unavailable("it does not answer".to_owned())))??;
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

impl Client for PostgresClient {
    async fn begin(&self, forgets_plans: bool) -> Result<(), Fault> {
        self.execute(if forgets_plans { "DISCARD PLANS; BEGIN" } else { "BEGIN" }).await
    }

    async fn commit(&self) -> Result<(), Fault> {
        self.execute("COMMIT").await
    }

    async fn roll_back(&self) -> Result<(), Fault> {
        self.execute("ROLLBACK").await
    }

    async fn read(&self, batch: &Batch<'_>, forgets_plans: bool) -> Result<Known, Fault> {
        let app_ids: Vec<&str> = batch.exchanges.iter().map(|(app_id, _)| app_id.as_str()).collect();
        let open_ids: Vec<&str> =
            batch.exchanges.iter().map(|(_, asked)| asked.content.open_id.as_str()).collect();
        let biz_nos: Vec<&str> = batch.exchanges.iter().map(|(_, asked)| asked.biz_no.as_str()).collect();
        let (discarded, rows) = join(
            async { if forgets_plans { self.execute("DISCARD PLANS").await } else { Ok(()) } },
            self.client.query(&self.statements.read, &[&REPLAY_HOURS, &app_ids, &open_ids, &biz_nos]),
        )
        .await;
        discarded?;
        Known::of_read(batch, &answered(rows)?)
    }

    async fn lock(&self, batch: &Batch<'_>, skips_held: bool) -> Result<Vec<FoundWallet>, Fault> {
        let lock = if skips_held { &self.statements.lock_free_ones } else { &self.statements.lock };
        let wallets = &batch.wallets;
        let rows = self.client.query(lock, &[&wallets.app_ids, &wallets.names]).await;
        locked_wallets(&answered(rows)?)
    }

    async fn time(&self) -> Result<OffsetDateTime, Fault> {
        let row = self.client.query_one(&self.statements.now, &[]).await;
        row.and_then(|row| row.try_get(0)).map_err(|error| fault(&error))
    }

    async fn chain_on(
        &self,
        batch: &Batch<'_>,
        wallet: usize,
        entries: Range<i64>,
        chain_hash: &mut ChainHash,
    ) -> Result<i64, Fault> {
        let (app_id, open_id) = (batch.wallets.app_ids[wallet], batch.wallets.names[wallet]);
        let parameters: [&(dyn ToSql + Sync); 5] =
            [&app_id, &open_id, &entries.start, &entries.end, &UNCHAINED_MAX];
        let mut reached = None;
        for row in answered(self.client.query(&self.statements.unchained, &parameters).await)? {
            let seq = chain_on(app_id, open_id, &row, chain_hash);
            reached = Some(seq.map_err(|_| Fault::Other(StoreError::damaged("ledger_entries")))?);
        }
        // An entry that is missing is the audit's to find.
        Ok(reached.unwrap_or(entries.end))
    }

    async fn present(&self, batch: &Batch<'_>) -> Result<Vec<usize>, Fault> {
        let wallets = &batch.wallets;
        let rows = self.client.query(&self.statements.known, &[&wallets.app_ids, &wallets.names]).await;
        places(&answered(rows)?)
    }

    async fn records(&self, batch: &Batch<'_>) -> Result<Vec<(usize, Record)>, Fault> {
        let numbers = &batch.numbers;
        let parameters: [&(dyn ToSql + Sync); 3] = [&REPLAY_HOURS, &numbers.app_ids, &numbers.names];
        records(&answered(self.client.query(&self.statements.records, &parameters).await)?)
    }

    async fn write(&self, columns: &Columns<'_>) -> Result<(), Fault> {
        answered(self.client.query(&self.statements.write, &columns.parameters()).await).map(drop)
    }
}

impl PostgresClient {
    async fn execute(&self, words: &str) -> Result<(), Fault> {
        self.client.batch_execute(words).await.map_err(|error| fault(&error))
    }
}

fn answered(rows: Result<Vec<Row>, Error>) -> Result<Vec<Row>, Fault> {
    rows.map_err(|error| fault(&error))
}

pub(super) type Connection = Pin<Box<dyn Future<Output = Fault> + Send>>;

async fn connect(options: &PgConnectOptions) -> Result<(tokio_postgres::Client, Connection), Fault> {
    let config = tls::configuration(options);
    let unavailable = |error: Error| {
        let was_ended = error.code().is_some_and(|code| code.code() == "57P01");
        if was_ended {
            Fault::Lost(words(&error))
        } else {
            Fault::Other(StoreError::Unavailable(words(&error)))
        }
    };
    if let Some(connector) = tls::connector(options).map_err(Fault::Other)? {
        let (client, connection) = config.connect(connector).await.map_err(unavailable)?;
        Ok((client, Box::pin(end_of(connection))))
    } else {
        let (client, connection) = config.connect(NoTls).await.map_err(unavailable)?;
        Ok((client, Box::pin(end_of(connection))))
    }
}

/// The fault that a session ends with, whether it was asked to end or not.
async fn end_of(connection: impl Future<Output = Result<(), Error>>) -> Fault {
    Fault::Lost(
        connection.await.err().map_or_else(|| "it closed the session".to_owned(), |error| words(&error)),
    )
}

async fn prepare(client: &tokio_postgres::Client, opening: &Opening) -> Result<Statements, Fault> {
    // One plan for batches of every size, and by the keys.
    let session = format!(
        "SET statement_timeout = {}; SET lock_timeout = {}; SET idle_in_transaction_session_timeout = {}; \
         SET plan_cache_mode = force_generic_plan; \
         SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off",
        opening.statement_timeout.as_millis(),
        LOCK_TIMEOUT.as_millis(),
        IDLE_IN_TRANSACTION_TIMEOUT.as_millis(),
    );
    client.batch_execute(&session).await.map_err(|error| fault(&error))?;
    Statements::prepare(client).await.map_err(|error| fault(&error))
}

fn fault(error: &Error) -> Fault {
    let Some(told) = error.as_db_error() else { return Fault::Lost(words(error)) };
    if matches!(told.parsed_severity(), Some(Severity::Fatal | Severity::Panic)) {
        return Fault::Lost(words(error));
    }
    Fault::from_code(told.code().code(), words(error))
}

/// What happened, without the details, which quote values of players.
fn words(error: &Error) -> String {
    match error.as_db_error() {
        Some(told) => format!("{}: {}", told.code().code(), told.message()),
        None => std::error::Error::source(error)
            .map_or_else(|| error.to_string(), |source| format!("{error}: {source}")),
    }
}
