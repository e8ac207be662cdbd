//! Exchanges and the signature check as the document tells them.

use domain::ids::{AppId, BizNo};

use super::apps::{MOMENT, app_in_path};
use super::problems::{example, no_app, wrong_field};
use super::{Said, answers, flag, list_of, moment, operation, record, text, text_or_null, whole_number};
use crate::openapi::json::{Json, object};
use crate::openapi::operation::{APP_ID, Field, NOW_MILLIS, OPEN_ID, Place, pattern};
use crate::operator::admin::messages;

/// Order number of the example.
const BIZ_NO: &str = "order1001";

/// A form whose values were signed in the order in which they stand.
const FORM: &str = "open_id=player-1&amount=5&sign=00";

pub(super) fn get() -> Said {
    let used = || object! { "type": "string", "enum": vec!["replayed", "conflict", "expired"] };
    let item = record(vec![
        ("product_id", whole_number()),
        ("product_num", whole_number()),
        ("product_type", whole_number()),
        ("product_start_time", object! { "type": vec!["integer", "null"] }),
        ("product_period", object! { "type": vec!["integer", "null"] }),
    ]);
    let replays = record(vec![("replays", whole_number()), ("first_at", moment()), ("last_at", moment())]);
    let mut members = vec![("app_id", pattern(AppId::PATTERN)), ("biz_no", pattern(BizNo::PATTERN))];
    members.extend(
        ["open_id", "zone_id", "os", "product_name", "product_info", "product_desc", "extension"]
            .map(|name| (name, text())),
    );
    members.extend(
        [
            "ts",
            "amount",
            "pay_priority",
            "seq",
            "free_change",
            "charge_change",
            "free_balance",
            "charge_balance",
        ]
        .map(|name| (name, whole_number())),
    );
    members.push(("items", list_of(item)));
    members.extend(["created_at", "replayed_until"].map(|name| (name, moment())));
    members.extend(["same_content", "other_content"].map(|name| (name, used())));
    members.push(("replays", object! { "anyOf": vec![replays, object! { "type": "null" }] }));
    let biz_no = Field::required("biz_no", pattern(BizNo::PATTERN), BIZ_NO, "The order number.");
    let operation = operation(
        "Show an exchange",
        "What was sold under an order number: the request as it came, its ledger entry, until when a repeat is answered alike, and \
         what a repeat with the same and with other content is answered now. `user_ip`, the player's address, is told to a key of \
         the role admin alone. A refused exchange leaves nothing to show.",
        answers("shown", "The exchange.", record(members), exchange_example()),
    );
    let ids = (AppId::parse(APP_ID), BizNo::parse(BIZ_NO));
    let (Ok(app_id), Ok(number)) = ids else { panic!("the exchange of the examples has a number") };
    let unknown =
        example("no_exchange", "The app has sold nothing under it.", messages::no_exchange(&app_id, &number));
    let operation = operation.with_parameters(vec![app_in_path(), biz_no.at(Place::Path)]);
    Said { operation, problems: vec![unknown] }
}

fn exchange_example() -> Json {
    let item = object! {
        "product_id": 1,
        "product_num": 2,
        "product_period": Json::Null,
        "product_start_time": Json::Null,
        "product_type": 0,
    };
    object! {
        "amount": 60,
        "app_id": APP_ID,
        "biz_no": BIZ_NO,
        "charge_balance": 40,
        "charge_change": -60,
        "created_at": MOMENT,
        "extension": "",
        "free_balance": 40,
        "free_change": 0,
        "items": vec![item],
        "open_id": OPEN_ID,
        "os": "android",
        "other_content": "conflict",
        "pay_priority": 0,
        "product_desc": "remark",
        "product_info": r#"[{"product_id":1,"product_num":2,"product_type":0}]"#,
        "product_name": "Double-up card",
        "replayed_until": MOMENT,
        "replays": Json::Null,
        "same_content": "replayed",
        "seq": 2,
        "ts": NOW_MILLIS,
        "user_ip": "203.0.113.9",
        "zone_id": "z1_r1",
    }
}

pub(super) fn check_signature() -> Said {
    let schema = record(vec![
        ("matches", flag()),
        ("string_to_sign", text()),
        ("bytes", whole_number()),
        ("mistake", text_or_null()),
    ]);
    let signed = "amount=5&open_id=player-1";
    let example = object! {
        "bytes": signed.len(), "matches": false, "mistake": Json::Null, "string_to_sign": signed,
    };
    let fields = vec![
        Field::required("app_id", pattern(AppId::PATTERN), APP_ID, "The app."),
        Field::required("form", text(), FORM, "The body of the exchange, as it was sent: `a=b&c=d`."),
    ];
    let operation = operation(
        "Check a signature",
        "Whether the `sign` of an exchange's body matches, the string that must be signed, and the well-known mistake that explains \
         what came, if one does. Tells no key and no right signature, and changes nothing.",
        answers("checked", "What was found.", schema, example),
    );
    let wrong = wrong_field("form", "is missing");
    Said { operation: operation.with_body(fields), problems: vec![wrong, no_app()] }
}
