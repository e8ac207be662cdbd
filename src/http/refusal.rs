//! The refusal of a request, and its HTTP response. A handler returns a [`Refusal`]; the router
//! renders it with the names of its endpoint.

use std::any::Any;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
pub use domain::code::Code;
use domain::fields::{FieldError, UnreadableFields, shown};
use domain::language::Language;
use domain::redaction::redacted;
use domain::text;
use domain::text::Text;
use domain::wallet::Balances;
use schemars::JsonSchema;
use serde::Serialize;

use crate::http::json::json_response;
use crate::http::language;

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
    pub message: Text,
    /// Status that the transport asks for (contract 2.2); `None` for a business answer.
    pub transport: Option<StatusCode>,
    /// The value of `Retry-After`.
    pub retry_after: Option<Duration>,
    /// `data` beside a refusal: what helps the caller.
    pub data: Option<Advice>,
    /// Cause for the log; never sent.
    pub cause: Option<String>,
    /// Whether the endpoint has the names of service providers for the credentials (contract 4.1.3).
    pub has_provider_names: bool,
}

/// Names of fields as the rest of the service has them, each with the name of one endpoint.
pub type OwnNames = &'static [(&'static str, &'static str)];

/// A service provider's names of the credentials.
pub const PROVIDERS: OwnNames =
    &[("app_id", "component_app_id"), ("access_token", "authorizer_access_token")];

impl Refusal {
    /// A business refusal.
    #[must_use]
    pub fn new(code: Code, message: impl Into<Text>) -> Self {
        Self {
            code,
            message: message.into(),
            transport: None,
            retry_after: None,
            data: None,
            cause: None,
            has_provider_names: false,
        }
    }

    /// A refusal by the transport, with its status: 404, 405, 408 or 413.
    #[must_use]
    pub fn transport(status: StatusCode, message: impl Into<Text>) -> Self {
        Self { transport: Some(status), ..Self::new(Code::IllegalParameter, message) }
    }

    /// 404 for a path that this server does not have, and what more there is to say. Nobody is known there, so it is
    /// always English.
    #[must_use]
    pub fn no_such_endpoint(path: &str, more: &str) -> Self {
        let text = Text::same(format_args!("path: no such endpoint: \"{path}\"{more}"));
        Self::transport(StatusCode::NOT_FOUND, text)
    }

    /// 405 with the methods that the path has, and the one that came.
    #[must_use]
    pub fn wrong_method(methods: &[&str], came: &Method) -> Self {
        let (methods, got) = (methods.join(" or "), shown(came.as_str()));
        let text = text!("method: expected {methods}, got {got}", methods, got);
        Self::transport(StatusCode::METHOD_NOT_ALLOWED, text)
    }

    /// 503: too much to do, or the database is away. Safe to repeat.
    #[must_use]
    pub fn unavailable(message: impl Into<Text>, cause: impl Into<String>) -> Self {
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
            ..Self::new(Code::SystemError, "system error; send the same request again")
        }
    }

    /// 10000305 with the limit, to be tried again after `wait`.
    #[must_use]
    pub fn rate_limited(limit: impl Into<Text>, wait: Duration) -> Self {
        Self { retry_after: Some(wait), ..Self::new(Code::RateLimited, limit) }
    }

    /// A field that was refused: `code` where its value is at fault, 10000200 where it is absent
    /// or of a type that no field has.
    #[must_use]
    pub fn field(code: Code, error: &FieldError) -> Self {
        Self::new(if error.is_malformed() { code } else { Code::IllegalParameter }, error.text())
    }

    /// The status of the answer (contract 2.1.1 and 2.2).
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.transport.unwrap_or(StatusCode::OK)
    }

    /// The text as it is sent: a credential stays out of it, wherever it was put (contract 2.8.5).
    fn text(&self, language: Language) -> String {
        let text = redacted(&language::of(language, &self.message)).into_owned();
        // A text that is about a field begins with its name.
        let names: OwnNames = if self.has_provider_names { PROVIDERS } else { &[] };
        let field = names.iter().find(|(name, _)| text.split([':', '：', ' ']).next() == Some(name));
        field.map_or_else(|| text.clone(), |(name, own)| format!("{own}{}", &text[name.len()..]))
    }

    fn of_exchange(&self, language: Language) -> ExchangeRefusal<'_> {
        let msg = self.text(language);
        ExchangeRefusal { code: self.code.number(), msg, data: self.data.as_ref() }
    }

    fn of_others(&self, language: Language) -> OpenRefusal<'_> {
        let error_msg = self.text(language);
        OpenRefusal { result: self.code.number(), error_msg, data: self.data.as_ref() }
    }

    /// The body of the refusal in the envelope of its endpoint, in English.
    #[must_use]
    pub fn body(&self, envelope: Envelope) -> serde_json::Value {
        match envelope {
            Envelope::Exchange => serde_json::json!(self.of_exchange(Language::En)),
            Envelope::Open => serde_json::json!(self.of_others(Language::En)),
        }
    }

    /// Puts the refusal into the envelope of its endpoint.
    pub(crate) fn render(&self, envelope: Envelope, language: Language) -> Response {
        let status = self.status();
        let mut response = match envelope {
            Envelope::Exchange => json_response(status, &self.of_exchange(language)),
            Envelope::Open => json_response(status, &self.of_others(language)),
        };
        if let Some(wait) = self.retry_after {
            // Whole seconds, rounded up: a client that waits as told must not come too early.
            let seconds = u64::try_from(wait.as_millis().div_ceil(1000).max(1)).unwrap_or(u64::MAX);
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
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
        Self::new(Code::IllegalParameter, error.text())
    }
}

/// A refusal of the exchange (contract 3).
#[derive(Serialize, JsonSchema)]
pub(crate) struct ExchangeRefusal<'a> {
    /// The code of the refusal.
    code: u32,
    /// The field at fault, what was expected and what came.
    #[schemars(length(min = 1))]
    msg: String,
    /// Of a wrong signature, for a sandbox app; and of an insufficient balance, for every app.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ExchangeAdvice")]
    data: Option<&'a Advice>,
}

/// A refusal of the other endpoints (contract 2.1).
#[derive(Serialize, JsonSchema)]
pub(crate) struct OpenRefusal<'a> {
    /// The code of the refusal.
    result: u32,
    /// The field at fault, what was expected and what came.
    #[schemars(length(min = 1))]
    error_msg: String,
    /// Only a sandbox app gets it, and only when its URL cannot be fetched.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "FetchAdvice")]
    data: Option<&'a Advice>,
}

/// The data of a refusal for the caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Advice {
    /// About a signature (contract 3.7).
    Signature(SignatureAdvice),
    /// About a fetch (contract 5.3.17).
    Fetch(FetchAdvice),
    /// What the purses hold, which do not cover a deduction or are frozen.
    Balances(BalancesAdvice),
}

impl Advice {
    /// Both purses.
    #[must_use]
    pub fn of(balances: Balances) -> Self {
        let (free_balance, charge_balance) = (balances.free(), balances.charge());
        Self::Balances(BalancesAdvice { free_balance, charge_balance })
    }
}

/// The advice beside refusals of the calls of the wallet.
#[derive(JsonSchema)]
#[schemars(inline, untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum ExchangeAdvice {
    Signature(SignatureAdvice),
    Balances(BalancesAdvice),
}

/// Both purses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BalancesAdvice {
    /// Gifted currency.
    pub free_balance: i64,
    /// Charged currency.
    pub charge_balance: i64,
}

/// Why a URL was not fetched, for a sandbox app.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FetchAdvice {
    /// A name of contract 5.3.17.
    pub cause: &'static str,
}

/// What the server signed, for a sandbox app whose signature is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SignatureAdvice {
    /// Length of the string in bytes.
    pub bytes: usize,
    /// The well-known mistake that explains what came, if one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub mistake: Option<Box<str>>,
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

/// The text of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or_default()
}
