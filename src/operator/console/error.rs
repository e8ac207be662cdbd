//! Errors of the console. A handler returns one, and the guard shows its page: what went wrong, and what
//! the user can do.

use askama::Template;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use domain::fields::{FieldError, FieldErrorKind, UnreadableFields};
use domain::language::Language;
use domain::operation::{OperationRefusal, RefusalKind, Subject, unknown_app};
use domain::rights::Need;
use domain::text;
use domain::text::Text;
use store::secrets::Unhashable;
use store::{OperationError, StoreError};

use super::i18n::{language, said, sentence, word};
use super::labels::label_of;
use super::page::Page;
use super::session::SignedIn;
use crate::http::refusal::Refusal;
use crate::operator::oidc::OidcFault;

/// Why a page or a change failed, in the words of its page.
#[derive(Debug, Clone)]
pub(super) struct ConsoleError {
    pub(super) status: StatusCode,
    title: &'static str,
    /// What went wrong, in whole sentences.
    what: Text,
    /// What the user can do.
    what_next: &'static str,
    /// The cause, for the log.
    pub(super) cause: String,
}

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage<'a> {
    page: Page<'a>,
    error: &'a ConsoleError,
    /// Whether the page leads back to a form: the browser keeps what was typed there.
    leads_back: bool,
}

impl ConsoleError {
    /// Nobody is signed in.
    pub(super) const SIGN_IN_FIRST: Self = Self::new(
        StatusCode::FORBIDDEN,
        "Sign in first",
        "You are not signed in, or your session has ended.",
        "Nothing was changed. Sign in and send the form again.",
    );
    /// Somebody requested what only admins may do.
    pub(super) const ADMINS_ONLY: Self = Self::new(
        StatusCode::FORBIDDEN,
        "Admins only",
        "Your role does not allow this.",
        "Nothing was changed. Ask an admin to make the change. \
         To change your role, run minitill console-user set-role on the server.",
    );
    /// Somebody requested what another role may do, and theirs may not.
    const NOT_FOR_ROLE: Self = Self::new(
        StatusCode::FORBIDDEN,
        "Not for your role",
        "Your role does not allow this.",
        "Nothing was changed. Ask an admin to make the change. \
         To change your role, run minitill console-user set-role on the server.",
    );
    /// A user of some apps requested what is about all of them.
    pub(super) const ALL_APPS_ONLY: Self = Self::new(
        StatusCode::FORBIDDEN,
        "All apps only",
        "This page needs access to all apps. You have access to some apps only.",
        "Nothing was changed. Choose one of your apps, or ask an admin of all apps.",
    );
    /// No page of this console sent the form.
    pub(super) const FOREIGN: Self = Self::new(
        StatusCode::FORBIDDEN,
        "Not from this console",
        "No page of this console sent this form, or the form is from an earlier session.",
        "Nothing was changed. Open the page again and send its form from there. \
         A proxy in front must forward the Host header.",
    );
    /// An admin without a second factor wanted a change, and the setting asks for one.
    pub(super) const SECOND_FACTOR_FIRST: Self = Self::new(
        StatusCode::FORBIDDEN,
        "Second factor first",
        "Admins need a second factor here, and you have none.",
        "Nothing was changed. Set it up in your account.",
    );
    /// The present password was needed, and another one came.
    pub(super) const WRONG_PASSWORD: Self = Self::new(
        StatusCode::FORBIDDEN,
        "Wrong password",
        "The current password is wrong, or your address is locked for 15 minutes after ten wrong passwords.",
        "Nothing was changed. Go back and type it again.",
    );
    /// The address does not accept the method.
    pub(super) const WRONG_METHOD: Self = Self::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "Method not allowed",
        "This address does not accept this kind of request.",
        "Go back to the console and use its links and forms.",
    );
    /// Too many sign-ins run at the same time.
    pub(super) const BUSY: Self = Self::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "Too busy",
        "Too many people are signing in at the moment.",
        "Wait a few seconds and try again.",
    );
    /// The user has half of the places of this listener, or all are taken.
    pub(super) const PLACES_TAKEN: Self = Self::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "Too busy",
        "Too many pages are being made at the moment, for you or for all.",
        "Wait a few seconds and try again. Nothing was changed.",
    );
    /// Other files are being compared.
    pub(super) const COMPARING: Self = Self::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "Too busy",
        "Other files are being compared at the moment.",
        "Wait a minute and send the file again.",
    );
    /// The user is in no group of the settings.
    const NO_ROLE: Self = Self::new(
        StatusCode::FORBIDDEN,
        "Not signed in",
        "Your provider knows you, but none of your groups may use this console.",
        "Ask the operator which group you need, and sign in again when you are in it.",
    );
    /// The OpenID Connect provider did not sign the user in.
    const NOT_SIGNED_IN: Self = Self::new(
        StatusCode::FORBIDDEN,
        "Not signed in",
        "Your provider did not sign you in, or what it sent cannot be used.",
        "Sign in again. If that does not help, the server log has the cause.",
    );
    const PROVIDER_UNAVAILABLE: Self = Self::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "Not signed in",
        "The OpenID Connect provider sent an invalid answer.",
        "Try again in a moment, or sign in with a password of this console. The server log has the cause.",
    );
    const UNAVAILABLE: Self = Self::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "Not available",
        "The database or the picture store does not answer.",
        "Try again in a moment. The server log and /readyz have details. \
         It is safe to send a change again.",
    );
    const TOO_SLOW: Self = Self::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "Not available",
        "It takes longer than a statement may (database.statement_timeout).",
        "Ask for a shorter time or one app. It is safe to send a change again.",
    );
    const FAULT: Self = Self::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "Server error",
        "The server has a fault.",
        "The server log has the cause, at this time.",
    );

    const fn new(
        status: StatusCode,
        title: &'static str,
        what: &'static str,
        what_next: &'static str,
    ) -> Self {
        Self { status, title, what: Text::new(what), what_next, cause: String::new() }
    }

    /// Whether the log has a line of it: somebody wanted what they may not have, or a fault.
    pub(super) fn is_denied_or_failed(&self) -> bool {
        self.status == StatusCode::FORBIDDEN || self.status.is_server_error()
    }

    /// The thing that the address names does not exist. `what` is a sentence that names it.
    pub(super) fn not_found(what: impl Into<Text>) -> Self {
        let what_next = "Check the spelling, or search in that part of the console.";
        Self { what: what.into(), ..Self::new(StatusCode::NOT_FOUND, "Not found", "", what_next) }
    }

    /// No sign-in at the provider is under way in this browser.
    pub(super) fn no_such_sign_in(cause: &str) -> Self {
        let what = "This browser did not begin this sign-in, or more than ten minutes ago.".into();
        let what_next = "Open the console at the address that the operator gave you, and sign in from there.";
        Self { what, what_next, cause: cause.to_owned(), ..Self::NOT_SIGNED_IN }
    }

    /// The provider sent the browser back with an error instead of a code. `error` is a word of RFC 6749, for the
    /// log. Anybody can send another text.
    pub(super) fn refused_by_provider(error: &str) -> Self {
        let is_word =
            error.len() <= 64 && error.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        let cause = format!("the provider gave no code: {}", if is_word { error } else { "" });
        Self { cause, ..Self::NOT_SIGNED_IN }
    }

    /// The role of the user does not allow this.
    pub(super) fn not_for_role(need: Need) -> Self {
        match need {
            Need::Money | Need::Payments | Need::Administer => Self::ADMINS_ONLY,
            Need::Read | Need::GiveBack | Need::Reports | Need::Develop => Self::NOT_FOR_ROLE,
        }
    }

    /// The page of an app that does not exist.
    pub(super) fn no_such_app(name: &str) -> Self {
        unknown_app(name).into()
    }

    /// A field is invalid. `what` is a sentence that names it.
    pub(super) fn bad_request(what: impl Into<Text>) -> Self {
        let what_next = "Nothing was changed. Go back and correct the input.";
        Self { what: what.into(), ..Self::new(StatusCode::BAD_REQUEST, "Invalid input", "", what_next) }
    }

    /// A field is invalid that its form shows under this label.
    pub(super) fn labelled(label: &'static str, error: FieldError) -> Self {
        Self::named(word(label), error)
    }

    /// A sentence that names the field in the words of the page.
    fn named(field: String, error: FieldError) -> Self {
        let problem = match error.problem {
            // An empty field needs no repetition.
            FieldErrorKind::Malformed { expected, got } => {
                FieldErrorKind::Malformed { expected, got: got.filter(|got| *got != Text::same("\"\"")) }
            }
            other => other,
        };
        let error = FieldError { field, problem };
        Self::bad_request(text!("{sentence}.", sentence = error.text()))
    }

    /// What went wrong, in the language of the page.
    fn what(&self) -> String {
        said(&self.what)
    }

    /// The page of the error. It names the user, if somebody is signed in. `is_of_form` tells that a form was sent.
    pub(super) fn page(&self, user: Option<&SignedIn>, is_of_form: bool) -> Response {
        // A filter is a form too, and refuses what was typed alone.
        let leads_back = is_of_form || self.status == StatusCode::BAD_REQUEST;
        let page = ErrorPage { page: Page { user, ..Page::of_nobody(self.title) }, error: self, leads_back };
        (self.status, Html(page.render().unwrap_or_default())).into_response()
    }
}

impl IntoResponse for ConsoleError {
    /// An empty response that carries the error: only the guard knows the user, whom the page names.
    fn into_response(self) -> Response {
        let mut response = StatusCode::INTERNAL_SERVER_ERROR.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<StoreError> for ConsoleError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(..) if error.is_too_slow() => {
                Self { cause: error.to_string(), ..Self::TOO_SLOW }
            }
            StoreError::Unavailable(..)
            | StoreError::PicturesUnavailable(_)
            | StoreError::Overloaded
            | StoreError::Again => Self { cause: error.to_string(), ..Self::UNAVAILABLE },
            StoreError::Repeated | StoreError::Internal(_) => {
                Self { cause: error.to_string(), ..Self::FAULT }
            }
        }
    }
}

impl From<OidcFault> for ConsoleError {
    fn from(fault: OidcFault) -> Self {
        match fault {
            OidcFault::Unavailable(cause) => Self { cause: cause.to_owned(), ..Self::PROVIDER_UNAVAILABLE },
            OidcFault::Refused(cause) => Self { cause: cause.to_owned(), ..Self::NOT_SIGNED_IN },
            OidcFault::NoRole(_) => Self { cause: "the user is in no group".to_owned(), ..Self::NO_ROLE },
            OidcFault::Busy => Self::BUSY,
        }
    }
}

impl From<Unhashable> for ConsoleError {
    fn from(error: Unhashable) -> Self {
        Self { cause: error.to_string(), ..Self::FAULT }
    }
}

impl From<askama::Error> for ConsoleError {
    fn from(error: askama::Error) -> Self {
        Self { cause: format!("a page cannot be rendered: {error}"), ..Self::FAULT }
    }
}

impl From<UnreadableFields> for ConsoleError {
    fn from(error: UnreadableFields) -> Self {
        Self::bad_request(text!("{sentence}.", sentence = error.text()))
    }
}

impl From<Refusal> for ConsoleError {
    /// The body of the request was too slow, too large or malformed.
    fn from(refusal: Refusal) -> Self {
        let status = refusal.transport.unwrap_or(StatusCode::BAD_REQUEST);
        let what = text!("{sentence}.", sentence = refusal.message);
        let what_next = "Nothing was changed. Try again.";
        let is_ours = status.is_server_error();
        let title = if is_ours { "Not available" } else { "Unreadable request" };
        Self { status, title, what, what_next, cause: refusal.cause.unwrap_or_default() }
    }
}

/// A field in the words of the page: its label.
fn field_in_words(field: &str) -> String {
    // An English sentence names a field without a label in words; in a Chinese one its name is a name.
    label_of(field).unwrap_or_else(|| match language() {
        Language::En => field.replace('_', " "),
        Language::Zh => field.to_owned(),
    })
}

/// A sentence that names the field as its label does.
impl From<FieldError> for ConsoleError {
    fn from(error: FieldError) -> Self {
        Self::named(field_in_words(&error.field), error)
    }
}

impl From<OperationError> for ConsoleError {
    fn from(error: OperationError) -> Self {
        match error {
            OperationError::Refused(refusal) => refusal.into(),
            OperationError::Store(error) => error.into(),
        }
    }
}

/// The words of a refusal, as a sentence.
impl From<OperationRefusal> for ConsoleError {
    fn from(refusal: OperationRefusal) -> Self {
        let words = text!("{sentence}.", sentence = refusal.text);
        let sentence = Text::same(sentence(&words));
        match refusal.kind {
            RefusalKind::Invalid(field) => {
                Self::bad_request(text!("{field}: {problem}", field = field_in_words(field), problem = words))
            }
            RefusalKind::Unknown(Subject::Player) => Self {
                what_next: "Check the spelling. A login makes a player known, and so does a credit that registers \
                            the player.",
                ..Self::not_found(sentence)
            },
            RefusalKind::Unknown(_) => Self::not_found(sentence),
            RefusalKind::Conflict | RefusalKind::Limit | RefusalKind::NotAllowed => {
                Self::bad_request(sentence)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::fields::Fields;
    use domain::ids::{AppId, OpenId};
    use store::Outage;

    use super::*;

    /// Rule 9.5.3: who reads too much for one statement is told so.
    #[test]
    fn a_statement_that_is_too_slow_is_told() {
        let ended = "57014: canceling statement".to_owned();
        let error = ConsoleError::from(StoreError::Unavailable(Outage::TooSlow, ended));
        assert_eq!(error.status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(error.what(), "It takes longer than a statement may (database.statement_timeout).");
        let away = ConsoleError::from(StoreError::unavailable("57P01: terminating connection"));
        assert_eq!(away.what(), "The database or the picture store does not answer.");
    }

    #[test]
    fn a_field_that_does_not_parse_is_named() {
        let typed = Fields::from_form(b"app_id=a%20b").unwrap();
        let error = ConsoleError::from(typed.required("app_id", AppId::parse).unwrap_err());
        assert_eq!(error.status, StatusCode::BAD_REQUEST);
        assert!(
            error.what().starts_with("App ID: expected ") && error.what().contains(", got "),
            "{}",
            error.what()
        );
        let empty = ConsoleError::from(typed.required("open_id", OpenId::parse).unwrap_err());
        assert_eq!(empty.what(), format!("Player (open_id): expected {}.", OpenId::EXPECTED));
    }
}
