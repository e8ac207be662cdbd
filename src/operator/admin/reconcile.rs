//! The comparison with the books of others (contract 13.5).

use std::time::Duration;

use domain::fields::FieldError;
use serde_json::json;
use store::{BillColumn, BookColumn, ComparedBy, Comparison, ReconcileError, StoreError};

use super::books::{BooksQuery, asked_with};
use super::call::Call;
use super::describe::answers;
use super::messages::{example, no_app};
use super::problem::Problem;
use super::routes::routes;
use crate::http::body::{
    BoxedError, TooSlow, announced_bytes, refuse_announced, too_large, too_slow_for_pace,
};
use crate::http::refusal::{Code, Refusal};
use crate::openapi::{Field, Input};
use crate::operator::reconcile_upload::{
    COLUMN_FIELDS, FILE_BYTES_MAX, NotKept, at_a_pace, compared, field_of, keep, no_room,
};
use crate::state::AppState;

/// Members of a list in an answer.
const MEMBERS_MAX: u16 = 1000;

routes! { "Reports":
    /// Compare with the books of others
    ///
    /// The body is a file of CSV with a heading, at most 256 MiB, in UTF-8. It has a column of order numbers, and may have
    /// other columns of the bill, or `amount`; others are ignored. Exchanges, presents and the games' cancels are compared,
    /// of all times or of one `month` or `day`. With `by=ref` it has a column of refs, and what operators credited, took
    /// and gave back is compared. The counts are of all that was found. A list has at most 1,000
    /// members, and `complete` tells whether each has all. Nothing is changed, so no idempotency key is needed. A process
    /// takes two files at a time, and answers 503 to others.
    POST "/reports/reconcile", "reconcile", File(Reports, OwnApps): post -> Comparison =>
        answers("compared", "What was found.", json!({
            "ties": false, "matched": 0, "only_here_count": 0, "only_there_count": 1, "differs_count": 1, "complete": true,
            "only_here": [], "only_there": [{ "biz_no": "order1002" }],
            "differs": [{ "biz_no": "order1001", "field": "charge_change", "here": "-60", "there": "-6" }],
            "compared_columns": ["biz_no", "charge_change"], "ignored_columns": ["shop"], "without_number": 1, "of_other_periods": 0,
        }))
        .query(asked)
        .body(&["text/csv"], [Field::required::<String>("file", FILE, "The file.")])
        .wrong("biz_no_column", "there is no column number; there are order, coins, shop")
        .refuses([example::no_app()]);
}

/// The file of the example.
const FILE: &str = "order,coins,shop\norder1001,-6,north\norder1002,-60,north\n,0,sum\n";

/// What a file is compared by, and names of its columns, each with the column that it is.
type FileColumns = (ComparedBy, Vec<(String, BookColumn)>);

/// What a file is compared with, and what its columns are.
fn asked(query: &mut Input<'_>) -> Result<(BooksQuery, FileColumns), FieldError> {
    let asked = asked_with(query, None)?;
    let by =
        query.field("by", "What the books are compared by: the numbers of games, or the refs of operators.");
    let by = by.demand("default", "biz_no").optional(ComparedBy::parse)?.unwrap_or_default();
    let mut map = Vec::new();
    for (column, name) in COLUMN_FIELDS {
        let about = format!("The column of the file that is `{column}`, where it has another name.");
        let field = query.field(name, about);
        let field = match column {
            BookColumn::Bill(BillColumn::BizNo) => field.example("order"),
            BookColumn::Bill(BillColumn::ChargeChange) => field.example("coins"),
            _ => field,
        };
        let theirs = field.optional::<String>(|text| Ok(text.trim().to_owned()))?;
        map.extend(theirs.map(|theirs| (theirs, column)));
    }
    Ok((asked, (by, map)))
}

async fn post(state: &AppState, call: &Call) -> Result<Comparison, Problem> {
    let (asked, columns) = call.read(asked)?;
    let period = asked.period_if_any()?;
    // A time zone alone gives nothing a limit.
    if period.is_none() && call.fields.text("time_zone").is_some() {
        return Err(Problem::field("time_zone", "expected a month or a day beside it, got none"));
    }
    if state.store.app_detail(&asked.app_id).await?.is_none() {
        return Err(no_app(&asked.app_id));
    }
    let compared = compared(asked.app_id, period, &asked.zone, columns, MEMBERS_MAX)?;
    let (body, time) = (call.file(), state.config.http.body_timeout);
    refuse_announced(&body, FILE_BYTES_MAX)?;
    let announced = announced_bytes(&body);
    let mut permit = state.store.comparison_permit(&compared.app_id).await?;
    let file = keep(&mut permit, Box::pin(at_a_pace(body, announced, time))).await;
    let file = file.map_err(|error| match error {
        NotKept::TooLarge => Problem::from(too_large(FILE_BYTES_MAX)),
        NotKept::AskedBack => StoreError::Overloaded.into(),
        NotKept::Broken(error) => broken(&error, time).into(),
        NotKept::Disk(_) => no_room(error.to_string()).into(),
    })?;
    state.store.comparison(permit, compared, file).await.map_err(|error| match error {
        ReconcileError::Operation(error) => error.into(),
        ReconcileError::File(refusal) => {
            let field = refusal.fault.column().map_or("body", field_of);
            Problem::field(field, refusal.fault.text().english())
        }
        ReconcileError::Output(error) => Problem::internal(error.to_string()),
    })
}

fn broken(error: &BoxedError, time: Duration) -> Refusal {
    match error.downcast_ref() {
        Some(TooSlow { .. }) => too_slow_for_pace(time),
        None => Refusal::new(Code::IllegalParameter, "body: expected a complete body"),
    }
}
