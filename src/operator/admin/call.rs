//! A request to the admin API, read in one order: the key, its role, the query, then the body.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::extract::{FromRequestParts as _, RawPathParams, Request};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use domain::body::without_mark;
use domain::console_user::Role;
use domain::fields::{Expected, FieldError, Fields, shown};
use domain::idempotency::IdempotentRequest;
use domain::ids::{AppId, IdempotencyKey};
use domain::operator::{Operator, OperatorKind};
use domain::rights::Apps;
use domain::strays;
use domain::text::Text;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use store::secrets::{answer_key, is_api_key, random_bytes, token_hash};
use store::{ApiKey, SEARCH_PERIOD_DAYS_MAX};

use super::super::authorization::{Denied, admit, names_own_app};
use super::describe::limit;
use super::problem::{Problem, ProblemKind};
use super::{AdminRoute, RouteEffect, messages};
use crate::http::body::{read_body_of, refuse_coding_as_type};
use crate::http::operator_places::{AllTaken, OperatorPlace};
use crate::openapi::Input;
use crate::state::AppState;

/// Header that names a write.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// A request whose key was checked and whose body was read.
pub(super) struct Call {
    key: ApiKey,
    path: RawPathParams,
    /// The fields: of the query where the route reads, else of the body.
    pub(super) fields: Fields,
    /// What makes it a request that takes effect once.
    pub(super) once: Option<IdempotentRequest>,
    /// The file that its route takes, until the handler takes it.
    file: Mutex<Option<Body>>,
    /// How many coins of an exchange a key of the role support gives back.
    give_back_max: i64,
    /// How many coins its person moves in 24 hours without a second person.
    alone_max: Option<i64>,
    /// Its place on the operator's listener, while it uses the database.
    place: Mutex<Option<OperatorPlace>>,
}

impl Call {
    /// Reads a request as its route wants it.
    pub(super) async fn receive(
        route: &AdminRoute,
        state: &AppState,
        request: Request,
    ) -> Result<Self, Problem> {
        refuse_coding_as_type(&request)?;
        let (mut parts, body) = request.into_parts();
        let (key, key_text) = authenticate(state, &parts.headers).await?;
        let path = RawPathParams::from_request_parts(&mut parts, &()).await;
        let path = path.map_err(|_| {
            Problem::new(ProblemKind::BadRequest, "path: expected UTF-8 behind percent escapes")
        })?;
        let give_back_max = state.config.console.support_give_back_max;
        let alone_max = key.alone_max.or(state.config.console.alone_max());
        let app_id = path.iter().find(|(name, _)| *name == "app_id").map(|(_, app_id)| app_id);
        admit(&key.rights, route.need, route.reach(), app_id).map_err(|denied| match denied {
            Denied::Role => messages::not_for_role(key.name.as_str(), key.rights.role),
            Denied::AllAppsOnly => messages::all_apps_only(key.name.as_str()),
            Denied::NoSuchApp => no_such_app(app_id.unwrap_or_default()),
        })?;
        let query = Fields::from_urlencoded(parts.uri.query().unwrap_or_default().as_bytes())?;
        let call = Self {
            key,
            path,
            fields: query,
            once: None,
            file: Mutex::default(),
            give_back_max,
            alone_max,
            place: Mutex::default(),
        };
        if route.access == RouteEffect::Read {
            let call = call.of_own_app()?;
            call.demand_app(state).await?;
            return Ok(call);
        }
        if route.access == RouteEffect::File {
            let call = Self { file: Mutex::new(Some(body)), ..call }.of_own_app()?;
            return if has_type(&parts.headers, "text/csv") { Ok(call) } else { Err(messages::not_csv()) };
        }
        let bytes_max = route.access.body_bytes_max();
        let body = read_body_of(&state.config.http, body, bytes_max).await?;
        let body = without_mark(&body);
        if !body.is_empty() {
            has_type(&parts.headers, "application/json").then_some(()).ok_or_else(messages::not_json)?;
        }
        let fields = Fields::from_strict_json(body)?;
        let mut once = None;
        if route.access == RouteEffect::Once {
            once = Some(IdempotentRequest {
                api_key: call.key.name.clone(),
                idempotency_key: idempotency_key(&parts.headers)?,
                content: content(route, parts.uri.path(), body),
                attempt: random_bytes(),
                answer_key: answer_key(&key_text),
            });
        }
        call.fields.only(&[])?;
        Self { fields, once, ..call }.of_own_app()
    }

    /// The call, unless its field `app_id` names an app that is none of the key's.
    fn of_own_app(self) -> Result<Self, Problem> {
        let app_id = self.fields.text("app_id");
        if names_own_app(&self.key.rights, app_id) {
            Ok(self)
        } else {
            Err(no_such_app(app_id.unwrap_or_default()))
        }
    }

    /// Refuses to read of an app in the field `app_id` that does not exist: its lists would be empty for ever. The
    /// look-up is cached, so that a held poll costs no query of its own. What can be no id is left to the reader of the
    /// field. A failed look-up is left to the handler, which may need no secret of the app.
    async fn demand_app(&self, state: &AppState) -> Result<(), Problem> {
        let named = self.fields.text("app_id").and_then(|app_id| AppId::parse(app_id).ok());
        let Some(app_id) = named else { return Ok(()) };
        let is_unknown = matches!(state.store.find_app(&app_id).await, Ok(None));
        if is_unknown { Err(messages::no_app(&app_id)) } else { Ok(()) }
    }

    /// The apps of the key: a list has those alone.
    pub(super) fn apps(&self) -> &Apps {
        &self.key.rights.apps
    }

    /// The operator who changes something with this request.
    pub(super) fn operator(&self) -> Operator {
        let operator = Operator::new(OperatorKind::ApiKey, self.key.name.as_str())
            .expect("the name of an API key can be an operator's");
        let operator = match self.key.rights.role {
            Role::Support => operator.giving_back_at_most(self.give_back_max),
            Role::Viewer | Role::Finance | Role::Payments | Role::Developer | Role::Admin => operator,
        };
        let operator = match self.alone_max {
            Some(max) => operator.alone_up_to(max),
            None => operator,
        };
        match self.once.clone() {
            Some(request) => operator.once(Arc::new(request)),
            None => operator,
        }
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
        let text = self.path.iter().find(|(known, _)| *known == name).map_or("", |(_, text)| text);
        parse(text).map_err(|expected| Problem::none(format_args!("no such {what}: {expected} in the path")))
    }

    /// Its fields, as their reader reads them. Fields that the reader does not know are refused.
    pub(super) fn read<T>(
        &self,
        read: impl Fn(&mut Input<'_>) -> Result<T, FieldError>,
    ) -> Result<T, Problem> {
        let mut input = Input::of(&self.fields);
        let outcome = read(&mut input);
        let names = match outcome {
            Ok(_) => input.names().to_vec(),
            // The reader has stopped at this field, and the others are known as well.
            Err(_) => Input::describe(read).iter().map(|field| field.name).collect(),
        };
        self.fields.only(&names)?;
        Ok(outcome?)
    }

    /// The file that its route takes, as it comes. It can be taken once.
    pub(super) fn file(&self) -> Body {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default()
    }

    /// Refuses a search that no index bounds where it lacks a period. `searched` are its fields.
    pub(super) fn demand_period(&self, is_lacking: bool, searched: &str) -> Result<(), Problem> {
        let text = || {
            let got = self.fields.text("since").map_or_else(|| "nothing".to_owned(), shown);
            format!(
                "expected at most {SEARCH_PERIOD_DAYS_MAX} days before until, because {searched} have no index, got {got}"
            )
        };
        if is_lacking { Err(Problem::field("since", text())) } else { Ok(()) }
    }

    /// Takes a place for the key, unless the call has one, and waits a short while for it.
    pub(super) async fn take_place(&self, state: &AppState) -> Result<(), Problem> {
        let taken = || self.place.lock().unwrap_or_else(PoisonError::into_inner);
        if taken().is_none() {
            let place = state.operator_places.take(&self.holder()).await.map_err(|AllTaken| {
                Problem::busy("this API key has half of the places, or all are taken; ask less at once")
            })?;
            *taken() = Some(place);
        }
        Ok(())
    }

    /// Runs a search in the turn of the key, if no index bounds what it reads.
    pub(super) async fn search<T>(
        &self,
        state: &AppState,
        is_unbounded: bool,
        search: impl Future<Output = store::Result<T>>,
    ) -> Result<T, Problem> {
        let found = state.operator_places.search(&self.holder(), is_unbounded, search).await;
        let busy = |AllTaken| Problem::busy("other searches of this API key, or of others, are under way");
        Ok(found.map_err(busy)??)
    }

    fn holder(&self) -> String {
        format!("key {}", self.key.name.as_str())
    }

    /// Takes the place out of the call, whose client may then wait without one.
    pub(super) fn leave_place(&self) -> Option<OperatorPlace> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether the key is an admin's.
    pub(super) fn is_admin(&self) -> bool {
        self.key.rights.role == Role::Admin
    }

    /// How many elements a page has.
    pub(super) fn limit(&self) -> Result<u32, Problem> {
        Ok(limit(&mut Input::of(&self.fields))?)
    }
}

/// For a key of some apps there is no other app. A text that can be no app is none either.
fn no_such_app(app_id: &str) -> Problem {
    AppId::parse(app_id).map_or_else(
        |expected| Problem::none(format_args!("no such app: {expected}")),
        |app_id| messages::no_app(&app_id),
    )
}

/// Finds the API key that the request brings.
async fn authenticate(state: &AppState, headers: &HeaderMap) -> Result<(ApiKey, String), Problem> {
    let value = only_one(headers, &header::AUTHORIZATION).ok_or_else(messages::key_missing)?;
    let text = text_of(value);
    let token = bearer_token(&text).ok_or_else(messages::key_missing)?;
    // What can be no key costs no look-up.
    if !is_api_key(token) {
        return Err(unknown_key(token));
    }
    let key = state.store.api_key(&token_hash(token)).await?.ok_or_else(|| unknown_key(token))?;
    if key.is_revoked {
        return Err(messages::key_revoked());
    }
    Ok((key, token.to_owned()))
}

/// The refusal of a text that is no key. It says what is around the text, or what it is instead (contract 2.11).
fn unknown_key(token: &str) -> Problem {
    let unknown = messages::key_unknown();
    let told = strays::explained(Text::same(&unknown.detail), token);
    Problem { detail: told.english(), ..unknown }
}

/// The credentials behind the scheme. Only the blanks of HTTP are taken off: any other character is one to tell.
fn bearer_token(text: &str) -> Option<&str> {
    let (scheme, rest) = text.split_at_checked("bearer".len())?;
    let is_behind = |next: char| next == ' ' || !next.is_ascii();
    (scheme.eq_ignore_ascii_case("bearer") && rest.starts_with(is_behind)).then(|| rest.trim_ascii())
}

/// The value of a header that came once.
fn only_one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none())
}

/// The text of a header, in UTF-8 or in the coding that old clients use.
fn text_of(value: &HeaderValue) -> Cow<'_, str> {
    let bytes = value.as_bytes();
    std::str::from_utf8(bytes).map_or_else(|_| encoding_rs::mem::decode_latin1(bytes), Cow::Borrowed)
}

/// Whether the body is of this media type.
fn has_type(headers: &HeaderMap, expected: &str) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = value.split(';').next().unwrap_or_default().trim();
    media_type.eq_ignore_ascii_case(expected)
}

fn idempotency_key(headers: &HeaderMap) -> Result<IdempotencyKey, Problem> {
    let value = only_one(headers, &IDEMPOTENCY_KEY).and_then(|value| value.to_str().ok());
    let value = value.and_then(|text| IdempotencyKey::parse(text).ok());
    value.ok_or_else(messages::idempotency_key_missing)
}

/// The hash of what a request asks for, whatever the order and spacing of its JSON. It tells a
/// repeat from another request with the same key.
fn content(route: &AdminRoute, path: &str, body: &[u8]) -> [u8; 32] {
    let body: Value = serde_json::from_slice(body).unwrap_or_else(|_| json!({}));
    Sha256::digest(format!("{} {path}\n{body}", route.method)).into()
}
