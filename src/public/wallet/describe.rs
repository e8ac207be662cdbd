//! Building blocks for the descriptions of the calls of the wallet.

use domain::app::Scope;
use domain::ids::{AppId, BizNo, OpenId, Os, ProductText, UserIp, ZoneId};
use domain::signature::{Mistake, PayKey, canonical_string};
use domain::wallet::{AMOUNT_MAX, EXTENSION_BYTES_MAX, Timestamp, WalletCall};
use schemars::JsonSchema;
use serde::Serialize;

use super::answer::Answer;
use super::{example, in_words, ts_outside_window};
use crate::config::Config;
use crate::http::refusal::{Advice, Refusal, SignatureAdvice};
use crate::openapi::{
    self, ACCESS_TOKEN, APP_ID, Example, Field, NOW_MILLIS, OPEN_ID, Operation, PAY_KEY, Success, plain,
};
use crate::public::auth;
use crate::public::describe::{ANY_KIND, BIZ_NO, SomeText};

/// Number of the exchange that the example of a cancel gives back.
pub(in crate::public) const PAY_BIZ_NO: &str = "20270115070000001";

/// What the API's document says of a call with these fields.
pub(in crate::public) fn describe(
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
pub(in crate::public) fn scope_missing(scope: Scope) -> Example<Refusal> {
    Example::new("scope_missing", "The app lacks the scope.", auth::scope_missing(scope))
}

/// The refusals that changes share.
pub(in crate::public) fn refusals_of_changes() -> [Example<Refusal>; 3] {
    [example::biz_no_conflict(), example::biz_no_expired(), example::biz_no_closed()]
}

/// The answer of a repeat.
pub(in crate::public) fn replayed<T: JsonSchema + Serialize>(summary: &'static str, receipt: &T) -> Success {
    let words = "It is there, and `true`, when the answer is that of an earlier try.";
    Success::json("replayed", summary, &Answer::new(receipt)).header("Idempotent-Replayed", words, "true")
}

/// A field that several calls have.
///
/// # Panics
/// On another field.
pub(in crate::public) fn field(name: &'static str, config: &Config) -> Field {
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
