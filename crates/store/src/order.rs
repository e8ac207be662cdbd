//! Orders, their payments and their events (contract 4).
//!
//! A report takes two statements and no transaction: one reads all it depends on, then the rules
//! decide, and one writes order, event and payment together or not at all. The write takes effect
//! only on the order that was read (`event_count`) and on payment numbers that nobody else has
//! claimed meanwhile (the primary keys); what a report names is never removed again. So when it
//! takes effect, the decision still holds. If it does not, the report runs again with the order locked.

mod history;
mod search;
mod statements;

use domain::app::App;
use domain::caller::Caller;
use domain::order::{Order, OrderReport, ReportConflict};
use sqlx::PgConnection;

use self::statements::{find, insert_order, lock_order, update_order};
use super::{Store, StoreError};

pub use history::{OrderChange, OrderEvent, OrderPayment};
pub use search::{OrderCursor, OrderFilter, OrderPage, StoredOrder};

/// What became of a report. Only `Done` has written anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReportOutcome {
    /// The order stands as reported.
    Done,
    /// The app has no wallet for this open id.
    UnknownOpenId,
    /// The path is not a page of the app's latest published package.
    UnknownPage,
    /// The app has no such image.
    UnknownImage,
    /// The operator has blocked it.
    BlockedImage,
    /// The point of interest is not registered for the app.
    UnknownPoi,
    /// The app asks for pre-orders, and this payment number is none.
    UnknownPreorder,
    /// The payment number belongs to another order of the app.
    PaymentOfAnotherOrder,
    /// The report does not fit the order that is there.
    Conflict(ReportConflict),
}

/// All that a report depends on, as of one moment.
#[expect(clippy::struct_excessive_bools, reason = "answers to independent questions")]
struct ReportContext {
    open_id: bool,
    image: bool,
    /// It is there, and blocked.
    blocked_image: bool,
    poi: bool,
    preorder: bool,
    /// The order that the payment number belongs to.
    payment_of: Option<String>,
    /// The order as it stands, with its number of events.
    order: Option<(Order, i64)>,
}

/// What is to be written.
struct OrderUpdate {
    order: Order,
    /// Events before this one; 0 for an order that is new.
    event_count: i64,
    /// Whether the payment number is new.
    claims_payment: bool,
}

impl Store {
    /// Makes or updates the order that a report is about, and keeps the event when it changes
    /// something. An app with `preorder_check` needs a registered payment pre-order. The work runs in
    /// a task of its own: a caller that goes away changes nothing.
    pub async fn report(&self, caller: Caller, report: OrderReport) -> Result<ReportOutcome, StoreError> {
        let store = self.clone();
        let task = tokio::spawn(async move {
            let first = store.try_report(caller.app(), &report).await;
            match first {
                Err(StoreError::Again) => store.report_with_lock(caller, report).await,
                Ok(_) | Err(_) => first,
            }
        });
        task.await
            .unwrap_or_else(|fault| Err(StoreError::Internal(format!("a report's task ended: {fault}"))))
    }

    async fn try_report(&self, app: &App, report: &OrderReport) -> Result<ReportOutcome, StoreError> {
        let mut connection = self.pool.acquire().await?;
        read_and_write(&mut connection, app, report).await
    }

    /// After a lost race. Reports of one order now wait for each other instead of racing on, where
    /// each round has one winner and a busy order would use up any number of attempts.
    async fn report_with_lock(
        &self,
        caller: Caller,
        report: OrderReport,
    ) -> Result<ReportOutcome, StoreError> {
        self.transaction((caller, report), move |connection, (caller, report)| {
            Box::pin(async move {
                lock_order(connection, &caller.app().id, report).await?;
                // Read in a later statement than the lock: only that sees what was committed during the wait.
                read_and_write(connection, caller.app(), report).await
            })
        })
        .await
    }
}

/// One attempt: a statement that reads, and one that writes if there is something to write.
async fn read_and_write(
    connection: &mut PgConnection,
    app: &App,
    report: &OrderReport,
) -> Result<ReportOutcome, StoreError> {
    let app_id = &app.id;
    let found = find(connection, app_id, report).await?;
    let change = match decide(found, report, app) {
        Ok(Some(change)) => change,
        Ok(None) => return Ok(ReportOutcome::Done),
        Err(refused) => return Ok(refused),
    };
    let written = if change.event_count == 0 {
        insert_order(connection, app_id, report, &change).await
    } else {
        update_order(connection, app_id, report, &change).await
    };
    if written? { Ok(ReportOutcome::Done) } else { Err(StoreError::Again) }
}

/// The change that a report makes of what was found; `None` when the order stays as it is.
fn decide(
    found: ReportContext,
    report: &OrderReport,
    app: &App,
) -> Result<Option<OrderUpdate>, ReportOutcome> {
    if !found.open_id {
        return Err(ReportOutcome::UnknownOpenId);
    }
    if !app.publishes(&report.order_path) {
        return Err(ReportOutcome::UnknownPage);
    }
    if !found.image {
        return Err(ReportOutcome::UnknownImage);
    }
    if found.blocked_image {
        return Err(ReportOutcome::BlockedImage);
    }
    if report.poi_id.is_some() && !found.poi {
        return Err(ReportOutcome::UnknownPoi);
    }
    if app.preorder_check && !found.preorder {
        return Err(ReportOutcome::UnknownPreorder);
    }
    let before = found.order.as_ref().map(|(order, _)| order);
    let order = Order::after(before, report).map_err(ReportOutcome::Conflict)?;
    if found.payment_of.as_deref().is_some_and(|owner| owner != report.out_biz_order_no.as_str()) {
        return Err(ReportOutcome::PaymentOfAnotherOrder);
    }
    if before == Some(&order) {
        // The same payment number as in its last event, which claimed it: nothing is left to claim.
        return Ok(None);
    }
    let event_count = found.order.map_or(0, |(_, event_count)| event_count);
    Ok(Some(OrderUpdate { order, event_count, claims_payment: found.payment_of.is_none() }))
}
