//! Access tokens of an app: operators issue and revoke them.

use domain::app::TOKEN_LIFETIME;
use domain::fields::Fields;
use domain::operation::app::{
    AppAction, AppCommand, IssuedToken, RevokedTokens, TOKEN_BYTES_MAX, TTL_SECONDS_MAX,
};
use domain::operation::unknown_app;
use serde_json::json;
use store::TokenSummary;

use super::apps::command;
use super::call::Call;
use super::describe::{ListBody, MOMENT, answers, lists};
use super::messages::example;
use super::problem::Problem;
use super::routes::routes;
use crate::openapi::{ACCESS_TOKEN, APP_ID, Example, Field};
use crate::state::AppState;

/// The start of the hash of a token.
const TOKEN_HASH: &str = "2b1d6e0f9a3c4b57";

routes! { "Apps":
    /// List access tokens
    ///
    /// The valid tokens of an app by the start of their hash, newest first, at most 1,000. The tokens are not stored.
    GET "/apps/{app_id}/tokens", "listTokens", Read(Read): list -> ListBody<TokenSummary> =>
        lists("The tokens.", &json!({ "token": TOKEN_HASH, "issued_at": MOMENT, "expires_at": MOMENT }));
    /// Issue an access token
    ///
    /// Makes a token in the app's name, as the app gets one with its secret. No other token ends.
    POST "/apps/{app_id}/tokens", "issueToken", Once(Develop): command[IssueToken] -> IssuedToken =>
        answers("issued", "The token. It is shown once.", json!({
            "app_id": APP_ID, "access_token": ACCESS_TOKEN, "expires_at": MOMENT,
        }))
        .members([lifetime()])
        .wrong("ttl_seconds", "expected an integer from 1 to 31622400, got 0");
    /// Revoke access tokens
    ///
    /// Ends one token or all of them, on every server within five seconds. The body says which: either
    /// `access_token`, or `all`, which is `true`.
    POST "/apps/{app_id}/token-revocations", "revokeTokens", Once(Develop): command[RevokeTokens] -> RevokedTokens =>
        answers("revoked", "How many there were.", json!({ "app_id": APP_ID, "revoked": 1 }))
            .members(revocation())
            .refuses([neither(), example::no_token()]);
}

async fn list(state: &AppState, call: &Call) -> Result<ListBody<TokenSummary>, Problem> {
    call.fields.only(&[])?;
    let app_id = call.app_id()?;
    if state.store.find_app(&app_id).await?.is_none() {
        return Err(unknown_app(&app_id).into());
    }
    Ok(ListBody { items: state.store.tokens(&app_id).await?, next: None })
}

fn lifetime() -> Field {
    let words = format!("How long it lives; {} without it.", TOKEN_LIFETIME.as_secs());
    Field::optional::<i64>("ttl_seconds", words).demand("minimum", 1).demand("maximum", TTL_SECONDS_MAX)
}

fn revocation() -> [Field; 2] {
    let token = Field::optional::<String>(
        "access_token",
        "The token to end, or the first 16 digits of its hash, as the operator's log names it.",
    );
    let all = Field::optional::<bool>("all", "`true`: every token of the app.");
    [token.demand("minLength", 1).demand("maxLength", TOKEN_BYTES_MAX), all.example(true)]
}

fn neither() -> Example<Problem> {
    let refused = AppCommand::read(AppAction::RevokeTokens, &Fields::typed([]));
    let refused = refused.expect_err("no field names what to revoke");
    Example::new("which_token", "Neither a token nor all of them, or both.", refused)
}
