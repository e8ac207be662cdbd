//! Refunds of payments, debt of wallets and its settlement (contract 19.5).

use domain::console_user::Role;
use serde_json::{Value, json};

use crate::admin::{Caller, assert_answer, assert_problem};
use crate::game::Game;
use crate::support::{Answer, TestApp, TestTill};
use crate::topups::{app, order, payment, tell};

fn asked(refund_id: &str, amount: i64, shortfall: &str) -> Value {
    json!({"refund_id": refund_id, "amount": amount, "reason": "r", "shortfall": shortfall})
}

async fn refund(caller: &Caller<'_>, payment: &str, body: &Value) -> Answer {
    caller.send("POST", &format!("/apps/a1/topups/stripe/{payment}/refunds"), None, body).await
}

/// An app whose player o1 has 46 gifted and 160 charged coins, of which 6 and 60 were paid for with 600.
async fn paid(till: &TestTill) -> (TestApp, Caller<'_>, Caller<'_>) {
    let app = app(till).await;
    let (admin, teller) = (Caller::admin(till).await, Caller::new(till, "payments", Role::Payments).await);
    order(till, &app, "t1").await;
    assert_eq!(tell(&teller, &payment("pi_1", "t1")).await.status, 200);
    (app, admin, teller)
}

async fn debt(till: &TestTill, app: &TestApp) -> Value {
    Game::balance(app, "o1").send(till).await.json()["data"]["debt"].clone()
}

async fn events(till: &TestTill, admin: &Caller<'_>, of: &str) -> Vec<Value> {
    till.store.number_events(None).await.unwrap();
    let events = admin.get(&format!("/events?type={of}")).await.json();
    events["items"].as_array().unwrap().iter().map(|event| event["data"].clone()).collect()
}

/// Rules 19.5.1 to 19.5.4: parts of a payment owe the floor of their share, in all what the whole owes; each is replayed for
/// ever, all together never exceed the payment, and the order tells what became of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_refund_takes_back_its_share_once() {
    let till = TestTill::start().await;
    let (app, admin, teller) = paid(&till).await;
    let status = async || Game::query(&app, "o1", "t1").send(&till).await.json()["data"]["status"].clone();
    // 199 of 600 owe 1 of 6 and 19 of 60.
    let first = refund(&admin, "pi_1", &asked("re_1", 199, "refuse")).await;
    let mut answer = json!({
        "state": "refunded", "amount": 199, "open_id": "o1", "free_taken": 1, "charge_taken": 19, "free_debt": 0,
        "charge_debt": 0, "free_balance": 45, "charge_balance": 141, "replayed": false,
    });
    assert_answer(&first, 200, &answer);
    assert_eq!(status().await, "part_refunded");
    answer["replayed"] = true.into();
    // Neither reason nor shortfall are content.
    for same in [asked("re_1", 199, "refuse"), json!({"refund_id": "re_1", "amount": 199, "reason": "x"})] {
        assert_answer(&refund(&admin, "pi_1", &same).await, 200, &answer);
    }
    let differs = refund(&admin, "pi_1", &asked("re_1", 200, "refuse")).await;
    let why = "the refund stripe/pi_1/re_1 was told of with another amount";
    assert_problem(&differs, 409, "conflict", why);
    let more = refund(&admin, "pi_1", &asked("re_2", 402, "record")).await;
    let why = "the refunds of the payment stripe/pi_1 would exceed it; 401 can still be refunded";
    assert_problem(&more, 409, "conflict", why);
    let rest = refund(&admin, "pi_1", &asked("re_2", 401, "refuse")).await;
    assert_eq!(
        (rest.json()["free_taken"].as_i64(), rest.json()["charge_taken"].as_i64()),
        (Some(5), Some(41))
    );
    assert_eq!((till.purses(&app, "o1").await, status().await), ((40, 100, 4), "refunded".into()));
    let shown = admin.get("/apps/a1/topups/stripe/pi_1").await.json();
    let refunds = shown["refunds"].as_array().unwrap();
    let told = |refund: &Value| {
        (refund["refund_id"].clone(), refund["amount"].clone(), refund["charge_owed"].clone())
    };
    assert_eq!(
        refunds.iter().map(told).collect::<Vec<_>>(),
        [("re_1".into(), 199.into(), 0.into()), ("re_2".into(), 401.into(), 0.into()),]
    );
    let expected = json!({
        "open_id": "o1", "seq": 3, "provider": "stripe", "provider_order_id": "pi_1", "refund_id": "re_1", "biz_no": "t1",
        "product_id": "gems60", "currency": "CNY", "amount": 199, "free_change": -1, "charge_change": -19,
        "free_balance": 45, "charge_balance": 141, "free_debt": 0, "charge_debt": 0,
    });
    assert_eq!(events(&till, &admin, "topup.refunded").await[0], expected);
    assert!(events(&till, &admin, "wallet.debt_changed").await.is_empty());
    // Whoever may only tell of payments refunds none.
    assert_eq!(refund(&teller, "pi_1", &asked("re_3", 1, "record")).await.status, 403);
    for wrong in [
        json!({"refund_id": "a/b", "amount": 1, "reason": "r"}),
        json!({"refund_id": "re", "amount": 0, "reason": "r"}),
        json!({"refund_id": "re", "amount": 1}),
        json!({"refund_id": "re", "amount": 1, "reason": "r", "shortfall": "none"}),
    ] {
        assert_eq!(refund(&admin, "pi_1", &wrong).await.status, 422, "{wrong}");
    }
    // The payment itself is told as at first.
    assert_eq!(tell(&teller, &payment("pi_1", "t1")).await.json()["charge_balance"], 160);
    till.assert_audit_clean().await;
}

/// Rules 19.5.4 to 19.5.7: what is spent is refused with both figures, or recorded as debt; no purse is negative, and the next
/// top-up settles the debt first, of each kind from what it brings.
#[tokio::test(flavor = "multi_thread")]
async fn spent_coins_are_refused_or_become_debt_that_the_next_top_up_settles() {
    let till = TestTill::start().await;
    let (app, admin, teller) = paid(&till).await;
    assert_eq!(Game::new(&app, "o1", "b1", 206 - 5).send(&till).await.code(), 1);
    assert_eq!(till.purses(&app, "o1").await, (5, 0, 3));
    let refused = refund(&admin, "pi_1", &asked("re_1", 600, "refuse")).await;
    let why = "the refund takes back 60 charged and 6 gifted coins, and the purses hold 0 and 5; \
               with the shortfall record the rest becomes debt";
    assert_problem(&refused, 409, "conflict", why);
    assert_eq!((till.purses(&app, "o1").await, debt(&till, &app).await), ((5, 0, 3), Value::Null));
    let recorded = refund(&admin, "pi_1", &asked("re_1", 600, "record")).await;
    let answer = json!({
        "state": "refunded", "amount": 600, "open_id": "o1", "free_taken": 5, "charge_taken": 0, "free_debt": 1,
        "charge_debt": 60, "free_balance": 0, "charge_balance": 0, "replayed": false,
    });
    assert_answer(&recorded, 200, &answer);
    assert_eq!(debt(&till, &app).await, json!({"free": 1, "charge": 60}));
    assert_eq!(admin.get("/apps/a1/wallets/o1").await.json()["debt"], json!({"free": 1, "charge": 60}));
    // 6 charged coins settle 6 of 60, and no gifted ones are there.
    let mut small = payment("pi_2", "");
    small.as_object_mut().unwrap().remove("biz_no");
    (small["open_id"], small["product_id"], small["amount"]) = ("o1".into(), "gems6".into(), 60.into());
    let paid = tell(&teller, &small).await;
    assert_eq!((paid.json()["charge"].as_i64(), paid.json()["charge_balance"].as_i64()), (Some(6), Some(0)));
    assert_eq!(debt(&till, &app).await, json!({"free": 1, "charge": 54}));
    till.assert_audit_clean().await;
    let mut large = small.clone();
    (large["provider_order_id"], large["product_id"], large["amount"]) =
        ("pi_3".into(), "gems60".into(), 600.into());
    let paid = tell(&teller, &large).await.json();
    assert_eq!((paid["free_balance"].as_i64(), paid["charge_balance"].as_i64()), (Some(5), Some(6)));
    assert_eq!(debt(&till, &app).await, Value::Null);
    assert_eq!(tell(&teller, &large).await.json()["charge_balance"], 6);
    let told: Vec<_> = events(&till, &admin, "wallet.debt_changed").await;
    let expected = json!({
        "open_id": "o1", "seq": 8, "free_change": -1, "charge_change": -54, "free_balance": 5, "charge_balance": 6,
        "free_debt": 0, "charge_debt": 0,
    });
    assert_eq!((told.len(), &told[2], &told[0]["charge_debt"]), (3, &expected, &json!(60)));
    let kinds = admin.get("/apps/a1/wallets/o1/entries").await.json();
    let kinds: Vec<&str> =
        kinds["items"].as_array().unwrap().iter().map(|entry| entry["kind"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        ["settlement", "topup", "settlement", "topup", "refund", "exchange", "topup", "credit"]
    );
    till.assert_audit_clean().await;
}
