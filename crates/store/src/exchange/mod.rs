//! The one door for money going out: [`Store::submit`] (contract 3, "Meaning").
//!
//! Behind it stand the process's writers ([`writer`]). Each has a session of its own ([`session`])
//! and writes whatever exchanges wait in one transaction; what becomes of each of them is decided
//! by a pure function ([`batch`]). Exchanges of one wallet always go to the same writer.

mod batch;
mod columns;
mod database;
mod driver;
mod fault;
mod known;
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

use super::{Store, StoreError};

pub(super) use driver::Opening;
pub use record::{ExchangeRecord, NumberMatch, ReplayCount};
pub(super) use replays::Replays;
pub(super) use writer::Writers;

impl Store {
    /// Carries out an exchange, exactly once for each order number of an app. The work belongs to
    /// a writer's task: a caller that goes away changes nothing. Its answer is waited for until `deadline`.
    ///
    /// # Errors
    /// Too many wait, the deadline has passed or the database is away. Then it is not known
    /// whether the exchange was made; asking again with the same number tells.
    pub async fn submit(
        &self,
        exchange: Signed<Exchange>,
        deadline: Instant,
    ) -> Result<ExchangeOutcome, StoreError> {
        let answer = self.writers.enqueue(exchange, deadline)?;
        match tokio::time::timeout_at(deadline, answer).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(StoreError::Internal("a writer ended without an answer".to_owned())),
            Err(_) => Err(StoreError::past_deadline()),
        }
    }

    /// For benchmarks: the same store, but every exchange is answered at once with empty purses,
    /// and nothing is written. What is left is the cost of everything around the store.
    #[must_use]
    pub fn answering_at_once(mut self) -> Self {
        self.writers = Writers::answering_at_once(self.settings.exchange_queue_max);
        self
    }
}
