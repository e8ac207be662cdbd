//! What all pages share: the sections of the console, the layout, and the format of values.

use askama::Template;
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use time::OffsetDateTime;

use super::session::SignedIn;

/// A section of the console in the navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    Overview,
    Apps,
    Players,
    Exchanges,
    Orders,
    Images,
    SignatureCheck,
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
        Self::SignatureCheck,
        Self::Log,
        Self::Users,
    ];

    /// The path of its first page.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Overview => "/console",
            Self::Apps => "/console/apps",
            Self::Players => "/console/players",
            Self::Exchanges => "/console/exchanges",
            Self::Orders => "/console/orders",
            Self::Images => "/console/images",
            Self::SignatureCheck => "/console/signature-check",
            Self::Log => "/console/log",
            Self::Users => "/console/users",
        }
    }

    /// Its name in the navigation.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Overview => "Overview",
            Self::Apps => "Apps",
            Self::Players => "Players",
            Self::Exchanges => "Exchanges",
            Self::Orders => "Orders",
            Self::Images => "Images",
            Self::SignatureCheck => "Signature check",
            Self::Log => "Operator log",
            Self::Users => "Users",
        }
    }
}

/// The input of the layout: each template that extends `base.html` has one in its field `page`.
pub(super) struct Page<'a> {
    /// The heading, and the title of the browser tab.
    pub(super) title: String,
    /// The section that the navigation marks.
    pub(super) section: Option<Section>,
    /// The user, except on the page of the sign-in.
    pub(super) signed_in: Option<&'a SignedIn>,
    /// A message above the page, about the change that led here.
    pub(super) notice: Option<String>,
}

impl<'a> Page<'a> {
    /// A page for a signed-in user.
    pub(super) fn new(signed_in: &'a SignedIn, section: Section, title: impl Into<String>) -> Self {
        Self { title: title.into(), section: Some(section), signed_in: Some(signed_in), notice: None }
    }

    /// A page without a user and without navigation.
    pub(super) fn of_nobody(title: impl Into<String>) -> Self {
        Self { title: title.into(), section: None, signed_in: None, notice: None }
    }

    /// Adds a message about the change that led here.
    pub(super) fn with_notice(mut self, notice: Option<String>) -> Self {
        self.notice = notice;
        self
    }

    /// Whether the page shows forms and links for changes.
    pub(super) fn is_admin(&self) -> bool {
        self.signed_in.is_some_and(SignedIn::is_admin)
    }

    /// The value of the hidden field `csrf` of every form.
    pub(super) fn csrf_token(&self) -> &str {
        self.signed_in.map(SignedIn::csrf_token).unwrap_or_default()
    }

    /// All sections, and whether the page is in each of them.
    pub(super) fn sections(&self) -> impl Iterator<Item = (Section, bool)> {
        Section::ALL.into_iter().map(|section| (section, self.section == Some(section)))
    }
}

/// A page as a response with status 200.
pub(super) fn render(template: &impl Template) -> Response {
    render_as(StatusCode::OK, template)
}

/// A page as a response with another status.
pub(super) fn render_as(status: StatusCode, template: &impl Template) -> Response {
    let (status, text) = match template.render() {
        Ok(text) => (status, text),
        Err(error) => {
            tracing::error!(%error, "console: a page cannot be rendered");
            (StatusCode::INTERNAL_SERVER_ERROR, String::new())
        }
    };
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, html);
    response
}

/// The format of a value on a page: `{{ wallet.free_balance.shown() }}`.
pub(super) trait Shown {
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

/// Groups of three digits, separated by a narrow no-break space.
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
}
