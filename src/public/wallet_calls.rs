//! `balance`, `present`, `cancel` and `query`: a game server looks at a wallet, gives, gives back, and asks what
//! became of a number (contract 10).

use axum::extract::{Request, State};
use axum::response::Response;
use domain::app::Scope;
use domain::exchange::Balances;
use domain::ids::BizNo;
use domain::wallet::{CancelSummary, NumberChange, NumberKind, NumberState};
use domain::wallet_call::WalletCall;
use serde_json::json;

use super::describe::BIZ_NO;
use super::wallet::{self, Answer, CancelReceipt, NumberAnswer, PAY_BIZ_NO, Purses, Receipt, example, field};
use crate::config::Config;
use crate::error::Refusal;
use crate::openapi::{Field, NOW_MILLIS, Operation, Success};
use crate::state::AppState;

/// Number of a cancel that a query shows.
const CANCEL_BIZ_NO: &str = "20270115080000002";

/// Shows both purses.
///
/// # Errors
/// The codes of contract 7 that are marked balance or all.
pub async fn balance(State(state): State<AppState>, request: Request) -> Result<Response, Refusal> {
    wallet::carry_out(&state, WalletCall::Balance, request).await
}

/// Adds gifted currency.
///
/// # Errors
/// The codes of contract 7 that are marked present or all.
pub async fn present(State(state): State<AppState>, request: Request) -> Result<Response, Refusal> {
    wallet::carry_out(&state, WalletCall::Present, request).await
}

/// Gives back an exchange, or a part of it.
///
/// # Errors
/// The codes of contract 7 that are marked cancel or all.
pub async fn cancel(State(state): State<AppState>, request: Request) -> Result<Response, Refusal> {
    wallet::carry_out(&state, WalletCall::Cancel, request).await
}

/// Shows what became of a number, and can close an unknown one.
///
/// # Errors
/// The codes of contract 7 that are marked query or all.
pub async fn query(State(state): State<AppState>, request: Request) -> Result<Response, Refusal> {
    wallet::carry_out(&state, WalletCall::Query, request).await
}

const SIGNATURE: &str =
    "**Signature.** As for the exchange, over the fields of this call that are not empty.";

/// What the API's document says of the balance.
pub(super) fn describe_balance(_: &Config) -> Operation<Refusal> {
    let names = ["open_id", "zone_id", "os", "ts", "user_ip", "extension"];
    let fields = names.map(field).to_vec();
    let description = format!(
        "Shows both purses as of one moment after the request came. It changes nothing.\n\n{SIGNATURE}"
    );
    let purses = Purses::from(Balances::new(40, 100).unwrap_or_default());
    wallet::describe(WalletCall::Balance, fields, "Show both purses", description).answers(Success::json(
        "balance",
        "40 gifted and 100 charged coins.",
        &Answer::new(&purses),
    ))
}

/// What the API's document says of the present.
pub(super) fn describe_present(_: &Config) -> Operation<Refusal> {
    let described = |name, words: &'static str| Field { description: words.into(), ..field(name) };
    let number =
        described("biz_no", "Your number of the present. Exchanges, presents and cancels share the numbers.");
    let fields = vec![
        field("open_id"),
        field("zone_id"),
        field("os"),
        field("ts"),
        field("user_ip"),
        described("amount", "What is given.").example(10),
        number,
        field("product_desc"),
        field("extension"),
    ];
    let description = format!(
        "Adds `amount` to the gifted purse, exactly once for each `biz_no`. The app needs the scope `present`.\n\n\
         {SIGNATURE}\n\n{IDEMPOTENCY}"
    );
    let receipt = Receipt { biz_no: BIZ_NO.to_owned(), free_balance: 50, charge_balance: 100 };
    wallet::describe(WalletCall::Present, fields, "Give gifted currency", description)
        .answers(Success::json("given", "10 gifted coins more.", &Answer::new(&receipt)))
        .answers(wallet::replayed(
            "The same request again: the first answer, and nothing is given.",
            &receipt,
        ))
        .refuses(wallet::refusals_of_changes())
        .refuses([wallet::scope_missing(Scope::Present), example::purse_full()])
}

const IDEMPOTENCY: &str = "\
    **Idempotency.** As for the exchange. For 48 hours the same content under the same `biz_no` gets the first answer, \
    byte for byte, and `Idempotent-Replayed: true`. After 48 hours every repeat is refused.";

/// What the API's document says of the cancel.
pub(super) fn describe_cancel(_: &Config) -> Operation<Refusal> {
    let described = |name, words: &'static str| Field { description: words.into(), ..field(name) };
    let number =
        described("biz_no", "Your number of the cancel. Exchanges, presents and cancels share the numbers.");
    let fields = vec![
        field("open_id"),
        field("zone_id"),
        field("os"),
        field("ts"),
        field("user_ip"),
        number,
        Field::required::<BizNo>("pay_biz_no", PAY_BIZ_NO, "The number of the exchange."),
        described("amount", "What is given back.").example(30),
        field("product_desc"),
        field("extension"),
    ];
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
    let words = "30 of 60 coins that were 40 gifted and 20 charged, gifted first.";
    wallet::describe(WalletCall::Cancel, fields, "Give back an exchange", description)
        .answers(Success::json("given_back", words, &Answer::new(&receipt)))
        .answers(wallet::replayed(
            "The same request again: the first answer, and nothing is given back.",
            &receipt,
        ))
        .refuses(wallet::refusals_of_changes())
        .refuses([
            wallet::scope_missing(Scope::Cancel),
            example::unknown_exchange(),
            example::more_than_left(),
            example::purse_full(),
        ])
}

/// What the API's document says of the query.
pub(super) fn describe_query(_: &Config) -> Operation<Refusal> {
    let number = field("biz_no");
    let words = "`1`: if nothing has used the number, it is closed for ever. Empty, absent or `0`: nothing is changed.";
    let fields = vec![
        field("open_id"),
        Field { description: "The number of an exchange, a present or a cancel.".into(), ..number },
        field("ts"),
        Field::optional::<String>("close", words).demand("enum", json!(["", "0", "1"])),
    ];
    let description = format!(
        "Shows what became of a number of this player, of any kind and age. A change that is being written is waited \
         for.\n\n**After a time-out.** With `close=1` an unknown number is closed for ever, and whatever comes late under it \
         is refused with 10000608. So a game can give up safely. On a known number `close` changes nothing.\n\n{SIGNATURE}"
    );
    let number = |kind| NumberState { reference: BIZ_NO.to_owned(), created_at: NOW_MILLIS, change: kind };
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
    let (known, closed) = (NumberAnswer::from(number(Some(exchange))), NumberAnswer::from(number(None)));
    wallet::describe(WalletCall::Query, fields, "Ask what became of a number", description)
        .answers(Success::json("known", "An exchange of 60 coins; 30 were given back.", &Answer::new(&known)))
        .answers(Success::json(
            "closed",
            "Nothing has used the number, and `close` was 1.",
            &Answer::new(&closed),
        ))
        .refuses([example::unknown_number()])
}
