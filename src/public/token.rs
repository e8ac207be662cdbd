//! `/oauth2/access_token`: an app exchanges its secret for an access token (contract 6).

use axum::extract::{Request, State};
use axum::response::Response;
use domain::app::TOKEN_LIFETIME;
use domain::fields::FieldError;
use schemars::JsonSchema;
use serde::Serialize;

use super::app_secret::{self, Credentials, by_body, by_query, exactly, grant_type};
use super::auth::{example, token_credentials};
use super::extract::{succeeded, success};
use crate::config::Config;
use crate::http::rate_limit::Limited;
use crate::http::refusal::Refusal;
use crate::openapi::{ACCESS_TOKEN, Input, Operation, Success};
use crate::state::AppState;

/// The only kind of grant.
const GRANT_TYPE: &str = "client_credentials";
/// The parameters, in the order of their checks.
const PARAMETERS: [&str; 3] = ["app_id", "app_secret", "grant_type"];

/// GET with a query, or POST with a query, or a form, multipart or JSON body.
///
/// # Errors
/// 100200100, 100200101, 100200102 for a suspended app, 10000305.
pub async fn access_token(State(state): State<AppState>, request: Request) -> Result<Response, Refusal> {
    let (app, ()) = app_secret::admit(&PARAMETERS, &state, Limited::Tokens, request, parameters).await?;
    let issued = state.store.issue_token(&app.id, TOKEN_LIFETIME).await?;
    let (access_token, _) = issued.ok_or_else(|| token_credentials(&app.id))?;
    Ok(success(Issued::new(access_token)))
}

/// The data beside success.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AccessToken")]
struct Issued {
    #[schemars(regex(pattern = "^[0-9a-f]{64}$"))]
    access_token: String,
    /// Seconds.
    #[schemars(extend("enum" = [TOKEN_LIFETIME.as_secs()]))]
    expires_in: u64,
    #[schemars(extend("enum" = ["bearer"]))]
    token_type: &'static str,
}

impl Issued {
    fn new(access_token: String) -> Self {
        Self { access_token, expires_in: TOKEN_LIFETIME.as_secs(), token_type: "bearer" }
    }
}

fn parameters(input: &mut Input<'_>) -> Result<(Credentials, ()), FieldError> {
    let credentials = app_secret::credentials(input)?;
    grant_type(input, GRANT_TYPE).required_as::<String, _>(GRANT_TYPE, exactly(GRANT_TYPE))?;
    Ok((credentials, ()))
}

/// The text of the API's document about the request by query.
pub(super) fn describe_get(config: &Config) -> Operation<Refusal> {
    by_query(describe("Get an access token, by query", config), Input::describe(parameters))
}

/// The text of the API's document about the request by body.
pub(super) fn describe_post(config: &Config) -> Operation<Refusal> {
    by_body(describe("Get an access token, by body", config), Input::describe(parameters))
}

fn describe(summary: &'static str, config: &Config) -> Operation<Refusal> {
    let description = format!(
        "An app exchanges its secret for a token that lives for {} hours. A new token does not end an old one, up to {} live \
         ones of an app. One more ends the oldest.",
        TOKEN_LIFETIME.as_secs() / 3600,
        config.limits.tokens_per_app
    );
    Operation::new(summary, description)
        .answers(Success::json("issued", "A token.", &succeeded(Issued::new(ACCESS_TOKEN.to_owned()))))
        .refuses([app_secret::parameter(), app_secret::content_coded(), example::token_credentials()])
}
