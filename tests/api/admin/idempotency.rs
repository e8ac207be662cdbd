//! Writes take effect once: whatever is lost, and however many ask at once.

use std::net::SocketAddr;

use domain::console_user::Role;
use minitill::operator::admin::{ROUTES, RouteEffect};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::examples::fail_event;
use super::{Caller, assert_problem, log};
use crate::game::Game;
use crate::support::program::Program;
use crate::support::{Answer, Request, TestApp, TestTill, empty_database, until};

/// A write for each route that takes effect once, on an app `a1` with a token and a player.
fn writes() -> Vec<(&'static str, &'static str, Value)> {
    vec![
        ("createApp", "/apps", json!({"app_id": "a2", "name": "Game"})),
        ("rotatePayKey", "/apps/a1/pay-keys", json!({})),
        ("rotateAppSecret", "/apps/a1/app-secrets", json!({})),
        ("publishPackage", "/apps/a1/packages", json!({"version": "9", "pages": ["pages/x"]})),
        ("addPois", "/apps/a1/pois", json!({"poi_ids": ["p1"]})),
        ("addPreorders", "/apps/a1/preorders", json!({"out_order_nos": ["pay-01"]})),
        ("issueToken", "/apps/a1/tokens", json!({})),
        ("revokeTokens", "/apps/a1/token-revocations", json!({"all": true})),
        ("issueLoginCode", "/apps/a1/login-codes", json!({"open_id": "o9", "union_id": "u9"})),
        ("addUsers", "/apps/a1/users", json!({"open_ids": ["o9"]})),
        ("creditWallet", "/apps/a1/wallets/o1/credits", json!({"free": 5, "ref": "r1"})),
        ("debitWallet", "/apps/a1/wallets/o1/debits", json!({"charge": 5, "ref": "r2"})),
        ("freezeWallet", "/apps/a1/wallets/o1/freezes", json!({"reason": "chargeback"})),
        ("cancelExchange", "/apps/a1/exchanges/b1/cancels", json!({"amount": 5, "ref": "r3"})),
        (
            "settleTopup",
            "/apps/a1/topups/p/1/settlement",
            json!({"action": "credit", "reason": "r", "open_id": "o1", "product_id": "gems60"}),
        ),
        ("addReceiver", "/apps/a1/receivers", json!({"url": "https://game.example/notify"})),
        ("rotateReceiverSecret", "/apps/a1/receivers/rcv_0000000000000001/secrets", json!({})),
        ("resendEvents", "/apps/a1/receivers/rcv_0000000000000001/resends", json!({})),
    ]
}

/// The player, the exchange and the receiver of the writes, with an event that has failed.
async fn player_with_exchange(till: &TestTill, app: &TestApp) {
    let receiver = "INSERT INTO receivers (app_id, receiver_id, url, types, format, secret, through_no)
         VALUES ('a1', 'rcv_0000000000000001', 'https://game.example/', '{}', 'standard', '', 0)";
    till.execute(receiver).await;
    fail_event(till, "a1").await;
    till.player(app, "o1", 0, 100).await;
    assert_eq!(Game::new(app, "o1", "b1", 60).send(till).await.code(), 1);
    crate::topups::sell(till, app).await;
    crate::topups::keep_unmatched(till, app, "p", "1").await;
}

#[track_caller]
fn assert_replay(first: &Answer, again: &Answer) {
    assert_eq!((again.status, &again.body), (first.status, &first.body));
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.header("location"), first.header("location"));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_write_is_repeated_with_the_same_answer_and_changes_nothing_again() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    player_with_exchange(&till, &app).await;
    let caller = Caller::admin(&till).await;
    let writes = writes();
    let once = ROUTES.iter().filter(|route| route.access == RouteEffect::Once);
    let named: Vec<&str> = once.map(|route| route.id).collect();
    assert_eq!(
        named,
        writes.iter().map(|(name, ..)| *name).collect::<Vec<_>>(),
        "a new route needs a write here"
    );
    for (name, path, body) in &writes {
        let lines = log(&till).await.len();
        let first = caller.post(path, name, body.clone()).await;
        assert!(first.status < 300, "{name}: {}", first.body);
        assert_eq!(first.header("idempotent-replayed"), None, "{name}");
        assert_eq!(log(&till).await.len(), lines + 1, "{name}");
        for _ in 0..2 {
            assert_replay(&first, &caller.post(path, name, body.clone()).await);
        }
        assert_eq!(log(&till).await.len(), lines + 1, "{name}");
        let missing = caller.send("POST", path, None, body).await;
        let detail = "expected one header Idempotency-Key of 1 to 128 visible ASCII characters: a fresh one for each write, the same for its repeats";
        assert_problem(&missing, 400, "bad-request", detail);
    }
    till.assert_audit_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_key_for_another_request_is_refused_and_another_callers_key_is_another() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let caller = Caller::admin(&till).await;
    let other = Caller::new(&till, "other", Role::Admin).await;
    let path = "/apps/a1/wallets/o1/credits";
    till.player(&app, "o1", 0, 0).await;
    let credit = json!({"free": 1, "ref": "r1"});
    assert_eq!(caller.post(path, "k", credit.clone()).await.status, 200);
    let detail = "the idempotency key k was used for another request within a day";
    for (path, body) in [
        (path, json!({"free": 2, "ref": "r1"})),
        (path, json!({"free": 1, "ref": "r1", "note": ""})),
        ("/apps/a1/wallets/o2/credits", credit.clone()),
        ("/apps", json!({"app_id": "a2"})),
    ] {
        assert_problem(&caller.post(path, "k", body).await, 422, "idempotency-key-reused", detail);
    }
    // The order of fields and spaces are no content.
    let request = caller.write("POST", path, Some("k"), &Value::Null).body(" {\"ref\" : \"r1\", \"free\":1}");
    assert_eq!(request.send(till.operator_address).await.header("idempotent-replayed"), Some("true"));
    let others = other.post(path, "k", json!({"free": 5, "ref": "r2"})).await;
    assert_eq!((others.status, others.json()["free_balance"].as_i64()), (200, Some(6)));
    assert_eq!(till.purses(&app, "o1").await, (6, 0, 3));
    let odd = "x".repeat(129);
    for key in ["", "a b", "é", odd.as_str()] {
        assert_eq!(caller.post(path, key, credit.clone()).await.status, 400, "{key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_not_kept_and_a_success_that_changed_nothing_is() {
    let till = TestTill::start().await;
    let caller = Caller::admin(&till).await;
    let users = json!({"open_ids": ["o1"]});
    assert_eq!(caller.post("/apps/a1/users", "k1", users.clone()).await.status, 404);
    till.app("a1").await;
    let done = caller.post("/apps/a1/users", "k1", users.clone()).await;
    assert_eq!((done.status, done.header("idempotent-replayed")), (200, None), "nothing was done before");
    let known = caller.post("/apps/a1/users", "k2", users.clone()).await;
    assert_eq!((known.status, known.header("idempotent-replayed")), (200, None));
    assert_replay(&known, &caller.post("/apps/a1/users", "k2", users).await);
    assert_eq!(log(&till).await.len(), 1);
}

/// The same request fifty times at once: one change, and everybody has its answer.
#[tokio::test(flavor = "multi_thread")]
async fn of_fifty_at_once_one_makes_the_change_and_all_have_its_answer() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    player_with_exchange(&till, &app).await;
    let caller = Caller::admin(&till).await;
    for (name, path, body) in writes() {
        let lines = log(&till).await.len();
        let requests = (0..50).map(|_| caller.post(path, name, body.clone()));
        let answers = futures_util::future::join_all(requests).await;
        for answer in &answers {
            assert_eq!((answer.status, &answer.body), (answers[0].status, &answers[0].body), "{name}");
            assert!(answer.status < 300, "{name}: {}", answer.body);
        }
        let made = answers.iter().filter(|answer| answer.header("idempotent-replayed").is_none());
        assert_eq!(made.count(), 1, "{name}");
        assert_eq!(log(&till).await.len(), lines + 1, "{name}");
    }
    assert_eq!(till.number("SELECT count(*) FROM pay_keys WHERE app_id = 'a1'").await, 2);
    assert_eq!(till.number("SELECT count(*) FROM apps").await, 2);
    assert_eq!(till.purses(&app, "o1").await, (11, 100, 6));
    till.assert_audit_clean().await;
}

/// Sends a request and reads no answer.
async fn send_and_leave(address: SocketAddr, request: &Request) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(&request.bytes()).await.unwrap();
    stream
}

async fn wait_for(till: &TestTill, statement: &str, number: i64) {
    until(statement, async || till.number(statement).await == number).await;
}

/// The caller hangs up while the change waits for a lock; the change is made, the answer reaches nobody.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_nobody_read_is_given_to_the_repeat() {
    let till = TestTill::start().await;
    till.app("a1").await;
    let caller = Caller::admin(&till).await;
    let mut holder = till.sql.begin().await.unwrap();
    sqlx::query("SELECT 1 FROM apps WHERE app_id = 'a1' FOR UPDATE").execute(&mut *holder).await.unwrap();
    let request = caller.write("POST", "/apps/a1/pay-keys", Some("k"), &json!({}));
    let stream = send_and_leave(till.operator_address, &request).await;
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
    wait_for(&till, waits, 1).await;
    drop(stream);
    holder.rollback().await.unwrap();
    wait_for(&till, "SELECT count(*) FROM pay_keys", 2).await;
    let repeat = request.send(till.operator_address).await;
    assert_eq!((repeat.status, repeat.header("idempotent-replayed")), (200, Some("true")), "{}", repeat.body);
    let newest = till.store.find_app(&domain::ids::AppId::parse("a1").unwrap()).await.unwrap().unwrap();
    let told = domain::signature::PayKey::new(repeat.json()["pay_key"].as_str().unwrap().to_owned());
    let sign = domain::signature::Sign::new(&told.sign("text"));
    assert!(newest.live_pay_keys[0].verifies("text", &sign), "the key that was told is the one that holds");
    assert_eq!(till.number("SELECT count(*) FROM pay_keys").await, 2);
}

/// The server is killed right behind the commit; another one gives the answer.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_died_with_the_server_is_given_by_the_next() {
    let till = TestTill::start_on(empty_database_with_schema("admin_killed").await, |_| {}).await;
    till.app("a1").await;
    let caller = Caller::admin(&till).await;
    let program = Program::on(&till.database_url);
    for (round, (name, path, body)) in writes().into_iter().take(3).enumerate() {
        let server = program.serve(None).await;
        let request = caller.write("POST", path, Some(name), &body);
        let stream = send_and_leave(server.operator_address, &request).await;
        let kept = i64::try_from(round).unwrap() + 1;
        wait_for(&till, "SELECT count(*) FROM api_requests", kept).await;
        server.kill();
        drop(stream);
        let server = program.serve(None).await;
        let lines = log(&till).await.len();
        let repeat = request.send(server.operator_address).await;
        assert_eq!(repeat.header("idempotent-replayed"), Some("true"), "{name}: {}", repeat.body);
        assert!(repeat.status < 300, "{name}");
        assert_eq!(log(&till).await.len(), lines, "{name}");
        server.terminate();
    }
    assert_eq!(till.number("SELECT count(*) FROM pay_keys WHERE app_id = 'a1'").await, 2);
}

async fn empty_database_with_schema(name: &str) -> String {
    let url = empty_database(name).await;
    Program::on(&url).json(&["migrate"]);
    url
}

/// A kept answer opens with the caller's key alone. Nothing of it is readable in the database, and a
/// new master key changes nothing about it.
#[tokio::test(flavor = "multi_thread")]
async fn a_kept_secret_is_encrypted_and_survives_a_new_master_key() {
    let till = TestTill::start().await;
    let caller = Caller::admin(&till).await;
    let first = caller.post("/apps", "k", json!({"app_id": "a1"})).await;
    let secret = first.json()["app_secret"].as_str().unwrap().to_owned();
    let clear = format!("SELECT count(*) FROM api_requests WHERE position('{secret}'::bytea IN answer) > 0");
    assert_eq!(till.number(&clear).await, 0);
    let keys = format!("{},{}", "2".repeat(64), crate::support::MASTER_KEY);
    let ring = store::secrets::Keyring::parse(&keys, "tests").unwrap();
    till.store.unlock(&ring).await.unwrap();
    assert_eq!(till.store.rotate_master_key(&crate::support::operator()).await.unwrap(), 2);
    assert_replay(&first, &caller.post("/apps", "k", json!({"app_id": "a1"})).await);
    // An answer that was put into another row opens nowhere.
    till.execute("UPDATE api_requests SET idempotency_key = 'other'").await;
    assert_eq!(caller.post("/apps", "other", json!({"app_id": "a1"})).await.status, 500);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_day_a_request_is_forgotten() {
    let till = TestTill::start().await;
    till.app("a1").await;
    let caller = Caller::admin(&till).await;
    caller.post("/apps/a1/pay-keys", "k", json!({})).await;
    till.execute("UPDATE api_requests SET created_at = now() - interval '23 hours 59 minutes'").await;
    assert_eq!(till.store.forget_old_requests().await.unwrap(), 0);
    till.execute("UPDATE api_requests SET created_at = now() - interval '24 hours 1 minute'").await;
    assert_eq!(till.store.forget_old_requests().await.unwrap(), 1);
}

/// The change and its answer are one transaction: where one cannot be written, the other is not.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_whose_answer_cannot_be_kept_is_not_made() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    player_with_exchange(&till, &app).await;
    let caller = Caller::admin(&till).await;
    till.execute("ALTER TABLE api_requests ADD CONSTRAINT nothing_more CHECK (attempt = '') NOT VALID").await;
    for (name, path, body) in writes() {
        let answer = caller.post(path, name, body).await;
        assert_eq!(answer.status, 500, "{name}: {}", answer.body);
    }
    assert_eq!(log(&till).await.len(), 0);
    assert_eq!(till.number("SELECT count(*) FROM apps JOIN pay_keys USING (app_id)").await, 1);
    assert_eq!(till.number("SELECT count(*) FROM access_tokens").await, 1);
    assert_eq!(till.purses(&app, "o1").await, (0, 40, 2));
}
