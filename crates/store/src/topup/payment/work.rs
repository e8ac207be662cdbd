//! Payments as the work of a writer.

use sqlx::PgPool;

use super::write_payments;
use crate::engine::PresentEngine;
use crate::error::{Result, StoreError};
use crate::payment_queue::{PaymentOutcome, ToldPayment};
use crate::transaction::attempt_transaction;
use crate::writer::{Locking, SessionFault, Spans, Work};

/// A writer's sessions: each attempt takes one of the pool.
pub(super) struct PaymentWork {
    pool: PgPool,
    engine: PresentEngine,
}

impl PaymentWork {
    pub(super) fn new(pool: PgPool, engine: PresentEngine) -> Self {
        Self { pool, engine }
    }

    async fn write(&self, told: &[&ToldPayment]) -> Result<Vec<Option<PaymentOutcome>>> {
        let context = (self.engine.get(), told);
        attempt_transaction(&self.pool, &context, &|connection, (engine, told)| {
            Box::pin(write_payments(connection, *engine, told))
        })
        .await
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

    /// The pool has the sessions.
    async fn session_ended(&mut self) {
        std::future::pending::<()>().await;
    }

    fn forget_session(&mut self) {}

    fn separates_apps(&self) -> bool {
        true
    }
}
