//! A request to the admin API, read in one order: the key, its role, the query, then the body.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{FromRequestParts as _, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, header};
use domain::console_user::Role;
use domain::fields::{Expected, Fields, parse_integer};
use domain::idempotency::IdempotentRequest;
use domain::ids::{AppId, IdempotencyKey};
use domain::operator::{Operator, OperatorKind};
use serde::Serialize;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use store::ApiKey;
use store::secrets::{answer_key, is_api_key, random_bytes, token_hash};

use super::problem::{Kind, Problem};
use super::{Access, Route, messages};
use crate::body::read_body;
use crate::state::AppState;

/// Header that names a write.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Elements of a page, unless asked otherwise.
pub(super) const PAGE_ITEMS: u32 = 50;
/// Most elements of a page.
pub(super) const PAGE_ITEMS_MAX: u32 = 200;

/// A request whose key was checked and whose body was read.
pub(super) struct Call {
    key: ApiKey,
    path: Vec<(String, String)>,
    query: Fields,
    /// The body's members.
    pub(super) input: Fields,
    once: Option<Named>,
}

/// What makes a request one that takes effect once.
struct Named {
    idempotency_key: IdempotencyKey,
    content: [u8; 32],
    attempt: [u8; 16],
    answer_key: [u8; 32],
}

impl Call {
    /// Reads a request as its route wants it.
    pub(super) async fn read(route: &Route, state: &AppState, request: Request) -> Result<Self, Problem> {
        let (mut parts, body) = request.into_parts();
        let (key, key_text) = authenticate(state, &parts.headers).await?;
        if route.access != Access::Read && key.role != Role::Admin {
            return Err(messages::viewers_key(key.name.as_str()));
        }
        let path = path_of(&mut parts).await?;
        let query = Fields::from_urlencoded(parts.uri.query().unwrap_or_default().as_bytes())?;
        let body = match route.access {
            Access::Read => Bytes::new(),
            Access::Check | Access::Replace | Access::Once => read_body(&state.config.http, body).await?,
        };
        if !body.is_empty() {
            require_json(&parts.headers)?;
        }
        let input = Fields::from_strict_json(&body)?;
        let once = match route.access {
            Access::Once => Some(Named {
                idempotency_key: idempotency_key(&parts.headers)?,
                content: content(route, parts.uri.path(), &body),
                attempt: random_bytes(),
                answer_key: answer_key(&key_text),
            }),
            Access::Read | Access::Check | Access::Replace => None,
        };
        let call = Self { key, path, query, input, once };
        if route.access != Access::Read {
            call.query(&[])?;
        }
        Ok(call)
    }

    /// Who changes something with this request, and what it will be answered as far as that is known now.
    pub(super) fn operator(&self, answer: &impl Serialize) -> Operator {
        let operator = Operator::new(OperatorKind::ApiKey, self.key.name.as_str())
            .expect("the name of an API key can be an operator's");
        match (self.once(), json!(answer)) {
            (Some(request), Value::Object(answer)) => {
                operator.once(Arc::new(IdempotentRequest { answer, ..request }))
            }
            (Some(request), _) => operator.once(Arc::new(request)),
            (None, _) => operator,
        }
    }

    /// The request by its idempotency key, where it has one.
    pub(super) fn once(&self) -> Option<IdempotentRequest> {
        self.once.as_ref().map(|named| IdempotentRequest {
            api_key: self.key.name.clone(),
            idempotency_key: named.idempotency_key.clone(),
            content: named.content,
            attempt: named.attempt,
            answer_key: named.answer_key,
            answer: Map::new(),
        })
    }

    /// The app of the path. A text that can be no app is none.
    pub(super) fn app_id(&self) -> Result<AppId, Problem> {
        self.segment("app_id", "app", AppId::parse)
    }

    /// A segment of the path; `what` it names.
    pub(super) fn segment<T>(
        &self,
        name: &str,
        what: &str,
        parse: impl FnOnce(&str) -> Result<T, Expected>,
    ) -> Result<T, Problem> {
        let text = self.path.iter().find(|(known, _)| known == name).map_or("", |(_, text)| text.as_str());
        parse(text).map_err(|Expected(expected)| {
            Problem::none(format_args!("no such {what}: expected {expected} in the path"))
        })
    }

    /// The query, whose every name must be one of these.
    pub(super) fn query(&self, known: &[&str]) -> Result<&Fields, Problem> {
        Ok(self.query.only(known)?)
    }

    /// Whether the key is an admin's.
    pub(super) fn is_admin(&self) -> bool {
        self.key.role == Role::Admin
    }

    /// Yes or no, in the query.
    pub(super) fn query_flag(&self, name: &str) -> Result<Option<bool>, Problem> {
        Ok(self.query.flag(name)?)
    }

    /// How many elements a page has.
    pub(super) fn limit(&self) -> Result<u32, Problem> {
        let parse = |text: &str| {
            parse_integer(text, 1, PAGE_ITEMS_MAX.into(), "an integer from 1 to 200")
                .map(|number| u32::try_from(number).unwrap_or(PAGE_ITEMS_MAX))
        };
        Ok(self.query.optional("limit", parse)?.unwrap_or(PAGE_ITEMS))
    }
}

/// Finds the API key that the request brings.
async fn authenticate(state: &AppState, headers: &HeaderMap) -> Result<(ApiKey, String), Problem> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return Err(messages::key_missing());
    };
    let text = value.to_str().unwrap_or_default();
    let token = text.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let Some(token) = token.map(|(_, token)| token.trim()) else {
        return Err(messages::key_missing());
    };
    // What can be no key costs no look-up.
    if !is_api_key(token) {
        return Err(messages::key_unknown());
    }
    let key = state.store.api_key(&token_hash(token)).await?.ok_or_else(messages::key_unknown)?;
    if key.is_revoked {
        return Err(messages::key_revoked());
    }
    Ok((key, token.to_owned()))
}

async fn path_of(parts: &mut Parts) -> Result<Vec<(String, String)>, Problem> {
    let params = RawPathParams::from_request_parts(parts, &()).await;
    let params =
        params.map_err(|_| Problem::new(Kind::BadRequest, "path: expected UTF-8 behind percent escapes"))?;
    Ok(params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

fn require_json(headers: &HeaderMap) -> Result<(), Problem> {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = value.split(';').next().unwrap_or_default().trim();
    if media_type.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(messages::not_json())
}

fn idempotency_key(headers: &HeaderMap) -> Result<IdempotencyKey, Problem> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let value = match (values.next(), values.next()) {
        (Some(value), None) => IdempotencyKey::parse(value.to_str().unwrap_or_default()).ok(),
        (_, _) => None,
    };
    value.ok_or_else(messages::idempotency_key_missing)
}

/// The hash of what a request asks for, whatever the order and spacing of its JSON: it tells a
/// repeat from another request with the same key.
fn content(route: &Route, path: &str, body: &[u8]) -> [u8; 32] {
    let body: Value = serde_json::from_slice(body).unwrap_or_else(|_| json!({}));
    Sha256::digest(format!("{} {path}\n{body}", route.method)).into()
}
