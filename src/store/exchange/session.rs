//! A writer's session with PostgreSQL: how it is opened, driven and used for a batch.
//!
//! The other statements of this program go through sqlx. These go through tokio-postgres, because
//! it sends statements without waiting for the answers of those before: a batch is two round trips
//! where it would be six. The session is driven by the writer's own task, without a hop.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use futures_util::future::{join, join5};
use sqlx::postgres::PgConnectOptions;
use tokio::time::Instant;
use tokio_postgres::error::Severity;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, NoTls};

use super::batch::{Batch, Decisions, WalletState};
use super::statements::{Columns, Known, REPLAY_HOURS, Statements, UNCHAINED_MAX, chain_on};
use super::tls;
use crate::store::{IDLE_IN_TRANSACTION_TIMEOUT, StoreError};

/// How long a batch waits for a wallet that another transaction holds, before it goes on without.
const LOCK_TIMEOUT: Duration = Duration::from_millis(200);
/// How much longer than a statement may run its answer is waited for.
const ANSWER_MARGIN: Duration = Duration::from_secs(1);

/// How old the plans of the statements may be. They follow the sizes of the tables, and a plan for
/// a table that was nearly empty would read the whole of it for every batch once it has grown.
const PLANS_KEPT_FOR: Duration = Duration::from_secs(1);

/// Names of the constraints that two transactions for one number can meet at.
const RACED_CONSTRAINTS: [&str; 2] = ["exchanges_pkey", "ledger_entries_pkey"];

/// How a session is opened.
#[derive(Debug, Clone)]
pub(in crate::store) struct Opening {
    pub(in crate::store) options: PgConnectOptions,
    pub(in crate::store) connect_timeout: Duration,
    pub(in crate::store) statement_timeout: Duration,
}

/// Why a batch was not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// The whole transaction is to be run again.
    Again,
    /// Somebody else holds a lock for long.
    Blocked,
    /// The session is gone. Whether a COMMIT that was on its way has happened is not known.
    Lost(String),
    /// Anything else; the session can go on.
    Other(StoreError),
}

/// One session, outside any transaction between two batches.
pub(super) struct Session {
    client: Client,
    connection: Connection,
    statements: Statements,
    answer_timeout: Duration,
    planned_at: Instant,
}

impl Session {
    /// Connects, and prepares everything a batch needs. A database that refuses is away; a session
    /// that was made and ended meanwhile is lost, and another may do better.
    pub(super) async fn open(opening: &Opening) -> Result<Self, Fault> {
        let connecting = tokio::time::timeout(opening.connect_timeout, connect(&opening.options));
        let (client, mut connection) = connecting
            .await
            .map_err(|_| Fault::Other(StoreError::Unavailable("it does not answer".to_owned())))??;
        let answer_timeout = opening.statement_timeout + ANSWER_MARGIN;
        let statements = drive(&mut connection, answer_timeout, prepare(&client, opening)).await?;
        Ok(Self { client, connection, statements, answer_timeout, planned_at: Instant::now() })
    }

    /// Waits until the session ends by itself, as when the database goes away.
    pub(super) async fn ended(&mut self) {
        let _ = (&mut self.connection).await;
    }

    /// Reads what the batch needs, without a lock: [`Session::write`] finds out when it changes.
    pub(super) async fn read(&mut self, batch: &Batch<'_>) -> Result<Known, Fault> {
        let forgets_plans = self.forgets_plans();
        let Self { client, connection, statements, answer_timeout, .. } = self;
        let app_ids: Vec<&str> = batch.exchanges.iter().map(|(app_id, _)| app_id.as_str()).collect();
        let open_ids: Vec<&str> =
            batch.exchanges.iter().map(|(_, asked)| asked.content.open_id.as_str()).collect();
        let biz_nos: Vec<&str> = batch.exchanges.iter().map(|(_, asked)| asked.biz_no.as_str()).collect();
        let work = async {
            let (discarded, rows) = join(
                async { if forgets_plans { client.batch_execute("DISCARD PLANS").await } else { Ok(()) } },
                client.query(&statements.read, &[&REPLAY_HOURS, &app_ids, &open_ids, &biz_nos]),
            )
            .await;
            discarded?;
            rows
        };
        let rows = drive(connection, *answer_timeout, work).await?;
        let mut known = Known::of_read(batch, &rows)?;
        self.catch_up(batch, &mut known).await?;
        Ok(known)
    }

    /// Brings the chains of wallets up to their last entry where a program that knew no hashes has
    /// written. However many entries that are, it happens once: the batch writes where it ends.
    async fn catch_up(&mut self, batch: &Batch<'_>, known: &mut Known) -> Result<(), Fault> {
        for (place, chain_length) in std::mem::take(&mut known.unchained) {
            let WalletState::Open { entry_count, chain_hash, .. } = &mut known.wallets[place] else {
                continue;
            };
            let (app_id, open_id) = (batch.wallets.app_ids[place], batch.wallets.names[place]);
            let mut reached = Some(chain_length);
            while let Some(seq) = reached.take() {
                let Self { client, connection, statements, answer_timeout, .. } = self;
                let parameters: [&(dyn ToSql + Sync); 5] =
                    [&app_id, &open_id, &seq, &*entry_count, &UNCHAINED_MAX];
                let reading = client.query(&statements.unchained, &parameters);
                for row in drive(connection, *answer_timeout, reading).await? {
                    let seq = chain_on(app_id, open_id, &row, chain_hash)
                        .map_err(|_| Fault::Other(StoreError::damaged("ledger_entries")))?;
                    reached = Some(seq);
                }
            }
        }
        Ok(())
    }

    /// Writes what was decided about what [`Session::read`] gave, in one statement: all of it,
    /// durably, or nothing. `Again` when it is not as it was read any more.
    pub(super) async fn write(
        &mut self,
        batch: &Batch<'_>,
        known: &Known,
        decisions: &Decisions,
    ) -> Result<(), Fault> {
        let Self { client, connection, statements, answer_timeout, .. } = self;
        let columns = Columns::new(batch, decisions, known.at);
        let parameters = columns.parameters();
        let writing = client.query(&statements.write, &parameters);
        drive(connection, *answer_timeout, writing).await.map(drop)
    }

    /// Begins a transaction, locks the wallets of the batch and reads what is recorded under its
    /// numbers. With `skips_held` the wallets that somebody else has locked are left out.
    pub(super) async fn begin(&mut self, batch: &Batch<'_>, skips_held: bool) -> Result<Known, Fault> {
        let opening_words = if self.forgets_plans() { "DISCARD PLANS; BEGIN" } else { "BEGIN" };
        let Self { client, connection, statements, answer_timeout, .. } = self;
        let (wallets, numbers) = (&batch.wallets, &batch.numbers);
        let lock = if skips_held { &statements.lock_free_ones } else { &statements.lock };
        // Polled from left to right, and sent when first polled.
        let work = async {
            let (begun, locked, now, recorded, there) = join5(
                client.batch_execute(opening_words),
                client.query(lock, &[&wallets.app_ids, &wallets.names]),
                client.query_one(&statements.now, &[]),
                client.query(&statements.records, &[&REPLAY_HOURS, &numbers.app_ids, &numbers.names]),
                async {
                    if skips_held {
                        client.query(&statements.known, &[&wallets.app_ids, &wallets.names]).await
                    } else {
                        Ok(Vec::new())
                    }
                },
            )
            .await;
            begun?;
            Ok((locked?, now?, recorded?, there?))
        };
        let driven = drive(connection, *answer_timeout, work).await;
        let known = driven.and_then(|(locked, now, recorded, there)| {
            Known::of_locked(batch, &locked, &there, &recorded, &now)
        });
        let caught_up = match known {
            Ok(mut known) => self.catch_up(batch, &mut known).await.map(|()| known),
            Err(fault) => Err(fault),
        };
        match caught_up {
            Ok(_) | Err(Fault::Lost(_)) => caught_up,
            Err(fault) => {
                self.roll_back().await?;
                Err(fault)
            }
        }
    }

    /// Writes what was decided in the transaction that [`Session::begin`] began, and commits,
    /// durably. A fault but `Lost` means that nothing was written.
    pub(super) async fn commit(
        &mut self,
        batch: &Batch<'_>,
        known: &Known,
        decisions: &Decisions,
    ) -> Result<(), Fault> {
        let Self { client, connection, statements, answer_timeout, .. } = self;
        let work = async {
            if decisions.deductions.is_empty() {
                return client.batch_execute("COMMIT").await;
            }
            let columns = Columns::new(batch, decisions, known.at);
            let parameters = columns.parameters();
            let (written, committed) =
                join(client.query(&statements.write, &parameters), client.batch_execute("COMMIT")).await;
            // After a fault COMMIT has rolled back, and says nothing about it.
            written?;
            committed
        };
        drive(connection, *answer_timeout, work).await
    }

    fn forgets_plans(&mut self) -> bool {
        let forgets = self.planned_at.elapsed() >= PLANS_KEPT_FOR;
        if forgets {
            self.planned_at = Instant::now();
        }
        forgets
    }

    async fn roll_back(&mut self) -> Result<(), Fault> {
        let Self { client, connection, answer_timeout, .. } = self;
        drive(connection, *answer_timeout, client.batch_execute("ROLLBACK")).await
    }
}

type Connection = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

async fn connect(options: &PgConnectOptions) -> Result<(Client, Connection), Fault> {
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
        Ok((client, Box::pin(connection)))
    } else {
        let (client, connection) = config.connect(NoTls).await.map_err(unavailable)?;
        Ok((client, Box::pin(connection)))
    }
}

async fn prepare(client: &Client, opening: &Opening) -> Result<Statements, Error> {
    // One plan for batches of every size, and by the keys.
    let session = format!(
        "SET statement_timeout = {}; SET lock_timeout = {}; SET idle_in_transaction_session_timeout = {}; \
         SET plan_cache_mode = force_generic_plan; \
         SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off",
        opening.statement_timeout.as_millis(),
        LOCK_TIMEOUT.as_millis(),
        IDLE_IN_TRANSACTION_TIMEOUT.as_millis(),
    );
    client.batch_execute(&session).await?;
    Statements::prepare(client).await
}

/// Runs the session until `work` is done.
async fn drive<T>(
    connection: &mut Connection,
    limit: Duration,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Fault> {
    let driven = async {
        tokio::select! {
            biased;
            done = work => done.map_err(|error| fault(&error)),
            ended = connection => Err(Fault::Lost(ended.err().map_or_else(|| "it closed the session".to_owned(), |error| words(&error)))),
        }
    };
    tokio::time::timeout(limit, driven)
        .await
        .unwrap_or_else(|_| Err(Fault::Lost("it does not answer".to_owned())))
}

fn fault(error: &Error) -> Fault {
    let Some(told) = error.as_db_error() else { return Fault::Lost(words(error)) };
    if matches!(told.parsed_severity(), Some(Severity::Fatal | Severity::Panic)) {
        return Fault::Lost(words(error));
    }
    match told.code().code() {
        // The guard of the write: a wallet has changed.
        "22012" => Fault::Again,
        "55P03" => Fault::Blocked,
        "23505" if told.constraint().is_some_and(|name| RACED_CONSTRAINTS.contains(&name)) => Fault::Again,
        code => match StoreError::from_code(code, words(error)) {
            StoreError::Again => Fault::Again,
            other => Fault::Other(other),
        },
    }
}

/// What happened, without the details, which quote values of players.
fn words(error: &Error) -> String {
    match error.as_db_error() {
        Some(told) => format!("{}: {}", told.code().code(), told.message()),
        None => std::error::Error::source(error)
            .map_or_else(|| error.to_string(), |source| format!("{error}: {source}")),
    }
}
