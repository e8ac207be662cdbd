//! What operators did.

use domain::fields::Expected;
use domain::ids::AppId;
use domain::moment;
use serde_json::json;
use store::{OperatorLogCursor, OperatorLogFilter, OperatorLogLine};

use super::call::Call;
use super::describe::{Described, MOMENT, Page, describe, moment as moment_field, wrong_field};
use super::page;
use super::problem::Problem;
use crate::openapi::{APP_ID, Field, OPEN_ID};
use crate::state::AppState;

/// Longest text that is looked for, in bytes.
const LOOKED_FOR_BYTES_MAX: usize = 512;

fn looked_for(text: &str) -> Result<String, Expected> {
    let fits = (1..=LOOKED_FOR_BYTES_MAX).contains(&text.len());
    if fits { Ok(text.to_owned()) } else { Err(Expected::new("1 to 512 bytes")) }
}

pub(super) async fn list(state: &AppState, call: &Call) -> Result<Page<OperatorLogLine>, Problem> {
    let names =
        ["since", "until", "app_id", "subject", "operator", "with_imported_credits", "limit", "after"];
    let query = call.query(&names)?;
    let filter = OperatorLogFilter {
        since: query.optional("since", moment::parse)?,
        until: query.optional("until", moment::parse)?,
        app_id: query.optional("app_id", AppId::parse)?,
        subject: query.optional("subject", looked_for)?,
        operator: query.optional("operator", looked_for)?,
        with_imported_credits: call.query_flag("with_imported_credits")?.unwrap_or_default(),
    };
    let (limit, after) = (call.limit()?, query.optional("after", OperatorLogCursor::parse)?);
    let lines = state.store.operator_log_page(&filter, after, limit + 1).await?;
    Ok(page(lines, limit, |line| line.cursor().to_string()))
}

pub(super) fn describe_list() -> Described<Page<OperatorLogLine>> {
    let line = json!({
        "at": MOMENT, "operator_kind": "command_line", "operator": "tests", "action": "wallet.credit", "app_id": APP_ID,
        "subject": OPEN_ID, "before": { "free_balance": 0, "charge_balance": 0 },
        "after": { "free_balance": 40, "charge_balance": 100, "ref": "start-player-1" }, "note": "",
    });
    let text = |name, description: &str| {
        let text = Field::optional::<String>(name, description);
        text.demand("minLength", 1).demand("maxLength", LOOKED_FOR_BYTES_MAX)
    };
    describe(
        "List what operators did",
        "Every change that an operator made, newest first: who, by which way, what, and how it was before and after. There is \
         no secret in it.",
        ("listed", "A page of lines."),
        json!({ "items": [line], "next": null }),
    )
    .query([
        moment_field("since", "At or after this moment."),
        moment_field("until", "Before this moment."),
        Field::optional::<AppId>("app_id", "Of this app alone.").example(APP_ID),
        text("subject", "What concerns this player, version, picture, ref or other value.").example(OPEN_ID),
        text("operator", "Whose name holds this text."),
        Field::optional::<bool>("with_imported_credits", "Each credit of an import too."),
    ])
    .paged()
    .refuses([wrong_field(
        "since",
        "expected a date and time such as 2026-11-21 or 2026-11-21T08:00, got \"soon\"",
    )])
}
