//! `/oauth2/access_token`: an app exchanges its secret for an access token (contract 6).

use axum::extract::{FromRequestParts as _, Request, State};
use axum::http::Method;
use axum::response::Response;
use domain::app::TOKEN_LIFETIME;
use domain::fields::{Expected, Fields};
use domain::ids::AppId;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::describe::{ANY_KIND, SomeText, body_refusals, faults, rate_limited, refused, suspended, told};
use super::extract::{QueryFields, fields_of_any_kind, succeeded, success};
use crate::body::read_body;
use crate::config::Config;
use crate::error::{Code, Refusal};
use crate::openapi::{ACCESS_TOKEN, APP_ID, Field, Operation, Place, Success};
use crate::public::auth::authenticate_secret;
use crate::state::AppState;

/// GET with a query, or POST with a form, multipart or JSON body.
///
/// # Errors
/// 100200100, 100200101, 100200102 for a suspended app, 10000305.
pub async fn access_token(State(state): State<AppState>, request: Request) -> Result<Response, Refusal> {
    let fields = read_fields(&state, request).await.map_err(as_token_parameter)?;
    let text = |name: &str| {
        fields
            .required(name, |text| Ok::<_, Expected>(text.to_owned()))
            .map_err(|error| Refusal::new(Code::TokenParameter, error.to_string()))
    };
    let (app_id, app_secret) = (text("app_id")?, text("app_secret")?);
    fields
        .required("grant_type", parse_grant_type)
        .map_err(|error| Refusal::new(Code::TokenParameter, error.to_string()))?;
    let app = authenticate_secret(&state, &app_id, &app_secret).await?;
    let issued = state.store.issue_token(&app.id, TOKEN_LIFETIME).await?;
    let (access_token, _) = issued.ok_or_else(wrong_credentials)?;
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

async fn read_fields(state: &AppState, request: Request) -> Result<Fields, Refusal> {
    let (mut parts, body) = request.into_parts();
    let QueryFields(query) = QueryFields::from_request_parts(&mut parts, state).await?;
    if parts.method == Method::GET {
        return Ok(query);
    }
    fields_of_any_kind(&parts.headers, read_body(&state.config.http, body).await?).await
}

fn parse_grant_type(text: &str) -> Result<(), Expected> {
    if text == "client_credentials" { Ok(()) } else { Err(Expected::new("client_credentials")) }
}

/// On this endpoint a parameter at fault has a code of its own; 408 and 413 keep theirs.
fn as_token_parameter(refusal: Refusal) -> Refusal {
    if refusal.code == Code::IllegalParameter && refusal.transport.is_none() {
        Refusal { code: Code::TokenParameter, ..refusal }
    } else {
        refusal
    }
}

fn wrong_credentials() -> Refusal {
    Refusal::new(Code::TokenCredentials, "app_id or app_secret is wrong")
}

/// What the API's document says of the request by query.
#[must_use]
pub fn describe_get(_: &Config) -> Operation<Refusal> {
    describe("Get an access token, by query").with(Place::Query, fields())
}

/// What the API's document says of the request by body.
#[must_use]
pub fn describe_post(config: &Config) -> Operation<Refusal> {
    // Without an optional parameter, openapi-python-client makes a module that does not import.
    let id = Field::optional::<String>("X-Request-Id", "An id of yours; answer and log have the same.");
    let operation =
        ANY_KIND.into_iter().fold(describe("Get an access token, by body"), |operation, media_type| {
            operation.body(media_type, fields())
        });
    let refusals = body_refusals(config.http.body_bytes_max, config.http.body_timeout);
    operation.with(Place::Header, [id]).refuses(refusals)
}

fn describe(summary: &'static str) -> Operation<Refusal> {
    let description = format!(
        "An app exchanges its secret for a token that lives for {} hours. A new token does not end an old one.",
        TOKEN_LIFETIME.as_secs() / 3600
    );
    Operation::new(summary, description)
        .answers(Success::json("issued", "A token.", &succeeded(Issued::new(ACCESS_TOKEN.to_owned()))))
        .refuses([
            told(
                "token_parameter",
                "A parameter is missing or wrong; the text says which.",
                Code::TokenParameter,
                "app_secret is missing",
            ),
            refused(
                "token_credentials",
                "There is no such app, or the secret does not belong to it.",
                wrong_credentials(),
            ),
            suspended(),
            rate_limited(),
        ])
        .refuses(faults())
}

fn fields() -> Vec<Field> {
    let secret = "a31f0c5d9e7b42868b1c6f0e2d4a5978a31f0c5d9e7b42868b1c6f0e2d4a5978";
    let always = "client_credentials";
    vec![
        Field::required::<AppId>("app_id", APP_ID, "The app."),
        Field::required::<SomeText>("app_secret", secret, "The secret that the operator handed out."),
        Field::required::<String>("grant_type", always, format!("Always `{always}`."))
            .demand("enum", json!([always])),
    ]
}
