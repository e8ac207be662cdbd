//! The door to the writers of wallets. Each wallet has one writer in a process, on every engine. On Citus each node of
//! the database has writers of its own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::caller::Signed;
use domain::ids::AppNo;
use domain::wallet::{WalletOutcome, WalletRequest};
use sqlx::PgPool;
use telemetry::metrics::ExchangeMetrics;
use tokio::time::Instant;

use super::WalletWriters;
use super::citus::{Address, NODE_CACHED_FOR, opening_of};
use super::work::WalletWork;
use crate::counts::Replays;
use crate::engine::{Engine, node_of};
use crate::error::Result;
use crate::look_up_cache::LookUpCache;
use crate::silence::{SILENT_STATEMENTS, unless_silent_look_up};
use crate::writer::{Opening, Writer, keep_writing};

/// The writers of a process.
#[derive(Debug, Clone)]
pub(crate) struct NodeWriters {
    opening: Opening,
    count: usize,
    metrics: ExchangeMetrics,
    replays: Replays,
    /// They speak to the address of the database.
    first: WalletWriters,
    of_nodes: Arc<Mutex<HashMap<Address, WalletWriters>>>,
    /// The node of each app. `None` when this process does not reach it.
    nodes: Arc<LookUpCache<AppNo, Option<Address>>>,
}

impl NodeWriters {
    /// Starts the writers that speak to the address of the database.
    pub(crate) fn start(
        (count, queue_max): (usize, usize),
        opening: &Opening,
        metrics: &ExchangeMetrics,
        replays: &Replays,
    ) -> Result<Self> {
        let first = WalletWriters::start(count, queue_max, |queue| {
            keep_writing(Writer::new(queue, WalletWork::new(opening, metrics, replays)))
        })?;
        Ok(Self {
            opening: opening.clone(),
            count,
            metrics: metrics.clone(),
            replays: replays.clone(),
            first,
            of_nodes: Arc::default(),
            nodes: Arc::new(LookUpCache::lasting(NODE_CACHED_FOR)),
        })
    }

    /// The number of requests that the queue can still take.
    pub(crate) fn free_places(&self) -> usize {
        self.first.free_places()
    }

    /// For benchmarks: writers that answer at once.
    pub(crate) fn replace(&mut self, writers: WalletWriters) {
        self.first = writers;
    }

    /// Hands a request to the one writer of its wallet, and waits for its outcome until `deadline`. On Citus that writer
    /// speaks to the node of the app, which is looked up through `pool` and remembered for a while from `now`.
    ///
    /// # Errors
    /// Those of [`Writers::submit`](crate::writer::Writers::submit).
    pub(crate) async fn submit(
        &self,
        request: Signed<WalletRequest>,
        (pool, now): (&PgPool, Duration),
        deadline: Instant,
    ) -> Result<WalletOutcome> {
        let (app_id, open_id) = (request.app_id().clone(), request.value().open_id.clone());
        let writers = self.of(request.app_no(), pool, now, deadline).await;
        writers.submit(&app_id, (&app_id, &open_id), request, deadline).await
    }

    /// The writers that speak to the node of an app, or through the coordinator when the node is not known.
    async fn of(&self, app_no: AppNo, pool: &PgPool, now: Duration, deadline: Instant) -> WalletWriters {
        if self.opening.engine.get() == Engine::Postgres {
            return self.first.clone();
        }
        let within = deadline.saturating_duration_since(Instant::now());
        let (all, pool) = (self.clone(), pool.clone());
        let silence_max = self.opening.answer_timeout() * SILENT_STATEMENTS;
        let found = self.nodes.get_or(&app_no, now, within, |_| async move {
            unless_silent_look_up(silence_max, all.find(app_no, &pool)).await
        });
        // The look-up is in a box. So the future of an exchange stays small where there is one node.
        let Ok(Some(Some(address))) = Box::pin(found).await else { return self.first.clone() };
        let of_nodes = self.of_nodes.lock().unwrap_or_else(PoisonError::into_inner);
        of_nodes.get(&address).unwrap_or(&self.first).clone()
    }

    /// Finds the node of an app, and starts writers for a node that has none and answers.
    async fn find(&self, app_no: AppNo, pool: &PgPool) -> Result<Option<Option<Address>>> {
        let Some(address) = node_of(&mut *pool.acquire().await?, app_no).await? else {
            return Ok(Some(None));
        };
        let of_nodes = || self.of_nodes.lock().unwrap_or_else(PoisonError::into_inner);
        if of_nodes().contains_key(&address) {
            return Ok(Some(Some(address)));
        }
        let Some(opening) = opening_of(&self.opening, &address).await else { return Ok(Some(None)) };
        let writers = self.first.beside(self.count, |queue| {
            keep_writing(Writer::new(queue, WalletWork::new(&opening, &self.metrics, &self.replays)))
        })?;
        of_nodes().entry(address.clone()).or_insert(writers);
        Ok(Some(Some(address)))
    }
}
