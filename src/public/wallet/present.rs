//! `POST /api/{payment_segment}/minigame/present`: a game server gives gifted currency (contract 10.3).

use axum::extract::{Request, State};
use axum::response::Response;
use domain::app::Scope;
use domain::examples::BIZ_NO;
use domain::wallet::WalletCall;

use super::describe::{self, IDEMPOTENCY, SIGNATURE, replayed};
use super::exchange::BalancesAfter;
use super::{WalletSuccess, example};
use crate::config::Config;
use crate::http::refusal::Refusal;
use crate::openapi::{Operation, Success};
use crate::state::AppState;

/// Adds gifted currency.
///
/// # Errors
/// The codes of contract 7 that are marked present or all.
pub async fn present(State(state): State<AppState>, request: Request) -> Result<Response, Refusal> {
    super::carry_out(&state, WalletCall::Present, request).await
}

/// The description of the present in the API's document.
pub(in crate::public) fn describe(config: &Config) -> Operation<Refusal> {
    let description = format!(
        "Adds `amount` to the gifted purse, exactly once for each `biz_no`. The app needs the scope `present`.\n\n\
         {SIGNATURE}\n\n{IDEMPOTENCY}"
    );
    let receipt = BalancesAfter { biz_no: BIZ_NO.to_owned(), free_balance: 50, charge_balance: 100 };
    let words = "The same request again: the first answer, and nothing is given.";
    describe::call(WalletCall::Present, config, "Give gifted currency", description)
        .answers(Success::json("given", "10 gifted coins more.", &WalletSuccess::new(&receipt)))
        .answers(replayed(words, &receipt))
        .refuses(describe::refusals_of_changes())
        .refuses([describe::scope_missing(Scope::Present), example::purse_full()])
}
