//! Access tokens as the document tells them.

use domain::ids::AppId;

use super::apps::{MOMENT, app_in_path};
use super::problems::{example, no_app, wrong_field};
use super::{Said, answers, moment, operation, record, whole_number};
use crate::openapi::json::object;
use crate::openapi::operation::{ACCESS_TOKEN, APP_ID, Field, integer, pattern, text as text_of};
use crate::operator::admin::{TTL_SECONDS_MAX, messages};
use domain::app::TOKEN_LIFETIME;

pub(super) fn issue() -> Said {
    let schema = record(vec![
        ("app_id", pattern(AppId::PATTERN)),
        ("access_token", pattern("^[0-9a-f]{64}$")),
        ("expires_at", moment()),
    ]);
    let example = object! { "access_token": ACCESS_TOKEN, "app_id": APP_ID, "expires_at": MOMENT };
    let fields = vec![Field::optional(
        "ttl_seconds",
        integer(1, TTL_SECONDS_MAX),
        format!("How long it lives; {} unless it is said.", TOKEN_LIFETIME.as_secs()),
    )];
    let operation = operation(
        "Issue an access token",
        "Makes a token in the app's name, as the app gets one with its secret. No other token ends.",
        answers("issued", "The token. It is shown once.", schema, example),
    );
    let wrong = wrong_field("ttl_seconds", "expected an integer from 1 to 31622400, got 0");
    let operation = operation.with_parameters(vec![app_in_path()]).with_body(fields);
    Said { operation, problems: vec![wrong, no_app()] }
}

pub(super) fn revoke() -> Said {
    let schema = record(vec![("app_id", pattern(AppId::PATTERN)), ("revoked", whole_number())]);
    let example_of = object! { "app_id": APP_ID, "revoked": 1 };
    let fields = vec![
        Field::optional("access_token", text_of(1, 1024), "The token to end."),
        Field::optional("all", object! { "const": true }, "Every token of the app.").example(true),
    ];
    let operation = operation(
        "Revoke access tokens",
        "Ends one token or all of them, on every server within five seconds. Which, must be said.",
        answers("revoked", "How many there were.", schema, example_of),
    );
    let app_id = AppId::parse(APP_ID).expect("the app of the examples has an id");
    let neither =
        example("which_token", "Neither a token nor all of them, or both.", messages::which_token());
    let unknown = example("no_token", "The app has no such token.", messages::no_token(&app_id));
    let operation = operation.with_parameters(vec![app_in_path()]).with_body(fields);
    Said { operation, problems: vec![neither, no_app(), unknown] }
}
