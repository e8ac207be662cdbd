//! The work of a writer of wallets: each attempt at a batch, and the statements of a session in their order.

use std::future::Future;
use std::time::Duration;

use domain::caller::Signed;
use domain::ids::AppId;
use domain::wallet::{WalletOutcome, WalletRequest};
use futures_util::future::{join, join5};
use telemetry::metrics::{BatchRetry, ExchangeMetrics};
use tokio::time::Instant;

use super::batch::{Batch, Decision, Decisions};
use super::postgres::{DatabaseClient, WriterDatabase};
use super::query::ExchangeDetail;
use super::rows::{LockedRows, ReadRows};
use super::write::{Columns, StoredItems};
use crate::counts::Replays;
use crate::engine::Engine;
use crate::writer::{Locking, PlansMade, SessionFault, Spans, Work};

/// A writer's session, and what it counts.
pub(super) struct WalletWork<D: WriterDatabase> {
    database: D,
    session: Option<Session<D>>,
    metrics: ExchangeMetrics,
    replays: Replays,
}

impl<D: WriterDatabase> WalletWork<D> {
    pub(super) fn new(database: &D, metrics: &ExchangeMetrics, replays: &Replays) -> Self {
        Self { database: database.clone(), session: None, metrics: metrics.clone(), replays: replays.clone() }
    }
}

impl<D: WriterDatabase> Work for WalletWork<D> {
    type Request = Signed<WalletRequest>;
    type Outcome = WalletOutcome;

    const SPANS: Spans =
        Spans { queue: "exchange queue", batch: "exchange batch", size: "minitill.batch.exchanges" };

    async fn attempt(
        &mut self,
        requests: &[&Self::Request],
        locking: Locking,
    ) -> Result<Vec<Option<WalletOutcome>>, SessionFault> {
        let is_of_one_app = requests.iter().all(|request| request.app_no() == requests[0].app_no());
        debug_assert!(is_of_one_app || !self.separates_apps(), "its statements name the first app alone");
        let session = match &mut self.session {
            Some(session) => session,
            None => self.session.insert(Session::open(&self.database).await?),
        };
        let requests = requests.iter().map(|request| (request.app_no(), request.value()));
        let batch = Batch::new(requests.collect());
        if locking == Locking::None {
            let known = session.read(&batch).await?;
            let decisions = batch.decide(&known.rows, known.at());
            if !decisions.verdicts.contains(&Decision::NeedsLock) {
                if !decisions.rows.is_empty() {
                    session.write(&batch, &known, &decisions).await?;
                }
                return Ok(outcomes(decisions.verdicts));
            }
        }
        let known = session.begin(&batch, locking == Locking::SkipHeld).await?;
        let decisions = batch.decide(&known.rows, known.at());
        session.commit(&batch, &known, &decisions).await?;
        Ok(outcomes(decisions.verdicts))
    }

    async fn session_ended(&mut self) {
        match &mut self.session {
            Some(session) => session.ended().await,
            None => std::future::pending().await,
        }
        self.session = None;
    }

    fn forget_session(&mut self) {
        self.session = None;
    }

    fn separates_apps(&self) -> bool {
        self.database.engine() == Engine::Citus
    }

    fn now(&self) -> Instant {
        self.database.now()
    }

    async fn pause(&mut self, duration: Duration) {
        self.database.pause(duration).await;
    }

    fn wrote(&self, requests: usize, took: Duration) {
        self.metrics.wrote(requests, took);
    }

    fn retries(&self, why: BatchRetry) {
        self.metrics.retries(why);
    }

    fn decided(&self, requests: &[&Self::Request], outcomes: &[Option<WalletOutcome>]) {
        let mut replayed: Vec<(AppId, String)> = Vec::new();
        for (request, outcome) in requests.iter().zip(outcomes) {
            let Some(outcome) = outcome else { continue };
            self.metrics.decided(outcome);
            if matches!(outcome, WalletOutcome::Replayed(_)) {
                replayed.push((request.app_id().clone(), request.value().reference.clone()));
            }
        }
        self.replays.count(replayed);
    }
}

/// `None` is a request that was set aside.
fn outcomes(verdicts: Vec<Decision>) -> Vec<Option<WalletOutcome>> {
    let outcome = |verdict| match verdict {
        Decision::Answer(outcome) => Some(outcome),
        Decision::SetAside | Decision::NeedsLock => None,
    };
    verdicts.into_iter().map(outcome).collect()
}

/// A session. Between two batches it is outside any transaction.
struct Session<D: WriterDatabase> {
    database: D,
    client: D::Client,
    connection: D::Connection,
    plans: PlansMade,
    items: StoredItems,
}

impl<D: WriterDatabase> Session<D> {
    /// Connects and prepares the statements.
    async fn open(database: &D) -> Result<Self, SessionFault> {
        let (client, connection) = database.connect().await?;
        Ok(Self {
            client,
            connection,
            plans: PlansMade::at(database.now()),
            database: database.clone(),
            items: StoredItems::default(),
        })
    }

    /// Waits until the database ends the session.
    async fn ended(&mut self) {
        let _ = (&mut self.connection).await;
    }

    /// Reads the rows of the batch without a lock. [`Session::write`] detects a later change.
    async fn read(&mut self, batch: &Batch<'_>) -> Result<ReadRows, SessionFault> {
        let discards_plans = self.plans.are_outdated(self.database.now());
        let Self { database, client, connection, .. } = self;
        let reading = async {
            let (known, details) = join(client.read(batch, discards_plans), details(client, batch)).await;
            known?.with_details(batch, details?)
        };
        drive(database, connection, reading).await
    }

    /// Writes the decisions in one statement, durably, or writes nothing. The fault is `Again` when
    /// the rows have changed since [`Session::read`].
    async fn write(
        &mut self,
        batch: &Batch<'_>,
        known: &ReadRows,
        decisions: &Decisions,
    ) -> Result<(), SessionFault> {
        let columns = Columns::new(batch, decisions, known.at, self.items.missing(batch, decisions));
        let written = drive(&self.database, &mut self.connection, self.client.write(&columns, true)).await;
        if written.is_ok() {
            self.items.add(&columns.items);
        }
        written
    }

    /// Begins a transaction, locks the wallets of the batch and reads its records. With
    /// `skips_held` it skips wallets that another session has locked.
    async fn begin(&mut self, batch: &Batch<'_>, skips_held: bool) -> Result<ReadRows, SessionFault> {
        let discards_plans = self.plans.are_outdated(self.database.now());
        let Self { database, client, connection, .. } = self;
        // They are polled from left to right. Each is sent at its first poll.
        let work = async {
            let (begun, wallets, at, records, details) = join5(
                client.begin(discards_plans),
                client.lock(batch, skips_held),
                client.time(),
                client.records(batch),
                details(client, batch),
            )
            .await;
            begun?;
            // In the order of sending. After the first failure the others report only that failure.
            let (wallets, at, records, details) = (wallets?, at?, records?, details?);
            let are_all_locked = wallets.len() == batch.wallets.names.len();
            let existing = if are_all_locked { Vec::new() } else { client.existing(batch).await? };
            ReadRows::of_locked(batch, LockedRows { wallets, at, records, existing })?
                .with_details(batch, details)
        };
        let known = drive(database, connection, work).await;
        match known {
            Ok(_) | Err(SessionFault::Lost(_)) => known,
            Err(fault) => {
                self.roll_back().await?;
                Err(fault)
            }
        }
    }

    /// Writes the decisions in the transaction of [`Session::begin`] and commits durably. After a
    /// fault other than `Lost`, nothing was written.
    async fn commit(
        &mut self,
        batch: &Batch<'_>,
        known: &ReadRows,
        decisions: &Decisions,
    ) -> Result<(), SessionFault> {
        let Self { database, client, connection, items, .. } = self;
        if decisions.rows.is_empty() {
            return drive(database, connection, client.commit()).await;
        }
        let columns = Columns::new(batch, decisions, known.at, items.missing(batch, decisions));
        let work = async {
            let (written, committed) = join(client.write(&columns, false), client.commit()).await;
            // After a failed write, COMMIT rolls back and reports no error.
            written?;
            committed
        };
        drive(database, connection, work).await?;
        items.add(&columns.items);
        Ok(())
    }

    async fn roll_back(&mut self) -> Result<(), SessionFault> {
        drive(&self.database, &mut self.connection, self.client.roll_back()).await
    }
}

/// The details of exchanges for the queries of a batch. Without queries it sends nothing.
async fn details<C: DatabaseClient>(
    client: &C,
    batch: &Batch<'_>,
) -> Result<Vec<(usize, ExchangeDetail)>, SessionFault> {
    if batch.queries().next().is_none() { Ok(Vec::new()) } else { client.details(batch).await }
}

/// Drives the session until `work` has ended.
async fn drive<D: WriterDatabase, T>(
    database: &D,
    connection: &mut D::Connection,
    work: impl Future<Output = Result<T, SessionFault>>,
) -> Result<T, SessionFault> {
    crate::writer::drive(connection, database.pause(database.answer_timeout()), work).await
}
