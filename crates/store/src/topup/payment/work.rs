//! Payments as the work of a writer.

use std::collections::HashMap;

use domain::ids::AppId;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tokio::time::Instant;

use super::unhindered::UnhinderedSession;
use super::write_payments;
use crate::app_number::number_of;
use crate::engine::Engine;
use crate::error::{OperationError, Refusable, Result, StoreError};
use crate::payment_queue::{PaymentOutcome, ToldPayment};
use crate::session::prepare_session;
use crate::transaction::attempt_on;
use crate::writer::{Locking, Opening, PlansMade, SessionFault, Spans, Work, planning};

/// A batch has several statements. Together they may take this many times what one may.
const BATCH_STATEMENTS: u32 = 3;

/// What a writer of payments works with.
pub(super) struct PaymentWork {
    opening: Opening,
    /// For payments without an obstacle. `None` before the first, and after it was lost.
    unhindered: Option<UnhinderedSession>,
    /// For all others. `None` before the first, and after a fault.
    session: Option<PaymentSession>,
}

/// A session of the writer's own. It prepares and plans its statements once, and not for each batch.
struct PaymentSession {
    connection: PgConnection,
    opened: Instant,
    engine: Engine,
    plans: PlansMade,
    /// The numbers of apps, which never change while it lasts.
    app_nos: HashMap<AppId, i32>,
}

impl PaymentWork {
    pub(super) fn new(opening: Opening) -> Self {
        Self { opening, unhindered: None, session: None }
    }

    /// A session with the host that takes writes now. What it kept is tried once a second, so that a session which has
    /// ended is found before a payment needs it.
    async fn session(&mut self) -> Result<PaymentSession> {
        let engine = self.opening.engine.get();
        let kept = self
            .session
            .take()
            .filter(|kept| kept.engine == engine && self.opening.hosts.is_present(kept.opened.elapsed()));
        if let Some(mut kept) = kept
            && kept.discard_outdated_plans().await.is_ok()
        {
            return Ok(kept);
        }
        PaymentSession::open(&self.opening, engine).await
    }

    /// Credits those of these payments that have no obstacle.
    async fn credit_unhindered(
        &mut self,
        app_id: &AppId,
        told: &[&ToldPayment],
        outcomes: &mut [Option<PaymentOutcome>],
    ) -> Result<(), SessionFault> {
        let Self { opening, unhindered, .. } = self;
        let session = match unhindered.take_if(|kept| kept.is_present()) {
            Some(kept) => unhindered.insert(kept),
            None => match UnhinderedSession::open(opening).await {
                Ok(opened) => unhindered.insert(opened),
                // The session that locks may be there.
                Err(SessionFault::Other(StoreError::Unavailable(..))) => return Ok(()),
                Err(fault) => return Err(fault),
            },
        };
        match session.credit(app_id, told).await {
            Ok(reports) => {
                for (place, report) in reports {
                    outcomes[place] = Some(Ok(report));
                }
                Ok(())
            }
            // Nothing was written. All of them are carried out under locks.
            Err(SessionFault::Again | SessionFault::Blocked) => Ok(()),
            Err(fault) => Err(fault),
        }
    }

    /// Carries out payments under locks.
    async fn write(&mut self, app_id: &AppId, told: &[&ToldPayment]) -> Result<Vec<Option<PaymentOutcome>>> {
        let mut session = self.session().await?;
        let app_no = match session.app_no(app_id).await {
            Ok(app_no) => app_no,
            Err(Refusable::Refused(refusal)) => {
                self.session = Some(session);
                return Ok(told.iter().map(|_| Some(Err(refusal.clone()))).collect());
            }
            Err(Refusable::Store(error)) => return Err(error),
        };
        let context = (session.engine, (app_id, app_no), told);
        let written = attempt_on(&mut session.connection, &context, &|connection, (engine, app, told)| {
            Box::pin(write_payments(connection, *engine, *app, told))
        })
        .await;
        // After any other fault nobody knows what became of the session.
        if matches!(written, Ok(_) | Err(StoreError::Again)) {
            self.session = Some(session);
        }
        written
    }
}

impl PaymentSession {
    async fn open(opening: &Opening, engine: Engine) -> Result<Self> {
        let opened = Instant::now();
        let connecting = async {
            let mut connection = PgConnection::connect_with(opening.hosts.address()).await?;
            prepare_session(&mut connection, opening.statement_timeout, true).await?;
            sqlx::raw_sql(AssertSqlSafe(planning(engine, ""))).execute(&mut connection).await?;
            Ok::<_, StoreError>(connection)
        };
        let connection = tokio::time::timeout(opening.connect_timeout, connecting).await;
        let connection = connection.map_err(|_| StoreError::unavailable("it does not answer"))??;
        Ok(Self { connection, opened, engine, plans: PlansMade::at(opened), app_nos: HashMap::new() })
    }

    async fn discard_outdated_plans(&mut self) -> Result<()> {
        if self.plans.are_outdated(Instant::now()) {
            sqlx::raw_sql("DISCARD PLANS").execute(&mut self.connection).await?;
        }
        Ok(())
    }

    async fn app_no(&mut self, app_id: &AppId) -> Result<i32, OperationError> {
        if let Some(app_no) = self.app_nos.get(app_id) {
            return Ok(*app_no);
        }
        let app_no = number_of(&mut self.connection, app_id).await?;
        self.app_nos.insert(app_id.clone(), app_no);
        Ok(app_no)
    }
}

impl Work for PaymentWork {
    type Request = ToldPayment;
    type Outcome = PaymentOutcome;

    const SPANS: Spans =
        Spans { queue: "payment queue", batch: "payment batch", size: "minitill.batch.payments" };

    /// Under locks, it never waits for the lock of a wallet.
    async fn attempt(
        &mut self,
        requests: &[&ToldPayment],
        locking: Locking,
    ) -> Result<Vec<Option<PaymentOutcome>>, SessionFault> {
        let Some(app_id) = requests.first().map(|one| &one.app_id) else { return Ok(Vec::new()) };
        let mut outcomes = requests.iter().map(|_| None).collect::<Vec<_>>();
        if locking == Locking::None && self.opening.engine.get() == Engine::Postgres {
            self.credit_unhindered(app_id, requests, &mut outcomes).await?;
        }
        let left: Vec<usize> = (0..requests.len()).filter(|place| outcomes[*place].is_none()).collect();
        if left.is_empty() {
            return Ok(outcomes);
        }
        let told: Vec<&ToldPayment> = left.iter().map(|place| requests[*place]).collect();
        // A host that falls silent says nothing for a quarter of an hour. The session is dropped with the work.
        let patience = self.opening.answer_timeout() * BATCH_STATEMENTS;
        let written = tokio::time::timeout(patience, self.write(app_id, &told)).await;
        match written.unwrap_or_else(|_| Err(StoreError::unavailable("it does not answer"))) {
            Ok(written) => {
                for (place, outcome) in left.iter().zip(written) {
                    outcomes[*place] = outcome;
                }
                Ok(outcomes)
            }
            // What was credited is told, and the others are tried again.
            Err(_) if left.len() < requests.len() => Ok(outcomes),
            Err(error) => Err(session_fault(error)),
        }
    }

    async fn session_ended(&mut self) {
        match &mut self.unhindered {
            Some(session) => session.ended().await,
            None => std::future::pending().await,
        }
        self.unhindered = None;
    }

    fn forget_session(&mut self) {
        self.unhindered = None;
        self.session = None;
    }

    fn separates_apps(&self) -> bool {
        true
    }
}

fn session_fault(error: StoreError) -> SessionFault {
    match error {
        StoreError::Again => SessionFault::Again,
        other => SessionFault::Other(other),
    }
}
