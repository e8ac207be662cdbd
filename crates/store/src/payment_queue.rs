//! The queue of payments of top-ups (contract 19.3), and what they are answered. The module of top-ups writes them.

use std::sync::{Arc, Mutex, PoisonError};

use domain::ids::{AppId, OpenId};
use domain::operation::OperationRefusal;
use domain::operator::Operator;
use domain::topup::{Payment, PaymentState, PaymentTarget, UnmatchedReason};
use serde::Serialize;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;

use crate::error::Result;
use crate::writer::{Queued, Writers};

/// What became of a payment. A repeat is told the same, whatever happened since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "Topup")]
pub struct PaymentReport {
    /// `paid`: it was credited. `unmatched`: it was kept, and nothing was credited.
    #[schemars(extend("enum" = [PaymentState::Paid, PaymentState::Unmatched]))]
    pub state: PaymentState,
    /// Why it fits nothing. `null` for one that was credited.
    #[schemars(with = "Option<UnmatchedReason>")]
    pub reason: Option<String>,
    /// The order that it has paid, or that it names.
    #[schemars(with = "Option<domain::ids::BizNo>")]
    pub biz_no: Option<String>,
    /// The player who was credited, or whom it names.
    #[schemars(with = "Option<OpenId>")]
    pub open_id: Option<String>,
    /// Charged coins that were credited.
    pub charge: Option<i64>,
    /// Gifted coins that were credited.
    pub bonus: Option<i64>,
    /// Gifted currency right after it.
    pub free_balance: Option<i64>,
    /// Charged currency right after it.
    pub charge_balance: Option<i64>,
    /// Whether it was told of before.
    pub replayed: bool,
}

/// A payment that somebody reports.
#[derive(Debug, Clone)]
pub(crate) struct ToldPayment {
    pub(crate) reporter: Operator,
    pub(crate) app_id: AppId,
    pub(crate) payment: Payment,
}

/// The outcome of a payment that was reported.
pub(crate) type PaymentOutcome = Result<PaymentReport, OperationRefusal>;

/// What a writer takes its payments from.
type Incoming = UnboundedReceiver<Queued<ToldPayment, PaymentOutcome>>;

/// The queue. All clones share it. Its writers start with the first payment.
#[derive(Debug, Clone)]
pub(crate) struct PaymentQueue {
    payments: Writers<ToldPayment, PaymentOutcome>,
    /// Empty once the writers have them.
    incoming: Arc<Mutex<Vec<Incoming>>>,
}

impl PaymentQueue {
    /// `writers` write its payments, and at most `max` wait in it.
    pub(crate) fn new((writers, max): (usize, usize)) -> Self {
        let (payments, queues) = Writers::with_queues(writers.max(1), max);
        Self { payments, incoming: Arc::new(Mutex::new(queues)) }
    }

    /// Starts the writers, unless they were started.
    ///
    /// # Errors
    /// A writer did not start.
    pub(crate) fn start_once(&self, start: impl FnMut(Incoming) -> Result<()>) -> Result<()> {
        let incoming = std::mem::take(&mut *self.incoming.lock().unwrap_or_else(PoisonError::into_inner));
        incoming.into_iter().try_for_each(start)
    }

    /// Puts a payment into the queue, and waits until `deadline`. The work belongs to the writer, so it goes on when the caller
    /// stops waiting.
    ///
    /// # Errors
    /// Too many wait, of all apps or of this one; the deadline has passed; or the database does not answer.
    pub(crate) async fn submit(&self, told: ToldPayment, deadline: Instant) -> Result<PaymentOutcome> {
        let (app_id, target) = (told.app_id.clone(), target_of(&told));
        self.payments.submit(&app_id, target, told, deadline).await
    }
}

/// The purpose of a payment. Payments for one order or one player go to the same writer, so that its batches do not
/// wait for each other.
fn target_of(told: &ToldPayment) -> (AppId, String) {
    let target = match &told.payment.target {
        PaymentTarget::Order { biz_no, .. } => biz_no.to_string(),
        PaymentTarget::Product { open_id, .. } => open_id.to_string(),
    };
    (told.app_id.clone(), target)
}
