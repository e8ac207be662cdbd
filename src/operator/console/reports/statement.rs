//! Closing a day or a month: its statement, with the document and its SHA-256, its bill, and the close that stands. A page
//! in between confirms a close (contract 8.6.32).

use askama::Template;
use axum::extract::Path;
use axum::routing::{get, post};
use domain::fields::{Expected, FieldError};
use domain::ids::AppId;
use domain::operation::books::figures_changed;
use domain::operation::{OperationRefusal, RefusalKind};
use domain::period::{Period, Preset};
use domain::rights::Need;
use domain::text::Text;
use store::{ClosedPeriod, OperationError, Statement, StoreError};

use super::super::super::bill::bill_file;
use super::super::super::download::{download, report_file};
use super::super::super::workbook::{self, FileFormat, statement_rows};
use super::super::closed_link::{STATEMENT_PATH, closed_path};
use super::super::error::ConsoleError;
use super::super::i18n::{Moment as _, said, sheet_style, zone};
use super::super::page::{LoadsAgain, Page, Section, Shown as _, render, render_search};
use super::super::request::{Answer, ConsoleRequest, Filters, address, lead_to};
use super::super::route::{ConsoleRoute, routes};
use super::{app_of, reconcile};

pub(in super::super) const STATEMENT_ROUTES: &[ConsoleRoute] = routes! {
    page_for(Need::Reports, "/console/reports/statement").of_own_apps() => get(page);
    page_for(Need::Reports, "/console/reports/statement.txt").of_own_apps() => get(document);
    page_for(Need::Reports, "/console/reports/statement.xlsx").of_own_apps() => get(statement_workbook);
    change(Need::Reports, "/console/apps/{app_id}/closed-periods/check") => post(check);
    change(Need::Reports, "/console/apps/{app_id}/closed-periods") => post(close);
    page_for(Need::Reports, "/console/reports/bill.csv").of_own_apps() => get(bill::<false>);
    page_for(Need::Reports, "/console/reports/bill.xlsx").of_own_apps() => get(bill::<true>);
};

/// What the page tells after a close.
const NOTICES: [(&str, &str); 1] = [("closed", "The books of the month are closed.")];

#[derive(Template)]
#[template(path = "statement.html")]
struct StatementPage<'a> {
    page: Page<'a>,
    /// The app and the month that the form proposes.
    app_id: String,
    month: String,
    /// `None` for a form that was not sent.
    closed: Option<ShownStatement>,
    /// The months of the app whose books are closed.
    periods: Vec<ClosedPeriod>,
}

/// A statement as its page shows it.
struct ShownStatement {
    statement: Statement,
    /// The figures of both purses: a name, gifted, charged.
    rows: [(String, i64, i64); 13],
    /// The address of the document.
    download: String,
    /// The address of the workbook.
    workbook: String,
    /// Addresses of the bill: for programs, and for spreadsheets.
    bill: [String; 2],
    /// The address of the form that compares this period with other books.
    reconcile: String,
    /// The address that closes the period for good. `None` for a day, and for a statement that does not tie.
    close_path: Option<String>,
    /// The close that stands.
    stands: Option<ClosedPeriod>,
    /// Closed months right before and after it that overlap with it, or leave a gap.
    unmet: Vec<String>,
}

impl ShownStatement {
    fn new(
        statement: Statement,
        app_id: &AppId,
        period: Period,
        periods: &[ClosedPeriod],
    ) -> Result<Self, StoreError> {
        let shown = period.to_string();
        let at = |path: &str| {
            let fields = [("app_id", app_id.as_str()), (period.field(), &shown)];
            address(path, &domain::fields::Fields::default(), &fields)
        };
        let stands = periods.iter().find(|closed| closed.month == shown).cloned();
        let unmet = stands.as_ref().map(|closed| closed.unmet_months(periods)).transpose()?;
        Ok(Self {
            rows: statement_rows(&statement).map(|(name, free, charge)| (said(&name), free, charge)),
            download: at("/console/reports/statement.txt"),
            workbook: at("/console/reports/statement.xlsx"),
            bill: ["/console/reports/bill.csv", "/console/reports/bill.xlsx"].map(at),
            reconcile: at(reconcile::PATH),
            close_path: (statement.ties && matches!(period, Period::Month(_))).then(|| close_path(app_id)),
            stands,
            unmet: unmet.unwrap_or_default().iter().map(said).collect(),
            statement,
        })
    }
}

/// The period that a form names. A day counts before a month.
pub(super) fn period_of(filters: &mut Filters<'_>) -> Option<Period> {
    let month = filters.read("month", Period::month);
    filters.read("day", Period::day).or(month)
}

async fn page(request: ConsoleRequest) -> Answer {
    let mut filters = request.filters();
    let period = period_of(&mut filters);
    let page = request.search_page(Section::REPORTS).await?;
    let app = app_of(&page, &mut filters);
    let mut wrong = filters.wrong;
    let periods = match &app {
        Some(app) => request.state.store.closed_periods(app).await?,
        None => Vec::new(),
    };
    let (mut closed, mut loads_again) = (None, LoadsAgain::Never);
    if let (Some(app), Some(period), []) = (&app, period, wrong.as_slice()) {
        match statement_soon(&request, app, period).await? {
            None => loads_again = LoadsAgain::Soon,
            Some(Ok(statement)) => closed = Some(ShownStatement::new(statement, app, period, &periods)?),
            Some(Err(why)) => wrong.push(why),
        }
    }
    let now = request.now();
    let last_month = Period::Month(zone().day_of(Preset::LastMonth.span(&zone(), now).since));
    let month = Some(request.text("month")).filter(|text| !text.is_empty());
    let month = month.map_or_else(|| last_month.to_string(), str::to_owned);
    let title = domain::text!("Close a day or a month");
    let notice = request.notice(NOTICES);
    let page = Page { title: said(&title), notice, loads_again, ..page.marking(&wrong) };
    let app_id = app.map(|app| app.to_string()).unwrap_or_default();
    render_search(&StatementPage { page, app_id, month, closed, periods }, &wrong)
}

/// The statement, or what is wrong with the field of its period.
async fn statement_of(
    request: &ConsoleRequest,
    app: &AppId,
    period: Period,
) -> Result<Result<Statement, FieldError>, ConsoleError> {
    told(request.state.store.period_statement(app, period, &zone()).await, period)
}

/// The same for the page. `None` while it is being made.
async fn statement_soon(
    request: &ConsoleRequest,
    app: &AppId,
    period: Period,
) -> Result<Option<Result<Statement, FieldError>>, ConsoleError> {
    let (store, app, zone) = (request.state.store.clone(), app.clone(), zone());
    let key = [request.user.name.to_string(), app.to_string(), format!("{period} {}", zone.as_str())];
    let make = move || {
        let (store, app, zone) = (store.clone(), app.clone(), zone.clone());
        async move { store.period_statement(&app, period, &zone).await }
    };
    request.state.statements.get(key, make).await.map(|made| told(made, period)).transpose()
}

fn told(
    statement: Result<Statement, OperationError>,
    period: Period,
) -> Result<Result<Statement, FieldError>, ConsoleError> {
    match statement {
        Ok(statement) => Ok(Ok(statement)),
        Err(OperationError::Refused(OperationRefusal { kind: RefusalKind::Invalid(_), text, .. })) => {
            Ok(Err(refused_period(period, &text)))
        }
        Err(error) => Err(error.into()),
    }
}

/// The field of a period, with the reason why the books refuse it.
pub(super) fn refused_period(period: Period, why: &Text) -> FieldError {
    let (field, shown) = (period.field(), period.to_string());
    let Expected(expected) = Expected(domain::text!("a period that has ended: {why}", why));
    FieldError::malformed(field, expected, &shown)
}

/// The address of the form that closes a month of an app for good.
fn close_path(app_id: &AppId) -> String {
    format!("/console/apps/{app_id}/closed-periods")
}

/// The app and the month that a form closes.
fn asked_close(app_id: &str, request: &ConsoleRequest) -> Result<(AppId, Period), ConsoleError> {
    let app_id = AppId::parse(app_id).map_err(|_| ConsoleError::no_such_app(app_id))?;
    Ok((app_id, request.fields.required("month", Period::month)?))
}

#[derive(Template)]
#[template(path = "statement_check.html")]
struct CloseCheckPage<'a> {
    page: Page<'a>,
    app_id: &'a AppId,
    closed: &'a ShownStatement,
}

/// Shows what a close would keep. Nothing is closed. A month whose books are closed has its page.
async fn check(Path(app_id): Path<String>, request: ConsoleRequest) -> Answer {
    let (app_id, month) = asked_close(&app_id, &request)?;
    let store = &request.state.store;
    if store.closed_period(&app_id, month).await?.is_some() {
        return lead_to(&closed_path(app_id.as_str(), &month.to_string()));
    }
    let statement = store.foresee_close(&app_id, month, &zone()).await?;
    let closed = ShownStatement::new(statement, &app_id, month, &[])?;
    let page = request.page(Section::REPORTS, domain::text!("Close the books of {month}?", month));
    render(&CloseCheckPage { page, app_id: &app_id, closed: &closed })
}

async fn close(Path(app_id): Path<String>, request: ConsoleRequest) -> Answer {
    let (app, month) = asked_close(&app_id, &request)?;
    let (operator, zone) = (request.operator()?, zone());
    let shown = Some(request.text("sha256")).filter(|shown| !shown.is_empty());
    let closed = request.state.store.close_period(&operator, &app, month, &zone, shown).await;
    let closed = match closed {
        // The preview shows the figures of now.
        Err(OperationError::Refused(refusal)) if refusal == figures_changed(month) => {
            return check(Path(app_id), request).await;
        }
        closed => closed?,
    };
    let path = closed_path(app.as_str(), &month.to_string());
    // Somebody else may have closed it before, with other figures than this user saw.
    if shown.is_some_and(|shown| shown != closed.sha256) {
        return lead_to(&path);
    }
    lead_to(&format!("{path}&done=closed"))
}

/// The app and the period of a file.
pub(super) fn asked_period(request: &ConsoleRequest) -> Result<(AppId, Period), ConsoleError> {
    let app = request.fields.required("app_id", AppId::parse)?;
    let mut filters = request.filters();
    let period = period_of(&mut filters);
    if let Some(wrong) = filters.wrong.pop() {
        return Err(wrong.into());
    }
    match period {
        Some(period) => Ok((app, period)),
        None => Ok((app, request.fields.required("month", Period::month)?)),
    }
}

/// The document as a file. It is the same bytes as `minitill report statement` prints.
async fn document(request: ConsoleRequest) -> Answer {
    let (app, period) = asked_period(&request)?;
    let statement = statement_of(&request, &app, period).await??;
    let name = format!("statement-{app}-{period}.txt");
    Ok(download(&name, "text/plain; charset=utf-8", format!("{}\n", statement.document)))
}

/// The statement as a workbook.
async fn statement_workbook(request: ConsoleRequest) -> Answer {
    let (app, period) = asked_period(&request)?;
    let statement = statement_of(&request, &app, period).await??;
    let content = workbook::statement(statement, sheet_style()).await?;
    Ok(report_file(&format!("statement-{app}-{period}"), FileFormat::Xlsx, content))
}

/// The bill as a file: CSV, which is the same bytes as `minitill report bill` writes, or a workbook.
async fn bill<const WORKBOOK: bool>(request: ConsoleRequest) -> Answer {
    let (app, period) = asked_period(&request)?;
    let (style, format) = (sheet_style(), FileFormat::of(WORKBOOK));
    let of = (period, &style.zone);
    Ok(bill_file(&request.state.store, &app, of, (format, style.words)).await?)
}
