//! The statement and the bill of a period (contract 13.3 and 13.4).

use domain::fields::FieldError;
use domain::ids::AppId;
use domain::period::{Period, TimeZone};
use domain::text::Text;
use serde_json::json;
use store::Statement;

use super::super::bill::{bill_file, bill_name};
use super::super::workbook::FileFormat;
use super::call::Call;
use super::describe::{answers, file};
use super::messages::example;
use super::problem::Problem;
use super::routes::{AnsweredFile, routes};
use crate::openapi::{APP_ID, Content, Input};
use crate::state::AppState;

/// The bill of the example.
const BILL: &str = "\
at,open_id,seq,kind,biz_no,ref,free_change,charge_change,free_balance,charge_balance,zone_id,product_name
2026-10-05T00:00:00Z,player-1,1,credit,,start-player-1,40,100,40,100,,
sum,,1,,,,40,100,,,,
";
/// The document of the example.
const DOCUMENT: &str = "\
Statement of all wallets

app                                 demo
period                           2026-10
time zone                  Asia/Shanghai
since               2026-09-30T16:00:00Z
until               2026-10-31T16:00:00Z
wallets                                1

                                  gifted             charged
opening balance                        0                   0
+ credits: command                    40                 100
+ credits: import                      0                   0
+ credits: api                         0                   0
+ credits: console                     0                   0
+ presents                             0                   0
- exchanges                            0                   0
+ cancels                              0                   0
- debits                               0                   0
closing balance                       40                 100

ties to the ledger: yes
sha256: ";
pub(super) const SHA256: &str = "746aebfc7a71a10feff2c9a4c7c414dae7afaa92ca05d797db6db2f739361ec8";

routes! { "Reports":
    /// Show the statement of a day or a month
    ///
    /// What was in all purses of an app at the beginning, what came in and went out, and what was there at the end.
    /// `ties` tells whether the ledger says the same. A period can be closed two minutes after its end; from then on its
    /// statement is the same bytes whenever it is made. One of `month` and `day` must be there.
    GET "/reports/statement", "getStatement", Read(Reports, OwnApps): statement -> Statement =>
        answers("closed", "The statement.", json!({
            "app_id": APP_ID, "period": "2026-10", "time_zone": "Asia/Shanghai", "since": "2026-09-30T16:00:00Z",
            "until": "2026-10-31T16:00:00Z", "free": flows(40), "charge": flows(100), "wallets": 1, "ties": true,
            "document": format!("{DOCUMENT}{SHA256}"), "sha256": SHA256,
        }))
        .query(asked)
        .wrong("month", "expected a month such as 2026-10, got \"October\"")
        .refuses([example::no_app()]);
    /// Write the bill of a day or a month
    ///
    /// Each ledger entry of the period as a line of CSV, oldest first, as `minitill report bill` writes it. The last
    /// line begins with `sum` and has the sums: a bill without it is not complete. The period need not have ended. One of
    /// `month` and `day` must be there. With `format=xlsx` it is a workbook of at most 5,000,000 entries, with their sums
    /// by day on a sheet of their own. It comes when it is complete.
    GET "/reports/bill", "getBill", Read(Reports, OwnApps): bill -> AnsweredFile =>
        file("made", "The bill.", Content::Csv { example: BILL.into() }, &format!("{}.csv", bill_name(APP_ID, "2026-10")))
        .query(asked_for_bill)
        .wrong("month", "expected a month such as 2026-10, got \"October\"")
        .refuses([example::no_app()]);
}

fn flows(credited: i64) -> serde_json::Value {
    json!({
        "opening": 0, "credits": { "command": credited, "import": 0, "api": 0, "console": 0 }, "topups": 0, "presents": 0,
        "exchanges": 0, "cancels": 0, "debits": 0, "refunds": 0, "settlements": 0, "closing": credited,
    })
}

/// What a report is asked of: an app, a day or a month, and the time zone that gives it its limits.
pub(super) struct BooksQuery {
    pub(super) app_id: AppId,
    day: Option<Period>,
    month: Option<Period>,
    pub(super) zone: TimeZone,
}

fn asked(query: &mut Input<'_>) -> Result<BooksQuery, FieldError> {
    asked_with(query, Some(("2026-10", "Asia/Shanghai")))
}

/// Reads it. The example of the document has this month and this time zone.
pub(super) fn asked_with(
    query: &mut Input<'_>,
    example: Option<(&str, &str)>,
) -> Result<BooksQuery, FieldError> {
    let app_id = query.field("app_id", "The app.").required(APP_ID, AppId::parse)?;
    let (month, day) = month_or_day(query, example.map(|(month, _)| month))?;
    let zone = query.field("time_zone", "Time zone of the day or month, by its IANA name; UTC without it.");
    let zone = if let Some((_, example)) = example { zone.example(example) } else { zone };
    let zone = zone.optional(TimeZone::parse)?;
    Ok(BooksQuery { app_id, day, month, zone: zone.unwrap_or_default() })
}

/// Reads a month and a day.
pub(super) fn month_or_day(
    query: &mut Input<'_>,
    example: Option<&str>,
) -> Result<(Option<Period>, Option<Period>), FieldError> {
    let month = query.field("month", "Of this month, such as 2026-10.").demand("pattern", r"^\d{4}-\d{2}$");
    let month = if let Some(example) = example { month.example(example) } else { month };
    let month = month.optional_as::<String, _>(Period::month)?;
    let day = query.field("day", "Of this day, such as 2026-10-31.");
    Ok((month, day.demand("format", "date").optional_as::<String, _>(Period::day)?))
}

/// The one of both, where there is one.
pub(super) fn one_period(month: Option<Period>, day: Option<Period>) -> Result<Option<Period>, Problem> {
    match (month, day) {
        (Some(_), Some(_)) => Err(Problem::field("month", "expected a month or a day, got both")),
        (month, day) => Ok(month.or(day)),
    }
}

/// The same, and what the file is written as.
fn asked_for_bill(query: &mut Input<'_>) -> Result<(BooksQuery, FileFormat), FieldError> {
    let asked = asked(query)?;
    let format = query.field("format", "`xlsx` is a workbook for spreadsheets, with times in `time_zone`.");
    let format = format.demand("default", "csv").optional(FileFormat::parse)?;
    let excel = query.field("excel", "Short for `format=xlsx`.").demand("default", false).flag()?;
    let short = if excel == Some(true) { FileFormat::Xlsx } else { FileFormat::Csv };
    Ok((asked, format.unwrap_or(short)))
}

impl BooksQuery {
    /// The one period.
    pub(super) fn period(&self) -> Result<Period, Problem> {
        self.period_if_any()?.ok_or_else(|| Problem::field("month", "expected a month or a day, got none"))
    }

    /// The one period, or none for all of time.
    pub(super) fn period_if_any(&self) -> Result<Option<Period>, Problem> {
        one_period(self.month, self.day)
    }
}

async fn statement(state: &AppState, call: &Call) -> Result<Statement, Problem> {
    let asked = call.read(asked)?;
    let period = asked.period()?;
    Ok(state.store.period_statement(&asked.app_id, period, &asked.zone).await?)
}

async fn bill(state: &AppState, call: &Call) -> Result<AnsweredFile, Problem> {
    let (asked, format) = call.read(asked_for_bill)?;
    let of = (asked.period()?, &asked.zone);
    let file = bill_file(&state.store, &asked.app_id, of, (format, Text::english)).await;
    Ok(AnsweredFile(file?))
}
