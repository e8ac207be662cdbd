//! The one door for money going out: [`Store::submit`] (contract 3, "Meaning").
//!
//! Behind it stand the process's writers ([`writer`]). Each has a session of its own ([`session`])
//! and writes whatever exchanges wait in one transaction; what becomes of each of them is decided
//! by a pure function ([`batch`]). Exchanges of one wallet always go to the same writer.

mod batch;
mod columns;
mod database;
mod postgres;
mod record;
mod replays;
mod session;
mod statements;
mod tls;
mod writer;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use serde::Serialize;
use tokio::time::Instant;

use super::{Store, StoreError};
use crate::auth::Authenticated;
use crate::domain::exchange::Exchange;

pub(super) use postgres::Opening;
pub use record::{ExchangeRecord, NumberMatch, ReplayCount};
pub(super) use replays::Replays;
pub(super) use writer::Writers;

/// `data` of a successful exchange (spec 2.3): the balances right after it, for ever the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Receipt {
    /// The order number.
    #[serde(rename = "bizNo")]
    pub biz_no: String,
    /// Gifted currency.
    #[serde(rename = "freeBalance")]
    pub free_balance: i64,
    /// Charged currency.
    #[serde(rename = "chargeBalance")]
    pub charge_balance: i64,
}

/// What became of an exchange. Only `Done` has written anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExchangeOutcome {
    /// Deducted now, and committed.
    Done(Receipt),
    /// Deducted before by the same number with the same content.
    Replayed(Receipt),
    /// The number was used with other content.
    BizNoConflict,
    /// The number was used more than 48 hours ago.
    BizNoExpired,
    /// `ts` was outside the window, and the number is new.
    TsOutsideWindow,
    /// The app has no wallet for this open id.
    UnknownWallet,
    /// Both purses together do not cover the amount.
    InsufficientBalance,
}

impl Store {
    /// Carries out an exchange, exactly once for each order number of an app. The work belongs to
    /// a writer's task: a caller that goes away changes nothing. Its answer is waited for until `deadline`.
    ///
    /// # Errors
    /// Too many wait, the deadline has passed or the database is away. Then it is not known
    /// whether the exchange was made; asking again with the same number tells.
    pub async fn submit(
        &self,
        exchange: Authenticated<Exchange>,
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
