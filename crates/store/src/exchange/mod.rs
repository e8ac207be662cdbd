//! Exchanges. [`Store::submit`] is the only function that deducts money (contract 3.3).
//!
//! The writers of a process ([`writer`]) carry the exchanges out. Each has a session of its own
//! ([`session`]) and writes all exchanges that wait in one transaction. A pure function decides
//! each of them ([`batch`]). Exchanges of one wallet always go to the same writer.

mod batch;
mod columns;
mod database;
mod driver;
mod fault;
mod known;
mod queue;
mod record;
mod replays;
mod rows;
mod session;
mod statements;
mod tls;
mod writer;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use domain::caller::Signed;
use domain::exchange::{Exchange, ExchangeOutcome};
use tokio::time::Instant;

use crate::{Result, Store, StoreError};

pub(super) use driver::Opening;
pub use record::{ExchangeRecord, ReferenceMatch, ReplayCount};
pub(super) use replays::Replays;
pub(super) use writer::Writers;

impl Store {
    /// Carries out an exchange, exactly once for each `biz_no` of an app. The work belongs to a writer, so
    /// it goes on when the caller stops waiting. The caller waits until `deadline`.
    ///
    /// Only a verified exchange is accepted:
    ///
    /// ```no_run
    /// # use domain::caller::Signed;
    /// # use domain::exchange::Exchange;
    /// # async fn pay(store: store::Store, exchange: Signed<Exchange>) {
    /// let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(2);
    /// let _ = store.submit(exchange, deadline).await;
    /// # }
    /// ```
    ///
    /// An exchange that was parsed and not verified does not compile:
    ///
    /// ```compile_fail,E0308
    /// # use domain::caller::Signed;
    /// # use domain::exchange::Exchange;
    /// # async fn pay(store: store::Store, exchange: Exchange) {
    /// let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(2);
    /// let _ = store.submit(exchange, deadline).await;
    /// # }
    /// ```
    ///
    /// # Errors
    /// The queue is full, the deadline has passed, or the database does not answer. In the last two cases
    /// the exchange may have been made. A repeat with the same `biz_no` gets the result.
    pub async fn submit(&self, exchange: Signed<Exchange>, deadline: Instant) -> Result<ExchangeOutcome> {
        let answer = self.writers.enqueue(exchange, deadline)?;
        match tokio::time::timeout_at(deadline, answer).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(StoreError::Internal("a writer ended without an answer".to_owned())),
            Err(_) => Err(StoreError::past_deadline()),
        }
    }

    /// For benchmarks: a store that answers every exchange at once with empty purses and writes
    /// nothing. It shows the cost of everything around the store.
    #[must_use]
    pub fn answering_at_once(mut self) -> Self {
        self.writers = Writers::answering_at_once(self.settings.exchange_queue_max);
        self
    }
}
