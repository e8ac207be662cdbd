//! Orders, their payments and their events (contract 4).
//!
//! A report takes two statements and no transaction. The first reads all rows that the report
//! depends on. Then the rules decide. The second writes order, event and payment, all or nothing.
//! It takes effect only if the order has not changed (`event_count`) and no other order has claimed
//! the payment number (the primary keys). Rows that a report names are never removed, but for images that no
//! report has named; the first report of an image marks it, and the mark keeps it. So the decision
//! still holds. If the write takes no effect, the report runs again with the order locked.

mod history;
mod search;
mod statements;

use domain::app::App;
use domain::caller::Caller;
use domain::order::{Order, OrderReport, ReportConflict};
use sqlx::PgConnection;

use self::statements::{find, lock_order};
use crate::{Result, Store, StoreError};

pub use history::{OrderChange, OrderEvent, OrderPayment};
pub use search::{OrderCursor, OrderFilter, StoredOrder};

/// The result of a report. Only `Done` has written anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReportOutcome {
    /// The order is as reported.
    Done,
    /// The app has no wallet for this open id.
    UnknownOpenId,
    /// The path is not a page of the app's latest published package.
    UnknownPage,
    /// The app has no such image.
    UnknownImage,
    /// The operator has blocked the image.
    BlockedImage,
    /// The point of interest is not registered for the app.
    UnknownPoi,
    /// The app requires pre-orders, and this payment number is not registered.
    UnknownPreorder,
    /// The payment number belongs to another order of the app.
    PaymentOfAnotherOrder,
    /// The report contradicts the present order.
    Conflict(ReportConflict),
}

/// The rows that a report depends on, from one snapshot.
#[expect(clippy::struct_excessive_bools, reason = "answers to independent questions")]
struct ReportContext {
    open_id: bool,
    image: bool,
    /// The image exists and is blocked.
    blocked_image: bool,
    /// An earlier report has named the image.
    reported_image: bool,
    poi: bool,
    preorder: bool,
    /// The order that the payment number belongs to.
    payment_of: Option<String>,
    /// The present order.
    order: Option<StoredOrder>,
    /// The creation time that the last event reported.
    reported_create_time: Option<i64>,
}

/// The rows that a report writes.
struct OrderUpdate {
    /// The order after the report, but with the creation time that the report states.
    order: Order,
    /// Number of events before this one. 0 for a new order.
    event_count: i64,
    /// True when the payment number is new.
    claims_payment: bool,
}

impl Store {
    /// Makes or updates the order of a report, and records the event when it changes something
    /// (contract 4.4). The work runs in a task of its own, so it goes on when the caller stops
    /// waiting.
    pub async fn report(&self, caller: Caller, report: OrderReport) -> Result<ReportOutcome> {
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

    async fn try_report(&self, app: &App, report: &OrderReport) -> Result<ReportOutcome> {
        let mut connection = self.pool.acquire().await?;
        read_and_write(&mut connection, app, report).await
    }

    /// Runs a report with the order locked, after a lost race. Reports of one order then wait for
    /// each other. Without the lock each round has one winner, and a busy order would need too many
    /// attempts.
    async fn report_with_lock(&self, caller: Caller, report: OrderReport) -> Result<ReportOutcome> {
        self.transaction((caller, report), move |connection, (caller, report)| {
            Box::pin(async move {
                lock_order(connection, &caller.app().id, report).await?;
                // It reads in a later statement than the lock. Only that sees commits during the
                // wait.
                read_and_write(connection, caller.app(), report).await
            })
        })
        .await
    }
}

/// Tries a report: one statement reads, and one writes if there is a change.
async fn read_and_write(
    connection: &mut PgConnection,
    app: &App,
    report: &OrderReport,
) -> Result<ReportOutcome> {
    let app_id = &app.id;
    let found = find(connection, app_id, report).await?;
    let is_marked = found.reported_image;
    let change = match decide(found, report, app) {
        Ok(Some(change)) => change,
        Ok(None) => return Ok(ReportOutcome::Done),
        Err(refused) => return Ok(refused),
    };
    if !is_marked && !statements::mark_image(connection, app_id, report).await? {
        return Err(StoreError::Again);
    }
    let written = statements::write(connection, app_id, report, &change).await?;
    if written { Ok(ReportOutcome::Done) } else { Err(StoreError::Again) }
}

/// The change that a report makes. `None` when the order stays the same.
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
    if app.settings.preorder_check && !found.preorder {
        return Err(ReportOutcome::UnknownPreorder);
    }
    let before = found.order.as_ref().map(|stored| &stored.order);
    let order = Order::after(before, report).map_err(ReportOutcome::Conflict)?;
    if found.payment_of.as_deref().is_some_and(|owner| owner != report.out_biz_order_no.as_str()) {
        return Err(ReportOutcome::PaymentOfAnotherOrder);
    }
    let create_time = report.order_create_time.unix_millis();
    if before == Some(&order) && found.reported_create_time == Some(create_time) {
        // The last event has claimed the same payment number already.
        return Ok(None);
    }
    // The event keeps the time of its report. The order keeps that of its first one.
    let order = Order { order_create_time: create_time, ..order };
    let event_count = found.order.map_or(0, |stored| stored.event_count);
    Ok(Some(OrderUpdate { order, event_count, claims_payment: found.payment_of.is_none() }))
}
