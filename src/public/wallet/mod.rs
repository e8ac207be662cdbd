//! The calls of the wallet (contract 3, 10 and 19.2), one file a call: its refusals, its handler, its answer and its
//! description. Here is how each is carried out, and what all of them refuse.

pub mod balance;
pub mod cancel;
mod describe;
pub mod exchange;
pub mod present;
pub mod query;
pub mod topup;

use axum::extract::Request;
use axum::http::{Extensions, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use domain::body::BodyKind;
use domain::caller::Signed;
use domain::examples::{BIZ_NO, OPEN_ID};
use domain::fields::{FieldError, no_form, shown};
use domain::ids::{AppId, BizNo, OpenId, ProductText};
use domain::moment;
use domain::sandbox::SandboxApp;
use domain::text;
use domain::topup::Offer;
use domain::wallet::{
    Action, Amount, Balances, Change, Reading, Receipt, Refused, TS_AHEAD_MAX, TS_BEHIND_MAX, Timestamp,
    WalletCall, WalletForm, WalletOutcome, WalletRequest,
};
use schemars::JsonSchema;
use serde::Serialize;
use store::{RefusedChange, RefusedContent, Store, StoreError};
use tokio::time::Instant;

use super::auth::{self, CallRefused};
use super::describe::wrong_value;
use super::extract::read_form;
use super::fault;
use crate::http::json::json_response;
use crate::http::refusal::{Advice, Code, Refusal};
use crate::http::request_id::RequestId;
use crate::openapi::refusals;
use crate::state::AppState;

/// Tells that the answer is that of an earlier try.
static IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Form, access token, scope, signature, fields; then, in the store, order number, `ts` and wallet. All of it within
/// the deadline of an exchange, from when its form has arrived.
///
/// # Errors
/// The codes of contract 7 that are marked with the call or all.
pub(super) async fn carry_out(
    state: &AppState,
    call: WalletCall,
    request: Request,
) -> Result<Response, Refusal> {
    let (parts, body) = request.into_parts();
    let fields = read_form(&state.config.http, &parts, body).await?;
    let form = WalletForm { call, fields };
    let reading = state.reading_now();
    let deadline = Instant::now() + state.config.exchange.deadline;
    let signed = tokio::time::timeout_at(deadline, auth::authenticate_call(state, form));
    let signed = match signed.await.map_err(|_| StoreError::past_deadline())? {
        Ok(signed) => signed,
        Err(CallRefused { refusal, signed }) => {
            if let Some((app_id, form)) = signed {
                record_refusal(&state.store, (&app_id, &form), &refusal, None, &parts.extensions);
            }
            return Err(refusal);
        }
    };
    answer_signed(state, &signed, &reading, deadline).await.map_err(|RefusedCall { refusal, balances }| {
        record_refusal(
            &state.store,
            (signed.app_id(), signed.value()),
            &refusal,
            balances,
            &parts.extensions,
        );
        refusal
    })
}

/// A refused call, with both purses where the till has looked at them.
struct RefusedCall {
    refusal: Refusal,
    balances: Option<Balances>,
}

impl<E: Into<Refusal>> From<E> for RefusedCall {
    fn from(error: E) -> Self {
        Self { refusal: error.into(), balances: None }
    }
}

/// Fields; then, in the store, order number, `ts` and wallet.
async fn answer_signed(
    state: &AppState,
    signed: &Signed<WalletForm>,
    reading: &Reading,
    deadline: Instant,
) -> Result<Response, RefusedCall> {
    let offer = match signed.value().call {
        // What an exchange does not need lies in a box, so that the future of an exchange stays small.
        WalletCall::Topup => Box::pin(topup::offer(state, signed, deadline)).await?,
        WalletCall::Exchange
        | WalletCall::Present
        | WalletCall::Cancel
        | WalletCall::Balance
        | WalletCall::Query => None,
    };
    let request = signed.request(&Reading { offer, ..*reading }).map_err(refused_field)?;
    let context = RefusalContext::of(request.value());
    let sandbox = SandboxApp::of(request.app());
    match state.store.submit(request, deadline).await? {
        WalletOutcome::Done(receipt) => {
            let sold = offer.map(|offer| (context.product_id, offer));
            Ok(receipt_answered(state, signed.app_id(), receipt, sold).await?)
        }
        WalletOutcome::Replayed(receipt) => {
            if Box::pin(fault::makes_numbers_old(state, sandbox.as_ref())).await {
                return Err(biz_no_expired(receipt.reference).into());
            }
            let mut response = receipt_answered(state, signed.app_id(), receipt, None).await?;
            response.headers_mut().insert(IDEMPOTENT_REPLAYED.clone(), HeaderValue::from_static("true"));
            Ok(response)
        }
        WalletOutcome::Balance { balances, is_frozen, end } => {
            let income = state.store.income(signed.app_no(), end);
            let income = Box::pin(tokio::time::timeout_at(deadline, income));
            let income = income.await.map_err(|_| StoreError::past_deadline())??;
            Ok(balance::answered(balances, income, is_frozen))
        }
        WalletOutcome::Number(number) => {
            Ok(Box::pin(query::answered(state, signed.app_id(), *number, reading.now_millis)).await?)
        }
        WalletOutcome::Refused(why, balances) => {
            Err(RefusedCall { refusal: context.refusal(why, reading.now_millis), balances })
        }
    }
}

/// Records the refusal of a change whose signature is right (contract 13.1). It records none of a call that changes
/// nothing, and none without a player and a number that can be ones.
fn record_refusal(
    store: &Store,
    (app_id, form): (&AppId, &WalletForm),
    refusal: &Refusal,
    balances: Option<Balances>,
    extensions: &Extensions,
) {
    let Some(kind) = form.call.change() else { return };
    let Some(Ok(open_id)) = form.fields.text("open_id").map(OpenId::parse) else { return };
    let Some(Ok(biz_no)) = form.fields.text("biz_no").map(BizNo::parse) else { return };
    let request_id = extensions.get::<RequestId>().map(RequestId::as_text).unwrap_or_default();
    let (app_id, code) = (app_id.clone(), refusal.code);
    let asked = RefusedContent {
        amount: form.fields.text("amount").and_then(|text| Amount::parse(text).ok()),
        // A present or a cancel may bring one too. It buys nothing.
        product_name: (form.call == WalletCall::Exchange)
            .then(|| form.fields.text("product_name"))
            .flatten()
            .and_then(|text| ProductText::parse(text).ok()),
        balances,
    };
    store.note_refusal(RefusedChange { app_id, open_id, biz_no, kind, code, request_id, asked });
}

/// What the refusals of a request tell of it.
struct RefusalContext {
    open_id: OpenId,
    reference: String,
    target: Option<String>,
    amount: i64,
    product_id: String,
    ts: Option<Timestamp>,
}

impl RefusalContext {
    fn of(request: &WalletRequest) -> Self {
        let amount = match &request.action {
            Action::Change(Change::Exchange(purchase)) => purchase.amount.get(),
            Action::Change(Change::Present(amount) | Change::Cancel { amount, .. }) => amount.get(),
            Action::Change(
                Change::Credit { .. }
                | Change::Debit { .. }
                | Change::Topup { .. }
                | Change::Refund { .. }
                | Change::Settlement(_),
            )
            | Action::Order(_)
            | Action::Balance
            | Action::Query { .. } => 0,
        };
        let product_id = match &request.action {
            Action::Order(order) => order.product_id.to_string(),
            Action::Change(_) | Action::Balance | Action::Query { .. } => String::new(),
        };
        let target = request.target().map(str::to_owned);
        Self {
            open_id: request.open_id.clone(),
            reference: request.reference.clone(),
            target,
            amount,
            product_id,
            ts: request.ts,
        }
    }

    fn refusal(self, why: Refused, now_millis: i64) -> Refusal {
        match (why, self.target) {
            (Refused::Conflict, _) => biz_no_conflict(self.reference),
            (Refused::Expired, _) => biz_no_expired(self.reference),
            (Refused::Closed, _) => biz_no_closed(self.reference),
            (Refused::TsOutsideWindow, _) => ts_outside_window(self.ts, now_millis),
            (Refused::UnknownWallet, _) => illegal_open_id(shown(self.open_id.as_str())),
            (Refused::Frozen(balances), _) => frozen(balances),
            (Refused::InsufficientBalance(balances), _) => exchange::not_covered(balances),
            (Refused::MoreThanLeft { remaining }, of) => {
                cancel::more_than_left(self.amount, remaining, of.unwrap_or_default())
            }
            (Refused::UnknownNumber, Some(of)) => cancel::unknown_exchange(of),
            (Refused::UnknownNumber, None) => query::unknown_number(self.reference),
            (Refused::PurseFull, _) => purse_full(),
            (Refused::NotForSale, _) => topup::not_for_sale(self.product_id),
        }
    }
}

/// The answer of a change or an order: its receipt. `sold` is what a new order has fixed: the product and its figures.
async fn receipt_answered(
    state: &AppState,
    app_id: &AppId,
    mut receipt: Receipt,
    sold: Option<(String, Offer)>,
) -> Result<Response, StoreError> {
    match (receipt.given_back.take(), receipt.ordered) {
        (Some(given_back), _) => Ok(cancel::answered(receipt, given_back)),
        (None, None) => Ok(exchange::answered(receipt)),
        (None, Some(ordered)) => {
            Box::pin(topup::answered(state, app_id, receipt.reference, ordered, sold)).await
        }
    }
}

/// A success (contract 3.4).
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "{T}Answer")]
struct WalletSuccess<'a, T> {
    #[schemars(extend("enum" = [1]))]
    code: u8,
    #[schemars(extend("enum" = ["SUCCESS"]))]
    msg: &'static str,
    data: &'a T,
}

impl<'a, T> WalletSuccess<'a, T> {
    fn new(data: &'a T) -> Self {
        Self { code: 1, msg: "SUCCESS", data }
    }
}

/// The answer of a call that succeeded, with status 200.
fn answer(data: &impl Serialize) -> Response {
    json_response(StatusCode::OK, &WalletSuccess::new(data))
}

refusals! { Refusal:
    /// The `biz_no` was used for something else.
    biz_no_conflict(biz_no = BIZ_NO) => Refusal::new(
        Code::BizNoConflict,
        text!("biz_no: {biz_no} was used for other content; a new request needs a new number, and is carried out again: ask with a query first", biz_no),
    );
    /// The `biz_no` was used more than 48 hours ago.
    biz_no_expired(biz_no = BIZ_NO) => Refusal::new(
        Code::BizNoExpired,
        text!("biz_no: {biz_no} was used more than 48 hours ago; a new request needs a new number, and is carried out again: ask with a query first", biz_no),
    );
    /// A query has closed the `biz_no`.
    biz_no_closed(biz_no = BIZ_NO) => Refusal::new(
        Code::NumberClosed,
        text!("biz_no: {biz_no} was closed by a query; a new request needs a new number", biz_no),
    );
    /// An operator has frozen the player's wallet.
    wallet_frozen() => frozen(Balances::new(40, 100).unwrap_or_default());
    /// The app has no wallet for this player.
    illegal_open_id(got = shown(OPEN_ID)) =>
        Refusal::new(Code::IllegalOpenId, text!(
            "open_id: expected a player of this app; a login makes a player known, and so does the operator's `minitill user add`, got {got}",
            got
        ));
    /// A purse would hold more than it can.
    purse_full() =>
        Refusal::new(Code::LimitReached, text!("amount: a purse holds at most {max}", max = i64::MAX));
    /// A field is missing or not acceptable; the text says which, what was expected and what came.
    illegal_parameter() => wrong_value(Code::IllegalParameter, "ts", "yesterday", Timestamp::parse);
    /// The body is JSON.
    sent_as_json() => Refusal::from(no_form(BodyKind::Json));
    /// Too many requests wait. It is safe to repeat, as `Retry-After` says.
    overloaded() => Refusal::from(StoreError::Overloaded);
}

/// It tells both purses, and nothing of the operator's reason.
fn frozen(balances: Balances) -> Refusal {
    let text = "open_id: the operator has frozen this player's wallet";
    Refusal { data: Some(Advice::of(balances)), ..Refusal::new(Code::WalletFrozen, text) }
}

fn ts_outside_window(ts: Option<Timestamp>, now_millis: i64) -> Refusal {
    let ts = ts.map_or(now_millis, Timestamp::unix_millis);
    let text = text!(
        "ts: expected at most {ahead} ahead of and {behind} behind now, which is {now}; it is {distance}",
        ahead = moment::in_words(TS_AHEAD_MAX),
        behind = moment::in_words(TS_BEHIND_MAX),
        now = now_millis,
        distance = moment::distance(ts, now_millis)
    );
    Refusal::new(Code::TsOutsideWindow, text)
}

/// The refusal of a field of a call. One field has a code of its own (contract 7.1).
pub(crate) fn refused_field(error: FieldError) -> Refusal {
    if error.field == "open_id" { Refusal::field(Code::IllegalOpenId, &error) } else { error.into() }
}
