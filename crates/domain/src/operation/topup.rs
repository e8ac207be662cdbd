//! Operations on top-ups (contract 19): prices, and payments that fitted nothing.

use std::fmt::Display;

use super::{OperationRefusal, RefusalKind, Subject};
use crate::ids::{BizNo, OpenId, Reason};
use crate::text;
use crate::topup::{CallbackFormat, CallbackSecret, Price, PricedProductId};

/// A new list of prices of an app. It replaces the one before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetPrices {
    /// All products, each once.
    pub prices: Vec<Price>,
}

/// What becomes of a payment that fitted nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettlePayment {
    /// What becomes of it.
    pub settlement: Settlement,
    /// Why.
    pub reason: Reason,
}

/// What becomes of a payment that fitted nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settlement {
    /// It pays this order.
    CreditOrder(BizNo),
    /// It pays this product for this player.
    CreditPlayer(OpenId, PricedProductId),
    /// The money went back. Nothing is credited.
    PaidBack,
}

/// The app has no such payment.
#[must_use]
pub fn unknown_payment(app_id: impl Display, payment: impl Display) -> OperationRefusal {
    let text = text!("there is no payment {payment} of an app {app_id}", payment, app_id);
    OperationRefusal::new(RefusalKind::Unknown(Subject::Payment), text).of_app(app_id)
}

/// The payment was told of with another value of this field.
#[must_use]
pub fn payment_differs(payment: impl Display, field: impl Display) -> OperationRefusal {
    let text = text!("the payment {payment} was told of with another {field}", payment, field);
    OperationRefusal::new(RefusalKind::Conflict, text)
}

/// Only a payment that fitted nothing is settled, and once.
#[must_use]
pub fn payment_not_open(payment: impl Display, state: impl Display) -> OperationRefusal {
    let text =
        text!("the payment {payment} is {state}, and only an unmatched one can be settled", payment, state);
    OperationRefusal::new(RefusalKind::Conflict, text)
}

/// There is no such order of a top-up.
#[must_use]
pub fn unknown_topup_order(app_id: impl Display, biz_no: impl Display) -> OperationRefusal {
    let text = text!("there is no order {biz_no} of a top-up of an app {app_id}", biz_no, app_id);
    OperationRefusal::new(RefusalKind::Unknown(Subject::TopupOrder), text).of_app(app_id)
}

/// Another payment has paid the order.
#[must_use]
pub fn order_is_paid(biz_no: impl Display) -> OperationRefusal {
    OperationRefusal::new(RefusalKind::Conflict, text!("the order {biz_no} is paid", biz_no))
}

/// The list of prices has no such product.
#[must_use]
pub fn unknown_product(app_id: impl Display, product_id: impl Display) -> OperationRefusal {
    let text = text!("the prices of the app {app_id} have no product {product_id}", product_id, app_id);
    OperationRefusal::new(RefusalKind::Invalid("product_id"), text)
}

/// A list names each product once.
#[must_use]
pub fn product_twice(product_id: impl Display) -> OperationRefusal {
    let text = text!("expected each product once, got {product_id} twice", product_id);
    OperationRefusal::new(RefusalKind::Invalid("prices"), text)
}

/// Nothing was credited for the payment.
#[must_use]
pub fn payment_not_credited(payment: impl Display, state: impl Display) -> OperationRefusal {
    let text = text!("the payment {payment} is {state}, so it has brought no coins", payment, state);
    OperationRefusal::new(RefusalKind::Conflict, text)
}

/// The refund was told of with another amount.
#[must_use]
pub fn refund_differs(refund: impl Display) -> OperationRefusal {
    let text = text!("the refund {refund} was told of with another amount", refund);
    OperationRefusal::new(RefusalKind::Conflict, text)
}

/// All refunds of a payment together never exceed it.
#[must_use]
pub fn refund_exceeds(payment: impl Display, left: impl Display) -> OperationRefusal {
    let text = text!(
        "the refunds of the payment {payment} would exceed it; {left} can still be refunded",
        payment,
        left
    );
    OperationRefusal::new(RefusalKind::Conflict, text)
}

/// The player has spent what a refund takes back: charged and gifted coins that are owed, and what the purses hold.
#[must_use]
pub fn coins_are_spent(
    charge: impl Display,
    free: impl Display,
    charge_held: impl Display,
    free_held: impl Display,
) -> OperationRefusal {
    let text = text!(
        "the refund takes back {charge} charged and {free} gifted coins, and the purses hold {charge_held} and {free_held}; \
         with the shortfall record the rest becomes debt",
        charge,
        free,
        charge_held,
        free_held
    );
    OperationRefusal::new(RefusalKind::Conflict, text)
}

/// The most payment providers whose callbacks an app takes.
pub const PROVIDERS_MAX: usize = 20;

/// What becomes of a payment provider whose callbacks an app takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProviderCommand {
    /// Its callbacks look like this and are signed with this secret from now on.
    Set(CallbackFormat, CallbackSecret),
    /// Its callbacks are refused from now on.
    Remove,
}

/// The app takes no callbacks of this provider.
#[must_use]
pub fn unknown_provider(app_id: impl Display, provider: impl Display) -> OperationRefusal {
    let text = text!("there is no payment provider {provider} of an app {app_id}", provider, app_id);
    OperationRefusal::new(RefusalKind::Unknown(Subject::PaymentProvider), text).of_app(app_id)
}

/// An app takes callbacks of some providers at most.
#[must_use]
pub fn too_many_providers() -> OperationRefusal {
    let text = text!("expected at most {max} payment providers of an app", max = PROVIDERS_MAX);
    OperationRefusal::new(RefusalKind::Limit, text)
}
