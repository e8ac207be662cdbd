//! What operators did.

use domain::fields::Expected;
use domain::ids::AppId;
use domain::moment;
use serde_json::Value;
use store::{OperatorLogCursor, OperatorLogFilter};

use super::call::Call;
use super::page;
use super::problem::Problem;
use crate::state::AppState;

/// Longest text that is looked for, in bytes.
const LOOKED_FOR_BYTES_MAX: usize = 512;

fn looked_for(text: &str) -> Result<String, Expected> {
    let fits = (1..=LOOKED_FOR_BYTES_MAX).contains(&text.len());
    if fits { Ok(text.to_owned()) } else { Err(Expected::new("1 to 512 bytes")) }
}

pub(super) async fn list(state: &AppState, call: &Call) -> Result<Value, Problem> {
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
