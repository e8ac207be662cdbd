//! Reports of orders as the work of a writer.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::{join, join3};
use tokio::time::Instant;

use super::ReportOutcome;
use super::batch::{AppScopedId, ReportContext, ReportDecisions, ReportRequest, decide, order_key};
use super::statements::OrderStatements;
use crate::engine::Engine;
use crate::writer::{
    Connection, Locking, Opening, PlansMade, SessionFault, Spans, Work, connect, drive_within, execute, fault,
};

/// A writer's session.
pub(super) struct ReportWork {
    opening: Opening,
    session: Option<OrderSession>,
}

/// A session. Between two batches it is outside any transaction.
struct OrderSession {
    client: tokio_postgres::Client,
    connection: Connection,
    statements: OrderStatements,
    plans: PlansMade,
    answer_timeout: Duration,
}

impl ReportWork {
    pub(super) fn new(opening: Opening) -> Self {
        Self { opening, session: None }
    }
}

impl Work for ReportWork {
    type Request = ReportRequest;
    type Outcome = ReportOutcome;

    const SPANS: Spans =
        Spans { queue: "report queue", batch: "report batch", size: "minitill.batch.reports" };

    async fn attempt(
        &mut self,
        requests: &[&ReportRequest],
        locking: Locking,
    ) -> Result<Vec<Option<ReportOutcome>>, SessionFault> {
        let session = match &mut self.session {
            Some(session) => session,
            None => self.session.insert(OrderSession::open(&self.opening).await?),
        };
        let decisions = match locking {
            Locking::None => {
                let decisions = decide(requests, session.read(requests).await?, &BTreeSet::new());
                session.write(&decisions).await?;
                decisions
            }
            Locking::Wait | Locking::SkipHeld => {
                let (found, held) = session.begin(requests, locking == Locking::SkipHeld).await?;
                let decisions = decide(requests, found, &held);
                session.commit(&decisions).await?;
                decisions
            }
        };
        Ok(decisions.outcomes)
    }

    async fn session_ended(&mut self) {
        match &mut self.session {
            Some(session) => drop((&mut session.connection).await),
            None => std::future::pending().await,
        }
        self.session = None;
    }

    fn forget_session(&mut self) {
        self.session = None;
    }

    fn separates_apps(&self) -> bool {
        self.opening.engine.get() == Engine::Citus
    }
}

impl OrderSession {
    /// Connects and prepares the statements.
    async fn open(opening: &Opening) -> Result<Self, SessionFault> {
        let (client, mut connection) = connect(opening).await?;
        let engine = opening.engine.get();
        let preparing = async {
            execute(&client, &opening.settings(engine)).await?;
            OrderStatements::prepare(&client, engine).await.map_err(|error| fault(&error))
        };
        let answer_timeout = opening.answer_timeout();
        let statements = drive_within(&mut connection, answer_timeout, preparing).await?;
        Ok(Self { client, connection, statements, plans: PlansMade::at(Instant::now()), answer_timeout })
    }

    /// Reads what the reports depend on, without a lock. [`OrderSession::write`] detects a later change.
    async fn read(&mut self, requests: &[&ReportRequest]) -> Result<Vec<ReportContext>, SessionFault> {
        let discards_plans = self.plans.are_outdated(Instant::now());
        let Self { client, connection, statements, .. } = self;
        let reading = async {
            let discarding =
                async { if discards_plans { execute(client, "DISCARD PLANS").await } else { Ok(()) } };
            let (discarded, found) = join(discarding, statements.read(client, requests)).await;
            discarded?;
            found
        };
        drive_within(connection, self.answer_timeout, reading).await
    }

    /// Writes the decisions in one statement, durably, or writes nothing.
    async fn write(&mut self, decisions: &ReportDecisions<'_>) -> Result<(), SessionFault> {
        if decisions.is_empty() {
            return Ok(());
        }
        let writing = self.statements.write(&self.client, decisions);
        drive_within(&mut self.connection, self.answer_timeout, writing).await
    }

    /// Begins a transaction, locks the orders of the reports and reads what the reports depend on. With `skips_held` it
    /// also returns the orders that another session has locked.
    async fn begin<'a>(
        &mut self,
        requests: &[&'a ReportRequest],
        skips_held: bool,
    ) -> Result<(Vec<ReportContext>, BTreeSet<AppScopedId<'a>>), SessionFault> {
        let discards_plans = self.plans.are_outdated(Instant::now());
        let Self { client, connection, statements, .. } = self;
        let keys: BTreeSet<AppScopedId<'a>> = requests.iter().map(|request| order_key(request)).collect();
        let (app_ids, order_nos): (Vec<_>, Vec<_>) = keys.iter().copied().unzip();
        // They are polled from left to right. Each is sent at its first poll.
        let beginning = async {
            let (begun, locked, found) = join3(
                execute(client, if discards_plans { "DISCARD PLANS; BEGIN" } else { "BEGIN" }),
                statements.lock(client, (&app_ids, &order_nos), skips_held),
                statements.read(client, requests),
            )
            .await;
            begun?;
            let (locked, found) = (locked?, found?);
            let mut held = BTreeSet::new();
            if skips_held {
                let existing = requests.iter().zip(&found).filter(|(_, found)| found.order.is_some());
                held.extend(existing.map(|(request, _)| order_key(request)));
                let locked: BTreeSet<usize> = locked.into_iter().collect();
                for (_, key) in keys.iter().enumerate().filter(|(place, _)| locked.contains(place)) {
                    held.remove(key);
                }
            }
            Ok((found, held))
        };
        let begun = drive_within(connection, self.answer_timeout, beginning).await;
        match begun {
            Ok(_) | Err(SessionFault::Lost(_)) => begun,
            Err(fault) => {
                self.execute("ROLLBACK").await?;
                Err(fault)
            }
        }
    }

    /// Writes the decisions in the transaction of [`OrderSession::begin`] and commits durably. After a fault other than `Lost`,
    /// nothing was written.
    async fn commit(&mut self, decisions: &ReportDecisions<'_>) -> Result<(), SessionFault> {
        if decisions.is_empty() {
            return self.execute("COMMIT").await;
        }
        let Self { client, connection, statements, .. } = self;
        let work = async {
            let (written, committed) =
                join(statements.write(client, decisions), execute(client, "COMMIT")).await;
            // After a failed write, COMMIT rolls back and reports no error.
            written?;
            committed
        };
        drive_within(connection, self.answer_timeout, work).await
    }

    async fn execute(&mut self, sql: &str) -> Result<(), SessionFault> {
        let executing = execute(&self.client, sql);
        drive_within(&mut self.connection, self.answer_timeout, executing).await
    }
}
