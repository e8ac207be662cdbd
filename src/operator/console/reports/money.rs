//! Money of an app: the income from payments in a day or a month, and the unused charged coins of a moment. Each is a
//! page and files (contract 8.6.55 and 19.8).

use std::collections::BTreeMap;

use askama::Template;
use axum::routing::get;
use domain::fields::{FieldError, FieldErrorKind};
use domain::ids::AppId;
use domain::moment::rfc3339;
use domain::operation::{OperationRefusal, RefusalKind};
use domain::period::{Period, Preset};
use domain::rights::Need;
use domain::text;
use store::{IncomeGroup, IncomeQuery, IncomeReport, IncomeRow, OperationError, UnusedReport};
use time::OffsetDateTime;

use super::super::super::download::report_file;
use super::super::super::workbook::{self, FileFormat};
use super::super::currency::money;
use super::super::error::ConsoleError;
use super::super::i18n::{Moment as _, parse_moment, said, sheet_style, zone};
use super::super::page::{LoadsAgain, Page, Section, Shown as _, render_search};
use super::super::request::{Answer, ConsoleRequest, Filters};
use super::super::route::{ConsoleRoute, routes};
use super::statement::{asked_period, period_of};
use super::{unwritten, visit_address};

pub(super) const INCOME: &str = "/console/reports/topups";
const UNUSED: &str = "/console/reports/unused";

pub(in super::super) const MONEY_ROUTES: &[ConsoleRoute] = routes! {
    page_for(Need::Reports, INCOME).of_own_apps() => get(income_page);
    page_for(Need::Reports, "/console/reports/topups.csv").of_own_apps() => get(income_file::<false>);
    page_for(Need::Reports, "/console/reports/topups.xlsx").of_own_apps() => get(income_file::<true>);
    page_for(Need::Reports, UNUSED).of_own_apps() => get(unused_page);
    page_for(Need::Reports, "/console/reports/unused.csv").of_own_apps() => get(unused_file::<false>);
    page_for(Need::Reports, "/console/reports/unused.xlsx").of_own_apps() => get(unused_file::<true>);
};

/// An app that a page can be about, and the address of the page.
struct AppChoice {
    app_id: String,
    address: String,
}

/// The app that a page of money is about: the one that was typed, or else the only one. The first of several would look as
/// if there were no money.
fn chosen_app(page: &Page<'_>, filters: &mut Filters<'_>) -> Option<AppId> {
    let typed = filters.read("app_id", AppId::parse);
    match page.apps.as_slice() {
        [only] if page.text("app_id").is_empty() => Some(only.app_id.clone()),
        _ => typed,
    }
}

/// The apps of the user, each with the page for it.
fn choices(request: &ConsoleRequest, page: &Page<'_>, path: &str) -> Vec<AppChoice> {
    let choice =
        |app_id: String| AppChoice { address: visit_address(request, path, &[("app_id", &app_id)]), app_id };
    page.apps.iter().map(|app| choice(app.app_id.to_string())).collect()
}

/// What the rows of the page may be of.
const GROUPS: [(IncomeGroup, &str); 4] = [
    (IncomeGroup::Day, "Day"),
    (IncomeGroup::Provider, "Payment provider"),
    (IncomeGroup::Product, "Product"),
    (IncomeGroup::Os, "Platform"),
];
/// The columns of figures.
const FIGURES: [&str; 6] = ["Payments", "Money", "Fees", "Refunded", "Charged coins", "Gifted coins"];
/// The most rows of a page. The files have all of them.
const ROWS_MAX: usize = 400;

#[derive(Template)]
#[template(path = "income.html")]
struct IncomePage<'a> {
    page: Page<'a>,
    app_id: String,
    month: String,
    /// What each row is of.
    group: IncomeGroup,
    /// `None` where no app is chosen, or a field cannot be used.
    income: Option<ShownIncome>,
    /// What the user chooses from where no app is chosen.
    choices: Vec<AppChoice>,
    /// The address of the page of unused coins.
    unused: String,
}

/// Income from payments in a period.
struct ShownIncome {
    report: IncomeReport,
    /// All rows of each currency together.
    sums: BTreeMap<String, [i64; 6]>,
    /// The addresses of the files: for programs, and for spreadsheets.
    files: [String; 2],
}

/// The name of a row's group.
fn name_of(row: &IncomeRow, group: IncomeGroup) -> &str {
    match row.name(group) {
        "" => "\u{2013}",
        name => name,
    }
}

/// Figures with the names of their columns.
fn cells(currency: &str, sums: &[i64; 6]) -> impl Iterator<Item = (&'static str, String)> {
    let [payments, amount, fee, refunded, charge, bonus] = *sums;
    let [amount, fee, refunded] = [amount, fee, refunded].map(|sum| money(currency, sum));
    FIGURES.into_iter().zip([payments.shown(), amount, fee, refunded, charge.shown(), bonus.shown()])
}

fn sums_of(rows: &[IncomeRow]) -> BTreeMap<String, [i64; 6]> {
    let mut sums = BTreeMap::<String, Option<[i64; 6]>>::new();
    for row in rows {
        let of_currency = sums.entry(row.currency.clone()).or_insert(Some([0; 6]));
        *of_currency = of_currency.and_then(|sums| added(sums, row.sums.figures()));
    }
    // A sum above 64 bits is not shown.
    sums.into_iter().filter_map(|(currency, sums)| Some((currency, sums?))).collect()
}

fn added(mut sums: [i64; 6], figures: [i64; 6]) -> Option<[i64; 6]> {
    for (sum, figure) in sums.iter_mut().zip(figures) {
        *sum = sum.checked_add(figure)?;
    }
    Some(sums)
}

fn group_of(filters: &mut Filters<'_>) -> Vec<IncomeGroup> {
    let group = filters.read("group", IncomeGroup::parse_groups);
    group.filter(|groups| !groups.is_empty()).unwrap_or_else(|| vec![IncomeGroup::Day])
}

async fn income_page(request: ConsoleRequest) -> Answer {
    let mut filters = request.filters();
    let period = period_of(&mut filters);
    let group = group_of(&mut filters).first().copied().unwrap_or(IncomeGroup::Day);
    let page = Page { loads_again: LoadsAgain::Never, ..request.search_page(Section::REPORTS).await? };
    let app = chosen_app(&page, &mut filters);
    let wrong = filters.wrong;
    let this_month = Period::Month(zone().day_of(Preset::ThisMonth.span(&zone(), request.now()).since));
    let period = period.unwrap_or(this_month);
    let app_id = app.as_ref().map(ToString::to_string).unwrap_or_default();
    let shown =
        [("app_id", app_id.as_str()), (period.field(), &period.to_string()), ("group", group.as_str())];
    let income = match &app {
        Some(app) if wrong.is_empty() => {
            let report = income_of(&request, app, period, vec![group]).await?;
            let file = |path| visit_address(&request, path, &shown);
            let files = ["/console/reports/topups.csv", "/console/reports/topups.xlsx"].map(file);
            Some(ShownIncome { sums: sums_of(&report.rows), report, files })
        }
        _ => None,
    };
    let title = said(&text!("Income from payments"));
    let page = Page { title, ..page.marking(&wrong) };
    let month = Some(request.text("month")).filter(|text| !text.is_empty());
    let month = month.map_or_else(|| this_month.to_string(), str::to_owned);
    let unused = visit_address(&request, UNUSED, &[("app_id", &app_id)]);
    let choices = choices(&request, &page, INCOME);
    render_search(&IncomePage { page, app_id, month, group, income, choices, unused }, &wrong)
}

async fn income_of(
    request: &ConsoleRequest,
    app: &AppId,
    period: Period,
    groups: Vec<IncomeGroup>,
) -> Result<IncomeReport, ConsoleError> {
    let query = IncomeQuery { span: period.span(&zone()), groups, time_zone: zone() };
    Ok(request.state.store.topup_income(app, query).await?)
}

async fn income_file<const WORKBOOK: bool>(request: ConsoleRequest) -> Answer {
    let (app, period) = asked_period(&request)?;
    let mut filters = request.filters();
    let groups = group_of(&mut filters);
    if let Some(wrong) = filters.wrong.pop() {
        return Err(wrong.into());
    }
    let report = income_of(&request, &app, period, groups.clone()).await?;
    let content = if WORKBOOK {
        workbook::income(report, groups, sheet_style()).await?
    } else {
        report.csv(&groups).map_err(|error| unwritten(&error))?
    };
    Ok(report_file(&format!("topups-{app}-{period}"), FileFormat::of(WORKBOOK), content))
}

#[derive(Template)]
#[template(path = "unused.html")]
struct UnusedPage<'a> {
    page: Page<'a>,
    app_id: String,
    /// `None` where no app is chosen, or a field cannot be used.
    report: Option<UnusedReport>,
    /// What the user chooses from where no app is chosen.
    choices: Vec<AppChoice>,
    /// The addresses of the files of the same moment: for programs, and for spreadsheets.
    files: [String; 2],
}

async fn unused_page(request: ConsoleRequest) -> Answer {
    let mut filters = request.filters();
    let at = filters.read("at", parse_moment);
    let page = request.search_page(Section::REPORTS).await?;
    let app = chosen_app(&page, &mut filters);
    let mut wrong = filters.wrong;
    let (mut report, mut loads_again) = (None, LoadsAgain::Never);
    if let (Some(app), []) = (&app, wrong.as_slice()) {
        match unused_soon(&request, app, at).await? {
            None => loads_again = LoadsAgain::Soon,
            Some(Ok(found)) => report = Some(found),
            Some(Err(why)) => wrong.push(why),
        }
    }
    let app_id = app.map(|app| app.to_string()).unwrap_or_default();
    let file = |path| visit_address(&request, path, &[("app_id", &app_id)]);
    let files = ["/console/reports/unused.csv", "/console/reports/unused.xlsx"].map(file);
    let page = Page { title: said(&text!("Unused coins")), loads_again, ..page.marking(&wrong) };
    let choices = choices(&request, &page, UNUSED);
    render_search(&UnusedPage { page, app_id, report, choices, files }, &wrong)
}

/// The report, or what is wrong with its moment.
async fn unused_of(
    request: &ConsoleRequest,
    app: &AppId,
    at: Option<OffsetDateTime>,
) -> Result<Result<UnusedReport, FieldError>, ConsoleError> {
    told(request.state.store.unused_coins(app, at).await)
}

/// The same for the page. `None` while it is being made.
async fn unused_soon(
    request: &ConsoleRequest,
    app: &AppId,
    at: Option<OffsetDateTime>,
) -> Result<Option<Result<UnusedReport, FieldError>>, ConsoleError> {
    let (store, app) = (request.state.store.clone(), app.clone());
    let key = [request.user.name.to_string(), app.to_string(), at.map(rfc3339).unwrap_or_default()];
    let make = move || {
        let (store, app) = (store.clone(), app.clone());
        async move { store.unused_coins(&app, at).await }
    };
    request.state.unused_reports.get(key, make).await.map(told).transpose()
}

fn told(
    report: Result<UnusedReport, OperationError>,
) -> Result<Result<UnusedReport, FieldError>, ConsoleError> {
    match report {
        Ok(report) => Ok(Ok(report)),
        Err(OperationError::Refused(OperationRefusal {
            kind: RefusalKind::Invalid(field), text, ..
        })) => Ok(Err(FieldError { field: field.to_owned(), problem: FieldErrorKind::Refused(text) })),
        Err(error) => Err(error.into()),
    }
}

async fn unused_file<const WORKBOOK: bool>(request: ConsoleRequest) -> Answer {
    let app = request.fields.required("app_id", AppId::parse)?;
    let at = request.fields.optional("at", parse_moment)?;
    let report = unused_of(&request, &app, at).await??;
    let day = zone().day_of(report.at);
    let content = if WORKBOOK {
        workbook::unused(report, sheet_style()).await?
    } else {
        report.csv().map_err(|error| unwritten(&error))?
    };
    Ok(report_file(&format!("unused-{app}-{day}"), FileFormat::of(WORKBOOK), content))
}
