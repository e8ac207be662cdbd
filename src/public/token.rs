//! `/oauth2/access_token`: an app exchanges its secret for an access token (contract 6).

use axum::extract::{Request, State};
use axum::http::Method;
use axum::response::Response;
use domain::app::TOKEN_LIFETIME;
use domain::fields::{Expected, FieldError};
use domain::ids::AppId;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::auth::{authenticate_secret, example, token_credentials};
use super::describe::{ANY_KIND, SomeText};
use super::extract::{query_or_body, query_with, succeeded, success};
use crate::config::Config;
use crate::error::{Code, Refusal};
use crate::openapi::{ACCESS_TOKEN, APP_ID, Example, Field, Input, Operation, Place, Success};
use crate::state::AppState;

/// The only kind of grant.
const GRANT_TYPE: &str = "client_credentials";
/// The app secret of the example.
const APP_SECRET: &str = "a31f0c5d9e7b42868b1c6f0e2d4a5978a31f0c5d9e7b42868b1c6f0e2d4a5978";

/// GET with a query, or POST with a query, or a form, multipart or JSON body.
///
/// # Errors
/// 100200100, 100200101, 100200102 for a suspended app, 10000305.
pub async fn access_token(State(state): State<AppState>, request: Request) -> Result<Response, Refusal> {
    let (app_id, app_secret) = read(&state, request).await.map_err(as_token_parameter)?;
    let app = authenticate_secret(&state, &app_id, &app_secret).await?;
    let issued = state.store.issue_token(&app.id, TOKEN_LIFETIME).await?;
    let (access_token, _) = issued.ok_or_else(token_credentials)?;
    Ok(success(Issued::new(access_token)))
}

/// What comes beside success.
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

/// The parameters, in the order of their checks.
const PARAMETERS: [&str; 3] = ["app_id", "app_secret", "grant_type"];

/// The app's id and secret.
async fn read(state: &AppState, request: Request) -> Result<(String, String), Refusal> {
    let (parts, body) = request.into_parts();
    let limits = &state.config.http;
    let fields = match parts.method {
        Method::GET => query_with(&PARAMETERS, limits, &parts, body).await?.0,
        _ => query_or_body(&PARAMETERS, limits, &parts, body).await?,
    };
    Ok(credentials(&mut Input::of(&fields))?)
}

fn credentials(input: &mut Input<'_>) -> Result<(String, String), FieldError> {
    let text = |text: &str| Ok(text.to_owned());
    let app_id = input.field("app_id", "The app.").required_as::<AppId, _>(APP_ID, text)?;
    let app_secret = input.field("app_secret", "The secret that the operator handed out.");
    let app_secret = app_secret.required_as::<SomeText, _>(APP_SECRET, text)?;
    let grant_type = input.field("grant_type", format!("Always `{GRANT_TYPE}`."));
    let grant_type = grant_type.demand("enum", json!([GRANT_TYPE]));
    grant_type.required_as::<String, _>(GRANT_TYPE, |text| {
        if text == GRANT_TYPE { Ok(()) } else { Err(Expected::new(GRANT_TYPE)) }
    })?;
    Ok((app_id, app_secret))
}

/// On this endpoint a parameter at fault has a code of its own; 408 and 413 keep theirs.
fn as_token_parameter(refusal: Refusal) -> Refusal {
    if refusal.code == Code::IllegalParameter && refusal.transport.is_none() {
        Refusal { code: Code::TokenParameter, ..refusal }
    } else {
        refusal
    }
}

/// What the API's document says of the request by query.
pub(super) fn describe_get(_: &Config) -> Operation<Refusal> {
    describe("Get an access token, by query").with(Place::Query, Input::describe(credentials))
}

/// What the API's document says of the request by body.
pub(super) fn describe_post(_: &Config) -> Operation<Refusal> {
    // Without an optional parameter, openapi-python-client makes a module that does not import.
    let id = Field::optional::<String>("X-Request-Id", "An id of yours; answer and log have the same.");
    describe("Get an access token, by body")
        .with(Place::Header, [id])
        .body(ANY_KIND, Input::describe(credentials))
}

fn describe(summary: &'static str) -> Operation<Refusal> {
    let description = format!(
        "An app exchanges its secret for a token that lives for {} hours. A new token does not end an old one.",
        TOKEN_LIFETIME.as_secs() / 3600
    );
    let words = "A parameter is missing or wrong; the text says which.";
    let missing = Refusal::new(Code::TokenParameter, "app_secret is missing");
    Operation::new(summary, description)
        .answers(Success::json("issued", "A token.", &succeeded(Issued::new(ACCESS_TOKEN.to_owned()))))
        .refuses([Example::new("token_parameter", words, missing), example::token_credentials()])
}
