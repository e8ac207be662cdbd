//! `POST /api/{payment_segment}/minigame/balance`: a game server looks at both purses of a wallet (contract 10.6).

use axum::extract::{Request, State};
use axum::response::Response;
use domain::topup::CoinPair;
use domain::wallet::{Balances, WalletCall};
use schemars::JsonSchema;
use serde::Serialize;
use store::Income;

use super::describe::{self, SIGNATURE};
use super::{WalletSuccess, answer};
use crate::config::Config;
use crate::http::refusal::Refusal;
use crate::openapi::{NOW_MILLIS, Operation, Success};
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
    /// Gifted currency that ever came in, without what operators took back. What cancels give back is no income.
    free_total: i64,
    /// Charged currency that ever came in, counted as `freeTotal`.
    charge_total: i64,
    /// What exchanges took and did not give back: `freeTotal` and `chargeTotal` without both balances.
    spent_total: i64,
    /// When charged currency first came in, in Unix milliseconds of the server. Absent before.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_charge_time: Option<i64>,
    /// What the wallet owes for refunds of payments, where it owes something. The next top-up settles it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "CoinPair")]
    debt: Option<CoinPair>,
    /// `true` while an operator has frozen the wallet; else it is absent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    frozen: bool,
}

impl Purses {
    fn new(balances: Balances, income: Income, frozen: bool) -> Self {
        Self {
            free_balance: balances.free(),
            charge_balance: balances.charge(),
            free_total: told(income.free),
            charge_total: told(income.charge),
            spent_total: told(income.spent(balances)),
            first_charge_time: income.first_charge_at,
            debt: income.debt.any(),
            frozen,
        }
    }
}

/// A total as the answer tells it (contract 10.6.5).
fn told(total: i128) -> i64 {
    i64::try_from(total).unwrap_or(i64::MAX)
}

pub(super) fn answered(balances: Balances, income: Income, is_frozen: bool) -> Response {
    answer(&Purses::new(balances, income, is_frozen))
}

/// The description of the balance in the API's document.
pub(in crate::public) fn describe(config: &Config) -> Operation<Refusal> {
    let description = format!(
        "Shows both purses, and what ever came in and was spent, as of one moment after the request came. It changes nothing.\n\n{SIGNATURE}"
    );
    let income =
        Income { free: 40, charge: 100, first_charge_at: Some(NOW_MILLIS), debt: CoinPair::default() };
    let purses = Purses::new(Balances::new(40, 100).unwrap_or_default(), income, false);
    describe::call(WalletCall::Balance, config, "Show both purses", description).answers(Success::json(
        "balance",
        "40 gifted and 100 charged coins.",
        &WalletSuccess::new(&purses),
    ))
}
