//! What all pages share: the layout, how values are shown, and what a page says when something is wrong.

use askama::Template;
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use domain::fields::UnreadableFields;
use store::StoreError;
use time::OffsetDateTime;

use super::session::SignedIn;
use crate::error::Refusal;

/// A part of the console, as the navigation lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    Overview,
    Apps,
    Players,
    Exchanges,
    Orders,
    Images,
    Clinic,
    Log,
    Users,
}

impl Section {
    const ALL: [Self; 9] = [
        Self::Overview,
        Self::Apps,
        Self::Players,
        Self::Exchanges,
        Self::Orders,
        Self::Images,
        Self::Clinic,
        Self::Log,
        Self::Users,
    ];

    /// Where it begins.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Overview => "/console",
            Self::Apps => "/console/apps",
            Self::Players => "/console/players",
            Self::Exchanges => "/console/exchanges",
            Self::Orders => "/console/orders",
            Self::Images => "/console/images",
            Self::Clinic => "/console/clinic",
            Self::Log => "/console/log",
            Self::Users => "/console/users",
        }
    }

    /// As people read it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Overview => "Overview",
            Self::Apps => "Apps",
            Self::Players => "Players",
            Self::Exchanges => "Exchanges",
            Self::Orders => "Orders",
            Self::Images => "Images",
            Self::Clinic => "Signature clinic",
            Self::Log => "Operator log",
            Self::Users => "Users",
        }
    }
}

/// What the layout needs of a page: every template that extends `base.html` has one in its field `page`.
pub(super) struct Page<'a> {
    /// Heading, and the title of the browser's tab.
    pub(super) title: String,
    /// Where the navigation says one is.
    pub(super) section: Option<Section>,
    /// Whoever asks; nobody where one signs in.
    pub(super) signed_in: Option<&'a SignedIn>,
    /// What has just been done, above the page.
    pub(super) notice: Option<String>,
}

impl<'a> Page<'a> {
    /// A page for whoever is signed in.
    pub(super) fn new(signed_in: &'a SignedIn, section: Section, title: impl Into<String>) -> Self {
        Self { title: title.into(), section: Some(section), signed_in: Some(signed_in), notice: None }
    }

    /// A page for anybody, without navigation.
    pub(super) fn of_nobody(title: impl Into<String>) -> Self {
        Self { title: title.into(), section: None, signed_in: None, notice: None }
    }

    /// The page with a sentence about what has just been done.
    pub(super) fn with_notice(mut self, notice: Option<String>) -> Self {
        self.notice = notice;
        self
    }

    /// Whether to show what changes something.
    pub(super) fn is_admin(&self) -> bool {
        self.signed_in.is_some_and(SignedIn::is_admin)
    }

    /// For the hidden field `csrf` of every form.
    pub(super) fn csrf_token(&self) -> &str {
        self.signed_in.map(SignedIn::csrf_token).unwrap_or_default()
    }

    /// All parts, and whether one is in them.
    pub(super) fn sections(&self) -> impl Iterator<Item = (Section, bool)> {
        Section::ALL.into_iter().map(|section| (section, self.section == Some(section)))
    }
}

/// A page as a response, 200.
pub(super) fn render(template: &impl Template) -> Response {
    render_as(StatusCode::OK, template)
}

/// A page as a response with another status.
pub(super) fn render_as(status: StatusCode, template: &impl Template) -> Response {
    let (status, text) = match template.render() {
        Ok(text) => (status, text),
        Err(error) => {
            tracing::error!(%error, "a page of the console could not be made");
            (StatusCode::INTERNAL_SERVER_ERROR, String::new())
        }
    };
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, html);
    response
}

/// How pages show a value: `{{ wallet.free_balance.shown() }}`.
pub(super) trait Shown {
    /// For people.
    fn shown(&self) -> String;
}

/// In UTC, to the second.
impl Shown for OffsetDateTime {
    fn shown(&self) -> String {
        let utc = self.to_offset(time::UtcOffset::UTC);
        let (date, time) = (utc.date(), utc.time());
        format!("{date} {:02}:{:02}:{:02}", time.hour(), time.minute(), time.second())
    }
}

impl Shown for i64 {
    fn shown(&self) -> String {
        let sign = if *self < 0 { "\u{2212}" } else { "" };
        format!("{sign}{}", self.unsigned_abs().shown())
    }
}

/// In groups of three digits, with a narrow blank that does not break between them.
impl Shown for u64 {
    fn shown(&self) -> String {
        let digits = self.to_string();
        let mut text = String::new();
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                text.push('\u{202f}');
            }
            text.push(digit);
        }
        text
    }
}

/// What stands in the way of a page. It becomes one in the guard, which knows who asks.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ConsoleError {
    /// There is nothing by that name; says what was looked for, as a sentence.
    NotFound(String),
    /// A field that cannot be used, as a sentence that names it.
    BadRequest(String),
    /// Nobody is signed in, or no more. Where they wanted to go, if it is somewhere to go back to.
    SignInFirst(Option<String>),
    /// A viewer wanted what only admins may.
    AdminsOnly,
    /// A form that no page of this console sent.
    Foreign,
    /// A body that came too slowly, is too large or cannot be read; with the transport's status.
    Unreadable(StatusCode, String),
    /// More at once than may.
    Busy,
    /// The store's.
    Store(StoreError),
}

impl IntoResponse for ConsoleError {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        response.extensions_mut().insert(self);
        response
    }
}

impl From<StoreError> for ConsoleError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<UnreadableFields> for ConsoleError {
    fn from(error: UnreadableFields) -> Self {
        Self::BadRequest(format!("{error}."))
    }
}

impl From<Refusal> for ConsoleError {
    fn from(refusal: Refusal) -> Self {
        Self::Unreadable(refusal.transport.unwrap_or(StatusCode::BAD_REQUEST), refusal.message)
    }
}

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage<'a> {
    page: Page<'a>,
    what: String,
    what_next: &'static str,
}

/// The page of an error, or the way to the sign-in.
pub(super) fn error_page(error: &ConsoleError, signed_in: Option<&SignedIn>) -> Response {
    if let ConsoleError::SignInFirst(Some(next)) = error {
        return Redirect::to(&sign_in_path(next)).into_response();
    }
    let (status, title, what, what_next) = words(error);
    let page = Page { title: title.to_owned(), section: None, signed_in, notice: None };
    render_as(status, &ErrorPage { page, what, what_next })
}

/// Where to sign in, to come back to `next` afterwards.
fn sign_in_path(next: &str) -> String {
    if next == Section::Overview.path() {
        return "/console/sign-in".to_owned();
    }
    let next = percent_encoding::utf8_percent_encode(next, percent_encoding::NON_ALPHANUMERIC);
    format!("/console/sign-in?next={next}")
}

/// Status, title, what is wrong and what to do about it.
fn words(error: &ConsoleError) -> (StatusCode, &'static str, String, &'static str) {
    match error {
        ConsoleError::NotFound(what) => (
            StatusCode::NOT_FOUND,
            "Not found",
            what.clone(),
            "Check the spelling, or search for it in its part of the console.",
        ),
        ConsoleError::BadRequest(what) => (
            StatusCode::BAD_REQUEST,
            "That cannot be used",
            what.clone(),
            "Nothing was changed. Go back and correct it.",
        ),
        ConsoleError::SignInFirst(_) => (
            StatusCode::FORBIDDEN,
            "Sign in first",
            "Your session has ended, or there was none.".to_owned(),
            "Nothing was changed. Sign in and send the form again.",
        ),
        ConsoleError::AdminsOnly => (
            StatusCode::FORBIDDEN,
            "Admins only",
            "A viewer changes nothing.".to_owned(),
            "Nothing was changed. Ask an admin to do it, or have your role changed with minitill console-user set-role.",
        ),
        ConsoleError::Foreign => (
            StatusCode::FORBIDDEN,
            "Not from this console",
            "This form was not sent by a page of this console, or by one of an earlier session.".to_owned(),
            "Nothing was changed. Open the page again and send its form from there. If there is a proxy in front, it must pass the Host header on.",
        ),
        ConsoleError::Unreadable(status, what) => {
            (*status, "That cannot be read", format!("{what}."), "Nothing was changed. Try again.")
        }
        ConsoleError::Busy => (
            StatusCode::SERVICE_UNAVAILABLE,
            "Too busy",
            "Too many people are signing in at this moment.".to_owned(),
            "Wait a few seconds and try again.",
        ),
        ConsoleError::Store(error) => store_words(error),
    }
}

fn store_words(error: &StoreError) -> (StatusCode, &'static str, String, &'static str) {
    match error {
        StoreError::Unavailable(_)
        | StoreError::PicturesUnavailable(_)
        | StoreError::Overloaded
        | StoreError::Again => {
            tracing::warn!(%error, "a page of the console could not be served");
            (
                StatusCode::SERVICE_UNAVAILABLE,
                "Not available at the moment",
                "The database, or the store of pictures, does not answer.".to_owned(),
                "Try again in a moment. The server's log and /readyz tell more. A change is safe to send again.",
            )
        }
        StoreError::Repeated | StoreError::Internal(_) => {
            tracing::error!(%error, "a page of the console failed");
            (
                StatusCode::INTERNAL_SERVER_ERROR,
                "Something is broken",
                "This is a fault of the server.".to_owned(),
                "Its log says what happened, at this time.",
            )
        }
    }
}

/// What a page says to a method that it does not have.
pub(super) fn wrong_method() -> Response {
    let page = Page::of_nobody("Not possible");
    let what = "This address does not take that kind of request.".to_owned();
    let what_next = "Go back to the console and follow its links and forms.";
    render_as(StatusCode::METHOD_NOT_ALLOWED, &ErrorPage { page, what, what_next })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_groups_and_moments_in_utc() {
        let shown = |number: i64| number.shown().replace('\u{202f}', "_");
        assert_eq!((shown(0).as_str(), shown(999).as_str(), shown(1000).as_str()), ("0", "999", "1_000"));
        assert_eq!((shown(-12_345_678).as_str(), shown(100_000).as_str()), ("\u{2212}12_345_678", "100_000"));
        let moment = domain::moment::parse("2026-11-21T19:40:12+02:00").unwrap();
        assert_eq!(moment.shown(), "2026-11-21 17:40:12");
    }

    #[test]
    fn the_way_to_the_sign_in_keeps_where_one_was_going() {
        assert_eq!(sign_in_path("/console"), "/console/sign-in");
        assert_eq!(sign_in_path("/console/log?a=b&c"), "/console/sign-in?next=%2Fconsole%2Flog%3Fa%3Db%26c");
    }
}
