//! The layout of every page: the sections of the console, the navigation, and the format of values.

use askama::Template;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse as _};
use domain::app::AppSummary;
use domain::fields::{FieldError, Fields};
use domain::language::Language;
use domain::rights::Need;
use domain::text;
use domain::text::Text;
use time::OffsetDateTime;

use super::super::authorization::admit;
use super::i18n::{language, local, refresh, said, sentence};
use super::request::{Answer, text as typed_text};
use super::session::SignedIn;

/// A section of the console in the navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Section {
    /// The path of its first page.
    pub(super) path: &'static str,
    /// Its name in the navigation.
    pub(super) name: &'static str,
}

impl Section {
    pub(super) const OVERVIEW: Self = Self { path: "/console", name: "Overview" };
    pub(super) const APPS: Self = Self { path: "/console/apps", name: "Apps" };
    pub(super) const PLAYERS: Self = Self { path: "/console/players", name: "Players" };
    pub(super) const EXCHANGES: Self = Self { path: "/console/exchanges", name: "Exchanges" };
    pub(super) const TOPUPS: Self = Self { path: "/console/topups", name: "Top-ups" };
    pub(super) const REPORTS: Self = Self { path: "/console/reports", name: "Reports" };
    pub(super) const ORDERS: Self = Self { path: "/console/orders", name: "Orders" };
    pub(super) const IMAGES: Self = Self { path: "/console/images", name: "Images" };
    pub(super) const SIGNATURE_CHECK: Self =
        Self { path: "/console/signature-check", name: "Signature check" };
    pub(super) const LOG: Self = Self { path: "/console/log", name: "Operator log" };
    pub(super) const REQUESTS: Self = Self { path: "/console/requests", name: "Requests" };
    pub(super) const USERS: Self = Self { path: "/console/users", name: "Users" };
    pub(super) const API_KEYS: Self = Self { path: "/console/api-keys", name: "API keys" };

    /// The key that leads there after `g`.
    pub(super) fn key(&self) -> Option<char> {
        match self.path {
            "/console/players" => Some('p'),
            "/console/orders" => Some('o'),
            "/console/exchanges" => Some('e'),
            "/console/reports" => Some('r'),
            _ => None,
        }
    }

    pub(super) const ALL: [Self; 13] = [
        Self::OVERVIEW,
        Self::APPS,
        Self::PLAYERS,
        Self::EXCHANGES,
        Self::TOPUPS,
        Self::REPORTS,
        Self::ORDERS,
        Self::IMAGES,
        Self::SIGNATURE_CHECK,
        Self::REQUESTS,
        Self::LOG,
        Self::USERS,
        Self::API_KEYS,
    ];
}

/// When a page loads itself again, by its script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoadsAgain {
    /// Never.
    Never,
    /// Every `console.refresh`: a page that shows what goes on, and has no form but for its filter.
    Regularly,
    /// After a second: its report is being made.
    Soon,
}

/// The input of the layout: each template that extends `templates/base.html` has one in its field `page`.
pub(super) struct Page<'a> {
    /// The heading, and the title of the browser tab.
    pub(super) title: String,
    /// The section that the navigation marks.
    pub(super) section: Option<Section>,
    /// The user, except on the page of the sign-in.
    pub(super) user: Option<&'a SignedIn>,
    /// What the user typed into the form of this page.
    pub(super) typed: Option<&'a Fields>,
    /// The fields of a search that cannot be used.
    pub(super) wrong: &'a [FieldError],
    /// The apps that the field for an app offers.
    pub(super) apps: Vec<AppSummary>,
    /// When the page loads itself again.
    pub(super) loads_again: LoadsAgain,
    /// A message above the page, about the change that led here.
    pub(super) notice: Option<String>,
}

impl<'a> Page<'a> {
    /// A page without a user and without navigation.
    pub(super) fn of_nobody(title: impl Into<Text>) -> Self {
        let title = said(&title.into());
        let (section, user, typed, apps) = (None, None, None, Vec::new());
        Self { title, section, user, typed, wrong: &[], apps, loads_again: LoadsAgain::Never, notice: None }
    }

    /// After how many seconds the page loads itself again.
    pub(super) fn refresh_seconds(&self) -> Option<u64> {
        match self.loads_again {
            LoadsAgain::Never => None,
            LoadsAgain::Regularly => refresh(),
            LoadsAgain::Soon => Some(1),
        }
    }

    /// Whether the report of the page is being made.
    pub(super) fn awaits_report(&self) -> bool {
        self.loads_again == LoadsAgain::Soon
    }

    /// Whether the page shows what admins alone see and change.
    pub(super) fn is_admin(&self) -> bool {
        self.user.is_some_and(SignedIn::is_admin)
    }

    /// Whether the page shows changes of what belongs to all apps.
    pub(super) fn is_admin_of_all(&self) -> bool {
        self.user.is_some_and(|user| user.rights.is_everything())
    }

    /// Whether it is this user's page.
    pub(super) fn is_user(&self, name: &str) -> bool {
        self.user.is_some_and(|user| user.name.as_str() == name)
    }

    /// Whether the page shows changes of keys, packages, receivers and settings.
    pub(super) fn may_develop(&self) -> bool {
        self.may(Need::Develop)
    }

    /// Whether the page shows how to give an exchange back.
    pub(super) fn may_give_back(&self) -> bool {
        self.may(Need::GiveBack)
    }

    /// Whether the page shows how to confirm what somebody else asked for.
    pub(super) fn may_confirm(&self) -> bool {
        self.may(Need::Money)
    }

    /// Whether the page leads to what finance reads.
    pub(super) fn may_report(&self) -> bool {
        self.may(Need::Reports)
    }

    fn may(&self, need: Need) -> bool {
        self.user.is_some_and(|user| user.rights.role.may(need))
    }

    /// The sections that the user may open.
    pub(super) fn sections(&self) -> impl Iterator<Item = Section> {
        Section::ALL.into_iter().filter(|section| {
            let route = super::routes().find(|route| (route.method, route.path) == ("GET", section.path));
            let need = route.and_then(|route| Some((route.access.need()?, route.reach())));
            let rights = self.user.map(|user| &user.rights);
            need.zip(rights).is_some_and(|((need, reach), rights)| admit(rights, need, reach, None).is_ok())
        })
    }

    /// The page with marks on these fields.
    pub(super) fn marking(self, wrong: &'a [FieldError]) -> Self {
        Self { wrong, ..self }
    }

    /// Whether a field is marked.
    pub(super) fn is_wrong(&self) -> bool {
        !self.wrong.is_empty()
    }

    /// What is wrong with a field, as a sentence.
    pub(super) fn wrong(&self, name: &str) -> Option<String> {
        let wrong = self.wrong.iter().find(|wrong| wrong.field == name)?;
        Some(sentence(&text!("{sentence}.", sentence = wrong.problem.text())))
    }

    /// The value of the hidden field `csrf` of every form.
    pub(super) fn csrf_token(&self) -> &str {
        self.user.map_or("", |user| &user.csrf_token)
    }

    /// How many filters are filled in. A period by a word is none: its link is marked.
    pub(super) fn filters(&self) -> usize {
        const NONE: [&str; 7] = ["after", "period", "rows", "sort", "changed", "again", "done"];
        let typed = self.typed.into_iter().flat_map(Fields::texts);
        typed.filter(|(name, value)| !value.trim().is_empty() && !NONE.contains(name)).count()
    }

    /// What the user typed into a field, or an empty text.
    pub(super) fn text(&self, name: &str) -> &str {
        self.typed.map_or("", |typed| typed_text(typed, name))
    }
}

/// A page as a response with status 200.
pub(super) fn render(template: &impl Template) -> Answer {
    Ok(Html(template.render()?).into_response())
}

/// The page of a search, with status 400 where a field is wrong.
pub(super) fn render_search(template: &impl Template, wrong: &[FieldError]) -> Answer {
    let status = if wrong.is_empty() { StatusCode::OK } else { StatusCode::BAD_REQUEST };
    Ok((status, render(template)?).into_response())
}

/// The format of a value on a page: `{{ wallet.free_balance.shown() }}`.
pub(super) trait Shown {
    fn shown(&self) -> String;
}

/// In the time zone of the page, to the second.
impl Shown for OffsetDateTime {
    fn shown(&self) -> String {
        local(*self)
    }
}

impl Shown for i64 {
    fn shown(&self) -> String {
        grouped(&self.to_string())
    }
}

impl Shown for u64 {
    fn shown(&self) -> String {
        grouped(&self.to_string())
    }
}

/// A number with groups of three digits before its point. English separates them by a narrow no-break space, Chinese by a
/// comma.
pub(super) fn grouped(number: &str) -> String {
    let separator = match language() {
        Language::En => '\u{202f}',
        Language::Zh => ',',
    };
    let (sign, digits) = number.strip_prefix('-').map_or(("", number), |digits| ("\u{2212}", digits));
    let point = digits.find('.').unwrap_or(digits.len());
    let mut text = sign.to_owned();
    for (index, digit) in digits.char_indices() {
        if index > 0 && index < point && (point - index).is_multiple_of(3) {
            text.push(separator);
        }
        text.push(digit);
    }
    text
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
