//! Many credits in one request.

use domain::fields::{FieldError, FieldErrorKind, Fields, LINE_BYTES_MAX, parse_line};
use domain::ids::{CreditRef, OpenId};
use domain::operation::wallet::{
    Credit, CreditCells, CreditStatus, CreditsForAll, REF_PREFIX_BYTES_MAX, ref_prefix,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, json};
use store::{CREDITS_MAX, CreditForecast, CreditResult, CreditsSource, ForeseenCredit};

use super::call::Call;
use super::describe::answers;
use super::messages::example;
use super::problem::Problem;
use super::routes::routes;
use crate::openapi::{Field, Input, OPEN_ID};
use crate::state::AppState;

routes! { "Players":
    /// Credit many wallets
    ///
    /// 1 to 10,000 credits in one transaction, in their order, each once for its `ref`. A credit that is refused leaves
    /// the others alone; its line tells why. After a time-out send the same request again: what was credited is
    /// `replayed`. So the call needs no idempotency key. A wrong field refuses the whole request. With `dry_run` nothing is
    /// credited, and `credited` counts what would be.
    POST "/apps/{app_id}/credits:batch", "creditWallets", Many(Money): credit_many -> CreditsMade =>
        answers("credited", "One line for each credit, in the order of the request.", json!({
            "credited": 1, "replayed": 0, "refused": 0,
            "lines": [{ "ref": "gift-1", "status": "credited", "free_balance": 90, "charge_balance": 100 }],
        }))
        .members([list()].into_iter().chain(Input::describe(for_all)))
        .refuses([example::needs_second()])
        .wrong("credits[0].free", "expected an integer from 0 to 9223372036854775807, got -5");
}

/// The names of a credit.
const NAMES: [&str; 4] = ["open_id", "free", "charge", "ref"];

/// The list of credits, for the API's document.
fn list() -> Field {
    let example = json!([{ "open_id": OPEN_ID, "free": 50, "ref": "gift-1" }]);
    let field = Field::required::<Vec<CreditLine>>("credits", example, "The credits.");
    field.demand("minItems", 1).demand("maxItems", CREDITS_MAX)
}

/// What holds for all credits of a request, and whether they are only foreseen.
fn for_all(body: &mut Input<'_>) -> Result<(CreditsForAll, bool), FieldError> {
    let words = "Whether to register players whom the app does not know; no without it.";
    let create = body.field("create", words).example(false).flag()?.unwrap_or_default();
    let free = body.field("free", "Gifted currency for each credit that says none.").integer(0, i64::MAX)?;
    let charge =
        body.field("charge", "Charged currency for each credit that says none.").integer(0, i64::MAX)?;
    let words = "For each credit without a `ref`: its ref is this, a hyphen and the `open_id`.";
    let prefix =
        body.field("ref_prefix", words).demand("minLength", 1).demand("maxLength", REF_PREFIX_BYTES_MAX);
    let ref_prefix = prefix.optional(ref_prefix)?;
    let words = "Whether to credit nothing, and only tell what would become of each.";
    let dry_run = body.field("dry_run", words).flag()?.unwrap_or_default();
    let note = body.field("note", "Note, for people.").demand("maxLength", LINE_BYTES_MAX);
    let note = note.example("Spring festival").optional(parse_line)?.unwrap_or_default();
    Ok((CreditsForAll { free, charge, ref_prefix, note, create }, dry_run))
}

async fn credit_many(state: &AppState, call: &Call) -> Result<CreditsMade, Problem> {
    let app_id = call.app_id()?;
    call.fields.only(&["charge", "create", "credits", "dry_run", "free", "note", "ref_prefix"])?;
    let (for_all, dry_run) = for_all(&mut Input::of(&call.fields))?;
    let credits =
        call.fields.required_objects("credits", CREDITS_MAX, &NAMES, |fields| credit(fields, &for_all))?;
    let refs: Vec<_> = credits.iter().map(|credit| credit.reference.to_string()).collect();
    let lines: Vec<_> = if dry_run {
        let mut forecast = CreditForecast::default();
        let foreseen = state.store.foresee_credits(&app_id, &mut forecast, &credits).await?;
        refs.into_iter().zip(&foreseen).map(|(reference, foreseen)| would_be(reference, foreseen)).collect()
    } else {
        let note = for_all.note;
        let source = CreditsSource { subject: "credits:batch".to_owned(), facts: Map::new(), note };
        let results = state.store.credit_many(&call.operator(), &app_id, source, credits).await?;
        refs.into_iter().zip(&results).map(|(reference, result)| made(reference, result)).collect()
    };
    let count = |wanted: CreditStatus| lines.iter().filter(|line| line.status == wanted).count();
    let (credited, replayed) = (count(CreditStatus::Credited), count(CreditStatus::Replayed));
    Ok(CreditsMade { credited, replayed, refused: lines.len() - credited - replayed, lines })
}

fn credit(fields: &Fields, for_all: &CreditsForAll) -> Result<Credit, FieldError> {
    let cells = CreditCells {
        open_id: Some(fields.required("open_id", OpenId::parse)?),
        free: fields.integer("free", 0, i64::MAX)?,
        charge: fields.integer("charge", 0, i64::MAX)?,
        reference: fields.optional("ref", CreditRef::parse)?,
    };
    for_all.credit(cells).map_err(|fault| match fault.problem {
        // Both amounts are 0.
        FieldErrorKind::Malformed { expected, .. } if fault.field != "open_id" => {
            FieldError::malformed_number("free", expected, "0")
        }
        _ => fault,
    })
}

fn made(reference: String, result: &CreditResult) -> CreditMade {
    let purses = result.as_ref().ok();
    CreditMade {
        reference,
        status: CreditStatus::of(result),
        free_balance: purses.map(|purses| purses.free_balance),
        charge_balance: purses.map(|purses| purses.charge_balance),
    }
}

fn would_be(reference: String, foreseen: &ForeseenCredit) -> CreditMade {
    let status = match foreseen {
        ForeseenCredit::Credited => CreditStatus::Credited,
        ForeseenCredit::Replayed => CreditStatus::Replayed,
        ForeseenCredit::Refused(refusal) => CreditStatus::of_refusal(refusal),
    };
    CreditMade { reference, status, free_balance: None, charge_balance: None }
}

/// A credit of a request with many.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "the schema of the API's document")]
struct CreditLine {
    /// The player.
    open_id: OpenId,
    /// Gifted currency to add; without it that of all.
    #[schemars(range(min = 0), skip_serializing_if = "Option::is_none")]
    free: Option<i64>,
    /// Charged currency to add; without it that of all.
    #[schemars(range(min = 0), skip_serializing_if = "Option::is_none")]
    charge: Option<i64>,
    /// Your reference, unique in the app: the same ref is the same credit for ever. Needed without `ref_prefix`.
    #[schemars(rename = "ref", skip_serializing_if = "Option::is_none")]
    reference: Option<CreditRef>,
}

/// The result of many credits.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Credits")]
struct CreditsMade {
    /// How many credits this request made.
    credited: usize,
    /// How many an earlier request had made.
    replayed: usize,
    /// How many were refused.
    refused: usize,
    /// One for each credit, in the order of the request.
    lines: Vec<CreditMade>,
}

/// The result of one of many credits.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CreditsLine")]
struct CreditMade {
    /// The ref of the credit.
    #[serde(rename = "ref")]
    reference: String,
    /// What became of it.
    status: CreditStatus,
    /// Gifted currency right after the credit. `null` for a refusal, and for what is only foreseen.
    free_balance: Option<i64>,
    /// Charged currency right after it. `null` likewise.
    charge_balance: Option<i64>,
}
