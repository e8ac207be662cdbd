//! The store: wallets, ledger, idempotency records, orders and images in PostgreSQL. All SQL is here.
//!
//! Two rules keep money safe:
//!
//! - Every transaction runs in a task that nobody drops (`Store::transaction`). So a client that hangs up
//!   never leaves a session inside a transaction.
//! - A transaction is repeated as a whole when the database asks for it (40001, 40P01). Only
//!   `Store::transaction` and the exchange writers do that.

#![expect(clippy::missing_errors_doc, reason = "`StoreError` documents the errors of nearly every method")]

mod api_key;
mod app;
mod app_lookup;
mod archive;
mod audit;
mod books;
mod change_request;
mod console_user;
mod digesting;
mod engine;
mod error;
mod event;
mod exchange_lookup;
mod guest_pool;
mod health;
mod history;
mod hosts;
mod idempotency;
mod image;
mod instances;
mod key_uses;
mod login;
mod look_up_cache;
mod master_key;
mod migrate;
pub mod objects;
mod operator_log;
mod order;
mod paging;
mod player_erasure;
mod player_export;
mod pseudonym;
mod receiver;
mod sales;
mod sandbox;
pub mod secrets;
mod status;
mod token;
mod wallet;
mod wallet_no;
mod wallet_writer;
mod writer;

use std::future::Future;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use domain::clock::Clock;
use domain::picture_store::PictureStore;
use sqlx::postgres::PgPoolOptions;
use sqlx::{Executor as _, PgConnection, PgPool, Row as _};
use telemetry::metrics::ExchangeMetrics;

use crate::error::AsStoreError;
use crate::hosts::{Hosts, takes_writes};
use crate::objects::Objects;

pub use api_key::{ApiKey, ApiKeySummary};
pub use app::{AppDetail, AppKey, AppWithKeys, COUNTED_MAX, Package};
pub use archive::{Archive, ArchiveError, ArchiveProgress, VerifiedArchive};
pub use audit::{AppTotals, AuditError, AuditOptions, AuditProgress, AuditReport, AuditScope, LastAudit};
pub use books::{
    Bill, BillColumn, BillPiece, BillSums, Compared, Comparison, ComparisonPermit, Credits, Difference,
    FileFault, FileRefusal, Flows, OneSided, ReconcileError, Reconciled, Statement, TheirFile,
};
pub use change_request::{ChangeRequest, RequestState};
pub use console_user::{ConsoleSession, ConsoleUser, NewSession, SessionUser, SignInAttempt};
pub use engine::Engine;
pub use error::{OperationError, Refusable, Result, StoreError};
pub use event::{Event, EventCursor, EventFilter, EventHead, EventKey, EventPage};
pub use exchange_lookup::{
    BizNoUse, CancelRecord, ExchangeRecord, NumberRecord, ReferenceMatch, RefusalRecord, RefusalSum,
    RefusedChange, RefusedMatch, RefusedNumber, ReplayCount,
};
pub use history::{HistoryCursor, HistoryFilter, HistoryKind, HistoryLine, HistoryPage};
pub use hosts::DatabaseAddress;
pub use idempotency::EarlierAnswer;
pub use image::{
    BlobCheck, BlobHash, BlobLocation, Block, ImageCursor, ImageDetail, ImageFilter, ImageKey, KeepOutcome,
    MoveOutcome, PART_BYTES, StoredImage, Swept,
};
pub use master_key::{MasterKeyRefused, MasterKeyState};
pub use operator_log::{OPERATOR_ACTIONS, OperatorLogCursor, OperatorLogFilter, OperatorLogLine};
pub use order::{
    OrderChange, OrderCursor, OrderEvent, OrderFilter, OrderPayment, ReportOutcome, StoredOrder,
};
pub use paging::{CursorKey, Page, TimeCursor};
pub use player_export::{ExportError, ExportedCounts, ExportedRows};
pub use receiver::{
    DueDelivery, EventOutcome, FailedEvent, LeasedReceiver, NotTaken, ReceiverCounts, ReceiverDetail,
    ReceiverTry, TriesNote,
};
pub use sales::{
    ListedKind, REVENUE_ROWS_MAX, RevenueGroup, RevenueQuery, RevenueReport, RevenueRow, RevenueSums,
    RollUpCheck, RollUpDifference, SaleCursor, SaleFilter, SaleKey, SaleRow, SalesOfHours, SalesPage, Zone,
};
pub use sandbox::{DueFault, Purchase};
pub use status::DatabaseStatus;
pub use token::TokenSummary;
pub use wallet::{
    ArchivedPart, CREDITS_MAX, ChangeRecord, CreditResult, CreditsSource, CsvReader, EntryKind, LedgerFilter,
    LedgerLine, LedgerPage, LedgerRow, PlayerCursor, PlayerFilter, PlayersPage, Wallet, WalletDetail,
    WalletTotals, csv_line,
};

/// A transaction is tried at most this often.
const ATTEMPTS_MAX: u32 = 12;
/// The database ends a session that idles in a transaction for this long.
const IDLE_IN_TRANSACTION_TIMEOUT: Duration = Duration::from_secs(10);

/// Settings of the store.
#[derive(Debug, Clone)]
pub struct StoreSettings {
    /// Maximum number of connections. A quarter as many come on top for what strangers may ask; they are
    /// opened when they are needed.
    pub connections: u32,
    /// How many of `connections` are opened at the start. A server opens all, because connections that
    /// open under load come in storms. A command seldom needs a second one.
    pub connections_at_start: u32,
    /// How long a request waits for a connection.
    pub acquire_timeout: Duration,
    /// How long one statement may run.
    pub statement_timeout: Duration,
    /// Refuse a read-only session. After a failover, an old address may lead to a standby for a
    /// while. The audit accepts a standby.
    pub must_write: bool,
    /// Number of exchange writers, each with a session of its own.
    pub exchange_writers: usize,
    /// Maximum number of exchanges that wait, and of order reports.
    pub exchange_queue_max: usize,
    /// How many live access tokens an app has at most.
    pub tokens_per_app: NonZeroU32,
    /// Where the bytes of new pictures are stored.
    pub picture_store: PictureStore,
    /// The object stores besides the database.
    pub picture_stores: objects::ObjectStoreSettings,
}

/// The store. It is cheap to clone, and all clones share its pools.
#[derive(Debug, Clone)]
pub struct Store {
    pool: PgPool,
    guest_pool: guest_pool::GuestPool,
    clock: Arc<dyn Clock>,
    settings: Arc<StoreSettings>,
    app_lookup: Arc<app_lookup::AppLookup>,
    writers: wallet_writer::NodeWriters,
    engine: engine::PresentEngine,
    hosts: Hosts,
    reports: order::Reports,
    objects: Objects,
    marks: Arc<image::StoreMarks>,
    exchange_metrics: ExchangeMetrics,
    replays: exchange_lookup::Replays,
    refusals: exchange_lookup::Refusals,
    key_uses: key_uses::KeyUses,
    last_audits: Arc<look_up_cache::LookUpCache<(), Arc<[LastAudit]>>>,
    /// Told after each transaction of this process that has made an event.
    events: Arc<tokio::sync::Notify>,
    statements: books::Permits,
    bills: books::Permits,
    comparisons: books::Permits,
}

/// The state of the pool of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolState {
    /// Number of connections.
    pub size: u32,
    /// Number of idle connections.
    pub idle: u32,
    /// Maximum number of connections.
    pub size_max: u32,
}

/// The future of one attempt at a transaction.
type Work<'c, T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'c>>;

impl Store {
    /// Connects to the database and starts the writers.
    pub async fn connect(
        address: &DatabaseAddress,
        settings: StoreSettings,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let objects = Objects::new(&settings.picture_stores).map_err(StoreError::PicturesUnavailable)?;
        let timeouts = [settings.statement_timeout, IDLE_IN_TRANSACTION_TIMEOUT];
        let (must_write, patience) = (settings.must_write, settings.acquire_timeout);
        let hosts = Hosts::find(address, must_write, patience).await?;
        let engine = engine::PresentEngine::default();
        let opening = writer::Opening {
            hosts: hosts.clone(),
            engine: engine.clone(),
            connect_timeout: patience,
            statement_timeout: settings.statement_timeout,
        };
        let (exchange_metrics, replays) = (ExchangeMetrics::default(), exchange_lookup::Replays::default());
        let size = (settings.exchange_writers, settings.exchange_queue_max);
        let writers = wallet_writer::NodeWriters::start(size, &opening, &exchange_metrics, &replays)?;
        let reports = order::start(size.1, &opening)?;
        let pool_options = PgPoolOptions::new()
            .acquire_timeout(patience)
            .idle_timeout(None)
            .max_lifetime(None)
            .test_before_acquire(false)
            .after_connect(move |connection, _| Box::pin(prepare_session(connection, timeouts, must_write)))
            .before_acquire({
                let hosts = hosts.clone();
                move |connection, session| {
                    let is_present = hosts.is_present(session.age);
                    Box::pin(async move { Ok(is_present && is_between_transactions(connection).await?) })
                }
            });
        let guest_pool =
            guest_pool::GuestPool::new(pool_options.clone(), hosts.address().clone(), settings.connections);
        let pool_options = pool_options.min_connections(settings.connections_at_start);
        let pool =
            pool_options.max_connections(settings.connections).connect_with(hosts.address().clone()).await?;
        engine.find(&mut *pool.acquire().await?).await?;
        if must_write {
            tokio::spawn(hosts.clone().follow([pool.clone(), guest_pool.pool().clone()], patience));
        }
        Ok(Self {
            pool,
            guest_pool,
            clock,
            app_lookup: Arc::new(app_lookup::AppLookup::default()),
            writers,
            engine,
            hosts,
            reports,
            objects,
            marks: Arc::default(),
            exchange_metrics,
            replays,
            refusals: exchange_lookup::Refusals::default(),
            key_uses: key_uses::KeyUses::default(),
            last_audits: Arc::new(look_up_cache::LookUpCache::lasting(audit::LAST_AUDITS_CACHED_FOR)),
            events: Arc::default(),
            statements: books::Permits::default(),
            bills: books::Permits::default(),
            comparisons: books::Permits::default(),
            settings: Arc::new(settings),
        })
    }

    /// The reason why the database is not ready, or `None`.
    pub async fn readiness(&self) -> Result<Option<String>> {
        Ok(self.pending_migrations().await?.map(|pending| format!("{pending} migrations are not applied")))
    }

    /// The counters of this process's exchange writers.
    #[must_use]
    pub fn exchange_metrics(&self) -> &ExchangeMetrics {
        &self.exchange_metrics
    }

    /// The number of exchanges in the queue, and its maximum.
    #[must_use]
    pub fn exchange_queue(&self) -> (usize, usize) {
        let max = self.settings.exchange_queue_max;
        (max.saturating_sub(self.writers.free_places()), max)
    }

    /// The present state of the pool.
    #[must_use]
    pub fn pool_state(&self) -> PoolState {
        PoolState {
            size: self.pool.size(),
            idle: u32::try_from(self.pool.num_idle()).unwrap_or(u32::MAX),
            size_max: self.settings.connections,
        }
    }

    /// Closes the pools. The writers' sessions end with the last clone of the store.
    pub async fn close(&self) {
        self.guest_pool.close().await;
        self.pool.close().await;
    }

    /// Runs `work` in one transaction, in a task of its own, and commits when it returns `Ok`. It
    /// repeats the whole transaction when the database asks for it or `work` returns
    /// [`StoreError::Again`]. So `work` must have no effects outside the database. `context` holds
    /// what `work` needs.
    async fn transaction<C, T, E, F>(&self, context: C, work: F) -> Result<T, E>
    where
        C: Send + Sync + 'static,
        T: Send + 'static,
        E: From<StoreError> + AsStoreError + Send + 'static,
        F: for<'c> Fn(&'c mut PgConnection, &'c C) -> Work<'c, T, E> + Send + Sync + 'static,
    {
        let pool = self.pool.clone();
        let task = tokio::spawn(async move {
            let mut attempt = 1;
            loop {
                let outcome = attempt_transaction(&pool, &context, &work).await;
                match &outcome {
                    Err(error) if error.is_again() && attempt < ATTEMPTS_MAX => attempt += 1,
                    Ok(_) | Err(_) => return outcome,
                }
            }
        });
        task.await.unwrap_or_else(|fault| {
            Err(StoreError::Internal(format!("a transaction's task ended: {fault}")).into())
        })
    }
}

/// Gives a new session its time limits: for a statement, and for a transaction that idles.
async fn prepare_session(
    connection: &mut PgConnection,
    timeouts: [Duration; 2],
    must_write: bool,
) -> Result<(), sqlx::Error> {
    let [statement_timeout, idle_timeout] = timeouts.map(|timeout| timeout.as_millis());
    let session = format!(
        "SET statement_timeout = {statement_timeout}; \
         SET idle_in_transaction_session_timeout = {idle_timeout}; SET timezone = 'UTC'"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(session)).execute(&mut *connection).await?;
    if must_write && !takes_writes(connection).await? {
        return Err(sqlx::Error::Protocol("it takes no writes: is it a standby?".to_owned()));
    }
    Ok(())
}

/// True when a session is outside any transaction. The pool hands out only such sessions: one round trip detects a dead
/// session, too.
pub async fn is_between_transactions(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    // Inside a transaction, the transaction's time is older than the statement's. It must be a simple
    // query: in the extended protocol the two times always differ.
    let row = connection.fetch_one(sqlx::raw_sql("SELECT now() = statement_timestamp()")).await?;
    row.try_get(0)
}
/// Tries a transaction once, in a task that is never dropped half-way.
async fn attempt_transaction<C, T, E, F>(pool: &PgPool, context: &C, work: &F) -> Result<T, E>
where
    E: From<StoreError>,
    F: for<'c> Fn(&'c mut PgConnection, &'c C) -> Work<'c, T, E>,
{
    #[expect(clippy::disallowed_methods, reason = "this is the one place that may, inside a task of its own")]
    let mut transaction = pool.begin().await.map_err(StoreError::from)?;
    match work(&mut transaction, context).await {
        Ok(value) => {
            transaction.commit().await.map_err(StoreError::from)?;
            Ok(value)
        }
        Err(error) => {
            // A session that cannot roll back is broken. The pool detects it.
            let _ = transaction.rollback().await;
            Err(error)
        }
    }
}
