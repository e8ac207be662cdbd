//! The operator's log in the admin API (contract 8.5).

use domain::fields::{Expected, FieldError};
use domain::ids::AppId;
use serde_json::json;
use store::{LoggedAction, MadeBy, OperatorLogCursor, OperatorLogFilter, OperatorLogLine};

use super::call::Call;
use super::describe::{ListBody, MOMENT, after, in_order, lists, moment};
use super::messages::example;
use super::page;
use super::problem::Problem;
use super::routes::routes;
use crate::openapi::{APP_ID, FieldReader, Input, OPEN_ID};
use crate::state::AppState;

routes! { "Operator log":
    /// List what operators did
    ///
    /// Every change that an operator made, newest first: who, by which way, what, and how it was before and
    /// after. There is no secret in it.
    GET "/operator-log", "listOperatorLog", Read(Read, OwnApps): list -> ListBody<OperatorLogLine> =>
        lists("A page of lines.", &json!({
            "seq": 4, "at": MOMENT, "operator_kind": "command_line", "operator": "tests", "action": "wallet.credit", "app_id": APP_ID,
            "subject": OPEN_ID, "before": { "free_balance": 0, "charge_balance": 0 },
            "after": { "free_balance": 40, "charge_balance": 100, "ref": "start-player-1" }, "note": "",
        }))
        .query(lines_and_place)
        .wrong("since", "expected a date and time such as 2026-11-21 or 2026-11-21T08:00, got \"soon\"")
        .refuses([example::no_app()]);
}

/// The document's text about `since`.
const SINCE: &str = "At or after this moment. Needed with `subject`, `operator`, `action` or `by`, at most 92 days before `until` or now.";
/// Longest text that is looked for, in bytes.
const LOOKED_FOR_BYTES_MAX: usize = 512;

async fn list(state: &AppState, call: &Call) -> Result<ListBody<OperatorLogLine>, Problem> {
    let ((filter, after), limit) = (call.read(lines_and_place)?, call.limit()?);
    let filter = OperatorLogFilter { apps: call.apps().clone(), ..filter };
    call.demand_period(filter.lacks_period(state.now()), "subject, operator, action and by")?;
    let lines = state.store.operator_log_page(&filter, after, limit + 1);
    let lines = call.search(state, filter.is_unbounded(), lines).await?;
    Ok(page(lines, limit, |line| line.cursor().to_string()))
}

fn lines_and_place(
    query: &mut Input<'_>,
) -> Result<(OperatorLogFilter, Option<OperatorLogCursor>), FieldError> {
    let about = "What concerns this player, version, picture, ref or other value.";
    let filter = OperatorLogFilter {
        since: moment(query.field("since", SINCE).example("2026-11-21"))?,
        until: moment(query.field("until", "Before this moment."))?,
        app_id: query.field("app_id", "Of this app alone.").example(APP_ID).optional(AppId::parse)?,
        subject: looked_for(query.field("subject", about).example(OPEN_ID))?,
        operator: looked_for(query.field("operator", "Whose name holds this text."))?,
        action: query
            .field("action", "With this action.")
            .example("wallet.credit")
            .optional_as::<String, _>(LoggedAction::parse)?,
        by: query
            .field("by", "Made by people, or by programs with API keys.")
            .optional_as::<MadeBy, _>(MadeBy::parse)?,
        ..OperatorLogFilter::default()
    };
    in_order(filter.since, filter.until)?;
    Ok((filter, after(query, OperatorLogCursor::parse)?))
}

/// Reads a text that is looked for.
fn looked_for(field: FieldReader<'_, '_>) -> Result<Option<String>, FieldError> {
    let field = field.demand("minLength", 1).demand("maxLength", LOOKED_FOR_BYTES_MAX);
    field.optional(|text| {
        let fits = (1..=LOOKED_FOR_BYTES_MAX).contains(&text.len());
        if fits { Ok(text.to_owned()) } else { Err(Expected::new("1 to 512 bytes")) }
    })
}
