//! Access tokens of an app: issued at an operator's wish, and ended.

use std::time::Duration;

use domain::app::TOKEN_LIFETIME;
use domain::fields::Expected;
use domain::ids::AppId;
use domain::moment::rfc3339_of_millis;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use store::secrets::token_hash;

use super::call::Call;
use super::describe::{self, Described, MOMENT, app_in_path, describe, problem, wrong_field};
use super::messages::{no_app, no_token, which_token};
use super::problem::Problem;
use crate::openapi::{ACCESS_TOKEN, APP_ID, Field};
use crate::state::AppState;

/// Longest life of a token, in seconds: a year.
const TTL_SECONDS_MAX: i64 = 366 * 86_400;

/// Longest access token that is looked up, in bytes.
const TOKEN_BYTES_MAX: usize = 1024;

pub(super) async fn issue(state: &AppState, call: &Call) -> Result<Issued, Problem> {
    let app_id = call.app_id()?;
    let seconds = call.input.only(&["ttl_seconds"])?.integer("ttl_seconds", 1, TTL_SECONDS_MAX)?;
    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
    let lifetime = seconds.map_or(TOKEN_LIFETIME, Duration::from_secs);
    let operator = call.operator(&json!({ "app_id": app_id.as_str() }));
    let issued = state.store.hand_out_token(&operator, &app_id, lifetime).await?;
    let (access_token, expires_at) = issued.ok_or_else(|| no_app(&app_id))?;
    Ok(Issued { app_id, access_token, expires_at: rfc3339_of_millis(expires_at) })
}

/// Ends one token, or all of them; which, must be said.
pub(super) async fn revoke(state: &AppState, call: &Call) -> Result<Revoked, Problem> {
    let app_id = call.app_id()?;
    let input = call.input.only(&["access_token", "all"])?;
    let token = input.optional("access_token", |text| {
        let fits = (1..=TOKEN_BYTES_MAX).contains(&text.len()) && !text.contains('\0');
        if fits { Ok(token_hash(text.trim())) } else { Err(Expected::new("an access token")) }
    })?;
    let only = match (token, input.flag("all")?) {
        (Some(hash), None) => Some(hash),
        (None, Some(true)) => None,
        (Some(_) | None, Some(_)) | (None, None) => return Err(which_token()),
    };
    if state.store.find_app(&app_id).await?.is_none() {
        return Err(no_app(&app_id));
    }
    let operator = call.operator(&json!({ "app_id": app_id.as_str() }));
    let revoked = state.store.revoke_tokens(&operator, &app_id, only).await?;
    if only.is_some() && revoked == 0 {
        return Err(no_token(&app_id));
    }
    Ok(Revoked { app_id, revoked })
}

/// An access token, shown once.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "IssuedToken")]
pub(super) struct Issued {
    app_id: AppId,
    #[schemars(regex(pattern = "^[0-9a-f]{64}$"))]
    access_token: String,
    #[schemars(extend("format" = "date-time"))]
    expires_at: String,
}

/// How many tokens were revoked.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RevokedTokens")]
pub(super) struct Revoked {
    app_id: AppId,
    revoked: u64,
}

pub(super) fn describe_issue() -> Described<Issued> {
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

pub(super) fn describe_revoke() -> Described<Revoked> {
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
