//! The bodies of docs/topups.md with which a developer's server answers the stores, made from what was used of a top-up
//! (contract 19.6).

use domain::console_user::Role;
use serde_json::{Map, Value, json};

use crate::admin::Caller;
use crate::game::Game;
use crate::support::{TestTill, committed};
use crate::topups::{app, payment, tell};

/// A field of a store's schema: its name, whether it must be there, and what it may be.
type StoreField = (&'static str, bool, fn(&Value) -> bool);

/// <https://developer.apple.com/documentation/appstoreserverapi/consumptionrequest>
const APPLE: [StoreField; 5] = [
    ("customerConsented", true, |value| *value == true),
    ("sampleContentProvided", true, Value::is_boolean),
    ("deliveryStatus", true, |value| {
        let delivered = ["DELIVERED", "UNDELIVERED_QUALITY_ISSUE", "UNDELIVERED_WRONG_ITEM"];
        delivered
            .into_iter()
            .chain(["UNDELIVERED_SERVER_OUTAGE", "UNDELIVERED_OTHER"])
            .any(|one| value == one)
    }),
    ("consumptionPercentage", false, is_milli_percent),
    ("refundPreference", false, |value| {
        ["DECLINE", "GRANT_FULL", "GRANT_PRORATED"].into_iter().any(|one| value == one)
    }),
];
/// <https://developers.google.com/android-publisher/api-ref/rest/v3/orders/reviewrefund>
const GOOGLE: [StoreField; 5] = [
    ("pendingRefundToken", true, Value::is_string),
    ("sampleContentProvided", true, Value::is_boolean),
    ("refundPreference", true, |value| ["DECLINE", "APPROVE", "NEUTRAL"].into_iter().any(|one| value == one)),
    ("consumptionPercentageMilliunits", false, is_milli_percent),
    ("consumptionUsageEvents", false, |value| {
        value.as_array().is_some_and(|events| {
            events.len() <= 1_000 && events.iter().all(|event| faults(event, &GOOGLE_EVENT).is_empty())
        })
    }),
];
const GOOGLE_EVENT: [StoreField; 6] = [
    ("obfuscatedAccountId", false, Value::is_string),
    ("obfuscatedProfileId", false, Value::is_string),
    ("consumptionTime", false, |value| value.as_str().is_some_and(|text| text.ends_with('Z'))),
    ("ipAddress", false, Value::is_string),
    ("location", false, Value::is_object),
    ("consumptionItemDescription", false, |value| value.as_str().is_some_and(|text| text.len() <= 5_000)),
];

fn is_milli_percent(value: &Value) -> bool {
    value.as_i64().is_some_and(|milli| (0..=100_000).contains(&milli))
}

/// The fields of a body that a store does not take, and those that it lacks.
fn faults(body: &Value, fields: &[StoreField]) -> Vec<String> {
    let none = Map::new();
    let body = body.as_object().unwrap_or(&none);
    let known = |name: &String| fields.iter().any(|(known, ..)| known == name);
    let unknown = body.keys().filter(|name| !known(name)).cloned();
    let wrong = fields.iter().filter(|(name, is_required, fits)| match body.get(*name) {
        Some(value) => !fits(value),
        None => *is_required,
    });
    unknown.chain(wrong.map(|(name, ..)| (*name).to_owned())).collect()
}

/// The JSON behind a mark of the page.
fn shown(page: &str, mark: &str) -> Value {
    let (_, rest) = page.split_once(&format!("<!-- {mark} -->\n```json\n")).unwrap();
    serde_json::from_str(rest.split_once("```").unwrap().0).unwrap()
}

/// The page shows what the till answers, and what a server makes of it; each store takes its body.
#[tokio::test(flavor = "multi_thread")]
async fn stores_take_the_bodies_of_the_page() {
    let till = TestTill::start().await;
    let app = app(&till).await;
    let caller = Caller::new(&till, "payments", Role::Payments).await;
    let mut told = payment("pi_1", "");
    told.as_object_mut().unwrap().remove("biz_no");
    (told["open_id"], told["product_id"]) = ("o2".into(), "gems60".into());
    assert_eq!(tell(&caller, &told).await.status, 200);
    assert_eq!(Game::new(&app, "o2", "order1001", 10).send(&till).await.code(), 1);
    till.execute("UPDATE ledger_entries SET at = '2026-11-21T08:00Z' WHERE reference = 'order1001'").await;
    let used = Caller::admin(&till).await.get("/apps/a1/topups/stripe/pi_1/consumption").await.json();

    let page = committed("docs/topups.md");
    assert_eq!(shown(&page, "consumption"), used);
    let milli_percent = used["used_milli"].as_i64().unwrap() * 100;
    let apple = json!({
        "customerConsented": true, "sampleContentProvided": false, "deliveryStatus": "DELIVERED",
        "consumptionPercentage": milli_percent, "refundPreference": "GRANT_PRORATED",
    });
    let events = used["exchanges"].as_array().unwrap().iter().map(|exchange| {
        let item = format!("{}: {} coins", exchange["biz_no"].as_str().unwrap(), exchange["coins"]);
        json!({"consumptionTime": exchange["at"], "consumptionItemDescription": item})
    });
    let google = json!({
        "pendingRefundToken": "of the notification", "sampleContentProvided": false, "refundPreference": "DECLINE",
        "consumptionPercentageMilliunits": milli_percent, "consumptionUsageEvents": events.collect::<Vec<_>>(),
    });
    for (mark, made, fields) in [("apple", apple, &APPLE), ("google", google, &GOOGLE)] {
        assert_eq!(shown(&page, mark), made, "{mark}");
        assert_eq!(faults(&made, fields), Vec::<String>::new(), "{mark}");
    }
    // The schemas refuse what is wrong.
    let wrong =
        json!({"customerConsented": false, "deliveryStatus": "0", "consumptionPercentage": 100_001, "x": 1});
    let expected =
        ["x", "customerConsented", "sampleContentProvided", "deliveryStatus", "consumptionPercentage"];
    assert_eq!(faults(&wrong, &APPLE), expected);
}
