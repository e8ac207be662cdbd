//! Payments for top-ups (contract 19.3): what a provider tells, and what operators do about what fits nothing.

use domain::fields::FieldError;
use domain::ids::{BizNo, OpenId, Reason};
use domain::operation::topup::{SettlePayment, Settlement};
use domain::topup::{
    Excess, NewRefund, PaymentFields, PaymentKey, PaymentProvider, PricedProductId, ProviderOrderId,
    RefundAmount, RefundId, RefundKey, Shortfall, read_refund,
};
use serde_json::{Value, json};
use store::{
    ConsumptionReport, PaymentReport, RefundReport, SettledPayment, TopupCursor, TopupFilter, TopupRow,
};

use super::call::Call;
use super::describe::{ListBody, MOMENT, after, answers, in_order, lists, moment as moment_of};
use super::exchanges::BIZ_NO;
use super::messages::{example, no_app, no_payment};
use super::problem::Problem;
use super::routes::routes;
use crate::openapi::{APP_ID, Input, OPEN_ID};
use crate::state::AppState;

/// The provider of the examples.
pub(super) const PROVIDER: &str = "stripe";
/// The payment of the examples.
pub(super) const PROVIDER_ORDER_ID: &str = domain::examples::PROVIDER_ORDER_ID;
/// Both as one text.
pub(super) const PAYMENT: &str = "stripe/pi_3OrtQ2";
/// The refund of the examples, with its payment.
pub(super) const REFUND: &str = "stripe/pi_3OrtQ2/re_3OrtQ2";

routes! { "Top-ups":
    /// List payments
    ///
    /// The payments of an app, newest first. With `unmatched` those alone that fit nothing and wait for an operator.
    GET "/apps/{app_id}/topups", "listTopups", Read(Read): list -> ListBody<TopupRow> =>
        lists("A page of payments.", &row_example()).query(topups_and_place)
            .wrong("open_id", "expected 1 to 64 of 0-9A-Za-z_-, got \"o.1\"");
    /// Tell of a payment
    ///
    /// Credits a payment once: `provider` and `provider_order_id` are its key, for ever, so this call needs no idempotency
    /// key. After a time-out send the same request again. With `biz_no` it pays that order; `open_id` and `product_id` may
    /// come too and must be those of the order. Without it, `open_id` and `product_id` name a player and a product of the
    /// prices.
    ///
    /// Nothing is credited where currency, amount, product or player differ, or the order is unknown or paid. Then the payment
    /// is kept as `unmatched` with the reason, and answered 202. An operator settles it.
    ///
    /// A repeat is answered as the first time, with `replayed`. `paid_at`, `os`, `fee` and `note` may differ then; any other
    /// content is 409.
    POST "/apps/{app_id}/topups", "takePayment", Replace(Payments): take -> PaymentReport =>
        answers("paid", "It was credited.", json!({
            "state": "paid", "reason": null, "biz_no": BIZ_NO, "open_id": OPEN_ID, "charge": 60, "bonus": 6,
            "free_balance": 46, "charge_balance": 160, "replayed": false,
        }))
        .accepts("unmatched", "It fits nothing, as here an order that is paid. It was kept for an operator.", json!({
            "state": "unmatched", "reason": "order_paid", "biz_no": BIZ_NO, "open_id": null, "charge": null, "bonus": null,
            "free_balance": null, "charge_balance": null, "replayed": false,
        }))
        .read(payment_fields)
        .wrong("amount", "expected an integer from 1 to 1000000000000, got 0")
        .refuses([example::payment_differs()]);
    /// Show a payment
    ///
    /// A payment as its provider told of it, what was credited, and its refunds.
    GET "/apps/{app_id}/topups/{provider}/{provider_order_id}", "getTopup", Read(Read): get -> TopupRow =>
        answers("shown", "The payment.", row_example());
    /// Show what was used of a top-up
    ///
    /// For a store that asks before it refunds. Charged coins are used in the order in which they came, and what a cancel gives
    /// back comes off the end. So `used` may fall again. It is derived from the ledger for each call.
    GET "/apps/{app_id}/topups/{provider}/{provider_order_id}/consumption", "getConsumption", Read(Read): consumption -> ConsumptionReport =>
        answers("shown", "What was used.", json!({
            "charge": 60, "used": 0, "unused": 60, "used_milli": 0, "debited": 0, "exchanges": [],
        }))
        .refuses([example::payment_not_credited()]);
    /// Refund a payment
    ///
    /// Once for its `refund_id`, for ever, so this call needs no idempotency key. After refunds of r of a payment of a, the
    /// player owes back `floor(coins * r / a)` charged and gifted coins in all. What the purses hold of it is taken. What they
    /// do not hold: with the `shortfall` `refuse` nothing is refunded, and the answer is 409; with `record` it becomes debt,
    /// which the next top-up settles.
    ///
    /// A refund that comes before its payment, or while that is unmatched, is answered 202 and `waiting`. It is carried out
    /// together with the credit, as with `record`. A repeat is told what became of it, with `replayed`; another `amount` is 409.
    POST "/apps/{app_id}/topups/{provider}/{provider_order_id}/refunds", "refundTopup", Replace(Money): refund -> RefundReport =>
        answers("refunded", "It was carried out.", json!({
            "state": "refunded", "amount": 300, "open_id": OPEN_ID, "free_taken": 3, "charge_taken": 30, "free_debt": 0,
            "charge_debt": 0, "free_balance": 43, "charge_balance": 130, "replayed": false,
        }))
        .accepts("waiting", "It was kept, and waits for the credit of its payment.", json!({
            "state": "waiting", "amount": 300, "open_id": null, "free_taken": null, "charge_taken": null, "free_debt": null,
            "charge_debt": null, "free_balance": null, "charge_balance": null, "replayed": false,
        }))
        .read(refund_fields)
        .wrong("amount", "expected an integer from 1 to 1000000000000, got 0")
        .refuses([
            example::refund_differs(), example::refund_exceeds(), example::coins_are_spent(), example::needs_command_line(),
        ]);
    /// Settle an unmatched payment
    ///
    /// Once: `credit` it to an order (`biz_no`), or to a player and a product (`open_id`, `product_id`), whatever money came;
    /// or mark it as `paid_back`.
    POST "/apps/{app_id}/topups/{provider}/{provider_order_id}/settlement", "settleTopup", Once(Money): settle -> SettledPayment =>
        answers("settled", "It was credited.", json!({
            "state": "paid", "biz_no": BIZ_NO, "open_id": OPEN_ID, "charge": 60, "bonus": 6, "free_balance": 46,
            "charge_balance": 160,
        }))
        .read(settlement_fields)
        .wrong("action", "expected credit or paid_back, got \"refund\"")
        .refuses([
            example::payment_not_open(), example::order_is_paid(), example::balance_too_large(), example::needs_command_line(),
        ]);
}

fn payment_fields(body: &mut Input<'_>) -> Result<(PaymentProvider, PaymentFields), FieldError> {
    let words = "The payment provider, as you name it.";
    let provider = body.field("provider", words).required(PROVIDER, PaymentProvider::parse)?;
    Ok((provider, PaymentFields::read(body)?))
}

async fn take(state: &AppState, call: &Call) -> Result<PaymentReport, Problem> {
    let app_id = call.app_id()?;
    let (provider, fields) = call.read(payment_fields)?;
    let payment = fields.of(provider, state.now().unix_timestamp())?;
    Ok(state.store.take_payment(&call.operator(), &app_id, payment).await?)
}

fn key_of(call: &Call) -> Result<PaymentKey, Problem> {
    let provider = call.segment("provider", "provider", PaymentProvider::parse)?;
    let provider_order_id = call.segment("provider_order_id", "payment", ProviderOrderId::stored)?;
    Ok(PaymentKey { provider, provider_order_id })
}

async fn get(state: &AppState, call: &Call) -> Result<TopupRow, Problem> {
    call.fields.only(&[])?;
    let (app_id, key) = (call.app_id()?, key_of(call)?);
    let row = state.store.topup(&app_id, &key).await?;
    row.ok_or_else(|| no_payment(&app_id, key.as_text()))
}

async fn list(state: &AppState, call: &Call) -> Result<ListBody<TopupRow>, Problem> {
    let app_id = call.app_id()?;
    let (filter, after) = call.read(topups_and_place)?;
    let found = state.store.topups(&app_id, &filter, after.as_ref(), call.limit()?).await?;
    if found.items.is_empty() && state.store.find_app(&app_id).await?.is_none() {
        return Err(no_app(&app_id));
    }
    Ok(ListBody { items: found.items, next: found.next.map(|next| next.to_string()) })
}

fn topups_and_place(query: &mut Input<'_>) -> Result<(TopupFilter, Option<TopupCursor>), FieldError> {
    let filter = TopupFilter {
        unmatched: query
            .field("unmatched", "Those alone that wait for an operator.")
            .flag()?
            .unwrap_or_default(),
        open_id: query.field("open_id", "Of this player alone.").optional(OpenId::parse)?,
        since: moment_of(query.field("since", "Told of at or after this moment."))?,
        until: moment_of(query.field("until", "Told of before this moment."))?,
    };
    in_order(filter.since, filter.until)?;
    Ok((filter, after(query, TopupCursor::parse)?))
}

async fn consumption(state: &AppState, call: &Call) -> Result<ConsumptionReport, Problem> {
    call.fields.only(&[])?;
    Ok(state.store.consumption(&call.app_id()?, &key_of(call)?).await?)
}

/// The fields of a refund beside its payment.
struct RefundFields {
    refund_id: RefundId,
    amount: i64,
    reason: Reason,
    shortfall: Shortfall,
}

fn refund_fields(body: &mut Input<'_>) -> Result<RefundFields, FieldError> {
    let (refund_id, amount) = read_refund(body)?;
    let reason =
        body.field("reason", "Why, for the operator's log.").required("Bought by mistake", Reason::parse)?;
    let words = "What becomes of coins that are spent: `refuse` without it, or `record`.";
    let shortfall = body.field("shortfall", words).optional(Shortfall::parse)?.unwrap_or(Shortfall::Refuse);
    Ok(RefundFields { refund_id, amount, reason, shortfall })
}

async fn refund(state: &AppState, call: &Call) -> Result<RefundReport, Problem> {
    let (app_id, payment) = (call.app_id()?, key_of(call)?);
    let RefundFields { refund_id, amount, reason, shortfall } = call.read(refund_fields)?;
    let key = RefundKey { payment, refund_id };
    let excess = Excess::Refuse;
    let refund = NewRefund { key, amount: RefundAmount::Of(amount), reason, shortfall, excess };
    Ok(state.store.refund_payment(&call.operator(), &app_id, refund).await?)
}

/// The fields of a settlement, before they are a whole.
struct SettlementFields {
    credits: bool,
    reason: Reason,
    biz_no: Option<BizNo>,
    open_id: Option<OpenId>,
    product_id: Option<PricedProductId>,
}

fn settlement_fields(body: &mut Input<'_>) -> Result<SettlementFields, FieldError> {
    let words = "`credit`: the player gets the coins. `paid_back`: the money went back.";
    let action = body.field("action", words).demand_with("enum", || json!(["credit", "paid_back"]));
    let credits = action.required_as::<String, _>("credit", |text| match text {
        "credit" => Ok(true),
        "paid_back" => Ok(false),
        _ => Err(domain::fields::Expected::one_of(&["credit", "paid_back"])),
    })?;
    let reason =
        body.field("reason", "Why, for the operator's log.").required("Typed by hand", Reason::parse)?;
    let biz_no = body.field("biz_no", "The order that it pays.").example(BIZ_NO).optional(BizNo::parse)?;
    let open_id = body.field("open_id", "The player, in place of an order.").optional(OpenId::parse)?;
    let product_id =
        body.field("product_id", "The product, with `open_id`.").optional(PricedProductId::parse)?;
    Ok(SettlementFields { credits, reason, biz_no, open_id, product_id })
}

async fn settle(state: &AppState, call: &Call) -> Result<SettledPayment, Problem> {
    let (app_id, key) = (call.app_id()?, key_of(call)?);
    let SettlementFields { credits, reason, biz_no, open_id, product_id } = call.read(settlement_fields)?;
    let settlement = match (credits, biz_no, open_id, product_id) {
        (true, Some(biz_no), None, None) => Settlement::CreditOrder(biz_no),
        (true, None, Some(open_id), Some(product_id)) => Settlement::CreditPlayer(open_id, product_id),
        (false, None, None, None) => Settlement::PaidBack,
        (true, ..) => {
            return Err(Problem::field("biz_no", "expected biz_no, or open_id and product_id in its place"));
        }
        (false, ..) => return Err(Problem::field("action", "expected paid_back alone: it credits nobody")),
    };
    let command = SettlePayment { settlement, reason };
    Ok(state.store.settle_payment(&call.operator(), &app_id, key, command).await?)
}

fn row_example() -> Value {
    json!({
        "app_id": APP_ID, "provider": PROVIDER, "provider_order_id": PROVIDER_ORDER_ID, "state": "paid", "reason": null,
        "currency": "CNY", "amount": 600, "fee": null, "paid_at": MOMENT, "biz_no": BIZ_NO, "open_id": OPEN_ID, "product_id": "gems60",
        "os": null, "note": "", "charge": 60, "bonus": 6, "free_balance": 46, "charge_balance": 160, "seq": 2,
        "told_by": "api_key payments", "created_at": MOMENT, "credited_at": MOMENT, "refunds": [],
    })
}
