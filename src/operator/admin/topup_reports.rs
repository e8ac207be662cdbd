//! Income of payments, and the charged coins that are unused (contract 19.8).

use domain::fields::FieldError;
use domain::ids::AppId;
use domain::moment::{self, GivenMoment};
use domain::operation::books::existing_span;
use domain::operation::{OperationRefusal, RefusalKind};
use domain::period::TimeZone;
use serde_json::json;
use store::{IncomeGroup, IncomeQuery, IncomeReport, OperationError, SheetStyle, UnusedReport};

use super::super::workbook::{self, FileFormat};
use super::books::{BooksQuery, asked_with};
use super::call::Call;
use super::describe::answers;
use super::messages::example;
use super::problem::Problem;
use super::reports::{AnswerFormat, ReportAnswer, unwritten};
use super::routes::routes;
use crate::openapi::{APP_ID, Input};
use crate::state::AppState;

routes! { "Reports":
    /// Show the income from payments
    ///
    /// The payments that were credited in a day or a month, in sums by currency: money, fees, refunds, and the coins that
    /// they brought before refunds. A refund counts when it was carried out. Payments that were told of then and wait for an
    /// operator are apart. One of `month` and `day` must be there. With `format=csv` or `format=xlsx` the answer is a file, as
    /// `minitill report topups` writes it.
    GET "/reports/topups", "getTopupReport", Read(Reports, OwnApps): topups -> ReportAnswer<IncomeReport> =>
        answers("shown", "The report.", json!({
            "app_id": APP_ID, "since": "2026-09-30T16:00:00Z", "until": "2026-10-31T16:00:00Z",
            "time_zone": "Asia/Shanghai", "rows": [], "unmatched": [],
        }))
        .query(asked)
        .wrong("month", "expected a month such as 2026-10, got \"October\"")
        .refuses([example::no_app()]);
    /// Show the unused charged coins
    ///
    /// The charged coins in all purses of an app, by what they have cost. A report of a moment can be made two minutes after
    /// it; from then on it stays the same. With `format=csv` or `format=xlsx` the answer is a file, as `minitill report
    /// unused` writes it.
    GET "/reports/unused", "getUnusedReport", Read(Reports, OwnApps): unused -> ReportAnswer<UnusedReport> =>
        answers("shown", "The report.", json!({
            "app_id": APP_ID, "at": "2026-10-31T16:00:00Z", "rows": [], "by_currency": [], "without_price": 0, "total": 0,
        }))
        .query(asked_at)
        .wrong("at", "expected a date and time such as 2026-11-21 or 2026-11-21T08:00, got \"soon\"")
        .refuses([example::no_app()]);
}

/// What the income is asked for.
struct IncomeFields {
    books: BooksQuery,
    groups: Vec<IncomeGroup>,
    format: AnswerFormat,
}

fn asked(query: &mut Input<'_>) -> Result<IncomeFields, FieldError> {
    let books = asked_with(query, Some(("2026-10", "Asia/Shanghai")))?;
    let words = "What each row is of: `day`, `provider`, `product_id`, `currency` and `os`, with commas between them. \
                 Currencies are never added.";
    let group = query.field("group", words).demand("default", "day,currency").example("day,currency");
    let group = group.optional_as::<String, _>(IncomeGroup::parse_groups)?;
    let groups = group.unwrap_or_else(|| vec![IncomeGroup::Day]);
    Ok(IncomeFields { books, groups, format: AnswerFormat::read(query)? })
}

async fn topups(state: &AppState, call: &Call) -> Result<ReportAnswer<IncomeReport>, Problem> {
    let IncomeFields { books, groups, format } = call.read(asked)?;
    let period = books.period()?;
    let span = existing_span(period, &books.zone)?;
    let query = IncomeQuery { span, groups: groups.clone(), time_zone: books.zone.clone() };
    let report = state.store.topup_income(&books.app_id, query).await?;
    let Some(format) = format.file() else { return Ok(ReportAnswer::Report(Box::new(report))) };
    let bytes = match format {
        FileFormat::Csv => report.csv(&groups).map_err(|error| unwritten(&error))?,
        FileFormat::Xlsx => workbook::income(report, groups, SheetStyle::english(books.zone)).await?,
    };
    Ok(ReportAnswer::file(&format!("topups-{}-{period}", books.app_id), format, bytes))
}

/// What unused coins are asked for.
struct UnusedFields {
    app_id: AppId,
    at: Option<GivenMoment>,
    /// That of a moment without an offset, and of a file.
    zone: TimeZone,
    format: AnswerFormat,
}

fn asked_at(query: &mut Input<'_>) -> Result<UnusedFields, FieldError> {
    let app_id = query.field("app_id", "The app.").required(APP_ID, AppId::parse)?;
    let words = "IANA name of the time zone of `at`; UTC without it.";
    let zone = query.field("time_zone", words).example("Asia/Shanghai").optional(TimeZone::parse)?;
    let words =
        "Entries before this moment count. Without an offset it is in `time_zone`. Without it: all entries.";
    let at = query.field("at", words).example("2026-11-01");
    let at = at.optional_as::<String, _>(moment::parse_given)?;
    Ok(UnusedFields { app_id, at, zone: zone.unwrap_or_default(), format: AnswerFormat::read(query)? })
}

async fn unused(state: &AppState, call: &Call) -> Result<ReportAnswer<UnusedReport>, Problem> {
    let UnusedFields { app_id, at, zone, format } = call.read(asked_at)?;
    let report = state.store.unused_coins(&app_id, at.map(|at| zone.moment(at))).await;
    let report = report.map_err(|error| match error {
        OperationError::Refused(OperationRefusal { kind: RefusalKind::Invalid(field), text, .. }) => {
            Problem::field(field, text.english())
        }
        error => error.into(),
    })?;
    let Some(format) = format.file() else { return Ok(ReportAnswer::Report(Box::new(report))) };
    let name = format!("unused-{app_id}-{}", zone.day_of(report.at));
    let bytes = match format {
        FileFormat::Csv => report.csv().map_err(|error| unwritten(&error))?,
        FileFormat::Xlsx => workbook::unused(report, SheetStyle::english(zone)).await?,
    };
    Ok(ReportAnswer::file(&name, format, bytes))
}
