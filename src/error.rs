//! The code table of contract 7 as one enum, and the one type every refusal travels in until the
//! router renders it in the envelope of its endpoint.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use domain::fields::{FieldError, FieldProblem, UnreadableFields};
use schemars::JsonSchema;
use serde::Serialize;

/// A row of the code table. Rows that share a number differ in the status that
/// `http.error_status = "rest"` gives them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// 100200100: a parameter of a token request is missing or wrong.
    TokenParameter,
    /// 100200101: `app_id` or `app_secret` of a token request is wrong.
    TokenCredentials,
    /// 100200102: credentials absent, unknown or expired.
    Unauthorised,
    /// 100200102: known, but not allowed: the app is suspended or lacks a scope.
    Forbidden,
    /// 100200114: the signature does not match.
    BadSignature,
    /// 10000200: illegal parameter.
    IllegalParameter,
    /// 10000303: image blocked by risk control.
    ImageBlocked,
    /// 10000305: rate limited.
    RateLimited,
    /// 10000417: uploaded image does not exist.
    ImageNotFound,
    /// 10000419: illegal url.
    IllegalUrl,
    /// 10000423: illegal open id.
    IllegalOpenId,
    /// 10000500: system error.
    SystemError,
    /// 10000601: insufficient balance.
    InsufficientBalance,
    /// 10000602: `biz_no` already used with other content.
    BizNoConflict,
    /// 10000603: `biz_no` expired.
    BizNoExpired,
    /// 10000604: `ts` outside the accepted window.
    TsOutsideWindow,
    /// 10001007: illegal path.
    IllegalPath,
    /// 10002003: illegal poi id.
    IllegalPoiId,
    /// 10002018: order not found.
    OrderNotFound,
}

impl Code {
    /// Every row, for the tests and the documents that walk the table.
    pub const ALL: [Self; 19] = [
        Self::TokenParameter,
        Self::TokenCredentials,
        Self::Unauthorised,
        Self::Forbidden,
        Self::BadSignature,
        Self::IllegalParameter,
        Self::ImageBlocked,
        Self::RateLimited,
        Self::ImageNotFound,
        Self::IllegalUrl,
        Self::IllegalOpenId,
        Self::SystemError,
        Self::InsufficientBalance,
        Self::BizNoConflict,
        Self::BizNoExpired,
        Self::TsOutsideWindow,
        Self::IllegalPath,
        Self::IllegalPoiId,
        Self::OrderNotFound,
    ];

    /// The number on the wire.
    #[must_use]
    pub fn number(self) -> u32 {
        match self {
            Self::TokenParameter => 100_200_100,
            Self::TokenCredentials => 100_200_101,
            Self::Unauthorised | Self::Forbidden => 100_200_102,
            Self::BadSignature => 100_200_114,
            Self::IllegalParameter => 10_000_200,
            Self::ImageBlocked => 10_000_303,
            Self::RateLimited => 10_000_305,
            Self::ImageNotFound => 10_000_417,
            Self::IllegalUrl => 10_000_419,
            Self::IllegalOpenId => 10_000_423,
            Self::SystemError => 10_000_500,
            Self::InsufficientBalance => 10_000_601,
            Self::BizNoConflict => 10_000_602,
            Self::BizNoExpired => 10_000_603,
            Self::TsOutsideWindow => 10_000_604,
            Self::IllegalPath => 10_001_007,
            Self::IllegalPoiId => 10_002_003,
            Self::OrderNotFound => 10_002_018,
        }
    }

    /// The meaning in contract 7.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::TokenParameter => "token request: a parameter is missing or wrong",
            Self::TokenCredentials => "token request: app_id or app_secret is wrong",
            Self::Unauthorised => "authorisation error: credentials absent, unknown or expired",
            Self::Forbidden => "authorisation error: the app is suspended or lacks a scope",
            Self::BadSignature => "the signature does not match",
            Self::IllegalParameter => "illegal parameter",
            Self::ImageBlocked => "image blocked by risk control",
            Self::RateLimited => "rate limited",
            Self::ImageNotFound => "uploaded image does not exist",
            Self::IllegalUrl => "illegal url",
            Self::IllegalOpenId => "illegal open id",
            Self::SystemError => "system error",
            Self::InsufficientBalance => "insufficient balance",
            Self::BizNoConflict => "biz_no already used with other content",
            Self::BizNoExpired => "biz_no expired",
            Self::TsOutsideWindow => "ts outside the accepted window",
            Self::IllegalPath => "illegal path",
            Self::IllegalPoiId => "illegal poi id",
            Self::OrderNotFound => "order not found",
        }
    }

    /// The status where the operator asked for statuses (contract 2.3).
    fn rest_status(self) -> StatusCode {
        match self {
            Self::TokenParameter => StatusCode::BAD_REQUEST,
            Self::TokenCredentials | Self::Unauthorised | Self::BadSignature => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::BizNoConflict => StatusCode::CONFLICT,
            Self::RateLimited => StatusCode::TOO_MANY_REQUESTS,
            Self::SystemError => StatusCode::INTERNAL_SERVER_ERROR,
            Self::IllegalParameter
            | Self::ImageBlocked
            | Self::ImageNotFound
            | Self::IllegalUrl
            | Self::IllegalOpenId
            | Self::InsufficientBalance
            | Self::BizNoExpired
            | Self::TsOutsideWindow
            | Self::IllegalPath
            | Self::IllegalPoiId
            | Self::OrderNotFound => StatusCode::UNPROCESSABLE_ENTITY,
        }
    }
}

/// How a business refusal is put into a status (contract 2.3).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ErrorStatus {
    /// Always 200.
    #[default]
    Platform,
    /// A status of its own for each code.
    Rest,
}

/// The names that an endpoint's JSON answers have (contract 2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Envelope {
    /// `code` and `msg`.
    Exchange,
    /// `result` and `error_msg`.
    Open,
}

/// What a caller is told instead of success. It becomes a response only in the router, which
/// knows the envelope.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// Row of the code table.
    pub code: Code,
    /// Field at fault, what was expected and what came; never a secret.
    pub message: String,
    /// Status that the transport asks for (contract 2.2); `None` for a business answer.
    pub transport: Option<StatusCode>,
    /// What `Retry-After` says.
    pub retry_after: Option<Duration>,
    /// `data` beside a refusal: only a sandbox's signature diagnosis has it.
    pub data: Option<SignatureAdvice>,
    /// Cause for the log; never sent.
    pub cause: Option<String>,
}

impl Refusal {
    /// A business refusal.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), transport: None, retry_after: None, data: None, cause: None }
    }

    /// A refusal by the transport, with its status: 404, 405, 408 or 413.
    #[must_use]
    pub fn transport(status: StatusCode, message: impl Into<String>) -> Self {
        Self { transport: Some(status), ..Self::new(Code::IllegalParameter, message) }
    }

    /// 503: too much to do, or the database is away. Safe to repeat.
    #[must_use]
    pub fn unavailable(message: impl Into<String>, cause: impl Into<String>) -> Self {
        Self {
            transport: Some(StatusCode::SERVICE_UNAVAILABLE),
            retry_after: Some(Duration::from_secs(1)),
            cause: Some(cause.into()),
            ..Self::new(Code::SystemError, message)
        }
    }

    /// 500: a fault of ours.
    #[must_use]
    pub fn internal(cause: impl Into<String>) -> Self {
        Self {
            transport: Some(StatusCode::INTERNAL_SERVER_ERROR),
            cause: Some(cause.into()),
            ..Self::new(Code::SystemError, "system error")
        }
    }

    /// 10000305, to be tried again after `wait`.
    #[must_use]
    pub fn rate_limited(wait: Duration) -> Self {
        Self { retry_after: Some(wait), ..Self::new(Code::RateLimited, "too many requests, try again later") }
    }

    /// A field that was refused: `code` where its value is at fault, 10000200 where it is absent
    /// or of a type that no field has.
    #[must_use]
    pub fn field(code: Code, error: &FieldError) -> Self {
        match error.problem {
            FieldProblem::Malformed { .. } => Self::new(code, error.to_string()),
            FieldProblem::Missing | FieldProblem::WrongType { .. } => {
                Self::new(Code::IllegalParameter, error.to_string())
            }
        }
    }

    /// The status of the answer under a setting of `http.error_status` (contract 2.2 and 2.3).
    pub(crate) fn status(&self, error_status: ErrorStatus) -> StatusCode {
        self.transport.unwrap_or_else(|| match error_status {
            ErrorStatus::Platform => StatusCode::OK,
            ErrorStatus::Rest => self.code.rest_status(),
        })
    }

    fn of_exchange(&self) -> ExchangeRefusal<'_> {
        ExchangeRefusal { code: self.code.number(), msg: &self.message, data: self.data.as_ref() }
    }

    fn of_others(&self) -> OpenRefusal<'_> {
        OpenRefusal { result: self.code.number(), error_msg: &self.message }
    }

    /// The body of the refusal in the envelope of its endpoint.
    #[must_use]
    pub fn body(&self, envelope: Envelope) -> serde_json::Value {
        match envelope {
            Envelope::Exchange => serde_json::json!(self.of_exchange()),
            Envelope::Open => serde_json::json!(self.of_others()),
        }
    }

    /// Puts the refusal into the envelope of its endpoint.
    pub(crate) fn render(&self, envelope: Envelope, error_status: ErrorStatus) -> Response {
        let status = self.status(error_status);
        let mut response = match envelope {
            Envelope::Exchange => json_response(status, &self.of_exchange()),
            Envelope::Open => json_response(status, &self.of_others()),
        };
        if let Some(wait) = self.retry_after {
            // Whole seconds, rounded up: a client that waits as told must not come too early.
            let seconds = wait.as_millis().div_ceil(1000).max(1).to_string();
            if let Ok(value) = HeaderValue::from_str(&seconds) {
                response.headers_mut().insert(header::RETRY_AFTER, value);
            }
        }
        response
    }
}

impl From<FieldError> for Refusal {
    fn from(error: FieldError) -> Self {
        Self::field(Code::IllegalParameter, &error)
    }
}

impl From<UnreadableFields> for Refusal {
    fn from(error: UnreadableFields) -> Self {
        Self::new(Code::IllegalParameter, error.to_string())
    }
}

/// A refusal of the exchange (contract 3).
#[derive(Serialize, JsonSchema)]
pub(crate) struct ExchangeRefusal<'a> {
    /// The code of the refusal.
    code: u32,
    /// The field at fault, what was expected and what came.
    #[schemars(length(min = 1))]
    msg: &'a str,
    /// Only a sandbox app gets it, and only when its signature is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "SignatureAdvice")]
    data: Option<&'a SignatureAdvice>,
}

/// A refusal of the other endpoints (contract 2.1).
#[derive(Serialize, JsonSchema)]
pub(crate) struct OpenRefusal<'a> {
    /// The code of the refusal.
    result: u32,
    /// The field at fault, what was expected and what came.
    #[schemars(length(min = 1))]
    error_msg: &'a str,
}

/// What the server signed, for a sandbox app whose signature is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SignatureAdvice {
    /// Length of the string in bytes.
    pub bytes: usize,
    /// The well-known mistake that explains what came, if one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub mistake: Option<&'static str>,
    /// The string that the server signed.
    pub string_to_sign: String,
}

/// The refusal travels as an extension of an empty response; the router renders it.
impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        response.extensions_mut().insert(self);
        response
    }
}

/// One JSON object with the headers that every answer has (contract 2.1).
pub(crate) fn json_response(status: StatusCode, body: &impl Serialize) -> Response {
    let bytes = serde_json::to_vec(body).unwrap_or_default();
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_number_that_no_client_reads_as_success() {
        for code in Code::ALL {
            assert!(code.number() > 1, "{code:?}");
        }
    }

    #[test]
    fn statuses_are_asked_for_or_always_200() {
        let status =
            |code: Code, setting| Refusal::new(code, "m").render(Envelope::Open, setting).status().as_u16();
        let expected =
            [400, 401, 401, 403, 401, 422, 422, 429, 422, 422, 422, 500, 422, 409, 422, 422, 422, 422, 422];
        for (code, expected) in Code::ALL.into_iter().zip(expected) {
            assert_eq!(status(code, ErrorStatus::Platform), 200, "{code:?}");
            assert_eq!(status(code, ErrorStatus::Rest), expected, "{code:?}");
        }
    }
}
