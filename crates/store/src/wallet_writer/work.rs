//! Requests to wallets as the work of a writer.

use std::time::Duration;

use domain::caller::Signed;
use domain::ids::AppId;
use domain::wallet::{WalletOutcome, WalletRequest};
use telemetry::metrics::{BatchRetry, ExchangeMetrics};
use tokio::time::Instant;

use super::batch::Batch;
use super::database::WriterDatabase;
use super::decide::Decision;
use super::session::Session;
use crate::counts::Replays;
use crate::engine::Engine;
use crate::writer::{Locking, SessionFault, Spans, Work};

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
