//! Access tokens of an app: operators issue and revoke them.

use domain::app::TOKEN_LIFETIME;
use domain::app_command::{IssuedToken, RevokedTokens, TOKEN_BYTES_MAX, TTL_SECONDS_MAX};
use serde_json::json;

use super::apps::commands;
use super::call::Call;
use super::describe::{self, Described, MOMENT, app_in_path, describe, problem, wrong_field};
use super::messages::{no_token, which_token};
use super::problem::Problem;
use crate::openapi::{ACCESS_TOKEN, APP_ID, Field};
use crate::state::AppState;

commands! {
    issue: IssueToken -> IssuedToken,
    revoke: RevokeTokens -> RevokedTokens,
}

pub(super) fn describe_issue() -> Described<IssuedToken> {
    let words = format!("How long it lives; {} without it.", TOKEN_LIFETIME.as_secs());
    describe(
        "Issue an access token",
        "Makes a token in the app's name, as the app gets one with its secret. No other token ends.",
        ("issued", "The token. It is shown once."),
        json!({ "app_id": APP_ID, "access_token": ACCESS_TOKEN, "expires_at": MOMENT }),
    )
    .path([app_in_path()])
    .body([Field::optional::<i64>("ttl_seconds", words)
        .demand("minimum", 1)
        .demand("maximum", TTL_SECONDS_MAX)])
    .refuses([
        wrong_field("ttl_seconds", "expected an integer from 1 to 31622400, got 0"),
        describe::no_app(),
    ])
}

pub(super) fn describe_revoke() -> Described<RevokedTokens> {
    let token = Field::optional::<String>("access_token", "The token to end.");
    describe(
        "Revoke access tokens",
        "Ends one token or all of them, on every server within five seconds. The body says which: either `access_token`, or \
         `all`, which is `true`.",
        ("revoked", "How many there were."),
        json!({ "app_id": APP_ID, "revoked": 1 }),
    )
    .path([app_in_path()])
    .body([
        token.demand("minLength", 1).demand("maxLength", TOKEN_BYTES_MAX),
        Field::optional::<bool>("all", "`true`: every token of the app.").example(true),
    ])
    .refuses([
        problem("which_token", "Neither a token nor all of them, or both.", which_token()),
        describe::no_app(),
        problem("no_token", "The app has no such token.", no_token(&describe::app_id())),
    ])
}
