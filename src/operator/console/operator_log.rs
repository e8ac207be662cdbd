//! The operator's log: filtered, in pages, newest line first.

use askama::Template;
use axum::routing::get;
use domain::changes::changes;
use domain::ids::AppId;
use domain::moment;
use store::{OperatorLogCursor, OperatorLogFilter, OperatorLogLine};

use super::page::{Page, Section, Shown as _, render};
use super::route::Route;
use super::visit::{Answer, Visit};

pub(super) const ROUTES: &[Route] = &[Route::page("/console/log", || get(page))];

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

async fn page(visit: Visit) -> Answer {
    let filter = OperatorLogFilter {
        since: visit.fields.optional("from", moment::parse)?,
        until: visit.fields.optional("to", moment::parse)?,
        app_id: visit.fields.optional("app_id", AppId::parse)?,
        subject: visit.filled("subject"),
        operator: visit.filled("operator"),
        with_imported_credits: visit.fields.text("imported").is_some(),
    };
    let after = visit.fields.optional("after", OperatorLogCursor::parse)?;
    // One line more than the page shows: it tells whether there is another page.
    let mut lines = visit.state.store.operator_log_page(&filter, after, LINES + 1).await?;
    let has_more = lines.len() > LINES as usize;
    lines.truncate(LINES as usize);
    render(&LogPage {
        page: visit.search_page(Section::LOG).await?,
        newest: visit.next(after.map(|_| "")),
        older: visit.next(lines.last().filter(|_| has_more).map(OperatorLogLine::cursor)),
        lines,
    })
}

/// The way by which an operator made a change.
fn way(operator_kind: &str) -> &str {
    match operator_kind {
        "command_line" => "command line",
        "api_key" => "API key",
        other => other,
    }
}
