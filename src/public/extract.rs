//! How a request is read: query, form, JSON and multipart, every fault answered in the envelope.

use axum::body::{Body, Bytes};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::Response;
use domain::fields::{Fields, UnreadableFields};
use schemars::JsonSchema;
use serde::Serialize;

use crate::body::read_body;
use crate::config::Http;
use crate::error::{Code, Refusal, json_response};

/// The fields of a query.
///
/// # Errors
/// 10000200 for a query that cannot be read.
pub(super) fn query_fields(uri: &Uri) -> Result<Fields, UnreadableFields> {
    Fields::from_urlencoded(uri.query().unwrap_or_default().as_bytes())
}

/// Each of these names from the query, else from a small body of any kind. The body is read only for a
/// name that the query lacks.
///
/// # Errors
/// 10000200 for a query or a body that cannot be read, 408 and 413.
pub(super) async fn query_or_body(
    names: &[&str],
    limits: &Http,
    parts: &Parts,
    body: Body,
) -> Result<Fields, Refusal> {
    let mut fields = query_fields(&parts.uri)?;
    if names.iter().any(|name| fields.text(name).is_none()) {
        let body = read_body(limits, body).await?;
        fields.complete(names, &fields_of_any_kind(&parts.headers, body).await?);
    }
    Ok(fields)
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
