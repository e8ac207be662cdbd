//! The calls of the wallet (contract 3 and 10): how each is read, carried out and answered, and what their
//! descriptions share.

use std::time::Duration;

use axum::extract::Request;
use axum::http::{Extensions, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use domain::app::Scope;
use domain::caller::Signed;
use domain::exchange::{AMOUNT_MAX, Balances, Reading, Timestamp};
use domain::fields::{FieldError, Fields, Place};
use domain::ids::{AppId, BizNo, OpenId, Os, ProductText, UserIp, ZoneId};
use domain::ledger::REF_MARK;
use domain::moment;
use domain::sandbox::SandboxApp;
use domain::signature::{Mistake, PayKey, canonical_string};
use domain::text;
use domain::wallet::{
    self, Action, Change, EXTENSION_BYTES_MAX, GivenBack, NumberChange, NumberKind, NumberState, Refused,
    WalletOutcome, WalletRequest,
};
use domain::wallet_call::{WalletCall, WalletForm};
use schemars::JsonSchema;
use serde::Serialize;
use store::{RefusedChange, Store, StoreError};
use tokio::time::Instant;

use super::auth::{self, CallRefused};
use super::describe::{ANY_KIND, SomeText, wrong_value};
use super::exchange::BIZ_NO;
use super::extract::query_fields;
use super::sandbox;
use crate::body::read_body;
use crate::config::{self, Config};
use crate::error::{Advice, BalancesAdvice, Code, Refusal, SignatureAdvice, json_response};
use crate::openapi::{
    self, ACCESS_TOKEN, APP_ID, Example, Field, NOW_MILLIS, OPEN_ID, Operation, PAY_KEY, Success, plain,
    refusals,
};
use crate::request_id::RequestId;
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
    // The query gives no field, but is held to the same rules.
    let query = query_fields(&parts.uri)?;
    let body = read_body(&state.config.http, body).await?;
    if matches!(body.trim_ascii_start().first(), Some(b'{' | b'[')) {
        return Err(sent_as_json());
    }
    let place = Place { expected: "form", got: "query" };
    let form = WalletForm { call, fields: Fields::from_urlencoded(&body)?.beside(&query, place) };
    let reading = state.reading();
    let deadline = Instant::now() + state.config.exchange.deadline;
    let signed = tokio::time::timeout_at(deadline, auth::authenticate_call(state, form));
    let signed = match signed.await.map_err(|_| StoreError::past_deadline())? {
        Ok(signed) => signed,
        Err(CallRefused { refusal, signed }) => {
            if let Some((app_id, form)) = signed {
                leave_trace(&state.store, &app_id, &form, &refusal, &parts.extensions);
            }
            return Err(refusal);
        }
    };
    let answered = answer_signed(state, &signed, &reading, deadline).await;
    if let Err(refusal) = &answered {
        leave_trace(&state.store, signed.app_id(), signed.value(), refusal, &parts.extensions);
    }
    answered
}

/// Fields; then, in the store, order number, `ts` and wallet.
async fn answer_signed(
    state: &AppState,
    signed: &Signed<WalletForm>,
    reading: &Reading,
    deadline: Instant,
) -> Result<Response, Refusal> {
    let request = signed.request(reading).map_err(refused_field)?;
    let told = Told::of(request.value());
    let sandbox = SandboxApp::of(request.app());
    match state.store.submit(request, deadline).await? {
        WalletOutcome::Done(receipt) => Ok(receipt_answer(receipt)),
        WalletOutcome::Replayed(receipt) => {
            if sandbox::makes_numbers_old(state, sandbox.as_ref()).await {
                return Err(biz_no_expired(receipt.reference));
            }
            let mut response = receipt_answer(receipt);
            response.headers_mut().insert(IDEMPOTENT_REPLAYED.clone(), HeaderValue::from_static("true"));
            Ok(response)
        }
        WalletOutcome::Balance(balances) => Ok(answer(&Purses::from(balances))),
        WalletOutcome::Number(number) => Ok(answer(&NumberAnswer::from(*number))),
        WalletOutcome::Refused(why) => Err(told.refusal(why, &state.config.exchange, reading.now_millis)),
    }
}

/// Notes the refusal of a change whose signature is right (contract 13.1). A call that changes nothing leaves no trace, nor
/// does one without a player and a number that can be ones.
fn leave_trace(store: &Store, app_id: &AppId, form: &WalletForm, refusal: &Refusal, extensions: &Extensions) {
    let Some(kind) = form.call.change() else { return };
    let Some(Ok(open_id)) = form.fields.text("open_id").map(OpenId::parse) else { return };
    let Some(Ok(biz_no)) = form.fields.text("biz_no").map(BizNo::parse) else { return };
    let request_id = extensions.get::<RequestId>().map(RequestId::as_text).unwrap_or_default();
    let (app_id, code) = (app_id.clone(), refusal.code);
    store.note_refusal(RefusedChange { app_id, open_id, biz_no, kind, code, request_id });
}

/// What the refusals of a request tell of it.
struct Told {
    reference: String,
    target: Option<String>,
    amount: i64,
    ts: Option<Timestamp>,
}

impl Told {
    fn of(request: &WalletRequest) -> Self {
        let amount = match &request.action {
            Action::Change(Change::Exchange(purchase)) => purchase.amount.get(),
            Action::Change(Change::Present(amount) | Change::Cancel { amount, .. }) => amount.get(),
            Action::Change(Change::Credit { .. } | Change::Debit { .. })
            | Action::Balance
            | Action::Query { .. } => 0,
        };
        let target = request.target().map(str::to_owned);
        Self { reference: request.reference.clone(), target, amount, ts: request.ts }
    }

    fn refusal(self, why: Refused, settings: &config::Exchange, now_millis: i64) -> Refusal {
        match (why, self.target) {
            (Refused::Conflict, _) => biz_no_conflict(self.reference),
            (Refused::Expired, _) => biz_no_expired(self.reference),
            (Refused::Closed, _) => biz_no_closed(self.reference),
            (Refused::TsOutsideWindow, _) => ts_outside_window(settings, self.ts, now_millis),
            (Refused::UnknownWallet, _) => illegal_open_id(),
            (Refused::InsufficientBalance(balances), _) => not_covered(balances),
            (Refused::MoreThanLeft { remaining }, of) => {
                more_than_left(self.amount, remaining, of.unwrap_or_default())
            }
            (Refused::UnknownNumber, Some(of)) => unknown_exchange(of),
            (Refused::UnknownNumber, None) => unknown_number(self.reference),
            (Refused::PurseFull, _) => purse_full(),
        }
    }
}

refusals! { Refusal:
    /// The `biz_no` was used for something else.
    biz_no_conflict(biz_no = BIZ_NO) => Refusal::new(
        Code::BizNoConflict,
        text!("biz_no: {biz_no} was used for other content; a new request needs a new number", biz_no),
    );
    /// The `biz_no` was used more than 48 hours ago.
    biz_no_expired(biz_no = BIZ_NO) => Refusal::new(
        Code::BizNoExpired,
        text!("biz_no: {biz_no} was used more than 48 hours ago; a new request needs a new number", biz_no),
    );
    /// A query has closed the `biz_no`.
    biz_no_closed(biz_no = BIZ_NO) => Refusal::new(
        Code::NumberClosed,
        text!("biz_no: {biz_no} was closed by a query; a new request needs a new number", biz_no),
    );
    /// Both purses together do not cover the amount; nothing was deducted.
    insufficient_balance() => not_covered(Balances::new(0, 59).unwrap_or_default());
    /// The app has no wallet for this player.
    illegal_open_id() =>
        Refusal::new(Code::IllegalOpenId, text!(
            "open_id: expected a player of this app; a login makes a player known, and so does the operator's `minitill user add`"
        ));
    /// Less is left of the exchange.
    more_than_left(amount = 60, remaining = 30, of = PAY_BIZ_NO) => Refusal::new(
        Code::MoreThanLeft,
        text!(
            "amount: {remaining} is left to give back of {of}; {amount} was asked for",
            remaining,
            of,
            amount
        ),
    );
    /// The player has no exchange of this number.
    unknown_exchange(of = PAY_BIZ_NO) =>
        Refusal::new(Code::UnknownNumber, text!("pay_biz_no: this player has no exchange {of}", of));
    /// The player has no such number.
    unknown_number(biz_no = BIZ_NO) =>
        Refusal::new(Code::UnknownNumber, text!("biz_no: this player has no number {biz_no}", biz_no));
    /// A purse would hold more than it can.
    purse_full() =>
        Refusal::new(Code::LimitReached, text!("amount: a purse holds at most {max}", max = i64::MAX));
    /// A field is missing or not acceptable; the text says which, what was expected and what came.
    illegal_parameter() => wrong_value(Code::IllegalParameter, "ts", "yesterday", Timestamp::parse);
    /// The body is JSON.
    sent_as_json() => Refusal::new(
        Code::IllegalParameter,
        "body: expected a form (application/x-www-form-urlencoded), got JSON",
    );
    /// Too many requests wait. It is safe to repeat, as `Retry-After` says.
    overloaded() => Refusal::from(StoreError::Overloaded);
}

fn not_covered(balances: Balances) -> Refusal {
    let data = BalancesAdvice { free_balance: balances.free(), charge_balance: balances.charge() };
    let data = Some(Advice::Balances(data));
    Refusal { data, ..Refusal::new(Code::InsufficientBalance, "amount: the balance does not cover it") }
}

fn ts_outside_window(settings: &config::Exchange, ts: Option<Timestamp>, now_millis: i64) -> Refusal {
    let ts = ts.map_or(now_millis, Timestamp::unix_millis);
    let text = text!(
        "ts: expected at most {ahead} ahead of and {behind} behind now, which is {now}; it is {distance}",
        ahead = in_words(settings.ts_ahead_max),
        behind = in_words(settings.ts_behind_max),
        now = now_millis,
        distance = moment::distance(ts, now_millis)
    );
    Refusal::new(Code::TsOutsideWindow, text)
}

/// A duration in the largest unit that holds it whole: 48h, 5m, 90s.
fn in_words(duration: Duration) -> String {
    match duration.as_secs() {
        seconds if seconds % 3600 == 0 => format!("{}h", seconds / 3600),
        seconds if seconds % 60 == 0 => format!("{}m", seconds / 60),
        seconds => format!("{seconds}s"),
    }
}

/// The refusal of a field of a call. One field has a code of its own (contract 7.1).
pub(crate) fn refused_field(error: FieldError) -> Refusal {
    if error.field == "open_id" { Refusal::field(Code::IllegalOpenId, &error) } else { error.into() }
}

/// A success (contract 3.4).
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "{T}Answer")]
pub(super) struct Answer<'a, T> {
    #[schemars(extend("enum" = [1]))]
    code: u8,
    #[schemars(extend("enum" = ["SUCCESS"]))]
    msg: &'static str,
    data: &'a T,
}

impl<'a, T> Answer<'a, T> {
    pub(super) fn new(data: &'a T) -> Self {
        Self { code: 1, msg: "SUCCESS", data }
    }
}

/// `data` of an exchange and of a present: the balances right after it, for ever the same.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Exchange")]
#[serde(rename_all = "camelCase")]
pub(crate) struct Receipt {
    /// The order number.
    #[schemars(with = "BizNo")]
    pub(crate) biz_no: String,
    /// Gifted currency.
    #[schemars(range(min = 0))]
    pub(crate) free_balance: i64,
    /// Charged currency.
    #[schemars(range(min = 0))]
    pub(crate) charge_balance: i64,
}

/// `data` of a cancel, for ever the same.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Cancel")]
#[serde(rename_all = "camelCase")]
pub(super) struct CancelReceipt {
    /// The number of the cancel.
    #[schemars(with = "BizNo")]
    pub(super) biz_no: String,
    /// The number of the exchange.
    #[schemars(with = "BizNo")]
    pub(super) pay_biz_no: String,
    /// Gifted currency that was given back.
    #[schemars(range(min = 0))]
    pub(super) free_refunded: i64,
    /// Charged currency that was given back.
    #[schemars(range(min = 0))]
    pub(super) charge_refunded: i64,
    /// What can still be given back of the exchange.
    #[schemars(range(min = 0))]
    pub(super) remaining: i64,
    /// Gifted currency after it.
    #[schemars(range(min = 0))]
    pub(super) free_balance: i64,
    /// Charged currency after it.
    #[schemars(range(min = 0))]
    pub(super) charge_balance: i64,
}

/// `data` of a balance.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Balance")]
#[serde(rename_all = "camelCase")]
pub(super) struct Purses {
    /// Gifted currency.
    #[schemars(range(min = 0))]
    pub(super) free_balance: i64,
    /// Charged currency.
    #[schemars(range(min = 0))]
    pub(super) charge_balance: i64,
}

/// `data` of a query. A closed number has `bizNo`, `kind`, `status` and `createTime` alone.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Query")]
#[serde(rename_all = "camelCase")]
pub(super) struct NumberAnswer {
    /// The number.
    #[schemars(with = "BizNo")]
    biz_no: String,
    /// What it was used for.
    #[schemars(extend("enum" = ["exchange", "present", "cancel", "closed"]))]
    kind: &'static str,
    /// An exchange is `paid`, `part_cancelled` or `cancelled`; a present or a cancel is `done`.
    #[schemars(extend("enum" = ["paid", "part_cancelled", "cancelled", "done", "closed"]))]
    status: &'static str,
    /// When, in Unix milliseconds of the server.
    create_time: i64,
    #[serde(flatten)]
    change: Option<ChangeAnswer>,
}

/// What a number has changed.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ChangeAnswer {
    /// What was deducted, given or given back.
    #[schemars(range(min = 1))]
    amount: i64,
    /// Change of the gifted purse; a deduction is negative.
    free_change: i64,
    /// Change of the charged purse; a deduction is negative.
    charge_change: i64,
    /// Zone and role, as sent.
    zone_id: String,
    /// Name of what was bought. Only of an exchange.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    product_name: Option<String>,
    /// The exchange that was given back. Only of a cancel.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "BizNo")]
    pay_biz_no: Option<String>,
    /// What can still be given back. Only of an exchange.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    remaining: Option<i64>,
    /// What was given back, oldest first, at most 100. Only of an exchange.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<CancelAnswer>")]
    cancels: Option<Vec<CancelAnswer>>,
    /// True when there are more cancels.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    cancels_more: Option<bool>,
}

/// One cancel of an exchange.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "camelCase")]
struct CancelAnswer {
    /// The number of the cancel, or the ref of an operator.
    biz_no: String,
    /// What it gave back.
    #[schemars(range(min = 1))]
    amount: i64,
    /// When, in Unix milliseconds of the server.
    create_time: i64,
}

impl From<Balances> for Purses {
    fn from(balances: Balances) -> Self {
        Self { free_balance: balances.free(), charge_balance: balances.charge() }
    }
}

impl From<NumberState> for NumberAnswer {
    fn from(NumberState { reference, created_at, change }: NumberState) -> Self {
        let (kind, status) = match &change {
            None => ("closed", "closed"),
            Some(NumberChange { kind: NumberKind::Exchange { remaining: 0, .. }, .. }) => {
                ("exchange", "cancelled")
            }
            Some(NumberChange { kind: NumberKind::Exchange { cancels, .. }, .. }) => {
                ("exchange", if cancels.is_empty() { "paid" } else { "part_cancelled" })
            }
            Some(NumberChange { kind: NumberKind::Present, .. }) => ("present", "done"),
            Some(NumberChange { kind: NumberKind::Cancel { .. }, .. }) => ("cancel", "done"),
        };
        let change = change.map(ChangeAnswer::from);
        Self { biz_no: reference, kind, status, create_time: created_at, change }
    }
}

impl From<NumberChange> for ChangeAnswer {
    fn from(NumberChange { kind, free_change, charge_change, zone_id }: NumberChange) -> Self {
        let answer = Self {
            amount: (free_change + charge_change).abs(),
            free_change,
            charge_change,
            zone_id,
            product_name: None,
            pay_biz_no: None,
            remaining: None,
            cancels: None,
            cancels_more: None,
        };
        match kind {
            NumberKind::Present => answer,
            NumberKind::Cancel { of } => Self { pay_biz_no: Some(of), ..answer },
            NumberKind::Exchange { product_name, remaining, cancels, has_more_cancels } => {
                let cancels = cancels.into_iter().map(|cancel| CancelAnswer {
                    biz_no: cancel.reference.trim_start_matches(REF_MARK).to_owned(),
                    amount: cancel.amount,
                    create_time: cancel.created_at,
                });
                Self {
                    product_name: Some(product_name),
                    remaining: Some(remaining),
                    cancels: Some(cancels.collect()),
                    cancels_more: has_more_cancels.then_some(true),
                    ..answer
                }
            }
        }
    }
}

fn receipt_answer(receipt: wallet::Receipt) -> Response {
    let (free_balance, charge_balance) = (receipt.balances.free(), receipt.balances.charge());
    let biz_no = receipt.reference;
    match receipt.given_back {
        None => answer(&Receipt { biz_no, free_balance, charge_balance }),
        Some(GivenBack { of, free, charge, remaining }) => answer(&CancelReceipt {
            biz_no,
            pay_biz_no: of,
            free_refunded: free,
            charge_refunded: charge,
            remaining,
            free_balance,
            charge_balance,
        }),
    }
}

fn answer(data: &impl Serialize) -> Response {
    json_response(StatusCode::OK, &Answer::new(data))
}

/// Number of the exchange that the example of a cancel gives back.
pub(super) const PAY_BIZ_NO: &str = "20270115070000001";

/// What the API's document says of a call with these fields.
pub(super) fn describe(
    call: WalletCall,
    config: &Config,
    fields: Vec<Field>,
    summary: &'static str,
    description: impl Into<String>,
) -> Operation<Refusal> {
    let string_to_sign = string_to_sign(call, &fields);
    let sign = PayKey::new(PAY_KEY.to_owned()).sign(&string_to_sign);
    let sign =
        Field::required::<SomeText>("sign", sign, "The signature, 64 hexadecimal digits of either case.");
    let credentials = [
        Field::required::<SomeText>("access_token", ACCESS_TOKEN, "A token of the app. It is not signed."),
        Field::required::<AppId>("app_id", APP_ID, "The app."),
    ];
    let words = "Any one segment; clients of the platform send `kpay`.";
    let segment = Field::required::<String>("payment_segment", "kpay", words);
    let ts = Timestamp::parse("1700000000").ok();
    Operation::new(summary, description)
        .with(openapi::Place::Path, [segment.demand("pattern", "^[^/]+$")])
        .body(&ANY_KIND[..1], credentials.into_iter().chain(fields).chain([sign]))
        .refuses(signature_refusals(string_to_sign))
        .refuses([
            example::illegal_parameter(),
            example::sent_as_json(),
            example::illegal_open_id(),
            Example::new(
                "ts_outside_window",
                "`ts` is too old or too new, and the `biz_no` is new.",
                ts_outside_window(&config.exchange, ts, NOW_MILLIS),
            ),
            example::overloaded(),
        ])
}

/// The refusal of an app that lacks the scope of a call.
pub(super) fn scope_missing(scope: Scope) -> Example<Refusal> {
    Example::new("scope_missing", "The app lacks the scope.", auth::scope_missing(scope))
}

/// The refusals that changes share.
pub(super) fn refusals_of_changes() -> [Example<Refusal>; 3] {
    [example::biz_no_conflict(), example::biz_no_expired(), example::biz_no_closed()]
}

/// The answer of a repeat.
pub(super) fn replayed<T: JsonSchema + Serialize>(summary: &'static str, receipt: &T) -> Success {
    let words = "It is there, and `true`, when the answer is that of an earlier try.";
    Success::json("replayed", summary, &Answer::new(receipt)).header("Idempotent-Replayed", words, "true")
}

/// A field that several calls have.
///
/// # Panics
/// On another field.
pub(super) fn field(name: &'static str, config: &Config) -> Field {
    match name {
        "open_id" => Field::required::<OpenId>(name, OPEN_ID, "The player; the app must know it."),
        "zone_id" => {
            Field::required::<ZoneId>(name, "zone1_role1", format!("Zone and role: {}.", ZoneId::EXPECTED))
        }
        "os" => Field::required::<Os>(name, "android", "The player's platform, such as `android`, `ios`."),
        "ts" => {
            let (ahead, behind) =
                (in_words(config.exchange.ts_ahead_max), in_words(config.exchange.ts_behind_max));
            let words = format!(
                "When the request was made: 13 digits of milliseconds or 10 of seconds, at most {ahead} ahead of and {behind} behind now."
            );
            Field::required::<String>(name, NOW_MILLIS.to_string(), words)
                .demand("pattern", Timestamp::PATTERN)
        }
        "user_ip" => Field::required::<UserIp>(
            name,
            "203.0.113.7",
            format!("The player's address, {}.", UserIp::EXPECTED),
        ),
        "amount" => {
            let amount = Field::required::<i64>(name, 60, "What is deducted.");
            amount.demand("minimum", 1).demand("maximum", AMOUNT_MAX)
        }
        "biz_no" => {
            Field::required::<BizNo>(name, BIZ_NO, format!("Your order number, {}.", BizNo::EXPECTED))
        }
        "product_desc" => {
            let words = format!("Remark, {}.", ProductText::EXPECTED);
            Field::optional::<String>(name, words)
        }
        "extension" => {
            let words = format!("Any text of at most {EXTENSION_BYTES_MAX} bytes.");
            Field::optional::<String>(name, words).demand("maxLength", EXTENSION_BYTES_MAX)
        }
        name => panic!("no call shares the field {name}"),
    }
}

/// What the example is signed with.
fn string_to_sign(call: WalletCall, fields: &[Field]) -> String {
    let values: Vec<(&str, String)> = fields
        .iter()
        .filter_map(|field| Some((field.name, plain(field.example.as_ref()?))))
        .chain([("app_id", APP_ID.to_owned())])
        .filter(|(name, _)| call.signs(name))
        .collect();
    canonical_string(values.iter().map(|(name, value)| (*name, value.as_str())))
}

fn signature_refusals(string_to_sign: String) -> [Example<Refusal>; 3] {
    let mistake = Some(Mistake::NotSorted.text());
    let advice = SignatureAdvice { bytes: string_to_sign.len(), mistake, string_to_sign };
    let data = Some(Advice::Signature(advice));
    let words = "The same for a sandbox app: it gets the string that the server signed and, if one explains it, the mistake.";
    [
        auth::example::sign_missing(),
        auth::example::bad_signature(),
        Example::new("bad_signature_sandbox", words, Refusal { data, ..auth::bad_signature() }),
    ]
}
