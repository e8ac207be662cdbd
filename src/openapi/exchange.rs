//! The exchange as the document tells it (contract 3).

use domain::exchange::{AMOUNT_MAX, Amount, EXTENSION_BYTES_MAX, Timestamp};
use domain::ids::{AppId, BizNo, OpenId, Os, PRODUCT_TEXT_BYTES_MAX, UserIp, ZONE_ID_BYTES_MAX, ZoneId};
use domain::product_info;
use domain::signature::{Mistake, PayKey, SIGNED_FIELDS, canonical_string};
use store::StoreError;

use super::json::{Json, object};
use super::operation::{
    ACCESS_TOKEN, APP_ID, Body, Content, Field, NOW_MILLIS, OPEN_ID, Operation, Place, RefusalExample,
    Success, general_refusals, integer, pattern, refused, said, text, token_refusals, wrong_value,
};
use crate::config::Config;
use crate::error::{Code, Refusal};
use crate::public::exchange::{
    in_words, insufficient_balance, number_conflict, number_expired, ts_outside_window,
};

/// The pay key that signs the example, so that it can be checked.
const PAY_KEY: &str = "B7Y0c6E5bCKMEQOsvCExziNhq16ObGqh";
const BIZ_NO: &str = "20270115080000001";
const ITEMS: &str = r#"[{"product_id":1001,"product_num":1,"product_type":0}]"#;

pub(super) fn operation(config: &Config) -> Operation {
    Operation {
        id: "exchange",
        summary: "Exchange in-game currency for items",
        description: description(),
        parameters: vec![
            Field::required(
                "payment_segment",
                pattern("^[^/]+$"),
                "kpay",
                "Any one segment; clients of the platform send `kpay`.",
            )
            .at(Place::Path),
        ],
        bodies: vec![Body {
            media_type: "application/x-www-form-urlencoded",
            fields: signed(fields(config)),
        }],
        body_required: true,
        successes: successes(),
        refusals: refusals(config),
    }
}

fn description() -> String {
    format!(
        "A game server deducts `amount` from a player's two purses, exactly once for each `biz_no`. The body is a form, \
         whatever the content type says.\n\n\
         **Signature.** Take the fields but `access_token` and `sign` that are not empty, as they are before the form is \
         encoded; join `name=value` with `&` in ASCII order of the names; HMAC-SHA256 with the pay key, in hexadecimal. \
         The example is signed with the pay key `{PAY_KEY}`.\n\n\
         **Once.** A `biz_no` belongs to its app for ever and deducts at most once. For 48 hours the same content under \
         the same number is answered with the first answer, byte for byte, and `Idempotent-Replayed: true`; \
         `ts`, `user_ip`, `os`, `access_token` and `sign` may differ. Other content is refused, and after 48 hours every \
         repeat is. A refused exchange records nothing: its number stays free.\n\n\
         **No answer, 500 or 503.** It is not known whether the player has paid: send it again with the same `biz_no`. Nor is \
         it when the repeat is refused before its number is looked for (100200102, 100200114, 10000200, 10000305): put that \
         right and repeat. After 10000601, 10000604 and 10000423 the number is free.\n\n\
         **Order of checks.** Form, access token, signature, fields, `biz_no`, `ts`, wallet."
    )
}

/// The fields of contract 3, but for the signature.
fn fields(config: &Config) -> Vec<Field> {
    let mut fields = fields_of_the_player(config);
    fields.extend(fields_of_the_deduction(config));
    fields.extend(fields_of_the_goods());
    fields
}

fn fields_of_the_player(config: &Config) -> Vec<Field> {
    let any_address = object! {
        "type": "string",
        "anyOf": vec![object! { "format": "ipv4" }, object! { "format": "ipv6" }],
    };
    vec![
        Field::required(
            "access_token",
            object! { "type": "string", "minLength": 1 },
            ACCESS_TOKEN,
            "A token of the app. Not signed.",
        ),
        Field::required("app_id", pattern(AppId::PATTERN), APP_ID, "The app."),
        Field::required("open_id", pattern(OpenId::PATTERN), OPEN_ID, "The player; the app must know it."),
        Field::required(
            "zone_id",
            pattern(ZoneId::PATTERN).with("maxLength", ZONE_ID_BYTES_MAX),
            "zone1_role1",
            format!("Zone and role: {}.", ZoneId::EXPECTED),
        ),
        Field::required(
            "os",
            pattern(Os::PATTERN),
            "android",
            "The player's platform, such as `android`, `ios`.",
        ),
        Field::required(
            "ts",
            pattern(Timestamp::PATTERN),
            NOW_MILLIS.to_string(),
            format!(
                "When the request was made: 13 digits of milliseconds or 10 of seconds, at most {} ahead of and {} behind now.",
                in_words(config.exchange.ts_ahead_max),
                in_words(config.exchange.ts_behind_max)
            ),
        ),
        Field::required(
            "user_ip",
            any_address,
            "203.0.113.7",
            format!("The player's address, {}.", UserIp::EXPECTED),
        ),
    ]
}

fn fields_of_the_deduction(config: &Config) -> Vec<Field> {
    let default = config.exchange.pay_priority_default.code();
    vec![
        Field::required("amount", integer(1, AMOUNT_MAX), 60, "What is deducted."),
        Field::optional(
            "pay_priority",
            object! { "type": "string", "enum": vec!["", "0", "1"] },
            format!(
                "`0`: charged currency first, `1`: gifted currency first; the other purse pays the rest. Empty or absent: {default}."
            ),
        )
        .example("1"),
        Field::required(
            "biz_no",
            pattern(BizNo::PATTERN),
            BIZ_NO,
            format!("Your order number, {}.", BizNo::EXPECTED),
        ),
    ]
}

fn fields_of_the_goods() -> Vec<Field> {
    let product_text = || text(1, PRODUCT_TEXT_BYTES_MAX);
    vec![
        Field::required(
            "product_name",
            product_text(),
            "Double-up card",
            format!("Name of the item or bundle, at most {PRODUCT_TEXT_BYTES_MAX} bytes."),
        ),
        Field::required(
            "product_info",
            text(1, product_info::BYTES_MAX)
                .with("contentMediaType", "application/json")
                .with("contentSchema", items_schema()),
            ITEMS,
            format!(
                "JSON text of at most {} bytes: an array of 1 to {} items.",
                product_info::BYTES_MAX,
                product_info::ITEMS_MAX
            ),
        ),
        Field::required("product_desc", product_text(), "For one match", "Remark, as long as the name."),
        Field::optional(
            "extension",
            text(0, EXTENSION_BYTES_MAX),
            format!(
                "Whatever you like, at most {EXTENSION_BYTES_MAX} bytes. With it, no text may read like other signed \
                 fields (`&open_id=`, `&os=`, `&product_desc=`)."
            ),
        ),
    ]
}

/// Contract 3.5.
fn items_schema() -> Json {
    let number = |minimum: i64| object! { "type": "integer", "format": "int64", "minimum": minimum };
    object! {
        "type": "array",
        "minItems": 1,
        "maxItems": product_info::ITEMS_MAX,
        "items": object! {
            "type": "object",
            "required": vec!["product_id", "product_num", "product_type"],
            "properties": object! {
                "product_id": number(0),
                "product_num": number(1),
                "product_type": object! {
                    "type": "integer",
                    "enum": vec![0, 1, 2],
                    "description": "0: one-time, 1: time-limited, 2: permanent.",
                },
                "product_start_time": number(0).with("description", "Milliseconds; required for type 1."),
                "product_period": number(0).with("description", "Milliseconds; required for type 1."),
            },
        },
    }
}

/// What the example is signed with.
fn string_to_sign(fields: &[Field]) -> String {
    let values: Vec<(&str, String)> = fields
        .iter()
        .filter(|field| SIGNED_FIELDS.contains(&field.name))
        .filter_map(|field| Some((field.name, field.example.as_ref()?.plain())))
        .collect();
    canonical_string(values.iter().map(|(name, value)| (*name, value.as_str())))
}

/// The fields and their signature, which is a real one.
fn signed(mut fields: Vec<Field>) -> Vec<Field> {
    let string = string_to_sign(&fields);
    fields.push(Field::required(
        "sign",
        object! { "type": "string", "minLength": 1 },
        PayKey::new(PAY_KEY.to_owned()).sign(&string),
        "The signature, 64 hexadecimal digits of either case.",
    ));
    fields
}

fn successes() -> Vec<Success> {
    let balance = |words: &str| integer(0, i64::MAX).with("description", words);
    let schema = object! {
        "type": "object",
        "required": vec!["code", "msg", "data"],
        "properties": object! {
            "code": object! { "const": 1 },
            "msg": object! { "const": "SUCCESS" },
            "data": object! {
                "type": "object",
                "required": vec!["bizNo", "freeBalance", "chargeBalance"],
                "properties": object! {
                    "bizNo": pattern(BizNo::PATTERN),
                    "freeBalance": balance("Gifted currency right after this exchange."),
                    "chargeBalance": balance("Charged currency right after this exchange."),
                },
            },
        },
    };
    let example = object! {
        "code": 1,
        "msg": "SUCCESS",
        "data": object! { "bizNo": BIZ_NO, "freeBalance": 0, "chargeBalance": 80_i64 },
    };
    let content = Content::Json { schema, example };
    vec![
        Success {
            name: "deducted",
            summary: "60 coins of 40 gifted and 100 charged ones, gifted first.",
            status: 200,
            content: content.clone(),
            headers: Vec::new(),
        },
        Success {
            name: "replayed",
            summary: "The same request again: the first answer, and nothing is deducted.",
            status: 200,
            content,
            headers: vec![(
                "Idempotent-Replayed",
                "There, and `true`, when the answer is that of an earlier try.",
                "true".to_owned(),
            )],
        },
    ]
}

fn refusals(config: &Config) -> Vec<RefusalExample> {
    let mut refusals = token_refusals();
    let string = string_to_sign(&fields(config));
    refusals.extend([
        said("sign_missing", "No signature came.", Code::BadSignature, "sign is missing"),
        said("bad_signature", "The signature does not match.", Code::BadSignature, "sign: the signature does not match"),
        refused(
            "bad_signature_sandbox",
            "The same for a sandbox app: it is told what the server signed and, where one explains it, the mistake.",
            Refusal {
                data: Some(serde_json::json!({
                    "string_to_sign": string, "bytes": string.len(),
                    "mistake": Mistake::NotSorted.text(),
                })),
                ..Refusal::new(Code::BadSignature, "sign: the signature does not match")
            },
        ),
        refused(
            "illegal_parameter",
            "A field is missing or not acceptable; the text says which, what was expected and what came.",
            wrong_value(Code::IllegalParameter, "amount", "-5", Amount::parse),
        ),
        said(
            "illegal_open_id",
            "The app has no wallet for this player.",
            Code::IllegalOpenId,
            "open_id: expected a player of this app",
        ),
        refused("biz_no_conflict", "The number paid for something else.", number_conflict(BIZ_NO)),
        refused("biz_no_expired", "The number was used more than 48 hours ago.", number_expired(BIZ_NO)),
        refused(
            "ts_outside_window",
            "`ts` is too old or too new, and the number is new.",
            ts_outside_window(&config.exchange, NOW_MILLIS),
        ),
        refused(
            "insufficient_balance",
            "Both purses together do not cover the amount; nothing was deducted.",
            insufficient_balance(),
        ),
        refused(
            "overloaded",
            "Too many exchanges wait. Safe to repeat, as `Retry-After` says.",
            Refusal::from(StoreError::Overloaded),
        ),
    ]);
    refusals.extend(general_refusals(config.http.body_bytes_max, config.http.body_timeout));
    refusals
}
