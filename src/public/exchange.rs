//! `POST /api/{payment_segment}/minigame/pay`: a game server deducts currency in exchange for
//! items (contract 3).

use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use domain::exchange::ExchangeFieldError;
use domain::exchange::{ExchangeOutcome, Receipt};
use serde::Serialize;
use store::StoreError;
use tokio::time::Instant;

use super::extract::FormFields;
use crate::config;
use crate::error::{Code, Refusal, json_response};
use crate::public::auth::authenticate_exchange;
use crate::state::AppState;

/// Tells that the answer is that of an earlier try.
static IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Form, access token, signature, fields; then, in the store, order number, `ts` and wallet. All of it within the
/// deadline of an exchange, from when its form has arrived.
///
/// # Errors
/// The codes of contract 7 that are marked exchange or all.
pub async fn exchange(
    State(state): State<AppState>,
    FormFields(fields): FormFields,
) -> Result<Response, Refusal> {
    let reading = state.reading();
    let deadline = Instant::now() + state.config.exchange.deadline;
    let signed = tokio::time::timeout_at(deadline, authenticate_exchange(&state, fields));
    let signed = signed.await.map_err(|_| StoreError::past_deadline())??;
    let exchange = signed.exchange(&reading)?;
    let biz_no = exchange.value().biz_no.to_string();
    match state.store.submit(exchange, deadline).await? {
        ExchangeOutcome::Done(receipt) => Ok(answer(&receipt)),
        ExchangeOutcome::Replayed(receipt) => {
            let mut response = answer(&receipt);
            response.headers_mut().insert(IDEMPOTENT_REPLAYED.clone(), HeaderValue::from_static("true"));
            Ok(response)
        }
        ExchangeOutcome::BizNoConflict => Err(number_conflict(&biz_no)),
        ExchangeOutcome::BizNoExpired => Err(number_expired(&biz_no)),
        ExchangeOutcome::TsOutsideWindow => {
            Err(ts_outside_window(&state.config.exchange, state.clock.unix_millis()))
        }
        ExchangeOutcome::UnknownWallet => {
            Err(Refusal::new(Code::IllegalOpenId, "open_id: expected a player of this app"))
        }
        ExchangeOutcome::InsufficientBalance => Err(insufficient_balance()),
    }
}

// These are also what the API's document shows.

pub(crate) fn number_conflict(biz_no: &str) -> Refusal {
    let text = format!("biz_no: {biz_no} was already used with other content; take a new number");
    Refusal::new(Code::BizNoConflict, text)
}

pub(crate) fn number_expired(biz_no: &str) -> Refusal {
    let text = format!("biz_no: {biz_no} was used more than 48 hours ago; take a new number");
    Refusal::new(Code::BizNoExpired, text)
}

pub(crate) fn insufficient_balance() -> Refusal {
    Refusal::new(Code::InsufficientBalance, "amount: the balance does not cover it")
}

pub(crate) fn ts_outside_window(settings: &config::Exchange, now_millis: i64) -> Refusal {
    let text = format!(
        "ts: expected at most {} ahead of and {} behind now, which is {now_millis}",
        in_words(settings.ts_ahead_max),
        in_words(settings.ts_behind_max)
    );
    Refusal::new(Code::TsOutsideWindow, text)
}

/// A duration in the largest unit that holds it whole: 48h, 5m, 90s.
pub(crate) fn in_words(duration: Duration) -> String {
    match duration.as_secs() {
        seconds if seconds % 3600 == 0 => format!("{}h", seconds / 3600),
        seconds if seconds % 60 == 0 => format!("{}m", seconds / 60),
        seconds => format!("{seconds}s"),
    }
}

/// Contract 3.4.
#[derive(Serialize)]
struct Answer<'a> {
    code: u8,
    msg: &'static str,
    data: &'a Receipt,
}

fn answer(receipt: &Receipt) -> Response {
    json_response(StatusCode::OK, &Answer { code: 1, msg: "SUCCESS", data: receipt })
}

impl From<ExchangeFieldError> for Refusal {
    fn from(error: ExchangeFieldError) -> Self {
        match error {
            ExchangeFieldError::OpenId(error) => Self::field(Code::IllegalOpenId, &error),
            ExchangeFieldError::Other(error) => error.into(),
        }
    }
}
