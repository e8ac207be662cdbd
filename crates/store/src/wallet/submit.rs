//! The door of the public calls of a wallet: only a verified request comes in.

use domain::caller::Signed;
use domain::wallet::{Balances, Receipt, WalletOutcome, WalletRequest};
use tokio::time::Instant;

use crate::error::Result;
use crate::store::Store;
use crate::wallet_writer::WalletWriters;

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
        let outcome = self.writers.submit(request, (&self.pool, self.clock.monotonic()), deadline).await?;
        if matches!(outcome, WalletOutcome::Done(_)) {
            self.events.notify_one();
        }
        Ok(outcome)
    }

    /// For benchmarks: a store that answers every request at once with empty purses and writes
    /// nothing. It shows the cost of everything around the store.
    #[must_use]
    pub fn answering_at_once(mut self) -> Self {
        self.writers.replace(WalletWriters::answering_at_once(self.settings.exchange_queue_max, |request| {
            let reference = request.value().reference.clone();
            WalletOutcome::Done(Receipt {
                reference,
                balances: Balances::default(),
                given_back: None,
                ordered: None,
            })
        }));
        self
    }
}
