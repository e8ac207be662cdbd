//! Closed periods of an app (contract 13.3.9).

use domain::fields::FieldError;
use domain::period::{Period, TimeZone};
use serde_json::{Value, json};
use store::ClosedPeriod;

use super::call::Call;
use super::describe::{ListBody, MOMENT, answers, lists};
use super::problem::Problem;
use super::routes::routes;
use crate::openapi::{APP_ID, Input};
use crate::state::AppState;

routes! { "Reports":
    /// List closed periods
    ///
    /// The months of an app whose books were closed, the newest first. `differs` tells that the statement was found to be
    /// another one at `compared_at`: servers compare each about once a day.
    GET "/apps/{app_id}/closed-periods", "listClosedPeriods", Read(Reports): list -> ListBody<ClosedPeriod> =>
        lists("The closed periods.", &closed_example());
    /// Close the books of a month
    ///
    /// Records who closed it, when, and the SHA-256 of its statement. The first close stands: a second one is answered with
    /// what the first recorded. A statement that does not tie is not closed, and a month that has not ended is not either.
    PUT "/apps/{app_id}/closed-periods/{month}", "closePeriod", Replace(Reports): close -> ClosedPeriod =>
        answers("closed", "The close that stands.", closed_example())
            .read(zone_of)
            .wrong("time_zone", "expected the IANA name of a time zone, such as UTC or Asia/Shanghai, got \"Mars\"");
}

fn zone_of(body: &mut Input<'_>) -> Result<TimeZone, FieldError> {
    let zone = body.field("time_zone", "Time zone of the month, by its IANA name; UTC without it.");
    Ok(zone.example("Asia/Shanghai").optional(TimeZone::parse)?.unwrap_or_default())
}

async fn list(state: &AppState, call: &Call) -> Result<ListBody<ClosedPeriod>, Problem> {
    call.fields.only(&[])?;
    Ok(ListBody { items: state.store.closed_periods(&call.app_id()?).await?, next: None })
}

async fn close(state: &AppState, call: &Call) -> Result<ClosedPeriod, Problem> {
    let (app_id, month) = (call.app_id()?, call.segment("month", "month", Period::month)?);
    let zone = call.read(zone_of)?;
    Ok(state.store.close_period(&call.operator(), &app_id, month, &zone, None).await?)
}

fn closed_example() -> Value {
    json!({
        "app_id": APP_ID, "month": "2026-10", "time_zone": "Asia/Shanghai", "sha256": super::books::SHA256,
        "closed_by_kind": "api_key", "closed_by": "dashboard", "closed_at": MOMENT, "compared_at": MOMENT,
        "differs": false,
    })
}
