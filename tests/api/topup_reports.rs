//! Income of payments, and the charged coins that are unused (contract 19.8).

use domain::console_user::Role;
use serde_json::{Value, json};

use crate::admin::{Caller, assert_problem};
use crate::game::Game;
use crate::support::program::Program;
use crate::support::{TestApp, TestTill};
use crate::topups::{app, keep_unmatched, payment, tell};
use crate::workbook::sheet_lines;

/// A direct payment of o2 or another player.
fn direct(id: &str, open_id: &str, product: &str, amount: i64) -> Value {
    let mut told = payment(id, "");
    told.as_object_mut().unwrap().remove("biz_no");
    (told["open_id"], told["product_id"], told["amount"]) = (open_id.into(), product.into(), amount.into());
    told
}

async fn refund(admin: &Caller<'_>, payment: &str, id: &str, amount: i64) {
    let body = json!({"refund_id": id, "amount": amount, "reason": "r", "shortfall": "record"});
    let answer = admin.send("POST", &format!("/apps/a1/topups/stripe/{payment}/refunds"), None, &body).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
}

/// Puts all that the wallets have so far on this day of October.
async fn at(till: &TestTill, day: u8) {
    let at = format!("'2026-10-{day:02}T15:50:00Z'");
    for (table, time, of) in [
        ("ledger_entries", "at", "true"),
        ("topup_payments", "credited_at", "credited_at IS NOT NULL"),
        ("topup_payments", "created_at", "true"),
        ("topup_refunds", "refunded_at", "refunded_at IS NOT NULL"),
        ("topup_settlements", "settled_at", "true"),
    ] {
        till.execute(&format!("UPDATE {table} SET {time} = {at} WHERE {of} AND {time} > '2026-11-01'")).await;
    }
}

fn text(program: &Program, arguments: &[&str]) -> String {
    String::from_utf8(program.run(arguments).stdout).unwrap()
}

async fn till() -> (TestTill, TestApp, Program) {
    let till = TestTill::start().await;
    let app = app(&till).await;
    let program = Program::on(&till.database_url);
    (till, app, program)
}

/// Rules 19.8.1 to 19.8.3: payments count when they were credited, and refunds when they were carried out, by currency.
/// Those that wait are apart. The coins are the top-ups of the statement.
#[tokio::test(flavor = "multi_thread")]
async fn what_payments_have_brought_is_summed_by_group_and_ties_to_the_statement() {
    let (till, app, program) = till().await;
    let (admin, caller) = (Caller::admin(&till).await, Caller::new(&till, "payments", Role::Payments).await);
    let mut first = direct("pi_1", "o1", "gems60", 600);
    (first["os"], first["fee"]) = ("ios".into(), 18.into());
    assert_eq!(tell(&caller, &first).await.status, 200);
    at(&till, 20).await;
    let mut other = direct("pi_2", "o2", "gems6", 60);
    other["provider"] = "wechat".into();
    for told in [&other, &direct("pi_3", "o2", "gems60", 600)] {
        assert_eq!(tell(&caller, told).await.status, 200);
    }
    refund(&admin, "pi_1", "re_1", 300).await;
    keep_unmatched(&till, &app, "stripe", "pi_9").await;
    at(&till, 21).await;
    let of = ["report", "topups", "a1", "--month", "2026-10"];
    let report = program.json(&of);
    let expected = json!({
        "app_id": "a1", "since": "2026-10-01T00:00:00Z", "until": "2026-11-01T00:00:00Z", "time_zone": "UTC",
        "rows": [
            {"day": "2026-10-20", "currency": "CNY", "payments": 1, "amount": 600, "fee": 18, "refunded": 0, "charge": 60, "bonus": 6},
            {"day": "2026-10-21", "currency": "CNY", "payments": 2, "amount": 660, "fee": 0, "refunded": 300, "charge": 66, "bonus": 6},
        ],
        "unmatched": [{"currency": "CNY", "payments": 1, "amount": 600}],
    });
    assert_eq!(report, expected);
    let statement = program.json(&["report", "statement", "a1", "--month", "2026-10"]);
    assert_eq!((&statement["charge"]["topups"], &statement["free"]["topups"]), (&json!(126), &json!(12)));

    // A day begins by the clock of the zone: 15:50 UTC is 00:50 of the next day in Seoul.
    let by = |group: &'static str| [&of[..], &["--time-zone", "Asia/Seoul", "--group", group]].concat();
    let days = program.json(&by("day"));
    assert_eq!(
        (&days["rows"][0]["day"], &days["rows"][1]["day"]),
        (&json!("2026-10-21"), &json!("2026-10-22"))
    );
    let grouped = program.json(&by("os,provider,product_id,currency"));
    let expected = json!([
        {"provider": "stripe", "product_id": "gems60", "os": "", "currency": "CNY", "payments": 1, "amount": 600, "fee": 0, "refunded": 0, "charge": 60, "bonus": 6},
        {"provider": "stripe", "product_id": "gems60", "os": "ios", "currency": "CNY", "payments": 1, "amount": 600, "fee": 18, "refunded": 300, "charge": 60, "bonus": 6},
        {"provider": "wechat", "product_id": "gems6", "os": "", "currency": "CNY", "payments": 1, "amount": 60, "fee": 0, "refunded": 0, "charge": 6, "bonus": 0},
    ]);
    assert_eq!(grouped["rows"], expected);
    let csv = text(&program, &["report", "topups", "a1", "--day", "2026-10-20", "--csv"]);
    assert_eq!(
        csv,
        "day,currency,payments,amount,fee,refunded,charge,bonus\n2026-10-20,CNY,1,600,18,0,60,6\n"
    );
    let table = text(&program, &["report", "topups", "a1", "--month", "2026-10"]);
    let end = "amount, fee and refunded: in minor units\nunmatched: 1 payment of 6.00 CNY\n";
    assert!(table.ends_with(end), "{table}");
    // Rule 13.8.1: without a period it is of all time.
    let all = program.json(&["report", "topups", "a1"]);
    assert_eq!((&all["rows"], &all["unmatched"]), (&report["rows"], &report["unmatched"]));
    assert_eq!(
        (&all["since"], &all["until"]),
        (&json!("1970-01-01T00:00:00Z"), &json!("9999-12-31T00:00:00Z"))
    );
    let api = admin.get("/reports/topups?app_id=a1&month=2026-10").await;
    assert_eq!(api.json(), report);
    let file = admin.get("/reports/topups?app_id=a1&day=2026-10-20&format=csv").await;
    let name = "attachment; filename=\"topups-a1-2026-10-20.csv\"";
    assert_eq!((file.body.as_str(), file.header("content-disposition")), (csv.as_str(), Some(name)));
    let book = admin.get("/reports/topups?app_id=a1&day=2026-10-20&group=product_id&format=xlsx").await;
    assert_eq!(sheet_lines(&book.bytes, "Top-ups"), ["gems60\tCNY\t#1\t#600\t#18\t#0\t#60\t#6"]);
    // Rule 13.8.5: the sums of the workbook are by currency.
    let book = admin.get("/reports/topups?app_id=a1&month=2026-10&format=xlsx").await;
    assert_eq!(sheet_lines(&book.bytes, "Sums"), ["CNY\t#3\t#1260\t#18\t#300\t#126\t#12"]);
    let wrong = admin.get("/reports/topups?app_id=a1&month=2026-10&group=week").await;
    assert_problem(&wrong, 422, "invalid-field", "wrong: group");
}

/// Rules 19.8.4 to 19.8.7: what is unused comes from the newest lots, in the money that it has cost. Refunds and
/// settlements take from the lots that they are of. All of it is the sum of the charged purses, now and at a moment.
#[tokio::test(flavor = "multi_thread")]
async fn unused_coins_are_those_of_the_newest_lots_and_sum_to_the_purses() {
    let (till, app, program) = till().await;
    let (admin, caller) = (Caller::admin(&till).await, Caller::new(&till, "payments", Role::Payments).await);
    // o1 has 100 charged coins without a price, then 60 at 10, then 6 at 10; o2 has 20 without a price, then 60.
    program.json(&["wallet", "credit", "a1", "o2", "--create", "--charge", "20", "--ref", "r2"]);
    assert_eq!(tell(&caller, &direct("pi_1", "o1", "gems60", 600)).await.status, 200);
    assert_eq!(tell(&caller, &direct("pi_2", "o1", "gems6", 60)).await.status, 200);
    assert_eq!(tell(&caller, &direct("pi_3", "o2", "gems60", 600)).await.status, 200);
    at(&till, 20).await;
    let unused = |more: &[&str]| program.json(&[&["report", "unused", "a1"], more].concat());
    let found = unused(&["--at", "2026-10-21"]);
    let row = |coins: i64| json!([{"currency": "CNY", "price": "10", "unused": coins, "money": coins * 10}]);
    let expected = json!({
        "app_id": "a1", "at": "2026-10-21T00:00:00Z", "rows": row(126),
        "by_currency": [{"currency": "CNY", "unused": 126, "money": 1260}], "without_price": 120, "total": 246,
    });
    assert_eq!(found, expected);

    // The 100 without a price, and 10 of those that were paid.
    assert_eq!(Game::new(&app, "o1", "b1", 110).send(&till).await.code(), 1);
    refund(&admin, "pi_3", "re_3", 300).await;
    at(&till, 21).await;
    let now = unused(&[]);
    assert_eq!(
        (&now["rows"], &now["without_price"], &now["total"]),
        (&row(56 + 30), &json!(20), &json!(106))
    );
    assert_eq!(unused(&["--at", "2026-10-21"])["total"], 246);

    // o2 spends all, and the rest of the refund becomes a debt of 30, which 60 new coins settle.
    assert_eq!(Game::new(&app, "o2", "b2", 50).send(&till).await.code(), 1);
    refund(&admin, "pi_3", "re_4", 300).await;
    assert_eq!(tell(&caller, &direct("pi_4", "o2", "gems60", 600)).await.status, 200);
    assert_eq!(till.purses(&app, "o2").await.1, 30);
    at(&till, 22).await;
    let now = unused(&[]);
    assert_eq!((&now["rows"], &now["total"]), (&row(56 + 30), &json!(86)));
    let of_each: i64 = ["pi_1", "pi_2", "pi_3", "pi_4"]
        .map(|id| program.json(&["topup", "consumption", "a1", "stripe", id])["unused"].as_i64().unwrap())
        .iter()
        .sum();
    assert_eq!(of_each, 86, "the report is the sum of the consumption of each payment");
    let charged = till.number("SELECT sum(charge_balance)::bigint FROM wallets").await;
    assert_eq!(charged, 86);
    let before = unused(&["--at", "2026-10-22"]);
    assert_eq!((&before["rows"], &before["total"]), (&row(56 + 30), &json!(106)));

    // 50 coins come back to o2: 30 fill the newest lot, and 20 are the oldest ones, since the lot between is refunded.
    assert_eq!(Game::cancel(&app, "o2", "c2", "b2", 50).send(&till).await.code(), 1);
    let now = unused(&[]);
    assert_eq!(
        (&now["rows"], &now["without_price"], &now["total"]),
        (&row(56 + 60), &json!(20), &json!(136))
    );

    let api = admin.get("/reports/unused?app_id=a1&at=2026-10-21").await;
    assert_eq!(api.json(), expected);
    let csv = text(&program, &["report", "unused", "a1", "--csv"]);
    assert_eq!(csv, "currency,price,unused,money\nCNY,10,116,1160\nwithout_price,,20,\ntotal,,136,\n");
    let table = text(&program, &["report", "unused", "a1"]);
    let sums = "\nCNY: 116 coins, 1160 in minor units\nwithout a price: 20\ntotal: 136\n";
    assert!(table.ends_with(sums), "{table}");
    let file = admin.get("/reports/unused?app_id=a1&format=csv").await;
    assert_eq!((file.status, file.body), (200, csv));
    let query = "/reports/unused?app_id=a1&at=2026-10-22&time_zone=Asia/Shanghai&format=xlsx";
    let book = admin.get(query).await;
    let name = "attachment; filename=\"unused-a1-2026-10-22.xlsx\"";
    assert_eq!(book.header("content-disposition"), Some(name));
    assert_eq!(sheet_lines(&book.bytes, "Unused coins"), ["CNY\t10\t#86\t#860"]);
    let later = admin.get("/reports/unused?app_id=a1&at=9999-01-01").await;
    assert_problem(&later, 422, "invalid-field", "wrong: at");
    till.execute("UPDATE topup_payments SET charge = 1 WHERE provider_order_id = 'pi_4'").await;
    let refused = program.run(&["report", "unused", "a1"]);
    assert_eq!(refused.status.code(), Some(1), "coins that no lot has are not reported");
}
