//! Access tokens (contract 6).

use std::time::Duration;

use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::support::{Answer, Request, TestApp, TestTill};

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
        for query in [without.join("&"), format!("{}&{name}=", without.join("&"))] {
            let message = format!("{name} is missing");
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
        answer.assert_refused(100_200_101, "app_id or app_secret is wrong");
    }
    till.store.set_suspended(&app.id, true).await.unwrap();
    till.clock.advance(Duration::from_secs(3));
    till.send(by_get(&app)).await.assert_refused(100_200_102, "app_id: the app is suspended");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotated_secret_ends_the_old_one_and_no_token() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let old = token(&till.send(by_get(&app)).await);
    let secret = till.store.rotate_secret(&app.id).await.unwrap().unwrap();
    till.clock.advance(Duration::from_secs(3));
    till.send(by_get(&app)).await.assert_refused(100_200_101, "app_id or app_secret is wrong");
    token(&till.send(by_get(&TestApp { secret, ..app.clone() })).await);
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
