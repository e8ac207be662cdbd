//! The operator's log: filtered, in pages, newest line first.

use askama::Template;
use axum::routing::get;
use domain::changes::changes;
use domain::console_user::ConsoleUserName;
use domain::ids::{AppId, OpenId};
use domain::receiver::ReceiverId;
use store::{ImageKey, OperatorLogCursor, OperatorLogFilter, OperatorLogLine};

use super::i18n::{Moment as _, parse_moment};
use super::page::{Page, Section, render_search};
use super::player::player_path;
use super::receivers::receiver_path;
use super::request::{Answer, ConsoleRequest};
use super::route::ConsoleRoute;

pub(super) const ROUTES: &[ConsoleRoute] = &[ConsoleRoute::page("/console/log", || get(page)).of_own_apps()];

/// Lines on a page.
const LINES: u32 = 50;

#[derive(Template)]
#[template(path = "operator_log.html")]
struct LogPage<'a> {
    page: Page<'a>,
    lines: Vec<OperatorLogLine>,
    /// The address of the page with the newest lines, unless this is the one.
    newest: Option<String>,
    /// The address of the page with older lines.
    older: Option<String>,
}

async fn page(request: ConsoleRequest) -> Answer {
    let mut filters = request.filters();
    let filter = OperatorLogFilter {
        apps: request.apps().clone(),
        since: filters.read("from", parse_moment),
        until: filters.read("to", parse_moment),
        app_id: filters.read("app_id", AppId::parse),
        subject: request.filled("subject"),
        operator: request.filled("operator"),
    };
    filters.demand_period(filter.lacks_period(request.now()));
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
        older: request.next(lines.last().filter(|_| has_more).map(OperatorLogLine::cursor)),
        lines,
    };
    render_search(&template, &wrong)
}

/// Whether a line has a reason. A column that would be empty is left out, here and in other tables.
fn any_note(lines: &[OperatorLogLine]) -> bool {
    lines.iter().any(|line| !line.note.is_empty())
}

/// Whether a line is about an app.
fn any_app(lines: &[OperatorLogLine]) -> bool {
    lines.iter().any(|line| !line.app_id.is_empty())
}

/// The page of a line's subject, if it has one that this user may see. An app, a receiver or a user that was removed
/// later has none any more, and its link says so.
fn subject_path(line: &OperatorLogLine, is_admin: bool) -> Option<String> {
    let (app, subject) = (AppId::parse(&line.app_id).ok(), line.subject.as_str());
    let (kind, act) = line.action.split_once('.')?;
    match (kind, act) {
        _ if app.as_ref().is_some_and(|app| app.as_str() == subject) => Some(app_path(&app?)),
        ("change_request", _) if app.is_none() => Some(Section::REQUESTS.path.to_owned()),
        ("wallet", "credit" | "debit" | "cancel") | ("login_code" | "change_request" | "player", _) => {
            let open_id = OpenId::parse(subject).ok()?;
            Some(player_path(app?.as_str(), open_id.as_str()))
        }
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

fn app_path(app_id: &AppId) -> String {
    format!("{}/{app_id}", Section::APPS.path)
}

/// The way by which an operator made a change.
fn way(operator_kind: &str) -> &str {
    match operator_kind {
        "command_line" => "command line",
        "api_key" => "API key",
        other => other,
    }
}
