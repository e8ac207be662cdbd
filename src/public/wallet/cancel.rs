//! `POST /api/{payment_segment}/minigame/cancel`: a game server gives back an exchange or a part of it, a refund in
//! coins (contract 10.4).

use axum::extract::{Request, State};
use axum::response::Response;
use domain::app::Scope;
use domain::examples::{BIZ_NO, PAY_BIZ_NO};
use domain::ids::BizNo;
use domain::text;
use domain::wallet::{GivenBack, Receipt, WalletCall};
use schemars::JsonSchema;
use serde::Serialize;

use super::describe::{self, IDEMPOTENCY, SIGNATURE, replayed};
use super::{WalletSuccess, answer, example as shared};
use crate::config::Config;
use crate::http::refusal::{Code, Refusal};
use crate::openapi::{Operation, Success, refusals};
use crate::state::AppState;

refusals! { Refusal:
    /// Less is left of the exchange.
    more_than_left(amount = 60, remaining = 30, of = PAY_BIZ_NO) => Refusal::new(
        Code::MoreThanLeft,
        text!(
            "amount: {remaining} is left to give back of {of}; {amount} was asked for",
            remaining,
            of,
            amount
        ),
    );
    /// The player has no exchange of this number.
    unknown_exchange(of = PAY_BIZ_NO) =>
        Refusal::new(Code::UnknownNumber, text!("pay_biz_no: this player has no exchange {of}; expected the biz_no of one that was paid", of));
}

/// Gives back an exchange, or a part of it.
///
/// # Errors
/// The codes of contract 7 that are marked cancel or all.
pub async fn cancel(State(state): State<AppState>, request: Request) -> Result<Response, Refusal> {
    super::carry_out(&state, WalletCall::Cancel, request).await
}

/// `data` of a cancel, for ever the same.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Cancel")]
#[serde(rename_all = "camelCase")]
pub(super) struct CancelReceipt {
    /// The number of the cancel.
    #[schemars(with = "BizNo")]
    biz_no: String,
    /// The number of the exchange.
    #[schemars(with = "BizNo")]
    pay_biz_no: String,
    /// Gifted currency that was given back.
    #[schemars(range(min = 0))]
    free_refunded: i64,
    /// Charged currency that was given back.
    #[schemars(range(min = 0))]
    charge_refunded: i64,
    /// What can still be given back of the exchange.
    #[schemars(range(min = 0))]
    remaining: i64,
    /// Gifted currency after it.
    #[schemars(range(min = 0))]
    free_balance: i64,
    /// Charged currency after it.
    #[schemars(range(min = 0))]
    charge_balance: i64,
}

pub(super) fn answered(receipt: Receipt, given_back: GivenBack) -> Response {
    let GivenBack { of, free, charge, remaining } = given_back;
    answer(&CancelReceipt {
        biz_no: receipt.reference,
        pay_biz_no: of,
        free_refunded: free,
        charge_refunded: charge,
        remaining,
        free_balance: receipt.balances.free(),
        charge_balance: receipt.balances.charge(),
    })
}

/// The description of the cancel in the API's document.
pub(in crate::public) fn describe(config: &Config) -> Operation<Refusal> {
    let description = format!(
        "Gives back `amount` of an exchange, in parts and as often as something is left. After cancels of r in all, the \
         purses stand as if the exchange had been for its amount less r: what was taken last is given back first. The app \
         needs the scope `cancel`.\n\n{SIGNATURE}\n\n{IDEMPOTENCY}"
    );
    let receipt = CancelReceipt {
        biz_no: BIZ_NO.to_owned(),
        pay_biz_no: PAY_BIZ_NO.to_owned(),
        free_refunded: 10,
        charge_refunded: 20,
        remaining: 30,
        free_balance: 10,
        charge_balance: 100,
    };
    let given_back = "30 of 60 coins that were 40 gifted and 20 charged, gifted first.";
    let words = "The same request again: the first answer, and nothing is given back.";
    describe::call(WalletCall::Cancel, config, "Give back an exchange", description)
        .answers(Success::json("given_back", given_back, &WalletSuccess::new(&receipt)))
        .answers(replayed(words, &receipt))
        .refuses(describe::refusals_of_changes())
        .refuses([
            describe::scope_missing(Scope::Cancel),
            example::unknown_exchange(),
            example::more_than_left(),
            shared::purse_full(),
        ])
}
