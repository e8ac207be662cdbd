//! How a request is read: query, form, JSON and multipart, every fault answered in the envelope.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use domain::app::Scope;
use domain::caller::Caller;
use domain::fields::Fields;
use schemars::JsonSchema;
use serde::Serialize;

use crate::body::read_body;
use crate::error::{Code, Refusal, json_response};
use crate::public::auth::{authenticate, require_scope};
use crate::rate_limit::Limited;
use crate::state::AppState;

/// Fields of the query.
pub struct QueryFields(pub Fields);

impl FromRequestParts<AppState> for QueryFields {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self, Refusal> {
        Ok(Self(Fields::from_urlencoded(parts.uri.query().unwrap_or_default().as_bytes())?))
    }
}

/// The caller of an order report, checked by the query before the body is read, with its scope.
pub struct ReportCaller(pub Caller);

impl FromRequestParts<AppState> for ReportCaller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Refusal> {
        let QueryFields(query) = QueryFields::from_request_parts(parts, state).await?;
        let caller = authenticate(state, &query, Limited::Reports).await?;
        require_scope(&caller, Scope::Epay)?;
        Ok(Self(caller))
    }
}

/// The caller of an upload by file, checked by the query before the body is read.
pub struct UploadCaller(pub Caller);

impl FromRequestParts<AppState> for UploadCaller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Refusal> {
        let QueryFields(query) = QueryFields::from_request_parts(parts, state).await?;
        authenticate(state, &query, Limited::Uploads).await.map(Self)
    }
}

/// A form body, whatever the content type says. The query gives nothing, but is held to the same rules.
pub struct FormFields(pub Fields);

impl FromRequest<AppState> for FormFields {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Refusal> {
        let (mut parts, body) = request.into_parts();
        QueryFields::from_request_parts(&mut parts, state).await?;
        Ok(Self(Fields::from_urlencoded(&read_body(&state.config.http, body).await?)?))
    }
}

/// A JSON body of one object, whatever the content type says.
pub struct JsonFields(pub Fields);

impl FromRequest<AppState> for JsonFields {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Refusal> {
        Ok(Self(Fields::from_json(&read_body(&state.config.http, request.into_body()).await?)?))
    }
}

/// The fields of a small body whose kind the client chose: multipart by its content type, JSON
/// by its first character, else a form. Nothing, `{}` and `[]` are no fields (contract 5).
///
/// # Errors
/// 10000200 for a body that cannot be read.
pub async fn fields_of_any_kind(headers: &HeaderMap, body: Bytes) -> Result<Fields, Refusal> {
    if let Some(boundary) = multipart_boundary(headers) {
        return multipart_fields(boundary, body).await;
    }
    let trimmed = body.trim_ascii();
    let is_empty_array = trimmed.strip_prefix(b"[").is_some_and(|rest| rest.trim_ascii() == b"]");
    if trimmed.is_empty() || is_empty_array {
        return Ok(Fields::default());
    }
    let is_json = matches!(trimmed[0], b'{' | b'[');
    Ok(if is_json { Fields::from_json(trimmed)? } else { Fields::from_urlencoded(trimmed)? })
}

/// The boundary of a multipart body, when the content type says that it is one.
#[must_use]
pub fn multipart_boundary(headers: &HeaderMap) -> Option<String> {
    let content_type = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    multer::parse_boundary(content_type).ok()
}

async fn multipart_fields(boundary: String, body: Bytes) -> Result<Fields, Refusal> {
    let unreadable = |error: multer::Error| Refusal::new(Code::IllegalParameter, format!("body: {error}"));
    let stream = futures_util::stream::iter([Ok::<_, std::convert::Infallible>(body)]);
    let mut multipart = multer::Multipart::new(stream, boundary);
    let mut fields = Fields::default();
    while let Some(part) = multipart.next_field().await.map_err(unreadable)? {
        let name = part.name().unwrap_or_default().to_owned();
        let bytes = part.bytes().await.map_err(unreadable)?;
        let value = String::from_utf8(bytes.to_vec())
            .map_err(|_| Refusal::new(Code::IllegalParameter, "body: expected UTF-8 text"))?;
        fields.add_text(name, value)?;
    }
    Ok(fields)
}

/// A success of the order, image and token endpoints, with what comes beside it (contract 2.1).
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "{T}Answer")]
pub(super) struct Succeeded<T> {
    #[schemars(extend("enum" = [1]))]
    result: u8,
    #[schemars(extend("enum" = ["success"]))]
    error_msg: &'static str,
    #[serde(flatten)]
    more: T,
}

/// A success and what comes beside it.
pub(super) fn succeeded<T>(more: T) -> Succeeded<T> {
    Succeeded { result: 1, error_msg: "success", more }
}

/// `{"result":1,"error_msg":"success"}` and what comes beside it.
pub fn success(more: impl Serialize) -> Response {
    json_response(StatusCode::OK, &succeeded(more))
}
