//! `POST /api/{payment_segment}/minigame/balance`: a game server looks at both purses of a wallet (contract 10.6).

use axum::extract::{Request, State};
use axum::response::Response;
use domain::wallet::{Balances, WalletCall};
use schemars::JsonSchema;
use serde::Serialize;

use super::describe::{self, SIGNATURE};
use super::{WalletSuccess, answer};
use crate::config::Config;
use crate::http::refusal::Refusal;
use crate::openapi::{Operation, Success};
use crate::state::AppState;

/// Shows both purses.
///
/// # Errors
/// The codes of contract 7 that are marked balance or all.
pub async fn balance(State(state): State<AppState>, request: Request) -> Result<Response, Refusal> {
    super::carry_out(&state, WalletCall::Balance, request).await
}

/// `data` of a balance.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Balance")]
#[serde(rename_all = "camelCase")]
struct Purses {
    /// Gifted currency.
    #[schemars(range(min = 0))]
    free_balance: i64,
    /// Charged currency.
    #[schemars(range(min = 0))]
    charge_balance: i64,
}

impl From<Balances> for Purses {
    fn from(balances: Balances) -> Self {
        Self { free_balance: balances.free(), charge_balance: balances.charge() }
    }
}

pub(super) fn answered(balances: Balances) -> Response {
    answer(&Purses::from(balances))
}

/// The description of the balance in the API's document.
pub(in crate::public) fn describe(config: &Config) -> Operation<Refusal> {
    let description = format!(
        "Shows both purses as of one moment after the request came. It changes nothing.\n\n{SIGNATURE}"
    );
    let purses = Purses::from(Balances::new(40, 100).unwrap_or_default());
    describe::call(WalletCall::Balance, config, "Show both purses", description).answers(Success::json(
        "balance",
        "40 gifted and 100 charged coins.",
        &WalletSuccess::new(&purses),
    ))
}
