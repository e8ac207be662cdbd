//! `/sandbox/v1/reset`, `/sandbox/v1/wallets` and `/sandbox/v1/clock`: what a sandbox server can do for the tests of a game,
//! and no other server has (contract 18.2). Each has the calls to itself while it works.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::response::Response;
use domain::fields::{Expected, FieldError};
use domain::ids::{CreditRef, OpenId};
use domain::operation::app::AppCommand;
use domain::operation::wallet::{Credit, Debit, WalletCommand};
use domain::operator::{Operator, OperatorKind};
use domain::sandbox::SandboxApp;
use domain::text;
use domain::wallet::AMOUNT_MAX;
use schemars::JsonSchema;
use serde::Serialize;
use store::OperationError;
use store::secrets::random_bytes;

use super::super::describe::{credentials, wrong_value};
use super::super::extract::{succeeded, success};
use super::{read, read_query};
use crate::config::Config;
use crate::http::refusal::{Code, Refusal};
use crate::openapi::{Input, Operation, Place, Success, refusals};
use crate::sandbox_server::SandboxServer;
use crate::state::AppState;

/// How far ahead the clock of a sandbox server is at most.
const AHEAD_MAX: Duration = Duration::from_hours(24 * 3660);
const AHEAD_EXPECTED: &str = "a duration of at most 3660 days, such as 49h";
/// The operator of what the calls of this file change.
const OPERATOR: &str = "sandbox";

refusals! { Refusal:
    /// A field is missing or not acceptable; the text says which, what was expected and what came.
    illegal_ahead() => wrong_value(Code::IllegalParameter, "ahead", "soon", parse_ahead);
    /// A field is missing or not acceptable; the text says which, what was expected and what came.
    illegal_open_id() => wrong_value(Code::IllegalParameter, "open_id", "o 1", OpenId::parse);
}

/// Makes everything as it was after the start.
///
/// # Errors
/// The codes of contract 7.1 that are marked sandbox or all.
pub(in crate::public) async fn reset(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response, Refusal> {
    // Its body says nothing.
    drop(read_query(&state, request).await?);
    of(&state)?.reset().await?;
    Ok(success(Nothing {}))
}

/// Sets the purses of a player, and makes the player known where nobody is.
///
/// # Errors
/// The codes of contract 7.1 that are marked sandbox or all.
pub(in crate::public) async fn wallets(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response, Refusal> {
    let (app, fields) = read(&state, request).await?;
    let purses = read_purses(&mut Input::of(&fields))?;
    let _alone = of(&state)?.stop_calls().await;
    set_purses(&state, &app, &purses).await.map_err(|error| match error {
        OperationError::Refused(refusal) => Refusal::new(Code::IllegalParameter, refusal.text),
        OperationError::Store(error) => error.into(),
    })?;
    Ok(success(purses))
}

/// Moves the clock of this server forward.
///
/// # Errors
/// The codes of contract 7.1 that are marked sandbox or all.
pub(in crate::public) async fn clock(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response, Refusal> {
    let (_, fields) = read(&state, request).await?;
    let ahead = read_ahead(&mut Input::of(&fields))?;
    let sandbox = of(&state)?;
    let _alone = sandbox.stop_calls().await;
    let now = sandbox.clock.ahead();
    if ahead < now {
        let (now, got) = (shown(now), shown(ahead));
        let expected = text!("at least {now}, because the clock never goes back", now);
        return Err(FieldError::malformed("ahead", expected, &got).into());
    }
    state.store.move_clock(ahead).await?;
    sandbox.clock.set_ahead(ahead);
    Ok(success(Moved { ahead: shown(ahead), now: state.clock.unix_millis() }))
}

/// What this server has as a sandbox server. Others have no such route.
fn of(state: &AppState) -> Result<&SandboxServer, Refusal> {
    state.sandbox_server.as_ref().ok_or_else(|| Refusal::internal("this is no sandbox server"))
}

/// Credits or debits what is missing or too much in each purse. No call is under way, so nothing comes between.
async fn set_purses(state: &AppState, app: &SandboxApp, purses: &SetPurses) -> Result<(), OperationError> {
    let operator = Operator::new(OperatorKind::CommandLine, OPERATOR).expect("the name is well-formed");
    let (store, app_id, open_id) = (&state.store, app.id(), &purses.open_id);
    let wallet = store.wallet(app_id, open_id).await?;
    if wallet.is_none() {
        store.carry_out(&operator, app_id, AppCommand::AddUsers(vec![open_id.clone()])).await?;
    }
    let (free, charge) = wallet.map_or((0, 0), |wallet| (wallet.free_balance, wallet.charge_balance));
    let (free, charge) = (purses.free - free, purses.charge - charge);
    let reference = || {
        let text = format!("sandbox-{}", hex::encode(random_bytes::<8>()));
        CreditRef::parse(&text).expect("the ref is well-formed")
    };
    let (open_id, note) = (open_id.clone(), String::new());
    let more = (free.max(0), charge.max(0));
    if more != (0, 0) {
        let (open_id, note, reference) = (open_id.clone(), note.clone(), reference());
        let credit = Credit { open_id, free: more.0, charge: more.1, reference, note, create: false };
        store.change_wallet(&operator, app_id, WalletCommand::from(credit)).await?;
    }
    let less = ((-free).max(0), (-charge).max(0));
    if less != (0, 0) {
        let debit = Debit { open_id, free: less.0, charge: less.1, reference: reference(), note };
        store.change_wallet(&operator, app_id, WalletCommand::from(debit)).await?;
    }
    Ok(())
}

fn read_purses(body: &mut Input<'_>) -> Result<SetPurses, FieldError> {
    Ok(SetPurses {
        open_id: body.field("open_id", "The player.").required("player-1", OpenId::parse)?,
        free: body.field("free", "Gifted coins from now on.").required_integer(40, 0, AMOUNT_MAX)?,
        charge: body.field("charge", "Charged coins from now on.").required_integer(100, 0, AMOUNT_MAX)?,
    })
}

fn read_ahead(body: &mut Input<'_>) -> Result<Duration, FieldError> {
    let meaning = "How far the clock is ahead of what it would be without this call, from the start of the server on: a \
        number with d, h, m, s or ms. It never gets less.";
    body.field("ahead", meaning).required_as::<String, _>("49h", parse_ahead)
}

fn parse_ahead(text: &str) -> Result<Duration, Expected> {
    let ahead = humantime::parse_duration(text).ok().filter(|ahead| *ahead <= AHEAD_MAX);
    // SQL and the clock of this process agree to the millisecond.
    ahead.map(whole_millis).ok_or_else(|| Expected::new(AHEAD_EXPECTED))
}

fn whole_millis(time: Duration) -> Duration {
    Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

fn shown(time: Duration) -> String {
    humantime::format_duration(time).to_string()
}

/// Nothing comes beside success.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Nothing")]
struct Nothing {}

/// The purses of a player.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SetPurses")]
struct SetPurses {
    /// The player.
    open_id: OpenId,
    /// Gifted coins.
    free: i64,
    /// Charged coins.
    charge: i64,
}

/// What the clock of the server shows now.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "MovedClock")]
struct Moved {
    /// How far it is ahead of the machine's.
    ahead: String,
    /// Its time in milliseconds since the Unix epoch, as `ts` counts it.
    now: i64,
}

/// What the API's document says of the reset.
pub(in super::super) fn describe_reset(_: &Config) -> Operation<Refusal> {
    let description = "Only on a sandbox server. Makes everything as it was after the start: players, coins, numbers, orders, \
        events, faults, receivers, and the clock. Calls under way end first.";
    Operation::new("Begin anew", description).with(Place::Query, credentials(true)).answers(Success::json(
        "reset",
        "All is as after the start.",
        &succeeded(Nothing {}),
    ))
}

/// What the API's document says of the purses.
pub(in super::super) fn describe_wallets(_: &Config) -> Operation<Refusal> {
    let description = "Only on a sandbox server. Sets what a player has, by a credit and a debit with refs of its own. A player \
        whom the app does not know is made known.";
    let purses =
        SetPurses { open_id: OpenId::parse("player-1").expect("it is well-formed"), free: 40, charge: 100 };
    Operation::new("Set a player's purses", description)
        .with(Place::Query, credentials(true))
        .body(&["application/json"], Input::describe(read_purses))
        .answers(Success::json("set", "The player has this now.", &succeeded(purses)))
        .refuses([example::illegal_open_id()])
}

/// What the API's document says of the clock.
pub(in super::super) fn describe_clock(_: &Config) -> Operation<Refusal> {
    let description = "Only on a sandbox server. Moves the clock of the server forward: the window of ts, the 48 hours of a \
        number, tokens, login codes and the tries of notifications follow.";
    let moved = Moved { ahead: "2days 1h".to_owned(), now: 1_764_200_000_000 };
    Operation::new("Move the clock", description)
        .with(Place::Query, credentials(true))
        .body(&["application/json"], Input::describe(read_ahead))
        .answers(Success::json("moved", "The clock is 49 hours ahead.", &succeeded(moved)))
        .refuses([example::illegal_ahead()])
}
