//! Reports of apps: what exchanges took, over time, by app, item, zone and platform; paying players; refusals by code.
//! Each table is a file, too. Then the close of a period, the comparison with other books, and the income from payments
//! (contract 8.6.31, 8.6.32, 8.6.43 and 8.6.55).

mod asked;
mod chart;
mod figures;
mod money;
mod reconcile;
mod statement;
mod tables;

use askama::Template;
use axum::routing::get;
use domain::fields::Fields;
use domain::ids::AppId;
use domain::operation::RefusalKind;
use domain::period::{Preset, TimeSpan};
use domain::rights::Need;
use domain::text;
use spreadsheet::SheetCell;
use store::{
    OperationError, REPORT_ENTRIES_MAX, RefusalSum, RevenueGroup, RevenueQuery, RevenueReport, StoreError,
    csv_of,
};
use time::OffsetDateTime;

pub(super) use self::asked::read_item;
use self::asked::{ReportQuery, csv, typed_apps, visit_address};
use self::chart::{Bar, ReportChart, list};
use self::figures::{Figure, figures};
use self::tables::{NameTable, ROWS_MAX, TimeTable};
use super::super::download::report_file;
use super::super::workbook::{self, FileFormat};
use super::error::ConsoleError;
use super::i18n::{Moment as _, said, sheet_style};
use super::overview::meaning;
use super::page::{LoadsAgain, Page, Section, Shown as _, render_search};
use super::refusal_link::address_of_code;
use super::request::{Answer, ConsoleRequest, Filters, address};
use super::route::{ConsoleRoute, routes};
use super::times::Times;

pub(super) use self::money::MONEY_ROUTES;
pub(super) use self::reconcile::RECONCILE_ROUTES;
pub(super) use self::statement::STATEMENT_ROUTES;

pub(super) const ROUTES: &[ConsoleRoute] = routes! {
    page_for(Need::Reports, "/console/reports").of_own_apps() => get(page);
    page_for(Need::Reports, "/console/reports/revenue.csv").of_own_apps() => get(revenue_csv);
    page_for(Need::Reports, "/console/reports/revenue.xlsx").of_own_apps() => get(revenue_workbook);
    page_for(Need::Reports, "/console/reports/refusals.csv").of_own_apps() => get(refusals_csv);
    page_for(Need::Reports, "/console/reports/refusals.xlsx").of_own_apps() => get(refusals_workbook);
};

/// The period of a page that names none.
const PERIOD: Preset = Preset::Last30Days;
#[derive(Template)]
#[template(path = "reports.html")]
struct ReportsPage<'a> {
    page: Page<'a>,
    times: Times,
    /// The app of the page, or an empty text where it is of several.
    app_id: String,
    /// The apps that the form shows, with blanks between them. Empty: all.
    apps: String,
    /// What the page is about, in words.
    about: String,
    /// Whether a zone, an item or a platform is chosen.
    has_filter: bool,
    /// `None` where there is no app, or a field cannot be used.
    report: Option<Report>,
    /// The address of the form that closes a period.
    statement: String,
    /// The address of the form that compares a file.
    reconcile: String,
    /// The address of the income from payments.
    income: String,
}

/// What the page shows.
struct Report {
    figures: Vec<Figure>,
    /// The period before, where the apps had entries through all of it.
    before: Option<TimeSpan>,
    /// The first entry of the apps, where the period before is not whole.
    first: Option<OffsetDateTime>,
    over_time: TimeTable,
    tables: Vec<NameTable>,
    /// The file of revenue by day and item.
    csv: String,
    refusals: Vec<RefusalSum>,
    refusals_picture: ReportChart,
    refusals_csv: String,
}

/// The app that a page is about: the one that was typed, or else the first.
fn app_of(page: &Page<'_>, filters: &mut Filters<'_>) -> Option<AppId> {
    let first = || page.apps.first().map(|app| app.app_id.clone());
    let typed = filters.read("app_id", AppId::parse);
    if page.text("app_id").is_empty() { first() } else { typed }
}

async fn page(request: ConsoleRequest) -> Answer {
    let mut filters = request.filters();
    let asked = ReportQuery::read(&request, &mut filters, PERIOD)?;
    let page = Page { loads_again: LoadsAgain::Never, ..request.search_page(Section::REPORTS).await? };
    let wrong = filters.wrong;
    let report = match wrong.as_slice() {
        [] if !page.apps.is_empty() => Some(report(&request, &asked, &page).await?),
        _ => None,
    };
    let app_id = asked.app_id().unwrap_or_default().to_owned();
    let cleared = [("app_id", app_id.as_str()), ("period", ""), ("from", ""), ("to", "")];
    let statement = visit_address(&request, "/console/reports/statement", &cleared);
    let reconcile = address(reconcile::PATH, &Fields::default(), &[("app_id", &app_id)]);
    let income = visit_address(&request, money::INCOME, &cleared);
    let (page, about, apps) = (page.marking(&wrong), asked.about(), typed_apps(&request));
    let has_filter = asked.has_filter();
    let times = asked.times;
    render_search(
        &ReportsPage { page, times, app_id, apps, about, has_filter, report, statement, reconcile, income },
        &wrong,
    )
}

async fn report(
    request: &ConsoleRequest,
    asked: &ReportQuery,
    page: &Page<'_>,
) -> Result<Report, ConsoleError> {
    let store = &request.state.store;
    let times = &asked.times;
    let first = store.first_entry(asked.query(times.since, times.until, Vec::new())).await?;
    // A period of which a part is missing would say that everything grew.
    let before = times.before.filter(|before| first.is_some_and(|first| first <= before.since));
    let query = asked.query(times.since, times.until, vec![asked.step(first)]);
    let over_time = store.revenue_with_payers(query).await?;
    let mut groups = vec![RevenueGroup::ProductName, RevenueGroup::Zone, RevenueGroup::Os];
    if page.apps.len() > 1 && asked.app_id().is_none() {
        groups.insert(0, RevenueGroup::App);
    }
    let mut tables = Vec::new();
    for group in groups {
        tables.push(match asked.revenue(request, vec![group]).await {
            Ok(report) => NameTable::new(asked, group, &report, csv(request, group.as_str())),
            Err(OperationError::Refused(refusal)) if refusal.kind == RefusalKind::Invalid("group") => {
                NameTable::refused(group, &refusal)
            }
            Err(error) => return Err(error.into()),
        });
    }
    let now = (over_time.total, over_time.payers);
    let past = match before {
        Some(TimeSpan { since, until }) => {
            let query = asked.query(Some(since), Some(until), Vec::new());
            match store.revenue_with_payers(query).await {
                Ok(past) => Some((past.total, past.payers)),
                // Platforms of then are not summed (13.2.7).
                Err(OperationError::Refused(refusal)) if refusal.kind == RefusalKind::Invalid("os") => None,
                Err(error) => return Err(error.into()),
            }
        }
        None => None,
    };
    let refusals = store.refusals_by_code(&asked.apps, times.since, times.until).await?;
    Ok(Report {
        figures: figures(now, past),
        before,
        first: first.filter(|_| before.is_none() && times.before.is_some()),
        over_time: TimeTable::new(asked, first, &over_time, csv(request, asked.step(first).as_str())),
        tables,
        csv: csv(request, "day,product_name"),
        refusals_picture: of_codes(asked, &refusals),
        refusals_csv: visit_address(request, "/console/reports/refusals.csv", &[]),
        refusals,
    })
}

fn of_codes(asked: &ReportQuery, refusals: &[RefusalSum]) -> ReportChart {
    let bars = refusals.iter().map(|sum| {
        let (name, count) = (format!("{} {}", sum.code, meaning_of(sum.code)), sum.count.shown());
        let address = asked
            .list_app()
            .map(|app_id| address_of_code(app_id, sum.code, asked.times.since, asked.times.until));
        Bar { words: format!("{name}: {count}"), name, parts: [sum.count, 0], address }
    });
    let bars: Vec<Bar> = bars.collect();
    let most = bars.first().map(|first| text!("Refusals by code. The most of {words}.", words = first.words));
    let words = most.unwrap_or_else(|| text!("Refusals by code. There were none."));
    list(bars, said(&words))
}

fn meaning_of(code: i64) -> String {
    u32::try_from(code).map(meaning).unwrap_or_default()
}

fn all_refusals(refusals: &[RefusalSum]) -> i64 {
    refusals.iter().map(|sum| sum.count).sum()
}

/// What a file is asked for.
fn asked_file(request: &ConsoleRequest) -> Result<ReportQuery, ConsoleError> {
    let mut filters = request.filters();
    let asked = ReportQuery::read(request, &mut filters, PERIOD)?;
    match filters.wrong.pop() {
        Some(wrong) => Err(wrong.into()),
        None => Ok(asked),
    }
}

/// Revenue as `minitill report revenue --csv` prints it.
async fn revenue_csv(request: ConsoleRequest) -> Answer {
    let (name, report, group) = asked_revenue(&request).await?;
    let csv = report.csv(&group).map_err(|error| unwritten(&error))?;
    Ok(report_file(&name, FileFormat::Csv, csv))
}

/// The same as a workbook.
async fn revenue_workbook(request: ConsoleRequest) -> Answer {
    let (name, report, group) = asked_revenue(&request).await?;
    let content = workbook::revenue(report, group, sheet_style()).await?;
    Ok(report_file(&name, FileFormat::Xlsx, content))
}

/// The report of a file, with the name of the file and its groups.
async fn asked_revenue(
    request: &ConsoleRequest,
) -> Result<(String, RevenueReport, Vec<RevenueGroup>), ConsoleError> {
    let asked = asked_file(request)?;
    let group = request.fields.required("group", RevenueQuery::parse_groups)?;
    let report = asked.revenue(request, group.clone()).await?;
    let names: Vec<&str> = group.iter().map(|group| group.as_str()).collect();
    Ok((asked.file_name(&format!("revenue-{}", names.join("-"))), report, group))
}

/// The refusals of a file, with its name.
async fn asked_refusals(request: &ConsoleRequest) -> Result<(String, Vec<RefusalSum>), ConsoleError> {
    let asked = asked_file(request)?;
    let (since, until) = (asked.times.since, asked.times.until);
    let refusals = request.state.store.refusals_by_code(&asked.apps, since, until).await?;
    Ok((asked.file_name("refusals"), refusals))
}

async fn refusals_csv(request: ConsoleRequest) -> Answer {
    let (name, refusals) = asked_refusals(&request).await?;
    let line = |sum: &RefusalSum| [sum.code, sum.count, sum.numbers, sum.players].map(|one| one.to_string());
    let total = ["total".to_owned(), all_refusals(&refusals).to_string(), String::new(), String::new()];
    let lines = refusals.iter().map(line).chain([total]);
    let csv = csv_of(["code", "count", "numbers", "players"], lines).map_err(|error| unwritten(&error))?;
    Ok(report_file(&name, FileFormat::Csv, csv))
}

async fn refusals_workbook(request: ConsoleRequest) -> Answer {
    let (name, refusals) = asked_refusals(&request).await?;
    let style = sheet_style();
    let rows: Vec<_> = refusals.into_iter().map(|sum| (meaning_of(sum.code), sum)).collect();
    let content = workbook::made(move |book| {
        let columns =
            [text!("Code"), text!("Meaning"), text!("Refusals"), text!("Numbers"), text!("Players")];
        let columns = columns.iter().map(|heading| style.column(heading, 16)).collect();
        book.sheet(&(style.words)(&text!("Refusals")), columns)?;
        let mut total = 0;
        for (meaning, sum) in &rows {
            let figures =
                [sum.count, sum.numbers, sum.players].map(|figure| SheetCell::Integer(figure.into()));
            book.row(
                [SheetCell::Integer(sum.code.into()), SheetCell::Text(meaning)].into_iter().chain(figures),
            )?;
            total += i128::from(sum.count);
        }
        book.sheet(&(style.words)(&text!("Sums")), vec![style.column(&text!("Refusals"), 16)])?;
        book.row([SheetCell::Integer(total)])
    });
    Ok(report_file(&name, FileFormat::Xlsx, content.await?))
}

/// CSV is written into memory, so this does not happen.
pub(super) fn unwritten(error: &std::io::Error) -> ConsoleError {
    StoreError::Internal(format!("no csv: {error}")).into()
}
