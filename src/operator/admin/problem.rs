//! Problem details (RFC 9457): the error responses of the admin API.

use std::borrow::Cow;
use std::collections::BTreeSet;

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use domain::fields::{FieldError, UnreadableFields};
use domain::operation::{OperationRefusal, RefusalKind, Subject};
use domain::redaction::redacted;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use schemars::JsonSchema;
use serde::Serialize;
use store::{OperationError, StoreError};

use crate::http::json::json_response;
use crate::http::refusal::Refusal;

/// The characters that a URI leaves as they are.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// How long to wait before a repeat, where waiting helps.
const RETRY_AFTER_SECONDS: u32 = 1;

/// Declares the kinds. The comment of a row is the kind in words.
macro_rules! kinds {
    ($(#[doc = $title:literal] $kind:ident = $name:literal, $status:ident, $remedy:literal;)+) => {
        /// The kinds of problems. Their names never change.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum ProblemKind {
            $(#[doc = $title] $kind,)+
        }

        impl ProblemKind {
            /// Every kind, in the order of the enum.
            pub const ALL: [Self; [$(Self::$kind),+].len()] = [$(Self::$kind),+];

            /// Its name, in `type` and as an anchor of the page about problems.
            pub(crate) fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)+ }
            }

            /// The HTTP status.
            #[must_use]
            pub fn status(self) -> StatusCode {
                match self { $(Self::$kind => StatusCode::$status,)+ }
            }

            /// The kind in words, the same for every problem of it.
            pub(crate) fn title(self) -> &'static str {
                match self { $(Self::$kind => $title.trim_ascii(),)+ }
            }

            /// The next step of the caller.
            pub(crate) fn remedy(self) -> &'static str {
                match self { $(Self::$kind => $remedy,)+ }
            }
        }
    };
}

// Words, variant, name, HTTP status, and what the caller should do.
kinds! {
    /// The request cannot be read
    BadRequest = "bad-request", BAD_REQUEST, "Correct the request as `detail` says.";
    /// No valid API key
    Unauthorized = "unauthorized", UNAUTHORIZED,
        "Send `Authorization: Bearer mtk_...` with a key of `minitill api-key create`.";
    /// The API key may not do this
    Forbidden = "forbidden", FORBIDDEN, "Use a key whose role and apps allow the call, as `detail` says.";
    /// There is no such thing
    NotFound = "not-found", NOT_FOUND, "Look at the path: `detail` names what there is none of.";
    /// The path has other methods
    MethodNotAllowed = "method-not-allowed", METHOD_NOT_ALLOWED, "Use a method of `Allow`.";
    /// The body did not come in time
    RequestTimeout = "request-timeout", REQUEST_TIMEOUT, "Send the body faster.";
    /// It contradicts what is there
    Conflict = "conflict", CONFLICT, "Look at what is there; repeating changes nothing.";
    /// The body is too large
    ContentTooLarge = "content-too-large", PAYLOAD_TOO_LARGE, "Send less at once.";
    /// The body is of another type
    UnsupportedMediaType = "unsupported-media-type", UNSUPPORTED_MEDIA_TYPE,
        "Send the `Content-Type` that `detail` names.";
    /// A field is wrong
    InvalidField = "invalid-field", UNPROCESSABLE_ENTITY,
        "Correct the fields that `errors` names. Nothing was done.";
    /// The idempotency key stands for another request
    IdempotencyKeyReused = "idempotency-key-reused", UNPROCESSABLE_ENTITY,
        "Give each request a key of its own, and only repeats the same.";
    /// A fault of the service
    SystemError = "system-error", INTERNAL_SERVER_ERROR,
        "Repeat a write with the same idempotency key; tell the operator the `instance`.";
    /// The service is not available now
    Unavailable = "unavailable", SERVICE_UNAVAILABLE,
        "Repeat after `Retry-After`, a write with the same idempotency key.";
}

impl ProblemKind {
    /// Where it is told of, from the operator's listener.
    #[must_use]
    pub fn uri(self) -> String {
        format!("/docs/admin#problem-{}", self.name())
    }
}

/// A problem on its way to the caller.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// Its kind.
    pub kind: ProblemKind,
    /// What is wrong here, for people; never a secret.
    pub detail: String,
    /// Fields at fault, each with what is wrong with it.
    pub errors: Vec<FieldProblem>,
    /// A header that goes with it.
    pub(super) header: Option<Box<(HeaderName, HeaderValue)>>,
    /// Cause for the log; never sent.
    pub(super) cause: Option<String>,
    /// Whether the database ended a statement, because it took too long.
    pub(super) is_too_slow: bool,
}

impl Problem {
    /// A problem without more.
    pub(super) fn new(kind: ProblemKind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            detail: detail.into(),
            errors: Vec::new(),
            header: None,
            cause: None,
            is_too_slow: false,
        }
    }

    /// Fields that are wrong.
    pub(super) fn invalid(errors: Vec<FieldProblem>) -> Self {
        let named: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        Self {
            detail: format!("wrong: {}", named.join(", ")),
            errors,
            ..Self::new(ProblemKind::InvalidField, "")
        }
    }

    /// One field that is wrong.
    pub(super) fn field(name: &str, problem: impl Into<String>) -> Self {
        Self::invalid(vec![FieldProblem { detail: problem.into(), field: name.to_owned() }])
    }

    /// There is no such thing, in words that follow "there is".
    pub(super) fn none(what: impl std::fmt::Display) -> Self {
        Self::new(ProblemKind::NotFound, format!("there is {what}"))
    }

    /// A fault of ours.
    pub(super) fn internal(cause: impl Into<String>) -> Self {
        let detail = "the cause stands in the service's log under this instance";
        Self { cause: Some(cause.into()), ..Self::new(ProblemKind::SystemError, detail) }
    }

    /// Too much of the same is under way. It changes nothing to ask again.
    pub(super) fn busy(detail: impl Into<String>) -> Self {
        Self::new(ProblemKind::Unavailable, detail)
            .with_header(header::RETRY_AFTER, RETRY_AFTER_SECONDS.into())
    }

    fn unavailable(cause: String) -> Self {
        let detail = "the database is away or too busy; nothing is known to be done";
        let unavailable = Self { cause: Some(cause), ..Self::new(ProblemKind::Unavailable, detail) };
        unavailable.with_header(header::RETRY_AFTER, RETRY_AFTER_SECONDS.into())
    }

    /// The problem of a request that changes nothing. Where a statement takes too long, its caller can ask for less.
    pub(super) fn of_reading(self) -> Self {
        if self.is_too_slow { Self { detail: StoreError::TOO_SLOW.to_owned(), ..self } } else { self }
    }

    /// The problem with a header that goes with it.
    pub(super) fn with_header(self, name: HeaderName, value: HeaderValue) -> Self {
        Self { header: Some(Box::new((name, value))), ..self }
    }

    /// The body for a request of this id.
    #[must_use]
    pub fn body(&self, request_id: &str) -> ProblemBody<'_> {
        ProblemBody {
            detail: redacted(&self.detail),
            errors: self.errors.iter().map(FieldProblem::redacted).collect(),
            instance: utf8_percent_encode(request_id, UNRESERVED).to_string(),
            status: self.kind.status().as_u16(),
            title: self.kind.title(),
            kind: self.kind.uri(),
        }
    }

    pub(super) fn into_response(self, request_id: &str) -> Response {
        let mut response = json_response(self.kind.status(), &self.body(request_id));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some((name, value)) = self.header.map(|header| *header) {
            headers.insert(name, value);
        }
        response
    }
}

/// A problem as it goes over the wire (RFC 9457).
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub struct ProblemBody<'a> {
    /// What is wrong here.
    detail: Cow<'a, str>,
    /// The fields at fault.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldProblem>,
    /// The request's id.
    #[schemars(extend("format" = "uri-reference"))]
    instance: String,
    /// The status of HTTP.
    #[schemars(extend("enum" = statuses()))]
    status: u16,
    /// The kind in words.
    title: &'static str,
    /// What kind of problem it is: an address that explains it.
    #[serde(rename = "type")]
    #[schemars(extend("format" = "uri-reference", "enum" = ProblemKind::ALL.map(ProblemKind::uri)))]
    kind: String,
}

/// A field at fault.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FieldProblem {
    /// What is wrong with it.
    detail: String,
    /// Its name.
    field: String,
}

impl FieldProblem {
    /// The same without what looks like a credential (contract 2.8.5).
    fn redacted(&self) -> Self {
        Self { detail: redacted(&self.detail).into_owned(), field: redacted(&self.field).into_owned() }
    }
}

fn statuses() -> BTreeSet<u16> {
    ProblemKind::ALL.map(|kind| kind.status().as_u16()).into_iter().collect()
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let (cause, is_too_slow) = (error.to_string(), error.is_too_slow());
        match error {
            StoreError::Unavailable(..) if is_too_slow => Self { is_too_slow, ..Self::unavailable(cause) },
            StoreError::Unavailable(..)
            | StoreError::PicturesUnavailable(_)
            | StoreError::Overloaded
            | StoreError::Again
            // Seen only when what the other try was answered could not be read.
            | StoreError::Repeated => Self::unavailable(cause),
            StoreError::Internal(_) => Self::internal(cause),
        }
    }
}

impl From<OperationError> for Problem {
    fn from(error: OperationError) -> Self {
        match error {
            OperationError::Refused(refusal) => refusal.into(),
            OperationError::Store(error) => error.into(),
        }
    }
}

/// The words of a refusal, and what the caller can do next.
impl From<OperationRefusal> for Problem {
    fn from(refusal: OperationRefusal) -> Self {
        let detail = refusal.text.english();
        match refusal.kind {
            RefusalKind::Unknown(Subject::Player) => {
                let app_id = refusal.app_id.unwrap_or_default();
                let next = format!(
                    "a login makes a player known, and so do POST /apps/{app_id}/users and a credit with \"create\": true"
                );
                Self::new(ProblemKind::NotFound, format!("{detail}; {next}"))
            }
            RefusalKind::Unknown(_) => Self::new(ProblemKind::NotFound, detail),
            RefusalKind::Conflict | RefusalKind::Limit => Self::new(ProblemKind::Conflict, detail),
            RefusalKind::NotAllowed => Self::new(ProblemKind::Forbidden, detail),
            RefusalKind::Invalid(field) => Self::field(field, detail),
        }
    }
}

impl From<FieldError> for FieldProblem {
    fn from(error: FieldError) -> Self {
        Self { detail: error.problem.text().english(), field: error.field }
    }
}

impl From<FieldError> for Problem {
    fn from(error: FieldError) -> Self {
        vec![error].into()
    }
}

impl From<Vec<FieldError>> for Problem {
    fn from(errors: Vec<FieldError>) -> Self {
        Self::invalid(errors.into_iter().map(FieldProblem::from).collect())
    }
}

/// A query that cannot be read.
impl From<UnreadableFields> for Problem {
    fn from(error: UnreadableFields) -> Self {
        Self::new(ProblemKind::BadRequest, error.to_string())
    }
}

/// A body that did not come as it should.
impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let kind = match refusal.transport {
            Some(StatusCode::REQUEST_TIMEOUT) => ProblemKind::RequestTimeout,
            Some(StatusCode::PAYLOAD_TOO_LARGE) => ProblemKind::ContentTooLarge,
            Some(StatusCode::UNSUPPORTED_MEDIA_TYPE) => ProblemKind::UnsupportedMediaType,
            Some(StatusCode::SERVICE_UNAVAILABLE) => ProblemKind::Unavailable,
            Some(_) | None => ProblemKind::BadRequest,
        };
        let problem = Self { cause: refusal.cause, ..Self::new(kind, refusal.message.english()) };
        match kind {
            ProblemKind::Unavailable => problem.with_header(header::RETRY_AFTER, RETRY_AFTER_SECONDS.into()),
            _ => problem,
        }
    }
}
