//! Top-ups: prices, orders, and payments that are credited once (contract 19).

use domain::app::Scope;
use domain::console_user::Role;
use domain::ids::OpenId;
use domain::operation::app::AppCommand;
use domain::operation::topup::SetPrices;
use domain::operator::{Operator, OperatorKind};
use domain::topup::{
    Currency, Payment, PaymentKey, PaymentProvider, PaymentState, PaymentTarget, Price, PriceName,
    PricedProductId, ProviderOrderId,
};
use serde_json::{Value, json};
use time::OffsetDateTime;

use crate::admin::{Caller, assert_answer, assert_problem};
use crate::archive::{Folder, age, day};
use crate::audit::REHASH;
use crate::game::Game;
use crate::support::program::Program;
use crate::support::{Answer, AppKind, NOW, TestApp, TestTill, operator};

const PATH: &str = "/apps/a1/topups";

fn price(product_id: &str, amount: i64, charge: i64, bonus: i64) -> Price {
    Price {
        product_id: PricedProductId::parse(product_id).unwrap(),
        currency: Currency::parse("CNY").unwrap(),
        amount,
        charge,
        bonus,
        name: PriceName::parse("60 gems").unwrap(),
        active: product_id != "old",
    }
}

async fn set(till: &TestTill, app: &TestApp, prices: Vec<Price>) {
    till.store.set_prices(&operator(), &app.id, SetPrices { prices }).await.unwrap();
}

/// The prices of the examples.
pub(crate) async fn sell(till: &TestTill, app: &TestApp) {
    set(till, app, vec![price("gems60", 600, 60, 6)]).await;
}

/// Products, each with money, charged and gifted coins.
pub(crate) async fn sell_all(till: &TestTill, app: &TestApp, products: &[(&str, i64, i64, i64)]) {
    let prices = products.iter().map(|(name, amount, charge, bonus)| price(name, *amount, *charge, *bonus));
    set(till, app, prices.collect()).await;
}

/// A payment of an order that nobody made.
pub(crate) async fn keep_unmatched(till: &TestTill, app: &TestApp, provider: &str, id: &str) {
    let payment = Payment {
        key: PaymentKey {
            provider: PaymentProvider::parse(provider).unwrap(),
            provider_order_id: ProviderOrderId::stored(id).unwrap(),
        },
        currency: Currency::parse("CNY").unwrap(),
        amount: 600,
        target: PaymentTarget::of(Some(domain::ids::BizNo::parse("nobodys").unwrap()), None, None).unwrap(),
        paid_at: OffsetDateTime::UNIX_EPOCH,
        os: None,
        fee: None,
        note: String::new(),
    };
    let reporter = Operator::new(OperatorKind::ApiKey, "payments").unwrap();
    let report = till.store.take_payment(&reporter, &app.id, payment).await.unwrap();
    assert_eq!(report.state, PaymentState::Unmatched);
}

/// An app with prices and two players, one of whom has coins.
pub(crate) async fn app(till: &TestTill) -> TestApp {
    let app = till.app_like("a1", AppKind { scopes: &Scope::ALL, ..AppKind::default() }).await;
    till.player(&app, "o1", 40, 100).await;
    let players = vec![OpenId::parse("o2").unwrap()];
    till.command(&app, AppCommand::AddUsers(players)).await;
    let prices = vec![price("gems60", 600, 60, 6), price("gems6", 60, 6, 0), price("old", 60, 6, 0)];
    set(till, &app, prices).await;
    app
}

pub(crate) fn payment(id: &str, biz_no: &str) -> Value {
    json!({
        "provider": "stripe", "provider_order_id": id, "currency": "CNY", "amount": 600,
        "paid_at": "2026-11-21T08:00:00Z", "biz_no": biz_no,
    })
}

pub(crate) async fn tell(caller: &Caller<'_>, payment: &Value) -> Answer {
    caller.send("POST", PATH, None, payment).await
}

pub(crate) async fn order(till: &TestTill, app: &TestApp, biz_no: &str) {
    let ordered = Game::topup(app, "o1", biz_no, "gems60").send(till).await;
    assert_eq!(ordered.code(), 1, "{}", ordered.body);
}

async fn created_at(till: &TestTill, biz_no: &str) -> i64 {
    let at = "SELECT floor(extract(epoch FROM at) * 1000)::bigint FROM ledger_entries WHERE reference = ";
    till.number(&format!("{at}'{biz_no}'")).await
}

/// Rule 19.2.1 to 19.2.5: an order shows the figures of the price list, moves no coins, keeps its figures and is
/// replayed. It shares the numbers of all calls.
#[tokio::test(flavor = "multi_thread")]
async fn an_order_fixes_the_price_and_moves_no_coins() {
    let till = TestTill::start().await;
    let app = app(&till).await;
    let first = Game::topup(&app, "o1", "t1", "gems60").send(&till).await;
    let created = created_at(&till, "t1").await;
    let body = format!(
        r#"{{"code":1,"msg":"SUCCESS","data":{{"bizNo":"t1","productId":"gems60","currency":"CNY","amount":600,"charge":60,"bonus":6,"expireTime":{},"status":"created"}}}}"#,
        created + 7_200_000
    );
    first.assert_body(&body);
    assert_eq!(till.purses(&app, "o1").await, (40, 100, 1), "an order moves no coins and is no entry");

    // Another price later: the order keeps its own, and a new one has the new.
    set(&till, &app, vec![price("gems60", 900, 61, 0), price("gems6", 60, 6, 0)]).await;
    let again = Game::topup(&app, "o1", "t1", "gems60").with("os", "ios").send(&till).await;
    assert_eq!((again.body.as_str(), again.header("idempotent-replayed")), (body.as_str(), Some("true")));
    let next = Game::topup(&app, "o1", "t2", "gems60").send(&till).await;
    assert_eq!(
        (next.json()["data"]["amount"].as_i64(), next.json()["data"]["charge"].as_i64()),
        (Some(900), Some(61))
    );

    let used = "biz_no: t1 was used for other content; a new request needs a new number, and is carried out again: ask with a query first";
    for other in [
        Game::topup(&app, "o1", "t1", "gems6"),
        Game::topup(&app, "o2", "t1", "gems60"),
        Game::topup(&app, "o1", "t1", "gems60").with("zone_id", "z2_r1"),
        Game::topup(&app, "o1", "t1", "gems60").with("product_desc", "other"),
        Game::topup(&app, "o1", "t1", "gems60").with("extension", "x"),
        Game::new(&app, "o1", "t1", 1),
        Game::present(&app, "o1", "t1", 1),
    ] {
        other.send(&till).await.assert_refused(10_000_602, used);
    }
    let exchange = Game::new(&app, "o1", "b1", 10).send(&till).await;
    assert_eq!(exchange.code(), 1, "{}", exchange.body);
    let used = "biz_no: b1 was used for other content; a new request needs a new number, and is carried out again: ask with a query first";
    Game::topup(&app, "o1", "b1", "gems60").send(&till).await.assert_refused(10_000_602, used);
    let none = "pay_biz_no: this player has no exchange t1; expected the biz_no of one that was paid";
    Game::cancel(&app, "o1", "c1", "t1", 1).send(&till).await.assert_refused(10_000_606, none);

    // What is not for sale keeps no number, and neither does what can be no product.
    for product in ["nothing", "old"] {
        let refused = Game::topup(&app, "o1", "t3", product).send(&till).await;
        refused.assert_refused(
            10_000_610,
            &format!(
                "product_id: the app does not sell {product}; the operator adds it with `minitill price set`"
            ),
        );
    }
    let malformed = Game::topup(&app, "o1", "t3", "a b").send(&till).await;
    malformed.assert_refused(10_000_200, "product_id: expected 1 to 64 of 0-9A-Za-z._-, got \"a b\"");
    assert_eq!(Game::topup(&app, "o1", "t3", "gems6").send(&till).await.code(), 1);
    // A frozen wallet takes orders.
    till.execute("UPDATE wallets SET frozen_until = 'infinity'").await;
    assert_eq!(Game::topup(&app, "o1", "t4", "gems6").send(&till).await.code(), 1);
    till.execute("UPDATE wallets SET frozen_until = NULL").await;
    till.assert_audit_clean().await;
    // 48 hours later each repeat is refused.
    till.execute("UPDATE ledger_entries SET at = at - interval '48 hours' WHERE reference = 't1'").await;
    let expired = "biz_no: t1 was used more than 48 hours ago; a new request needs a new number, and is carried out again: ask with a query first";
    Game::topup(&app, "o1", "t1", "gems60").send(&till).await.assert_refused(10_000_603, expired);
}

/// Rule 19.2.6 and 19.2.7: a query tells what became of an order, and `close=1` closes a number for orders too.
#[tokio::test(flavor = "multi_thread")]
async fn a_query_tells_what_became_of_an_order() {
    let till = TestTill::start().await;
    let app = app(&till).await;
    let caller = Caller::new(&till, "payments", Role::Payments).await;
    order(&till, &app, "t1").await;
    let shown = async || Game::query(&app, "o1", "t1").send(&till).await.json()["data"].clone();
    let mut data = shown().await;
    let created = created_at(&till, "t1").await;
    // The clock of the test's server stands still, and that of the database does not.
    let is_expired = NOW >= created + 7_200_000;
    assert_eq!(data["status"], if is_expired { "expired" } else { "created" });
    data["status"] = "created".into();
    let expected = json!({
        "bizNo": "t1", "kind": "topup", "status": "created", "createTime": created, "productId": "gems60",
        "currency": "CNY", "amount": 600, "charge": 60, "bonus": 6, "expireTime": created + 7_200_000,
    });
    assert_eq!(data, expected);
    till.execute(&format!(
        "UPDATE ledger_entries SET at = timestamptz 'epoch' + interval '1 millisecond' * ({NOW} - 7200000) WHERE reference = 't1'"
    ))
    .await;
    assert_eq!(shown().await["status"], "expired");
    till.execute(&format!(
        "UPDATE ledger_entries SET at = timestamptz 'epoch' + interval '1 millisecond' * ({NOW} - 7199999) WHERE reference = 't1'"
    ))
    .await;
    assert_eq!(shown().await["status"], "created");
    till.execute(&format!(
        "UPDATE ledger_entries SET at = timestamptz 'epoch' + interval '1 millisecond' * ({NOW} - 9999999) WHERE reference = 't1'"
    ))
    .await;
    // It is paid all the same when the money comes later.
    assert_eq!(tell(&caller, &payment("pi_1", "t1")).await.status, 200);
    let paid = shown().await;
    let at =
        till.number("SELECT floor(extract(epoch FROM credited_at) * 1000)::bigint FROM topup_payments").await;
    assert_eq!((paid["status"].as_str(), paid["paidTime"].as_i64()), (Some("paid"), Some(at)));
    assert_eq!(Game::query(&app, "o2", "t1").send(&till).await.code(), 10_000_606);

    assert_eq!(Game::query(&app, "o1", "t2").with("close", 1).send(&till).await.code(), 1);
    let closed = "biz_no: t2 was closed by a query; a new request needs a new number";
    Game::topup(&app, "o1", "t2", "gems60").send(&till).await.assert_refused(10_000_608, closed);
    let unscoped = till.app("a2").await;
    till.player(&unscoped, "o1", 1, 1).await;
    let lacks =
        "app_id: the app lacks the scope topup; to give it, run: minitill app change a2 --add-scope topup";
    Game::topup(&unscoped, "o1", "t1", "gems60").send(&till).await.assert_refused(100_200_102, lacks);
}

/// Rule 19.3.1 to 19.3.3: a payment is credited once, in one entry with its event, and a repeat is told the same for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_payment_is_credited_once_for_its_pair() {
    let till = TestTill::start().await;
    let app = app(&till).await;
    let caller = Caller::new(&till, "payments", Role::Payments).await;
    order(&till, &app, "t1").await;
    let told = payment("pi 1/a", "t1");
    let first = tell(&caller, &told).await;
    let mut answer = json!({
        "state": "paid", "reason": null, "biz_no": "t1", "open_id": "o1", "charge": 60, "bonus": 6, "free_balance": 46,
        "charge_balance": 160, "replayed": false,
    });
    assert_answer(&first, 200, &answer);
    assert_eq!(till.purses(&app, "o1").await, (46, 160, 2));
    assert_eq!(Game::new(&app, "o1", "b1", 10).send(&till).await.code(), 1);
    answer["replayed"] = true.into();
    let mut more = told.clone();
    for (name, value) in [
        ("open_id", json!("o1")),
        ("product_id", json!("gems60")),
        ("os", json!("ios")),
        ("fee", json!(18)),
        ("note", json!("a note")),
        ("paid_at", json!("2026-11-21T09:00:00Z")),
    ] {
        more[name] = value;
    }
    for same in [&told, &more] {
        assert_answer(&tell(&caller, same).await, 200, &answer);
    }
    for (name, value) in [
        ("amount", json!(601)),
        ("currency", json!("USD")),
        ("biz_no", json!("t9")),
        ("open_id", json!("o2")),
        ("product_id", json!("gems6")),
    ] {
        let mut other = more.clone();
        other[name] = value.clone();
        // The row has neither player nor product, so they are compared with the order when it is matched, not here.
        let answer = tell(&caller, &other).await;
        if ["open_id", "product_id"].contains(&name) {
            assert_eq!(answer.status, 200, "{}", answer.body);
        } else {
            let differs = format!("the payment stripe/pi 1/a was told of with another {name}");
            assert_problem(&answer, 409, "conflict", &differs);
        }
    }
    assert_eq!(till.purses(&app, "o1").await.1, 150, "60 once, and 10 taken");

    // Without an order: the player and the price.
    let mut direct = payment("pi_2", "");
    direct.as_object_mut().unwrap().remove("biz_no");
    let neither = tell(&caller, &direct).await;
    assert_problem(&neither, 422, "invalid-field", "wrong: biz_no");
    (direct["open_id"], direct["product_id"]) = ("o2".into(), "gems60".into());
    let paid = tell(&caller, &direct).await;
    assert_eq!((paid.status, &paid.json()["charge_balance"]), (200, &json!(60)));
    assert_eq!(till.purses(&app, "o2").await, (6, 60, 1));

    till.store.number_events(None).await.unwrap();
    let events = Caller::admin(&till).await.get("/events?type=topup.paid").await.json();
    let data: Vec<&Value> = events["items"].as_array().unwrap().iter().map(|event| &event["data"]).collect();
    let expected = json!({
        "open_id": "o1", "seq": 2, "provider": "stripe", "provider_order_id": "pi 1/a", "biz_no": "t1",
        "product_id": "gems60", "currency": "CNY", "amount": 600, "free_change": 6, "charge_change": 60,
        "free_balance": 46, "charge_balance": 160,
    });
    assert_eq!((data.len(), data[0], &data[1]["biz_no"]), (2, &expected, &Value::Null));
    let shown = caller.get("/apps/a1/topups/stripe/pi%201%2Fa").await;
    assert_eq!((shown.status, shown.json()["seq"].as_i64()), (200, Some(2)), "{}", shown.body);
    till.assert_audit_clean().await;
}

/// Rule 19.3.1: a zero time and a far future are refused, a time a day ahead is taken, and UTC stands for an offset.
#[tokio::test(flavor = "multi_thread")]
async fn a_payment_of_no_possible_time_is_refused() {
    let till = TestTill::start().await;
    app(&till).await;
    let caller = Caller::new(&till, "payments", Role::Payments).await;
    let at = |paid_at: &str| {
        let mut told = payment("pi_1", "t1");
        told["paid_at"] = paid_at.into();
        told
    };
    for (paid_at, shown) in [
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
        ("2027-01-16T08:00:01", "2027-01-16T08:00:01Z"),
        ("2099-01-01T00:00:00+08:00", "2098-12-31T16:00:00Z"),
    ] {
        let refused = tell(&caller, &at(paid_at)).await;
        assert_problem(&refused, 422, "invalid-field", "wrong: paid_at");
        let detail =
            format!("expected a time from 2000-01-01 on and at most a day ahead of now, got \"{shown}\"");
        assert_eq!(refused.json()["errors"], json!([{"field": "paid_at", "detail": detail}]));
    }
    assert_eq!(till.number("SELECT count(*) FROM topup_payments").await, 0);
    assert_eq!(tell(&caller, &at("2027-01-16T08:00:00")).await.status, 202);
    let shown = caller.get("/apps/a1/topups/stripe/pi_1").await.json();
    assert_eq!(shown["paid_at"], "2027-01-16T08:00:00Z");
}

/// Rule 19.3.1: a blank around an id makes no other payment. One that was kept with it can be read.
#[tokio::test(flavor = "multi_thread")]
async fn a_payment_with_a_blank_around_its_id_is_refused_and_an_old_one_is_read() {
    let till = TestTill::start().await;
    let app = app(&till).await;
    let caller = Caller::new(&till, "payments", Role::Payments).await;
    for id in [" w1", "w1 "] {
        let refused = tell(&caller, &payment(id, "t1")).await;
        assert_problem(&refused, 422, "invalid-field", "wrong: provider_order_id");
        let detail = format!("expected no blank or unseen character around it, got {id:?}");
        assert_eq!(refused.json()["errors"], json!([{"field": "provider_order_id", "detail": detail}]));
    }
    assert_eq!(till.number("SELECT count(*) FROM topup_payments").await, 0);
    keep_unmatched(&till, &app, "stripe", " w1").await;
    let shown = caller.get("/apps/a1/topups/stripe/%20w1").await;
    assert_eq!((shown.status, shown.json()["provider_order_id"].clone()), (200, json!(" w1")));
    let listed = caller.get(PATH).await.json();
    assert_eq!(listed["items"][0]["provider_order_id"], " w1");
}

/// Rule 19.3.4 and 19.3.5: what differs is kept with its reason, answered 202, told by an event, and credited to nobody.
#[tokio::test(flavor = "multi_thread")]
async fn a_payment_that_fits_nothing_is_kept_and_credits_nobody() {
    let till = TestTill::start().await;
    let app = app(&till).await;
    let caller = Caller::new(&till, "payments", Role::Payments).await;
    order(&till, &app, "t1").await;
    order(&till, &app, "t2").await;
    assert_eq!(tell(&caller, &payment("pi_paid", "t1")).await.status, 200);
    let with = |biz_no: &str, changes: Value| {
        let mut told = payment("pi_x", biz_no);
        for (name, value) in changes.as_object().unwrap() {
            told[name] = value.clone();
        }
        if biz_no.is_empty() {
            told.as_object_mut().unwrap().remove("biz_no");
        }
        told
    };
    let cases = [
        (with("t9", json!({})), "unknown_order"),
        (with("t1", json!({})), "order_paid"),
        (with("t2", json!({"open_id": "o2"})), "other_player"),
        (with("t2", json!({"product_id": "gems6"})), "other_product"),
        (with("t2", json!({"currency": "USD"})), "other_currency"),
        (with("t2", json!({"amount": 599})), "other_amount"),
        (with("", json!({"open_id": "o9", "product_id": "gems60"})), "unknown_player"),
        (with("", json!({"open_id": "o1", "product_id": "gems61"})), "unknown_product"),
        (with("", json!({"open_id": "o1", "product_id": "old", "amount": 60})), "unknown_product"),
        (with("", json!({"open_id": "o1", "product_id": "gems60", "amount": 60})), "other_amount"),
    ];
    for (place, (mut told, reason)) in cases.into_iter().enumerate() {
        told["provider_order_id"] = format!("pi_{place}").into();
        let field = |name: &str| told.get(name).cloned().unwrap_or(Value::Null);
        let mut answer = json!({
            "state": "unmatched", "reason": reason, "biz_no": field("biz_no"), "open_id": field("open_id"),
            "charge": null, "bonus": null, "free_balance": null, "charge_balance": null, "replayed": false,
        });
        assert_answer(&tell(&caller, &told).await, 202, &answer);
        answer["replayed"] = true.into();
        assert_answer(&tell(&caller, &told).await, 202, &answer);
    }
    assert_eq!(till.purses(&app, "o1").await, (46, 160, 2));
    till.store.number_events(None).await.unwrap();
    let events = Caller::admin(&till).await.get("/events?type=topup.unmatched").await.json();
    let events = events["items"].as_array().unwrap();
    assert_eq!(events.len(), 10);
    let expected = json!({
        "provider": "stripe", "provider_order_id": "pi_2", "biz_no": "t2", "open_id": "o2", "product_id": null,
        "currency": "CNY", "amount": 600, "reason": "other_player",
    });
    assert_eq!(events[2]["data"], expected);
    let waiting = caller.get("/apps/a1/topups?unmatched=true&limit=4").await.json();
    assert_eq!(waiting["items"].as_array().unwrap().len(), 4);
    for kept in waiting["items"].as_array().unwrap() {
        let of_it =
            events.iter().find(|event| event["data"]["provider_order_id"] == kept["provider_order_id"]);
        assert_eq!(of_it.unwrap()["timestamp"], kept["created_at"], "rule 12.3.7");
    }
    let next = waiting["next"].as_str().unwrap().replace('/', "%2F");
    let rest = caller.get(&format!("/apps/a1/topups?unmatched=true&after={next}")).await.json();
    assert_eq!(rest["items"].as_array().unwrap().len(), 6);
    // A purse that is full keeps the payment too.
    till.execute("UPDATE wallets SET charge_balance = 9223372036854775800 WHERE open_id = 'o1'").await;
    let full = tell(&caller, &payment("pi_full", "t2")).await;
    assert_eq!((full.status, full.json()["reason"].as_str()), (202, Some("purse_full")));
    till.execute("UPDATE wallets SET charge_balance = 160 WHERE open_id = 'o1'").await;
    till.assert_audit_clean().await;
}

/// Rule 19.3.6: an operator settles an unmatched payment once, with a reason; the first answer of the payment stays.
#[tokio::test(flavor = "multi_thread")]
async fn an_unmatched_payment_is_settled_once() {
    let till = TestTill::start_with(|config| config.console.second_person_above = 100).await;
    let app = app(&till).await;
    let (admin, caller) = (Caller::admin(&till).await, Caller::new(&till, "payments", Role::Payments).await);
    order(&till, &app, "t1").await;
    for id in ["1", "2", "3", "4"] {
        keep_unmatched(&till, &app, "p", id).await;
    }
    let settle = async |id: &str, key: &str, body: Value| {
        admin.post(&format!("/apps/a1/topups/p/{id}/settlement"), key, body).await
    };
    let to_order = json!({"action": "credit", "reason": "typed wrong", "biz_no": "t1"});
    let settled = settle("1", "k1", to_order.clone()).await;
    let answer = json!({
        "state": "paid", "biz_no": "t1", "open_id": "o1", "charge": 60, "bonus": 6, "free_balance": 46, "charge_balance": 160,
    });
    assert_answer(&settled, 200, &answer);
    let again = settle("1", "k2", to_order.clone()).await;
    assert_problem(
        &again,
        409,
        "conflict",
        "the payment p/1 is paid, and only an unmatched one can be settled",
    );
    assert_problem(&settle("2", "k3", to_order).await, 409, "conflict", "the order t1 is paid");
    // More than one person moves in a day: 66 of 100 are used.
    let to_player = json!({"action": "credit", "reason": "r", "open_id": "o2", "product_id": "gems60"});
    let refused = settle("2", "k4", to_player.clone()).await;
    let detail = "more than 100 coins in 24 hours need a second person; settle and refund such a payment at the command line: minitill topup";
    assert_problem(&refused, 403, "forbidden", detail);
    assert_eq!(till.purses(&app, "o2").await, (0, 0, 0));
    let to_player = json!({"action": "credit", "reason": "r", "open_id": "o2", "product_id": "old"});
    let settled = settle("2", "k5", to_player).await;
    assert_eq!(
        (settled.status, settled.json()["charge_balance"].as_i64()),
        (200, Some(6)),
        "{}",
        settled.body
    );
    let back = settle("3", "k6", json!({"action": "paid_back", "reason": "r"})).await;
    assert_eq!((back.status, back.json()["state"].as_str()), (200, Some("paid_back")));
    for wrong in [
        json!({"action": "credit", "reason": "r"}),
        json!({"action": "credit", "reason": "r", "open_id": "o1"}),
        json!({"action": "credit", "reason": "r", "open_id": "o1", "product_id": "old", "biz_no": "t1"}),
        json!({"action": "paid_back", "reason": "r", "biz_no": "t1"}),
        json!({"action": "credit", "reason": "r", "open_id": "o1", "product_id": "nothing"}),
        json!({"action": "paid_back"}),
    ] {
        assert_eq!(settle("4", "k7", wrong).await.status, 422);
    }
    assert_eq!(settle("9", "k8", json!({"action": "paid_back", "reason": "r"})).await.status, 404);
    let path = "/apps/a1/topups/p/4/settlement";
    assert_eq!(caller.post(path, "k", json!({"action": "paid_back", "reason": "r"})).await.status, 403);
    let mut told = payment("1", "nobodys");
    told["provider"] = "p".into();
    let first = tell(&caller, &told).await;
    assert_eq!((first.status, first.json()["state"].as_str()), (202, Some("unmatched")), "{}", first.body);
    till.assert_audit_clean().await;
}

/// Rule 19.3.7: the payments of a player are those that credited the player, and those that name the player.
#[tokio::test(flavor = "multi_thread")]
async fn the_payments_of_a_player_are_listed() {
    let till = TestTill::start().await;
    let app = app(&till).await;
    let (admin, caller) = (Caller::admin(&till).await, Caller::new(&till, "payments", Role::Payments).await);
    order(&till, &app, "t1").await;
    assert_eq!(tell(&caller, &payment("pi_1", "t1")).await.status, 200);
    let direct = |id: &str, open_id: &str, product_id: &str| {
        let mut told = payment(id, "");
        told.as_object_mut().unwrap().remove("biz_no");
        (told["open_id"], told["product_id"]) = (open_id.into(), product_id.into());
        told
    };
    assert_eq!(tell(&caller, &direct("pi_2", "o1", "gems60")).await.status, 200);
    assert_eq!(tell(&caller, &direct("pi_3", "o2", "gems60")).await.status, 200);
    // It names o1, and its coins go to o2.
    assert_eq!(tell(&caller, &direct("pi_4", "o1", "unknown")).await.status, 202);
    let body = json!({"action": "credit", "reason": "r", "open_id": "o2", "product_id": "gems60"});
    assert_eq!(admin.post("/apps/a1/topups/stripe/pi_4/settlement", "k1", body).await.status, 200);
    assert_eq!(tell(&caller, &direct("pi_5", "o1", "unknown")).await.status, 202);
    assert_eq!(tell(&caller, &direct("pi_6", "nobody", "gems60")).await.status, 202);
    let listed = async |query: &str| {
        let page = admin.get(&format!("/apps/a1/topups?{query}")).await.json();
        let ids = page["items"].as_array().unwrap().iter();
        let ids: Vec<_> = ids.map(|row| row["provider_order_id"].as_str().unwrap().to_owned()).collect();
        (ids.join(" "), page["next"].as_str().map(str::to_owned))
    };
    assert_eq!(listed("open_id=o1").await.0, "pi_5 pi_4 pi_2 pi_1");
    assert_eq!(listed("open_id=o2").await.0, "pi_4 pi_3");
    assert_eq!(listed("open_id=nobody").await.0, "pi_6");
    assert_eq!(listed("open_id=o1&unmatched=true").await.0, "pi_5");
    let (first, cursor) = listed("open_id=o1&limit=3").await;
    assert_eq!(first, "pi_5 pi_4 pi_2");
    let rest = listed(&format!("open_id=o1&limit=3&after={}", cursor.unwrap())).await;
    assert_eq!(rest, ("pi_1".to_owned(), None));
    assert_eq!(listed("").await.0, "pi_6 pi_5 pi_4 pi_3 pi_2 pi_1");
    // It names an order of o1 alone.
    order(&till, &app, "t2").await;
    let mut less = payment("pi_7", "t2");
    less["amount"] = 500.into();
    assert_eq!(tell(&caller, &less).await.status, 202);
    assert_eq!(listed("open_id=o1&unmatched=true").await.0, "pi_7 pi_5");
}

/// Rule 19.3.1: the same payment from many servers at once is credited once. Of many payments of one order one is
/// credited. Exchanges of the same wallet go on.
#[tokio::test(flavor = "multi_thread")]
async fn of_payments_at_once_each_is_credited_once_and_each_order_is_paid_once() {
    let till = TestTill::start().await;
    let second = TestTill::start_on(till.database_url.clone(), |_| {}).await;
    let app = app(&till).await;
    let caller = Caller::new(&till, "payments", Role::Payments).await;
    let other = Caller::with(&second, caller.key.clone());
    order(&till, &app, "t1").await;
    order(&till, &app, "t2").await;
    let mut direct = payment("pi_direct", "");
    direct.as_object_mut().unwrap().remove("biz_no");
    (direct["open_id"], direct["product_id"]) = ("o1".into(), "gems60".into());
    let told = |place: usize| match place % 3 {
        0 => payment("pi_1", "t1"),
        1 => payment(&format!("pi_of_2_{place}"), "t2"),
        _ => direct.clone(),
    };
    let payments: Vec<Value> = (0..48).map(told).collect();
    let telling = payments
        .iter()
        .enumerate()
        .map(async |(place, told)| tell(if place % 2 == 0 { &caller } else { &other }, told).await);
    let numbers: Vec<String> = (0..24).map(|place| format!("b{place}")).collect();
    let paying = numbers.iter().map(async |number| Game::new(&app, "o1", number, 1).send(&till).await);
    let (told, paid) =
        tokio::join!(futures_util::future::join_all(telling), futures_util::future::join_all(paying));
    assert!(paid.iter().all(|answer| answer.code() == 1));
    let states = |remainder: usize, state: &str| {
        let answers = told.iter().skip(remainder).step_by(3);
        answers.filter(|answer| answer.json()["state"] == state).count()
    };
    assert!(
        told.iter().all(|answer| answer.status < 300),
        "{:?}",
        told.iter().map(|a| &a.body).collect::<Vec<_>>()
    );
    assert_eq!((states(0, "paid"), states(2, "paid")), (16, 16), "a repeat is told of the first");
    assert_eq!((states(1, "paid"), states(1, "unmatched")), (1, 15));
    assert_eq!(till.number("SELECT count(*) FROM ledger_entries WHERE kind = 'topup'").await, 3);
    let (free, charge, _) = till.purses(&app, "o1").await;
    assert_eq!(free + charge, 140 + 3 * 66 - 24);
    till.assert_audit_clean().await;
}

/// Damage to payments and their entries, and the name under which the audit finds it.
const DAMAGES: &[(&str, &str)] = &[
    ("DELETE FROM topup_payments WHERE provider_order_id = 'pi_1'", "top-up against its payment"),
    ("UPDATE topup_payments SET charge = 61 WHERE provider_order_id = 'pi_1'", "top-up against its payment"),
    ("UPDATE topup_payments SET bonus = 7 WHERE provider_order_id = 'pi_1'", "top-up against its payment"),
    ("UPDATE topup_payments SET seq = 1 WHERE provider_order_id = 'pi_1'", "top-up against its payment"),
    ("UPDATE topup_payments SET wallet_no = w('o2') WHERE provider_order_id = 'pi_1'", "top-up against its payment"),
    ("UPDATE topup_payments SET provider_order_id = 'pi_0' WHERE provider_order_id = 'pi_1'", "top-up against its payment"),
    ("UPDATE topup_payments SET provider = 'other' WHERE provider_order_id = 'pi_1'", "top-up against its payment"),
    ("UPDATE topup_payments SET credited_at = credited_at + interval '1 second'", "top-up against its payment"),
    ("UPDATE topup_payments SET amount = 500 WHERE provider_order_id = 'pi_1'", "top-up against its payment"),
    ("UPDATE topup_payments SET currency = 'USD' WHERE provider_order_id = 'pi_2'", "top-up against its payment"),
    ("UPDATE topup_payments SET paid_product_id = 'gems6' WHERE provider_order_id = 'pi_1'", "top-up against its payment"),
    ("UPDATE topup_payments SET paid_product_id = 'gems6' WHERE provider_order_id = 'pi_2'", "top-up against its payment"),
    ("UPDATE topup_payments SET paid_biz_no = NULL, paid_product_id = 'nothing' WHERE provider_order_id = 'pi_1'",
        "top-up against its payment"),
    (
        "UPDATE topup_payments SET state = 'unmatched', reason = 'unknown_order', wallet_no = NULL, seq = NULL, charge = NULL,
             bonus = NULL, free_balance = NULL, charge_balance = NULL, credited_at = NULL, paid_biz_no = NULL,
             paid_product_id = NULL WHERE provider_order_id = 'pi_1'",
        "top-up against its payment",
    ),
    ("DELETE FROM ledger_entries WHERE reference = 't1'", "top-up against its payment"),
    ("UPDATE ledger_entries SET wallet_no = w('o2') WHERE reference = 't1'", "top-up against its payment"),
    ("UPDATE ledger_entries SET free_change = 1 WHERE reference = 't1'", "closed number"),
    ("UPDATE ledger_entries SET reference = '$stripe/pi_9' WHERE reference = '$stripe/pi_1'", "top-up against its payment"),
    ("UPDATE ledger_entries SET reference = '!pi_1' WHERE reference = '$stripe/pi_1'", "change does not fit its kind"),
    ("UPDATE ledger_entries SET kind = 'credit' WHERE reference = '$stripe/pi_1'", "change does not fit its kind"),
    (
        "UPDATE ledger_entries SET charge_change = 61, charge_balance = charge_balance + 1 WHERE reference = '$stripe/pi_2';
         SELECT rehash(w('o2'), 1); UPDATE wallets SET charge_balance = charge_balance + 1, chain_hash = (
             SELECT chain_hash FROM ledger_entries WHERE reference = '$stripe/pi_2') WHERE open_id = 'o2'",
        "top-up against its payment",
    ),
    (
        "UPDATE items SET product_info = replace(product_info, '60', '61') WHERE product_name = 'gems60'",
        "item of an exchange",
    ),
    ("DELETE FROM items WHERE product_name = 'gems60'", "item of an exchange"),
    ("UPDATE topup_prices SET charge = 999 WHERE product_id = 'gems6'", "prices against the operator log"),
    ("UPDATE topup_prices SET amount = 1 WHERE product_id = 'gems60'", "prices against the operator log"),
    ("INSERT INTO topup_price_lists (app_no, version) SELECT app_no, 9 FROM apps", "prices against the operator log"),
];

/// Rule 19.3.8: each payment has its entry, each entry its payment, and both are what was ordered. 26 seeded corruptions are
/// found under their names.
#[tokio::test(flavor = "multi_thread")]
async fn the_audit_finds_each_damage_to_payments() {
    let till = TestTill::start().await;
    let app = app(&till).await;
    let caller = Caller::new(&till, "payments", Role::Payments).await;
    order(&till, &app, "t1").await;
    order(&till, &app, "t2").await;
    assert_eq!(tell(&caller, &payment("pi_1", "t1")).await.status, 200);
    let mut direct = payment("pi_2", "");
    direct.as_object_mut().unwrap().remove("biz_no");
    (direct["open_id"], direct["product_id"]) = ("o2".into(), "gems60".into());
    assert_eq!(tell(&caller, &direct).await.status, 200);
    till.execute(REHASH).await;
    till.assert_audit_clean().await;
    let tables =
        ["topup_payments", "topup_prices", "topup_price_lists", "ledger_entries", "items", "wallets"];
    till.execute(
        "CREATE SCHEMA kept;
         CREATE FUNCTION w(player text) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
             BEGIN RETURN (SELECT wallet_no FROM kept.wallets WHERE open_id = player); END $$",
    )
    .await;
    for table in tables {
        till.execute(&format!("CREATE TABLE kept.{table} AS SELECT * FROM {table}")).await;
    }
    for (damage, check) in DAMAGES {
        till.execute(damage).await;
        let report = json!(till.audit(None).await);
        assert!(report["kinds"][check].is_u64(), "{damage}: expected {check}, got {report:#}");
        for table in tables {
            let restore = format!("DELETE FROM {table}; INSERT INTO {table} SELECT * FROM kept.{table}");
            till.execute(&restore).await;
        }
    }
    till.assert_audit_clean().await;
}

/// An audit from a checkpoint finds new payments without entries, and new entries without payments.
#[tokio::test(flavor = "multi_thread")]
async fn an_audit_from_a_checkpoint_compares_new_payments() {
    let till = TestTill::start().await;
    let app = app(&till).await;
    let caller = Caller::new(&till, "payments", Role::Payments).await;
    order(&till, &app, "t1").await;
    assert_eq!(tell(&caller, &payment("pi_1", "t1")).await.status, 200);
    let folder = Folder::new("topup-checkpoint");
    std::fs::create_dir_all(folder.path()).unwrap();
    let file = folder.file("checkpoint");
    let program = Program::on(&till.database_url);
    assert!(program.run(&["audit", "--checkpoint", &file]).status.success());
    order(&till, &app, "t2").await;
    assert_eq!(tell(&caller, &payment("pi_2", "t2")).await.status, 200);
    let report = till.audit(Some(std::path::Path::new(&file))).await;
    assert!(report.clean, "{report:?}");
    for damage in [
        "DELETE FROM topup_payments WHERE provider_order_id = 'pi_2'",
        "INSERT INTO topup_payments SELECT * FROM kept; UPDATE topup_payments SET charge = 61 WHERE provider_order_id = 'pi_2'",
    ] {
        till.execute("CREATE TABLE IF NOT EXISTS kept AS SELECT * FROM topup_payments WHERE provider_order_id = 'pi_2'").await;
        till.execute(damage).await;
        let report = json!(till.audit(Some(std::path::Path::new(&file))).await);
        assert!(report["kinds"]["top-up against its payment"].is_u64(), "{damage}: {report:#}");
    }
}

/// Rule 19.1: a new list is a new version, a wrong one changes nothing and names every wrong line, the same one changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_prices_replaces_the_one_before() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let (developer, viewer) =
        (Caller::new(&till, "dev", Role::Developer).await, Caller::new(&till, "view", Role::Viewer).await);
    let path = "/apps/a1/prices";
    assert_answer(&viewer.get(path).await, 200, &json!({"version": 0, "prices": []}));
    let gems = json!({"product_id": "gems60", "currency": "CNY", "amount": 600, "charge": 60, "bonus": 6, "name": "x", "active": true});
    let list = json!({"prices": [gems, {"product_id": "a", "currency": "JPY", "amount": 1, "bonus": 1}]});
    let expected = json!({"version": 1, "prices": [
        {"product_id": "a", "currency": "JPY", "amount": 1, "charge": 0, "bonus": 1, "name": "", "active": true}, gems]});
    for _ in 0..2 {
        assert_answer(&developer.send("PUT", path, None, &list).await, 200, &expected);
    }
    assert_eq!(viewer.send("PUT", path, None, &list).await.status, 403);
    for (wrong, names) in [
        (json!({"prices": [gems, gems]}), "wrong: prices"),
        (json!({"prices": []}), "wrong: prices"),
        (json!({"prices": [{"product_id": "b", "currency": "CNY", "amount": 1}]}), "wrong: prices[0].charge"),
        (
            json!({"prices": [gems, {"product_id": "b", "currency": "XXX", "amount": 1, "charge": 1}]}),
            "wrong: prices[1].currency",
        ),
    ] {
        let refused = developer.send("PUT", path, None, &wrong).await;
        assert_problem(&refused, 422, "invalid-field", names);
    }
    assert_answer(&viewer.get(path).await, 200, &expected);
    let folder = Folder::new("prices");
    std::fs::create_dir_all(folder.path()).unwrap();
    let file = folder.file("prices.csv");
    let program = Program::on(&till.database_url);
    let heading = "product_id,currency,amount,charge,bonus,name,active\n";
    std::fs::write(&file, format!("{heading}gems60,CNY,0,60,6,x,true\nb,CNY,1,1,1,x,maybe\n")).unwrap();
    let refused = program.run(&["price", "set", "a1", &file]);
    let text = String::from_utf8(refused.stderr).unwrap();
    assert!(
        !refused.status.success() && text.contains("line 2: amount") && text.contains("line 3: active"),
        "{text}"
    );
    std::fs::write(&file, format!("{heading}gems60,CNY,900,60,6,x,true\n")).unwrap();
    assert_eq!(program.json(&["price", "set", "a1", &file])["version"], 2);
    let again = program.run(&["price", "set", "a1", &file]);
    assert_eq!(String::from_utf8(again.stdout).unwrap(), "Version 2 of the prices has 1 product.\n");
    assert_eq!(program.json(&["price", "list", "a1"])["prices"][0]["amount"], 900);
    assert_eq!(till.store.prices(&app.id).await.unwrap().prices.len(), 1);
    till.assert_audit_clean().await;
}

/// Archive, restore, export and erasure keep what is said of top-ups: the numbers, the replays, the audit.
#[tokio::test(flavor = "multi_thread")]
async fn archives_exports_and_erasures_have_top_ups_in_them() {
    let till = TestTill::start().await;
    let app = app(&till).await;
    let caller = Caller::new(&till, "payments", Role::Payments).await;
    order(&till, &app, "t1").await;
    let mut told = payment("pi_1", "t1");
    (told["note"], told["os"]) = ("by o1 at the kiosk".into(), "ios".into());
    assert_eq!(tell(&caller, &told).await.status, 200);
    order(&till, &app, "t2").await;
    let mut unmatched = payment("pi_2", "");
    unmatched.as_object_mut().unwrap().remove("biz_no");
    (unmatched["open_id"], unmatched["product_id"], unmatched["amount"]) =
        ("o1".into(), "gems60".into(), 5.into());
    assert_eq!(tell(&caller, &unmatched).await.status, 202);
    let program = Program::on(&till.database_url);
    let exported = program.run(&["player", "export", "a1", "o1", "--out", &Folder::new("none").file("x")]);
    assert!(!exported.status.success(), "the folder is not there");
    till.execute(REHASH).await;
    age(&till, 24 * 30).await;
    till.execute("UPDATE topup_payments SET credited_at = e.at FROM ledger_entries e WHERE e.kind = 'topup' AND topup_payments.seq = e.seq")
        .await;
    till.assert_audit_clean().await;
    let folder = Folder::new("topups");
    std::fs::create_dir_all(folder.path()).unwrap();
    let archived = program.json(&["archive", "--before", &day(&till).await, "--to", folder.path(), "--yes"]);
    assert!(archived.to_string().contains("entries"), "{archived}");
    assert_eq!(till.number("SELECT count(*) FROM ledger_entries").await, 0, "all of it left");
    till.assert_audit_clean().await;
    let again = tell(&caller, &told).await;
    assert_eq!((again.status, again.json()["charge_balance"].as_i64()), (200, Some(160)), "{}", again.body);
    // An order that was archived is paid, too.
    assert_eq!(tell(&caller, &payment("pi_3", "t2")).await.json()["state"], "paid");
    till.assert_audit_clean().await;
    let zip = folder.file("o1.zip");
    let exported = program.json(&["player", "export", "a1", "o1", "--out", &zip]);
    assert!(exported.to_string().contains("\"topup_payments\":3"), "{exported}");
    let erased = program.json(&["player", "erase", "a1", "o1", "--yes"]);
    assert_eq!(erased["rows"]["topup_payments"], 3, "{erased}");
    let left = "SELECT count(*) FROM topup_payments WHERE open_id = 'o1' OR note <> '' OR os IS NOT NULL";
    assert_eq!(till.number(left).await, 0);
    // The provider still reports the player who was erased (rule 13.7.11).
    for (told, status) in [(&told, 200), (&unmatched, 202)] {
        let again = tell(&caller, told).await;
        assert_eq!((again.status, &again.json()["replayed"]), (status, &json!(true)), "{}", again.body);
        assert_eq!(again.json()["open_id"], erased["pseudonym"], "{}", again.body);
    }
    unmatched["amount"] = 6.into();
    assert_eq!(tell(&caller, &unmatched).await.status, 409);
    till.assert_audit_clean().await;
}

/// Rules 13.7.11, 13.7.13 and 19.3.6: a payment of an erased player is a replay, or credits nobody until an operator credits
/// another player.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_payment_of_an_erased_player_is_kept() {
    let till = TestTill::start().await;
    let app = app(&till).await;
    let (admin, caller) = (Caller::admin(&till).await, Caller::new(&till, "payments", Role::Payments).await);
    for biz_no in ["t1", "t2", "t3"] {
        order(&till, &app, biz_no).await;
    }
    assert_eq!(tell(&caller, &payment("pi_1", "t1")).await.status, 200);
    let erased = Program::on(&till.database_url).json(&["player", "erase", "a1", "o1", "--yes"]);
    let pseudonym = erased["pseudonym"].as_str().unwrap();
    let purses = till.purses(&app, pseudonym).await;
    let again = tell(&caller, &payment("pi_1", "t1")).await;
    assert_eq!((again.status, &again.json()["replayed"]), (200, &json!(true)), "{}", again.body);

    let mut named = payment("pi_3", "t3");
    named["open_id"] = "o1".into();
    let mut direct = payment("pi_4", "");
    direct.as_object_mut().unwrap().remove("biz_no");
    (direct["open_id"], direct["product_id"]) = (pseudonym.into(), "gems60".into());
    for told in [payment("pi_2", "t2"), named, direct] {
        let kept = tell(&caller, &told).await;
        let (state, reason) = (kept.json()["state"].clone(), kept.json()["reason"].clone());
        assert_eq!((kept.status, state, reason), (202, json!("unmatched"), json!("unknown_player")));
    }
    let settle =
        async |key: &str, body: Value| admin.post("/apps/a1/topups/stripe/pi_2/settlement", key, body).await;
    let unknown =
        format!("there is no player {pseudonym} of an app a1: the player was erased; pay the money back");
    for (key, body) in [
        ("k1", json!({"action": "credit", "reason": "r", "biz_no": "t2"})),
        ("k2", json!({"action": "credit", "reason": "r", "open_id": pseudonym, "product_id": "gems60"})),
    ] {
        let refused = settle(key, body).await;
        assert!(refused.status == 409 && refused.body.contains(&unknown), "{key}: {}", refused.body);
    }
    assert_eq!(till.purses(&app, pseudonym).await, purses);
    let other =
        json!({"action": "credit", "reason": "the new name", "open_id": "o2", "product_id": "gems60"});
    assert_eq!(settle("k3", other).await.status, 200);
    assert_eq!(till.purses(&app, "o2").await, (6, 60, 1));
    till.store.number_events(None).await.unwrap();
    let events = admin.get("/events?type=topup.unmatched").await.json();
    assert_eq!(events["items"].as_array().unwrap().len(), 3);
    till.assert_audit_clean().await;
}

/// Rules 13.7.4 and 19.2.3: an erased player may be named as a product, a figure of an order or the id of an item. All of them
/// stay, and orders can be repeated, queried and paid.
#[tokio::test(flavor = "multi_thread")]
async fn a_player_named_like_a_figure_is_erased_and_orders_keep_theirs() {
    let till = TestTill::start().await;
    let app = app(&till).await;
    let names = ["600", "gems60", "charge", "1001"];
    for name in names {
        till.player(&app, name, 0, 100).await;
    }
    let caller = Caller::new(&till, "payments", Role::Payments).await;
    let ordered =
        Game::topup(&app, "o1", "t1", "gems60").with("product_desc", "gems60 for 1001").send(&till).await;
    assert_eq!(ordered.code(), 1, "{}", ordered.body);
    assert_eq!(tell(&caller, &payment("pi_1", "t1")).await.status, 200);
    order(&till, &app, "t2").await;
    let info = r#"[{"product_id":1001,"product_num":600,"product_type":0,"charge":"for 1001"}]"#;
    let bought = Game::new(&app, "o1", "e1", 1).with("product_info", info).send(&till).await;
    assert_eq!(bought.code(), 1, "{}", bought.body);
    let program = Program::on(&till.database_url);
    let mut left = Vec::new();
    for name in names {
        let erased = program.json(&["player", "erase", "a1", name, "--yes"]);
        left.push(
            erased["left"].as_array().unwrap().iter().any(|left| left["column"] == "items.product_info"),
        );
    }
    assert_eq!(left, [true, false, true, true], "what stays is told");
    till.assert_audit_clean().await;
    let members = "product_info LIKE '[{\"product_id\":1001,\"product_num\":600,\"product_type\":0,\"erased-%\":\"for erased-%\"}]'";
    assert_eq!(till.number(&format!("SELECT count(*) FROM items WHERE {members}")).await, 1);
    let remark = "kind = 'topup_order' AND remark ~ '^gems60 erased-[0-9a-f]+ for erased-[0-9a-f]+$'";
    assert_eq!(till.number(&format!("SELECT count(*) FROM ledger_entries WHERE {remark}")).await, 1);
    let again = Game::topup(&app, "o1", "t2", "gems60").send(&till).await;
    assert_eq!(again.code(), 1, "{}", again.body);
    assert_eq!(tell(&caller, &payment("pi_2", "t2")).await.status, 200);
    order(&till, &app, "t3").await;
    till.assert_audit_clean().await;
    // Figures that somebody else has changed are named, readable or not.
    till.execute("UPDATE items SET product_info = 'x' WHERE product_desc = ''").await;
    let found = till.audit(None).await;
    let found: Vec<_> = found.findings.iter().map(|found| found.detail.as_str()).collect();
    let no_order = "60 charged and 6 gifted coins: no order and no price of the app has them";
    assert_eq!(found.iter().filter(|detail| **detail == no_order).count(), 2, "{found:?}");
    assert!(found.iter().any(|detail| detail.ends_with("its texts are not those of its id")), "{found:?}");
}
