//! `/sandbox/v1/reset`, `.../wallets`, `.../topups` and `.../clock`: what a sandbox server can do for the tests of a game, and
//! no other server has (contract 18.2). Each has the calls to itself while it works.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use domain::examples::{PRICED, USER_IP};
use domain::fields::{Expected, FieldError, Fields, shown};
use domain::ids::{AppId, BizNo, CreditRef, OpenId};
use domain::operation::app::AppCommand;
use domain::operation::wallet::{Credit, Debit, WalletCommand};
use domain::operator::{Operator, OperatorKind};
use domain::sandbox::SandboxApp;
use domain::signature::SignedRequest;
use domain::text;
use domain::topup::{
    Payment, PaymentKey, PaymentProvider, PaymentState, PaymentTarget, PricedProductId, ProviderOrderId,
};
use domain::wallet::{AMOUNT_MAX, WalletCall};
use schemars::JsonSchema;
use serde::Serialize;
use store::secrets::random_bytes;
use store::{OperationError, PaymentReport};

use super::super::describe::{credentials, wrong_value};
use super::super::extract::{succeeded, success};
use super::super::wallet;
use super::{read, read_fields, read_query};
use crate::config::Config;
use crate::http::refusal::{Code, Refusal};
use crate::openapi::{Example, Input, Operation, Place, Success, refusals};
use crate::sandbox_server::SandboxServer;
use crate::state::AppState;

/// How far ahead the clock of a sandbox server is at most.
const AHEAD_MAX: Duration = Duration::from_hours(24 * 3660);
const AHEAD_EXPECTED: &str = "a duration of at most 3660 days, such as 49h";
/// The operator of what the calls of this file change, and the provider of pretended payments.
const OPERATOR: &str = "sandbox";

refusals! { Refusal:
    /// A field is missing or not acceptable; the text says which, what was expected and what came.
    illegal_ahead() => wrong_value(Code::IllegalParameter, "ahead", "soon", parse_ahead);
    /// A field is missing or not acceptable; the text says which, what was expected and what came.
    illegal_open_id() => wrong_value(Code::IllegalParameter, "open_id", "o 1", OpenId::parse);
    /// The app does not know this player.
    unknown_player(got = shown("player-1")) => wallet::illegal_open_id(got);
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

/// Sets the purses of a player, and registers the player where there is none.
///
/// # Errors
/// The codes of contract 7.1 that are marked sandbox or all.
pub(in crate::public) async fn wallets(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response, Refusal> {
    let (app, fields) = read(&state, request).await?;
    let purses = read_purses(&mut Input::of(&fields))?;
    let till = state.clone();
    // The order inside is no call of the game: its task has no called app, so it meets no fault and is not logged.
    let work = async move { set_purses(&till, &app, &purses).await.map(|()| purses).map_err(refused) };
    Ok(success(of(&state)?.alone(work).await??))
}

fn refused(error: OperationError) -> Refusal {
    match error {
        OperationError::Refused(refusal) => Refusal::new(Code::IllegalParameter, refusal.text),
        OperationError::Store(error) => error.into(),
    }
}

fn operator() -> Operator {
    Operator::new(OperatorKind::CommandLine, OPERATOR).expect("the name is well-formed")
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
    let (ahead, text) = read_ahead(&mut Input::of(&fields))?;
    let till = state.clone();
    // The order inside is no call of the game: its task has no called app, so it meets no fault and is not logged.
    let work = async move { move_clock(&till, ahead, text).await };
    Ok(success(of(&state)?.alone(work).await??))
}

/// Moves the clock to `ahead`, which came as `text`.
async fn move_clock(state: &AppState, ahead: Duration, text: String) -> Result<Moved, Refusal> {
    let sandbox = of(state)?;
    let now = sandbox.clock.ahead();
    if ahead < now {
        let expected =
            text!("at least {now}, because the clock never goes back", now = humantime::format_duration(now));
        return Err(FieldError::malformed("ahead", expected, &text).into());
    }
    state.store.move_clock(ahead).await?;
    sandbox.clock.set_ahead(ahead);
    Ok(Moved { ahead: text, now: state.clock.unix_millis() })
}

/// Carries out a pretended payment, from its order to its event.
///
/// # Errors
/// The codes of contract 7.1 that are marked sandbox or all, and those of an order (contract 19.2).
pub(in crate::public) async fn topups(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response, Refusal> {
    let (app, query, body) = read_query(&state, request).await?;
    let fields = read_fields(&state, body).await?;
    let (open_id, product_id) = read_purchase(&mut Input::of(&fields))?;
    let token = query.text("access_token").unwrap_or_default().to_owned();
    let till = state.clone();
    // The order inside is no call of the game: its task has no called app, so it meets no fault and is not logged.
    let work = async move { pay(&till, &app, &token, (open_id, product_id)).await };
    Ok(success(of(&state)?.alone(work).await??))
}

/// Makes an order of this player for this product, and its payment.
async fn pay(
    state: &AppState,
    app: &SandboxApp,
    token: &str,
    (open_id, product_id): (OpenId, PricedProductId),
) -> Result<PaymentReport, Refusal> {
    let biz_no = BizNo::parse(&format!("sandbox{}", hex::encode(random_bytes::<8>())));
    let biz_no = biz_no.expect("the number is well-formed");
    let order =
        signed_order(state, app.id(), token, [open_id.as_str(), product_id.as_str(), biz_no.as_str()]);
    drop(wallet::carry_out(state, WalletCall::Topup, order.await?).await?);
    let known = state.store.find_app(app.id()).await?;
    let offer = match known {
        Some(known) => state.store.offer(known.no, &product_id, 0).await?,
        None => None,
    };
    let offer = offer.ok_or_else(|| wallet::topup::not_for_sale(&product_id))?;
    let payment = Payment {
        key: PaymentKey {
            provider: PaymentProvider::parse(OPERATOR).expect("the name is well-formed"),
            provider_order_id: ProviderOrderId::parse(biz_no.as_str()).expect("a number is such an id"),
        },
        currency: offer.currency,
        amount: offer.amount,
        target: PaymentTarget::Order { biz_no, open_id: None, product_id: None },
        paid_at: state.now(),
        os: None,
        fee: None,
        note: String::new(),
    };
    state.store.take_payment(&operator(), app.id(), payment).await.map_err(refused)
}

/// The form of an order, signed as the game signs it.
async fn signed_order(
    state: &AppState,
    app_id: &AppId,
    token: &str,
    [open_id, product_id, biz_no]: [&str; 3],
) -> Result<Request, Refusal> {
    let app = state.store.find_app(app_id).await?;
    let key = app.as_ref().and_then(|app| app.live_pay_keys.first());
    let key = key.ok_or_else(|| Refusal::internal("the app of a call has no pay key"))?;
    let ts = state.clock.unix_millis().to_string();
    let mut fields = Fields::default();
    for (name, value) in [
        ("access_token", token),
        ("app_id", app_id.as_str()),
        ("open_id", open_id),
        ("zone_id", "zone1_role1"),
        ("os", "android"),
        ("ts", &ts),
        ("user_ip", USER_IP),
        ("biz_no", biz_no),
        ("product_id", product_id),
    ] {
        fields.add_text(name.to_owned(), value.to_owned())?;
    }
    Ok(Request::new(Body::from(SignedRequest::of(key, &fields).body)))
}

/// What this server has as a sandbox server. Others have no such route.
fn of(state: &AppState) -> Result<&SandboxServer, Refusal> {
    state.sandbox_server.as_ref().ok_or_else(|| Refusal::internal("this is no sandbox server"))
}

/// Credits or debits what is missing or too much in each purse. No call is under way, so nothing comes between.
async fn set_purses(state: &AppState, app: &SandboxApp, purses: &SetPurses) -> Result<(), OperationError> {
    let operator = operator();
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
        open_id: body.field("open_id", "The player.").required("player-1", OpenId::of_new_player)?,
        free: body.field("free", "Gifted coins from now on.").required_integer(40, 0, AMOUNT_MAX)?,
        charge: body.field("charge", "Charged coins from now on.").required_integer(100, 0, AMOUNT_MAX)?,
    })
}

fn read_purchase(body: &mut Input<'_>) -> Result<(OpenId, PricedProductId), FieldError> {
    let open_id = body.field("open_id", "The player.").required("player-1", OpenId::parse)?;
    let product_id = body.field("product_id", "A product of the app's list of prices.");
    Ok((open_id, product_id.required(PRICED, PricedProductId::parse)?))
}

/// How far the clock is ahead, and the text that says so.
fn read_ahead(body: &mut Input<'_>) -> Result<(Duration, String), FieldError> {
    let meaning = "How far the clock is ahead of what it would be without this call, from the start of the server on: a \
        number with d, h, m, s or ms. It never gets less.";
    let parse = |text: &str| parse_ahead(text).map(|ahead| (ahead, text.to_owned()));
    body.field("ahead", meaning).required_as::<String, _>("49h", parse)
}

fn parse_ahead(text: &str) -> Result<Duration, Expected> {
    let ahead = humantime::parse_duration(text).ok().filter(|ahead| *ahead <= AHEAD_MAX);
    // SQL and the clock of this process agree to the millisecond.
    ahead.map(whole_millis).ok_or_else(|| Expected::new(AHEAD_EXPECTED))
}

fn whole_millis(time: Duration) -> Duration {
    Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
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

/// The present time by the clock of the server.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "MovedClock")]
struct Moved {
    /// How far it is ahead of the machine's, as the request has it.
    ahead: String,
    /// Its time in milliseconds since the Unix epoch, as `ts` counts it.
    now: i64,
}

/// The text of the API's document about the reset.
pub(in super::super) fn describe_reset(_: &Config) -> Operation<Refusal> {
    let description = "Only on a sandbox server. Makes everything as it was after the start: players, coins, numbers, orders, \
        pictures, events, faults, receivers, keys and tokens, and the clock. Calls under way end first.";
    Operation::new("Begin anew", description)
        .with(Place::Query, credentials(true))
        .answers(Success::json("reset", "All is as after the start.", &succeeded(Nothing {})))
        .refuses([not_here("/sandbox/v1/reset")])
}

/// The example of the answer of a server that is no sandbox server (contract 18.2.6).
fn not_here(path: &'static str) -> Example<Refusal> {
    Example::new("not_here", "The server is no sandbox server.", Refusal::no_such_endpoint(path, ""))
}

/// The text of the API's document about the purses.
pub(in super::super) fn describe_wallets(_: &Config) -> Operation<Refusal> {
    let description = "Only on a sandbox server. Sets what a player has, by a credit and a debit with refs of its own. A player \
        whom the app does not know is registered.";
    let purses =
        SetPurses { open_id: OpenId::parse("player-1").expect("it is well-formed"), free: 40, charge: 100 };
    Operation::new("Set a player's purses", description)
        .with(Place::Query, credentials(true))
        .body(&["application/json"], Input::describe(read_purses))
        .answers(Success::json("set", "The player has this now.", &succeeded(purses)))
        .refuses([example::illegal_open_id(), not_here("/sandbox/v1/wallets")])
}

/// The text of the API's document about the clock.
pub(in super::super) fn describe_clock(_: &Config) -> Operation<Refusal> {
    let description = "Only on a sandbox server. Moves the clock of the server forward: the window of ts, the 48 hours of a \
        number, tokens, login codes, orders of top-ups and the tries of notifications follow.";
    let moved = Moved { ahead: "49h".to_owned(), now: 1_764_200_000_000 };
    Operation::new("Move the clock", description)
        .with(Place::Query, credentials(true))
        .body(&["application/json"], Input::describe(read_ahead))
        .answers(Success::json("moved", "The clock is 49 hours ahead.", &succeeded(moved)))
        .refuses([example::illegal_ahead(), not_here("/sandbox/v1/clock")])
}

/// The text of the API's document about the pretended payment.
pub(in super::super) fn describe_topups(_: &Config) -> Operation<Refusal> {
    let description = "Only on a sandbox server. Carries out a pretended payment: an order of the player, its payment by the \
        provider `sandbox`, the coins, and the event `topup.paid`.";
    let paid = PaymentReport {
        state: PaymentState::Paid,
        reason: None,
        biz_no: Some("sandbox9f86d081884c7d65".to_owned()),
        open_id: Some("player-1".to_owned()),
        charge: Some(60),
        bonus: Some(6),
        free_balance: Some(46),
        charge_balance: Some(160),
        replayed: false,
    };
    Operation::new("Pay a top-up", description)
        .with(Place::Query, credentials(true))
        .body(&["application/json"], Input::describe(read_purchase))
        .answers(Success::json("paid", "60 charged and 6 gifted coins for 6 yuan.", &succeeded(paid)))
        .refuses([
            example::illegal_open_id(),
            example::unknown_player(),
            wallet::topup::example::not_for_sale(),
            not_here("/sandbox/v1/topups"),
        ])
}
