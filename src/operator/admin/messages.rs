//! Problems that handlers meet and the API's document shows: the same words in both.

use axum::http::{HeaderValue, header};
use domain::app_command::{AppAction, AppCommand};
use domain::fields::{FieldValue, Fields};
use domain::ids::{AppId, BizNo, IdempotencyKey, ImgId, OpenId, OrderNo};

use super::problem::{Kind, Problem};

/// There is no such app.
#[must_use]
pub fn no_app(app_id: &AppId) -> Problem {
    Problem::none(format_args!("no app {app_id}"))
}

/// The app is there.
#[must_use]
pub fn app_taken(app_id: &AppId) -> Problem {
    Problem::new(Kind::Conflict, format!("there is an app {app_id} already"))
}

/// The app has no such token.
#[must_use]
pub fn no_token(app_id: &AppId) -> Problem {
    Problem::none(format_args!("no such token of the app {app_id}"))
}

/// Neither or both of what can be revoked.
///
/// # Panics
/// Never: a command without fields revokes nothing.
#[must_use]
pub fn which_token() -> Problem {
    let read = AppCommand::read(AppAction::RevokeTokens, &Fields::typed([]));
    read.expect_err("no field names what to revoke").into()
}

/// The app knows no such player.
#[must_use]
pub fn no_player(app_id: &AppId, open_id: &OpenId) -> Problem {
    Problem::none(format_args!("no player {open_id} of an app {app_id}"))
}

/// The app has sold nothing under this number.
#[must_use]
pub fn no_exchange(app_id: &AppId, biz_no: &BizNo) -> Problem {
    Problem::none(format_args!("no exchange {biz_no} of an app {app_id}"))
}

/// Nobody has reported this order.
#[must_use]
pub fn no_order(app_id: &AppId, number: &OrderNo) -> Problem {
    Problem::none(format_args!("no order {number} of an app {app_id}"))
}

/// A ref that stands for another credit.
#[must_use]
pub fn ref_used(reference: &str) -> Problem {
    Problem::new(
        Kind::Conflict,
        format!("the ref {reference} was used for another player or with other amounts"),
    )
}

/// A credit that no purse can hold.
#[must_use]
pub fn balance_too_large() -> Problem {
    Problem::new(Kind::Conflict, "a balance would be more than 9223372036854775807")
}

/// There is no such image.
#[must_use]
pub fn no_image(img_id: &ImgId) -> Problem {
    Problem::none(format_args!("no image {img_id}"))
}

/// The image falls under no block.
#[must_use]
pub fn no_block(img_id: &ImgId) -> Problem {
    Problem::none(format_args!("no block on the image {img_id}"))
}

/// No API key came.
#[must_use]
pub fn key_missing() -> Problem {
    unauthorized("expected one header Authorization: Bearer mtk_...", "")
}

/// No such API key.
#[must_use]
pub fn key_unknown() -> Problem {
    unauthorized("there is no such API key", ", error=\"invalid_token\"")
}

/// The API key was revoked.
#[must_use]
pub fn key_revoked() -> Problem {
    unauthorized("the API key was revoked", ", error=\"invalid_token\"")
}

fn unauthorized(detail: &str, error: &str) -> Problem {
    let challenge = HeaderValue::from_str(&format!("Bearer realm=\"minitill admin\"{error}"));
    let challenge = challenge.unwrap_or(HeaderValue::from_static("Bearer"));
    Problem::new(Kind::Unauthorized, detail).with_header(header::WWW_AUTHENTICATE, challenge)
}

/// The API key may only read.
#[must_use]
pub fn viewers_key(name: &str) -> Problem {
    Problem::new(Kind::Forbidden, format!("the API key {name} has the role viewer, which may only GET"))
}

/// The body is not said to be JSON.
#[must_use]
pub fn not_json() -> Problem {
    Problem::new(Kind::UnsupportedMediaType, "content-type: expected application/json")
}

/// What is said of a body that is no JSON object.
///
/// # Panics
/// When it is one.
#[must_use]
pub fn unreadable(body: &str) -> Problem {
    Fields::from_strict_json(body.as_bytes()).expect_err("the example is no JSON object").into()
}

/// What is said of the member `colour` where these are known.
///
/// # Panics
/// When it is one of them.
#[must_use]
pub fn unknown_field(known: &[&str]) -> Problem {
    let input = Fields::typed([("colour", FieldValue::Text("red".to_owned()))]);
    input.only(known).expect_err("the example has an unknown field").into()
}

/// No idempotency key came, or none that can be one.
#[must_use]
pub fn idempotency_key_missing() -> Problem {
    let expected = IdempotencyKey::EXPECTED;
    Problem::new(
        Kind::BadRequest,
        format!(
            "expected one header Idempotency-Key of {expected}: a fresh one for each write, the same for its repeats"
        ),
    )
}

/// The idempotency key stands for another request.
#[must_use]
pub fn idempotency_key_reused(key: &str) -> Problem {
    Problem::new(
        Kind::IdempotencyKeyReused,
        format!("the idempotency key {key} was used for another request within a day"),
    )
}
