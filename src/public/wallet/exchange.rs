//! `POST /api/{payment_segment}/minigame/pay`: a game server deducts currency in exchange for items (contract 3).

use axum::extract::{Request, State};
use axum::response::Response;
use domain::examples::BIZ_NO;
use domain::ids::BizNo;
use domain::wallet::{Balances, Receipt, WalletCall};
use schemars::JsonSchema;
use serde::Serialize;

use super::describe::{self, replayed};
use super::{WalletSuccess, answer};
use crate::config::Config;
use crate::http::refusal::{Advice, Code, Refusal};
use crate::openapi::{Operation, PAY_KEY, Success, refusals};
use crate::state::AppState;

refusals! { Refusal:
    /// Both purses together do not cover the amount; nothing was deducted.
    insufficient_balance() => not_covered(Balances::new(0, 59).unwrap_or_default());
}

pub(super) fn not_covered(balances: Balances) -> Refusal {
    let data = Some(Advice::of(balances));
    Refusal {
        data,
        ..Refusal::new(
            Code::InsufficientBalance,
            "amount: the balance does not cover it; data has what is there",
        )
    }
}

/// Deducts.
///
/// # Errors
/// The codes of contract 7 that are marked exchange or all.
pub async fn exchange(State(state): State<AppState>, request: Request) -> Result<Response, Refusal> {
    super::carry_out(&state, WalletCall::Exchange, request).await
}

/// `data` of an exchange and of a present: the balances right after it, for ever the same.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Exchange")]
#[serde(rename_all = "camelCase")]
pub(crate) struct BalancesAfter {
    /// The order number.
    #[schemars(with = "BizNo")]
    pub(crate) biz_no: String,
    /// Gifted currency.
    #[schemars(range(min = 0))]
    pub(crate) free_balance: i64,
    /// Charged currency.
    #[schemars(range(min = 0))]
    pub(crate) charge_balance: i64,
}

impl From<Receipt> for BalancesAfter {
    fn from(receipt: Receipt) -> Self {
        let (free_balance, charge_balance) = (receipt.balances.free(), receipt.balances.charge());
        Self { biz_no: receipt.reference, free_balance, charge_balance }
    }
}

pub(super) fn answered(receipt: Receipt) -> Response {
    answer(&BalancesAfter::from(receipt))
}

/// The description of the exchange in the API's document.
pub(in crate::public) fn describe(config: &Config) -> Operation<Refusal> {
    let receipt = BalancesAfter { biz_no: BIZ_NO.to_owned(), free_balance: 0, charge_balance: 80 };
    let deducted = Success::json(
        "deducted",
        "60 coins of 40 gifted and 100 charged ones, gifted first.",
        &WalletSuccess::new(&receipt),
    );
    let words = "The same request again: the first answer, and nothing is deducted.";
    describe::call(WalletCall::Exchange, config, "Exchange in-game currency for items", description())
        .answers(deducted)
        .answers(replayed(words, &receipt))
        .refuses(describe::refusals_of_changes())
        .refuses([example::insufficient_balance()])
}

fn description() -> String {
    format!(
        "A game server deducts `amount` from a player's two purses, exactly once for each `biz_no`. The body is a form, \
         whatever the content type says.\n\n\
         **Signature.** Take the fields that are not empty, without `access_token` and `sign`, as they are before the form \
         is encoded. Join `name=value` with `&` in ASCII order of the names. Sign the string with HMAC-SHA256 and the pay \
         key, in hexadecimal. The example is signed with the pay key `{PAY_KEY}`.\n\n\
         **Idempotency.** A `biz_no` belongs to its app for ever and deducts at most once. For 48 hours the same content \
         under the same `biz_no` gets the first answer, byte for byte, and `Idempotent-Replayed: true`. `ts`, `user_ip`, \
         `os`, `access_token` and `sign` may differ. Other content is refused. After 48 hours every repeat is refused. A \
         refused exchange records nothing: its `biz_no` stays free. A `biz_no` of a present, a cancel or a top-up order is \
         used as well.\n\n\
         **No answer, 500 or 503.** It is not known whether the player has paid: send the exchange again with the same \
         `biz_no`. It is not known either when the repeat is refused before its `biz_no` is looked up (100200102, \
         100200114, 10000200, 10000305): correct that and repeat. After 10000601, 10000604, 10000609 and 10000423 the \
         `biz_no` is free. To give up for certain, query the `biz_no` with `close=1`.\n\n\
         **Order of checks.** Form, access token, suspension, rate limit, scope (of the calls that need one), required fields \
         that came in the query, signature, other fields, `biz_no`, `ts`, wallet."
    )
}
