//! Orders, their payments and their events (contract 4): reports of games, and reading for people.

mod history;
mod search;

use domain::caller::Caller;
use domain::order::OrderReport;
use tokio::time::Instant;

use crate::error::Result;
use crate::order_writer::ReportOutcome;
use crate::store::Store;

pub use history::{OrderChange, OrderEvent, OrderPayment};
pub use search::{OrderCursor, OrderFilter, StoredOrder};

impl Store {
    /// Makes or updates the order of a report, and records the event when it changes something (contract 4.4). The work
    /// belongs to the writer, so it goes on when the caller stops waiting. The caller waits until `deadline`.
    ///
    /// # Errors
    /// The queue is full, the deadline has passed, or the database does not answer. In the last two cases the report may
    /// have been written. A repeat changes nothing then.
    pub async fn report(
        &self,
        caller: Caller,
        report: OrderReport,
        deadline: Instant,
    ) -> Result<ReportOutcome> {
        let app_id = caller.app().id.clone();
        let key = report.out_biz_order_no.clone();
        let outcome = self.reports.submit(&app_id, (&app_id, key), (caller, report), deadline).await?;
        if outcome == ReportOutcome::Done {
            self.events.notify_one();
        }
        Ok(outcome)
    }
}
