//! The operator's log: filtered, in pages, newest line first.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use domain::changes::{Change, changes};
use domain::ids::AppId;
use domain::moment;
use store::{OperatorLogCursor, OperatorLogFilter, OperatorLogLine};

use super::app_field::AppField;
use super::error::ConsoleError;
use super::form::Input;
use super::page::{Page, Section, Shown as _, render};
use super::route::Route;
use super::session::SignedIn;
use crate::state::AppState;

pub(super) const ROUTES: &[Route] = &[Route::page("/console/log", || get(page))];

/// Lines on a page.
const LINES: u32 = 50;

#[derive(Template)]
#[template(path = "operator_log.html")]
struct LogPage<'a> {
    page: Page<'a>,
    /// The filters as the user typed them.
    input: &'a Input,
    app_field: AppField<'a>,
    lines: Vec<OperatorLogLine>,
    /// The address of the page with older lines.
    older: Option<String>,
    /// Whether the page has the newest lines.
    is_first: bool,
}

async fn page(
    State(state): State<AppState>,
    signed_in: SignedIn,
    input: Input,
) -> Result<Response, ConsoleError> {
    let filter = OperatorLogFilter {
        since: input.optional("from", moment::parse)?,
        until: input.optional("to", moment::parse)?,
        app_id: input.optional("app_id", AppId::parse)?,
        subject: Some(input.text("subject").to_owned()).filter(|text| !text.is_empty()),
        operator: Some(input.text("operator").to_owned()).filter(|text| !text.is_empty()),
        with_imported_credits: input.is_checked("imported"),
    };
    let after = input.optional("after", OperatorLogCursor::parse)?;
    // One line more than the page shows: it tells whether there is another page.
    let mut lines = state.store.operator_log_page(&filter, after, LINES + 1).await?;
    let has_more = lines.len() > LINES as usize;
    lines.truncate(LINES as usize);
    let last = lines.last().filter(|_| has_more);
    let older = last.map(|line| input.address("/console/log", &[("after", &line.cursor().to_string())]));
    let page = Page::new(&signed_in, Section::Log, "Operator log");
    let app_field = AppField::new(&state, input.text("app_id")).await?;
    Ok(render(&LogPage { page, input: &input, app_field, lines, older, is_first: after.is_none() }))
}

impl LogPage<'_> {
    fn newest(&self) -> String {
        self.input.address("/console/log", &[("after", "")])
    }
}

/// The format of a line on the page.
trait Shown {
    fn changes(&self) -> Vec<Change>;
    fn has_changes(&self) -> bool;
    fn way(&self) -> &str;
}

impl Shown for OperatorLogLine {
    fn changes(&self) -> Vec<Change> {
        changes(self.before.as_ref(), self.after.as_ref())
    }

    fn has_changes(&self) -> bool {
        !self.changes().is_empty()
    }

    /// The way by which the operator made the change.
    fn way(&self) -> &str {
        match self.operator_kind.as_str() {
            "command_line" => "command line",
            "api_key" => "API key",
            other => other,
        }
    }
}
