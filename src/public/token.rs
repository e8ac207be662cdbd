//! `/oauth2/access_token`: an app exchanges its secret for an access token (contract 6).

use axum::extract::{FromRequestParts as _, Request, State};
use axum::http::Method;
use axum::response::Response;
use domain::app::TOKEN_LIFETIME;
use domain::fields::{Expected, Fields};
use serde::Serialize;

use super::extract::{QueryFields, fields_of_any_kind, success};
use crate::body::read_body;
use crate::error::{Code, Refusal};
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
    let (access_token, _) =
        issued.ok_or_else(|| Refusal::new(Code::TokenCredentials, "app_id or app_secret is wrong"))?;
    Ok(success(Issued { access_token, expires_in: TOKEN_LIFETIME.as_secs(), token_type: "bearer" }))
}

/// What comes beside success.
#[derive(Serialize)]
struct Issued {
    access_token: String,
    expires_in: u64,
    token_type: &'static str,
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
