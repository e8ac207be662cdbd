//! `/sandbox/v1/...`: the test world of a sandbox app (contract 15). A game asks for faults, and says what it shipped.

pub(super) mod requests;
pub(super) mod server;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use domain::endpoint::Endpoint;
use domain::examples::BIZ_NO;
use domain::fields::{FieldError, Fields};
use domain::ids::BizNo;
use domain::sandbox::{DELAY_MAX, Fault, FaultKind, FaultState, FaultTarget, SandboxApp, TIMES_MAX};
use schemars::JsonSchema;
use serde::Serialize;

use super::describe::{credentials, wrong_value};
use super::extract::{query_with, succeeded, success};
use super::fault;
use super::{auth, called_app};
use crate::config::Config;
use crate::http::body::read_body;
use crate::http::rate_limit::Limited;
use crate::http::refusal::{Code, Refusal};
use crate::openapi::{Input, Operation, Place, Success, refusals};
use crate::state::AppState;

/// No code has more digits.
const CODE_MAX: i64 = 999_999_999;

refusals! { Refusal:
    /// The app takes real money.
    no_sandbox_app() => Refusal::new(Code::Forbidden, "app_id: expected a sandbox app; to make one, run: minitill app create ID --sandbox");
    /// A field is missing or not acceptable; the text says which, what was expected and what came.
    illegal_parameter() => wrong_value(Code::IllegalParameter, "target", "everything", FaultTarget::parse);
}

/// Asks for a fault.
///
/// # Errors
/// The codes of contract 7.1 that are marked sandbox or all.
pub async fn faults(State(state): State<AppState>, request: Request) -> Result<Response, Refusal> {
    let (app, fields) = read(&state, request).await?;
    let fault = read_fault(&mut Input::of(&fields))?;
    let _turn = fault::turn(&state, &app).await?;
    Ok(success(Faults { faults: state.store.ask_for_fault(&app, fault, None).await? }))
}

/// Notes a shipment.
///
/// # Errors
/// The codes of contract 7.1 that are marked sandbox or all.
pub async fn shipments(State(state): State<AppState>, request: Request) -> Result<Response, Refusal> {
    let (app, fields) = read(&state, request).await?;
    let biz_no = read_shipment(&mut Input::of(&fields))?;
    let _turn = fault::turn(&state, &app).await?;
    let shipments = state.store.note_shipment(&app, &biz_no).await?;
    let shipments = shipments.ok_or_else(|| {
        Refusal::new(Code::IllegalParameter, "biz_no: too many numbers of this app were noted this week")
    })?;
    Ok(success(Shipped { shipments }))
}

/// The sandbox app that calls, the fields of its query, and the body.
async fn read_query(state: &AppState, request: Request) -> Result<(SandboxApp, Fields, Body), Refusal> {
    let (parts, body) = request.into_parts();
    let (query, body) = query_with(&auth::CREDENTIALS, &state.config.http, &parts, body).await?;
    let caller = auth::authenticate(state, &query, Limited::Reports).await?;
    let app = SandboxApp::of(caller.app()).ok_or_else(no_sandbox_app)?;
    Ok((app, query, body))
}

/// The sandbox app that calls, and the fields of its body.
async fn read(state: &AppState, request: Request) -> Result<(SandboxApp, Fields), Refusal> {
    let (app, _, body) = read_query(state, request).await?;
    Ok((app, read_fields(state, body).await?))
}

async fn read_fields(state: &AppState, body: Body) -> Result<Fields, Refusal> {
    let fields = Fields::from_json(&read_body(&state.config.http, body).await?)?;
    called_app::note_fields(&fields);
    Ok(fields)
}

fn read_fault(body: &mut Input<'_>) -> Result<Fault, Refusal> {
    let target = "What the fault happens to: answers of an endpoint, notifications of a type, or `numbers`.";
    let kinds = "`lost`: the connection closes without an answer. `unavailable`: 503. `late`: after `delay_ms`. \
        `refuse`: `code` is answered, and nothing is carried out. Of notifications: `twice`, `late` or `never`. Of `numbers`: `old`, 49 hours older than they are.";
    let times_max = TIMES_MAX;
    let delay_max = i64::try_from(DELAY_MAX.as_millis()).unwrap_or(i64::MAX);
    let target = body.field("target", target).required("exchange", FaultTarget::parse)?;
    let kind = body.field("fault", kinds).required("lost", FaultKind::parse)?;
    let times = body
        .field("times", "How often it happens: to the next ones. Without it, once.")
        .example(2)
        .integer(1, times_max)?;
    // What is late has a delay; of another kind 0 is none.
    let delay_min = i64::from(kind == FaultKind::Late);
    let delay =
        body.field("delay_ms", "Delay in milliseconds. Only of `late`.").integer(delay_min, delay_max)?;
    let code = body.field("code", "The code that is answered. Only of `refuse`.").integer(1, CODE_MAX)?;
    let times = i32::try_from(times.unwrap_or(1)).unwrap_or(i32::MAX);
    Fault::new(target, kind, times, delay, code)
        .map_err(|(field, expected)| body.unfit(field, expected).into())
}

fn read_shipment(body: &mut Input<'_>) -> Result<BizNo, FieldError> {
    body.field("biz_no", "Number of the exchange whose items the game has shipped.")
        .required(BIZ_NO, BizNo::parse)
}

/// The data beside success: every fault of the app, by target.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Faults")]
struct Faults {
    faults: Vec<FaultState>,
}

/// The data beside success.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Shipped")]
struct Shipped {
    /// How often the app said so of this number.
    #[schemars(range(min = 1))]
    shipments: i32,
}

const FAULTS: &str = "\
    Makes the calls of a sandbox app fail as they fail in the wild, so that a game can be tried. A fault takes the place of \
    the one before of the same target. The answer has every fault with how often it has happened.\n\n\
    A call whose answer is `lost` or `unavailable` was carried out; one that is refused by `refuse` was not. `minitill sandbox check` tries a whole game.";

/// The text of the API's document about faults.
pub(super) fn describe_faults(_: &Config) -> Operation<Refusal> {
    let fault = FaultState {
        target: FaultTarget::Answers(Endpoint::Exchange),
        fault: FaultKind::Lost,
        delay_ms: 0,
        code: None,
        times: 2,
        happened: 0,
        first_at: None,
        last_at: None,
    };
    Operation::new("Ask for a fault", FAULTS)
        .with(Place::Query, credentials(true))
        .body(&["application/json"], Input::describe(read_fault))
        .answers(Success::json(
            "asked_for",
            "The next two answers are lost.",
            &succeeded(Faults { faults: vec![fault] }),
        ))
        .refuses([example::no_sandbox_app(), example::illegal_parameter()])
}

/// The text of the API's document about shipments.
pub(super) fn describe_shipments(_: &Config) -> Operation<Refusal> {
    let description = "Tells that the game has shipped what an exchange bought. A game under test calls it each time that \
        it ships, so that `minitill sandbox check` sees what was shipped twice or never.";
    Operation::new("Tell of a shipment", description)
        .with(Place::Query, credentials(true))
        .body(&["application/json"], Input::describe(read_shipment))
        .answers(Success::json("noted", "The first shipment.", &succeeded(Shipped { shipments: 1 })))
        .refuses([example::no_sandbox_app()])
}
