//! Access tokens of an app: issued at an operator's wish, and ended.

use std::time::Duration;

use domain::fields::Expected;
use domain::moment::rfc3339_of_millis;
use serde_json::{Value, json};
use store::secrets::token_hash;

use super::call::Call;
use super::messages::{no_app, no_token, which_token};
use super::problem::Problem;
use crate::state::AppState;
use domain::app::TOKEN_LIFETIME;

/// Longest life of a token, in seconds: a year.
pub const TTL_SECONDS_MAX: i64 = 366 * 86_400;

pub(super) async fn issue(state: &AppState, call: &Call) -> Result<Value, Problem> {
    let app_id = call.app_id()?;
    let seconds = call.input.only(&["ttl_seconds"])?.integer("ttl_seconds", 1, TTL_SECONDS_MAX)?;
    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
    let lifetime = seconds.map_or(TOKEN_LIFETIME, Duration::from_secs);
    let operator = call.operator(&json!({ "app_id": app_id.as_str() }));
    let issued = state.store.hand_out_token(&operator, &app_id, lifetime).await?;
    let (access_token, expires_at) = issued.ok_or_else(|| no_app(&app_id))?;
    Ok(json!({
        "app_id": app_id.as_str(),
        "access_token": access_token,
        "expires_at": rfc3339_of_millis(expires_at),
    }))
}

/// Ends one token, or all of them; which, must be said.
pub(super) async fn revoke(state: &AppState, call: &Call) -> Result<Value, Problem> {
    let app_id = call.app_id()?;
    let input = call.input.only(&["access_token", "all"])?;
    let token = input.optional("access_token", |text| {
        let fits = (1..=1024).contains(&text.len()) && !text.contains('\0');
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
    Ok(json!({ "app_id": app_id.as_str(), "revoked": revoked }))
}
