//! Income of payments, and the charged coins that are unused (contract 19.8).

use domain::fields::FieldError;
use domain::ids::AppId;
use domain::moment::{self, GivenMoment};
use domain::operation::{OperationRefusal, RefusalKind};
use domain::period::TimeZone;
use serde_json::json;
use store::{IncomeGroup, IncomeQuery, IncomeReport, OperationError, UnusedReport};
use time::OffsetDateTime;

use super::books::{BooksQuery, asked_with};
use super::call::Call;
use super::describe::answers;
use super::messages::example;
use super::problem::Problem;
use super::routes::routes;
use crate::openapi::{APP_ID, Input};
use crate::state::AppState;

routes! { "Reports":
    /// Show the income from payments
    ///
    /// The payments that were credited in a day or a month, in sums by currency: money, fees, refunds, and the coins that
    /// they brought before refunds. A refund counts when it was carried out. Payments that were told of then and wait for an
    /// operator are apart. One of `month` and `day` must be there.
    GET "/reports/topups", "getTopupReport", Read(Reports, OwnApps): topups -> IncomeReport =>
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
    /// it; from then on it stays the same.
    GET "/reports/unused", "getUnusedReport", Read(Reports, OwnApps): unused -> UnusedReport =>
        answers("shown", "The report.", json!({
            "app_id": APP_ID, "at": "2026-10-31T16:00:00Z", "rows": [], "without_price": 0, "total": 0,
        }))
        .query(asked_at)
        .wrong("at", "expected a date and time such as 2026-11-21 or 2026-11-21T08:00, got \"soon\"")
        .refuses([example::no_app()]);
}

fn asked(query: &mut Input<'_>) -> Result<(BooksQuery, Vec<IncomeGroup>), FieldError> {
    let asked = asked_with(query, Some(("2026-10", "Asia/Shanghai")))?;
    let words = "What each row is of: `day`, `provider`, `product_id`, `currency` and `os`, with commas between them. \
                 Currencies are never added.";
    let group = query.field("group", words).demand("default", "day,currency").example("day,currency");
    let group = group.optional_as::<String, _>(IncomeGroup::parse_groups)?;
    Ok((asked, group.unwrap_or_else(|| vec![IncomeGroup::Day])))
}

async fn topups(state: &AppState, call: &Call) -> Result<IncomeReport, Problem> {
    let (asked, groups) = call.read(asked)?;
    let span = asked.period()?.span(&asked.zone);
    let query = IncomeQuery { span, groups, time_zone: asked.zone };
    Ok(state.store.topup_income(&asked.app_id, query).await?)
}

/// The app, the moment, and the time zone of a moment without an offset.
fn asked_at(query: &mut Input<'_>) -> Result<(AppId, Option<OffsetDateTime>), FieldError> {
    let app_id = query.field("app_id", "The app.").required(APP_ID, AppId::parse)?;
    let words = "IANA name of the time zone of `at`; UTC without it.";
    let zone = query.field("time_zone", words).example("Asia/Shanghai").optional(TimeZone::parse)?;
    let words =
        "Entries before this moment count. Without an offset it is in `time_zone`. Without it: all entries.";
    let at = query.field("at", words).example("2026-11-01");
    let at: Option<GivenMoment> = at.optional_as::<String, _>(moment::parse_given)?;
    Ok((app_id, at.map(|at| zone.unwrap_or_default().moment(at))))
}

async fn unused(state: &AppState, call: &Call) -> Result<UnusedReport, Problem> {
    let (app_id, at) = call.read(asked_at)?;
    state.store.unused_coins(&app_id, at).await.map_err(|error| match error {
        OperationError::Refused(OperationRefusal { kind: RefusalKind::Invalid(field), text, .. }) => {
            Problem::field(field, text.english())
        }
        error => error.into(),
    })
}
