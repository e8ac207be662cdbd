//! Payments as the work of a writer.

use std::collections::HashMap;

use domain::ids::AppId;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tokio::time::Instant;

use super::super::number_of;
use super::write_payments;
use crate::engine::Engine;
use crate::error::{OperationError, Refusable, Result, StoreError};
use crate::payment_queue::{PaymentOutcome, ToldPayment};
use crate::session::prepare_session;
use crate::transaction::attempt_on;
use crate::writer::{Locking, Opening, PlansMade, SessionFault, Spans, Work, planning};

/// What a writer of payments works with.
pub(super) struct PaymentWork {
    opening: Opening,
    /// `None` before the first payment, and after a fault.
    session: Option<PaymentSession>,
}

/// A session of the writer's own. It prepares and plans its statements once, and not for each batch.
struct PaymentSession {
    connection: PgConnection,
    opened: Instant,
    engine: Engine,
    plans: PlansMade,
    /// The numbers of apps, which never change.
    app_nos: HashMap<AppId, i32>,
}

impl PaymentWork {
    pub(super) fn new(opening: Opening) -> Self {
        Self { opening, session: None }
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

    async fn write(&mut self, told: &[&ToldPayment]) -> Result<Vec<Option<PaymentOutcome>>> {
        let Some(app_id) = told.first().map(|one| &one.app_id) else { return Ok(Vec::new()) };
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
        let connection =
            connection.map_err(|_| StoreError::Unavailable("it does not answer".to_owned()))??;
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

    /// It never waits for the lock of a wallet. So it treats rows the same, whatever the `locking`.
    async fn attempt(
        &mut self,
        requests: &[&ToldPayment],
        _: Locking,
    ) -> Result<Vec<Option<PaymentOutcome>>, SessionFault> {
        self.write(requests).await.map_err(|error| match error {
            StoreError::Again => SessionFault::Again,
            other => SessionFault::Other(other),
        })
    }

    /// The next attempt finds out.
    async fn session_ended(&mut self) {
        std::future::pending::<()>().await;
    }

    fn forget_session(&mut self) {
        self.session = None;
    }

    fn separates_apps(&self) -> bool {
        true
    }
}
