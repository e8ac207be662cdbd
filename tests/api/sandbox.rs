//! The test world of a sandbox app (contract 15).

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use domain::event::EventType;
use domain::receiver::ReceiverFormat;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::game::Game;
use crate::notifications::{Sending, reaching};
use crate::support::program::Program;
use crate::support::receiver::{Notification, Receiver, Reply};
use crate::support::{Answer, AppKind, Request, TestApp, TestTill, until};

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

async fn add(till: &TestTill, app: &TestApp, receiver: &Receiver, events: &[EventType]) {
    crate::notifications::add(till, app, &receiver.url("/"), ReceiverFormat::Standard, events).await;
}

/// The bytes that come before the connection closes.
async fn bytes_of(till: SocketAddr, request: &Request) -> Vec<u8> {
    let mut stream = TcpStream::connect(till).await.unwrap();
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
            "fault: expected lost, unavailable, late or refuse for exchange, got \"twice\"",
        ),
        (
            json!({"target": "wallet.credited", "fault": "lost"}),
            "fault: expected twice, late or never for wallet.credited, got \"lost\"",
        ),
        (json!({"target": "exchange", "fault": "late"}), "delay_ms is missing"),
        (
            json!({"target": "exchange", "fault": "lost", "delay_ms": 5}),
            "delay_ms: expected no delay, but for late, got 5",
        ),
        (
            json!({"target": "exchange", "fault": "lost", "delay_ms": "5"}),
            "delay_ms: expected no delay, but for late, got \"5\"",
        ),
        (
            json!({"target": "exchange", "fault": "lost", "times": 0}),
            "times: expected an integer from 1 to 1000, got 0",
        ),
        (
            json!({"target": "exchange", "fault": "late", "delay_ms": 60001}),
            "delay_ms: expected an integer from 1 to 60000, got 60001",
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
    let message = "app_id: expected a sandbox app; to make one, run: minitill app create ID --sandbox";
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
        assert_eq!(String::from_utf8_lossy(&bytes_of(till.address, &game.request()).await), "");
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

/// Rule 15.2.7: a late answer ends with its client, and comes early where another one of the app waits for its place.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_answer_gives_up_its_place() {
    let till = TestTill::start().await;
    let app = sandbox_app(&till).await;
    ask(&till, &app, &json!({"target": "exchange", "fault": "late", "delay_ms": 60000, "times": 4})).await;
    let places = &till.till.late_answers;
    let game = Game::new(&app, "o1", "b1", 60);
    let begun = async |count: u64| {
        let mut client = TcpStream::connect(till.address).await.unwrap();
        client.write_all(&game.request().bytes()).await.unwrap();
        until("an answer is late", async || places.in_use() == count).await;
        client
    };
    let (patient, gone) = (begun(1).await, begun(2).await);
    drop(gone);
    until("it ends with its client", async || places.in_use() == 1).await;
    assert!(patient.try_read(&mut [0]).is_err(), "the one that began before is still late");
    drop(patient);
    until("so does the other", async || places.in_use() == 0).await;
    // The app has half of the places: another late answer takes the last of them, and the next one that place.
    let half = 128;
    let _others: Vec<_> = (1..half).map(|_| places.try_acquire(app.id.as_str()).unwrap()).collect();
    let last = game.send(&till);
    let next = async {
        until("the last place is taken", async || places.in_use() == half).await;
        places.acquire(app.id.as_str(), 1).await
    };
    let (answer, _place) = tokio::join!(last, next);
    assert_eq!((answer.code(), answer.header("idempotent-replayed")), (1, Some("true")));
    // Nobody gives up a place any more, and no answer waits for one longer than a second.
    assert_eq!(places.in_use(), half);
    assert_eq!(game.send(&till).await.code(), 1);
    assert_eq!(till.number("SELECT happened::bigint FROM sandbox_faults").await, 4);
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
        "biz_no: b1 was used more than 48 hours ago; a new request needs a new number, and is carried out again: ask with a query first",
    );
    assert_eq!(Game::query(&app, "o1", "b1").send(&till).await.json()["data"]["status"], "paid");
    assert_eq!(game.send(&till).await.code(), 1, "once");
    assert_eq!(till.purses(&app, "o1").await, (40, 40, 2));
}

/// Rule 15.2.5: a notification is sent twice with the same id and bytes, late, or never.
#[tokio::test(flavor = "multi_thread")]
async fn a_notification_comes_twice_late_or_never() {
    let receiver = Receiver::taking().await;
    let till = TestTill::start_with(reaching(&[&receiver])).await;
    let app = sandbox_app(&till).await;
    add(&till, &app, &receiver, &[]).await;
    let _sending = Sending::of(&till);
    let pay = async |biz_no: &str| {
        assert_eq!(Game::new(&app, "o1", biz_no, 1).send(&till).await.code(), 1);
    };
    ask(&till, &app, &json!({"target": "exchange.succeeded", "fault": "twice"})).await;
    pay("b1").await;
    let came = receiver.until_received(2).await;
    assert_eq!((came[0].id(), &came[0].body), (came[1].id(), &came[1].body));
    ask(&till, &app, &json!({"target": "exchange.succeeded", "fault": "never"})).await;
    pay("b2").await;
    until("it was left out", async || till.number("SELECT happened::bigint FROM sandbox_faults").await == 1)
        .await;
    ask(&till, &app, &json!({"target": "exchange.succeeded", "fault": "late", "delay_ms": 400})).await;
    let started = Instant::now();
    pay("b3").await;
    let came = receiver.until_received(3).await;
    assert_eq!(came[2].data("biz_no"), "b3");
    assert!(started.elapsed() >= Duration::from_millis(400));
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

/// A game that believes every notification, buys with a new number each time, never repeats, and ships when it is told
/// that it has paid.
struct NaiveGame {
    till: SocketAddr,
    app: TestApp,
    bought: AtomicU32,
}

impl NaiveGame {
    async fn hears(self: Arc<Self>, notification: Notification) {
        if notification.json()["type"] != "wallet.credited" {
            return;
        }
        let biz_no = format!("n{}", self.bought.fetch_add(1, Ordering::Relaxed));
        let order = Game::new(&self.app, &notification.data("open_id"), &biz_no, 1);
        let answer = bytes_of(self.till, &order.request()).await;
        if String::from_utf8_lossy(&answer).contains(r#"{"code":1,"#) {
            let path =
                format!("/sandbox/v1/shipments?app_id={}&access_token={}", self.app.id, self.app.token);
            bytes_of(self.till, &Request::post(&path).body(json!({ "biz_no": biz_no }).to_string())).await;
        }
    }
}

/// Rules 15.3.4 to 15.3.6: what a naive game scores.
#[tokio::test(flavor = "multi_thread")]
async fn a_naive_game_passes_nine_cases() {
    let receiver = Receiver::taking().await;
    let till = TestTill::start_with(reaching(&[&receiver])).await;
    let app = sandbox_app(&till).await;
    let program = Program::on(&till.database_url)
        .with("MINITILL_NOTIFY__ALLOW_NETWORKS", "127.0.0.1/32")
        .with("MINITILL_NOTIFY__PORTS", &receiver.address.port().to_string());
    // A notification is sent within a second where nobody else is busy.
    let check = ["sandbox", "check", "a1", "--patience", "6s"];
    let complaint = program.complaint(&check);
    let needed = "receiver of the standard format that is told of wallet.credited and exchange.succeeded";
    assert_eq!(
        complaint,
        format!("minitill: the app has no {needed}; add the game with `minitill receiver add`\n")
    );
    add(&till, &app, &receiver, &[EventType::ExchangeSucceeded]).await;
    assert_eq!(program.complaint(&check), complaint, "it is not told of credits");
    add(&till, &app, &receiver, &[]).await;
    let naive = Arc::new(NaiveGame { till: till.address, app: app.clone(), bought: AtomicU32::new(0) });
    receiver.answers(move |notification, _| {
        tokio::spawn(Arc::clone(&naive).hears(notification.clone()));
        Reply::taken()
    });
    let _sending = Sending::of(&till);
    let junit = std::env::temp_dir().join(format!("minitill-junit-{}.xml", std::process::id()));
    let file = junit.to_str().unwrap().to_owned();
    let output = tokio::task::spawn_blocking(move || {
        program.run(&[&check[..], &["--json", "--junit", &file]].concat())
    })
    .await
    .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let score: Value = serde_json::from_slice(&output.stdout).unwrap();
    let results = score["results"].as_array().unwrap();
    let cases: Vec<_> = results.iter().map(|result| result["case"].as_str().unwrap()).collect();
    let contract = crate::support::committed("docs/contract.md");
    let (_, listed) = contract.split_once("**15.3.6**").unwrap();
    let listed: Vec<_> = listed
        .lines()
        .filter_map(|line| line.split_once(". ").filter(|(number, _)| number.parse::<u8>().is_ok()))
        .map(|(_, case)| case)
        .collect();
    assert_eq!(cases, listed);
    let passed: Vec<_> =
        (1..).zip(results).filter(|(_, result)| result["passed"] == true).map(|(no, _)| no).collect();
    assert_eq!(passed, [1, 5, 6, 8, 9, 15, 16, 18, 19], "{score:#}");
    assert_eq!((&score["passed"], &score["cases"]), (&json!(9), &json!(20)));
    assert_eq!(till.number("SELECT count(*) FROM sandbox_faults").await, 0);
    // Rule 15.3.7: what a build server reads.
    let written = std::fs::read_to_string(&junit).unwrap();
    std::fs::remove_file(&junit).unwrap();
    assert!(
        written.contains(r#"<testsuite name="minitill sandbox check" tests="20" failures="11">"#),
        "{written}"
    );
    assert!(
        written.contains(r#"<testcase classname="a1" name="takes a signed notification"/>"#),
        "{written}"
    );
    assert_eq!(written.matches("<failure message=").count(), 11);
}

/// Rule 15.3.3: the commands, and their line in the operator's log.
#[tokio::test(flavor = "multi_thread")]
async fn faults_are_commands_too() {
    let till = TestTill::start().await;
    sandbox_app(&till).await;
    till.app("a2").await;
    let program = Program::on(&till.database_url);
    let asked = program.json(&[
        "sandbox",
        "fault",
        "a1",
        "wallet.credited",
        "late",
        "--delay-ms",
        "5",
        "--times",
        "3",
    ]);
    let fault = json!({
        "target": "wallet.credited", "fault": "late", "delay_ms": 5, "times": 3, "happened": 0, "first_at": null,
        "last_at": null,
    });
    assert_eq!(asked, json!({ "faults": [fault] }));
    assert_eq!(program.json(&["sandbox", "faults", "a1"]), asked);
    let line = program.json(&["operator-log", "--limit", "1"])["lines"][0].clone();
    assert_eq!((&line["action"], &line["subject"]), (&json!("sandbox.fault"), &json!("wallet.credited")));
    assert_eq!(program.json(&["sandbox", "end-faults", "a1"]), json!({ "faults": [] }));
    assert_eq!(program.json(&["sandbox", "faults", "a1"]), json!({ "faults": [] }));
    assert_eq!(
        program.complaint(&["sandbox", "fault", "a2", "exchange", "lost"]),
        "minitill: a2 is no sandbox app: faults are for tests, and never for players who pay\n"
    );
    assert_eq!(
        program.complaint(&["sandbox", "fault", "a1", "exchange", "late"]),
        "minitill: delay_ms: expected an integer from 1 to 60000\n"
    );
}

/// Rule 15.2.8: the code is answered before anything is carried out, as often as it was asked for, by every endpoint that
/// has it.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_refused_with_the_code_that_was_asked_for() {
    let till = TestTill::start().await;
    let app = sandbox_app(&till).await;
    let answer = call(
        &till,
        &app,
        "faults",
        &json!({"target": "exchange", "fault": "refuse", "code": 10_000_601, "times": 2}),
    )
    .await;
    answer.assert_body(
        r#"{"result":1,"error_msg":"success","faults":[{"target":"exchange","fault":"refuse","delay_ms":0,"code":10000601,"times":2,"happened":0,"first_at":null,"last_at":null}]}"#,
    );
    let exchange = Game::new(&app, "o1", "b1", 60);
    for _ in 0..2 {
        exchange.send(&till).await.assert_refused(10_000_601, "a fault that this sandbox app asked for");
    }
    assert_eq!(till.purses(&app, "o1").await, (40, 100, 1));
    assert_eq!(exchange.send(&till).await.code(), 1);
    // A wrong token has no fault.
    ask(&till, &app, &json!({"target": "login", "fault": "refuse", "code": 10_000_305})).await;
    let login = |secret: &str| {
        Request::get(&format!(
            "/game/minigame/jscode2session?app_id=a1&app_secret={secret}&js_code=sandbox-alice"
        ))
    };
    assert_eq!(till.send(login("wrong")).await.code(), 100_200_101);
    let limited = till.send(login(&app.secret)).await;
    assert_eq!((limited.status, limited.code(), limited.header("retry-after")), (200, 10_000_305, Some("1")));
    assert_eq!(till.send(login(&app.secret)).await.code(), 1);
    ask(&till, &app, &json!({"target": "order_report", "fault": "refuse", "code": 10_000_500})).await;
    let path = format!("/openapi/mp/developer/order/v1/report?app_id=a1&access_token={}", app.token);
    let unavailable = till.send(Request::post(&path).body("{}")).await;
    assert_eq!(
        (unavailable.status, unavailable.code(), unavailable.header("retry-after")),
        (503, 10_000_500, Some("1"))
    );
    for (fault, message) in [
        (
            json!({"target": "login", "fault": "refuse", "code": 10_000_601}),
            "code: expected a code that login answers, such as 10000500, got 10000601",
        ),
        (json!({"target": "exchange", "fault": "refuse"}), "code is missing"),
        (
            json!({"target": "exchange", "fault": "lost", "code": 10_000_601}),
            "code: expected no code, but for refuse, got 10000601",
        ),
    ] {
        call(&till, &app, "faults", &fault).await.assert_refused(10_000_200, message);
    }
}

async fn logged(till: &TestTill, app: &TestApp, more: &str) -> Value {
    let path = format!("/sandbox/v1/requests?app_id={}&access_token={}{more}", app.id, app.token);
    let answer = till.send(Request::get(&path)).await;
    assert_eq!(answer.code(), 1, "{}", answer.body);
    answer.json()["requests"].clone()
}

/// Rules 18.3.1 to 18.3.4: a sandbox app sees its calls, without secrets, the newest first, and no other app's.
#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_app_sees_its_last_calls() {
    let till = TestTill::start().await;
    let app = sandbox_app(&till).await;
    let other = till.app_like("a2", AppKind { sandbox: true, ..AppKind::default() }).await;
    let live = till.app("a3").await;
    till.player(&live, "o1", 0, 100).await;
    assert_eq!(Game::new(&live, "o1", "b1", 1).send(&till).await.code(), 1);
    assert_eq!(logged(&till, &app, "").await, json!([]));
    let bought =
        Game::new(&app, "o1", "b1", 60).request().header("x-request-id", "first").send(till.address).await;
    let wrong = Game::new(&app, "o1", "b2", 60).with("access_token", "stolen").send(&till).await;
    ask(&till, &app, &json!({"target": "order_report", "fault": "refuse", "code": 10_000_500})).await;
    let path = format!("/openapi/mp/developer/order/v1/report?app_id=a1&access_token={}", app.token);
    let refused = till.send(Request::post(&path).body(r#"{"open_id":"o1","order_status":2}"#)).await;
    let unreadable = till.send(Request::post(&path).body(r#"{"open_id":"o1","order_status":2}"#)).await;
    let token =
        format!("/oauth2/access_token?grant_type=client_credentials&app_id=a1&app_secret={}", app.secret);
    let issued = till.send(Request::get(&token)).await;
    let calls = logged(&till, &app, "").await;
    let of = |no: usize| {
        (
            calls[no]["endpoint"].as_str().unwrap(),
            calls[no]["code"].as_u64().unwrap(),
            calls[no]["fault"].clone(),
        )
    };
    assert_eq!(calls.as_array().unwrap().len(), 6);
    assert_eq!(of(0), ("access_token", 1, json!(false)));
    assert_eq!(of(1), ("order_report", unreadable.code(), json!(false)));
    assert_eq!(of(2), ("order_report", 10_000_500, json!(true)));
    assert_eq!(of(3), ("sandbox", 1, json!(false)));
    assert_eq!(of(4), ("exchange", 100_200_102, json!(false)));
    assert_eq!(of(5), ("exchange", 1, json!(false)));
    assert_eq!((&calls[2]["status"], &calls[2]["answer"]), (&json!(503), &refused.json()));
    assert_eq!((&calls[4]["answer"], &calls[5]["answer"]), (&wrong.json(), &bought.json()));
    assert_eq!(calls[1]["fields"]["order_status"], json!("2"));
    let fields = &calls[5]["fields"];
    for name in ["access_token", "sign", "user_ip"] {
        assert_eq!(fields[name], json!("***"), "{name}");
    }
    assert_eq!((&fields["biz_no"], &fields["product_name"]), (&json!("b1"), &json!("Sword & shield = 100%")));
    assert_eq!(calls[5]["request_id"], json!("first"));
    let text = calls.to_string();
    for secret in [
        &app.token,
        &app.secret,
        &app.pay_key,
        "stolen",
        "203.0.113.9",
        issued.json()["access_token"].as_str().unwrap(),
    ] {
        assert!(!text.contains(secret), "{secret} stands in {text}");
    }
    let refused = logged(&till, &app, "&code=100200102").await;
    assert_eq!((refused.as_array().unwrap().len(), &refused[0]), (1, &calls[4]));
    assert_eq!(logged(&till, &app, "&request_id=first").await, json!([calls[5]]));
    assert_eq!(logged(&till, &app, "&since=2999-01-01T00:00:00Z").await, json!([]));
    assert_eq!(logged(&till, &other, "").await, json!([]));
    let path = |app: &TestApp, more: &str| {
        format!("/sandbox/v1/requests?app_id={}&access_token={}{more}", app.id, app.token)
    };
    let of_live = till.send(Request::get(&path(&live, ""))).await;
    of_live.assert_refused(
        100_200_102,
        "app_id: expected a sandbox app; to make one, run: minitill app create ID --sandbox",
    );
    let wrong = till.send(Request::get(&path(&app, "&code=2"))).await;
    wrong.assert_refused(10_000_200, "code: expected a code of a refusal, such as 10000601, got \"2\"");
}

/// Rules 18.3.2 and 18.3.4: a `url` is in the list wherever it came, and so is a call of the wallet without a token.
#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_calls_has_what_came_late_or_without_a_token() {
    let till = TestTill::start().await;
    let app = sandbox_app(&till).await;
    let path =
        format!("/openapi/mp/developer/file/img/uploadWithUrl?app_id={}&access_token={}", app.id, app.token);
    let url = "ftp://pictures.example/1.png?a=1&b=2";
    for request in [
        Request::post(&format!("{path}&url={url}")),
        Request::post(&path).body(json!({"url": url}).to_string()),
        Request::post(&format!("{path}&url=ftp%3A%2F%2Fpictures.example%2F1.png%3Fa%3D1%26b%3D2")),
    ] {
        assert_eq!(till.send(request).await.code(), 10_000_419);
    }
    let refused = Game::new(&app, "o1", "b1", 60).without("access_token").send(&till).await;
    let calls = logged(&till, &app, "").await;
    assert_eq!(calls.as_array().unwrap().len(), 4, "{calls}");
    assert_eq!((&calls[0]["answer"], &calls[0]["fields"]["biz_no"]), (&refused.json(), &json!("b1")));
    for no in 1..4 {
        assert_eq!(calls[no]["fields"]["url"], json!(url), "{no}");
        assert_eq!(calls[no]["fields"]["access_token"], json!("***"), "{no}");
    }
}

/// Rule 18.3.2: an answer that has the fields once more hides there what the fields hide. The game got it as it was.
#[tokio::test(flavor = "multi_thread")]
async fn the_string_to_sign_in_the_list_of_calls_has_no_secret() {
    let till = TestTill::start().await;
    let app = sandbox_app(&till).await;
    let game = Game::new(&app, "o1", "b1", 60).with("extension", &app.pay_key).keyed("another key");
    let wrong = game.send(&till).await;
    let told = wrong.json()["data"]["string_to_sign"].as_str().unwrap().to_owned();
    assert!(told.contains("user_ip=203.0.113.9") && told.contains(&app.pay_key), "{told}");
    let calls = logged(&till, &app, "").await;
    let kept = calls[0]["answer"]["data"]["string_to_sign"].as_str().unwrap();
    assert!(kept.contains("user_ip=***") && kept.contains("biz_no=b1"), "{kept}");
    let text = calls.to_string();
    for secret in ["203.0.113.9", app.pay_key.as_str()] {
        assert!(!text.contains(secret), "{secret} stands in {text}");
    }
}

/// Rule 18.3.1: an answer that a fault took away is told as it would have come.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_is_in_the_list_of_calls() {
    let till = TestTill::start().await;
    let app = sandbox_app(&till).await;
    ask(&till, &app, &json!({"target": "exchange", "fault": "lost"})).await;
    assert_eq!(bytes_of(till.address, &Game::new(&app, "o1", "b1", 60).request()).await, b"");
    let calls = logged(&till, &app, "").await;
    assert_eq!((&calls[0]["code"], &calls[0]["fault"]), (&json!(1), &json!(true)));
    assert_eq!(calls[0]["answer"]["data"]["bizNo"], json!("b1"));
}

/// Rules 12.7.1 to 12.7.3: events of a sandbox app come to a port of this machine, signed, with no network opened.
#[tokio::test(flavor = "multi_thread")]
async fn events_are_forwarded_to_this_machine() {
    let till = TestTill::start().await;
    let app = sandbox_app(&till).await;
    till.app("a2").await;
    let _sending = Sending::of(&till);
    let game =
        Receiver::answering(|_, earlier| if earlier == 0 { Reply::status(500) } else { Reply::taken() })
            .await;
    let program = Program::on(&till.database_url);
    let listen =
        |app: &'static str, url: &str| program.complaint(&["receiver", "listen", app, "--forward-to", url]);
    assert_eq!(
        listen("a2", &game.url("/")),
        "minitill: a2 is no sandbox app: add a receiver with `minitill receiver add`\n"
    );
    assert_eq!(
        listen("a1", "http://198.51.100.7/"),
        "minitill: --forward-to: expected an http URL of localhost or 127.0.0.1\n"
    );
    let secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
    let url = game.url("/till");
    let arguments = [
        "receiver",
        "listen",
        "a1",
        "--forward-to",
        &url,
        "--event",
        "exchange.succeeded",
        "--secret",
        secret,
    ];
    let mut listening = program.command(&[&arguments[..], &["--json"]].concat());
    let mut listening = listening.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut told = std::io::BufRead::lines(std::io::BufReader::new(listening.stdout.take().unwrap()));
    let mut next = || serde_json::from_str::<Value>(&told.next().unwrap().unwrap()).unwrap();
    assert_eq!(next()["secret"], json!(secret));
    // It looks where the feed ends before it sends anything, a moment after it has told that it began.
    let mut bought = 0;
    until("an event comes", async || {
        bought += 1;
        Game::new(&app, "o1", &format!("b{bought}"), 1).send(&till).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        game.received().len() >= 2
    })
    .await;
    let came = game.received();
    assert_eq!(came[0].id(), came[1].id(), "what was not taken comes again");
    assert_eq!(came[1].json()["type"], json!("exchange.succeeded"));
    assert!(came[1].header("webhook-signature").starts_with("v1,"));
    assert_eq!((&next()["status"], &next()["status"]), (&json!(500), &json!(204)));
    assert_eq!(till.number("SELECT count(*) FROM receivers").await, 0);
    listening.kill().unwrap();
    listening.wait().unwrap();
}
