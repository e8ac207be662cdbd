//! Order reports up to their body: who may report, and what is read at all (contract 2.6 and 4.1).

use domain::operation::app::AppCommand;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{SUCCESS, Scene, request};
use crate::support::{AppKind, PATIENCE, Request, TestTill};

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_not_one_json_object_is_refused() {
    let scene = Scene::new().await;
    let good = Value::Object(scene.report()).to_string();
    let twice = |more: &str| format!("{},{more}}}", good.trim_end_matches('}'));
    for (body, message) in [
        (String::new(), "body: expected a JSON object, got nothing"),
        ("[]".to_owned(), "body: expected a JSON object, got an array"),
        ("hello".to_owned(), "body: expected a JSON object, got plain text"),
        ("{\"a\":".to_owned(), "body: expected a JSON object, got a fault at line 1 column 5"),
        (twice(r#""open_id":"o1""#), "open_id: expected once, given twice"),
        (twice(r#""x":1,"x":2"#), "x: expected once, given twice"),
        (twice(r#""x":"\u0000""#), "x: expected text without NUL characters"),
        (twice(r#""x":"\ud800""#), "x: expected UTF-8 text"),
        (twice(r#""\ud800":"a""#), "a field name: expected UTF-8 text"),
        ("{\"\\ud800\":".to_owned(), "body: expected a JSON object, got a fault at line 1 column "),
        (format!("{good}{good}"), "body: expected a JSON object, got a fault at line 1 column 233"),
    ] {
        let answer = scene.send_text(&body).await;
        assert_eq!((answer.status, answer.code()), (200, 10_000_200), "{}", answer.body);
        assert!(answer.message().starts_with(message.split(" at line").next().unwrap()), "{}", answer.body);
    }
    let not_text = scene.till.send(request(&scene.app, b"{\"a\":\"\xff\"}")).await;
    not_text.assert_refused(10_000_200, "body: expected UTF-8 text");
    let long = scene.send_text(&format!("{{\"x\":\"{}\"}}", "y".repeat(65_536))).await;
    assert_eq!(
        (long.status, long.body.as_str()),
        (413, r#"{"result":10000200,"error_msg":"body: expected at most 65536 bytes"}"#)
    );
    assert_eq!(scene.rows().await, (0, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_caller_needs_a_token_of_its_own_and_the_scope_before_anything_is_read() {
    let scene = Scene::new().await;
    let other = scene.till.app("a2").await;
    let bare = scene.till.app_like("a3", AppKind { scopes: &[], ..AppKind::default() }).await;
    let of = |query: &str| {
        Request::post(&format!("/openapi/mp/developer/order/v1/report?{query}")).body("nonsense")
    };
    let cases = [
        (String::new(), "app_id is missing"),
        ("app_id=a1".to_owned(), "access_token is missing; /oauth2/access_token gives one"),
        (
            format!("app_id=a1&access_token={}", other.token),
            "access_token: expected a token of this app from /oauth2/access_token",
        ),
        (
            format!("app_id=nobody&access_token={}", other.token),
            "app_id: unknown app \"nobody\"; use the id that the operator of this till gave you",
        ),
        (
            format!("app_id=a3&access_token={}", bare.token),
            "app_id: the app lacks the scope epay; to give it, run: minitill app change a3 --add-scope epay",
        ),
    ];
    for (query, message) in cases {
        scene.till.send(of(&query)).await.assert_refused(100_200_102, message);
    }
    scene
        .till
        .send(of("app_id=a1&app_id=a1"))
        .await
        .assert_refused(10_000_200, "app_id: expected once, given twice");
    // The refusal comes although the body never does.
    let head = format!(
        "POST /openapi/mp/developer/order/v1/report?app_id=a3&access_token={} HTTP/1.1\r\nhost: till\r\ncontent-length: 60000\r\n\r\n",
        bare.token
    );
    let mut stream = TcpStream::connect(scene.till.address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut received = vec![0; 2048];
    let length = tokio::time::timeout(PATIENCE, stream.read(&mut received)).await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(&received[..length]).contains("100200102"));
    scene.till.command(&scene.app, AppCommand::Suspend(true)).await;
    scene.till.clock.advance(Duration::from_secs(3));
    scene.send(&scene.report()).await.assert_refused(
        100_200_102,
        "app_id: the app is suspended; ask the operator of this till to resume it",
    );
    scene.till.clock.advance(Duration::from_hours(48));
    scene
        .send(&scene.report())
        .await
        .assert_refused(100_200_102, "access_token: expired, get a new one from /oauth2/access_token");
    assert_eq!(scene.rows().await, (0, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_given_twice_is_refused_whatever_its_values_and_however_it_is_written() {
    let scene = Scene::new().await;
    let good = Value::Object(scene.report()).to_string();
    let with = |more: &str| format!("{},{more}}}", good.trim_end_matches('}'));
    for (name, value) in scene.report() {
        for value in [value, json!(null), json!(""), json!([])] {
            let answer = scene.send_text(&with(&format!("\"{name}\":{value}"))).await;
            answer.assert_refused(10_000_200, &format!("{name}: expected once, given twice"));
        }
    }
    for (more, name) in [
        (r#""open\u005fid":"o1""#, "open_id"),
        (r#""sign":null,"sign":null"#, "sign"),
        (r#""poi_id":null,"poi_id":"""#, "poi_id"),
        (r#""":1,"":1"#, "a field without a name"),
    ] {
        let answer = scene.send_text(&with(more)).await;
        answer.assert_refused(10_000_200, &format!("{name}: expected once, given twice"));
    }
    assert_eq!(scene.rows().await, (0, 0, 0));
    // Nested keys are no fields, and case makes another name.
    let nested = with(r#""nested":{"open_id":1,"open_id":2},"Open_id":"o2""#);
    scene.send_text(&nested).await.assert_body(SUCCESS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_as_long_as_allowed_is_read_and_one_byte_more_is_413() {
    let scene = Scene::new().await;
    let good = Value::Object(scene.report()).to_string();
    let padded = |length: usize| {
        let head = format!("{},\"x\":\"", good.trim_end_matches('}'));
        format!("{head}{}\"}}", "y".repeat(length - head.len() - 2))
    };
    let long = scene.send_text(&padded(65_537)).await;
    assert_eq!(
        (long.status, long.body.as_str()),
        (413, r#"{"result":10000200,"error_msg":"body: expected at most 65536 bytes"}"#)
    );
    assert_eq!(long.header("content-type"), Some("application/json; charset=utf-8"));
    assert_eq!(scene.rows().await, (0, 0, 0));
    scene.send_text(&padded(65_536)).await.assert_body(SUCCESS);
}

#[tokio::test(flavor = "multi_thread")]
async fn deep_nesting_in_an_unknown_field_is_ignored_and_harms_nobody() {
    let scene = Scene::new().await;
    let good = Value::Object(scene.report()).to_string();
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let depth = 10_000;
        let inner = if open == "[" { "" } else { "1" };
        let nested = format!("{}{inner}{}", open.repeat(depth), close.repeat(depth));
        let body = format!("{},\"x\":{nested}}}", good.trim_end_matches('}'));
        scene.send_text(&body).await.assert_body(SUCCESS);
        let answer = scene.send_text(&nested).await;
        assert_eq!((answer.status, answer.code()), (200, 10_000_200), "{}", answer.body);
    }
}

/// Contract 2.10.5: a report in an object of its own is told so.
#[tokio::test(flavor = "multi_thread")]
async fn a_report_in_an_envelope_is_told_so() {
    let scene = Scene::new().await;
    let enveloped = json!({"code": 0, "data": scene.report()}).to_string();
    let text = "out_biz_order_no is missing; it came inside the JSON of data: send that as it is";
    scene.send_text(&enveloped).await.assert_refused(10_000_200, text);
    assert_eq!(scene.rows().await, (0, 0, 0));
}

/// Contract 2.1: the text tells what came.
#[tokio::test(flavor = "multi_thread")]
async fn more_fields_than_allowed_are_refused_in_words() {
    let scene = Scene::new().await;
    let good = Value::Object(scene.report()).to_string();
    let with_fields = |count: usize| {
        let more: Vec<String> = (7..count).map(|index| format!("\"f{index}\":1")).collect();
        format!("{},{}}}", good.trim_end_matches('}'), more.join(","))
    };
    scene.send_text(&with_fields(256)).await.assert_body(SUCCESS);
    for count in [257, 258, 300, 1000] {
        let answer = scene.send_text(&with_fields(count)).await;
        answer.assert_refused(10_000_200, "expected at most 256 fields");
    }
}

/// Contract 2.1: valid JSON that is no object has no fault at any column; the text tells what came.
#[tokio::test(flavor = "multi_thread")]
async fn a_json_value_that_is_no_object_is_refused_for_what_it_is() {
    let scene = Scene::new().await;
    for body in ["", " \r\n\t"] {
        let answer = scene.send_text(body).await;
        answer.assert_refused(10_000_200, "body: expected a JSON object, got nothing");
    }
    for body in ["[]", "[{}]", "[1,2]"] {
        let answer = scene.send_text(body).await;
        answer.assert_refused(10_000_200, "body: expected a JSON object, got an array");
    }
    for body in ["null", "true", "1", "\"text\""] {
        let answer = scene.send_text(body).await;
        assert_eq!((answer.status, answer.code()), (200, 10_000_200), "{}", answer.body);
        assert!(!answer.message().contains("a fault"), "{body}: {}", answer.body);
    }
    assert_eq!(scene.rows().await, (0, 0, 0));
}

/// What comes back to a head that announces a body which never comes.
async fn answer_without_a_body(till: &TestTill, query: &str) -> String {
    let head = format!(
        "POST /openapi/mp/developer/order/v1/report?{query} HTTP/1.1\r\nhost: till\r\ncontent-type: application/json\r\n\
         content-length: 60000\r\n\r\n"
    );
    let mut stream = TcpStream::connect(till.address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut received = vec![0; 4096];
    let reading = tokio::time::timeout(PATIENCE, stream.read(&mut received));
    let length = reading.await.expect("a refusal that waits for no body").unwrap();
    String::from_utf8_lossy(&received[..length]).into_owned()
}

/// Contract 2.6.
#[tokio::test(flavor = "multi_thread")]
async fn each_refusal_of_credentials_comes_before_the_body_does() {
    let scene = Scene::new().await;
    let till = &scene.till;
    let other = till.app("a2").await;
    let bare = till.app_like("a3", AppKind { scopes: &[], ..AppKind::default() }).await;
    let suspended = till.app("a4").await;
    till.command(&suspended, AppCommand::Suspend(true)).await;
    let (short, _) = till.store.issue_token(&scene.app.id, Duration::from_secs(10)).await.unwrap().unwrap();
    till.clock.advance(Duration::from_secs(10));
    let of = |app_id: &str, token: &str| format!("app_id={app_id}&access_token={token}");
    let refusals = [
        (String::new(), "app_id is missing"),
        (format!("access_token={}", scene.app.token), "app_id is missing"),
        (of("", &scene.app.token), "app_id is empty"),
        ("app_id=a1".to_owned(), "access_token is missing; /oauth2/access_token gives one"),
        (of("a1", ""), "access_token is empty; /oauth2/access_token gives one"),
        (of("a1", &other.token), "access_token: expected a token of this app from /oauth2/access_token"),
        (of("a1", "never-issued"), "access_token: expected a token of this app from /oauth2/access_token"),
        (of("a1", &scene.app.secret), "access_token: expected a token of this app from /oauth2/access_token"),
        (of("a1", &short), "access_token: expired, get a new one from /oauth2/access_token"),
        (of("a2", &short), "access_token: expected a token of this app from /oauth2/access_token"),
        (
            of("nobody", &scene.app.token),
            r#"app_id: unknown app \"nobody\"; use the id that the operator of this till gave you"#,
        ),
        (
            of("a%2F1", &scene.app.token),
            r#"app_id: unknown app \"a/1\"; use the id that the operator of this till gave you"#,
        ),
        (
            of("A1", &scene.app.token),
            r#"app_id: unknown app \"A1\"; use the id that the operator of this till gave you"#,
        ),
        (
            of("a3", &bare.token),
            "app_id: the app lacks the scope epay; to give it, run: minitill app change a3 --add-scope epay",
        ),
        (
            of("a4", &suspended.token),
            "app_id: the app is suspended; ask the operator of this till to resume it",
        ),
        (of("a4", &other.token), "access_token: expected a token of this app from /oauth2/access_token"),
    ];
    let answers = refusals.iter().map(|(query, _)| answer_without_a_body(till, query));
    let answers = futures_util::future::join_all(answers).await;
    for ((query, message), text) in refusals.iter().zip(answers) {
        assert!(text.starts_with("HTTP/1.1 200 "), "{query}: {text}");
        let body = format!(r#"{{"result":100200102,"error_msg":"{message}"}}"#);
        assert!(text.ends_with(&body), "{query}: {text}");
    }
    for (more, message) in [
        ("app_id=a1", "app_id: expected once, given twice"),
        ("x=1&x=2", "x: expected once, given twice"),
        ("x=%FF", "x: expected UTF-8 text"),
        ("x=%00", "x: expected text without NUL characters"),
    ] {
        let query = format!("{}&{more}", of("a1", &scene.app.token));
        let text = answer_without_a_body(till, &query).await;
        let body = format!(r#"{{"result":10000200,"error_msg":"{message}"}}"#);
        assert!(text.ends_with(&body), "{more}: {text}");
    }
    assert_eq!(scene.rows().await, (0, 0, 0));
}

/// Contract 2.9: the query decides the tenant, and only the query.
#[tokio::test(flavor = "multi_thread")]
async fn credentials_in_the_body_are_unknown_fields_and_named_when_they_miss_in_the_query() {
    let scene = Scene::new().await;
    let other = scene.till.app("a2").await;
    let body = Value::Object(scene.with(&[("app_id", json!("a2")), ("access_token", json!(other.token))]));
    let stranger = Request::post("/openapi/mp/developer/order/v1/report").body(body.to_string());
    let misplaced = "app_id: expected in the query, it came in the body";
    scene.till.send(stranger).await.assert_refused(100_200_102, misplaced);
    scene.send_text(&body.to_string()).await.assert_body(SUCCESS);
    assert_eq!(scene.till.number("SELECT count(*) FROM orders WHERE app_id = 'a1'").await, 1);
    assert_eq!(scene.rows().await, (1, 1, 1));
}
