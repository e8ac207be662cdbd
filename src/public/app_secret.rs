//! Parameters of the calls with an app secret: the token request and the login (contract 6.1 and 11.1).
//! It has their forms and their description.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::{Method, Uri};
use domain::app::App;
use domain::fields::{Expected, FieldError};
use domain::ids::AppId;
use serde_json::json;

use super::auth::authenticate_secret;
use super::called_app::note_fields;
use super::describe::{ANY_KIND, SomeText};
use super::extract::{query_fields, query_or_body, query_with};
use crate::http::body::coded;
use crate::http::rate_limit::Limited;
use crate::http::refusal::{Code, Refusal};
use crate::openapi::{APP_ID, Example, Field, FieldReader, Input, Operation, Place};
use crate::state::AppState;

/// The app secret of all examples.
const APP_SECRET: &str = "a31f0c5d9e7b42868b1c6f0e2d4a5978a31f0c5d9e7b42868b1c6f0e2d4a5978";

/// What names an app and proves it.
pub(super) struct Credentials {
    pub(super) app_id: String,
    pub(super) app_secret: String,
}

/// Reads parameters of these names, of a GET from the query, else from the query or the body, and checks the app
/// secret. A secret in the query is checked before a body is read (contract 2.6.1).
///
/// # Errors
/// 100200100 for a parameter at fault and for a request that cannot be read; 408 and 413 keep 10000200. Then those of
/// [`authenticate_secret`].
pub(super) async fn admit<T>(
    names: &[&str],
    state: &AppState,
    limited: Limited,
    request: Request,
    read: fn(&mut Input<'_>) -> Result<(Credentials, T), FieldError>,
) -> Result<(Arc<App>, T), Refusal> {
    let (parts, body) = request.into_parts();
    let limits = &state.config.http;
    let proven = match (&parts.method, of_query(names, &parts.uri).map_err(of_parameters)?) {
        (&Method::GET, _) | (_, None) => None,
        (_, Some((app_id, secret))) => Some(authenticate_secret(state, &app_id, &secret, limited).await?),
    };
    let fields = match parts.method {
        Method::GET => {
            query_with(names, limits, &parts, body).await.map(|(query, _)| query).map_err(Refusal::from)
        }
        _ => query_or_body(names, limits, &parts, body).await,
    };
    let fields = fields.map_err(of_parameters)?;
    // Where the secret is in the body, the app is known later than its fields.
    if proven.is_some() {
        note_fields(&fields);
    }
    let parameters = read(&mut Input::of(&fields)).map_err(Refusal::from);
    let (Credentials { app_id, app_secret }, parameters) = parameters.map_err(of_parameters)?;
    let app = if let Some(app) = proven {
        app
    } else {
        let admitted = authenticate_secret(state, &app_id, &app_secret, limited).await;
        note_fields(&fields);
        admitted?
    };
    Ok((app, parameters))
}

/// The app and its secret, where the query has both and the body has to bring something else.
fn of_query(names: &[&str], uri: &Uri) -> Result<Option<(String, String)>, Refusal> {
    let query = query_fields(uri)?;
    let text = |name: &str| query.text(name).map(str::to_owned);
    let is_whole = names.iter().all(|name| query.text(name).is_some());
    Ok(text("app_id").zip(text("app_secret")).filter(|_| !is_whole))
}

/// A request that cannot be read has a code of its own here.
fn of_parameters(refusal: Refusal) -> Refusal {
    match refusal.code {
        Code::IllegalParameter if refusal.transport.is_none() => {
            Refusal { code: Code::TokenParameter, ..refusal }
        }
        _ => refusal,
    }
}

/// The app's id and secret.
pub(super) fn credentials(input: &mut Input<'_>) -> Result<Credentials, FieldError> {
    let app_id = input.field("app_id", "The app.").required_as::<AppId, _>(APP_ID, text)?;
    let app_secret = input.field("app_secret", "The secret that the operator handed out.");
    Ok(Credentials { app_id, app_secret: app_secret.required_as::<SomeText, _>(APP_SECRET, text)? })
}

/// Any text, as it came.
#[expect(clippy::unnecessary_wraps, reason = "a parser of a field may refuse")]
pub(super) fn text(text: &str) -> Result<String, Expected> {
    Ok(text.to_owned())
}

/// The field `grant_type`, which has this value alone.
pub(super) fn grant_type<'i, 'a>(input: &'i mut Input<'a>, only: &'static str) -> FieldReader<'i, 'a> {
    input.field("grant_type", format!("Always `{only}`.")).demand("enum", json!([only]))
}

/// Takes this text alone.
pub(super) fn exactly(only: &'static str) -> impl Fn(&str) -> Result<(), Expected> {
    move |text| if text == only { Ok(()) } else { Err(Expected::new(only)) }
}

/// The call by query.
pub(super) fn by_query(operation: Operation<Refusal>, fields: Vec<Field>) -> Operation<Refusal> {
    operation.with(Place::Query, fields)
}

/// The call by body.
pub(super) fn by_body(mut operation: Operation<Refusal>, fields: Vec<Field>) -> Operation<Refusal> {
    operation.description.push_str(" Each parameter may come in the query instead.");
    // Without an optional parameter, openapi-python-client makes a module that does not import.
    let id = Field::optional::<String>("X-Request-Id", "An id of yours; answer and log have the same.");
    operation.with(Place::Header, [id]).body(ANY_KIND, fields)
}

/// The example of a parameter at fault.
pub(super) fn parameter() -> Example<Refusal> {
    let words = "A parameter is missing or wrong; the text says which.";
    Example::new("token_parameter", words, Refusal::new(Code::TokenParameter, "app_secret is missing"))
}

/// The example of a body with a content coding. A call by query refuses it too, and it keeps its code.
pub(super) fn content_coded() -> Example<Refusal> {
    Example::new("content_coded", "The body has a content coding.", coded("gzip"))
}
