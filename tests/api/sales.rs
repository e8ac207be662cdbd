//! Lists of exchanges, presents and cancels, and sums of revenue (contract 13.2).

use domain::app::Scope;
use domain::console_user::Role;
use domain::ids::{BizNo, CreditRef};
use domain::operation::wallet::GiveBack;
use domain::wallet::Amount;
use minitill::config::Config;
use serde_json::{Value, json};

use crate::admin::{Caller, assert_answer, assert_problem};
use crate::game::Game;
use crate::support::program::Program;
use crate::support::{AppKind, TestApp, TestTill, encoded, operator};
use crate::workbook::sheet_lines;

/// What is in an archive has left the ledger. It moves the numbers `B1` and `P1`.
pub(crate) const ARCHIVE: &str = "
    WITH moved AS (DELETE FROM ledger_entries WHERE reference IN ('B1', 'P1') RETURNING *)
    INSERT INTO archived_entries (app_no, reference, wallet_no, seq, kind, at, free_change, charge_change, free_balance,
        charge_balance, remaining, of_biz_no, pay_priority, item_id, zone_id, os, remark)
    SELECT app_no, reference, wallet_no, seq, kind, at, free_change, charge_change, NULL, NULL, remaining, of_biz_no,
        pay_priority, item_id, zone_id, os, NULL FROM moved";

/// A till with the sales of two days. In Shanghai it is 00:30 on the 21st when it is 16:30 on the 20th in UTC.
pub(crate) async fn till() -> (TestTill, TestApp) {
    till_with(|_| {}).await
}

/// The same with other settings.
pub(crate) async fn till_with(change: impl FnOnce(&mut Config)) -> (TestTill, TestApp) {
    let till = TestTill::start_with(change).await;
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
        sold("o2", "B2", 20, "z1_r_2", "Shield").with("os", "ios"),
        sold("o2", "B3", 40, "z2_r1", "Sword"),
        Game::cancel(&app, "o1", "C1", "B1", 110).with("zone_id", "z9_r9").with("os", "ios"),
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
    till.store.change_wallet(&operator(), &app.id, give_back).await.unwrap();
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
        // As a list shows it, with the role. A cancel has that of its exchange.
        ("app_id=a1&zone=z1_r1".to_owned(), vec!["a1 C1", "a1 P1", "a1 B1"]),
        ("app_id=a1&zone=z1_r_2".to_owned(), vec!["a1 B2"]),
        ("app_id=a1&product_name=Shield".to_owned(), vec!["a1 B2"]),
        // A cancel has the platform of its exchange.
        ("app_id=a1&os=ios".to_owned(), vec!["a1 B2"]),
        ("app_id=a1&os=android".to_owned(), vec!["a1 back-1", "a1 C1", "a1 B3", "a1 P1", "a1 B1"]),
        ("app_id=a1&open_id=o2".to_owned(), vec!["a1 back-1", "a1 B3", "a1 B2"]),
        ("app_id=a1&open_id=o1".to_owned(), vec!["a1 C1", "a1 P1", "a1 B1"]),
        ("open_id=nobody".to_owned(), vec![]),
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
        ("zone=_b", "zone", r#"expected a zone without an underscore, or a whole zone_id, got "_b""#),
        ("os=i%20os", "os", r#"expected 1 to 32 of 0-9A-Za-z._-, got "i os""#),
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

/// The sums of a row: count, and then gifted and charged coins taken and given back.
fn sums(sums: [i64; 5]) -> Value {
    let [count, free_taken, charge_taken, free_given_back, charge_given_back] = sums;
    let net = free_taken + charge_taken - free_given_back - charge_given_back;
    json!({
        "count": count, "free_taken": free_taken, "charge_taken": charge_taken, "free_given_back": free_given_back,
        "charge_given_back": charge_given_back, "net": net,
    })
}

fn row(groups: &Value, of: [i64; 5]) -> Value {
    let mut row = sums(of);
    row.as_object_mut().unwrap().extend(groups.as_object().unwrap().clone());
    row
}

/// What each report of [`till`] has as its rows: a query, and the rows.
fn reports() -> Vec<(&'static str, Vec<Value>)> {
    let day = |day: &str, of| row(&json!({ "day": day }), of);
    vec![
        ("", vec![day("2026-10-20", [3, 100, 90, 0, 0]), day("2026-10-21", [0, 0, 0, 80, 40])]),
        (
            "&time_zone=Asia/Shanghai",
            vec![day("2026-10-21", [3, 100, 90, 80, 30]), day("2026-10-22", [0, 0, 0, 0, 10])],
        ),
        (
            "&time_zone=Asia/Kathmandu",
            vec![day("2026-10-20", [2, 100, 50, 0, 0]), day("2026-10-21", [1, 0, 40, 80, 40])],
        ),
        (
            "&time_zone=asia/kolkata",
            vec![day("2026-10-20", [3, 100, 90, 0, 0]), day("2026-10-21", [0, 0, 0, 80, 40])],
        ),
        (
            "&group=product_name",
            vec![
                row(&json!({"product_name": "Shield"}), [1, 0, 20, 0, 0]),
                row(&json!({"product_name": "Sword"}), [2, 100, 70, 80, 40]),
            ],
        ),
        (
            "&group=zone",
            vec![
                row(&json!({"zone": "z1"}), [2, 100, 50, 80, 30]),
                row(&json!({"zone": "z2"}), [1, 0, 40, 0, 10]),
            ],
        ),
        (
            "&group=zone,day,product_name",
            vec![
                row(&json!({"day": "2026-10-20", "product_name": "Shield", "zone": "z1"}), [1, 0, 20, 0, 0]),
                row(&json!({"day": "2026-10-20", "product_name": "Sword", "zone": "z1"}), [1, 100, 30, 0, 0]),
                row(&json!({"day": "2026-10-20", "product_name": "Sword", "zone": "z2"}), [1, 0, 40, 0, 0]),
                row(&json!({"day": "2026-10-21", "product_name": "Sword", "zone": "z1"}), [0, 0, 0, 80, 30]),
                row(&json!({"day": "2026-10-21", "product_name": "Sword", "zone": "z2"}), [0, 0, 0, 0, 10]),
            ],
        ),
        (
            "&group=os",
            vec![
                row(&json!({"os": "android"}), [2, 100, 70, 80, 40]),
                row(&json!({"os": "ios"}), [1, 0, 20, 0, 0]),
            ],
        ),
        (
            "&group=os,zone&os=android&item=sw",
            vec![
                row(&json!({"zone": "z1", "os": "android"}), [1, 100, 30, 80, 30]),
                row(&json!({"zone": "z2", "os": "android"}), [1, 0, 40, 0, 10]),
            ],
        ),
        ("&os=ios", vec![day("2026-10-20", [1, 0, 20, 0, 0])]),
        ("&os=iOS", vec![]),
        // In since, out until: of the moments of B2 and B3.
        ("&since=2026-10-20T16:30:00Z&until=2026-10-20T18:20:00Z", vec![day("2026-10-20", [1, 0, 20, 0, 0])]),
        // Without an offset they are in the time zone of the report.
        (
            "&since=2026-10-22&until=2026-10-23&time_zone=Asia/Shanghai",
            vec![day("2026-10-22", [0, 0, 0, 0, 10])],
        ),
        ("&since=2026-10-21T16:00:00.000001Z", vec![]),
    ]
}

async fn assert_reports(caller: &Caller<'_>, when: &str) {
    for (query, rows) in reports() {
        let answer = caller.get(&format!("/reports/revenue?app_id=a1{query}")).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert_eq!(answer.json()["rows"], json!(rows), "{when}: {query}");
        let of = |name: &str| rows.iter().map(|row| row[name].as_i64().unwrap()).sum::<i64>();
        let total = ["count", "free_taken", "charge_taken", "free_given_back", "charge_given_back"].map(of);
        assert_eq!(answer.json()["total"], sums(total), "{when}: {query}");
    }
}

/// Rule 13.2.7: hours that the roll-up does not know by platform come from the ledger.
#[tokio::test(flavor = "multi_thread")]
async fn platforms_from_before_the_roll_up_knew_them_come_from_the_ledger() {
    let (till, _) = till().await;
    let caller = Caller::admin(&till).await;
    till.store.number_events(None).await.unwrap();
    till.store.roll_up_sales().await.unwrap();
    till.execute(
        "DELETE FROM sales_hours WHERE cut > 3 AND hour < '2026-10-20T17:00:00Z';
         UPDATE sales_head SET os_since = '2026-10-20T17:00:00Z'",
    )
    .await;
    assert_reports(&caller, "rolled up").await;
    let program = Program::on(&till.database_url);
    let check = program.json(&["report", "check", "a1"]);
    assert_eq!((&check["ties"], &check["rows"]), (&json!(true), &json!(20)));
    // More exchanges than a report reads one by one. The rest of the console's page stands.
    let grow =
        |by: i64| format!("UPDATE sales_hours SET count = count + {by} WHERE hour = '2026-10-20T16:00:00Z'");
    till.execute(&grow(200_000)).await;
    for (query, field) in [("&group=day,os", "group"), ("&os=ios", "os")] {
        let answer = caller.get(&format!("/reports/revenue?app_id=a1{query}")).await;
        let detail = format!(
            "platforms are summed from 2026-10-20T17:00:00Z on, and more than 200000 exchanges are before it; \
             expected a later beginning, got \"{}\"",
            query.split_once('=').unwrap().1
        );
        assert_eq!(answer.status, 422);
        assert_eq!(answer.json()["errors"], json!([{ "field": field, "detail": detail }]));
    }
    let later = "/reports/revenue?app_id=a1&group=os&since=2026-10-20T17:00:00Z";
    assert_eq!(caller.get(later).await.status, 200);
    let page = till.browser(Role::Finance).await.get("/console/reports?app_id=a1&from=2026-10-20").await;
    let words =
        "Platforms are summed from 2026-10-20 17:00:00 on, and more than 200000 exchanges are before it;";
    assert_eq!((page.status, page.body.contains(words), page.body.contains("Sword")), (200, true, true));
    till.execute(&grow(-200_000)).await;
    // An entry that was archived before archives kept platforms. Its cancel is in the sums.
    till.execute(&ARCHIVE.replace("zone_id, os, NULL", "zone_id, NULL, NULL")).await;
    let report = caller.get("/reports/revenue?app_id=a1&group=os").await.json();
    let of = |os: &str, sums| row(&json!({ "os": os }), sums);
    let rows = [of("", [1, 100, 30, 0, 0]), of("android", [1, 0, 40, 80, 40]), of("ios", [1, 0, 20, 0, 0])];
    assert_eq!(report["rows"], json!(rows));
}

/// Rule 13.2.3 to 13.2.5: by day, product, zone and platform, in zones of quarter and half hours, archived entries too.
#[tokio::test(flavor = "multi_thread")]
async fn revenue_is_summed_by_day_product_and_zone() {
    let (till, _) = till().await;
    let caller = Caller::admin(&till).await;
    assert_reports(&caller, "not rolled up").await;
    till.store.number_events(None).await.unwrap();
    till.store.roll_up_sales().await.unwrap();
    till.store.roll_up_sales().await.unwrap();
    assert_reports(&caller, "rolled up").await;
    till.execute(ARCHIVE).await;
    assert_reports(&caller, "archived").await;
    let query = "/reports/revenue?app_id=a1&since=2026-10-20&until=2026-10-21T01:00&time_zone=Asia/Shanghai&group=zone";
    let expected = json!({
        "app_id": "a1", "since": "2026-10-19T16:00:00Z", "until": "2026-10-20T17:00:00Z", "time_zone": "Asia/Shanghai",
        "rows": [row(&json!({"zone": "z1"}), [2, 100, 50, 0, 0])], "total": sums([2, 100, 50, 0, 0]), "payers": 2,
    });
    assert_answer(&caller.get(query).await, 200, &expected);
    // Without the sums only what is read from the ledger is left: the reports do read them.
    till.execute("DELETE FROM sales_hours").await;
    let all = caller.get("/reports/revenue?app_id=a1").await.json();
    assert_eq!((&all["rows"], &all["total"]), (&json!([]), &sums([0; 5])));
}

/// Rule 13.2.4: a day has the limits that it has in a statement, also where the clocks change in it.
#[tokio::test(flavor = "multi_thread")]
async fn a_day_of_revenue_is_that_of_a_statement() {
    let (till, _) = till().await;
    for (number, at) in [
        ("B1", "2026-03-28T22:59:59.999999Z"),
        ("P1", "2026-03-28T23:00:00Z"),
        ("B2", "2026-03-28T23:00:00Z"),
        ("B3", "2026-03-29T21:59:59.999999Z"),
        ("C1", "2026-03-29T22:00:00Z"),
        ("!back-1", "2026-03-29T22:00:00Z"),
    ] {
        till.execute(&format!("UPDATE ledger_entries SET at = '{at}' WHERE reference = '{number}'")).await;
    }
    till.execute("UPDATE ledger_entries SET at = '2026-03-01T00:00:00Z' WHERE kind = 'credit'").await;
    till.store.number_events(None).await.unwrap();
    till.store.roll_up_sales().await.unwrap();
    let caller = Caller::admin(&till).await;
    let report = caller.get("/reports/revenue?app_id=a1&time_zone=Europe/Berlin").await.json();
    let day = |day: &str, of| row(&json!({ "day": day }), of);
    let days = [
        day("2026-03-28", [1, 100, 30, 0, 0]),
        day("2026-03-29", [2, 0, 60, 0, 0]),
        day("2026-03-30", [0, 0, 0, 80, 40]),
    ];
    assert_eq!(report["rows"], json!(days));
    for row in days {
        let day = row["day"].as_str().unwrap();
        let query = format!("/reports/statement?app_id=a1&day={day}&time_zone=Europe/Berlin");
        let statement = caller.get(&query).await.json();
        for (purse, taken, back) in
            [("free", "free_taken", "free_given_back"), ("charge", "charge_taken", "charge_given_back")]
        {
            let flows = &statement[purse];
            assert_eq!(
                (&flows["exchanges"], &flows["cancels"]),
                (&row[taken], &row[back]),
                "{day}: {statement}"
            );
        }
    }
}

/// Rule 13.2.3: each wrong field by its exact answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_report_is_refused_by_the_field() {
    let till = TestTill::start().await;
    till.app("a1").await;
    let caller = Caller::admin(&till).await;
    for (query, field, detail) in [
        ("app_id=a1&month=2026-10&day=2026-10-01", "month", "expected a month or a day, got both"),
        (
            "app_id=a1&month=2026-10&since=2026-10-01",
            "since",
            "expected a month, a day, or moments, got several of them",
        ),
        (
            "app_id=a1&group=day,hour",
            "group",
            r#"expected one of hour, day and week, app_id, product_name, zone and os, each at most once, with commas between them, got "day,hour""#,
        ),
        (
            "app_id=a1&group=day,day",
            "group",
            r#"expected one of hour, day and week, app_id, product_name, zone and os, each at most once, with commas between them, got "day,day""#,
        ),
        (
            "app_id=a1&time_zone=Mars",
            "time_zone",
            r#"expected the IANA name of a time zone, such as UTC or Asia/Shanghai, got "Mars""#,
        ),
        (
            "app_id=a1&time_zone=%2B08",
            "time_zone",
            r#"expected the IANA name of a time zone, such as UTC or Asia/Shanghai, got "+08""#,
        ),
        (
            "app_id=a1&since=2026-10-02&until=2026-10-02",
            "until",
            r#"expected a moment after since, got "2026-10-02""#,
        ),
        (
            "app_id=a1&since=soon",
            "since",
            r#"expected a date and time such as 2026-11-21 or 2026-11-21T08:00, got "soon""#,
        ),
    ] {
        let wrong = caller.get(&format!("/reports/revenue?{query}")).await;
        assert_problem(&wrong, 422, "invalid-field", &format!("wrong: {field}"));
        assert_eq!(wrong.json()["errors"], json!([{"field": field, "detail": detail}]), "{query}");
    }
    let unknown = caller.get("/reports/revenue?app_id=a9").await;
    assert_problem(&unknown, 404, "not-found", "there is no app a9");
}

/// Rules 13.2.3, 13.2.4 and 13.2.9: over apps, of a zone and a part of a name. By hour and week, rolled up or not, and
/// as a file.
#[tokio::test(flavor = "multi_thread")]
async fn revenue_is_over_apps_and_filtered() {
    let (till, _) = till().await;
    till.execute(
        "UPDATE ledger_entries SET at = '2026-10-20T20:00:00Z' WHERE reference = 'B1' AND free_change = 0",
    )
    .await;
    let caller = Caller::admin(&till).await;
    let reports = [
        (
            "group=app_id&month=2026-10",
            json!([
                row(&json!({"app_id": "a1"}), [3, 100, 90, 80, 40]),
                row(&json!({"app_id": "a2"}), [1, 0, 7, 0, 0])
            ]),
            json!(3),
        ),
        (
            "app_id=a1&group=product_name&zone=z1_r9&item=HIE",
            json!([row(&json!({"product_name": "Shield"}), [1, 0, 20, 0, 0])]),
            json!(1),
        ),
        (
            "app_id=a1&group=zone&product_name=Sword",
            json!([
                row(&json!({"zone": "z1"}), [1, 100, 30, 80, 30]),
                row(&json!({"zone": "z2"}), [1, 0, 40, 0, 10])
            ]),
            json!(2),
        ),
        ("app_id=a1&group=zone&product_name=Swor", json!([]), json!(0)),
        (
            "app_id=a1&group=os&os=android",
            json!([row(&json!({"os": "android"}), [2, 100, 70, 80, 40])]),
            json!(2),
        ),
        ("app_id=a1&group=os&os=ios", json!([row(&json!({"os": "ios"}), [1, 0, 20, 0, 0])]), json!(1)),
        (
            "app_id=a1&group=week,zone&zone=z2&time_zone=Asia/Shanghai",
            json!([row(&json!({"week": "2026-10-19", "zone": "z2"}), [1, 0, 40, 0, 10])]),
            json!(1),
        ),
        (
            "app_id=a1&group=hour&day=2026-10-20&time_zone=Asia/Kolkata",
            json!([
                row(&json!({"hour": "2026-10-20T21:30+05:30"}), [2, 100, 50, 0, 0]),
                row(&json!({"hour": "2026-10-20T23:30+05:30"}), [1, 0, 40, 0, 0])
            ]),
            json!(2),
        ),
    ];
    for when in ["not rolled up", "rolled up"] {
        for (query, rows, payers) in &reports {
            let answer = caller.get(&format!("/reports/revenue?{query}")).await;
            assert_eq!(answer.status, 200, "{}", answer.body);
            assert_eq!((&answer.json()["rows"], &answer.json()["payers"]), (rows, payers), "{when}: {query}");
        }
        till.store.number_events(None).await.unwrap();
        till.store.roll_up_sales().await.unwrap();
    }
    let csv = caller.get("/reports/revenue?app_id=a1&month=2026-10&group=zone&format=csv").await;
    assert_eq!(csv.header("content-disposition"), Some("attachment; filename=\"revenue-a1-2026-10.csv\""));
    let heading = "zone,count,free_taken,charge_taken,free_given_back,charge_given_back,net";
    assert_eq!(
        csv.body,
        format!("{heading}\nz1,2,100,50,80,30,40\nz2,1,0,40,0,10,30\ntotal,3,100,90,80,40,70\n")
    );
    let book = caller
        .get("/reports/revenue?app_id=a1&month=2026-10&group=hour&format=xlsx&time_zone=Asia/Shanghai")
        .await;
    let lines = sheet_lines(&book.bytes, "Revenue");
    assert_eq!(lines[0], "@2026-10-21 00:00:00\t+08:00\t#2\t#100\t#50\t#0\t#0\t#150");
}

/// Rule 13.2.6: the command has the same, as a table, as CSV without formulas, and as JSON.
#[tokio::test(flavor = "multi_thread")]
async fn the_command_prints_revenue_as_a_table_as_csv_and_as_json() {
    let (till, app) = till().await;
    let game = Game::new(&app, "o2", "B9", 3).with("zone_id", "-1_r").with("product_name", "=1+1,\"x\"");
    assert_eq!(game.send(&till).await.code(), 1);
    till.execute("UPDATE ledger_entries SET at = '2026-10-20T17:00:00Z' WHERE reference = 'B9'").await;
    let program = Program::on(&till.database_url);
    let printed = |more: &[&str]| {
        let of = ["report", "revenue", "a1", "--until", "2026-10-21", "--group", "product_name,zone"];
        let output = program.run(&[&of, more].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let heading = "product_name,zone,count,free_taken,charge_taken,free_given_back,charge_given_back,net\n";
    let lines = "\"'=1+1,\"\"x\"\"\",'-1,1,0,3,0,0,3\nShield,z1,1,0,20,0,0,20\nSword,z1,1,100,30,0,0,130\n\
                 Sword,z2,1,0,40,0,0,40\ntotal,,4,100,93,0,0,193\n";
    assert_eq!(printed(&["--csv"]), format!("{heading}{lines}"));
    let table = printed(&[]);
    assert_eq!(table.lines().next(), Some(heading.trim().replace(',', "\t").as_str()));
    assert_eq!(table.lines().last(), Some("total\t\t4\t100\t93\t0\t0\t193"));
    let android = "Sword,z1,1,100,30,0,0,130\nSword,z2,1,0,40,0,0,40\ntotal,,2,100,70,0,0,170\n";
    assert_eq!(printed(&["--csv", "--os", "android", "--item", "Sw"]), format!("{heading}{android}"));
    let json: Value = serde_json::from_str(&printed(&["--json"])).unwrap();
    let query = "/reports/revenue?app_id=a1&until=2026-10-21&group=product_name,zone";
    assert_eq!(json, Caller::admin(&till).await.get(query).await.json());
    let complaint = program.complaint(&["report", "revenue", "a9"]);
    assert_eq!(complaint, "minitill: there is no app a9; to list all apps, run `minitill app list`\n");
    let output = program.run(&["report", "revenue", "a1", "--time-zone", "Mars"]);
    let complaint = String::from_utf8(output.stderr).unwrap();
    let words = "invalid value 'Mars' for '--time-zone <ZONE>': expected the IANA name of a time zone";
    assert!(output.status.code() == Some(2) && complaint.contains(words), "{complaint}");
}

/// Rule 13.2.7 and 13.2.8: the sums of the hours tie to the ledger before, while and after they are added up. A
/// difference is reported.
#[tokio::test(flavor = "multi_thread")]
async fn the_roll_up_ties_to_the_ledger_and_a_difference_is_told() {
    let (till, app) = till().await;
    let program = Program::on(&till.database_url);
    let check = || program.json(&["report", "check", "a1"]);
    let ties = |rows: u32, left: u32| json!({"app_id": "a1", "ties": true, "rows": rows, "not_rolled_up": left, "differs": []});
    assert_eq!(check(), ties(0, 5), "nothing is rolled up");
    till.store.number_events(None).await.unwrap();
    assert_eq!(check(), ties(0, 5), "what has a number and is not rolled up");
    till.store.roll_up_sales().await.unwrap();
    // 16:00: Shield and Sword in z1, on two platforms; 18:00, 15:00 and 16:00: Sword, each in one zone.
    assert_eq!(check(), ties(9 + 5 + 5 + 5, 0));
    assert_eq!(Game::new(&app, "o2", "B8", 3).send(&till).await.code(), 1);
    assert_eq!(check(), ties(24, 1));
    till.store.number_events(None).await.unwrap();
    till.store.roll_up_sales().await.unwrap();
    assert_eq!(check(), ties(29, 0));
    till.execute(ARCHIVE).await;
    assert_eq!(check(), ties(29, 0), "archived entries stay in the sums");

    till.execute("UPDATE sales_hours SET count = count + 1, free_taken = free_taken + 7 WHERE cut = 2 AND product_name = 'Shield'")
        .await;
    let output = program.run(&["report", "check", "a1", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let difference = json!({"hour": "2026-10-20T16:00:00Z", "product_name": "Shield", "zone": "", "os": "", "count": 1, "net": "7"});
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&told["ties"], &told["differs"]), (&json!(false), &json!([difference])));
    let complaint = program.complaint(&["report", "check", "a9"]);
    assert_eq!(complaint, "minitill: there is no app a9; to list all apps, run `minitill app list`\n");
}

/// Rule 13.2.7: an exchange whose transaction ends late is in the report when it is there, and in the roll-up once.
#[tokio::test(flavor = "multi_thread")]
async fn two_servers_that_roll_up_at_once_add_each_exchange_once() {
    let (till, app) = till().await;
    for place in 0..40 {
        assert_eq!(Game::new(&app, "o2", &format!("D{place}"), 1).send(&till).await.code(), 1);
        if place % 10 == 0 {
            till.store.number_events(None).await.unwrap();
        }
        let (one, other) = tokio::join!(till.store.roll_up_sales(), till.store.roll_up_sales());
        one.unwrap();
        other.unwrap();
    }
    till.store.number_events(None).await.unwrap();
    till.store.roll_up_sales().await.unwrap();
    let check = till.store.check_roll_up(&app.id).await.unwrap();
    assert!(check.ties && check.not_rolled_up == 0, "{check:?}");
    assert_eq!(till.number("SELECT sum(count)::bigint FROM sales_hours WHERE cut = 3").await, 44);
    // An event stays until its entry is in the sums.
    till.execute("UPDATE events SET at = now() - interval '90 days'; UPDATE sales_head SET through_no = 0")
        .await;
    till.execute("ALTER TABLE sales_hours RENAME TO away").await;
    till.store.remove_old_events(std::time::Duration::from_mins(1)).await.unwrap_err();
    assert!(till.number("SELECT count(*) FROM events").await > 0);
}
