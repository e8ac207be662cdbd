//! The test world of a sandbox app (contract 15).

use std::time::{Duration, Instant};

use domain::ids::WebUrl;
use domain::receiver::{NewReceiver, ReceiverCommand, ReceiverFormat};
use minitill::notify;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::game::Game;
use crate::support::receiver::Receiver;
use crate::support::{Answer, AppKind, Request, TestApp, TestTill, operator};

async fn sandbox_app(till: &TestTill) -> TestApp {
    let app = till.app_like("a1", AppKind { sandbox: true, ..AppKind::default() }).await;
    till.player(&app, "o1", 40, 100).await;
    app
}

async fn call(till: &TestTill, app: &TestApp, path: &str, body: &Value) -> Answer {
    let path = format!("/sandbox/v1/{path}?app_id={}&access_token={}", app.id, app.token);
    till.send(Request::post(&path).body(body.to_string())).await
}

async fn ask(till: &TestTill, app: &TestApp, fault: &Value) {
    let answer = call(till, app, "faults", fault).await;
    assert_eq!(answer.code(), 1, "{}", answer.body);
}

/// The bytes that come before the connection closes.
async fn bytes_of(till: &TestTill, request: &Request) -> Vec<u8> {
    let mut stream = TcpStream::connect(till.address).await.unwrap();
    stream.write_all(&request.bytes()).await.unwrap();
    let mut came = Vec::new();
    // A reset is an end too.
    let _ = stream.read_to_end(&mut came).await;
    came
}

/// Rules 15.1.1 to 15.1.3: the answer byte for byte, and one fault of a target at a time.
#[tokio::test(flavor = "multi_thread")]
async fn a_fault_is_asked_for() {
    let till = TestTill::start().await;
    let app = sandbox_app(&till).await;
    let answer =
        call(&till, &app, "faults", &json!({"target": "exchange", "fault": "lost", "times": 2})).await;
    answer.assert_body(
        r#"{"result":1,"error_msg":"success","faults":[{"target":"exchange","fault":"lost","delay_ms":0,"times":2,"happened":0,"first_at":null,"last_at":null}]}"#,
    );
    ask(&till, &app, &json!({"target": "numbers", "fault": "old"})).await;
    let answer =
        call(&till, &app, "faults", &json!({"target": "exchange", "fault": "late", "delay_ms": 7})).await;
    let faults = answer.json()["faults"].clone();
    assert_eq!(faults[0]["fault"], "late");
    assert_eq!((&faults[0]["delay_ms"], &faults[0]["times"]), (&json!(7), &json!(1)));
    assert_eq!((faults.as_array().unwrap().len(), &faults[1]["target"]), (2, &json!("numbers")));
}

/// Rule 15.1.4: each wrong field is named.
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_fault_is_refused() {
    let till = TestTill::start().await;
    let app = sandbox_app(&till).await;
    for (body, message) in [
        (json!({"fault": "lost"}), "target is missing"),
        (json!({"target": "exchange"}), "fault is missing"),
        (
            json!({"target": "exchange", "fault": "twice"}),
            "fault: expected lost, unavailable or late for exchange, got \"twice\"",
        ),
        (
            json!({"target": "wallet.credited", "fault": "lost"}),
            "fault: expected twice, late or never for wallet.credited, got \"lost\"",
        ),
        (
            json!({"target": "exchange", "fault": "late"}),
            "delay_ms: expected an integer from 1 to 60000, got \"0\"",
        ),
        (
            json!({"target": "exchange", "fault": "lost", "delay_ms": 5}),
            "delay_ms: expected no delay, but for late, got \"5\"",
        ),
        (
            json!({"target": "exchange", "fault": "lost", "times": 0}),
            "times: expected an integer from 1 to 1000, got \"0\"",
        ),
        (
            json!({"target": "exchange", "fault": "late", "delay_ms": 60001}),
            "delay_ms: expected an integer from 0 to 60000, got \"60001\"",
        ),
    ] {
        call(&till, &app, "faults", &body).await.assert_refused(10_000_200, message);
    }
    assert_eq!(till.number("SELECT count(*) FROM sandbox_faults").await, 0);
}

/// Rule 15.1.5: an app that takes real money has no test world.
#[tokio::test(flavor = "multi_thread")]
async fn a_live_app_has_no_test_world() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let message = "app_id: expected a sandbox app";
    let fault = json!({"target": "exchange", "fault": "lost"});
    call(&till, &app, "faults", &fault).await.assert_refused(100_200_102, message);
    call(&till, &app, "shipments", &json!({"biz_no": "b1"})).await.assert_refused(100_200_102, message);
    // Even a row that somebody wrote does nothing.
    till.execute("INSERT INTO sandbox_faults (app_id, target, fault, delay_ms, times) VALUES ('a1', 'exchange', 'lost', 0, 9)")
        .await;
    till.player(&app, "o1", 0, 100).await;
    assert_eq!(Game::new(&app, "o1", "b1", 1).send(&till).await.code(), 1);
    assert_eq!(till.number("SELECT happened::bigint FROM sandbox_faults").await, 0);
}

/// Rule 15.2.1: a lost answer is that of a call that was carried out; not one byte of it comes. A repeat gets the result.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_lost_after_the_commit() {
    let till = TestTill::start().await;
    let app = sandbox_app(&till).await;
    ask(&till, &app, &json!({"target": "exchange", "fault": "lost", "times": 2})).await;
    let game = Game::new(&app, "o1", "b1", 60);
    for _ in 0..2 {
        assert_eq!(String::from_utf8_lossy(&bytes_of(&till, &game.request()).await), "");
        assert_eq!(till.purses(&app, "o1").await, (40, 40, 2));
    }
    let answer = game.send(&till).await;
    assert_eq!((answer.code(), answer.header("idempotent-replayed")), (1, Some("true")));
    assert_eq!(till.number("SELECT happened::bigint FROM sandbox_faults WHERE first_at < last_at").await, 2);
    // Another endpoint has no part in it.
    ask(&till, &app, &json!({"target": "exchange", "fault": "lost"})).await;
    assert_eq!(Game::balance(&app, "o1").send(&till).await.code(), 1);
}

/// Rules 15.2.2 and 15.2.3: a 503 as the wire gives it, and an answer that comes late.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_503_or_late() {
    let till = TestTill::start().await;
    let app = sandbox_app(&till).await;
    ask(&till, &app, &json!({"target": "exchange", "fault": "unavailable"})).await;
    let game = Game::new(&app, "o1", "b1", 60);
    let answer = game.send(&till).await;
    let body = r#"{"code":10000500,"msg":"system error: a fault that this sandbox app asked for"}"#;
    assert_eq!((answer.status, answer.body.as_str()), (503, body));
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(till.purses(&app, "o1").await, (40, 40, 2), "it was carried out");
    ask(&till, &app, &json!({"target": "exchange", "fault": "late", "delay_ms": 300})).await;
    let started = Instant::now();
    let answer = game.send(&till).await;
    assert_eq!((answer.code(), answer.header("idempotent-replayed")), (1, Some("true")));
    assert!(started.elapsed() >= Duration::from_millis(300));
}

/// Rule 15.2.4: a repeat is refused as one of an old number, and deducts nothing.
#[tokio::test(flavor = "multi_thread")]
async fn numbers_become_old() {
    let till = TestTill::start().await;
    let app = sandbox_app(&till).await;
    ask(&till, &app, &json!({"target": "numbers", "fault": "old"})).await;
    let game = Game::new(&app, "o1", "b1", 60);
    assert_eq!(game.send(&till).await.code(), 1, "a new number is new");
    game.send(&till).await.assert_refused(
        10_000_603,
        "biz_no: b1 was used more than 48 hours ago; a new request needs a new number",
    );
    assert_eq!(Game::query(&app, "o1", "b1").send(&till).await.json()["data"]["status"], "paid");
    assert_eq!(game.send(&till).await.code(), 1, "once");
    assert_eq!(till.purses(&app, "o1").await, (40, 40, 2));
}

/// Rule 15.2.5: a notification is sent twice with the same id and bytes, late, or never.
#[tokio::test(flavor = "multi_thread")]
async fn a_notification_comes_twice_late_or_never() {
    let receiver = Receiver::taking().await;
    let till = TestTill::start_with(|config| {
        config.fetch.allow_networks = vec!["127.0.0.0/8".parse().unwrap()];
        config.fetch.ports = vec![receiver.address.port()];
    })
    .await;
    let app = sandbox_app(&till).await;
    let url = WebUrl::parse(&receiver.url("/")).unwrap();
    let add = ReceiverCommand::Add(NewReceiver { url, events: vec![], format: ReceiverFormat::Standard });
    till.store.change_receivers(&operator(), &app.id, add).await.unwrap();
    let state = till.till.clone();
    let (settings, metrics) = (state.config.notify.clone(), state.metrics.notify().clone());
    let (sender, head) = (state.notifier.clone(), state.event_heads.clone());
    let (stop, stopped) = tokio::sync::watch::channel(false);
    tokio::spawn(notify::run(till.store.clone(), sender, settings, metrics, head, stopped));
    let pay = async |biz_no: &str| {
        assert_eq!(Game::new(&app, "o1", biz_no, 1).send(&till).await.code(), 1);
    };
    ask(&till, &app, &json!({"target": "exchange.succeeded", "fault": "twice"})).await;
    pay("b1").await;
    let came = receiver.until_received(2).await;
    assert_eq!((came[0].id(), &came[0].body), (came[1].id(), &came[1].body));
    ask(&till, &app, &json!({"target": "exchange.succeeded", "fault": "never"})).await;
    pay("b2").await;
    crate::notifications::until("it was left out", async || {
        till.number("SELECT happened::bigint FROM sandbox_faults").await == 1
    })
    .await;
    ask(&till, &app, &json!({"target": "exchange.succeeded", "fault": "late", "delay_ms": 400})).await;
    let started = Instant::now();
    pay("b3").await;
    let came = receiver.until_received(3).await;
    assert_eq!(came[2].data("biz_no"), "b3");
    assert!(started.elapsed() >= Duration::from_millis(400));
    let shown = till.store.receivers(&app.id).await.unwrap();
    assert_eq!(shown.len(), 1);
    stop.send_replace(true);
}

/// Rule 15.3.1: shipments are counted by number.
#[tokio::test(flavor = "multi_thread")]
async fn shipments_are_counted() {
    let till = TestTill::start().await;
    let app = sandbox_app(&till).await;
    for (biz_no, count) in [("b1", 1), ("b1", 2), ("b2", 1)] {
        let answer = call(&till, &app, "shipments", &json!({ "biz_no": biz_no })).await;
        answer.assert_body(&format!(r#"{{"result":1,"error_msg":"success","shipments":{count}}}"#));
    }
    call(&till, &app, "shipments", &json!({})).await.assert_refused(10_000_200, "biz_no is missing");
    till.execute("UPDATE sandbox_shipments SET first_at = first_at - interval '8 days' WHERE biz_no = 'b1'")
        .await;
    assert_eq!(till.store.forget_test_worlds().await.unwrap(), 1);
}
