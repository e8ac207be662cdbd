//! Descriptions of the calls of the wallet: what all of them share in the API's document.

use domain::app::Scope;
use domain::ids::AppId;
use domain::signature::{Mistake, PayKey};
use domain::wallet::{Timestamp, WalletCall, WalletRequest, canonical_string};
use schemars::JsonSchema;
use serde::Serialize;

use super::{WalletSuccess, example, ts_outside_window};
use crate::config::Config;
use crate::http::refusal::{Refusal, SignatureAdvice};
use crate::openapi::{
    self, ACCESS_TOKEN, APP_ID, Example, Field, Input, NOW_MILLIS, Operation, PAY_KEY, Success, plain,
};
use crate::public::auth;
use crate::public::describe::{ANY_KIND, SomeText};

pub(super) const SIGNATURE: &str =
    "**Signature.** As for the exchange, over the fields of this call that are not empty.";
pub(super) const IDEMPOTENCY: &str = "\
    **Idempotency.** As for the exchange. For 48 hours the same content under the same `biz_no` gets the first answer, \
    byte for byte, and `Idempotent-Replayed: true`. After 48 hours every repeat is refused.";

/// The description of a call, with the fields that it reads.
pub(super) fn call(
    call: WalletCall,
    config: &Config,
    summary: &'static str,
    description: impl Into<String>,
) -> Operation<Refusal> {
    let reading = config.reading(NOW_MILLIS);
    let fields = Input::describe(|input| WalletRequest::read(call, input, &reading));
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
                ts_outside_window(ts, NOW_MILLIS),
            ),
            example::overloaded(),
        ])
}

/// The refusal of an app that lacks the scope of a call.
pub(super) fn scope_missing(scope: Scope) -> Example<Refusal> {
    Example::new("scope_missing", "The app lacks the scope.", auth::scope_missing(APP_ID, scope))
}

/// The refusals of what uses a number.
pub(super) fn refusals_of_numbers() -> [Example<Refusal>; 3] {
    [example::biz_no_conflict(), example::biz_no_expired(), example::biz_no_closed()]
}

/// The refusals that changes share.
pub(super) fn refusals_of_changes() -> impl Iterator<Item = Example<Refusal>> {
    refusals_of_numbers().into_iter().chain([example::wallet_frozen()])
}

/// The answer of a repeat.
pub(super) fn replayed<T: JsonSchema + Serialize>(summary: &'static str, receipt: &T) -> Success {
    let words = "It is there, and `true`, when the answer is that of an earlier try.";
    Success::json("replayed", summary, &WalletSuccess::new(receipt)).header(
        "Idempotent-Replayed",
        words,
        "true",
    )
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
    let mistake = Some(Mistake::NotSorted.english());
    let advice = SignatureAdvice { bytes: string_to_sign.len(), mistake, string_to_sign };
    let words = "The same for a sandbox app: it gets the string that the server signed and, if one explains it, the mistake.";
    [
        auth::example::sign_missing(),
        auth::example::bad_signature(),
        Example::new("bad_signature_sandbox", words, auth::diagnosed_as(advice)),
    ]
}
