//! The operator's log: filtered, in pages, newest line first.

mod shown;

use askama::Template;
use axum::extract::Path;
use axum::routing::get;
use domain::console_user::ConsoleUserName;
use domain::ids::{AppId, CreditRef, OpenId};
use domain::receiver::ReceiverId;
use domain::text;
use domain::topup::PaymentKey;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use store::{
    ImageKey, LoggedAction, LoggedCredit, MadeBy, OPERATOR_ACTIONS, OperatorLogCursor, OperatorLogFilter,
    OperatorLogLine, SEARCH_PERIOD_DAYS_MAX,
};
use time::Duration;

use self::shown::{LoggedValue, logged_changes};
use super::error::ConsoleError;
use super::i18n::{Moment as _, parse_moment, way};
use super::page::{Page, Section, Shown as _, render, render_search};
use super::player::player_path;
use super::prices::prices_path;
use super::receivers::receiver_path;
use super::request::{Answer, ConsoleRequest};
use super::route::{ConsoleRoute, routes};
use super::topups::shown_reason;
use super::wallet_change::requests::gift_path;

pub(super) const ROUTES: &[ConsoleRoute] = routes! {
    page("/console/log").of_own_apps() => get(page);
    page("/console/log/{seq}/credits").of_own_apps() => get(credits);
};

/// Lines on a page.
const LINES: u32 = 50;
/// Credits of a line on a page.
const CREDITS: u32 = 500;

#[derive(Template)]
#[template(path = "operator_log.html")]
struct LogPage<'a> {
    page: Page<'a>,
    lines: Vec<OperatorLogLine>,
    /// The address of the page with the newest lines, unless this is the one.
    newest: Option<String>,
    /// The address of the page with older lines.
    older: Option<String>,
    /// Whether older lines than those of the longest period are left out.
    is_cut: bool,
}

async fn page(request: ConsoleRequest) -> Answer {
    let mut filters = request.filters();
    let mut filter = OperatorLogFilter {
        apps: request.apps().clone(),
        since: filters.read("from", parse_moment),
        until: filters.read("to", parse_moment),
        app_id: filters.read("app_id", AppId::parse),
        subject: request.filled("subject"),
        operator: request.filled("operator"),
        action: filters.read("action", LoggedAction::parse),
        by: filters.read("by", MadeBy::parse),
    };
    // A search without an index begins as early as it may, where nobody has typed a beginning.
    let now = request.now();
    let is_cut = filter.is_unbounded() && filter.since.is_none();
    if is_cut {
        let end = filter.until.unwrap_or(now);
        filter.since = end.checked_sub(Duration::days(SEARCH_PERIOD_DAYS_MAX));
    }
    filters.demand_period(filter.lacks_period(now));
    let after = request.fields.optional("after", OperatorLogCursor::parse)?;
    let wrong = filters.wrong;
    // One line more than the page shows: it tells whether there is another page.
    let mut lines = match wrong.as_slice() {
        [] => {
            let lines = request.state.store.operator_log_page(&filter, after, LINES + 1);
            request.search(filter.is_unbounded(), lines).await?
        }
        _ => Vec::new(),
    };
    let has_more = lines.len() > LINES as usize;
    lines.truncate(LINES as usize);
    let template = LogPage {
        page: request.search_page(Section::LOG).await?.marking(&wrong),
        newest: request.next(after.map(|_| "")),
        is_cut: is_cut && wrong.is_empty(),
        older: request.next(lines.last().filter(|_| has_more).map(OperatorLogLine::cursor)),
        lines,
    };
    render_search(&template, &wrong)
}

#[derive(Template)]
#[template(path = "logged_credits.html")]
struct CreditsPage<'a> {
    page: Page<'a>,
    app_id: String,
    credits: Vec<LoggedCredit>,
    more: Option<String>,
}

/// The players of a line with many credits.
async fn credits(Path(seq): Path<String>, request: ConsoleRequest) -> Answer {
    let none = || ConsoleError::not_found("The operator log has no such line with credits of your apps.");
    let seq: i64 = seq.parse().map_err(|_| none())?;
    let store = &request.state.store;
    let after = request.text("after").parse().unwrap_or_default();
    let (app_id, mut credits) =
        store.logged_credits(request.apps(), seq, after, CREDITS + 1).await?.ok_or_else(none)?;
    let has_more = credits.len() > CREDITS as usize;
    credits.truncate(CREDITS as usize);
    let more = request.next(credits.last().filter(|_| has_more).map(|credit| credit.position));
    let page = request.page(Section::LOG, text!("Players of line {seq}", seq));
    render(&CreditsPage { page, app_id, credits, more })
}

/// How many credits a line lists.
fn credited(line: &OperatorLogLine) -> Option<u64> {
    let is_of_many = line.action == "wallet.credits";
    line.after.as_ref().filter(|_| is_of_many)?.get("credited")?.as_u64()
}

/// Whether a line is about an app. A column that would be empty is left out, here and in other tables.
fn any_app(lines: &[OperatorLogLine]) -> bool {
    lines.iter().any(|line| !line.app_id.is_empty())
}

/// The page of a line's subject, if it has one that this user may see. An app, a receiver or a user that was removed
/// later has none any more, and its link says so.
fn subject_path(line: &OperatorLogLine, is_admin: bool) -> Option<String> {
    let (app, subject) = (AppId::parse(&line.app_id).ok(), line.subject.as_str());
    let (kind, act) = line.action.split_once('.')?;
    match (kind, act) {
        ("price", _) => Some(prices_path(app?.as_str())),
        _ if app.as_ref().is_some_and(|app| app.as_str() == subject) => Some(app_path(&app?)),
        ("change_request", _) if app.is_none() => Some(Section::REQUESTS.path.to_owned()),
        ("wallet", "credit" | "debit" | "cancel" | "freeze" | "thaw")
        | ("login_code" | "change_request" | "player", _) => {
            let open_id = OpenId::parse(subject).ok()?;
            Some(player_path(app?.as_str(), open_id.as_str()))
        }
        // The credits of a gift have its name as their subject, those of a file or a call another.
        ("wallet", "credits") if !is_of_gift(line) => None,
        ("gift", _) | ("wallet", "credits") if is_admin => {
            Some(gift_path(app?.as_str(), &CreditRef::parse(subject).ok()?))
        }
        ("topup", "settle") => payment_path(&app?, subject),
        // A refund is named by its payment and its own id.
        ("topup", "refund") => payment_path(&app?, subject.rsplit_once('/')?.0),
        ("token", _) => Some(format!("{}/tokens", app_path(&app?))),
        ("receiver", act) if act != "remove" => Some(receiver_path(&app?, &ReceiverId::parse(subject).ok()?)),
        ("image", _) => {
            ImageKey::parse(subject).ok().map(|_| format!("{}?picture={subject}", Section::IMAGES.path))
        }
        ("console_user", act) if is_admin && act != "remove" => {
            let name = ConsoleUserName::parse(subject).ok()?;
            Some(format!("{}/{name}", Section::USERS.path))
        }
        ("api_key", _) => Some(Section::API_KEYS.path.to_owned()),
        _ => None,
    }
}

/// Whether a line with many credits is of a gift.
fn is_of_gift(line: &OperatorLogLine) -> bool {
    line.after.as_ref().is_some_and(|after| after.get("gift").is_some())
}

/// The page of a payment, as the log names it: the provider, a slash and the number.
fn payment_path(app_id: &AppId, payment: &str) -> Option<String> {
    let PaymentKey { provider, provider_order_id } = PaymentKey::of_text(payment)?;
    let number = utf8_percent_encode(provider_order_id.as_str(), NON_ALPHANUMERIC);
    Some(format!("/console/apps/{app_id}/topups/{provider}/{number}"))
}

fn app_path(app_id: &AppId) -> String {
    format!("{}/{app_id}", Section::APPS.path)
}
