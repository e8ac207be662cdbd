//! Refused exchanges, presents and cancels leave a trace (contract 13.1).

use std::time::Duration;

use domain::app::Scope;
use domain::app_settings::AppLimitsChange;
use domain::code::Code;
use domain::ids::{AppId, BizNo, OpenId};
use domain::ledger::ReferenceKind;
use domain::operation::app::AppCommand;
use domain::per_second::PerSecond;
use serde_json::{Value, json};
use store::{RefusedChange, RefusedContent};

use crate::admin::{Caller, assert_answer, assert_problem};
use crate::game::Game;
use crate::support::program::Program;
use crate::support::{AppKind, TestApp, TestTill, until};

/// The item that a game of these tests buys.
const SWORD: &str = "Sword & shield = 100%";

/// An app that may do everything but give presents, and a player with 10 charged coins.
async fn till() -> (TestTill, TestApp) {
    let till = TestTill::start().await;
    let app = till.app_like("a1", AppKind { scopes: &[Scope::Cancel], ..AppKind::default() }).await;
    till.player(&app, "o1", 0, 10).await;
    (till, app)
}

/// Sends a request with this id, and gives the code of its answer.
async fn send(till: &TestTill, game: &Game, request_id: &str) -> u64 {
    till.send(game.request().header("x-request-id", request_id)).await.code()
}

/// What was written, as kind, code, number, player, count and id of the last request.
async fn written(till: &TestTill) -> Vec<(String, i64, String, String, i64, String)> {
    till.store.write_refusals().await.unwrap();
    let rows =
        "SELECT kind, code, biz_no, open_id, count, request_id FROM exchange_refusals ORDER BY biz_no, code";
    sqlx::query_as(rows).fetch_all(&till.sql).await.unwrap()
}

/// 13.1.1 to 13.1.4: whatever refuses a signed change leaves a row, with its code, from the first check to the last.
#[tokio::test(flavor = "multi_thread")]
async fn each_refusal_of_a_signed_change_is_kept_with_its_code() {
    let (till, app) = till().await;
    let pay = |number: &str| Game::new(&app, "o1", number, 4);
    assert_eq!(send(&till, &pay("paid"), "r0").await, 1);
    let refused = [
        (pay("n01").with("access_token", "guess"), 100_200_102),
        (pay("n02").without("access_token"), 100_200_102),
        (Game::present(&app, "o1", "n03", 1), 100_200_102),
        (pay("n04").without("product_name"), 10_000_200),
        (pay("n05").with("amount", "0"), 10_000_200),
        (pay("n06").with("ts", "1700000000"), 10_000_604),
        (pay("n07").with("open_id", "nobody"), 10_000_423),
        (pay("n08").with("amount", 7), 10_000_601),
        (Game::cancel(&app, "o1", "n09", "paid", 5), 10_000_605),
        (Game::cancel(&app, "o1", "n10", "other", 5), 10_000_606),
        (pay("paid").with("amount", 5), 10_000_602),
    ];
    let mut expected = Vec::new();
    for (place, (game, code)) in refused.iter().enumerate() {
        let id = format!("r{}", place + 1);
        assert_eq!(send(&till, game, &id).await, *code, "{id}");
        let kind = match place + 1 {
            3 => "present",
            9 | 10 => "cancel",
            _ => "exchange",
        };
        let field = |name: &str| game.fields[name].clone();
        let code = i64::try_from(*code).unwrap();
        expected.push((kind.to_owned(), code, field("biz_no"), field("open_id"), 1, id));
    }
    assert_eq!(till.number("SELECT count(*) FROM exchange_refusals").await, 0, "nothing is written at once");
    assert_eq!(written(&till).await, expected);
    assert_eq!(written(&till).await, expected, "what was written is not written again");
    assert_eq!(till.number("SELECT count(*) FROM ledger_entries").await, 2, "no refusal uses its number");
    till.assert_audit_clean().await;
}

/// Amount, item and both purses of a trace.
type WhatWasAsked = (Option<i64>, Option<String>, Option<i64>, Option<i64>);

/// 13.1.10: a trace has what was asked for the last time and what the purses held, wherever the till has looked at them.
#[tokio::test(flavor = "multi_thread")]
async fn a_trace_has_what_was_asked_for_and_both_purses() {
    let (till, app) = till().await;
    till.player(&app, "full", i64::MAX, 3).await;
    let pay = |number: &str| Game::new(&app, "o1", number, 4);
    assert_eq!(send(&till, &pay("paid"), "r0").await, 1);
    assert_eq!(send(&till, &pay("gone"), "r0").await, 1);
    till.execute("UPDATE ledger_entries SET at = at - interval '3 days' WHERE reference = 'gone'").await;
    let (amount, item) = (Some(4), Some(SWORD));
    let cases = [
        (pay("n01").with("access_token", "guess"), amount, item, None),
        (pay("n02").with("amount", "0").with("product_name", ""), None, None, None),
        (pay("n03").with("ts", "1700000000"), amount, item, Some((0, 2))),
        (pay("n04").with("open_id", "nobody"), amount, item, None),
        (pay("n05").with("amount", 7), Some(7), item, Some((0, 2))),
        (Game::cancel(&app, "o1", "n06", "paid", 5), Some(5), None, Some((0, 2))),
        (Game::cancel(&app, "o1", "n07", "other", 5), Some(5), None, Some((0, 2))),
        (pay("paid").with("amount", 5), Some(5), item, Some((0, 2))),
        (pay("gone"), amount, item, Some((0, 2))),
    ];
    for (game, ..) in &cases {
        assert_ne!(send(&till, game, "r").await, 1, "{:?}", game.fields);
    }
    till.store.write_refusals().await.unwrap();
    let rows =
        "SELECT amount, product_name, free_balance, charge_balance FROM exchange_refusals WHERE biz_no = $1";
    for (game, amount, item, purses) in cases {
        let number = &game.fields["biz_no"];
        let row: WhatWasAsked = sqlx::query_as(rows).bind(number).fetch_one(&till.sql).await.unwrap();
        let (free, charge) = purses.unzip();
        assert_eq!(row, (amount, item.map(str::to_owned), free, charge), "{number}");
    }
    // The last time counts, in one write and over two.
    assert_eq!(send(&till, &pay("n05").with("amount", 9), "r").await, 10_000_601);
    till.store.write_refusals().await.unwrap();
    let row: WhatWasAsked = sqlx::query_as(rows).bind("n05").fetch_one(&till.sql).await.unwrap();
    assert_eq!(row, (Some(9), Some(SWORD.to_owned()), Some(0), Some(2)));
}

/// 13.1.11: the list, with each filter, on the admin API and the command line; pages neither skip nor repeat.
#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_listed_by_app_player_code_and_time() {
    let till = TestTill::start().await;
    for app in ["a1", "a2", "a3"] {
        till.app(app).await;
    }
    till.execute(
        "INSERT INTO exchange_refusals (app_id, biz_no, open_id, code, kind, first_at, last_at, count, request_id, amount)
         SELECT 'a' || 1 + n % 2, 'N' || n, 'o' || n % 3, 10000601 + n % 2, 'exchange', now() - interval '2 days',
             date_trunc('minute', now()) - (n / 3) * interval '1 hour', 1, 'r', n
         FROM generate_series(0, 11) n",
    )
    .await;
    till.execute(
        "INSERT INTO exchange_refusals (app_id, biz_no, open_id, code, kind, first_at, last_at, count, request_id)
         SELECT 'a3', 'OLD', 'o1', 10000601, 'exchange', at, at, 1, 'r' FROM (SELECT now() - interval '31 days' AS at) o",
    )
    .await;
    let caller = Caller::admin(&till).await;
    let numbers = |body: &Value| -> Vec<i64> {
        body["items"].as_array().unwrap().iter().map(|row| row["amount"].as_i64().unwrap()).collect()
    };
    let at = async |amount: i64| {
        let sql = format!(
            "SELECT extract(epoch FROM last_at)::bigint FROM exchange_refusals WHERE amount = {amount}"
        );
        let seconds = till.number(&sql).await;
        domain::moment::rfc3339(time::OffsetDateTime::from_unix_timestamp(seconds).unwrap())
    };
    // At one time: by app and number, the greatest first.
    let all = [1, 2, 0, 5, 3, 4, 7, 8, 6, 9, 11, 10];
    let program = Program::on(&till.database_url);
    let (since, until) = (at(6).await, at(3).await);
    for (query, flags, expected) in [
        (String::new(), vec![], all.to_vec()),
        ("app_id=a1".to_owned(), vec!["--app", "a1"], vec![2, 0, 4, 8, 6, 10]),
        ("app_id=a3".to_owned(), vec!["--app", "a3"], vec![]),
        ("open_id=o1".to_owned(), vec!["--open-id", "o1"], vec![1, 4, 7, 10]),
        ("code=10000602".to_owned(), vec!["--code", "10000602"], vec![1, 5, 3, 7, 9, 11]),
        (format!("since={since}&until={until}"), vec!["--since", &since, "--until", &until], vec![7, 8, 6]),
    ] {
        let listed = caller.get(&format!("/refusals?{query}")).await.json();
        assert_eq!(numbers(&listed), expected, "{query}");
        let printed = program.json(&[&["refusal", "list"][..], &flags].concat());
        assert_eq!(printed["refusals"], listed["items"], "{flags:?}");
    }
    // People read what a code means. A moment without an offset is in the zone that was named.
    let there = since.trim_end_matches('Z');
    let there = domain::moment::parse(there).unwrap() + Duration::from_hours(14);
    let there = domain::moment::plain(there).replace(' ', "T");
    let flags = ["refusal", "list", "--since", &there, "--time-zone", "Pacific/Kiritimati", "--limit", "1"];
    let printed = String::from_utf8(program.run(&flags).stdout).unwrap();
    let (heading, row) = printed.trim_end().split_once('\n').unwrap();
    assert!(heading.starts_with("last_at\tapp_id\tkind\tcode\tmeaning\tcount"), "{heading}");
    assert!(
        row.contains("\ta2\texchange\t10000602\tbiz_no already used with other content\t1\to1\tN1\t1"),
        "{row}"
    );
    assert_eq!(program.json(&flags[..6])["refusals"].as_array().unwrap().len(), 9);
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let page = caller.get(&format!("/refusals?limit=5{after}")).await.json();
        seen.extend(numbers(&page));
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
        assert!(seen.len() < 99, "the pages end");
    }
    assert_eq!(seen, all);
    let wrong = caller.get("/refusals?code=601").await;
    assert_eq!(
        (wrong.status, wrong.json()["errors"][0]["detail"].as_str()),
        (422, Some("expected a code of a refusal, such as 10000601, got \"601\""))
    );
}

/// Rule 13.8.1: a span of no time is refused, by commands and by the admin API.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_no_time_is_refused() {
    let till = TestTill::start().await;
    till.app("a1").await;
    let (caller, program) = (Caller::admin(&till).await, Program::on(&till.database_url));
    for list in ["/refusals", "/exchanges", "/operator-log"] {
        let wrong = caller.get(&format!("{list}?since=2026-10-02&until=2026-10-01")).await;
        let told = json!([{
            "field": "until", "detail": "expected a moment after since, got \"2026-10-01T00:00:00Z\"",
        }]);
        assert_eq!((wrong.status, &wrong.json()["errors"]), (422, &told), "{list}");
    }
    let flags = ["refusal", "list", "--since", "2026-10-02", "--until", "2026-10-01"];
    assert_eq!(program.complaint(&flags), "minitill: --until: expected a moment after since\n");
    let flags = ["report", "bill", "a1", "--since", "2026-10-02", "--until", "2026-10-01"];
    assert_eq!(program.complaint(&flags), "minitill: --until: expected a moment after since\n");
}

/// Rule 8.1.8: a plus that a query did not escape comes as a blank, and counts as a plus.
#[tokio::test(flavor = "multi_thread")]
async fn a_plus_that_is_not_escaped_is_read() {
    let till = TestTill::start().await;
    let caller = Caller::admin(&till).await;
    for list in ["/refusals", "/exchanges", "/operator-log"] {
        for (until, status) in [("2026-10-01T00:00:00Z", 422), ("2026-10-01T08:00:01+08:00", 200)] {
            let answer = caller.get(&format!("{list}?since=2026-10-01T08:00:00+08:00&until={until}")).await;
            assert_eq!(answer.status, status, "{list}, {until}: {}", answer.body);
            let named = answer.status == 200 || answer.json()["errors"][0]["field"] == "until";
            assert!(named, "{list}: {}", answer.body);
        }
    }
}

/// 13.1.3: also those that come before the signature is checked.
#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_app_and_a_rate_limit_leave_a_trace_too() {
    let (till, app) = till().await;
    let limits =
        AppLimitsChange { exchanges_per_second: Some(PerSecond::new(1)), ..AppLimitsChange::default() };
    till.command(&app, AppCommand::Limit(limits)).await;
    till.clock.advance(Duration::from_secs(5));
    let pay = |number: &str| Game::new(&app, "o1", number, 1);
    assert_eq!(send(&till, &pay("n1"), "r1").await, 1);
    assert_eq!(send(&till, &pay("n2"), "r2").await, 10_000_305);
    till.command(&app, AppCommand::Suspend(true)).await;
    till.clock.advance(Duration::from_secs(5));
    assert_eq!(send(&till, &pay("n3"), "r3").await, 100_200_102);
    let row = |code, number: &str, id: &str| {
        ("exchange".to_owned(), code, number.to_owned(), "o1".to_owned(), 1, id.to_owned())
    };
    assert_eq!(written(&till).await, [row(10_000_305, "n2", "r2"), row(100_200_102, "n3", "r3")]);
}

/// 13.1.2: who has no pay key of the app writes nothing, and neither does what names no player or number.
#[tokio::test(flavor = "multi_thread")]
async fn strangers_and_requests_without_a_player_or_a_number_leave_nothing() {
    let (till, app) = till().await;
    let other = till.app("a2").await;
    let pay = || Game::new(&app, "o1", "n1", 99);
    let cases = [
        (pay().keyed(&other.pay_key), 100_200_114),
        (pay().keyed("guess").with("access_token", "guess"), 100_200_102),
        (pay().with("sign", ""), 100_200_114),
        (pay().with("sign", "00").with("amount", "0"), 100_200_114),
        (pay().with("app_id", "a9"), 100_200_102),
        (pay().with("app_id", "a.9"), 100_200_102),
        (pay().with("access_token", &other.token).keyed(&other.pay_key), 100_200_102),
        (pay().with("biz_no", "n-1"), 10_000_200),
        (pay().without("biz_no"), 10_000_200),
        (pay().with("open_id", "o.1"), 10_000_423),
        (pay().without("open_id"), 10_000_200),
        (Game::balance(&app, "nobody"), 10_000_423),
        (Game::query(&app, "o1", "n1"), 10_000_606),
    ];
    for (game, code) in cases {
        assert_eq!(send(&till, &game, "r").await, code, "{:?}", game.fields);
    }
    let json = till.send(pay().request().body("{}")).await;
    assert_eq!(json.code(), 10_000_200);
    assert_eq!(written(&till).await, []);
}

/// 13.1.5 and 13.1.6: the number and the player show it; a number that was only ever refused is shown.
#[tokio::test(flavor = "multi_thread")]
async fn the_number_and_the_player_show_what_was_refused() {
    let (till, app) = till().await;
    let caller = Caller::admin(&till).await;
    let none = caller.get("/apps/a1/exchanges/B1").await;
    assert_problem(&none, 404, "not-found", "there is no exchange B1 of an app a1");
    assert_eq!(caller.get("/apps/a1/wallets/o1").await.json()["refusals"], json!([]));
    let game = Game::new(&app, "o1", "B1", 11);
    assert_eq!(send(&till, &game, "first").await, 10_000_601);
    till.clock.advance(Duration::from_secs(3));
    assert_eq!(send(&till, &game, "second").await, 10_000_601);
    assert_eq!(send(&till, &game.clone().with("open_id", "o2"), "third").await, 10_000_423);
    till.clock.advance(Duration::from_secs(7));
    till.store.write_refusals().await.unwrap();

    let shown = caller.get("/apps/a1/exchanges/B1").await;
    let body = shown.json();
    let time = |place: usize, name: &str| body["refusals"][place][name].clone();
    let row = |place: usize,
               open_id: &str,
               code: u32,
               count: u32,
               id: &str,
               balances: (Option<i64>, Option<i64>)| {
        json!({
            "open_id": open_id, "biz_no": "B1", "kind": "exchange", "code": code, "first_at": time(place, "first_at"),
            "last_at": time(place, "last_at"), "count": count, "request_id": id, "amount": 11, "product_name": SWORD,
            "free_balance": balances.0, "charge_balance": balances.1,
        })
    };
    let first = row(0, "o1", 10_000_601, 2, "second", (Some(0), Some(10)));
    let other = row(1, "o2", 10_000_423, 1, "third", (None, None));
    let refusals = json!([first, other]);
    assert_answer(&shown, 200, &json!({"app_id": "a1", "biz_no": "B1", "refusals": refusals}));
    let wallet = json!({
        "app_id": "a1", "open_id": "o1", "free_balance": 0, "charge_balance": 10, "entries": 1, "debt": null, "frozen": false,
        "frozen_until": null, "refusals": [first],
    });
    assert_answer(&caller.get("/apps/a1/wallets/o1").await, 200, &wallet);
    let program = Program::on(&till.database_url);
    assert_eq!(program.json(&["exchange", "show", "a1", "B1"]), body);
    let text = program.run(&["exchange", "show", "a1", "B1"]);
    assert_eq!(text.status.code(), Some(0));
    // By the database's clock, from what the server's clock says of the time since.
    let seconds = |of: &str| {
        format!("SELECT round(extract(epoch FROM {of}))::bigint FROM exchange_refusals WHERE open_id = 'o1'")
    };
    assert_eq!(till.number(&seconds("last_at - first_at")).await, 3);
    let since = till.number(&seconds("now() - last_at")).await;
    assert!((7..60).contains(&since), "{since}");

    let paid = Game::new(&app, "o1", "B1", 10);
    assert_eq!(paid.send(&till).await.code(), 1);
    let exchange = caller.get("/apps/a1/exchanges/B1").await.json();
    assert_eq!((&exchange["amount"], &exchange["refusals"]), (&json!(10), &refusals));
    till.execute("UPDATE exchange_refusals SET last_at = now() - interval '31 days' WHERE open_id = 'o2'")
        .await;
    let exchange = caller.get("/apps/a1/exchanges/B1").await.json();
    assert_eq!(exchange["refusals"].as_array().map(Vec::len), Some(1), "after 30 days it is not shown");
    assert_eq!(till.store.remove_old_refusals().await.unwrap(), 1);
}

fn refused(app: &str, number: usize) -> RefusedChange {
    RefusedChange {
        app_id: AppId::parse(app).unwrap(),
        open_id: OpenId::parse("o1").unwrap(),
        biz_no: BizNo::parse(&format!("N{number}")).unwrap(),
        kind: ReferenceKind::Exchange,
        code: Code::InsufficientBalance,
        request_id: "r".to_owned(),
        asked: RefusedContent::default(),
    }
}

/// 13.1.7: a flood of one app is bounded in memory and in rows, and the other app's refusals are kept.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_refused_numbers_is_bounded() {
    let till = TestTill::start().await;
    till.app("a1").await;
    till.app("a2").await;
    (0..20_000).for_each(|number| till.store.note_refusal(refused("a1", number)));
    (0..7).for_each(|number| till.store.note_refusal(refused("a2", number)));
    till.store.write_refusals().await.unwrap();
    let rows = async |app: &str| {
        till.number(&format!("SELECT count(*) FROM exchange_refusals WHERE app_id = '{app}'")).await
    };
    assert_eq!((rows("a1").await, rows("a2").await), (1_000, 7));
    till.execute(
        "INSERT INTO exchange_refusals
         SELECT 'a1', 'old' || n, 'o1', 10000601, 'exchange', now() - interval '1 day',
             now() - interval '1 day' - n * interval '1 second', 1, 'r'
         FROM generate_series(1, 106000) n",
    )
    .await;
    assert_eq!(till.store.remove_old_refusals().await.unwrap(), 7_000);
    assert_eq!((rows("a1").await, rows("a2").await), (100_000, 7));
    let left = "SELECT count(*) FROM exchange_refusals WHERE biz_no = 'N0' OR biz_no = 'old99000'";
    assert_eq!(till.number(left).await, 3, "the newest stay");
    assert_eq!(till.store.remove_old_refusals().await.unwrap(), 0);
}

/// 13.1.8: what could not be written is in the next write, with what came meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn what_could_not_be_written_waits_for_the_next_write() {
    let (till, app) = till().await;
    let game = Game::new(&app, "o1", "B1", 11);
    assert_eq!(send(&till, &game, "first").await, 10_000_601);
    till.execute("ALTER TABLE exchange_refusals RENAME TO away").await;
    till.store.write_refusals().await.unwrap_err();
    assert_eq!(send(&till, &game, "second").await, 10_000_601);
    till.execute("ALTER TABLE away RENAME TO exchange_refusals").await;
    let row = ("exchange".to_owned(), 10_000_601, "B1".to_owned(), "o1".to_owned(), 2, "second".to_owned());
    assert_eq!(written(&till).await, [row]);
}

/// 13.1.4: a server writes by itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_writes_what_it_has_refused() {
    let (till, app) = till().await;
    let program = Program::on(&till.database_url);
    let server = program.serve(None).await;
    let game = Game::new(&app, "o1", "B1", 11).with("ts", now_millis());
    let answer = game.request().send(server.address).await;
    assert_eq!(answer.code(), 10_000_601, "{}", answer.body);
    let show = || program.run(&["exchange", "show", "a1", "B1", "--json"]);
    until("the refusal is written", async || show().status.success()).await;
    let shown: Value = serde_json::from_slice(&show().stdout).unwrap();
    assert_eq!(shown["refusals"][0]["count"], 1);
}

fn now_millis() -> i64 {
    use domain::clock::{Clock as _, SystemClock};
    SystemClock::new().unix_millis()
}
