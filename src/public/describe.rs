//! What the descriptions of public calls share: credentials and common refusals.

use std::time::Duration;

use domain::fields::{Expected, Fields};
use domain::ids::AppId;
use schemars::JsonSchema;
use store::StoreError;

use crate::body::{too_large, too_slow};
use crate::error::{Code, Refusal};
use crate::openapi::{ACCESS_TOKEN, APP_ID, Example, Field};

/// Any text that is not empty.
#[derive(JsonSchema)]
#[schemars(inline)]
pub(super) struct SomeText(
    #[expect(dead_code, reason = "only its schema is used")]
    #[schemars(length(min = 1))]
    String,
);

/// `app_id` and `access_token` in the query.
pub(super) fn credentials(required: bool) -> [Field; 2] {
    let either = if required { "" } else { " Here or in the body." };
    [
        Field {
            required,
            ..Field::required::<AppId>("app_id", APP_ID, format!("The app, {}.{either}", AppId::EXPECTED))
        },
        Field {
            required,
            ..Field::required::<SomeText>(
                "access_token",
                ACCESS_TOKEN,
                format!("A token of the app from `/oauth2/access_token`.{either}"),
            )
        },
    ]
}

/// A refusal with a name.
pub(super) fn refused(name: &'static str, summary: &'static str, refusal: Refusal) -> Example<Refusal> {
    Example { name, summary, refusal }
}

/// A refusal with a code and a text of its own.
pub(super) fn told(name: &'static str, summary: &'static str, code: Code, text: &str) -> Example<Refusal> {
    refused(name, summary, Refusal::new(code, text))
}

/// What the parser of a field answers to a value.
///
/// # Panics
/// When the parser takes it: then it is no example of a refusal.
pub(super) fn wrong_value<T: std::fmt::Debug>(
    code: Code,
    name: &'static str,
    value: &str,
    parse: impl FnOnce(&str) -> Result<T, Expected>,
) -> Refusal {
    let mut fields = Fields::default();
    fields.add_text(name.to_owned(), value.to_owned()).expect("an example holds no NUL");
    Refusal::field(code, &fields.required(name, parse).expect_err("the example is refused"))
}

/// The refusals of an access token, in the order of the checks.
pub(super) fn token_refusals() -> [Example<Refusal>; 6] {
    let unauthorised = |name, summary, text| told(name, summary, Code::Unauthorised, text);
    [
        unauthorised("app_id_missing", "No `app_id` came.", "app_id is missing"),
        unauthorised("access_token_missing", "No token came.", "access_token is missing"),
        unauthorised("unknown_app", "There is no such app.", "app_id: unknown app"),
        unauthorised(
            "access_token_unknown",
            "The token is not one of this app.",
            "access_token: expected a token of this app",
        ),
        unauthorised(
            "access_token_expired",
            "The token has expired.",
            "access_token: expired, request a new one",
        ),
        suspended(),
    ]
}

/// The refusal of an app that the operator has suspended.
pub(super) fn suspended() -> Example<Refusal> {
    told(
        "app_suspended",
        "The operator has suspended the app.",
        Code::Forbidden,
        "app_id: the app is suspended",
    )
}

/// The refusal of a player that the app does not know.
pub(super) fn unknown_player() -> Refusal {
    Refusal::new(Code::IllegalOpenId, "open_id: expected a player of this app")
}

/// The refusals of a body that does not arrive as it should.
pub(super) fn body_refusals(bytes_max: usize, timeout: Duration) -> [Example<Refusal>; 2] {
    [
        refused("body_too_slow", "The body did not come in time.", too_slow(timeout)),
        refused("body_too_large", "The body is larger than accepted.", too_large(bytes_max)),
    ]
}

/// The refusal of an app that calls too often.
pub(super) fn rate_limited() -> Example<Refusal> {
    let refusal = Refusal::rate_limited(Duration::from_secs(1));
    refused("rate_limited", "The app calls too often; wait as `Retry-After` says.", refusal)
}

/// The faults of the service.
pub(super) fn faults() -> [Example<Refusal>; 2] {
    [
        refused("system_error", "A fault of the service.", Refusal::internal("")),
        refused(
            "unavailable",
            "The database is not available, or it is overloaded. It is safe to repeat, as `Retry-After` says.",
            Refusal::from(StoreError::Unavailable(String::new())),
        ),
    ]
}

/// The kinds of a body that may be any.
pub(super) const ANY_KIND: [&str; 3] =
    ["application/x-www-form-urlencoded", "application/json", "multipart/form-data"];
