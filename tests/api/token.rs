//! Access tokens (contract 6).

use domain::operation::app::{AppCommand, NewAppSecret};
use std::time::Duration;

use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::support::{Answer, NOW, Request, TestApp, TestTill};

const PATH: &str = "/oauth2/access_token";

fn query(app_id: &str, app_secret: &str) -> String {
    format!("app_id={app_id}&app_secret={app_secret}&grant_type=client_credentials")
}

fn by_get(app: &TestApp) -> Request {
    Request::get(&format!("{PATH}?{}", query(app.id.as_str(), &app.secret)))
}

/// The token of an answer that is exactly as the contract has it.
#[track_caller]
fn token(answer: &Answer) -> String {
    let token =
        answer.json()["access_token"].as_str().unwrap_or_else(|| panic!("{}", answer.body)).to_owned();
    answer.assert_body(&format!(
        r#"{{"result":1,"error_msg":"success","access_token":"{token}","expires_in":172800,"token_type":"bearer"}}"#
    ));
    assert!(token.len() == 64 && token.bytes().all(|byte| byte.is_ascii_hexdigit()), "256 bits: {token}");
    token
}

/// Whether the token speaks for the app: a report's refusal then is about its body.
async fn works(till: &TestTill, app: &TestApp, token: &str) -> bool {
    let path = format!("/openapi/mp/developer/order/v1/report?app_id={}&access_token={token}", app.id);
    match till.send(Request::post(&path).body("{}")).await.code() {
        10_000_200 => true,
        code => {
            assert_eq!(code, 100_200_102);
            false
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_comes_by_query_form_json_or_multipart_and_works_48_hours() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let form = query("a1", &app.secret);
    let json =
        json!({"app_id": "a1", "app_secret": app.secret, "grant_type": "client_credentials", "else": 1})
            .to_string();
    let part = |name: &str| format!("content-disposition: form-data; name=\"{name}\"");
    let (id, secret, grant) = (part("app_id"), part("app_secret"), part("grant_type"));
    let multipart = Request::post(PATH).multipart(&[
        (&id, b"a1"),
        (&secret, app.secret.as_bytes()),
        (&grant, b"client_credentials"),
    ]);
    let requests = [
        by_get(&app),
        Request::post(PATH).header("content-type", "application/x-www-form-urlencoded").body(form.clone()),
        Request::post(PATH).body(form),
        Request::post(PATH).header("content-type", "application/json").body(json.clone()),
        Request::post(PATH).body(json),
        multipart,
    ];
    let mut tokens = Vec::new();
    for request in requests {
        tokens.push(token(&till.send(request).await));
    }
    // A new token does not end an old one.
    for token in &tokens {
        assert!(works(&till, &app, token).await);
    }
    till.clock.advance(Duration::from_hours(48) - Duration::from_millis(1));
    assert!(works(&till, &app, &tokens[0]).await);
    till.clock.advance(Duration::from_millis(1));
    assert!(!works(&till, &app, &tokens[0]).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_hash_of_a_token_is_stored() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.execute("DELETE FROM access_tokens").await;
    let token = token(&till.send(by_get(&app)).await);
    let stored: Vec<u8> =
        sqlx::query_scalar("SELECT token_hash FROM access_tokens").fetch_one(&till.sql).await.unwrap();
    assert_eq!(stored, Sha256::digest(&token).to_vec());
    for sealed in ["SELECT app_secret FROM apps", "SELECT pay_key FROM pay_keys"] {
        let sealed: Vec<u8> =
            sqlx::query_scalar(sqlx::AssertSqlSafe(sealed)).fetch_one(&till.sql).await.unwrap();
        for secret in [&app.secret, &app.pay_key] {
            assert!(
                !sealed.windows(secret.len()).any(|window| window == secret.as_bytes()),
                "encrypted at rest"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parameter_that_is_missing_or_wrong_is_100200100() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let full = query("a1", &app.secret);
    for name in ["app_id", "app_secret", "grant_type"] {
        let without: Vec<&str> =
            full.split('&').filter(|pair| !pair.starts_with(&format!("{name}="))).collect();
        let absent = without.join("&");
        for (query, problem) in [(absent.clone(), "missing"), (format!("{absent}&{name}="), "empty")] {
            let message = format!("{name} is {problem}");
            till.send(Request::get(&format!("{PATH}?{query}"))).await.assert_refused(100_200_100, &message);
            till.send(Request::post(PATH).body(query)).await.assert_refused(100_200_100, &message);
        }
    }
    let wrong = full.replace("client_credentials", "password");
    let message = "grant_type: expected client_credentials, got \"password\"";
    till.send(Request::get(&format!("{PATH}?{wrong}"))).await.assert_refused(100_200_100, message);
    let twice = Request::get(&format!("{PATH}?{full}&x=1&x=2"));
    till.send(twice).await.assert_refused(100_200_100, "x: expected once, given twice");
    for empty in ["", "{}", "[]", "[ ]"] {
        till.send(Request::post(PATH).body(empty)).await.assert_refused(100_200_100, "app_id is missing");
    }
    let array = till.send(Request::post(PATH).body("[1]")).await;
    array.assert_refused(100_200_100, "body: expected a JSON object, got an array");
    let long = till.send(Request::post(PATH).body(vec![b'x'; 65_537])).await;
    assert_eq!((long.status, long.code()), (413, 10_000_200));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_app_id_or_secret_is_100200101_and_nothing_tells_which() {
    let till = TestTill::start().await;
    let (app, other) = (till.app("a1").await, till.app("a2").await);
    for (app_id, secret) in [
        ("a1", "wrong"),
        ("a1", other.secret.as_str()),
        ("a1", app.pay_key.as_str()),
        ("nobody", app.secret.as_str()),
        ("no!app", app.secret.as_str()),
    ] {
        let answer = till.send(Request::get(&format!("{PATH}?{}", query(app_id, secret)))).await;
        let message = format!(
            "app_id or app_secret is wrong; use those that the operator of this till gave you; app_id \"{app_id}\" came"
        );
        answer.assert_refused(100_200_101, &message);
    }
    till.command(&app, AppCommand::Suspend(true)).await;
    till.clock.advance(Duration::from_secs(3));
    till.send(by_get(&app)).await.assert_refused(
        100_200_102,
        "app_id: the app is suspended; ask the operator of this till to resume it",
    );
}

/// Rule 8.2.2: two app secrets are valid, the new one and the one before it. No token ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_rotation_keeps_the_secret_before_and_retires_the_one_before_that() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let old = token(&till.send(by_get(&app)).await);
    let rotate = async || {
        let rotated = till.command(&app, AppCommand::RotateSecret(None)).await;
        // Apps are remembered for two seconds.
        till.clock.advance(Duration::from_secs(3));
        TestApp { secret: NewAppSecret::try_from(rotated).unwrap().app_secret, ..app.clone() }
    };
    let newer = rotate().await;
    for app in [&app, &newer] {
        token(&till.send(by_get(app)).await);
    }
    let newest = rotate().await;
    till.send(by_get(&app)).await.assert_refused(
        100_200_101,
        "app_id or app_secret is wrong; use those that the operator of this till gave you; app_id \"a1\" came",
    );
    for app in [&newer, &newest] {
        token(&till.send(by_get(app)).await);
    }
    assert!(works(&till, &app, &old).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_forgotten_a_week_after_they_end() {
    let till = TestTill::start().await;
    till.app("a1").await;
    for (age, left) in [("6 days 23 hours", 1), ("7 days 1 hour", 0)] {
        till.execute(&format!("UPDATE access_tokens SET expires_at = now() - interval '{age}'")).await;
        till.store.forget_expired_tokens().await.unwrap();
        assert_eq!(till.number("SELECT count(*) FROM access_tokens").await, left, "{age}");
    }
}

/// A multipart part of a form.
fn part(name: &str) -> String {
    format!("content-disposition: form-data; name=\"{name}\"")
}

async fn tokens_stored(till: &TestTill) -> i64 {
    till.number("SELECT count(*) FROM access_tokens").await
}

/// Contract 2.5, in each of the four ways that parameters come.
#[tokio::test(flavor = "multi_thread")]
async fn a_parameter_given_twice_not_utf8_or_with_nul_is_refused_however_it_comes() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let before = tokens_stored(&till).await;
    let form = query("a1", &app.secret);
    for (more, message) in [
        ("app_secret=x", "app_secret: expected once, given twice"),
        ("unknown=1&unknown=1", "unknown: expected once, given twice"),
        ("unknown=%FF", "unknown: expected UTF-8 text"),
        ("unknown=a%00", "unknown: expected text without NUL characters"),
    ] {
        let text = format!("{form}&{more}");
        till.send(Request::get(&format!("{PATH}?{text}"))).await.assert_refused(100_200_100, message);
        till.send(Request::post(PATH).body(text)).await.assert_refused(100_200_100, message);
    }
    // The query of a POST gives nothing, and is held to it all the same.
    till.send(Request::post(&format!("{PATH}?x=1&x=2")).body(form.clone()))
        .await
        .assert_refused(100_200_100, "x: expected once, given twice");
    let json = format!(r#"{{"app_id":"a1","app_secret":"{}","grant_type":"client_credentials","#, app.secret);
    for (more, message) in [
        (r#""app_secret":"x"}"#, "app_secret: expected once, given twice"),
        (r#""\u0061pp_id":"a1"}"#, "app_id: expected once, given twice"),
        (r#""unknown":1,"unknown":1}"#, "unknown: expected once, given twice"),
        (r#""unknown":"\ud800"}"#, "unknown: expected UTF-8 text"),
        (r#""unknown":"\u0000"}"#, "unknown: expected text without NUL characters"),
    ] {
        let answer = till.send(Request::post(PATH).body(format!("{json}{more}"))).await;
        answer.assert_refused(100_200_100, message);
    }
    let (id, secret, grant) = (part("app_id"), part("app_secret"), part("grant_type"));
    let parts: [(&str, &[u8]); 3] =
        [(&id, b"a1"), (&secret, app.secret.as_bytes()), (&grant, b"client_credentials")];
    for (value, message) in [
        (&b"a1"[..], "app_id: expected once, given twice"),
        (b"\xff", "body: expected UTF-8 text"),
        (b"a\0", "app_id: expected text without NUL characters"),
    ] {
        let parts: Vec<(&str, &[u8])> = parts.into_iter().chain([(id.as_str(), value)]).collect();
        let answer = till.send(Request::post(PATH).multipart(&parts)).await;
        answer.assert_refused(100_200_100, message);
    }
    assert_eq!(tokens_stored(&till).await, before, "a refused request issues nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parameter_that_is_missing_from_json_or_multipart_is_named_too() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let before = tokens_stored(&till).await;
    let full = [("app_id", "a1"), ("app_secret", app.secret.as_str()), ("grant_type", "client_credentials")];
    for (missing, _) in full {
        let message = format!("{missing} is missing");
        let rest: Vec<(&str, &str)> = full.into_iter().filter(|(name, _)| *name != missing).collect();
        let absent: serde_json::Map<_, _> =
            rest.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        let (mut null, mut empty) = (absent.clone(), absent.clone());
        null.insert(missing.to_owned(), json!(null));
        empty.insert(missing.to_owned(), json!(""));
        for (body, problem) in [(absent, "missing"), (null, "missing"), (empty, "empty")] {
            let body = serde_json::Value::Object(body).to_string();
            let message = format!("{missing} is {problem}");
            till.send(Request::post(PATH).body(body)).await.assert_refused(100_200_100, &message);
        }
        let heads: Vec<String> = rest.iter().map(|(name, _)| part(name)).collect();
        let parts: Vec<(&str, &[u8])> =
            heads.iter().zip(&rest).map(|(head, (_, value))| (head.as_str(), value.as_bytes())).collect();
        till.send(Request::post(PATH).multipart(&parts)).await.assert_refused(100_200_100, &message);
    }
    assert_eq!(tokens_stored(&till).await, before);
}

/// Rule (contract 6.1): a POST may have its parameters in the query, each of them, and then its body is
/// not looked at.
#[tokio::test(flavor = "multi_thread")]
async fn a_post_may_have_its_parameters_in_the_query_or_in_both_places() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let full = query("a1", &app.secret);
    token(&till.send(Request::post(&format!("{PATH}?{full}"))).await);
    token(&till.send(Request::post(&format!("{PATH}?{full}")).body("[1]")).await);
    let (head, rest) = full.split_once('&').unwrap();
    token(&till.send(Request::post(&format!("{PATH}?{head}")).body(rest)).await);
    let unreadable = till.send(Request::post(&format!("{PATH}?{head}")).body("[1]")).await;
    unreadable.assert_refused(100_200_100, "body: expected a JSON object, got an array");
}

/// Rule (contract 2.6.3): a GET has its parameters in the query. One that came in the body is named.
#[tokio::test(flavor = "multi_thread")]
async fn a_parameter_in_the_body_of_a_get_is_told_so() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let request = Request::get(&format!("{PATH}?app_id=a1")).body(query("a1", &app.secret));
    let text = "app_secret: expected in the query, it came in the body";
    till.send(request).await.assert_refused(100_200_100, text);
}

/// Contract 2.5: a value of a wrong type is at fault, and an identifier may come as an integer.
#[tokio::test(flavor = "multi_thread")]
async fn a_json_value_of_a_wrong_type_is_refused_and_an_app_id_may_be_an_integer() {
    let till = TestTill::start().await;
    let app = till.app("7001").await;
    let body = |app_id: &str, grant_type: &str| {
        format!(r#"{{"app_id":{app_id},"app_secret":"{}","grant_type":{grant_type}}}"#, app.secret)
    };
    let good = "\"client_credentials\"";
    token(&till.send(Request::post(PATH).body(body("7001", good))).await);
    for (app_id, grant_type, message) in [
        ("false", good, "app_id: expected text, got false"),
        ("{}", good, "app_id: expected text, got an object"),
        ("[7001]", good, "app_id: expected text, got an array"),
        ("7001.0", good, "app_id: expected text, got 7001.0"),
        ("7001", "true", "grant_type: expected client_credentials, got true"),
        ("7001", "1", "grant_type: expected client_credentials, got 1"),
        ("7001", "\"1\"", "grant_type: expected client_credentials, got \"1\""),
        (
            "7001",
            "\"Client_Credentials\"",
            "grant_type: expected client_credentials, got \"Client_Credentials\"",
        ),
    ] {
        let answer = till.send(Request::post(PATH).body(body(app_id, grant_type))).await;
        answer.assert_refused(100_200_100, message);
    }
}

/// Contract 2.1 and 2.8: an answer never repeats a secret, whatever type it came as.
#[tokio::test(flavor = "multi_thread")]
async fn an_app_secret_of_a_wrong_type_is_not_repeated() {
    let till = TestTill::start().await;
    till.app("a1").await;
    for secret in ["271828.18", "-27182818", "27182818e1"] {
        let body = format!(r#"{{"app_id":"a1","app_secret":{secret},"grant_type":"client_credentials"}}"#);
        let answer = till.send(Request::post(PATH).body(body)).await;
        assert_eq!((answer.status, answer.code()), (200, 100_200_100), "{}", answer.body);
        assert!(!answer.body.contains("2718"), "{}", answer.body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_the_same_to_the_byte_for_a_wrong_secret_and_an_unknown_app() {
    let till = TestTill::start().await;
    let (app, _other) = (till.app("a1").await, till.app("a2").await);
    let before = tokens_stored(&till).await;
    let wrong = |app_id: &str| {
        format!(
            r#"{{"result":100200101,"error_msg":"app_id or app_secret is wrong; use those that the operator of this till gave you; app_id \"{app_id}\" came"}}"#
        )
    };
    let swapped_case = app.secret.to_uppercase();
    let (shorter, longer) = (&app.secret[1..], format!("{}0", app.secret));
    for (app_id, secret) in [
        ("a1", "x"),
        ("a2", app.secret.as_str()),
        ("a3", app.secret.as_str()),
        ("A1", app.secret.as_str()),
        ("a1", swapped_case.as_str()),
        ("a1", shorter),
        ("a1", longer.as_str()),
        ("a1", app.token.as_str()),
    ] {
        till.send(Request::get(&format!("{PATH}?{}", query(app_id, secret))))
            .await
            .assert_body(&wrong(app_id));
        till.send(Request::post(PATH).body(query(app_id, secret))).await.assert_body(&wrong(app_id));
    }
    // Only who knows the secret learns that the app is suspended.
    till.command(&app, AppCommand::Suspend(true)).await;
    till.clock.advance(Duration::from_secs(3));
    till.send(Request::get(&format!("{PATH}?{}", query("a1", "x")))).await.assert_body(&wrong("a1"));
    let suspended = till.send(by_get(&app)).await;
    suspended.assert_body(r#"{"result":100200102,"error_msg":"app_id: the app is suspended; ask the operator of this till to resume it"}"#);
    assert_eq!(tokens_stored(&till).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_stored_with_its_app_and_its_end_and_speaks_for_no_other_app() {
    let till = TestTill::start().await;
    let (app, other) = (till.app("a1").await, till.app("a2").await);
    till.execute("DELETE FROM access_tokens").await;
    let first = token(&till.send(by_get(&app)).await);
    let second = token(&till.send(by_get(&app)).await);
    assert_ne!(first, second);
    let kept = format!(
        "SELECT count(*) FROM access_tokens WHERE app_id = 'a1' AND octet_length(token_hash) = 32 \
         AND expires_at = to_timestamp({} / 1000.0)",
        NOW + 172_800_000
    );
    assert_eq!(till.number(&kept).await, 2);
    assert_eq!(tokens_stored(&till).await, 2);
    assert!(works(&till, &app, &first).await);
    assert!(!works(&till, &other, &first).await);
    for near in [first[1..].to_owned(), format!("{first}0"), first.to_uppercase(), format!("%20{first}")] {
        assert!(!works(&till, &app, &near).await, "{near}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn other_methods_are_405_and_issue_nothing() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let before = tokens_stored(&till).await;
    let target = format!("{PATH}?{}", query("a1", &app.secret));
    for method in ["HEAD", "PUT", "DELETE", "PATCH"] {
        let answer = till.send(Request::new(method, &target)).await;
        assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, POST")), "{method}");
        if method != "HEAD" {
            let text = format!("method: expected GET or POST, got \"{method}\"");
            assert_eq!((answer.code(), answer.message()), (10_000_200, text));
        }
    }
    assert_eq!(tokens_stored(&till).await, before);
}
