//! Reports of orders, as a writer carries them out (contract 4.4 and 4.5).
//!
//! A writer of its own ([`crate::writer`]) carries out all reports that wait in two statements. The first reads all
//! rows that the reports depend on. Then the rules decide the reports in the order of their arrival ([`batch`]). The
//! second statement writes orders, events and payments, all or nothing. It takes effect only if no order has changed
//! (`event_count`) and no other order has claimed a payment number (the primary keys). Rows that a report names are
//! never removed, but for images that no report has named. The first report of an image marks it, and the mark keeps
//! it. So the decisions still hold. If the write takes no effect, the batch runs again with the orders locked.

mod batch;
mod statements;
mod work;

#[cfg(test)]
mod tests;

use domain::order::ReportConflict;

use self::batch::ReportRequest;
use self::work::ReportWork;
use crate::error::Result;
use crate::writer::{self, Opening, Writer, keep_writing};

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

/// The writer of orders.
pub(super) type Reports = writer::Writers<ReportRequest, ReportOutcome>;

/// Starts the writer of orders.
pub(super) fn start(queue_max: usize, opening: &Opening) -> Result<Reports> {
    Reports::start(1, queue_max, |queue| keep_writing(Writer::new(queue, ReportWork::new(opening.clone()))))
}
