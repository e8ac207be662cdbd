//! Many credits in one request.

use domain::fields::{FieldError, Fields};
use domain::ids::{CreditRef, OpenId};
use domain::operation::RefusalKind;
use domain::operation::wallet::{ChangedPurses, Credit};
use domain::wallet::check_credit;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, json};
use store::{CREDITS_MAX, CreditResult, CreditsSource};

use super::call::Call;
use super::describe::answers;
use super::messages::example;
use super::problem::Problem;
use super::routes::routes;
use super::wallets::{TEXT_BYTES_MAX, line};
use crate::openapi::{Field, Input, OPEN_ID};
use crate::state::AppState;

routes! { "Players":
    /// Credit many wallets
    ///
    /// 1 to 10,000 credits in one transaction, in their order, each once for its `ref`. A credit that is refused leaves
    /// the others alone; its line tells why. After a time-out send the same request again: what was credited is
    /// `replayed`. So the call needs no idempotency key. A wrong field refuses the whole request.
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

/// What holds for all credits of a request.
fn for_all(body: &mut Input<'_>) -> Result<(bool, String), FieldError> {
    let words = "Whether to make players known whom the app does not know; no without it.";
    let create = body.field("create", words).example(false).flag()?.unwrap_or_default();
    let note = body.field("note", "Note, for people.").demand("maxLength", TEXT_BYTES_MAX);
    Ok((create, note.example("Spring festival").optional(line)?.unwrap_or_default()))
}

async fn credit_many(state: &AppState, call: &Call) -> Result<CreditsMade, Problem> {
    let app_id = call.app_id()?;
    call.fields.only(&["create", "credits", "note"])?;
    let (create, note) = for_all(&mut Input::of(&call.fields))?;
    let read = |fields: &Fields| credit(fields, create, &note);
    let credits = call.fields.required_objects("credits", CREDITS_MAX, &NAMES, read)?;
    let refs: Vec<_> = credits.iter().map(|credit| credit.reference.to_string()).collect();
    let source = CreditsSource { subject: "credits:batch".to_owned(), facts: Map::new(), note };
    let results = state.store.credit_many(&call.operator(), &app_id, source, credits).await?;
    let lines: Vec<_> =
        refs.into_iter().zip(&results).map(|(reference, result)| made(reference, result)).collect();
    let count = |wanted: &[Status]| lines.iter().filter(|line| wanted.contains(&line.status)).count();
    let (credited, replayed) = (count(&[Status::Credited]), count(&[Status::Replayed]));
    Ok(CreditsMade { credited, replayed, refused: lines.len() - credited - replayed, lines })
}

fn credit(fields: &Fields, create: bool, note: &str) -> Result<Credit, FieldError> {
    let open_id = fields.required("open_id", OpenId::parse)?;
    let free = fields.integer("free", 0, i64::MAX)?.unwrap_or_default();
    let charge = fields.integer("charge", 0, i64::MAX)?.unwrap_or_default();
    let reference = fields.required("ref", CreditRef::parse)?;
    check_credit(free, charge).map_err(|expected| FieldError::malformed("free", expected.0, "0"))?;
    Ok(Credit { open_id, free, charge, reference, note: note.to_owned(), create })
}

fn made(reference: String, result: &CreditResult) -> CreditMade {
    let status = match result {
        Ok(ChangedPurses { replayed: false, .. }) => Status::Credited,
        Ok(ChangedPurses { replayed: true, .. }) => Status::Replayed,
        Err(refusal) => match refusal.kind {
            RefusalKind::Unknown(_) => Status::UnknownPlayer,
            RefusalKind::Limit => Status::BalanceTooLarge,
            RefusalKind::Conflict | RefusalKind::NotAllowed | RefusalKind::Invalid(_) => Status::RefUsed,
        },
    };
    let purses = result.as_ref().ok();
    let free_balance = purses.map(|purses| purses.free_balance);
    CreditMade { reference, status, free_balance, charge_balance: purses.map(|purses| purses.charge_balance) }
}

/// A credit of a request with many.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "the schema of the API's document")]
struct CreditLine {
    /// The player.
    open_id: OpenId,
    /// Gifted currency to add; 0 without it.
    #[schemars(range(min = 0), skip_serializing_if = "Option::is_none")]
    free: Option<i64>,
    /// Charged currency to add; 0 without it.
    #[schemars(range(min = 0), skip_serializing_if = "Option::is_none")]
    charge: Option<i64>,
    /// Your reference, unique in the app: the same ref is the same credit for ever.
    #[schemars(rename = "ref")]
    reference: CreditRef,
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
    status: Status,
    /// Gifted currency right after the credit. `null` for a refusal.
    free_balance: Option<i64>,
    /// Charged currency right after it. `null` for a refusal.
    charge_balance: Option<i64>,
}

/// What became of one of many credits.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum Status {
    /// This request made the credit.
    Credited,
    /// An earlier request had made it.
    Replayed,
    /// The ref was used for another player or with other amounts.
    RefUsed,
    /// The app does not know the player, and the request makes nobody known.
    UnknownPlayer,
    /// A balance would be more than 9223372036854775807.
    BalanceTooLarge,
}
