//! Closing a day or a month: its statement, with the document and its SHA-256, and its bill (contract 8.6.32).

use askama::Template;
use axum::routing::get;
use domain::fields::{Expected, FieldError};
use domain::ids::AppId;
use domain::operation::{OperationRefusal, RefusalKind};
use domain::period::{Period, Preset};
use domain::rights::Need;
use store::{OperationError, Statement};

use super::super::super::bill::bill_file;
use super::super::super::workbook::{self, FileFormat, statement_rows};
use super::super::error::ConsoleError;
use super::super::i18n::{Moment as _, said, sheet_style, zone};
use super::super::page::{Page, Section, Shown as _, download, render_search, report_file};
use super::super::request::{Answer, ConsoleRequest, Filters, address};
use super::super::route::ConsoleRoute;
use super::{app_of, reconcile};

pub(in super::super) const STATEMENT_ROUTES: &[ConsoleRoute] = &[
    ConsoleRoute::page_for(Need::Reports, "/console/reports/statement", || get(page)).of_own_apps(),
    ConsoleRoute::page_for(Need::Reports, "/console/reports/statement.txt", || get(document)).of_own_apps(),
    ConsoleRoute::page_for(Need::Reports, "/console/reports/statement.xlsx", || get(statement_workbook))
        .of_own_apps(),
    ConsoleRoute::page_for(Need::Reports, "/console/reports/bill.csv", || get(bill::<false>)).of_own_apps(),
    ConsoleRoute::page_for(Need::Reports, "/console/reports/bill.xlsx", || get(bill::<true>)).of_own_apps(),
];

const PATH: &str = "/console/reports/statement";

#[derive(Template)]
#[template(path = "statement.html")]
struct StatementPage<'a> {
    page: Page<'a>,
    /// The app and the month that the form proposes.
    app_id: String,
    month: String,
    /// `None` for a form that was not sent.
    closed: Option<Closed>,
}

/// A period that is closed.
struct Closed {
    statement: Statement,
    /// The figures of both purses: a name, gifted, charged.
    rows: [(String, i64, i64); 10],
    /// The address of the document.
    download: String,
    /// The address of the workbook.
    workbook: String,
    /// Addresses of the bill: for programs, and for spreadsheets.
    bill: [String; 2],
    /// The address of the form that compares this period with other books.
    reconcile: String,
}

impl Closed {
    fn new(statement: Statement, app_id: &AppId, period: Period) -> Self {
        let shown = period.to_string();
        let at = |path: &str| {
            let fields = [("app_id", app_id.as_str()), (period.field(), &shown)];
            address(path, &domain::fields::Fields::default(), &fields)
        };
        Self {
            rows: statement_rows(&statement).map(|(name, free, charge)| (said(&name), free, charge)),
            download: at("/console/reports/statement.txt"),
            workbook: at("/console/reports/statement.xlsx"),
            bill: ["/console/reports/bill.csv", "/console/reports/bill.xlsx"].map(at),
            reconcile: at(reconcile::PATH),
            statement,
        }
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
    let page = Page { loads_again: false, ..request.search_page(Section::REPORTS).await? };
    let app = app_of(&page, &mut filters);
    let mut wrong = filters.wrong;
    let mut closed = None;
    if let (Some(app), Some(period), []) = (&app, period, wrong.as_slice()) {
        match close(&request, app, period).await? {
            Ok(statement) => closed = Some(Closed::new(statement, app, period)),
            Err(why) => wrong.push(why),
        }
    }
    let now = request.now();
    let last_month = Period::Month(zone().day_of(Preset::LastMonth.span(&zone(), now).since));
    let month = Some(request.text("month")).filter(|text| !text.is_empty());
    let month = month.map_or_else(|| last_month.to_string(), str::to_owned);
    let title = domain::text!("Close a day or a month");
    let page = Page { title: said(&title), ..page.marking(&wrong) };
    let app_id = app.map(|app| app.to_string()).unwrap_or_default();
    render_search(&StatementPage { page, app_id, month, closed }, &wrong)
}

/// The statement, or what is wrong with the field of its period.
async fn close(
    request: &ConsoleRequest,
    app: &AppId,
    period: Period,
) -> Result<Result<Statement, FieldError>, ConsoleError> {
    let statement = request.state.store.period_statement(app, period, &zone()).await;
    let refused = |why: domain::text::Text| {
        let (field, shown) = (period.field(), period.to_string());
        let Expected(expected) = Expected(domain::text!("a period that is closed: {why}", why));
        FieldError::malformed(field, expected, &shown)
    };
    match statement {
        Ok(statement) => Ok(Ok(statement)),
        Err(OperationError::Refused(OperationRefusal { kind: RefusalKind::Invalid(_), text, .. })) => {
            Ok(Err(refused(text)))
        }
        Err(error) => Err(error.into()),
    }
}

/// The app and the period of a file.
fn asked(request: &ConsoleRequest) -> Result<(AppId, Period), ConsoleError> {
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
    let (app, period) = asked(&request)?;
    let statement = close(&request, &app, period).await??;
    let name = format!("statement-{app}-{period}.txt");
    Ok(download(&name, "text/plain; charset=utf-8", format!("{}\n", statement.document).into_bytes()))
}

/// The statement as a workbook.
async fn statement_workbook(request: ConsoleRequest) -> Answer {
    let (app, period) = asked(&request)?;
    let statement = close(&request, &app, period).await??;
    let content = workbook::statement(statement, sheet_style()).await?;
    Ok(report_file(&format!("statement-{app}-{period}"), FileFormat::Xlsx, content))
}

/// The bill as a file: CSV, which is the same bytes as `minitill report bill` writes, or a workbook.
async fn bill<const WORKBOOK: bool>(request: ConsoleRequest) -> Answer {
    let (app, period) = asked(&request)?;
    let (style, format) = (sheet_style(), FileFormat::of(WORKBOOK));
    let of = (period, &style.zone);
    Ok(bill_file(&request.state.store, &app, of, (format, style.words)).await?)
}
