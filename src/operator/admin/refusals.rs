//! Refusals: properly signed exchanges, presents and cancels that got nothing (contract 13.1).

use domain::code::Code;
use domain::fields::FieldError;
use domain::ids::{AppId, OpenId};
use serde_json::json;
use store::{RefusalCursor, RefusalFilter, RefusalRow};

use super::call::Call;
use super::describe::{ListBody, MOMENT, after, in_order, lists, moment};
use super::exchanges::BIZ_NO;
use super::messages::example;
use super::problem::Problem;
use super::routes::routes;
use crate::openapi::{APP_ID, Input, OPEN_ID};
use crate::state::AppState;

routes! { "Exchanges":
    /// List refusals
    ///
    /// Properly signed exchanges, presents and cancels of an app, or of all, that were refused in the last 30 days.
    /// There is one for each player, number and code, newest first by their last time. Amount, product and both purses
    /// are those of that time.
    GET "/refusals", "listRefusals", Read(Read, OwnApps): list -> ListBody<RefusalRow> =>
        lists("A page of refusals.", &json!({
            "app_id": APP_ID, "open_id": OPEN_ID, "biz_no": BIZ_NO, "kind": "exchange", "code": 10_000_601,
            "first_at": MOMENT, "last_at": MOMENT, "count": 2, "request_id": "5f2d8c1a9b3e4f60", "amount": 60,
            "product_name": "Double-up card", "free_balance": 40, "charge_balance": 0,
        }))
        .query(filter_and_place)
        .wrong("code", "expected a code of a refusal, such as 10000601, got \"601\"")
        .refuses([example::no_app()]);
}

async fn list(state: &AppState, call: &Call) -> Result<ListBody<RefusalRow>, Problem> {
    let (filter, after) = call.read(filter_and_place)?;
    let filter = RefusalFilter { apps: call.apps().clone(), ..filter };
    let found = state.store.refusals(&filter, after.as_ref(), call.limit()?);
    let found = call.search(state, filter.is_unbounded(), found).await?;
    Ok(ListBody { items: found.items, next: found.next })
}

fn filter_and_place(query: &mut Input<'_>) -> Result<(RefusalFilter, Option<RefusalCursor>), FieldError> {
    let code = query.field("code", "With this code.").example(10_000_601).demand("minimum", 10_000_000);
    let filter = RefusalFilter {
        code: code.optional_as::<u32, _>(Code::number_of)?,
        app_id: query.field("app_id", "Of this app alone.").example(APP_ID).optional(AppId::parse)?,
        since: moment(query.field("since", "Whose last time is at or after this moment."))?,
        until: moment(query.field("until", "Whose last time is before this moment."))?,
        open_id: query.field("open_id", "Of this player.").example(OPEN_ID).optional(OpenId::parse)?,
        ..RefusalFilter::default()
    };
    in_order(filter.since, filter.until)?;
    Ok((filter, after(query, RefusalCursor::parse)?))
}
