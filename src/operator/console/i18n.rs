//! The words of the page under way: its language, and the time zone of its times (contract 14.2 and 14.3). The guard
//! sets both for each request.

use std::fmt::{self, Display};
use std::time::Duration;

use askama::filters::{Escaper as _, Html, HtmlSafe};
use axum::extract::{Request, State};
use axum::http::header::{self, HeaderMap};
use axum::response::{IntoResponse as _, Redirect};
use axum::routing::post;
use domain::fields::Expected;
use domain::language::Language;
use domain::moment;
use domain::period::TimeZone;
use domain::text::{Text, fill};
use store::SheetStyle;
use time::OffsetDateTime;

use super::page::Section;
use super::request::{Answer, read_fields, text};
use super::route::{ConsoleRoute, routes};
use super::session::{came_by_https, cookie_named};
use super::sign_in::where_to;
use crate::config::{Colour, InstallationName};
use crate::http::language;
use crate::state::AppState;

pub(super) const ROUTES: &[ConsoleRoute] = routes! { anyone("POST", PATH) => post(choose); };

const PATH: &str = "/console/language";
/// The cookie of the language that somebody chose, and how long it lasts: a year.
const COOKIE: &str = "minitill_language";
const COOKIE_SECONDS: u32 = 31_536_000;
/// Largest form of the switch in bytes: a language, and a path with each byte encoded as three.
const FORM_BYTES_MAX: usize = 8 * 1024;

/// How the answer to one request is shown.
#[derive(Debug, Clone)]
pub(super) struct View {
    language: Language,
    zone: TimeZone,
    name: InstallationName,
    colour: Colour,
    refresh: Duration,
    /// The page that the switch of the language comes back to.
    here: String,
}

tokio::task_local! {
    static VIEW: View;
}

impl View {
    /// The view of a request: the language that its browser chose here, or else prefers.
    pub(super) fn of(state: &AppState, request: &Request) -> Self {
        let headers = request.headers();
        let chosen = cookie_named(headers, &[COOKIE]).and_then(|word| Language::parse(word).ok());
        let here = request.uri().path_and_query().filter(|_| request.method().is_safe());
        Self {
            language: chosen.unwrap_or_else(|| preferred(headers)),
            zone: state.config.console.time_zone.clone(),
            name: state.config.console.name.clone(),
            colour: state.config.console.colour,
            refresh: state.config.console.refresh,
            here: here.map_or(Section::OVERVIEW.path, |here| where_to(here.as_str())).to_owned(),
        }
    }

    /// Answers a request in this view.
    pub(super) async fn scope<F: Future>(self, answering: F) -> F::Output {
        VIEW.scope(self, answering).await
    }
}

/// The language that `Accept-Language` prefers, of those that there are: by `q`, then by the order.
fn preferred(headers: &HeaderMap) -> Language {
    let text = headers.get(header::ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut best = (Language::default(), 0.0);
    for range in text.split(',') {
        let (tag, q) = range.split_once(';').unwrap_or((range, ""));
        let q = q.trim().strip_prefix("q=").map_or(Some(1.0), |q| q.parse::<f32>().ok()).unwrap_or_default();
        let name = tag.trim().split('-').next().unwrap_or_default().to_ascii_lowercase();
        if let Ok(language) = Language::parse(&name)
            && q > best.1
        {
            best = (language, q);
        }
    }
    best.0
}

/// Keeps the language that the switch in the header names, and goes back to the page.
async fn choose(State(state): State<AppState>, headers: HeaderMap, request: Request) -> Answer {
    let fields = read_fields(&state, request, FORM_BYTES_MAX).await?;
    let language = fields.required("language", Language::parse)?;
    let secure = if came_by_https(&state, &headers) { "; Secure" } else { "" };
    let cookie = format!(
        "{COOKIE}={language}; Path=/console; HttpOnly; SameSite=Strict; Max-Age={COOKIE_SECONDS}{secure}"
    );
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to(where_to(text(&fields, "next")))).into_response())
}

/// The language of the page. English where there is no page.
pub(crate) fn language() -> Language {
    VIEW.try_with(|view| view.language).unwrap_or_default()
}

/// The language of the page, as HTML names it.
pub(crate) fn tag() -> &'static str {
    tag_of(language())
}

fn tag_of(language: Language) -> &'static str {
    match language {
        Language::En => "en",
        Language::Zh => "zh-Hans",
    }
}

/// What the switch of the language offers.
pub(crate) struct OtherView {
    pub(crate) language: Language,
    pub(crate) tag: &'static str,
    /// The name of the language in itself.
    pub(crate) name: &'static str,
    pub(crate) next: String,
}

/// The other language of the page under way.
pub(crate) fn other_view() -> Option<OtherView> {
    let of = |view: &View| {
        let (language, name) = match view.language {
            Language::En => (Language::Zh, "中文"),
            Language::Zh => (Language::En, "English"),
        };
        OtherView { language, tag: tag_of(language), name, next: view.here.clone() }
    };
    VIEW.try_with(of).ok()
}

/// The name of this installation (`console.name`). Empty where there is no page.
pub(crate) fn installation() -> String {
    VIEW.try_with(|view| view.name.as_str().to_owned()).unwrap_or_default()
}

/// The class of the band at the top of the page (`console.colour`).
pub(crate) fn band() -> Option<&'static str> {
    let colour = VIEW.try_with(|view| view.colour).unwrap_or_default();
    (colour != Colour::None).then(|| colour.as_str())
}

/// After how many seconds a list loads itself again (`console.refresh`).
pub(crate) fn refresh() -> Option<u64> {
    VIEW.try_with(|view| view.refresh.as_secs()).ok().filter(|seconds| *seconds > 0)
}

/// The time zone of the page.
pub(crate) fn zone() -> TimeZone {
    VIEW.try_with(|view| view.zone.clone()).unwrap_or_default()
}

/// The language and the time zone of the page, for a workbook.
pub(super) fn sheet_style() -> SheetStyle {
    SheetStyle { words: language::words(language()), zone: zone() }
}

/// A text of the catalogue in the language of the page, with its moments by the clock of the page.
pub(crate) fn said(text: &Text) -> String {
    language::of(language(), &text.clone().with_moments(&local))
}

/// A text in the language of the page, with a capital at its beginning.
pub(super) fn sentence(text: &Text) -> String {
    let said = said(text);
    let mut letters = said.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
}

/// HTML that needs no escape.
#[derive(Debug, Clone)]
pub(crate) struct Markup(String);

impl Display for Markup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl HtmlSafe for Markup {}

/// A text of a template in the language of the page. It is HTML, in which values are put by [`Said::with`].
pub(crate) fn t(pattern: &'static str) -> Said {
    Said { pattern: language::twin(language(), pattern), values: Vec::new() }
}

/// The same of a text that has another twin in this context.
pub(crate) fn tc(context: &str, pattern: &'static str) -> Said {
    Said { pattern: language::twin_in(language(), context, pattern), values: Vec::new() }
}

/// A word of a table in the language of the page. A word that the catalogue has not is a name, and stays.
pub(crate) fn word(word: &str) -> String {
    language::twin(language(), word).to_owned()
}

/// A text of a template, with the values for its places.
#[derive(Debug, Clone)]
pub(crate) struct Said {
    pattern: &'static str,
    values: Vec<(&'static str, String)>,
}

impl Said {
    /// Puts a value at a place, escaped.
    pub(crate) fn with(self, name: &'static str, value: impl Display) -> Self {
        self.put(name, escaped(value))
    }

    /// Puts HTML at a place.
    pub(crate) fn raw(self, name: &'static str, value: impl HtmlSafe) -> Self {
        self.put(name, value.to_string())
    }

    fn put(mut self, name: &'static str, html: String) -> Self {
        self.values.push((name, html));
        self
    }
}

impl Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&fill(self.pattern, |name, html| {
            let value = self.values.iter().find(|(known, _)| *known == name);
            html.push_str(value.map_or("", |(_, value)| value));
            value.is_some()
        }))
    }
}

impl HtmlSafe for Said {}

fn escaped(value: impl Display) -> String {
    let mut html = String::new();
    // Writing to a string does not fail.
    let _ = Html.write_escaped_str(&mut html, &value.to_string());
    html
}

/// An id, which is cut where it is too long.
pub(crate) fn id(id: impl Display) -> Markup {
    let id = escaped(id);
    Markup(format!("<span class=\"id\" title=\"{id}\">{id}</span>"))
}

/// Whether a word of a sentence is an id that is cut. A sentence without blanks is none.
pub(crate) fn is_long_id(word: &str) -> bool {
    word.len() > 24 && word.starts_with(|first: char| first.is_ascii())
}

/// An id that leads to its page.
pub(crate) fn link(id: impl Display, address: impl Display) -> Markup {
    let (id, address) = (escaped(id), escaped(address));
    Markup(format!("<a class=\"id\" title=\"{id}\" href=\"{address}\">{id}</a>"))
}

/// A moment on a page, in the time zone of the page; UTC on hover.
pub(crate) trait Moment {
    /// Date and time, to the second.
    fn when(&self) -> Markup;
    /// The day alone.
    fn on_day(&self) -> Markup;
}

impl Moment for OffsetDateTime {
    fn when(&self) -> Markup {
        element(*self, &local(*self))
    }

    fn on_day(&self) -> Markup {
        element(*self, local(*self).split(' ').next().unwrap_or_default())
    }
}

fn element(moment: OffsetDateTime, shown: &str) -> Markup {
    let utc = moment::plain(moment);
    let machine = utc.replace(' ', "T");
    Markup(format!("<time datetime=\"{machine}Z\" title=\"{utc} UTC\">{shown}</time>"))
}

/// Date and time of a moment in the time zone of the page, to the second.
pub(super) fn local(moment: OffsetDateTime) -> String {
    // `plain` shows a moment by its own clock once it says that it is UTC.
    moment::plain(zone().clock(moment).assume_utc())
}

/// The fields `from` and `to` of a search around a moment, as a part of an address.
pub(crate) fn period_around(moment: OffsetDateTime) -> String {
    let day = |moment| local(moment).split(' ').next().unwrap_or_default().to_owned();
    let two_days = time::Duration::days(2);
    format!("from={}&to={}", day(moment), day(moment.checked_add(two_days).unwrap_or(moment)))
}

/// A moment that somebody typed: by the clock of the page's time zone where no offset stands.
///
/// # Errors
/// What [`moment::parse`] refuses.
pub(super) fn parse_moment(text: &str) -> Result<OffsetDateTime, Expected> {
    moment::parse_given(text).map(|given| zone().moment(given))
}

/// What a field of date and time shows for a text of the address: the moment by the clock of the page's time zone.
/// `None` where the text is no moment, or would become another one: a clock that goes back shows an hour twice, and a
/// browser keeps milliseconds.
pub(crate) fn typed_clock(text: &str) -> Option<String> {
    if text.is_empty() {
        return Some(String::new());
    }
    let moment = parse_moment(text).ok()?;
    let mut clock = local(moment).replace(' ', "T");
    if moment.millisecond() > 0 {
        clock = format!("{clock}.{:03}", moment.millisecond());
    }
    parse_moment(&clock).is_ok_and(|read| read == moment).then_some(clock)
}

/// The way by which an operator made a change.
pub(super) fn way(operator_kind: &str) -> &str {
    match operator_kind {
        "command_line" => "command line",
        "api_key" => "API key",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn view(language: Language, zone: &str) -> View {
        let (name, colour) = (InstallationName::parse("t1").unwrap(), Colour::None);
        View {
            language,
            zone: zone.parse().unwrap(),
            name,
            colour,
            refresh: Duration::ZERO,
            here: "/console".to_owned(),
        }
    }

    /// Rule 14.2.
    #[test]
    fn the_browser_says_which_language_it_prefers() {
        let of = |text: &'static str| {
            preferred(&HeaderMap::from_iter([(header::ACCEPT_LANGUAGE, HeaderValue::from_static(text))]))
        };
        for zh in ["zh", "zh-CN,zh;q=0.9,en;q=0.8", "ZH-Hans-CN", "fr, zh;q=0.5, en;q=0.4", "en;q=0,zh;q=0.1"]
        {
            assert_eq!(of(zh), Language::Zh, "{zh}");
        }
        for en in ["", "en-US,en;q=0.9,zh;q=0.8", "fr", "zh;q=0", "zh;q=x", "*", "zhx", ";;,"] {
            assert_eq!(of(en), Language::En, "{en}");
        }
        assert_eq!(preferred(&HeaderMap::new()), Language::En);
    }

    /// Rule 14.3.
    #[tokio::test]
    async fn moments_are_shown_and_read_by_the_clock_of_the_zone() {
        let read = |text: &str| moment::plain(parse_moment(text).unwrap());
        let at = moment::parse("2026-11-21T17:40:12Z").unwrap();
        assert_eq!(
            (local(at).as_str(), read("2026-11-21").as_str()),
            ("2026-11-21 17:40:12", "2026-11-21 00:00:00")
        );
        let shown = "<time datetime=\"2026-11-21T17:40:12Z\" title=\"2026-11-21 17:40:12 UTC\">";
        view(Language::En, "Asia/Shanghai")
            .scope(async {
                assert_eq!(at.when().to_string(), format!("{shown}2026-11-22 01:40:12</time>"));
                assert_eq!(at.on_day().to_string(), format!("{shown}2026-11-22</time>"));
                assert_eq!(read("2026-11-21"), "2026-11-20 16:00:00");
                assert_eq!(read("2026-11-21T08:00"), "2026-11-21 00:00:00");
                assert_eq!(read("2026-11-21T08:00:00Z"), "2026-11-21 08:00:00");
                assert_eq!(read("2026-11"), "2026-10-31 16:00:00");
                assert!(parse_moment("soon").is_err());
            })
            .await;
        // The clock goes from 2 to 3 in March, and from 3 to 2 in October.
        view(Language::En, "Europe/Berlin")
            .scope(async {
                assert_eq!(read("2026-03-29T02:30"), "2026-03-29 01:30:00");
                assert_eq!(read("2026-10-25T02:30"), "2026-10-25 00:30:00");
                assert_eq!(local(moment::parse("2026-10-25T01:30:00Z").unwrap()), "2026-10-25 02:30:00");
            })
            .await;
    }

    /// Rule 8.6.30.
    #[tokio::test]
    async fn a_field_shows_a_moment_by_the_clock_unless_it_would_change() {
        let clock = |text: &str| Some(text.to_owned());
        assert_eq!(typed_clock("2026-11-21T17:40:12Z"), clock("2026-11-21T17:40:12"));
        assert_eq!((typed_clock(""), typed_clock("soon")), (clock(""), None));
        view(Language::En, "Asia/Shanghai")
            .scope(async {
                assert_eq!(typed_clock("2026-11-30T19:02:22Z"), clock("2026-12-01T03:02:22"));
                assert_eq!(typed_clock("2026-11-30T19:02:22.5Z"), clock("2026-12-01T03:02:22.500"));
                // A browser has no digits below that.
                assert_eq!(typed_clock("2026-11-30T19:02:22.0005Z"), None);
                assert_eq!(typed_clock("2026-11-30"), clock("2026-11-30T00:00:00"));
            })
            .await;
        // The clock goes from 3 to 2 in October, and from 2 to 3 in March.
        view(Language::En, "Europe/Berlin")
            .scope(async {
                assert_eq!(typed_clock("2026-10-25T00:30:00Z"), clock("2026-10-25T02:30:00"));
                assert_eq!(typed_clock("2026-10-25T01:30:00Z"), None);
                assert_eq!(typed_clock("2026-10-25T02:00:00Z"), clock("2026-10-25T03:00:00"));
                assert_eq!(typed_clock("2026-03-29T02:30"), clock("2026-03-29T03:30:00"));
            })
            .await;
    }

    #[tokio::test]
    async fn a_value_is_escaped_and_markup_is_not() {
        let said = t("{a} & {b}").with("a", "<i>").raw("b", id("x\"y"));
        assert_eq!(said.to_string(), "&#60;i&#62; & <span class=\"id\" title=\"x&#34;y\">x&#34;y</span>");
    }
}
