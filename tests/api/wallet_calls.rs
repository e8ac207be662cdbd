//! `balance`, `present`, `cancel` and `query` (contract 10), each rule by its exact answer.

use std::time::{SystemTime, UNIX_EPOCH};

use domain::app::Scope;
use domain::ids::{CreditRef, OpenId};
use domain::operation::app::AppCommand;
use domain::operation::wallet::{Credit, Debit};
use serde_json::{Value, json};

use crate::game::Game;
use crate::support::{Answer, AppKind, TestApp, TestTill, operator};

/// An app that may do everything, and a player with 40 gifted and 100 charged coins.
async fn till() -> (TestTill, TestApp) {
    let till = TestTill::start().await;
    let app = till.app_like("a1", AppKind { scopes: &Scope::ALL, ..AppKind::default() }).await;
    till.player(&app, "o1", 40, 100).await;
    till.player(&app, "o2", 40, 100).await;
    (till, app)
}

/// `data` of a success without its times.
fn data(answer: &Answer) -> Value {
    assert_eq!(answer.code(), 1, "{}", answer.body);
    let mut data = answer.json()["data"].clone();
    let mut times: Vec<Value> = data.get_mut("createTime").map(Value::take).into_iter().collect();
    for cancel in data.get_mut("cancels").and_then(Value::as_array_mut).into_iter().flatten() {
        times.push(cancel["createTime"].take());
    }
    let is_time = |time: &Value| time.as_i64().is_some_and(|time| time > 1_700_000_000_000);
    assert!(times.iter().all(is_time), "{times:?}");
    data
}

fn is_replayed(answer: &Answer) -> bool {
    answer.header("idempotent-replayed") == Some("true")
}

async fn pay(till: &TestTill, app: &TestApp, biz_no: &str, amount: i64, priority: u8) {
    let answer = Game::new(app, "o1", biz_no, amount).with("pay_priority", priority).send(till).await;
    assert_eq!(answer.code(), 1, "{}", answer.body);
}

/// Contract 10.6 and 10.1.6.
#[tokio::test(flavor = "multi_thread")]
async fn a_balance_shows_both_purses_and_changes_nothing() {
    let (till, app) = till().await;
    let answer = Game::balance(&app, "o1").send(&till).await;
    let (body, first) = without_time(&answer);
    assert_eq!(
        body,
        r#"{"code":1,"msg":"SUCCESS","data":{"freeBalance":40,"chargeBalance":100,"freeTotal":40,"chargeTotal":100,"spentTotal":0,"firstChargeTime":0}}"#
    );
    let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap();
    assert!((now - 600_000..=now + 1_000).contains(&first), "{first} is not of now");
    pay(&till, &app, "b1", 60, 1).await;
    let answer = Game::balance(&app, "o1").with("extension", "x").send(&till).await;
    let body = r#"{"code":1,"msg":"SUCCESS","data":{"freeBalance":0,"chargeBalance":80,"freeTotal":40,"chargeTotal":100,"spentTotal":60,"firstChargeTime":0}}"#;
    assert_eq!(without_time(&answer), (body.to_owned(), first));
    let stale = Game::balance(&app, "nobody").with("ts", "1700000000").send(&till).await;
    assert_eq!(stale.code(), 10_000_604, "ts is checked before the player: {}", stale.body);
    let nobody = Game::balance(&app, "nobody").send(&till).await;
    assert_eq!((nobody.status, nobody.code()), (200, 10_000_423), "{}", nobody.body);
    let other = till.app("a2").await;
    assert_eq!(Game::balance(&other, "o1").send(&till).await.code(), 10_000_423, "a player of another app");
    assert_eq!(till.number("SELECT count(*) FROM ledger_entries").await, 3);
    till.assert_audit_clean().await;
}

/// The body of a balance with 0 in place of its `firstChargeTime`, and that time.
fn without_time(answer: &Answer) -> (String, i64) {
    let time = answer.json()["data"]["firstChargeTime"].as_i64().unwrap();
    (answer.body.replace(&time.to_string(), "0"), time)
}

/// Contract 10.6.2 to 10.6.5: presents, credits and debits are income, and nothing else is. Archived entries count.
#[tokio::test(flavor = "multi_thread")]
async fn a_balance_tells_what_ever_came_in_and_was_spent() {
    let till = TestTill::start().await;
    let app = till.app_like("a1", AppKind { scopes: &Scope::ALL, ..AppKind::default() }).await;
    till.player(&app, "o1", 0, 0).await;
    let totals = async || {
        let data = Game::balance(&app, "o1").send(&till).await.json()["data"].clone();
        let of = |name: &str| data[name].as_i64();
        (of("freeTotal"), of("chargeTotal"), of("spentTotal"), of("firstChargeTime"))
    };
    let credit = async |reference: &str, free, charge| {
        let (open_id, reference) = (OpenId::parse("o1").unwrap(), CreditRef::parse(reference).unwrap());
        let credit = Credit { open_id, free, charge, reference, note: String::new(), create: false };
        till.store.change_wallet(&operator(), &app.id, credit).await.unwrap();
    };
    assert_eq!(totals().await, (Some(0), Some(0), Some(0), None));
    assert_eq!(Game::present(&app, "o1", "p1", 25).send(&till).await.code(), 1);
    assert_eq!(totals().await, (Some(25), Some(0), Some(0), None), "presents are gifted");
    credit("c1", 5, 100).await;
    let (free, charge, spent, first) = totals().await;
    assert_eq!((free, charge, spent, first.is_some()), (Some(30), Some(100), Some(0), true));
    credit("c2", 0, 10).await;
    let (open_id, reference) = (OpenId::parse("o1").unwrap(), CreditRef::parse("d1").unwrap());
    let debit = Debit { open_id, free: 1, charge: 3, reference, note: String::new() };
    till.store.change_wallet(&operator(), &app.id, debit).await.unwrap();
    assert_eq!(totals().await, (Some(29), Some(107), Some(0), first), "a debit takes income back");
    pay(&till, &app, "b1", 60, 1).await;
    assert_eq!(Game::cancel(&app, "o1", "g1", "b1", 20).send(&till).await.code(), 1);
    assert_eq!(totals().await, (Some(29), Some(107), Some(40), first), "a cancel is no income");
    // As an archive leaves them: the same rows in the other table.
    till.execute(
        "WITH moved AS (DELETE FROM ledger_entries WHERE reference IN ('p1', '!c1', 'b1') RETURNING *)
         INSERT INTO archived_entries (app_no, reference, wallet_no, seq, kind, at, free_change, charge_change,
             free_balance, charge_balance, remaining, of_biz_no, pay_priority, item_id, zone_id, remark)
         SELECT app_no, reference, wallet_no, seq, kind, at, free_change, charge_change, free_balance,
             charge_balance, remaining, of_biz_no, pay_priority, item_id, zone_id, remark FROM moved",
    )
    .await;
    assert_eq!(totals().await, (Some(29), Some(107), Some(40), first), "archived entries count");
    till.player(&app, "o2", 7, 0).await;
    let other = Game::balance(&app, "o2").send(&till).await;
    assert_eq!(other.json()["data"]["freeTotal"], 7, "each player has a sum of its own: {}", other.body);
}

/// Contract 10.6.3 and 10.6.5: what is above 64 bits is cut off in the answer, and not in what was spent.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_spent_is_right_when_a_total_exceeds_64_bits() {
    let (till, app) = till().await;
    let credit = async |reference: &str, charge| {
        let (open_id, reference) = (OpenId::parse("o1").unwrap(), CreditRef::parse(reference).unwrap());
        let credit = Credit { open_id, free: 0, charge, reference, note: String::new(), create: false };
        till.store.change_wallet(&operator(), &app.id, credit).await.unwrap();
    };
    credit("c1", i64::MAX - 100).await;
    pay(&till, &app, "b1", 60, 1).await;
    credit("c2", 20).await;
    let data = Game::balance(&app, "o1").send(&till).await.json()["data"].clone();
    let of = |name: &str| data[name].as_i64();
    assert_eq!(
        (of("freeTotal"), of("chargeTotal"), of("spentTotal"), of("chargeBalance")),
        (Some(40), Some(i64::MAX), Some(60), Some(i64::MAX)),
        "{data}"
    );
    till.assert_audit_clean().await;
}

/// Contract 10.3 and 10.2.
#[tokio::test(flavor = "multi_thread")]
async fn a_present_adds_gifted_currency_once() {
    let (till, app) = till().await;
    let present = Game::present(&app, "o1", "p1", 10);
    let first = present.send(&till).await;
    first.assert_body(
        r#"{"code":1,"msg":"SUCCESS","data":{"bizNo":"p1","freeBalance":50,"chargeBalance":100}}"#,
    );
    assert!(!is_replayed(&first));
    pay(&till, &app, "b1", 5, 1).await;
    // Another time, address and platform are the same request.
    let again = present
        .clone()
        .with("user_ip", "192.0.2.9")
        .with("os", "ios")
        .with("ts", "1700000000")
        .send(&till)
        .await;
    assert!(is_replayed(&again) && again.body == first.body, "{}", again.body);
    for (name, value) in [
        ("amount", "11"),
        ("open_id", "o2"),
        ("zone_id", "z2_r1"),
        ("product_desc", "other"),
        ("extension", "other"),
    ] {
        let other = present.clone().with(name, value).send(&till).await;
        other.assert_refused(
            10_000_602,
            "biz_no: p1 was used for other content; a new request needs a new number, and is carried out again: ask with a query first",
        );
    }
    let absent = Game::present(&app, "o1", "p2", 1).without("product_desc").send(&till).await;
    assert_eq!(absent.code(), 1, "product_desc may be absent: {}", absent.body);
    let stale = Game::present(&app, "o1", "p3", 1).with("ts", "1700000000").send(&till).await;
    assert_eq!(stale.code(), 10_000_604, "{}", stale.body);
    assert_eq!(Game::present(&app, "nobody", "p3", 1).send(&till).await.code(), 10_000_423);
    let zero = Game::present(&app, "o1", "p3", 0).send(&till).await;
    assert_eq!(zero.code(), 10_000_200, "{}", zero.body);
    till.execute("UPDATE ledger_entries SET at = now() - interval '48 hours' WHERE reference = 'p2'").await;
    let late = Game::present(&app, "o1", "p2", 1).without("product_desc").send(&till).await;
    late.assert_refused(
        10_000_603,
        "biz_no: p2 was used more than 48 hours ago; a new request needs a new number, and is carried out again: ask with a query first",
    );
    till.execute("UPDATE ledger_entries SET at = now() WHERE reference = 'p2'").await;
    assert_eq!(till.purses(&app, "o1").await, (46, 100, 4));
}

/// Contract 10.3.3 and 10.4.7.
#[tokio::test(flavor = "multi_thread")]
async fn a_purse_never_overflows() {
    let (till, app) = till().await;
    pay(&till, &app, "b1", 60, 1).await;
    let most = i64::MAX;
    let full = format!(
        "UPDATE wallets SET free_balance = {}, charge_balance = {most} WHERE open_id = 'o1'",
        most - 5
    );
    till.execute(&full).await;
    let text = "amount: a purse holds at most 9223372036854775807";
    Game::present(&app, "o1", "p1", 6).send(&till).await.assert_refused(10_000_607, text);
    // 60 were 40 gifted and 20 charged: a cancel of 1 needs room in the charged purse.
    Game::cancel(&app, "o1", "c1", "b1", 1).send(&till).await.assert_refused(10_000_607, text);
    assert_eq!(Game::present(&app, "o1", "p1", 5).send(&till).await.code(), 1, "the number stayed free");
    assert_eq!(till.purses(&app, "o1").await, (most, most, 3));
}

/// Contract 10.4: what was taken last is given back first.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_gives_back_what_was_taken_last() {
    let (till, app) = till().await;
    pay(&till, &app, "b1", 60, 1).await;
    let cancel = |biz_no: &str, amount| Game::cancel(&app, "o1", biz_no, "b1", amount);
    let first = cancel("c1", 30).send(&till).await;
    first.assert_body(
        r#"{"code":1,"msg":"SUCCESS","data":{"bizNo":"c1","payBizNo":"b1","freeRefunded":10,"chargeRefunded":20,"remaining":30,"freeBalance":10,"chargeBalance":100}}"#,
    );
    cancel("c2", 31)
        .send(&till)
        .await
        .assert_refused(10_000_605, "amount: 30 is left to give back of b1; 31 was asked for");
    let second = cancel("c2", 30).send(&till).await;
    second.assert_body(
        r#"{"code":1,"msg":"SUCCESS","data":{"bizNo":"c2","payBizNo":"b1","freeRefunded":30,"chargeRefunded":0,"remaining":0,"freeBalance":40,"chargeBalance":100}}"#,
    );
    cancel("c3", 1)
        .send(&till)
        .await
        .assert_refused(10_000_605, "amount: 0 is left to give back of b1; 1 was asked for");
    // A repeat gets the answer of its time, and another content is refused.
    let again = cancel("c1", 30).with("ts", "1700000000").send(&till).await;
    assert!(is_replayed(&again) && again.body == first.body, "{}", again.body);
    pay(&till, &app, "b2", 5, 0).await;
    for (name, value) in [
        ("amount", "29"),
        ("pay_biz_no", "b2"),
        ("open_id", "o2"),
        ("zone_id", "z2_r1"),
        ("product_desc", "other"),
        ("extension", "other"),
    ] {
        let other = cancel("c1", 30).with(name, value).send(&till).await;
        other.assert_refused(
            10_000_602,
            "biz_no: c1 was used for other content; a new request needs a new number, and is carried out again: ask with a query first",
        );
    }
    let age = |sign: char| {
        format!("UPDATE ledger_entries SET at = at {sign} interval '48 hours' WHERE reference = 'c1'")
    };
    till.execute(&age('-')).await;
    cancel("c1", 30).send(&till).await.assert_refused(
        10_000_603,
        "biz_no: c1 was used more than 48 hours ago; a new request needs a new number, and is carried out again: ask with a query first",
    );
    // The chain of hashes covers the time.
    till.execute(&age('+')).await;
    // The charged purse paid first here.
    assert_eq!(data(&cancel("c4", 5).with("pay_biz_no", "b2").send(&till).await)["chargeRefunded"], 5);
    assert_eq!(till.purses(&app, "o1").await, (40, 100, 6));
    till.assert_audit_clean().await;
}

/// Contract 10.4.3.
#[tokio::test(flavor = "multi_thread")]
async fn only_an_exchange_of_the_player_is_given_back() {
    let (till, app) = till().await;
    pay(&till, &app, "b1", 60, 1).await;
    assert_eq!(Game::present(&app, "o1", "p1", 10).send(&till).await.code(), 1);
    assert_eq!(Game::cancel(&app, "o1", "c1", "b1", 1).send(&till).await.code(), 1);
    let other = till.app_like("a2", AppKind { scopes: &Scope::ALL, ..AppKind::default() }).await;
    till.player(&other, "o1", 40, 100).await;
    for (app, player, of) in [
        (&app, "o1", "none"),
        (&app, "o2", "b1"),
        (&app, "o1", "p1"),
        (&app, "o1", "c1"),
        (&other, "o1", "b1"),
    ] {
        let refused = Game::cancel(app, player, "c9", of, 1).send(&till).await;
        refused.assert_refused(
            10_000_606,
            &format!(
                "pay_biz_no: this player has no exchange {of}; expected the biz_no of one that was paid"
            ),
        );
    }
    assert_eq!(Game::cancel(&app, "nobody", "c9", "b1", 1).send(&till).await.code(), 10_000_423);
    let stale = Game::cancel(&app, "o1", "c9", "b1", 1).with("ts", "1700000000").send(&till).await;
    assert_eq!(stale.code(), 10_000_604, "{}", stale.body);
    let missing = Game::cancel(&app, "o1", "c9", "b1", 1).without("pay_biz_no").send(&till).await;
    missing.assert_refused(10_000_200, "pay_biz_no is missing");
}

/// Contract 10.2.1: one namespace of numbers.
#[tokio::test(flavor = "multi_thread")]
async fn a_number_is_of_one_kind_for_ever() {
    let (till, app) = till().await;
    pay(&till, &app, "b1", 10, 1).await;
    assert_eq!(Game::present(&app, "o1", "p1", 10).send(&till).await.code(), 1);
    assert_eq!(Game::cancel(&app, "o1", "c1", "b1", 10).send(&till).await.code(), 1);
    for number in ["b1", "p1", "c1"] {
        let kinds = [
            ("b", Game::new(&app, "o1", number, 10).with("pay_priority", 1)),
            ("p", Game::present(&app, "o1", number, 10)),
            ("c", Game::cancel(&app, "o1", number, "b1", 10)),
        ];
        for (kind, game) in kinds {
            let answer = game.send(&till).await;
            let expected = if number.starts_with(kind) { 1 } else { 10_000_602 };
            assert_eq!(answer.code(), expected, "{kind} {number}: {}", answer.body);
        }
    }
    assert_eq!(till.purses(&app, "o1").await, (50, 100, 4));
}

/// Contract 10.3.2, 10.4.2 and 10.1.5: the scope is asked for after the token and before the signature.
#[tokio::test(flavor = "multi_thread")]
async fn present_and_cancel_need_their_scopes() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 40, 100).await;
    pay(&till, &app, "b1", 60, 1).await;
    let present = Game::present(&app, "o1", "p1", 10);
    let cancel = Game::cancel(&app, "o1", "c1", "b1", 10);
    for (game, scope) in [(present, "present"), (cancel, "cancel")] {
        for game in [game.clone(), game.clone().keyed("another"), game.clone().without("amount")] {
            let refused = game.send(&till).await;
            let text = format!(
                "app_id: the app lacks the scope {scope}; to give it, run: minitill app change a1 --add-scope {scope}"
            );
            refused.assert_refused(100_200_102, &text);
        }
        let unknown = game.with("access_token", "another").send(&till).await;
        unknown.assert_refused(
            100_200_102,
            "access_token: expected a token of this app from /oauth2/access_token",
        );
    }
    assert_eq!(Game::balance(&app, "o1").send(&till).await.code(), 1, "reads need no scope");
    assert_eq!(Game::query(&app, "o1", "b1").send(&till).await.code(), 1);
    assert_eq!(till.purses(&app, "o1").await, (0, 80, 2));
}

/// Contract 10.5: every kind, with exactly its fields.
#[tokio::test(flavor = "multi_thread")]
async fn a_query_tells_what_became_of_a_number() {
    let (till, app) = till().await;
    pay(&till, &app, "b1", 60, 1).await;
    let query = |number: &str| Game::query(&app, "o1", number);
    let paid = json!({
        "bizNo": "b1", "kind": "exchange", "status": "paid", "createTime": null, "amount": 60, "freeChange": -40,
        "chargeChange": -20, "zoneId": "z1_r1", "productName": "Sword & shield = 100%", "remaining": 60, "cancels": [],
    });
    assert_eq!(data(&query("b1").send(&till).await), paid);
    assert_eq!(Game::cancel(&app, "o1", "c1", "b1", 30).send(&till).await.code(), 1);
    let mut part = paid.clone();
    part["status"] = "part_cancelled".into();
    part["remaining"] = 30.into();
    part["cancels"] = json!([{ "bizNo": "c1", "amount": 30, "createTime": null }]);
    assert_eq!(data(&query("b1").send(&till).await), part);
    assert_eq!(Game::cancel(&app, "o1", "c2", "b1", 30).send(&till).await.code(), 1);
    let mut whole = part.clone();
    whole["status"] = "cancelled".into();
    whole["remaining"] = 0.into();
    whole["cancels"] = json!([
        { "bizNo": "c1", "amount": 30, "createTime": null }, { "bizNo": "c2", "amount": 30, "createTime": null },
    ]);
    assert_eq!(data(&query("b1").send(&till).await), whole);
    let cancel = json!({
        "bizNo": "c1", "kind": "cancel", "status": "done", "createTime": null, "amount": 30, "freeChange": 10,
        "chargeChange": 20, "zoneId": "z1_r1", "payBizNo": "b1",
    });
    assert_eq!(data(&query("c1").send(&till).await), cancel);
    assert_eq!(Game::present(&app, "o1", "p1", 7).send(&till).await.code(), 1);
    let present = json!({
        "bizNo": "p1", "kind": "present", "status": "done", "createTime": null, "amount": 7, "freeChange": 7,
        "chargeChange": 0, "zoneId": "z1_r1",
    });
    assert_eq!(data(&query("p1").send(&till).await), present);
    // Of any age.
    till.execute("UPDATE ledger_entries SET at = at - interval '3 years' WHERE reference = 'p1'").await;
    let old = Game::query(&app, "o1", "p1").send(&till).await;
    assert_eq!(old.json()["data"]["kind"], "present", "{}", old.body);
}

/// Contract 10.5.2 and 10.1.6.
#[tokio::test(flavor = "multi_thread")]
async fn a_query_of_what_is_not_the_players_is_refused() {
    let (till, app) = till().await;
    pay(&till, &app, "b1", 60, 1).await;
    for (player, number, closes) in
        [("o1", "none", "0"), ("o2", "b1", "0"), ("o2", "b1", "1"), ("o1", "start", "")]
    {
        let refused = Game::query(&app, player, number).with("close", closes).send(&till).await;
        refused.assert_refused(10_000_606, &format!("biz_no: this player has no number {number}; send its request again, or give it up with close=1"));
    }
    let nobody = Game::query(&app, "nobody", "b1").with("close", 1).send(&till).await;
    assert_eq!(nobody.code(), 10_000_423, "{}", nobody.body);
    for (game, code) in [
        (Game::query(&app, "nobody", "none").with("ts", "1700000000"), 10_000_604),
        (Game::query(&app, "o1", "b1").with("close", "2"), 10_000_200),
        (Game::query(&app, "o1", "b1").without("biz_no"), 10_000_200),
        (Game::query(&app, "o1", "b1").without("ts"), 10_000_200),
    ] {
        let answer = game.send(&till).await;
        assert_eq!(answer.code(), code, "{}", answer.body);
    }
    assert_eq!(till.number("SELECT count(*) FROM ledger_entries WHERE kind = 'closed'").await, 0);
}

/// Contract 10.5.4 and 10.2.4.
#[tokio::test(flavor = "multi_thread")]
async fn a_closed_number_stays_closed_for_every_change() {
    let (till, app) = till().await;
    pay(&till, &app, "b1", 10, 1).await;
    let close = Game::query(&app, "o1", "x1").with("close", 1);
    let closed = json!({ "bizNo": "x1", "kind": "closed", "status": "closed", "createTime": null });
    assert_eq!(data(&close.send(&till).await), closed);
    let again = close.send(&till).await;
    assert_eq!(data(&again), closed);
    assert_eq!(data(&Game::query(&app, "o1", "x1").send(&till).await), closed);
    for game in [
        Game::new(&app, "o1", "x1", 10),
        Game::new(&app, "o2", "x1", 10),
        Game::present(&app, "o1", "x1", 10),
        Game::cancel(&app, "o1", "x1", "b1", 1),
    ] {
        let refused = game.send(&till).await;
        refused
            .assert_refused(10_000_608, "biz_no: x1 was closed by a query; a new request needs a new number");
    }
    let others = Game::query(&app, "o2", "x1").with("close", 1).send(&till).await;
    assert_eq!(others.code(), 10_000_606, "the number is another player's: {}", others.body);
    till.execute("UPDATE ledger_entries SET at = now() - interval '3 days' WHERE kind = 'closed'").await;
    assert_eq!(Game::new(&app, "o1", "x1", 10).send(&till).await.code(), 10_000_608, "for ever");
    // On a known number close changes nothing.
    let known = Game::query(&app, "o1", "b1").with("close", 1).send(&till).await;
    assert_eq!(data(&known)["status"], "paid");
    assert_eq!(till.purses(&app, "o1").await, (30, 100, 2));
    assert_eq!(till.number("SELECT count(*) FROM ledger_entries WHERE kind = 'closed'").await, 1);
    till.assert_audit_clean().await;
}

/// Contract 10.5.1: at most 100 cancels are shown.
#[tokio::test(flavor = "multi_thread")]
async fn a_query_shows_a_hundred_cancels_and_tells_that_there_are_more() {
    let (till, app) = till().await;
    pay(&till, &app, "b1", 120, 1).await;
    for number in 0..=100 {
        let answer = Game::query(&app, "o1", "b1").send(&till).await;
        let shown = &answer.json()["data"];
        assert_eq!(shown["cancels"].as_array().unwrap().len(), number);
        assert!(shown.get("cancelsMore").is_none());
        let cancel = Game::cancel(&app, "o1", &format!("c{number}"), "b1", 1).send(&till).await;
        assert_eq!(cancel.code(), 1, "{}", cancel.body);
    }
    let shown = data(&Game::query(&app, "o1", "b1").send(&till).await);
    let numbers = shown["cancels"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cancel| cancel["bizNo"].as_str().unwrap().to_owned());
    assert!(numbers.eq((0..100).map(|number| format!("c{number}"))));
    assert_eq!((&shown["remaining"], &shown["cancelsMore"]), (&json!(19), &json!(true)));
}

/// Contract 10.1.4: a text of these calls cannot be taken for another field.
#[tokio::test(flavor = "multi_thread")]
async fn a_text_that_reads_like_a_signed_field_is_refused() {
    let (till, app) = till().await;
    for (name, text) in [
        ("extension", "x&open_id=o2"),
        ("product_desc", "d&product_info=[]&product_name=n"),
        ("product_desc", "d&ts=1"),
    ] {
        let refused = Game::present(&app, "o1", "p1", 1).with(name, text).send(&till).await;
        let expected = format!(
            "{name}: expected a text without & in front of the name of a signed field and =, got \"{text}\""
        );
        refused.assert_refused(10_000_200, &expected);
    }
    let text = Game::present(&app, "o1", "p1", 1).with("extension", "a&b=c&d").send(&till).await;
    assert_eq!(text.code(), 1, "{}", text.body);
}

/// Contract 3.7 holds for each call: a sandbox app gets the string of that call.
#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_app_is_told_why_the_signature_of_a_call_is_wrong() {
    let till = TestTill::start().await;
    let kind = AppKind { scopes: &Scope::ALL, sandbox: true, ..AppKind::default() };
    let app = till.app_like("a1", kind).await;
    for game in [
        Game::balance(&app, "o1"),
        Game::present(&app, "o1", "p1", 1),
        Game::cancel(&app, "o1", "c1", "b1", 1),
        Game::query(&app, "o1", "b1"),
    ] {
        let string = game.string_to_sign();
        let answer = game.keyed("another").send(&till).await;
        assert_eq!(answer.code(), 100_200_114, "{}", answer.body);
        assert_eq!(answer.json()["data"], json!({ "string_to_sign": string, "bytes": string.len() }));
    }
}

/// Contract 7.2: balance and query have a limit of their own.
#[tokio::test(flavor = "multi_thread")]
async fn reads_and_changes_are_limited_apart() {
    let (till, app) = till().await;
    let limits = domain::app::AppLimitsChange {
        exchanges_per_second: Some(domain::per_second::PerSecond::new(1)),
        reads_per_second: Some(domain::per_second::PerSecond::new(2)),
        ..domain::app::AppLimitsChange::default()
    };
    till.command(&app, AppCommand::Limit(limits)).await;
    let (one, two) = ("exchanges", "balances and queries");
    for (game, code, what) in [
        (Game::present(&app, "o1", "p1", 1), 1, one),
        (Game::new(&app, "o1", "b1", 1), 10_000_305, one),
        (Game::cancel(&app, "o1", "c1", "b1", 1), 10_000_305, one),
        (Game::balance(&app, "o1"), 1, two),
        (Game::query(&app, "o1", "p1"), 1, two),
        (Game::balance(&app, "o1"), 10_000_305, two),
    ] {
        let answer = game.send(&till).await;
        assert_eq!(answer.code(), code, "{}", answer.body);
        assert!(code == 1 || answer.message().contains(what), "{}", answer.body);
    }
}
