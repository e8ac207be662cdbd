//! The store: its connections, and what a process keeps beside them.
//!
//! This file knows what a store is made of. What a store can do stands in the modules above it, each with an
//! `impl Store` of its own.

use std::sync::Arc;
use std::time::Duration;

use domain::audit::LastAudit;
use domain::clock::Clock;
use domain::ids::AppId;
use sqlx::postgres::PgPoolOptions;
use sqlx::{PgConnection, PgPool};
use telemetry::metrics::ExchangeMetrics;
use time::OffsetDateTime;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::app_cache::AppCache;
use crate::closed_round::ClosedRound;
use crate::counts::{KeyUses, Refusals, Replays};
use crate::engine::PresentEngine;
use crate::error::{AsStoreError, Result, StoreError};
use crate::guest_pool::GuestPool;
use crate::hosts::{DatabaseAddress, Hosts};
use crate::key_lease::KeyLeases;
use crate::look_up_cache::LookUpCache;
use crate::objects::{Objects, StoreMarks};
use crate::order_writer::{self, Reports};
use crate::payment_queue::PaymentQueue;
use crate::permits::Permits;
use crate::readiness_session::{Readiness, ReadinessSession, ReadinessTold};
use crate::session::{answers_within, is_between_transactions, prepare_session};
use crate::settings::StoreSettings;
use crate::silence::{SILENT_STATEMENTS, unless_silent_look_up};
use crate::transaction::{self, AttemptFuture};
use crate::wallet_writer::NodeWriters;
use crate::writer::{ANSWER_MARGIN, Opening, SessionRefusal};

/// The operator's listener has this many sessions at least, so that half of them is more than one.
const OPERATOR_CONNECTIONS_MIN: u32 = 4;
/// One more finds API keys and reads the feed while all the others are held.
const OPERATOR_CONNECTIONS_SPARE: u32 = 1;
/// How long the number of an app's shipments counts: they are counted five times a second at most.
const SHIPMENTS_COUNTED_FOR: Duration = Duration::from_millis(200);
/// How long the result of [`Store::last_audits`] is cached.
const LAST_AUDITS_CACHED_FOR: Duration = Duration::from_secs(30);
/// The store. It is cheap to clone, and all clones share its pools.
#[derive(Debug, Clone)]
pub struct Store {
    /// The sessions of those who ask: `public_pool`, or that of operators ([`Store::for_operators`]).
    pub(crate) pool: PgPool,
    /// The sessions of the public listener and of jobs.
    pub(crate) public_pool: PgPool,
    operator_pool: PgPool,
    /// The runtime of transactions: the threads of payments, which wait for the locks that an operator's change holds.
    /// The thread of the operator's listener may be busy with many readers.
    pub(crate) runtime: Handle,
    pub(crate) readiness_session: ReadinessSession,
    /// Nothing is cached: those who ask at the same time share one question.
    pub(crate) readiness: Arc<LookUpCache<(), Readiness>>,
    pub(crate) readiness_told: ReadinessTold,
    pub(crate) guest_pool: GuestPool,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Arc<StoreSettings>,
    pub(crate) app_cache: Arc<AppCache>,
    pub(crate) writers: NodeWriters,
    /// How the writers open their sessions.
    pub(crate) opening: Opening,
    pub(crate) engine: PresentEngine,
    pub(crate) hosts: Hosts,
    pub(crate) reports: Reports,
    pub(crate) payments: PaymentQueue,
    pub(crate) objects: Objects,
    pub(crate) marks: Arc<StoreMarks>,
    pub(crate) exchange_metrics: ExchangeMetrics,
    pub(crate) replays: Replays,
    pub(crate) refusals: Refusals,
    pub(crate) key_uses: KeyUses,
    pub(crate) last_audits: Arc<LookUpCache<(), Arc<[LastAudit]>>>,
    pub(crate) key_leases: Arc<KeyLeases>,
    /// How many shipments sandbox apps have.
    pub(crate) shipment_counts: Arc<LookUpCache<AppId, i64>>,
    /// Told after each transaction of this process that has made an event.
    pub(crate) events: Arc<Notify>,
    pub(crate) statements: Permits,
    pub(crate) bills: Permits,
    pub(crate) comparisons: Permits,
    pub(crate) closed_round: Arc<ClosedRound>,
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

impl PoolState {
    /// Connections that are in use.
    #[must_use]
    pub fn in_use(&self) -> u32 {
        self.size.saturating_sub(self.idle)
    }
}

/// Half as many sessions for operators as for the public listener. Four are enough for a console and a program beside a
/// bill and a statement. These two take one each for as long as their reader takes.
fn operator_connections(connections: u32) -> u32 {
    connections.div_ceil(2).max(OPERATOR_CONNECTIONS_MIN)
}

/// How long a session may be silent before it is given up.
fn silence_max(settings: &StoreSettings) -> Duration {
    (settings.statement_timeout + ANSWER_MARGIN) * SILENT_STATEMENTS
}

/// The common options of all pools.
fn pool_options(settings: &StoreSettings, hosts: &Hosts) -> PgPoolOptions {
    let (must_write, statement_timeout) = (settings.must_write, settings.statement_timeout);
    let silence_max = silence_max(settings);
    PgPoolOptions::new()
        .acquire_timeout(settings.acquire_timeout)
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
        .after_connect(move |connection, _| {
            Box::pin(prepare_session(connection, statement_timeout, must_write))
        })
        .after_release(move |connection, _| {
            Box::pin(async move { answers_within(connection, silence_max).await.map(|()| true) })
        })
        .before_acquire({
            let hosts = hosts.clone();
            move |connection, session| {
                let is_present = hosts.is_present(session.age);
                Box::pin(async move { Ok(is_present && is_between_transactions(connection).await?) })
            }
        })
}

impl Store {
    /// Connects to the database and starts the writers.
    pub async fn connect(
        address: &DatabaseAddress,
        settings: StoreSettings,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let objects = Objects::new(&settings.picture_stores).map_err(StoreError::PicturesUnavailable)?;
        let (must_write, patience) = (settings.must_write, settings.acquire_timeout);
        let statement_timeout = settings.statement_timeout;
        let hosts = Hosts::find(address, must_write, patience).await?;
        let engine = PresentEngine::default();
        let opening = Opening {
            hosts: hosts.clone(),
            engine: engine.clone(),
            connect_timeout: patience,
            statement_timeout,
            refusal: SessionRefusal::default(),
        };
        let (exchange_metrics, replays) = (ExchangeMetrics::default(), Replays::default());
        let size = (settings.exchange_writers, settings.exchange_queue_max);
        let writers = NodeWriters::start(size, &opening, &exchange_metrics, &replays)?;
        let reports = order_writer::start(size.1, &opening)?;
        let pool_options = pool_options(&settings, &hosts);
        let guest_pool = GuestPool::new(pool_options.clone(), hosts.address().clone(), settings.connections);
        let operator_pool = pool_options
            .clone()
            .max_connections(operator_connections(settings.connections) + OPERATOR_CONNECTIONS_SPARE)
            .connect_lazy_with(hosts.address().clone());
        let pool_options = pool_options.min_connections(settings.connections_at_start);
        let pool =
            pool_options.max_connections(settings.connections).connect_with(hosts.address().clone()).await?;
        engine.find(&mut *pool.acquire().await?).await?;
        if must_write {
            tokio::spawn(
                hosts
                    .clone()
                    .follow([pool.clone(), guest_pool.pool().clone(), operator_pool.clone()], patience),
            );
        }
        Ok(Self {
            public_pool: pool.clone(),
            pool,
            operator_pool,
            runtime: Handle::current(),
            readiness_session: ReadinessSession::default(),
            readiness: Arc::new(LookUpCache::lasting(Duration::ZERO)),
            readiness_told: ReadinessTold::default(),
            guest_pool,
            clock,
            app_cache: Arc::default(),
            writers,
            opening,
            engine,
            hosts,
            reports,
            payments: PaymentQueue::new(size),
            objects,
            marks: Arc::default(),
            exchange_metrics,
            replays,
            refusals: Refusals::default(),
            key_uses: KeyUses::default(),
            last_audits: Arc::new(LookUpCache::lasting(LAST_AUDITS_CACHED_FOR)),
            key_leases: Arc::default(),
            shipment_counts: Arc::new(LookUpCache::lasting(SHIPMENTS_COUNTED_FOR)),
            events: Arc::default(),
            statements: Permits::new(patience),
            bills: Permits::new(patience),
            comparisons: Permits::new(patience),
            closed_round: Arc::default(),
            settings: Arc::new(settings),
        })
    }

    /// The same store for the operator's listener. It has sessions of its own, so whatever operators read or change,
    /// payments find theirs free.
    #[must_use]
    pub fn for_operators(&self) -> Self {
        Self { pool: self.operator_pool.clone(), ..self.clone() }
    }

    /// How many sessions the requests of the operator's listener have.
    #[must_use]
    pub fn operator_connections(&self) -> u32 {
        operator_connections(self.settings.connections)
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
            size: self.public_pool.size(),
            idle: u32::try_from(self.public_pool.num_idle()).unwrap_or(u32::MAX),
            size_max: self.settings.connections,
        }
    }

    /// How many wait to make a statement, a bill or a comparison, each with its word in metrics.
    #[must_use]
    pub fn waiting_for_books(&self) -> [(&'static str, u64); 3] {
        let words =
            [("statement", &self.statements), ("bill", &self.bills), ("comparison", &self.comparisons)];
        words.map(|(word, permits)| (word, permits.waiting()))
    }

    /// The time by the database's clock, for commands that judge the time of a payment. The clock of a sandbox server
    /// may be ahead of the machine's.
    ///
    /// # Errors
    /// The database is away.
    pub async fn now(&self) -> Result<OffsetDateTime> {
        let now = sqlx::query_scalar!(r#"SELECT clock_timestamp() AS "now!""#);
        Ok(now.fetch_one(&self.pool).await?)
    }

    /// Closes the pools. The writers' sessions end with the last clone of the store.
    pub async fn close(&self) {
        self.guest_pool.close().await;
        self.operator_pool.close().await;
        self.public_pool.close().await;
        self.readiness_session.close().await;
    }

    /// Runs `work` in one transaction, in a task of its own, and commits when it returns `Ok`. It
    /// repeats the whole transaction when the database asks for it or `work` returns
    /// [`StoreError::Again`]. So `work` must have no effects outside the database. `context` holds
    /// what `work` needs.
    ///
    /// A session that is silent for three times the time limit of a statement is closed: `Unavailable`, as when it
    /// is lost. Nobody knows whether a COMMIT under way has arrived.
    pub(crate) async fn transaction<C, T, E, F>(&self, context: C, work: F) -> Result<T, E>
    where
        C: Send + Sync + 'static,
        T: Send + 'static,
        E: From<StoreError> + AsStoreError + Send + 'static,
        F: for<'c> Fn(&'c mut PgConnection, &'c C) -> AttemptFuture<'c, T, E> + Send + Sync + 'static,
    {
        let silence_max = silence_max(&self.settings);
        transaction::run(&self.runtime, self.pool.clone(), Some(silence_max), context, work).await
    }

    /// The same for work that lifts the time limit of its statements. Its session may be silent without a limit.
    pub(crate) async fn long_transaction<C, T, E, F>(&self, context: C, work: F) -> Result<T, E>
    where
        C: Send + Sync + 'static,
        T: Send + 'static,
        E: From<StoreError> + AsStoreError + Send + 'static,
        F: for<'c> Fn(&'c mut PgConnection, &'c C) -> AttemptFuture<'c, T, E> + Send + Sync + 'static,
    {
        transaction::run(&self.runtime, self.pool.clone(), None, context, work).await
    }

    /// The result of a look-up that others wait for too, unless its session is silent for as long as that of a
    /// transaction may be. Then it is an error, and the next caller's look-up has another session.
    pub(crate) async fn look_up<T>(&self, look_up: impl Future<Output = Result<T>>) -> Result<T> {
        unless_silent_look_up(silence_max(&self.settings), look_up).await
    }
}
