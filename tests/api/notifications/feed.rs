//! The feed (contract 12.5), as the admin API serves it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::standard::moment;
use super::{Scene, all_events, credit, pay, quiet_till};
use crate::admin::{Caller, assert_problem};
use crate::game::Game;
use crate::support::{AppKind, PATIENCE, TestTill};

/// Items of a page, and its `next`.
async fn page(caller: &Caller<'_>, query: &str) -> (Vec<Value>, String) {
    let answer = caller.get(&format!("/events{query}")).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let mut page = answer.json();
    let next = page["next"].as_str().unwrap_or_else(|| panic!("no cursor in {}", answer.body)).to_owned();
    (serde_json::from_value(page["items"].take()).unwrap(), next)
}

/// Numbers and references of items.
fn names(items: &[Value]) -> Vec<&str> {
    let name = |item: &'_ Value| ["biz_no", "ref"].into_iter().find(|name| item["data"][name].is_string());
    items.iter().map(|item| item["data"][name(item).unwrap()].as_str().unwrap()).collect()
}

/// Rules 12.5.1 and 12.1.10: the exact item; its id is that of the notifications.
#[tokio::test(flavor = "multi_thread")]
async fn an_item_of_the_feed() {
    let (till, app) = quiet_till(&[], |_| {}).await;
    let caller = Caller::admin(&till).await;
    let (items, next) = page(&caller, "").await;
    assert_eq!((items.len(), next.as_str()), (0, "0.00000000"), "events have no number yet");
    pay(&till, &app, "b1").await;
    let ids: Vec<_> = all_events(&till).await.iter().map(|event| event.id.as_text()).collect();
    let (items, next) = page(&caller, "").await;
    let credited = json!({
        "id": ids[0], "type": "wallet.credited", "app_id": "a1",
        "timestamp": moment(&till, "SELECT at FROM ledger_entries WHERE seq = 1").await,
        "data": {
            "open_id": "o1", "seq": 1, "ref": "start-o1", "free_change": 40, "charge_change": 10_000,
            "free_balance": 40, "charge_balance": 10_000,
        },
    });
    assert_eq!((&items[0], items.len()), (&credited, 2));
    assert_eq!((&items[1]["id"], &items[1]["type"]), (&json!(ids[1]), &json!("exchange.succeeded")));
    assert_eq!(page(&caller, &format!("?after={next}")).await, (vec![], next));
}

/// Rules 12.5.2 and 12.5.3: pages follow each other; of one app, of one type, of both.
#[tokio::test(flavor = "multi_thread")]
async fn pages_and_filters() {
    let (till, app) = quiet_till(&[], |_| {}).await;
    let other = till.app("a2").await;
    till.app("a3").await;
    till.player(&other, "o1", 0, 100).await;
    for number in 0..4 {
        pay(&till, &app, &format!("b{number}")).await;
        pay(&till, &other, &format!("x{number}")).await;
    }
    credit(&till, &app, "c1", 1, 0).await;
    let all = all_events(&till).await;
    let caller = Caller::admin(&till).await;
    for (filter, expected) in [
        ("", vec!["start-o1", "start-o1", "b0", "x0", "b1", "x1", "b2", "x2", "b3", "x3", "c1"]),
        ("&app_id=a1", vec!["start-o1", "b0", "b1", "b2", "b3", "c1"]),
        ("&app_id=a2&type=exchange.succeeded", vec!["x0", "x1", "x2", "x3"]),
        ("&type=wallet.credited", vec!["start-o1", "start-o1", "c1"]),
        ("&app_id=a3", vec![]),
    ] {
        for limit in [1, 2, 3, 50] {
            let (mut found, mut cursor) = (Vec::new(), String::new());
            loop {
                let (items, next) = page(&caller, &format!("?limit={limit}{filter}{cursor}")).await;
                assert!(items.len() <= limit);
                let is_end = items.is_empty();
                found.extend(items);
                cursor = format!("&after={next}");
                if is_end {
                    break;
                }
            }
            assert_eq!(names(&found), expected, "{filter} {limit}");
        }
    }
    assert_eq!(all.len(), 11);
    for (query, field) in [("?after=1", "after"), ("?type=exchange", "type"), ("?wait=31", "wait")] {
        let refused = caller.get(&format!("/events{query}")).await;
        assert_eq!((refused.status, refused.body.contains(field)), (422, true), "{}", refused.body);
    }
}

/// Rule 12.5.4: with `wait` the answer comes as soon as there is an event, and not before; without one it comes at the end.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends_with_the_first_event() {
    let scene = Scene::new(&[]).await;
    let caller = Caller::admin(&scene.till).await;
    super::until("the credit is in the feed", async || page(&caller, "").await.0.len() == 1).await;
    let (_, newest) = page(&caller, "").await;
    let other = scene.till.app("a2").await;
    let query = format!("?after={newest}&wait=30&app_id=a1&type=exchange.succeeded");
    let nothing_comes = format!("?after={newest}&wait=20&app_id=a2&type=exchange.succeeded");
    let started = Instant::now();
    let asking = async {
        // The other one waits for a shorter time, and waits on when this one has ended.
        let ended_first = tokio::select! {
            biased;
            _ = page(&caller, &nothing_comes) => panic!("it waited to its end"),
            (items, _) = page(&caller, &query) => items,
        };
        (ended_first, started.elapsed())
    };
    let acting = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        // Others do not end it.
        scene.till.player(&other, "o1", 1, 1).await;
        credit(&scene.till, &scene.app, "c1", 1, 1).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        scene.pay("b1").await;
    };
    let ((items, waited), ()) = tokio::join!(asking, acting);
    assert_eq!(names(&items), ["b1"]);
    assert!(waited >= Duration::from_millis(400), "{waited:?}");
    let (_, newest) = page(&caller, &format!("?after={newest}")).await;
    let started = Instant::now();
    let (items, next) = page(&caller, &format!("?after={newest}&wait=1")).await;
    assert_eq!((items, next), (vec![], newest));
    assert!(started.elapsed() >= Duration::from_secs(1));
}

/// Rule 12.5.7: who waits holds no session, so many can, and one event answers all of them with the same bytes.
#[tokio::test(flavor = "multi_thread")]
async fn held_polls_take_no_session_and_are_answered_together() {
    let scene = Scene::new(&[]).await;
    let caller = Caller::admin(&scene.till).await;
    super::until("the credit is in the feed", async || page(&caller, "").await.0.len() == 1).await;
    let (_, newest) = page(&caller, "").await;
    let mut held = JoinSet::new();
    // Those of a limit and of other types see the same news.
    for query in ["", "&limit=1", "&app_id=a1", "&type=wallet.credited"].iter().cycle().take(40) {
        let request = caller.request("GET", &format!("/events?after={newest}&wait=30{query}"));
        let address = scene.till.operator_address;
        held.spawn(async move { request.send(address).await });
    }
    let none = caller.request("GET", &format!("/events?after={newest}&wait=3&type=image.blocked"));
    let address = scene.till.operator_address;
    let none = tokio::spawn(async move { none.send(address).await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(caller.get("/apps").await.status, 200, "places are left");
    credit(&scene.till, &scene.app, "c1", 1, 1).await;
    let answers = held.join_all().await;
    let (items, next) = page(&caller, &format!("?after={newest}")).await;
    assert_eq!(names(&items), ["c1"]);
    for answer in answers {
        assert_eq!((answer.status, answer.json()), (200, json!({ "items": items, "next": next })));
    }
    // Where nothing was for it, it goes on behind what it has passed over.
    assert_eq!(none.await.unwrap().json(), json!({ "items": [], "next": next }));
}

/// Rules 12.5.5 and 12.5.6: cursors before removed events, and of another history. The cursor of an app without events
/// does not grow old.
#[tokio::test(flavor = "multi_thread")]
async fn cursors_that_are_refused() {
    let (till, app) = quiet_till(&[], |_| {}).await;
    till.app("quiet").await;
    for number in ["b1", "b2", "b3"] {
        pay(&till, &app, number).await;
    }
    all_events(&till).await;
    let caller = Caller::admin(&till).await;
    let (_, first) = page(&caller, "?limit=1").await;
    let (_, second) = page(&caller, "?limit=2").await;
    let (none, of_quiet) = page(&caller, "?app_id=quiet").await;
    let (_, last) = page(&caller, "").await;
    assert_eq!((none, &of_quiet), (vec![], &last));
    till.execute("UPDATE events SET at = at - interval '31 days' WHERE last_no <= 2").await;
    till.store.remove_old_events(Duration::from_hours(30 * 24)).await.unwrap();
    let get = async |cursor: &str| caller.get(&format!("/events?after={cursor}")).await;
    let text = "after: events after this cursor were removed, because they are older than notify.keep";
    assert_problem(&get(&first).await, 409, "conflict", text);
    for cursor in [&second, &of_quiet, &last] {
        assert_eq!(get(cursor).await.status, 200, "{cursor}");
    }
    // The database goes back to a time before the last event, and another one happens.
    till.execute("DELETE FROM events WHERE last_no = 4; UPDATE event_head SET last_no = 3").await;
    let text =
        "after: no event is at this cursor; it is of another database, or of this one before a restore";
    assert_problem(&get(&last).await, 409, "conflict", text);
    pay(&till, &app, "b4").await;
    all_events(&till).await;
    assert_problem(&get(&last).await, 409, "conflict", text);
    assert_eq!(names(&page(&caller, &format!("?after={second}")).await.0), ["b2", "b4"]);
}

/// Sends exchanges of one player after the other; gives their numbers.
async fn write(till: &TestTill, app: &crate::support::TestApp, writer: usize, count: usize) {
    for number in 0..count {
        let player = format!("w{writer}");
        let answer = Game::new(app, &player, &format!("{writer}n{number}"), 1).send(till).await;
        assert_eq!(answer.code(), 1, "{}", answer.body);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Reads the feed from its beginning until this many items came.
async fn follow(caller: &Caller<'_>, limit: usize, count: usize) -> Vec<Value> {
    let (mut found, mut cursor, mut last) = (Vec::new(), String::new(), Instant::now());
    while found.len() < count {
        assert!(last.elapsed() < PATIENCE, "no more than {} of {count} came", found.len());
        let (items, next) = page(caller, &format!("?limit={limit}&wait=1{cursor}")).await;
        if !items.is_empty() {
            last = Instant::now();
        }
        found.extend(items);
        cursor = format!("&after={next}");
    }
    found
}

/// Rule 12.5.2: while many write in several servers, and several give numbers, whoever follows the cursor misses nothing
/// and gets nothing twice. Afterwards the feed has the same order.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_misses_nothing_while_many_write() {
    const WRITERS: usize = 6;
    const EACH: usize = 50;
    const LATE: usize = 8;
    let (till, app) = quiet_till(&[], |config| config.database.connections = 8).await;
    let second = TestTill::start_on(till.database_url.clone(), super::reaching(&[])).await;
    for writer in 0..WRITERS {
        till.player(&app, &format!("w{writer}"), 0, 1000).await;
    }
    let slow = till.app_like("slow", AppKind::default()).await;
    till.player(&slow, "o1", 0, 1000).await;
    let servers = std::sync::Arc::new([till, second]);
    let sending = [super::Sending::of(&servers[0]), super::Sending::of(&servers[1])];
    let mut writing = JoinSet::new();
    for writer in 0..WRITERS {
        let (servers, app) = (servers.clone(), app.clone());
        writing.spawn(async move { write(&servers[writer % 2], &app, writer, EACH).await });
    }
    // Its transaction is older than those of the others and commits after them.
    let late = servers[0].sql.clone();
    writing.spawn(async move {
        for number in 0..LATE {
            let mut transaction = late.begin().await.unwrap();
            let row = format!(
                "INSERT INTO wallet_outbox SELECT app_no, decode(lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint), 12, '0'), 'hex') \
                     || decode(lpad('{number}', 20, '0'), 'hex'), now(), 'wallet.credited', 1, \
                     int8send(wallet_no) || int8send(1) FROM wallets JOIN apps USING (app_no) WHERE app_id = 'slow'"
            );
            sqlx::raw_sql(sqlx::AssertSqlSafe(row)).execute(&mut *transaction).await.unwrap();
            // Longer than others need to write, to get their numbers and to be read.
            tokio::time::sleep(Duration::from_millis(120)).await;
            transaction.commit().await.unwrap();
        }
    });
    let caller = Caller::admin(&servers[0]).await;
    let all = WRITERS * EACH + WRITERS + 2 + LATE;
    // One reader is always close behind the writers, the other one lags.
    let (close, lagging) = tokio::join!(follow(&caller, 200, all), follow(&caller, 7, all));
    writing.join_all().await;
    drop(sending);
    assert_eq!(close, lagging);
    let ids: BTreeSet<_> = close.iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!((close.len(), ids.len()), (all, all));
    let numbers: BTreeSet<_> = names(&close).into_iter().filter(|name| name.contains('n')).collect();
    assert_eq!(numbers.len(), WRITERS * EACH);
    let again: Vec<_> = all_events(&servers[0]).await.iter().map(|event| event.id.as_text()).collect();
    assert!(close.iter().map(|item| item["id"].as_str().unwrap()).eq(again.iter().map(String::as_str)));
}
