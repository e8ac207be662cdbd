//! Requests to wallets (contract 3 and 10).
//!
//! The writers of a process ([`writer`]) carry the requests out. Each has a session of its own
//! ([`session`]) and carries out all requests that wait in one transaction. A pure function decides
//! each of them ([`batch`]). Requests to one wallet always go to the same writer.

mod batch;
mod columns;
mod database;
mod driver;
mod fault;
mod known;
mod operators;
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
use domain::wallet::{WalletOutcome, WalletRequest};
use tokio::time::Instant;

use crate::{Result, Store, StoreError};

pub(super) use driver::Opening;
pub(super) use operators::change;
pub use record::{CancelRecord, ExchangeRecord, NumberUse, ReferenceMatch, ReplayCount};
pub(super) use replays::Replays;
pub(super) use writer::Writers;

impl Store {
    /// Carries out a request, a change exactly once for each `biz_no` of an app. The work belongs to a writer, so
    /// it goes on when the caller stops waiting. The caller waits until `deadline`.
    ///
    /// Only a verified request is accepted:
    ///
    /// ```no_run
    /// # use domain::caller::Signed;
    /// # use domain::wallet::WalletRequest;
    /// # async fn pay(store: store::Store, request: Signed<WalletRequest>) {
    /// let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(2);
    /// let _ = store.submit(request, deadline).await;
    /// # }
    /// ```
    ///
    /// A request that was parsed and not verified does not compile:
    ///
    /// ```compile_fail,E0308
    /// # use domain::caller::Signed;
    /// # use domain::wallet::WalletRequest;
    /// # async fn pay(store: store::Store, request: WalletRequest) {
    /// let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(2);
    /// let _ = store.submit(request, deadline).await;
    /// # }
    /// ```
    ///
    /// # Errors
    /// The queue is full, the deadline has passed, or the database does not answer. In the last two cases
    /// the change may have been made. A repeat with the same `biz_no` gets the result.
    pub async fn submit(&self, request: Signed<WalletRequest>, deadline: Instant) -> Result<WalletOutcome> {
        let answer = self.writers.enqueue(request, deadline)?;
        match tokio::time::timeout_at(deadline, answer).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(StoreError::Internal("a writer ended without an answer".to_owned())),
            Err(_) => Err(StoreError::past_deadline()),
        }
    }

    /// For benchmarks: a store that answers every request at once with empty purses and writes
    /// nothing. It shows the cost of everything around the store.
    #[must_use]
    pub fn answering_at_once(mut self) -> Self {
        self.writers = Writers::answering_at_once(self.settings.exchange_queue_max);
        self
    }
}
