//! Lists of exchanges, presents and cancels, and sums of revenue (contract 13.2).

use domain::app::Scope;
use domain::exchange::Amount;
use domain::ids::{BizNo, CreditRef};
use serde_json::{Value, json};
use store::GiveBack;

use crate::admin::{Caller, assert_answer, assert_problem};
use crate::game::Game;
use crate::support::{AppKind, TestApp, TestTill, encoded, operator};

/// What is in an archive has left the ledger.
const ARCHIVE: &str = "
    WITH moved AS (DELETE FROM ledger_entries WHERE reference IN ('B1', 'P1') RETURNING *)
    INSERT INTO archived_entries (app_no, reference, wallet_no, seq, kind, at, free_change, charge_change, free_balance,
        charge_balance, remaining, of_biz_no, pay_priority, item_id, zone_id, remark)
    SELECT app_no, reference, wallet_no, seq, kind, at, free_change, charge_change, NULL, NULL, remaining, of_biz_no,
        pay_priority, item_id, zone_id, NULL FROM moved";

/// A till with the sales of two days. In Shanghai it is 00:30 on the 21st when it is 16:30 on the 20th in UTC.
async fn till() -> (TestTill, TestApp) {
    let till = TestTill::start().await;
    let app = till.app_like("a1", AppKind { scopes: &Scope::ALL, ..AppKind::default() }).await;
    let other = till.app("a2").await;
    till.player(&app, "o1", 100, 1000).await;
    till.player(&app, "o2", 0, 1000).await;
    till.player(&other, "o1", 0, 1000).await;
    let sold = |open_id, number, amount, zone, product| {
        let game = Game::new(&app, open_id, number, amount).with("zone_id", zone);
        game.with("product_name", product).with("pay_priority", 1)
    };
    let games = [
        sold("o1", "B1", 130, "z1_r1", "Sword"),
        Game::present(&app, "o1", "P1", 5).with("zone_id", "z1_r1"),
        sold("o2", "B2", 20, "z1_r_2", "Shield"),
        sold("o2", "B3", 40, "z2_r1", "Sword"),
        Game::cancel(&app, "o1", "C1", "B1", 110).with("zone_id", "z9_r9"),
        Game::new(&other, "o1", "B1", 7),
    ];
    for game in games {
        assert_eq!(game.send(&till).await.code(), 1, "{:?}", game.fields);
    }
    let give_back = GiveBack {
        biz_no: BizNo::parse("B3").unwrap(),
        amount: Amount::parse("10").unwrap(),
        reference: CreditRef::parse("back-1").unwrap(),
        note: String::new(),
    };
    till.store.give_back(&operator(), &app.id, give_back).await.unwrap().unwrap();
    for (number, at) in [
        ("B1", "2026-10-20T16:29:59.999999Z"),
        ("P1", "2026-10-20T16:30:00Z"),
        ("B2", "2026-10-20T16:30:00Z"),
        ("B3", "2026-10-20T18:20:00Z"),
        ("C1", "2026-10-21T15:59:59Z"),
        ("!back-1", "2026-10-21T16:00:00Z"),
    ] {
        let at = format!("UPDATE ledger_entries SET at = '{at}' WHERE reference = '{number}'");
        till.execute(&at).await;
    }
    (till, app)
}

/// The numbers of a page and where the next begins.
async fn page(caller: &Caller<'_>, query: &str) -> (Vec<String>, Option<String>) {
    let answer = caller.get(&format!("/exchanges?{query}")).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let page = answer.json();
    let number = |item: &Value| {
        let number = item["biz_no"].as_str().or(item["ref"].as_str());
        format!("{} {}", item["app_id"].as_str().unwrap(), number.unwrap())
    };
    let items = page["items"].as_array().unwrap().iter().map(number).collect();
    (items, page["next"].as_str().map(str::to_owned))
}

/// Rule 13.2.1: each kind by its exact answer, archived ones too.
#[tokio::test(flavor = "multi_thread")]
async fn exchanges_presents_and_cancels_are_listed_newest_first() {
    let (till, _) = till().await;
    till.execute(ARCHIVE).await;
    let caller = Caller::admin(&till).await;
    let row = |kind: &str, biz_no: Value, reference: Value, of: Value, open_id: &str| json!({"app_id": "a1", "kind": kind, "biz_no": biz_no, "ref": reference, "pay_biz_no": of, "open_id": open_id});
    let with = |mut row: Value, more: Value| {
        row.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        row
    };
    let none = Value::Null;
    let number = |number: &str| Value::from(number);
    let items = json!([
        with(
            row("cancel", none.clone(), number("back-1"), number("B3"), "o2"),
            json!({
            "zone_id": "z2_r1", "product_name": "Sword", "amount": 10, "free_change": 0, "charge_change": 10,
            "created_at": "2026-10-21T16:00:00Z"})
        ),
        with(
            row("cancel", number("C1"), none.clone(), number("B1"), "o1"),
            json!({
            "zone_id": "z1_r1", "product_name": "Sword", "amount": 110, "free_change": 80, "charge_change": 30,
            "created_at": "2026-10-21T15:59:59Z"})
        ),
        with(
            row("exchange", number("B3"), none.clone(), none.clone(), "o2"),
            json!({
            "zone_id": "z2_r1", "product_name": "Sword", "amount": 40, "free_change": 0, "charge_change": -40,
            "created_at": "2026-10-20T18:20:00Z"})
        ),
        with(
            row("present", number("P1"), none.clone(), none.clone(), "o1"),
            json!({
            "zone_id": "z1_r1", "product_name": none, "amount": 5, "free_change": 5, "charge_change": 0,
            "created_at": "2026-10-20T16:30:00Z"})
        ),
        with(
            row("exchange", number("B2"), none.clone(), none.clone(), "o2"),
            json!({
            "zone_id": "z1_r_2", "product_name": "Shield", "amount": 20, "free_change": 0, "charge_change": -20,
            "created_at": "2026-10-20T16:30:00Z"})
        ),
        with(
            row("exchange", number("B1"), none.clone(), none.clone(), "o1"),
            json!({
            "zone_id": "z1_r1", "product_name": "Sword", "amount": 130, "free_change": -100, "charge_change": -30,
            "created_at": "2026-10-20T16:29:59.999999Z"})
        ),
    ]);
    assert_answer(&caller.get("/exchanges?app_id=a1").await, 200, &json!({"items": items, "next": null}));
}

/// Rule 13.2.1: every filter, and pages that neither skip nor repeat, of one app and of all.
#[tokio::test(flavor = "multi_thread")]
async fn the_list_is_filtered_and_has_pages() {
    let (till, _) = till().await;
    till.execute(ARCHIVE).await;
    let caller = Caller::admin(&till).await;
    let at = |of: &str| format!("app_id=a1&since={}", encoded(of));
    for (query, expected) in [
        ("app_id=a1&kind=exchange".to_owned(), vec!["a1 B3", "a1 B2", "a1 B1"]),
        ("app_id=a1&kind=present".to_owned(), vec!["a1 P1"]),
        ("app_id=a1&kind=cancel&product_name=Sword".to_owned(), vec!["a1 back-1", "a1 C1"]),
        ("app_id=a1&zone=z1".to_owned(), vec!["a1 C1", "a1 P1", "a1 B2", "a1 B1"]),
        ("app_id=a1&zone=z9".to_owned(), vec![]),
        ("app_id=a1&product_name=Shield".to_owned(), vec!["a1 B2"]),
        ("app_id=a1&open_id=o2".to_owned(), vec!["a1 back-1", "a1 B3", "a1 B2"]),
        ("app_id=a1&open_id=o1".to_owned(), vec!["a1 C1", "a1 P1", "a1 B1"]),
        ("open_id=nobody".to_owned(), vec![]),
        ("app_id=a9".to_owned(), vec![]),
        ("app_id=a2".to_owned(), vec!["a2 B1"]),
        (at("2026-10-20T16:30:00Z") + "&until=2026-10-20T18:20:00Z", vec!["a1 P1", "a1 B2"]),
        (at("2026-10-20T16:29:59.999999Z") + "&until=2026-10-20T16:30:00Z", vec!["a1 B1"]),
    ] {
        assert_eq!(
            page(&caller, &query).await,
            (expected.iter().map(|s| (*s).to_owned()).collect(), None),
            "{query}"
        );
    }
    for of in ["app_id=a1&", ""] {
        let (all, _) = page(&caller, of).await;
        assert_eq!(all.len(), if of.is_empty() { 7 } else { 6 });
        for limit in 1..4 {
            let (mut seen, mut after) = (Vec::new(), String::new());
            for turn in 0.. {
                assert!(turn < 8, "the pages end");
                let (items, next) = page(&caller, &format!("{of}limit={limit}{after}")).await;
                seen.extend(items);
                let Some(next) = next else { break };
                after = format!("&after={}", encoded(&next));
            }
            assert_eq!(seen, all, "{of}{limit}");
        }
    }
    for (query, field, detail) in [
        ("kind=credit", "kind", r#"expected exchange, present or cancel, got "credit""#),
        ("zone=a_b", "zone", r#"expected 1 to 126 bytes without an underscore, got "a_b""#),
        ("since=x", "since", r#"expected a date and time such as 2026-11-21 or 2026-11-21T08:00, got "x""#),
        ("after=1.x", "after", r#"expected the place of an entry, as an earlier page gave it, got "1.x""#),
    ] {
        let wrong = caller.get(&format!("/exchanges?{query}")).await;
        assert_problem(&wrong, 422, "invalid-field", &format!("wrong: {field}"));
        assert_eq!(wrong.json()["errors"], json!([{"field": field, "detail": detail}]));
    }
}

/// Rule 13.2.2: a page examines 100,000 entries of an app, and the next goes on from there.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_examines_much_ends_and_the_next_goes_on() {
    let (till, _) = till().await;
    let caller = Caller::admin(&till).await;
    till.execute(
        "INSERT INTO ledger_entries (app_no, wallet_no, seq, at, free_change, charge_change, free_balance, charge_balance,
             kind, reference, chain_hash)
         SELECT app_no, wallet_no, 10 + n, '2026-10-20T16:30:01Z', 1, 0, 1, 0, 'credit', '!c' || n, sha256('')
         FROM wallets, generate_series(1, 100001) n WHERE open_id = 'o2'",
    )
    .await;
    let (items, next) = page(&caller, "app_id=a1&product_name=Shield").await;
    assert_eq!(items, Vec::<String>::new());
    let after = encoded(&next.unwrap());
    assert_eq!(
        page(&caller, &format!("app_id=a1&product_name=Shield&after={after}")).await,
        (vec!["a1 B2".to_owned()], None)
    );
}
