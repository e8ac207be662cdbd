//! Reports of an app: what exchanges took, as pictures and tables by day, item and zone, refusals by code, each table as
//! CSV, the close of a period, and the comparison with other books (contract 8.6.31, 8.6.32 and 8.6.43).

mod chart;
mod reconcile;
mod statement;

use askama::Template;
use axum::routing::get;
use csv::{IntoInnerError, WriterBuilder};
use domain::fields::Fields;
use domain::ids::AppId;
use domain::moment::GivenMoment;
use domain::period::{Preset, TimeSpan};
use domain::rights::Need;
use domain::text;
use domain::text::Text;
use spreadsheet::SheetCell;
use store::{RefusalSum, RevenueGroup, RevenueQuery, RevenueReport, RevenueRow, RevenueSums, StoreError};
use time::OffsetDateTime;

use self::chart::{BARS_MAX, Bar, DAYS_MAX, ReportChart, columns, list};
use super::super::workbook::{self, FileFormat};
use super::error::ConsoleError;
use super::i18n::{Moment as _, said, sheet_style, zone};
use super::overview::{meaning, times};
use super::page::{Page, Section, Shown as _, render_search, report_file};
use super::refusal_link::address_of_code;
use super::request::{Answer, ConsoleRequest, Filters, address};
use super::route::ConsoleRoute;
use super::times::Times;

pub(super) use self::reconcile::RECONCILE_ROUTES;
pub(super) use self::statement::STATEMENT_ROUTES;

pub(super) const ROUTES: &[ConsoleRoute] = &[
    ConsoleRoute::page_for(Need::Reports, "/console/reports", || get(page)).of_own_apps(),
    ConsoleRoute::page_for(Need::Reports, "/console/reports/revenue.csv", || get(revenue_csv)).of_own_apps(),
    ConsoleRoute::page_for(Need::Reports, "/console/reports/revenue.xlsx", || get(revenue_workbook))
        .of_own_apps(),
    ConsoleRoute::page_for(Need::Reports, "/console/reports/refusals.csv", || get(refusals_csv))
        .of_own_apps(),
    ConsoleRoute::page_for(Need::Reports, "/console/reports/refusals.xlsx", || get(refusals_workbook))
        .of_own_apps(),
];

/// The period of a page that names none.
const PERIOD: Preset = Preset::Last30Days;
/// Rows of a table on the page. The file has all of them.
const ROWS_MAX: usize = 100;

#[derive(Template)]
#[template(path = "reports.html")]
struct ReportsPage<'a> {
    page: Page<'a>,
    times: Times,
    /// The app of the page, or an empty text where there is none.
    app_id: String,
    /// `None` where there is no app, or a field cannot be used.
    report: Option<Report>,
    /// The address of the form that closes a period.
    statement: String,
    /// The address of the form that compares a file.
    reconcile: String,
}

/// What the page shows of an app.
struct Report {
    figures: [Figure; 5],
    tables: [Table; 3],
    /// The file of revenue by day and item.
    csv: String,
    refusals: Vec<RefusalSum>,
    refusals_picture: ReportChart,
    refusals_csv: String,
}

/// A sum, and how it compares with the period before.
struct Figure {
    name: &'static str,
    value: i64,
    compared: Option<String>,
}

/// Revenue by one group, as a picture and as a table.
struct Table {
    /// The group of the address, and of the file.
    group: RevenueGroup,
    title: &'static str,
    /// The name of the first column.
    column: &'static str,
    picture: ReportChart,
    rows: Vec<(String, RevenueSums)>,
    total: RevenueSums,
    /// Rows of the file, where the page has not all of them.
    all_rows: Option<usize>,
    csv: String,
}

/// The app that a page is about: the one that was typed, or else the first.
fn app_of(page: &Page<'_>, filters: &mut Filters<'_>) -> Option<AppId> {
    let first = || page.apps.first().map(|app| app.app_id.clone());
    let typed = filters.read("app_id", AppId::parse);
    if page.text("app_id").is_empty() { first() } else { typed }
}

async fn page(request: ConsoleRequest) -> Answer {
    let mut filters = request.filters();
    let times = Times::read(&request, &mut filters, Some(PERIOD));
    let page = Page { loads_again: false, ..request.search_page(Section::REPORTS).await? };
    let app = app_of(&page, &mut filters);
    let wrong = filters.wrong;
    let report = match (&app, wrong.as_slice()) {
        (Some(app), []) => Some(report(&request, app, &times).await?),
        _ => None,
    };
    let app_id = app.map(|app| app.to_string()).unwrap_or_default();
    let statement = visit_address(
        &request,
        "/console/reports/statement",
        &app_id,
        &[("period", ""), ("from", ""), ("to", "")],
    );
    let reconcile = address(reconcile::PATH, &Fields::default(), &[("app_id", &app_id)]);
    let page = page.marking(&wrong);
    render_search(&ReportsPage { page, times, app_id, report, statement, reconcile }, &wrong)
}

/// The address of another page for the same app and times.
fn visit_address(request: &ConsoleRequest, path: &str, app_id: &str, changed: &[(&str, &str)]) -> String {
    address(path, &request.fields, &[&[("app_id", app_id)], changed].concat())
}

async fn report(request: &ConsoleRequest, app: &AppId, times: &Times) -> Result<Report, ConsoleError> {
    let by_day = revenue(request, app, times.since, times.until, vec![RevenueGroup::Day]).await?;
    let by_product = revenue(request, app, times.since, times.until, vec![RevenueGroup::ProductName]).await?;
    let by_zone = revenue(request, app, times.since, times.until, vec![RevenueGroup::Zone]).await?;
    let before = match times.before {
        Some(TimeSpan { since, until }) => {
            Some(revenue(request, app, Some(since), Some(until), Vec::new()).await?.total)
        }
        None => None,
    };
    let refusals = request.state.store.refusals_by_code(app, times.since, times.until).await?;
    let csv = |group: &str| {
        visit_address(request, "/console/reports/revenue.csv", app.as_str(), &[("group", group)])
    };
    Ok(Report {
        figures: figures(&by_day.total, before.as_ref()),
        csv: csv("day,product_name"),
        refusals_picture: of_codes(&refusals),
        refusals_csv: visit_address(request, "/console/reports/refusals.csv", app.as_str(), &[]),
        refusals,
        tables: [
            by_days(by_day, times, csv("day")),
            by_names(by_product, RevenueGroup::ProductName, csv("product_name")),
            by_names(by_zone, RevenueGroup::Zone, csv("zone")),
        ],
    })
}

async fn revenue(
    request: &ConsoleRequest,
    app: &AppId,
    since: Option<OffsetDateTime>,
    until: Option<OffsetDateTime>,
    group: Vec<RevenueGroup>,
) -> Result<RevenueReport, ConsoleError> {
    let query = RevenueQuery {
        app_id: app.clone(),
        since: since.map(GivenMoment::Fixed),
        until: until.map(GivenMoment::Fixed),
        group,
        time_zone: zone(),
    };
    Ok(request.state.store.revenue(query).await?)
}

fn figures(now: &RevenueSums, before: Option<&RevenueSums>) -> [Figure; 5] {
    let figure = |name, value: fn(&RevenueSums) -> i64| Figure {
        name,
        value: value(now),
        compared: before.map(|before| said(&compared(value(now), value(before)))),
    };
    [
        figure("Exchanges", |sums| sums.count),
        figure("Gifted coins taken", |sums| sums.free_taken),
        figure("Charged coins taken", |sums| sums.charge_taken),
        figure("Coins given back", |sums| sums.free_given_back.saturating_add(sums.charge_given_back)),
        figure("Net", |sums| sums.net),
    ]
}

/// A number beside that of the period before. Per cent say something below twice as much, and of what is not negative.
fn compared(now: i64, before: i64) -> Text {
    if now == before {
        return text!("as much as before");
    }
    if before == 0 {
        return text!("before: none");
    }
    if now < 0 || before < 0 {
        return text!("before: {before}", before = before.shown());
    }
    if now == 0 {
        return text!("none, before: {before}", before = before.shown());
    }
    let (now, base) = (i128::from(now), i128::from(before));
    let before = before.shown();
    if let Some(times) = times(now, base) {
        return text!("{times} times as much as before ({before})", times, before);
    }
    let thousandths = ((now - base).abs() * 1000 + base / 2) / base;
    let per_cent = format!("{}.{}", thousandths / 10, thousandths % 10);
    if now > base {
        text!("{per_cent} % more than before ({before})", per_cent, before)
    } else {
        text!("{per_cent} % less than before ({before})", per_cent, before)
    }
}

/// The words of a bar, which show when the pointer is on it.
fn words_of(name: &str, sums: &RevenueSums) -> String {
    said(&text!(
        "{name}: {free} gifted and {charge} charged coins, exchanges: {count}",
        name,
        free = sums.free_taken.shown(),
        charge = sums.charge_taken.shown(),
        count = sums.count.shown()
    ))
}

fn bar(name: &str, sums: &RevenueSums) -> Bar {
    Bar { name: name.to_owned(), parts: [sums.free_taken, sums.charge_taken], words: words_of(name, sums) }
}

/// A day without an exchange has a place in the picture, and no row in the table.
fn by_days(report: RevenueReport, times: &Times, csv: String) -> Table {
    let rows: Vec<(String, RevenueSums)> =
        report.rows.into_iter().map(|row| named(row, RevenueGroup::Day)).collect();
    let until = times.until.map(|until| until.min(times.now));
    let days = match times.since.zip(until) {
        Some((since, until)) if since < until => zone().days(TimeSpan { since, until }),
        _ => Vec::new(),
    };
    let mut days: Vec<String> = days.into_iter().map(|(day, _)| day.to_string()).collect();
    days.extend(rows.iter().map(|(day, _)| day.clone()));
    days.sort_unstable();
    days.dedup();
    days.drain(..days.len().saturating_sub(DAYS_MAX));
    let none = RevenueSums::default();
    let of = |day: &String| rows.iter().find(|(known, _)| known == day).map_or(&none, |(_, sums)| sums);
    let bars = days.iter().map(|day| bar(day, of(day))).collect();
    let most = rows.iter().max_by_key(|(_, sums)| taken(sums));
    let most = most
        .map(|(day, sums)| text!("Coins taken by day. The most on {words}.", words = words_of(day, sums)));
    let words = most.unwrap_or_else(|| text!("Coins taken by day. There were none."));
    let picture = columns(bars, said(&words));
    Table::new(RevenueGroup::Day, picture, rows, report.total, csv)
}

fn by_names(report: RevenueReport, group: RevenueGroup, csv: String) -> Table {
    let mut rows: Vec<(String, RevenueSums)> = report.rows.into_iter().map(|row| named(row, group)).collect();
    rows.sort_by_key(|(_, sums)| std::cmp::Reverse(taken(sums)));
    let sold = rows.iter().filter(|(_, sums)| taken(sums) > 0).take(BARS_MAX);
    let bars: Vec<Bar> = sold.map(|(name, sums)| bar(name, sums)).collect();
    let title = Text::new(title(group));
    let most = bars.first().map(|first| text!("{title}. The most for {words}.", title, words = first.words));
    let words = most.unwrap_or_else(|| text!("{title}. There were none.", title));
    Table::new(group, list(bars, said(&words)), rows, report.total, csv)
}

fn of_codes(refusals: &[RefusalSum]) -> ReportChart {
    let bars = refusals.iter().map(|sum| {
        let (name, count) = (format!("{} {}", sum.code, meaning_of(sum.code)), sum.count.shown());
        Bar { words: format!("{name}: {count}"), name, parts: [sum.count, 0] }
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

fn taken(sums: &RevenueSums) -> i64 {
    sums.free_taken.saturating_add(sums.charge_taken)
}

fn named(row: RevenueRow, group: RevenueGroup) -> (String, RevenueSums) {
    let name = match group {
        RevenueGroup::Day => row.day,
        RevenueGroup::ProductName => row.product_name,
        RevenueGroup::Zone => row.zone,
    };
    (name.unwrap_or_default(), row.sums)
}

const fn title(group: RevenueGroup) -> &'static str {
    match group {
        RevenueGroup::Day => "Coins taken by day",
        RevenueGroup::ProductName => "Coins taken by item",
        RevenueGroup::Zone => "Coins taken by zone",
    }
}

impl Table {
    fn new(
        group: RevenueGroup,
        picture: ReportChart,
        mut rows: Vec<(String, RevenueSums)>,
        total: RevenueSums,
        csv: String,
    ) -> Self {
        let column = match group {
            RevenueGroup::Day => "Day",
            RevenueGroup::ProductName => "Item",
            RevenueGroup::Zone => "Zone",
        };
        let all_rows = (rows.len() > ROWS_MAX).then_some(rows.len());
        match group {
            // The newest.
            RevenueGroup::Day => drop(rows.drain(..rows.len().saturating_sub(ROWS_MAX))),
            RevenueGroup::ProductName | RevenueGroup::Zone => rows.truncate(ROWS_MAX),
        }
        Self { group, title: title(group), column, picture, rows, total, all_rows, csv }
    }
}

/// What a file is asked for: an app, and times.
fn asked(request: &ConsoleRequest) -> Result<(AppId, Times), ConsoleError> {
    let mut filters = request.filters();
    let times = Times::read(request, &mut filters, Some(PERIOD));
    if let Some(wrong) = filters.wrong.pop() {
        return Err(wrong.into());
    }
    Ok((request.fields.required("app_id", AppId::parse)?, times))
}

/// The name of a file: what it has, the app, and the day with which it begins.
fn file_name(what: &str, app: &AppId, times: &Times) -> String {
    let day = times.since.map(|since| format!("-{}", zone().day_of(since))).unwrap_or_default();
    format!("{what}-{app}{day}")
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
    let (app, times) = asked(request)?;
    let group = request.fields.required("group", RevenueQuery::parse_groups)?;
    let report = revenue(request, &app, times.since, times.until, group.clone()).await?;
    let names: Vec<&str> = group.iter().map(|group| group.as_str()).collect();
    Ok((file_name(&format!("revenue-{}", names.join("-")), &app, &times), report, group))
}

async fn refusals_csv(request: ConsoleRequest) -> Answer {
    let (app, times) = asked(&request)?;
    let refusals = request.state.store.refusals_by_code(&app, times.since, times.until).await?;
    let mut csv = WriterBuilder::new().from_writer(Vec::new());
    let heading = csv.write_record(["code", "count", "numbers", "players"]);
    heading.map_err(|error| unwritten(&error.into()))?;
    let mut total = 0;
    for RefusalSum { code, count, numbers, players } in refusals {
        total += count;
        csv.serialize((code, count, numbers, players)).map_err(|error| unwritten(&error.into()))?;
    }
    csv.serialize(("total", total, "", "")).map_err(|error| unwritten(&error.into()))?;
    let csv = csv.into_inner().map_err(IntoInnerError::into_error).map_err(|error| unwritten(&error))?;
    Ok(report_file(&file_name("refusals", &app, &times), FileFormat::Csv, csv))
}

async fn refusals_workbook(request: ConsoleRequest) -> Answer {
    let (app, times) = asked(&request)?;
    let refusals = request.state.store.refusals_by_code(&app, times.since, times.until).await?;
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
    Ok(report_file(&file_name("refusals", &app, &times), FileFormat::Xlsx, content.await?))
}

/// CSV is written into memory, so this does not happen.
pub(super) fn unwritten(error: &std::io::Error) -> ConsoleError {
    StoreError::Internal(format!("no csv: {error}")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_compared_with_the_one_before() {
        for (now, before, words) in [
            (119, 100, "19.0 % more than before (100)"),
            (199, 100, "99.0 % more than before (100)"),
            (200, 100, "2 times as much as before (100)"),
            (254, 100, "2.5 times as much as before (100)"),
            (1_300, 100, "13 times as much as before (100)"),
            (11_900, 100, "119 times as much as before (100)"),
            (2, 3, "33.3 % less than before (3)"),
            (7, 7, "as much as before"),
            (7, 0, "before: none"),
            (0, 3, "none, before: 3"),
            (-5, 5, "before: 5"),
            (5, -5, "before: \u{2212}5"),
        ] {
            assert_eq!(compared(now, before).english(), words);
        }
    }
}
