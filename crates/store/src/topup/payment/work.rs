//! Payments as the work of a writer.

use std::time::Duration;

use sqlx::PgPool;
use tokio::time::Instant;

use super::write_payments;
use crate::engine::PresentEngine;
use crate::error::{Result, StoreError};
use crate::payment_queue::{PaymentOutcome, ToldPayment};
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
        #[expect(clippy::disallowed_methods, reason = "nobody drops the task of a writer half-way")]
        let mut transaction = self.pool.begin().await?;
        let outcomes = write_payments(&mut transaction, self.engine.get(), told).await;
        match outcomes {
            Ok(_) => transaction.commit().await?,
            // A session that cannot roll back is broken. The pool detects it.
            Err(_) => drop(transaction.rollback().await),
        }
        outcomes
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

    fn now(&self) -> Instant {
        Instant::now()
    }

    async fn pause(&mut self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}
