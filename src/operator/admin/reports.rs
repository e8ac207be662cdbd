//! Reports of what apps have sold.

use domain::fields::{FieldError, shown};
use domain::ids::AppId;
use domain::moment;
use domain::operation::{OperationRefusal, RefusalKind};
use domain::period::TimeZone;
use serde_json::json;
use store::{OperationError, RevenueGroup, RevenueQuery, RevenueReport};

use super::call::Call;
use super::describe::answers;
use super::messages::example;
use super::problem::Problem;
use super::routes::routes;
use crate::openapi::{APP_ID, FieldReader, Input};
use crate::state::AppState;

routes! { "Reports":
    /// Show revenue
    ///
    /// What exchanges of an app have taken and what cancels have given back, in sums. `since` is in the span and `until`
    /// is not. What a cancel gives back counts at the time of the cancel, under the product and the zone of its exchange.
    /// `count` is of exchanges. `net` is what was taken less what was given back, of both purses.
    GET "/reports/revenue", "getRevenue", Read(Reports, OwnApps): revenue -> RevenueReport =>
        answers("shown", "The revenue.", json!({
            "app_id": APP_ID, "since": null, "until": "2026-11-01T00:00:00Z", "time_zone": "UTC", "rows": [],
            "total": {
                "count": 0, "free_taken": 0, "charge_taken": 0, "free_given_back": 0, "charge_given_back": 0, "net": 0,
            },
        }))
        .query(query)
        .wrong("time_zone", "expected the IANA name of a time zone, such as UTC or Asia/Shanghai, got \"Mars\"")
        .refuses([example::no_app()]);
}

/// Time zone of a report that names none.
const TIME_ZONE: &str = "UTC";
async fn revenue(state: &AppState, call: &Call) -> Result<RevenueReport, Problem> {
    let query = call.read(query)?;
    state.store.revenue(query).await.map_err(|error| match error {
        OperationError::Refused(OperationRefusal { kind: RefusalKind::Invalid(field), text, .. }) => {
            let got = shown(call.fields.text(field).unwrap_or_default());
            Problem::field(field, format!("{}, got {got}", text.english()))
        }
        error => error.into(),
    })
}

fn query(query: &mut Input<'_>) -> Result<RevenueQuery, FieldError> {
    let group = query
        .field("group", "What each row is of: `day`, `product_name` and `zone`, with commas between them.");
    let group =
        group.demand("default", "day").example("day").optional_as::<String, _>(RevenueQuery::parse_groups)?;
    let time_zone = query.field("time_zone", "IANA name of the time zone in which days begin.");
    let time_zone = time_zone.demand("default", TIME_ZONE).example(TIME_ZONE);
    let time_zone = time_zone.optional_as::<String, _>(TimeZone::parse)?;
    let app_id = query.field("app_id", "The app.").required(APP_ID, AppId::parse)?;
    let words = "At or after this moment. Without an offset it is in `time_zone`.";
    let since = given(query.field("since", words))?;
    let words = "Before this moment. Without an offset it is in `time_zone`.";
    let until = given(query.field("until", words).example("2026-11-01"))?;
    Ok(RevenueQuery {
        app_id,
        since,
        until,
        group: group.unwrap_or_else(|| vec![RevenueGroup::Day]),
        time_zone: time_zone.unwrap_or_default(),
    })
}

fn given(field: FieldReader<'_, '_>) -> Result<Option<moment::GivenMoment>, FieldError> {
    field.optional_as::<String, _>(moment::parse_given)
}
