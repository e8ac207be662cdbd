//! `POST /api/{payment_segment}/minigame/query`: a game server asks what became of a `biz_no`, and can close an unknown
//! one (contract 10.5).

use axum::extract::{Request, State};
use axum::response::Response;
use domain::examples::BIZ_NO;
use domain::ids::{AppId, BizNo};
use domain::ledger::without_ref_mark;
use domain::text;
use domain::wallet::{CancelSummary, NumberChange, NumberKind, NumberState, OrderReceipt, WalletCall};
use schemars::JsonSchema;
use serde::Serialize;
use store::{RefundedPart, StoreError, TopupOrderState};

use super::describe::{self, SIGNATURE};
use super::topup::{OrderFigures, example_figures};
use super::{WalletSuccess, answer};
use crate::config::Config;
use crate::http::refusal::{Code, Refusal};
use crate::openapi::{NOW_MILLIS, Operation, Success, refusals};
use crate::state::AppState;

/// Number of a cancel that a query shows.
const CANCEL_BIZ_NO: &str = "20270115080000002";

refusals! { Refusal:
    /// The player has no such number.
    unknown_number(biz_no = BIZ_NO) =>
        Refusal::new(Code::UnknownNumber, text!(
            "biz_no: this player has no number {biz_no}; send its request again, or give it up with close=1",
            biz_no
        ));
}

/// Shows what became of a number, and can close an unknown one.
///
/// # Errors
/// The codes of contract 7 that are marked query or all.
pub async fn query(State(state): State<AppState>, request: Request) -> Result<Response, Refusal> {
    super::carry_out(&state, WalletCall::Query, request).await
}

/// `data` of a query. A closed number has `bizNo`, `kind`, `status` and `createTime` alone.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Query")]
#[serde(rename_all = "camelCase")]
struct NumberAnswer {
    /// The number.
    #[schemars(with = "BizNo")]
    biz_no: String,
    /// What it was used for.
    #[schemars(extend("enum" = ["exchange", "present", "cancel", "topup", "closed"]))]
    kind: &'static str,
    /// An exchange is `paid`, `part_cancelled` or `cancelled`; a present or a cancel is `done`; an order of a top-up is
    /// `created`, `expired`, `paid`, `part_refunded` or `refunded`.
    #[schemars(extend("enum" = [
        "paid", "part_cancelled", "cancelled", "done", "created", "expired", "part_refunded", "refunded", "closed"
    ]))]
    status: &'static str,
    /// When, in Unix milliseconds of the server.
    create_time: i64,
    #[serde(flatten)]
    what: Option<UseAnswer>,
}

/// The use of a number.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum UseAnswer {
    /// A change of the wallet.
    Change(ChangeAnswer),
    /// An order of a top-up.
    Order(OrderStateAnswer),
}

/// An order of a top-up.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "camelCase")]
struct OrderStateAnswer {
    #[serde(flatten)]
    figures: OrderFigures,
    /// When it was paid, in Unix milliseconds of the server. Only of a paid one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    paid_time: Option<i64>,
}

/// The change that a number has made.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "camelCase")]
struct ChangeAnswer {
    /// What was deducted, given or given back.
    #[schemars(range(min = 1))]
    amount: i64,
    /// Change of the gifted purse; a deduction is negative.
    free_change: i64,
    /// Change of the charged purse; a deduction is negative.
    charge_change: i64,
    /// Zone and role, as sent.
    zone_id: String,
    /// Name of what was bought. Only of an exchange.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    product_name: Option<String>,
    /// The exchange that was given back. Only of a cancel.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "BizNo")]
    pay_biz_no: Option<String>,
    /// What can still be given back. Only of an exchange.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    remaining: Option<i64>,
    /// What was given back, oldest first, at most 100. Only of an exchange.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<CancelAnswer>")]
    cancels: Option<Vec<CancelAnswer>>,
    /// True when there are more cancels.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    cancels_more: Option<bool>,
}

/// One cancel of an exchange.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "camelCase")]
struct CancelAnswer {
    /// The number of the cancel, or the ref of an operator.
    biz_no: String,
    /// What it gave back.
    #[schemars(range(min = 1))]
    amount: i64,
    /// When, in Unix milliseconds of the server.
    create_time: i64,
}

/// What a number was used for, and what became of it.
struct NumberUse {
    kind: &'static str,
    status: &'static str,
    what: Option<UseAnswer>,
}

impl NumberUse {
    const CLOSED: Self = Self { kind: "closed", status: "closed", what: None };

    /// A change of the wallet. An order is none: its receipt finds its state.
    fn of_change(change: NumberChange) -> Result<Self, OrderReceipt> {
        let NumberChange { kind, free_change, charge_change, zone_id } = change;
        let answer = ChangeAnswer {
            amount: (free_change + charge_change).abs(),
            free_change,
            charge_change,
            zone_id,
            product_name: None,
            pay_biz_no: None,
            remaining: None,
            cancels: None,
            cancels_more: None,
        };
        let (kind, status, answer) = match kind {
            NumberKind::Order(ordered) => return Err(ordered),
            NumberKind::Present => ("present", "done", answer),
            NumberKind::Cancel { of } => ("cancel", "done", ChangeAnswer { pay_biz_no: Some(of), ..answer }),
            NumberKind::Exchange { product_name, remaining, cancels, has_more_cancels } => {
                let status = match remaining {
                    0 => "cancelled",
                    _ if cancels.is_empty() => "paid",
                    _ => "part_cancelled",
                };
                let cancels = cancels.into_iter().map(|cancel| CancelAnswer {
                    biz_no: without_ref_mark(&cancel.reference).to_owned(),
                    amount: cancel.amount,
                    create_time: cancel.created_at,
                });
                let answer = ChangeAnswer {
                    product_name: Some(product_name),
                    remaining: Some(remaining),
                    cancels: Some(cancels.collect()),
                    cancels_more: has_more_cancels.then_some(true),
                    ..answer
                };
                ("exchange", status, answer)
            }
        };
        Ok(Self { kind, status, what: Some(UseAnswer::Change(answer)) })
    }

    fn of_order(
        figures: OrderFigures,
        (paid_time, refunded): (Option<i64>, RefundedPart),
        now_millis: i64,
    ) -> Self {
        let status = match (paid_time, refunded) {
            (Some(_), RefundedPart::Nothing) => "paid",
            (Some(_), RefundedPart::Part) => "part_refunded",
            (Some(_), RefundedPart::Whole) => "refunded",
            (None, _) if figures.is_expired(now_millis) => "expired",
            (None, _) => "created",
        };
        let what = Some(UseAnswer::Order(OrderStateAnswer { figures, paid_time }));
        Self { kind: "topup", status, what }
    }

    fn answer(self, biz_no: String, create_time: i64) -> NumberAnswer {
        let Self { kind, status, what } = self;
        NumberAnswer { biz_no, kind, status, create_time, what }
    }
}

pub(super) async fn answered(
    state: &AppState,
    app_id: &AppId,
    number: NumberState,
    now_millis: i64,
) -> Result<Response, StoreError> {
    let NumberState { reference, created_at, change } = number;
    let used = match change.map(NumberUse::of_change) {
        None => NumberUse::CLOSED,
        Some(Ok(used)) => used,
        Some(Err(ordered)) => {
            let TopupOrderState { product_id, offer, paid_at, refunded } =
                state.store.topup_order(app_id, ordered.item_id, &reference).await?;
            let figures = OrderFigures::new(product_id, offer, ordered.created_at);
            NumberUse::of_order(figures, (paid_at, refunded), now_millis)
        }
    };
    Ok(answer(&used.answer(reference, created_at)))
}

/// The description of the query in the API's document.
pub(in crate::public) fn describe(config: &Config) -> Operation<Refusal> {
    let description = format!(
        "Shows what became of a number of this player, of any kind and age. A change that is being written is waited \
         for.\n\n**After a time-out.** With `close=1` an unknown number is closed for ever, and whatever comes late under it \
         is refused with 10000608. So a game can give up safely. On a known number `close` changes nothing.\n\n{SIGNATURE}"
    );
    let number = |used: NumberUse| used.answer(BIZ_NO.to_owned(), NOW_MILLIS);
    let cancel = CancelSummary { reference: CANCEL_BIZ_NO.to_owned(), amount: 30, created_at: NOW_MILLIS };
    let exchange = NumberChange {
        kind: NumberKind::Exchange {
            product_name: "Double-up card".to_owned(),
            remaining: 30,
            cancels: vec![cancel],
            has_more_cancels: false,
        },
        free_change: -40,
        charge_change: -20,
        zone_id: "zone1_role1".to_owned(),
    };
    let order = number(NumberUse::of_order(example_figures(), (None, RefundedPart::Nothing), NOW_MILLIS));
    let known = number(NumberUse::of_change(exchange).expect("an exchange is no order"));
    let closed = number(NumberUse::CLOSED);
    describe::call(WalletCall::Query, config, "Ask what became of a number", description)
        .answers(Success::json(
            "known",
            "An exchange of 60 coins; 30 were given back.",
            &WalletSuccess::new(&known),
        ))
        .answers(Success::json(
            "closed",
            "Nothing has used the number, and `close` was 1.",
            &WalletSuccess::new(&closed),
        ))
        .answers(Success::json(
            "order",
            "An order of a top-up that nothing has paid.",
            &WalletSuccess::new(&order),
        ))
        .refuses([example::unknown_number()])
}
