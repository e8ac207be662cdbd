//! `POST /api/{payment_segment}/minigame/pay`: a game server deducts currency in exchange for
//! items (contract 3).

use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use domain::exchange::{AMOUNT_MAX, Amount, EXTENSION_BYTES_MAX, ExchangeOutcome, Receipt, Timestamp};
use domain::fields::{FieldError, Fields, Place};
use domain::ids::{AppId, BizNo, OpenId, Os, ProductText, UserIp, ZoneId};
use domain::moment;
use domain::product_info::{self, Item};
use domain::signature::{Mistake, PayKey, SIGNED_FIELDS, canonical_string};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use store::StoreError;
use tokio::time::Instant;

use super::auth;
use super::describe::{ANY_KIND, SomeText, wrong_value};
use super::extract::query_fields;
use crate::body::read_body;
use crate::config::{self, Config};
use crate::error::{Advice, Code, Refusal, SignatureAdvice, json_response};
use crate::openapi::{
    self, ACCESS_TOKEN, APP_ID, Example, Field, NOW_MILLIS, OPEN_ID, Operation, PAY_KEY, Success, plain,
    refusals,
};
use crate::state::AppState;

/// Tells that the answer is that of an earlier try.
static IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Form, access token, signature, fields; then, in the store, order number, `ts` and wallet. All of it within the
/// deadline of an exchange, from when its form has arrived.
///
/// # Errors
/// The codes of contract 7 that are marked exchange or all.
pub async fn exchange(State(state): State<AppState>, request: Request) -> Result<Response, Refusal> {
    let (parts, body) = request.into_parts();
    // The query gives no field, but is held to the same rules.
    let query = query_fields(&parts.uri)?;
    let body = read_body(&state.config.http, body).await?;
    if matches!(body.trim_ascii_start().first(), Some(b'{' | b'[')) {
        return Err(sent_as_json());
    }
    let place = Place { expected: "form", got: "query" };
    let fields = Fields::from_urlencoded(&body)?.beside(&query, place);
    let reading = state.reading();
    let deadline = Instant::now() + state.config.exchange.deadline;
    let signed = tokio::time::timeout_at(deadline, auth::authenticate_exchange(&state, fields));
    let signed = signed.await.map_err(|_| StoreError::past_deadline())??;
    let exchange = signed.exchange(&reading).map_err(refused_field)?;
    let (biz_no, ts) = (exchange.value().biz_no.to_string(), exchange.value().ts);
    match state.store.submit(exchange, deadline).await? {
        ExchangeOutcome::Done(receipt) => Ok(answer(&receipt)),
        ExchangeOutcome::Replayed(receipt) => {
            let mut response = answer(&receipt);
            response.headers_mut().insert(IDEMPOTENT_REPLAYED.clone(), HeaderValue::from_static("true"));
            Ok(response)
        }
        ExchangeOutcome::BizNoConflict => Err(biz_no_conflict(&biz_no)),
        ExchangeOutcome::BizNoExpired => Err(biz_no_expired(&biz_no)),
        ExchangeOutcome::TsOutsideWindow => {
            Err(ts_outside_window(&state.config.exchange, ts, reading.now_millis))
        }
        ExchangeOutcome::UnknownWallet => Err(illegal_open_id()),
        ExchangeOutcome::InsufficientBalance => Err(insufficient_balance()),
    }
}

refusals! { Refusal:
    /// The `biz_no` paid for something else.
    biz_no_conflict(biz_no = BIZ_NO) => Refusal::new(
        Code::BizNoConflict,
        format!("biz_no: {biz_no} has paid for other content; a new number is a new payment"),
    );
    /// The `biz_no` was used more than 48 hours ago.
    biz_no_expired(biz_no = BIZ_NO) => Refusal::new(
        Code::BizNoExpired,
        format!("biz_no: {biz_no} paid more than 48 hours ago; a new number is a new payment"),
    );
    /// Both purses together do not cover the amount; nothing was deducted.
    insufficient_balance() =>
        Refusal::new(Code::InsufficientBalance, "amount: the balance does not cover it");
    /// The app has no wallet for this player.
    illegal_open_id() =>
        Refusal::new(Code::IllegalOpenId, format!("open_id: expected a player of this app; {PLAYERS}"));
    /// A field is missing or not acceptable; the text says which, what was expected and what came.
    illegal_parameter() => wrong_value(Code::IllegalParameter, "amount", "-5", Amount::parse);
    /// The body is JSON.
    sent_as_json() => Refusal::new(
        Code::IllegalParameter,
        "body: expected a form (application/x-www-form-urlencoded), got JSON",
    );
    /// Too many exchanges wait. It is safe to repeat, as `Retry-After` says.
    overloaded() => Refusal::from(StoreError::Overloaded);
}

fn ts_outside_window(settings: &config::Exchange, ts: Timestamp, now_millis: i64) -> Refusal {
    let text = format!(
        "ts: expected at most {} ahead of and {} behind now, which is {now_millis}; it is {}",
        in_words(settings.ts_ahead_max),
        in_words(settings.ts_behind_max),
        moment::distance(ts.unix_millis(), now_millis)
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

/// Contract 3.4.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ExchangeAnswer")]
struct Answer<'a> {
    #[schemars(extend("enum" = [1]))]
    code: u8,
    #[schemars(extend("enum" = ["SUCCESS"]))]
    msg: &'static str,
    data: &'a Receipt,
}

fn answer(receipt: &Receipt) -> Response {
    json_response(StatusCode::OK, &Answer { code: 1, msg: "SUCCESS", data: receipt })
}

/// The refusal of a field of the exchange. One field has a code of its own (contract 7.1).
pub(crate) fn refused_field(error: FieldError) -> Refusal {
    if error.field == "open_id" { Refusal::field(Code::IllegalOpenId, &error) } else { error.into() }
}

/// How a player becomes known, for a caller whose player is not.
const PLAYERS: &str = "a login makes a player known, and so does the operator's `minitill user add`";
/// Order number of the example.
const BIZ_NO: &str = "20270115080000001";
/// Items of the example.
const PRODUCT_INFO: &str = r#"[{"product_id":1001,"product_num":1,"product_type":0}]"#;

/// What the API's document says of the exchange.
pub(super) fn describe(config: &Config) -> Operation<Refusal> {
    let fields = fields(config);
    let string_to_sign = string_to_sign(&fields);
    let sign = PayKey::new(PAY_KEY.to_owned()).sign(&string_to_sign);
    let sign =
        Field::required::<SomeText>("sign", sign, "The signature, 64 hexadecimal digits of either case.");
    let ts = Timestamp::parse("1700000000").expect("the example is a time");
    let outside = ts_outside_window(&config.exchange, ts, NOW_MILLIS);
    let receipt = Receipt { biz_no: BIZ_NO.to_owned(), free_balance: 0, charge_balance: 80 };
    let success =
        |name, summary| Success::json(name, summary, &Answer { code: 1, msg: "SUCCESS", data: &receipt });
    let words = "Any one segment; clients of the platform send `kpay`.";
    let segment = Field::required::<String>("payment_segment", "kpay", words);
    let words = "It is there, and `true`, when the answer is that of an earlier try.";
    let replayed = success("replayed", "The same request again: the first answer, and nothing is deducted.");
    Operation::new("Exchange in-game currency for items", description())
        .with(openapi::Place::Path, [segment.demand("pattern", "^[^/]+$")])
        .body(&ANY_KIND[..1], fields.into_iter().chain([sign]))
        .answers(success("deducted", "60 coins of 40 gifted and 100 charged ones, gifted first."))
        .answers(replayed.header("Idempotent-Replayed", words, "true"))
        .refuses(signature_refusals(string_to_sign))
        .refuses([
            example::illegal_parameter(),
            example::sent_as_json(),
            example::illegal_open_id(),
            example::biz_no_conflict(),
            example::biz_no_expired(),
            Example::new(
                "ts_outside_window",
                "`ts` is too old or too new, and the `biz_no` is new.",
                outside,
            ),
            example::insufficient_balance(),
            example::overloaded(),
        ])
}

fn description() -> String {
    format!(
        "A game server deducts `amount` from a player's two purses, exactly once for each `biz_no`. The body is a form, \
         whatever the content type says.\n\n\
         **Signature.** Take the fields that are not empty, without `access_token` and `sign`, as they are before the form \
         is encoded. Join `name=value` with `&` in ASCII order of the names. Sign the string with HMAC-SHA256 and the pay \
         key, in hexadecimal. The example is signed with the pay key `{PAY_KEY}`.\n\n\
         **Idempotency.** A `biz_no` belongs to its app for ever and deducts at most once. For 48 hours the same content \
         under the same `biz_no` gets the first answer, byte for byte, and `Idempotent-Replayed: true`. `ts`, `user_ip`, \
         `os`, `access_token` and `sign` may differ. Other content is refused. After 48 hours every repeat is refused. A \
         refused exchange records nothing: its `biz_no` stays free.\n\n\
         **No answer, 500 or 503.** It is not known whether the player has paid: send the exchange again with the same \
         `biz_no`. It is not known either when the repeat is refused before its `biz_no` is looked up (100200102, \
         100200114, 10000200, 10000305): correct that and repeat. After 10000601, 10000604 and 10000423 the `biz_no` is \
         free.\n\n\
         **Order of checks.** Form, access token, signature, fields, `biz_no`, `ts`, wallet."
    )
}

/// The fields of contract 3, without the signature.
fn fields(config: &Config) -> Vec<Field> {
    let (ahead, behind) = (in_words(config.exchange.ts_ahead_max), in_words(config.exchange.ts_behind_max));
    let ts = format!(
        "When the request was made: 13 digits of milliseconds or 10 of seconds, at most {ahead} ahead of and {behind} behind now."
    );
    let ts = Field::required::<String>("ts", NOW_MILLIS.to_string(), ts);
    let ip = format!("The player's address, {}.", UserIp::EXPECTED);
    let amount = Field::required::<i64>("amount", 60, "What is deducted.");
    let default = config.exchange.pay_priority_default.code();
    let priority = format!(
        "`0`: charged currency first, `1`: gifted currency first; the other purse pays the rest. Empty or absent: {default}."
    );
    let priority = Field::optional::<String>("pay_priority", priority);
    let name = format!("Name of the item or bundle, {}.", ProductText::EXPECTED);
    let (bytes, items) = (product_info::BYTES_MAX, product_info::ITEMS_MAX);
    let info = format!("JSON text of at most {bytes} bytes: an array of 1 to {items} items.");
    let info = Field::required::<String>("product_info", PRODUCT_INFO, info).demand("minLength", 1);
    let extension = format!(
        "Any text of at most {EXTENSION_BYTES_MAX} bytes. With it, no text may read like other signed fields (`&open_id=`, \
         `&os=`, `&product_desc=`)."
    );
    let extension = Field::optional::<String>("extension", extension);
    vec![
        Field::required::<SomeText>("access_token", ACCESS_TOKEN, "A token of the app. It is not signed."),
        Field::required::<AppId>("app_id", APP_ID, "The app."),
        Field::required::<OpenId>("open_id", OPEN_ID, "The player; the app must know it."),
        Field::required::<ZoneId>("zone_id", "zone1_role1", format!("Zone and role: {}.", ZoneId::EXPECTED)),
        Field::required::<Os>("os", "android", "The player's platform, such as `android`, `ios`."),
        ts.demand("pattern", Timestamp::PATTERN),
        Field::required::<UserIp>("user_ip", "203.0.113.7", ip),
        amount.demand("minimum", 1).demand("maximum", AMOUNT_MAX),
        priority.demand("enum", json!(["", "0", "1"])).example("1"),
        Field::required::<BizNo>("biz_no", BIZ_NO, format!("Your order number, {}.", BizNo::EXPECTED)),
        Field::required::<ProductText>("product_name", "Double-up card", name),
        info.demand("maxLength", bytes)
            .demand("contentMediaType", "application/json")
            .demand("contentSchema", items_schema()),
        Field::required::<ProductText>("product_desc", "For one match", "Remark, as long as the name."),
        extension.demand("maxLength", EXTENSION_BYTES_MAX),
    ]
}

/// Contract 3.5.
fn items_schema() -> Value {
    let item = schemars::schema_for!(Item).to_value();
    let mut properties = item["properties"].clone();
    for (name, minimum) in
        [("product_id", 0), ("product_num", 1), ("product_start_time", 0), ("product_period", 0)]
    {
        properties[name]["type"] = "integer".into();
        properties[name]["minimum"] = minimum.into();
    }
    properties["product_type"]["enum"] = json!([0, 1, 2]);
    let required = ["product_id", "product_num", "product_type"];
    let item = json!({ "type": "object", "required": required, "properties": properties });
    json!({ "type": "array", "minItems": 1, "maxItems": product_info::ITEMS_MAX, "items": item })
}

/// What the example is signed with.
fn string_to_sign(fields: &[Field]) -> String {
    let values: Vec<(&str, String)> = fields
        .iter()
        .filter(|field| SIGNED_FIELDS.contains(&field.name))
        .filter_map(|field| Some((field.name, plain(field.example.as_ref()?))))
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
