//! The database of a writer: the statements of a session, and time; and PostgreSQL behind them.
//!
//! The code above the two traits is the same for PostgreSQL and for the simulation (`simulation`), which tries every
//! order of events.

use std::time::Duration;

use domain::ids::WalletNo;
use domain::wallet::REPLAY_HOURS;
use futures_util::future::{join, join3, join4, join5, try_join, try_join4};
use time::OffsetDateTime;
use tokio::time::Instant;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Statement};

use super::batch::{Batch, WalletState};
use super::query::{self, ExchangeDetail};
use super::rows::{self, ReadRows, Record};
use super::write::{Columns, write_statement, write_statements_apart};
use crate::engine::Engine;
use crate::writer::{Connection, Opening, SessionFault, answered, connect, drive, execute, fault};

/// A database in which a writer opens sessions.
pub(super) trait WriterDatabase: Clone {
    /// Sends the statements of a session.
    type Client: DatabaseClient;
    /// Drives a session while it is polled. It ends with the session, and returns the fault.
    type Connection: Future<Output = SessionFault> + Unpin;

    /// Opens a session and prepares every statement of [`DatabaseClient`]. The fault is `Other`
    /// when the database refuses, and `Lost` when the session ended meanwhile.
    async fn connect(&self) -> Result<(Self::Client, Self::Connection), SessionFault>;

    /// How the tables lie.
    fn engine(&self) -> Engine {
        Engine::Postgres
    }

    /// How long the writer waits for an answer before it gives the session up.
    fn answer_timeout(&self) -> Duration;

    /// The present time.
    fn now(&self) -> Instant;

    /// Waits for this duration.
    async fn pause(&self, duration: Duration);
}

/// The statements of a session. A statement is sent at the first poll of its future, without a wait
/// for earlier ones. The database executes them in the order of sending.
pub(super) trait DatabaseClient {
    /// `BEGIN`. With `discards_plans` it first discards the query plans.
    async fn begin(&self, discards_plans: bool) -> Result<(), SessionFault>;

    /// `COMMIT`. After a failed statement it rolls back and reports no error.
    async fn commit(&self) -> Result<(), SessionFault>;

    /// `ROLLBACK`.
    async fn roll_back(&self) -> Result<(), SessionFault>;

    /// Reads wallets and records of a batch in one snapshot. It locks nothing.
    async fn read(&self, batch: &Batch<'_>, discards_plans: bool) -> Result<ReadRows, SessionFault>;

    /// Locks the wallets of a batch in the order of their keys, and reads them. With `skips_held`
    /// it skips wallets that another session has locked.
    async fn lock(
        &self,
        batch: &Batch<'_>,
        skips_held: bool,
    ) -> Result<Vec<(usize, WalletState)>, SessionFault>;

    /// The database's time.
    async fn time(&self) -> Result<OffsetDateTime, SessionFault>;

    /// The wallets of a batch that exist, each with its position.
    async fn existing(&self, batch: &Batch<'_>) -> Result<Vec<(usize, WalletNo)>, SessionFault>;

    /// Reads the records of a batch in one snapshot, each with its position.
    async fn records(&self, batch: &Batch<'_>) -> Result<Vec<(usize, Record<'static>)>, SessionFault>;

    /// Reads what the queries of a batch show of exchanges, each with its position among the queries.
    async fn details(&self, batch: &Batch<'_>) -> Result<Vec<(usize, ExchangeDetail)>, SessionFault>;

    /// Writes entries, closed numbers and wallets: all of them, or none. It fails when a reference or an
    /// entry exists already, or a wallet has changed since it was read.
    /// Outside a transaction `is_alone` is true.
    async fn write(&self, columns: &Columns<'_>, is_alone: bool) -> Result<(), SessionFault>;
}

/// A session with its prepared statements.
pub(super) struct PostgresClient {
    client: Client,
    statements: WalletStatements,
}

impl WriterDatabase for Opening {
    type Client = PostgresClient;
    type Connection = Connection;

    async fn connect(&self) -> Result<(Self::Client, Self::Connection), SessionFault> {
        let (client, mut connection) = connect(self).await?;
        let engine = self.engine.get();
        let preparing = async {
            execute(&client, &self.settings(engine)).await?;
            WalletStatements::prepare(&client, engine).await.map_err(|error| fault(&error))
        };
        let statements = drive(&mut connection, self.pause(self.answer_timeout()), preparing).await?;
        Ok((PostgresClient { client, statements }, connection))
    }

    fn engine(&self) -> Engine {
        self.engine.get()
    }

    fn answer_timeout(&self) -> Duration {
        self.answer_timeout()
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
        execute(&self.client, if discards_plans { "DISCARD PLANS; BEGIN" } else { "BEGIN" }).await
    }

    async fn commit(&self) -> Result<(), SessionFault> {
        execute(&self.client, "COMMIT").await
    }

    async fn roll_back(&self) -> Result<(), SessionFault> {
        execute(&self.client, "ROLLBACK").await
    }

    async fn read(&self, batch: &Batch<'_>, discards_plans: bool) -> Result<ReadRows, SessionFault> {
        let app_nos: Vec<i32> = batch.lookups().map(|(wallet, _)| batch.wallets.app_nos[wallet]).collect();
        let open_ids: Vec<&str> = batch.lookups().map(|(wallet, _)| batch.wallets.names[wallet]).collect();
        let numbers: Vec<&str> = batch.lookups().map(|(_, number)| batch.numbers.names[number]).collect();
        let (discarded, rows) = join(
            async { if discards_plans { execute(&self.client, "DISCARD PLANS").await } else { Ok(()) } },
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
        query::details(&answered(self.client.query(&self.statements.details, &[&app_nos, &numbers]).await)?)
    }

    async fn write(&self, columns: &Columns<'_>, is_alone: bool) -> Result<(), SessionFault> {
        let parameters = columns.parameters();
        match &self.statements.write {
            Writing::Together { without_items, with_items } => {
                let has_items = !columns.items.item_id.is_empty();
                let statement = if has_items { with_items } else { without_items };
                answered(self.client.query(statement, &parameters).await).map(drop)
            }
            Writing::Apart { .. } if is_alone => {
                let (begun, written, committed) =
                    join3(self.begin(false), self.write_apart(&parameters), self.commit()).await;
                // After a failed write, COMMIT rolls back and reports no error.
                begun?;
                written?;
                committed
            }
            Writing::Apart { .. } => self.write_apart(&parameters).await,
        }
    }
}

impl PostgresClient {
    /// Sends the statements of [`Writing::Apart`] without a wait. After the first failure the others report only that
    /// failure.
    async fn write_apart(&self, parameters: &[&(dyn ToSql + Sync)]) -> Result<(), SessionFault> {
        let Writing::Apart { items, entries, wallets, outbox } = &self.statements.write else {
            return Ok(());
        };
        let (of_entries, rest) = parameters.split_at(entries.params().len());
        let (of_wallets, rest) = rest.split_at(wallets.params().len());
        let (of_outbox, of_items) = rest.split_at(outbox.params().len());
        let store_items = async {
            match of_items {
                [] => Ok(()),
                _ => answered(self.client.query(items, of_items).await).map(drop),
            }
        };
        let (stored, entered, changed, told) = join4(
            store_items,
            async { answered(self.client.query(entries, of_entries).await).map(drop) },
            async { answered(self.client.query(wallets, of_wallets).await).map(drop) },
            async { answered(self.client.query(outbox, of_outbox).await).map(drop) },
        )
        .await;
        stored.and(entered).and(changed).and(told)
    }
}

/// The prepared statements of a session.
struct WalletStatements {
    read: Statement,
    lock: Statement,
    lock_skipping_held: Statement,
    existing: Statement,
    details: Statement,
    records: Statement,
    now: Statement,
    write: Writing,
}

/// The statements that write a batch.
enum Writing {
    /// One statement, without and with items.
    Together { without_items: Statement, with_items: Statement },
    /// One after the other, in one transaction.
    Apart { items: Statement, entries: Statement, wallets: Statement, outbox: Statement },
}

impl Writing {
    async fn prepare(client: &Client, engine: Engine) -> Result<Self, Error> {
        match engine {
            Engine::Postgres => {
                let (without_items, with_items) =
                    (write_statement(engine, false), write_statement(engine, true));
                let (without_items, with_items) =
                    try_join(client.prepare(&without_items), client.prepare(&with_items)).await?;
                Ok(Self::Together { without_items, with_items })
            }
            Engine::Citus => {
                let [items, entries, wallets, outbox] = write_statements_apart();
                let (items, entries, wallets, outbox) = try_join4(
                    client.prepare(&items),
                    client.prepare(&entries),
                    client.prepare(&wallets),
                    client.prepare(&outbox),
                )
                .await?;
                Ok(Self::Apart { items, entries, wallets, outbox })
            }
        }
    }
}

impl WalletStatements {
    /// Prepares the statements, which checks them against the schema.
    async fn prepare(client: &Client, engine: Engine) -> Result<Self, Error> {
        let (read, records) = (rows::read_statement(engine), rows::records_statement(engine));
        let (lock, lock_skipping_held) =
            (rows::lock_statement(engine, false), rows::lock_statement(engine, true));
        let (existing, details) = (rows::existing_statement(engine), query::details_statement(engine));
        let (lock, lock_skipping_held, existing, now, details) = join5(
            client.prepare(&lock),
            client.prepare(&lock_skipping_held),
            client.prepare(&existing),
            client.prepare(rows::NOW),
            client.prepare(&details),
        )
        .await;
        let (read, records, write) =
            join3(client.prepare(&read), client.prepare(&records), Writing::prepare(client, engine)).await;
        Ok(Self {
            read: read?,
            lock: lock?,
            lock_skipping_held: lock_skipping_held?,
            existing: existing?,
            details: details?,
            records: records?,
            now: now?,
            write: write?,
        })
    }
}
