//! Operations on top-ups (contract 19): prices, and payments that fitted nothing.

use super::Subject;
use crate::ids::{BizNo, OpenId, Reason};
use crate::text;
use crate::topup::{CallbackFormat, CallbackSecret, Price, PricedProductId};

/// A new list of prices of an app. It replaces the one before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetPrices {
    /// All products, each once.
    pub prices: Vec<Price>,
}

/// The treatment of a payment that fitted nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettlePayment {
    /// What becomes of it.
    pub settlement: Settlement,
    /// Why.
    pub reason: Reason,
}

/// The treatment of a payment that fitted nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settlement {
    /// It pays this order.
    CreditOrder(BizNo),
    /// It pays this product for this player.
    CreditPlayer(OpenId, PricedProductId),
    /// The money went back. Nothing is credited.
    PaidBack,
}

refusals! {
    /// The app has no such payment.
    unknown_payment(app_id, payment): Unknown(Subject::Payment) of app_id,
        text!("there is no payment {payment} of an app {app_id}", payment, app_id);
    /// The payment was told of with another value of this field.
    payment_differs(payment, field): Conflict,
        text!("the payment {payment} was told of with another {field}", payment, field);
    /// Only a payment that fitted nothing is settled, and once.
    payment_not_open(payment, state): Conflict,
        text!("the payment {payment} is {state}, and only an unmatched one can be settled", payment, state);
    /// There is no such order of a top-up.
    unknown_topup_order(app_id, biz_no): Unknown(Subject::TopupOrder) of app_id,
        text!("the app {app_id} has no order {biz_no} of a top-up", biz_no, app_id);
    /// Another payment has paid the order.
    order_is_paid(biz_no): Conflict, text!("the order {biz_no} is paid", biz_no);
    /// The list of prices has no such product.
    unknown_product(app_id, product_id): Invalid("product_id"),
        text!("the prices of the app {app_id} have no product {product_id}", product_id, app_id);
    /// A list names each product once.
    product_twice(product_id): Invalid("prices"),
        text!("expected each product once, got {product_id} twice", product_id);
    /// Nothing was credited for the payment.
    payment_not_credited(payment, state): Conflict,
        text!("the payment {payment} is {state}, so it has brought no coins", payment, state);
    /// The refund was told of with another amount.
    refund_differs(refund): Conflict, text!("the refund {refund} was told of with another amount", refund);
    /// All refunds of a payment together never exceed it.
    refund_exceeds(payment, left): Conflict,
        text!("the refunds of the payment {payment} would exceed it; {left} can still be refunded", payment, left);
    /// The player has spent what a refund takes back: charged and gifted coins that are owed, and what the purses hold.
    coins_are_spent(charge, free, charge_held, free_held): Conflict,
        text!("the refund takes back {charge} charged and {free} gifted coins, and the purses hold {charge_held} \
               and {free_held}; with the shortfall record the rest becomes debt",
            charge, free, charge_held, free_held);
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

refusals! {
    /// The app takes no callbacks of this provider.
    unknown_provider(app_id, provider): Unknown(Subject::PaymentProvider) of app_id,
        text!("there is no payment provider {provider} of an app {app_id}", provider, app_id);
    /// An app takes callbacks of some providers at most.
    too_many_providers(): Limit,
        text!("expected at most {max} payment providers of an app", max = PROVIDERS_MAX);
}
