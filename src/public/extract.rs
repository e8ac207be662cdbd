//! Readers of requests: query, form, JSON and multipart, every fault answered in the envelope.

use axum::body::{Body, Bytes};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::Response;
use domain::body::{BodyKind, without_mark};
use domain::fields::{Fields, Misplacement, UnreadableFields, no_form, shown_name};
use domain::text;
use schemars::JsonSchema;
use serde::Serialize;

use crate::config::Http;
use crate::http::body::{read_body, read_start};
use crate::http::json::json_response;
use crate::http::multipart::{self, PartHead};
use crate::http::refusal::{Code, Refusal};

/// The fields of a query.
///
/// # Errors
/// 10000200 for a query that cannot be read.
pub(super) fn query_fields(uri: &Uri) -> Result<Fields, UnreadableFields> {
    Fields::from_urlencoded(uri.query().unwrap_or_default().as_bytes())
}

/// The query of a call that takes these names from its query alone, and the body. A name that is absent
/// is refused whatever the body holds, so the body is only searched for it (contract 2.6.3).
///
/// # Errors
/// 10000200 for a query that cannot be read.
pub(super) async fn query_with(
    names: &[&str],
    limits: &Http,
    parts: &Parts,
    body: Body,
) -> Result<(Fields, Body), UnreadableFields> {
    let query = query_fields(&parts.uri)?;
    if names.iter().all(|name| query.text(name).is_some()) {
        return Ok((query, body));
    }
    let mut found = Fields::default();
    let start = read_start(limits, body).await;
    // A picture may follow what is looked for, so the start is not a whole body.
    let _ = read_any_kind(&mut found, &parts.headers, start).await;
    let found = query.beside(&found, Misplacement { expected: "query", got: "body" });
    Ok((
        found.beside(&header_credentials(&parts.headers), Misplacement { expected: "query", got: "header" }),
        Body::empty(),
    ))
}

/// The credentials that other services read from a header, and this one does not (contract 2.6.4). Only their names.
pub(super) fn header_credentials(headers: &HeaderMap) -> Fields {
    let mut found = Fields::default();
    // What stands behind the scheme need not be ASCII.
    let authorization = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    let names: &[&str] = match authorization.and_then(|value| value.split(|byte| *byte == b' ').next()) {
        Some(scheme) if scheme.eq_ignore_ascii_case(b"basic") => &["app_id", "app_secret"],
        Some(_) => &["access_token"],
        None if ["access-token", "x-access-token"].iter().any(|name| headers.contains_key(*name)) => {
            &["access_token"]
        }
        None => &[],
    };
    for name in names {
        let _ = found.add_text((*name).to_owned(), "in the header".to_owned());
    }
    found
}

/// The fields of a call that takes a form alone, decoded once. A field of the query gives no value, and neither does a
/// credential in a header. The refusal of an absent field only tells that it came there (contract 2.6.4).
///
/// # Errors
/// In this order:
///
/// 1. A query that cannot be read, though it gives no field: 10000200.
/// 2. A body that is too large, too slow or not whole: 413, 408 or 10000200.
/// 3. A body that is no form, or a form that cannot be read (contract 2.5 and 2.10): 10000200.
/// 4. No field in any of these places: 10000200.
pub(super) async fn read_form(limits: &Http, parts: &Parts, body: Body) -> Result<Fields, Refusal> {
    let query = query_fields(&parts.uri)?;
    let body = read_body(limits, body).await?;
    let place = Misplacement { expected: "form", got: "query" };
    let fields = Fields::from_form_body(&body)?.beside(&query, place);
    let place = Misplacement { expected: "form", got: "header" };
    let fields = fields.beside(&header_credentials(&parts.headers), place);
    if fields == Fields::default() {
        return Err(no_form(BodyKind::Nothing).into());
    }
    Ok(fields)
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
        let place = Misplacement { expected: "query or body", got: "header" };
        fields = fields.beside(&header_credentials(&parts.headers), place);
    }
    Ok(fields)
}

/// The fields of a small body whose kind the client chose: multipart by its content type, JSON
/// by its first character, else a form. Nothing, `{}` and `[]` are no fields (contract 5.2.2).
///
/// # Errors
/// 10000200 for a body that cannot be read.
pub async fn fields_of_any_kind(headers: &HeaderMap, body: Bytes) -> Result<Fields, Refusal> {
    let mut fields = Fields::default();
    read_any_kind(&mut fields, headers, body).await?;
    Ok(fields)
}

/// Fills `fields` with what the body has, and with what was read before a fault.
async fn read_any_kind(fields: &mut Fields, headers: &HeaderMap, body: Bytes) -> Result<(), Refusal> {
    if let Some(boundary) = multipart::boundary_of(headers, &body)? {
        return read_multipart(fields, boundary, body).await;
    }
    let trimmed = without_mark(&body).trim_ascii();
    let is_empty_array = trimmed.strip_prefix(b"[").is_some_and(|rest| rest.trim_ascii() == b"]");
    *fields = match BodyKind::of(trimmed) {
        BodyKind::Nothing => return Ok(()),
        BodyKind::Json if is_empty_array => return Ok(()),
        BodyKind::Json => Fields::from_json(trimmed)?,
        BodyKind::Form => Fields::from_urlencoded(trimmed)?,
        BodyKind::Multipart => return Err(multipart::not_multipart(headers)),
        got => {
            return Err(
                UnreadableFields::WrongKind { expected: text!("a form, JSON or multipart"), got }.into()
            );
        }
    };
    Ok(())
}

async fn read_multipart(fields: &mut Fields, boundary: String, body: Bytes) -> Result<(), Refusal> {
    let (start, delimiter) = (body.clone(), multipart::delimiter(&boundary));
    let unreadable = |error: multer::Error| {
        let fault = multipart::fault(&error, &start, &delimiter);
        Refusal::new(Code::IllegalParameter, text!("body: {fault}", fault))
    };
    let stream = futures_util::stream::iter([Ok::<_, std::convert::Infallible>(body)]);
    let mut multipart = multer::Multipart::new(stream, boundary);
    while let Some(part) = multipart.next_field().await.map_err(unreadable)? {
        multipart::check_transfer_coding(part.headers(), "body")?;
        let name = PartHead::of(part.headers()).name.unwrap_or_default();
        let bytes = part.bytes().await.map_err(unreadable)?;
        let is_picture = BodyKind::of(&bytes) == BodyKind::Picture;
        let value = String::from_utf8(bytes.into()).map_err(|_| {
            let fault = if is_picture {
                text!("{name}: expected UTF-8 text, got a picture", name = shown_name(&name))
            } else {
                text!("body: expected UTF-8 text")
            };
            Refusal::new(Code::IllegalParameter, fault)
        })?;
        fields.add_text(name, value)?;
    }
    Ok(())
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
