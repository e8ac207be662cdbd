//! Refunds of payments, debt of wallets and its settlement (contract 19.5).

use std::time::Duration;

use domain::console_user::Role;
use domain::ids::Reason;
use domain::topup::{
    Excess, NewRefund, PaymentKey, RefundAmount, RefundId, RefundKey, RefundState, Shortfall,
};
use serde_json::{Value, json};

use crate::admin::{Caller, assert_answer, assert_problem};
use crate::archive::{Folder, age, day};
use crate::audit::REHASH;
use crate::game::Game;
use crate::support::program::Program;
use crate::support::{Answer, TestApp, TestTill, operator};
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
    let (admin, caller) = (Caller::admin(till).await, Caller::new(till, "payments", Role::Payments).await);
    order(till, &app, "t1").await;
    assert_eq!(tell(&caller, &payment("pi_1", "t1")).await.status, 200);
    (app, admin, caller)
}

async fn debt(till: &TestTill, app: &TestApp) -> Value {
    Game::balance(app, "o1").send(till).await.json()["data"]["debt"].clone()
}

async fn events(till: &TestTill, admin: &Caller<'_>, of: &str) -> Vec<Value> {
    till.store.number_events(None).await.unwrap();
    let events = admin.get(&format!("/events?type={of}")).await.json();
    events["items"].as_array().unwrap().iter().map(|event| event["data"].clone()).collect()
}

/// Rules 19.5.1 to 19.5.4: parts of a payment owe the floor of their share, in all what the whole owes. Each is
/// replayed for ever, all together never exceed the payment, and the order tells what became of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_refund_takes_back_its_share_once() {
    let till = TestTill::start().await;
    let (app, admin, caller) = paid(&till).await;
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
    // A key that may only report payments refunds none.
    assert_eq!(refund(&caller, "pi_1", &asked("re_3", 1, "record")).await.status, 403);
    for wrong in [
        json!({"refund_id": "a/b", "amount": 1, "reason": "r"}),
        json!({"refund_id": "re", "amount": 0, "reason": "r"}),
        json!({"refund_id": "re", "amount": 1}),
        json!({"refund_id": "re", "amount": 1, "reason": "r", "shortfall": "none"}),
    ] {
        assert_eq!(refund(&admin, "pi_1", &wrong).await.status, 422, "{wrong}");
    }
    // The payment itself is told as at first.
    assert_eq!(tell(&caller, &payment("pi_1", "t1")).await.json()["charge_balance"], 160);
    till.assert_audit_clean().await;
}

/// Rules 19.5.4 to 19.5.7: a refund of what is spent is refused with both figures, or recorded as debt. No purse is
/// negative. The next top-up settles the debt first, of each kind from what it brings.
#[tokio::test(flavor = "multi_thread")]
async fn spent_coins_are_refused_or_become_debt_that_the_next_top_up_settles() {
    let till = TestTill::start().await;
    let (app, admin, caller) = paid(&till).await;
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
    let paid = tell(&caller, &small).await;
    assert_eq!((paid.json()["charge"].as_i64(), paid.json()["charge_balance"].as_i64()), (Some(6), Some(0)));
    assert_eq!(debt(&till, &app).await, json!({"free": 1, "charge": 54}));
    till.assert_audit_clean().await;
    let mut large = small.clone();
    (large["provider_order_id"], large["product_id"], large["amount"]) =
        ("pi_3".into(), "gems60".into(), 600.into());
    let paid = tell(&caller, &large).await.json();
    assert_eq!((paid["free_balance"].as_i64(), paid["charge_balance"].as_i64()), (Some(5), Some(6)));
    assert_eq!(debt(&till, &app).await, Value::Null);
    assert_eq!(tell(&caller, &large).await.json()["charge_balance"], 6);
    let told: Vec<_> = events(&till, &admin, "wallet.debt_changed").await;
    let expected = json!({
        "open_id": "o1", "seq": 8, "free_change": -1, "charge_change": -54, "free_balance": 5, "charge_balance": 6,
        "free_debt": 0, "charge_debt": 0,
    });
    assert_eq!((told.len(), &told[2], &told[0]["charge_debt"]), (3, &expected, &json!(60)));
    // Rules 12.1.14 and 12.3.7: both events of the refund tell of one entry, at one time.
    let refunded = admin.get("/events?type=topup.refunded").await.json()["items"][0].clone();
    let indebted = admin.get("/events?type=wallet.debt_changed").await.json()["items"][0].clone();
    assert_eq!(refunded["timestamp"], indebted["timestamp"]);
    for field in ["seq", "free_change", "charge_change"] {
        assert_eq!(refunded["data"][field], indebted["data"][field], "{field}");
    }
    let kinds = admin.get("/apps/a1/wallets/o1/entries").await.json();
    let kinds: Vec<&str> =
        kinds["items"].as_array().unwrap().iter().map(|entry| entry["kind"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        ["settlement", "topup", "settlement", "topup", "refund", "exchange", "topup", "credit"]
    );
    till.assert_audit_clean().await;
}

/// Rule 19.5.6: a top-up settles the oldest debt first.
#[tokio::test(flavor = "multi_thread")]
async fn the_oldest_debt_is_settled_first() {
    let till = TestTill::start().await;
    let (app, admin, caller) = paid(&till).await;
    assert_eq!(Game::new(&app, "o1", "b1", 206).send(&till).await.code(), 1);
    for id in ["re_2", "re_1"] {
        assert_eq!(refund(&admin, "pi_1", &asked(id, 300, "record")).await.status, 200);
    }
    let mut small = direct("pi_2");
    (small["product_id"], small["amount"]) = ("gems6".into(), 60.into());
    assert_eq!(tell(&caller, &small).await.status, 200);
    let shown = admin.get("/apps/a1/topups/stripe/pi_1").await.json();
    let owed = shown["refunds"].as_array().unwrap().iter();
    let owed: Vec<_> =
        owed.map(|refund| (refund["refund_id"].clone(), refund["charge_owed"].clone())).collect();
    assert_eq!(owed, [("re_2".into(), 24.into()), ("re_1".into(), 30.into())]);
    till.assert_audit_clean().await;
}

/// A payment of gems60 by o1 without an order.
fn direct(id: &str) -> Value {
    let mut told = payment(id, "");
    told.as_object_mut().unwrap().remove("biz_no");
    (told["open_id"], told["product_id"]) = ("o1".into(), "gems60".into());
    told
}

/// Rules 19.5.6 and 19.5.8: the payment of an order settles debt, and carries out a refund that came first. That holds
/// even for one that commits while the payment is written. What is written without a lock finds out about both.
#[tokio::test(flavor = "multi_thread")]
async fn the_payment_of_an_order_finds_debt_and_refunds() {
    let till = TestTill::start().await;
    let (app, admin, caller) = paid(&till).await;
    for biz_no in ["t2", "t3", "t4"] {
        order(&till, &app, biz_no).await;
    }
    // A refund that waits.
    assert_eq!(refund(&admin, "pi_2", &asked("re_2", 300, "record")).await.status, 202);
    let mut paid = tell(&caller, &payment("pi_2", "t2")).await.json();
    assert_eq!(
        (&paid["state"], &paid["free_balance"], &paid["charge_balance"]),
        (&json!("paid"), &json!(49), &json!(190))
    );
    assert_eq!(till.purses(&app, "o1").await, (49, 190, 4));
    paid["replayed"] = true.into();
    assert_answer(&tell(&caller, &payment("pi_2", "t2")).await, 200, &paid);
    // One that commits while the row of its payment waits for its key.
    let mut held = till.sql.begin().await.unwrap();
    for statement in [
        "INSERT INTO topup_payments (app_no, provider, provider_order_id, currency, amount, biz_no, paid_at, created_at,
             state, reason, note, told_by)
         SELECT app_no, 'stripe', 'pi_3', '', 1, '', now(), now(), 'unmatched', 'unknown_order', '', '' FROM apps",
        "DELETE FROM topup_payments WHERE provider_order_id = 'pi_3'",
        "INSERT INTO topup_refunds (app_no, provider, provider_order_id, refund_id, amount, state, reason, told_by, created_at)
         SELECT app_no, 'stripe', 'pi_3', 're_3', 600, 'waiting', 'r', 'api_key backend', now() FROM apps",
    ] {
        sqlx::query(statement).execute(&mut *held).await.unwrap();
    }
    let (third, telling) = (payment("pi_3", "t3"), async {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
             AND wait_event_type = 'Lock' AND query LIKE 'INSERT INTO topup_payments%'";
        while till.number(waiting).await == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        held.commit().await.unwrap();
    });
    let (paid, ()) = tokio::join!(tell(&caller, &third), telling);
    assert_eq!(
        (paid.json()["state"].as_str(), paid.json()["charge_balance"].as_i64()),
        (Some("paid"), Some(190))
    );
    assert_eq!(till.purses(&app, "o1").await, (49, 190, 6));
    // Debt.
    assert_eq!(Game::new(&app, "o1", "b1", 239).send(&till).await.code(), 1);
    assert_eq!(refund(&admin, "pi_1", &asked("re_1", 600, "record")).await.status, 200);
    assert_eq!(debt(&till, &app).await, json!({"free": 6, "charge": 60}));
    let paid = tell(&caller, &payment("pi_4", "t4")).await.json();
    assert_eq!((paid["state"].as_str(), paid["charge_balance"].as_i64()), (Some("paid"), Some(0)));
    assert_eq!(debt(&till, &app).await, Value::Null);
    till.assert_audit_clean().await;
}

/// Rules 19.5.8 and 19.5.9: a refund that comes before its payment waits for it, and is carried out in the transaction
/// of the credit. One that does not fit is refused, and an event tells of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_refund_before_its_payment_waits_for_it() {
    let till = TestTill::start().await;
    let app = app(&till).await;
    let (admin, caller) = (Caller::admin(&till).await, Caller::new(&till, "payments", Role::Payments).await);
    let waiting = refund(&admin, "pi_1", &asked("re_1", 300, "refuse")).await;
    let answer = json!({
        "state": "waiting", "amount": 300, "open_id": null, "free_taken": null, "charge_taken": null, "free_debt": null,
        "charge_debt": null, "free_balance": null, "charge_balance": null, "replayed": false,
    });
    assert_answer(&waiting, 202, &answer);
    assert_eq!(refund(&admin, "pi_1", &asked("re_1", 300, "refuse")).await.json()["replayed"], true);
    assert_eq!(refund(&admin, "pi_1", &asked("re_2", 301, "refuse")).await.status, 202);
    assert_eq!(refund(&admin, "pi_1", &asked("re_3", 300, "refuse")).await.status, 202);
    assert_eq!(till.number("SELECT count(*) FROM topup_payments").await, 0, "nobody has told of a payment");
    till.assert_audit_clean().await;
    // re_1 and re_3 fit, re_2 between them does not.
    let paid = tell(&caller, &direct("pi_1")).await.json();
    assert_eq!((paid["state"].as_str(), paid["charge_balance"].as_i64()), (Some("paid"), Some(100)));
    assert_eq!(till.purses(&app, "o1").await, (40, 100, 4));
    let states = admin.get("/apps/a1/topups/stripe/pi_1").await.json();
    let states: Vec<&str> = states["refunds"]
        .as_array()
        .unwrap()
        .iter()
        .map(|refund| refund["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["refunded", "refused", "refunded"]);
    let refused = refund(&admin, "pi_1", &asked("re_2", 301, "refuse")).await;
    assert_eq!((refused.status, refused.json()["state"].as_str()), (200, Some("refused")));
    assert_eq!(refund(&admin, "pi_1", &asked("re_1", 300, "refuse")).await.json()["charge_taken"], 30);
    let told = json!({"provider": "stripe", "provider_order_id": "pi_1", "refund_id": "re_2", "amount": 301});
    assert_eq!(events(&till, &admin, "topup.refund_refused").await, [told]);
    assert_eq!(events(&till, &admin, "topup.refunded").await.len(), 2);
    // Each is in the log when it came and at its end, by its reporter (rule 19.5.11).
    let logged = |state: &str, amount: i64, coins: [Option<i64>; 2]| {
        let [free, charge] = coins.map(|coins| json!(coins));
        json!([state, amount, free, charge, "note r", "api_key backend"])
    };
    let none = [None, None];
    let lines = [
        logged("waiting", 300, none),
        logged("waiting", 301, none),
        logged("waiting", 300, none),
        logged("refunded", 300, [Some(3), Some(30)]),
        logged("refused", 301, none),
        logged("refunded", 300, [Some(3), Some(30)]),
    ];
    assert_eq!(refund_lines(&till), json!(lines));
    till.assert_audit_clean().await;
}

/// Lines of refunds in the operator's log: state, money, coins, note and who.
fn refund_lines(till: &TestTill) -> Value {
    let lines = Program::on(&till.database_url).json(&["operator-log", "--limit", "100"])["lines"].clone();
    let refunds = lines.as_array().unwrap().iter().filter(|line| line["action"] == "topup.refund");
    let line = |line: &Value| {
        let [note, kind, name] =
            ["note", "operator_kind", "operator"].map(|field| line[field].as_str().unwrap());
        let after = &line["after"];
        json!([
            after["state"],
            after["amount"],
            after["free"],
            after["charge"],
            format!("note {note}"),
            format!("{kind} {name}")
        ])
    };
    json!(refunds.map(line).collect::<Vec<_>>())
}

/// A provider that tells running sums: each raises the refunds to its sum, a smaller one changes nothing, also before the
/// payment.
#[tokio::test(flavor = "multi_thread")]
async fn a_running_sum_raises_what_was_refunded() {
    let till = TestTill::start().await;
    let app = app(&till).await;
    let caller = Caller::new(&till, "payments", Role::Payments).await;
    let sum = async |sum: i64| {
        let key = RefundKey {
            payment: PaymentKey::of_text("stripe/pi_1").unwrap(),
            refund_id: RefundId::parse(&format!("sum {sum}")).unwrap(),
        };
        let reason = Reason::parse("r").unwrap();
        let refund = NewRefund {
            key,
            amount: RefundAmount::SumOf(sum),
            reason,
            shortfall: Shortfall::Record,
            excess: Excess::Refuse,
        };
        let report = till.store.refund_payment(&operator(), &app.id, refund).await.unwrap();
        (report.state, report.amount)
    };
    assert_eq!(sum(300).await, (RefundState::Waiting, 300));
    assert_eq!(sum(200).await, (RefundState::Unchanged, 0));
    assert_eq!(till.number("SELECT count(*) FROM topup_payments").await, 0);
    assert_eq!(tell(&caller, &direct("pi_1")).await.json()["state"], "paid");
    assert_eq!(sum(200).await, (RefundState::Unchanged, 0));
    assert_eq!(sum(600).await, (RefundState::Refunded, 300));
    assert_eq!(sum(600).await, (RefundState::Refunded, 300));
    assert_eq!(till.purses(&app, "o1").await, (40, 100, 4));
    till.assert_audit_clean().await;
}

/// Rule 19.5.9: a refund of an unmatched payment lowers what can be settled; one of a payment whose money went back takes
/// nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_refund_of_an_unmatched_payment_waits_for_its_settlement() {
    let till = TestTill::start().await;
    let app = app(&till).await;
    let (admin, caller) = (Caller::admin(&till).await, Caller::new(&till, "payments", Role::Payments).await);
    for id in ["pi_1", "pi_2"] {
        assert_eq!(tell(&caller, &payment(id, "nobodys")).await.status, 202);
        assert_eq!(refund(&admin, id, &asked("re_1", 200, "refuse")).await.status, 202);
        let more = refund(&admin, id, &asked("re_2", 401, "refuse")).await;
        assert_eq!(more.status, 409, "{}", more.body);
    }
    let body = json!({"action": "credit", "reason": "r", "open_id": "o1", "product_id": "gems60"});
    let settled = admin.post("/apps/a1/topups/stripe/pi_1/settlement", "k1", body).await;
    assert_eq!((settled.status, settled.json()["charge"].as_i64()), (200, Some(60)), "{}", settled.body);
    // The purses of the answer are those that are there.
    let purses = (settled.json()["free_balance"].clone(), settled.json()["charge_balance"].clone());
    assert_eq!(purses, (json!(44), json!(140)));
    let again = json!({"action": "credit", "reason": "r", "open_id": "o1", "product_id": "gems60"});
    let again = admin.post("/apps/a1/topups/stripe/pi_1/settlement", "k1", again).await;
    assert_eq!(again.json(), settled.json());
    assert_eq!(till.purses(&app, "o1").await, (44, 140, 3));
    let body = json!({"action": "paid_back", "reason": "r"});
    assert_eq!(admin.post("/apps/a1/topups/stripe/pi_2/settlement", "k2", body).await.status, 200);
    let again = refund(&admin, "pi_2", &asked("re_1", 200, "refuse")).await.json();
    assert_eq!((again["state"].as_str(), &again["charge_taken"]), (Some("refunded"), &Value::Null));
    let late = refund(&admin, "pi_2", &asked("re_3", 400, "refuse")).await;
    assert_eq!((late.status, late.json()["state"].as_str()), (200, Some("refunded")));
    assert_eq!(till.purses(&app, "o1").await, (44, 140, 3));
    let states = refund_lines(&till);
    let states: Vec<_> = states.as_array().unwrap().iter().map(|line| line[0].clone()).collect();
    assert_eq!(json!(states), json!(["waiting", "waiting", "refunded", "refunded", "refunded"]));
    till.assert_audit_clean().await;
}

/// Rules 13.6 and 13.7.5: a payment that names only an order of the player, and was credited to nobody, is the player's. One
/// that was credited to another player is that player's.
#[tokio::test(flavor = "multi_thread")]
async fn payments_that_name_only_an_order_are_exported_and_erased() {
    let till = TestTill::start().await;
    let (_, admin, caller) = paid(&till).await;
    let again = |id: &str| {
        let mut again = payment(id, "t1");
        again["note"] = "Ada, 555-0199".into();
        again
    };
    for id in ["pi_2", "pi_3"] {
        assert_eq!(tell(&caller, &again(id)).await.json()["reason"], "order_paid");
    }
    let body = json!({"refund_id": "re_1", "amount": 200, "reason": "Ada, 555-0199", "shortfall": "refuse"});
    assert_eq!(refund(&admin, "pi_2", &body).await.status, 202);
    let body =
        json!({"action": "credit", "reason": "Ben, 555-0100", "open_id": "o2", "product_id": "gems60"});
    let settled = admin.post("/apps/a1/topups/stripe/pi_3/settlement", "k1", body).await;
    assert_eq!(settled.status, 200, "{}", settled.body);
    let (program, folder) = (Program::on(&till.database_url), Folder::new("refunds-of-orders"));
    std::fs::create_dir_all(folder.path()).unwrap();
    let exported = program.json(&["player", "export", "a1", "o1", "--out", &folder.file("o1.zip")]);
    let rows = &exported["rows"];
    assert_eq!((&rows["topup_payments"], &rows["topup_refunds"]), (&json!(2), &json!(1)), "{exported}");
    let erased = program.json(&["player", "erase", "a1", "o1", "--yes"]);
    let rows = &erased["rows"];
    assert_eq!((&rows["topup_payments"], &rows["topup_refunds"]), (&json!(2), &json!(1)), "{erased}");
    for (with_text, rows) in [
        ("topup_payments WHERE note <> ''", 1),
        ("topup_payments WHERE note <> '' AND provider_order_id = 'pi_3'", 1),
        ("topup_refunds WHERE reason <> ''", 0),
        ("operator_log WHERE strpos(note, 'Ada') > 0", 0),
        ("operator_log WHERE strpos(note, 'Ben') > 0", 1),
    ] {
        assert_eq!(till.number(&format!("SELECT count(*) FROM {with_text}")).await, rows, "{with_text}");
    }
    let told = tell(&caller, &again("pi_2")).await;
    assert_eq!((told.status, &told.json()["replayed"]), (202, &json!(true)), "{}", told.body);
    till.assert_audit_clean().await;
}

/// Rules 19.5.3 and 19.5.9: of the refunds that came before a payment whose money is paid back, those that would exceed it are
/// refused.
#[tokio::test(flavor = "multi_thread")]
async fn refunds_that_waited_never_exceed_what_was_paid_back() {
    let till = TestTill::start().await;
    let app = app(&till).await;
    let (admin, caller) = (Caller::admin(&till).await, Caller::new(&till, "payments", Role::Payments).await);
    for (refund_id, amount) in [("re_1", 700), ("re_2", 200), ("re_3", 401), ("re_4", 400)] {
        assert_eq!(refund(&admin, "pi_1", &asked(refund_id, amount, "record")).await.status, 202);
    }
    assert_eq!(tell(&caller, &payment("pi_1", "nobodys")).await.status, 202);
    // Which of them fit is not known yet.
    till.assert_audit_clean().await;
    let body = json!({"action": "paid_back", "reason": "r"});
    assert_eq!(admin.post("/apps/a1/topups/stripe/pi_1/settlement", "k1", body).await.status, 200);
    let shown = admin.get("/apps/a1/topups/stripe/pi_1").await.json();
    let states: Vec<_> = shown["refunds"].as_array().unwrap().iter().map(|one| &one["state"]).collect();
    assert_eq!(states, ["refused", "refunded", "refused", "refunded"]);
    let told = events(&till, &admin, "topup.refund_refused").await;
    let mut told: Vec<_> = told.iter().map(|event| event["refund_id"].as_str().unwrap()).collect();
    // Events of one transaction have no order.
    told.sort_unstable();
    assert_eq!(told, ["re_1", "re_3"]);
    assert_eq!(till.purses(&app, "o1").await, (40, 100, 1));
    till.assert_audit_clean().await;
}

/// Rule 19.3.6: what a settlement credits counts for the limit of one person, though the player's debt takes all of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_settlement_into_debt_counts_for_the_limit_of_one_person() {
    let till = TestTill::start_with(|config| config.console.second_person_above = 100).await;
    let (app, admin, caller) = paid(&till).await;
    assert_eq!(Game::new(&app, "o1", "b1", 206).send(&till).await.code(), 1);
    let owed = RefundKey {
        payment: PaymentKey::of_text("stripe/pi_1").unwrap(),
        refund_id: RefundId::parse("re_1").unwrap(),
    };
    let owed = NewRefund {
        key: owed,
        amount: RefundAmount::Of(600),
        reason: Reason::parse("r").unwrap(),
        shortfall: Shortfall::Record,
        excess: Excess::Refuse,
    };
    till.store.refund_payment(&operator(), &app.id, owed).await.unwrap();
    assert_eq!(debt(&till, &app).await, json!({"free": 6, "charge": 60}));
    let settle = async |id: &str, key: &str| {
        assert_eq!(tell(&caller, &payment(id, "nobodys")).await.status, 202);
        let body = json!({"action": "credit", "reason": "r", "open_id": "o1", "product_id": "gems60"});
        admin.post(&format!("/apps/a1/topups/stripe/{id}/settlement"), key, body).await
    };
    assert_eq!(settle("pi_2", "k1").await.status, 200);
    assert_eq!((till.purses(&app, "o1").await.1, debt(&till, &app).await), (0, Value::Null));
    assert_eq!(settle("pi_3", "k2").await.status, 403, "66 of 100 are used");
    till.assert_audit_clean().await;
}

/// Rule 8.6.40: what two people agreed to exempts no other change that has the same text as its ref.
#[tokio::test(flavor = "multi_thread")]
async fn a_confirmed_credit_exempts_no_settlement_of_its_ref() {
    let till = TestTill::start_with(|config| config.console.second_person_above = 60).await;
    let app = app(&till).await;
    let (admin, caller) = (Caller::admin(&till).await, Caller::new(&till, "payments", Role::Payments).await);
    assert_eq!(tell(&caller, &payment("pi_1", "nobodys")).await.status, 202);
    let confirmed = "INSERT INTO console_requests (app_id, ref, kind, open_id, free, charge, create_wallet, reason, asked_by,
             state, ended_by, ended_at)
         VALUES ('a1', 'stripe/pi_1', 'credit', 'o1', 61, 0, false, 'r', 'ann', 'confirmed', 'bob', now())";
    till.execute(confirmed).await;
    let body = json!({"action": "credit", "reason": "r", "open_id": "o1", "product_id": "gems60"});
    let settled = admin.post("/apps/a1/topups/stripe/pi_1/settlement", "k1", body).await;
    assert_eq!(settled.status, 403, "{}", settled.body);
    assert_eq!(till.purses(&app, "o1").await, (40, 100, 1));
}

/// Rule 19.5.2: of copies of a refund at once one takes effect, beside its payment, exchanges and other refunds.
#[tokio::test(flavor = "multi_thread")]
async fn of_refunds_at_once_each_takes_effect_once() {
    let till = TestTill::start().await;
    let (app, admin, caller) = paid(&till).await;
    let (told, of_new) = (direct("pi_2"), asked("re_n", 600, "record"));
    let parts: Vec<Value> = (0..24).map(|place| asked(&format!("re_{}", place % 8), 100, "record")).collect();
    let refunding = parts.iter().map(async |part| refund(&admin, "pi_1", part).await);
    let before = (0..8).map(async |_| refund(&admin, "pi_2", &of_new).await);
    let telling = (0..8).map(async |_| tell(&caller, &told).await);
    let numbers: Vec<String> = (0..24).map(|place| format!("b{place}")).collect();
    let paying = numbers.iter().map(async |number| Game::new(&app, "o1", number, 1).send(&till).await);
    let (parts, before, told, paid) = tokio::join!(
        futures_util::future::join_all(refunding),
        futures_util::future::join_all(before),
        futures_util::future::join_all(telling),
        futures_util::future::join_all(paying),
    );
    assert!(paid.iter().all(|answer| answer.code() == 1));
    assert!(before.iter().chain(&told).all(|answer| answer.status < 300), "{before:?} {told:?}");
    let done = |replayed: bool| parts.iter().filter(|part| part.json()["replayed"] == replayed).count();
    assert_eq!(done(false), 6, "6 of 100 fit into 600");
    assert!(parts.iter().all(|part| part.status == 200 || part.status == 409));
    assert_eq!(till.number("SELECT count(*) FROM ledger_entries WHERE kind = 'refund'").await, 7);
    assert_eq!(till.number("SELECT count(*) FROM topup_refunds WHERE state <> 'refunded'").await, 0);
    let (free, charge, _) = till.purses(&app, "o1").await;
    assert_eq!(free + charge, 140 - 24, "both payments went back");
    till.assert_audit_clean().await;
}

/// Rule 19.5.11: what a refund takes and what becomes debt count for the limit of one person.
#[tokio::test(flavor = "multi_thread")]
async fn a_refund_counts_for_the_limit_of_one_person() {
    let till = TestTill::start_with(|config| config.console.second_person_above = 60).await;
    let (app, admin, caller) = paid(&till).await;
    let refused = refund(&admin, "pi_1", &asked("re_1", 600, "record")).await;
    assert_eq!(refused.status, 403, "{}", refused.body);
    assert!(refused.body.contains("at the command line: minitill topup"), "{}", refused.body);
    assert_eq!(till.purses(&app, "o1").await, (46, 160, 2));
    assert_eq!(refund(&admin, "pi_1", &asked("re_1", 300, "record")).await.status, 200);
    assert_eq!(refund(&admin, "pi_1", &asked("re_2", 300, "record")).await.status, 403);
    // One that waits takes nothing yet. What it takes at its end counts from then on.
    assert_eq!(refund(&admin, "pi_2", &asked("re_3", 200, "record")).await.status, 202);
    assert_eq!(refund(&admin, "pi_1", &asked("re_2", 50, "record")).await.status, 200);
    assert_eq!(tell(&caller, &direct("pi_2")).await.json()["state"], "paid");
    assert_eq!(refund(&admin, "pi_1", &asked("re_4", 50, "record")).await.status, 403);
    till.assert_audit_clean().await;
}

/// Rule 19.5.11: what a refund that waited takes refuses no settlement, though both are of one person.
#[tokio::test(flavor = "multi_thread")]
async fn a_refund_that_waited_refuses_no_settlement() {
    let till = TestTill::start_with(|config| config.console.second_person_above = 70).await;
    let app = app(&till).await;
    let (admin, caller) = (Caller::admin(&till).await, Caller::new(&till, "payments", Role::Payments).await);
    assert_eq!(tell(&caller, &payment("pi_1", "nobodys")).await.status, 202);
    assert_eq!(refund(&admin, "pi_1", &asked("re_1", 600, "record")).await.status, 202);
    let body = json!({"action": "credit", "reason": "r", "open_id": "o1", "product_id": "gems60"});
    let settled = admin.post("/apps/a1/topups/stripe/pi_1/settlement", "k1", body).await;
    assert_eq!(settled.status, 200, "{}", settled.body);
    assert_eq!(till.purses(&app, "o1").await, (40, 100, 3));
    let states = refund_lines(&till);
    assert_eq!((&states[0][0], &states[1][0]), (&json!("waiting"), &json!("refunded")));
    till.assert_audit_clean().await;
}

/// Rules 19.6.1 to 19.6.4: what was used of a top-up, first in, first out, with cancels, debits, credits, refunds and debt.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_used_of_a_top_up_is_derived_from_the_ledger() {
    let till = TestTill::start().await;
    let (app, admin, caller) = paid(&till).await;
    let shown = async |id: &str| {
        let shown = admin.get(&format!("/apps/a1/topups/stripe/{id}/consumption")).await;
        assert_eq!(shown.status, 200, "{}", shown.body);
        let mut shown = shown.json();
        let exchanges = shown["exchanges"].take();
        let exchange =
            |one: &Value| (one["biz_no"].as_str().unwrap().to_owned(), one["coins"].as_i64().unwrap());
        let exchanges: Vec<_> = exchanges.as_array().unwrap().iter().map(exchange).collect();
        let number = |name: &str| shown[name].as_i64().unwrap();
        ([number("charge"), number("used"), number("unused"), number("used_milli")], exchanges)
    };
    // The credit of 100 came first.
    assert_eq!(shown("pi_1").await, ([60, 0, 60, 0], vec![]));
    assert_eq!(Game::new(&app, "o1", "b1", 90).send(&till).await.code(), 1);
    assert_eq!(Game::new(&app, "o1", "b2", 20).send(&till).await.code(), 1);
    assert_eq!(shown("pi_1").await, ([60, 10, 50, 166], vec![("b2".to_owned(), 10)]));
    assert_eq!(tell(&caller, &direct("pi_2")).await.status, 200);
    assert_eq!(Game::new(&app, "o1", "b3", 70).send(&till).await.code(), 1);
    assert_eq!(shown("pi_1").await.0, [60, 60, 0, 1000]);
    assert_eq!(shown("pi_2").await, ([60, 20, 40, 333], vec![("b3".to_owned(), 20)]));
    // What a cancel gives back comes off the end.
    assert_eq!(Game::cancel(&app, "o1", "c1", "b1", 30).send(&till).await.code(), 1);
    assert_eq!(shown("pi_1").await, ([60, 50, 10, 833], vec![("b3".to_owned(), 50)]));
    assert_eq!(shown("pi_2").await, ([60, 0, 60, 0], vec![]));
    // A refund takes from its own lot, so what was spent of it moves to the next one.
    assert_eq!(refund(&admin, "pi_1", &asked("re_1", 600, "refuse")).await.status, 200);
    assert_eq!(shown("pi_1").await, ([60, 0, 0, 0], vec![]));
    assert_eq!(shown("pi_2").await, ([60, 50, 10, 833], vec![("b3".to_owned(), 50)]));
    assert_eq!(till.purses(&app, "o1").await.1, 10);
    // 10 are taken, 50 become debt; the settlement takes away from the lot whose refund made the debt.
    assert_eq!(refund(&admin, "pi_2", &asked("re_2", 600, "record")).await.status, 200);
    assert_eq!(shown("pi_2").await.0, [60, 50, 0, 833]);
    assert_eq!(tell(&caller, &direct("pi_3")).await.status, 200);
    assert_eq!((shown("pi_2").await.0, shown("pi_3").await.0), ([60, 0, 0, 0], [60, 50, 10, 833]));
    assert_eq!(till.purses(&app, "o1").await.1, 10);
    till.assert_audit_clean().await;
    assert_eq!(tell(&caller, &payment("pi_9", "nobodys")).await.status, 202);
    let unmatched = admin.get("/apps/a1/topups/stripe/pi_9/consumption").await;
    let why = "the payment stripe/pi_9 is unmatched, so it has brought no coins";
    assert_problem(&unmatched, 409, "conflict", why);
    assert_eq!(admin.get("/apps/a1/topups/stripe/pi_8/consumption").await.status, 404);
}

/// Damage to refunds and debts, and the name under which the audit finds it.
const DAMAGES: &[(&str, &str)] = &[
    ("DELETE FROM topup_refunds WHERE refund_id = 're_1'", "refund against its payment"),
    ("UPDATE topup_refunds SET amount = 601 WHERE refund_id = 're_2'", "refund against its payment"),
    ("UPDATE topup_refunds SET amount = 100 WHERE refund_id = 're_1'", "refund against its payment"),
    ("UPDATE topup_refunds SET free_taken = 0, free_debt = 1, wallet_free_debt = 1 WHERE refund_id = 're_1'",
        "refund against its payment"),
    ("UPDATE topup_refunds SET charge_balance = 1 WHERE refund_id = 're_1'", "refund against its payment"),
    ("UPDATE topup_refunds SET refund_id = 're_9' WHERE refund_id = 're_1'", "refund against its payment"),
    ("UPDATE topup_refunds SET provider_order_id = 'pi_2' WHERE refund_id = 're_1'", "refund against its payment"),
    ("UPDATE topup_refunds SET seq = 99 WHERE refund_id = 're_1'", "refund against its payment"),
    ("UPDATE topup_refunds SET refunded_at = refunded_at + interval '1 second'", "refund against its payment"),
    (
        "INSERT INTO topup_refunds (app_no, provider, provider_order_id, refund_id, amount, state, reason, told_by, created_at)
         SELECT app_no, provider, 'pi_2', 're_8', 1, 'waiting', '', '', created_at FROM topup_refunds WHERE refund_id = 're_1'",
        "refund against its payment",
    ),
    ("UPDATE ledger_entries SET reference = '%stripe/pi_1/re_7' WHERE reference = '%stripe/pi_1/re_1'",
        "refund against its payment"),
    ("UPDATE ledger_entries SET kind = 'debit' WHERE reference = '%stripe/pi_1/re_1'", "change does not fit its kind"),
    ("UPDATE ledger_entries SET kind = 'refund' WHERE reference = '&stripe/pi_2'", "change does not fit its kind"),
    ("UPDATE topup_refunds SET charge_owed = 0 WHERE refund_id = 're_2'", "debt of a wallet"),
    ("UPDATE topup_refunds SET charge_owed = charge_debt WHERE refund_id = 're_2'", "debt of a wallet"),
    ("UPDATE topup_refunds SET wallet_charge_debt = wallet_charge_debt + 1 WHERE refund_id = 're_2'", "debt of a wallet"),
    ("UPDATE topup_settlements SET wallet_charge_debt = 7", "debt of a wallet"),
    ("DELETE FROM topup_settlements", "settlement against its top-up"),
    ("UPDATE topup_settlements SET charge_settled = charge_settled - 1, wallet_charge_debt = wallet_charge_debt + 1",
        "settlement against its top-up"),
    ("UPDATE topup_settlements SET provider_order_id = 'pi_1'", "settlement against its top-up"),
    ("UPDATE topup_settlements SET seq = seq + 1", "settlement against its top-up"),
];

/// Rule 19.5.10: each refund and each settlement has its entry and its share, and debts follow. Seeded corruptions are found
/// under their names, also by an audit from a checkpoint.
#[tokio::test(flavor = "multi_thread")]
async fn the_audit_finds_each_damage_to_refunds_and_debts() {
    let till = TestTill::start().await;
    let (app, admin, caller) = paid(&till).await;
    let folder = Folder::new("refund-checkpoint");
    std::fs::create_dir_all(folder.path()).unwrap();
    let file = folder.file("checkpoint");
    assert!(Program::on(&till.database_url).run(&["audit", "--checkpoint", &file]).status.success());
    assert_eq!(refund(&admin, "pi_1", &asked("re_1", 200, "refuse")).await.status, 200);
    assert_eq!(Game::new(&app, "o1", "b1", 184).send(&till).await.code(), 1);
    assert_eq!(refund(&admin, "pi_1", &asked("re_2", 400, "record")).await.status, 200);
    let mut small = direct("pi_2");
    (small["product_id"], small["amount"]) = ("gems6".into(), 60.into());
    assert_eq!(tell(&caller, &small).await.status, 200);
    till.execute(REHASH).await;
    till.assert_audit_clean().await;
    let tables = ["topup_refunds", "topup_settlements", "ledger_entries"];
    till.execute("CREATE SCHEMA kept").await;
    for table in tables {
        till.execute(&format!("CREATE TABLE kept.{table} AS SELECT * FROM {table}")).await;
    }
    let checkpoint = std::path::Path::new(&file);
    for (damage, check) in DAMAGES {
        till.execute(damage).await;
        for since in [None, Some(checkpoint)] {
            let report = json!(till.audit(since).await);
            assert!(report["kinds"][check].is_u64(), "{damage}: expected {check}, got {report:#}");
        }
        for table in tables {
            let restore = format!("DELETE FROM {table}; INSERT INTO {table} SELECT * FROM kept.{table}");
            till.execute(&restore).await;
        }
    }
    till.assert_audit_clean().await;
}

/// Archive, export and erasure keep what is said of refunds: the replays, the debt, what was used, the audit.
#[tokio::test(flavor = "multi_thread")]
async fn archives_exports_and_erasures_have_refunds_in_them() {
    let till = TestTill::start().await;
    let (app, admin, caller) = paid(&till).await;
    assert_eq!(Game::new(&app, "o1", "b1", 206).send(&till).await.code(), 1);
    let body = json!({"refund_id": "re_1", "amount": 300, "reason": "o1 asked", "shortfall": "record"});
    assert_eq!(refund(&admin, "pi_1", &body).await.status, 200);
    let mut small = direct("pi_2");
    (small["product_id"], small["amount"]) = ("gems6".into(), 60.into());
    assert_eq!(tell(&caller, &small).await.status, 200);
    till.execute(REHASH).await;
    age(&till, 24 * 30).await;
    till.execute(
        "UPDATE topup_payments p SET credited_at = e.at FROM ledger_entries e WHERE p.wallet_no = e.wallet_no AND p.seq = e.seq;
         UPDATE topup_refunds r SET refunded_at = e.at FROM ledger_entries e WHERE r.wallet_no = e.wallet_no AND r.seq = e.seq;
         UPDATE topup_settlements s SET settled_at = e.at FROM ledger_entries e
         WHERE s.wallet_no = e.wallet_no AND s.seq = e.seq",
    )
    .await;
    till.assert_audit_clean().await;
    let program = Program::on(&till.database_url);
    let used = program.json(&["topup", "consumption", "a1", "stripe", "pi_1"]);
    let folder = Folder::new("refunds");
    std::fs::create_dir_all(folder.path()).unwrap();
    program.json(&["archive", "--before", &day(&till).await, "--to", folder.path(), "--yes"]);
    assert_eq!(till.number("SELECT count(*) FROM ledger_entries").await, 0, "all of it left");
    till.assert_audit_clean().await;
    assert_eq!(program.json(&["topup", "consumption", "a1", "stripe", "pi_1"]), used);
    assert_eq!(used["used"], 54, "{used}");
    assert_eq!(debt(&till, &app).await, json!({"free": 3, "charge": 24}));
    assert_eq!(refund(&admin, "pi_1", &body).await.json()["replayed"], true);
    let exported = program.json(&["player", "export", "a1", "o1", "--out", &folder.file("o1.zip")]);
    assert!(exported.to_string().contains("\"topup_refunds\":1"), "{exported}");
    let erased = program.json(&["player", "erase", "a1", "o1", "--yes"]);
    assert_eq!(erased["rows"]["topup_refunds"], 1, "{erased}");
    assert_eq!(till.number("SELECT count(*) FROM topup_refunds WHERE reason <> ''").await, 0);
    let noted = "SELECT count(*) FROM operator_log WHERE action = 'topup.refund' AND note <> ''";
    assert_eq!(till.number(noted).await, 0, "lines about the player's payments have no notes (rule 13.7.5)");
    // What is owed stays owed, and the rest can be refunded.
    let rest = ["--refund-id", "re_2", "--amount", "300", "--reason", "r", "--shortfall", "record"];
    let rest = program.json(&[&["topup", "refund", "a1", "stripe", "pi_1"][..], &rest].concat());
    assert_eq!((rest["charge_debt"].as_i64(), rest["charge_taken"].as_i64()), (Some(30), Some(0)), "{rest}");
    till.assert_audit_clean().await;
}
