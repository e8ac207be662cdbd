//! The login: a code for a session (contract 11).

use std::time::Duration;

use domain::ids::{OpenId, UnionId};
use domain::login::Player;
use domain::operation::app::{AppCommand, IssuedLoginCode};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::task::JoinSet;

use crate::support::{Answer, AppKind, Request, TestApp, TestTill};

const PATHS: [&str; 2] = ["/game/minigame/jscode2session", "/oauth2/mp/code2session"];
const INVALID: &str =
    "js_code: expected a code of this app that was not used and has not expired; a new login gives one";

/// A new code of this player.
async fn code_for(till: &TestTill, app: &TestApp, open_id: &str, union_id: Option<&str>) -> String {
    let player = Player {
        open_id: OpenId::parse(open_id).unwrap(),
        union_id: union_id.map(|union_id| UnionId::parse(union_id).unwrap()),
    };
    let issued = till.command(app, AppCommand::IssueLoginCode(player)).await;
    IssuedLoginCode::try_from(issued).unwrap().js_code
}

fn query(app: &TestApp, js_code: &str) -> String {
    format!("app_id={}&app_secret={}&js_code={js_code}", app.id, app.secret)
}

fn by_get(app: &TestApp, js_code: &str) -> Request {
    Request::get(&format!("{}?{}", PATHS[0], query(app, js_code)))
}

/// The session key of an answer that is exactly as the contract has it: 16 bytes in base64.
#[track_caller]
fn session_key(answer: &Answer, open_id: &str, union_id: Option<&str>) -> String {
    let key = answer.json()["session_key"].as_str().unwrap_or_else(|| panic!("{}", answer.body)).to_owned();
    let union_id = union_id.map(|union_id| format!(r#","union_id":"{union_id}""#)).unwrap_or_default();
    answer.assert_body(&format!(
        r#"{{"result":1,"error_msg":"success","open_id":"{open_id}","session_key":"{key}"{union_id}}}"#
    ));
    let digits = key.strip_suffix("==").unwrap();
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/".contains(&byte);
    assert!(digits.len() == 22 && digits.bytes().all(is_base64), "{key}");
    key
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_comes_by_query_form_json_or_multipart_on_both_paths() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let part = |name: &str| format!("content-disposition: form-data; name=\"{name}\"");
    let (id, secret, code_part) = (part("app_id"), part("app_secret"), part("js_code"));
    let mut keys = std::collections::BTreeSet::new();
    for path in PATHS {
        for way in 0..7 {
            let code = code_for(&till, &app, "o1", None).await;
            let form = query(&app, &code);
            let granted = format!("{form}&grant_type=authorization_code");
            let json =
                json!({"app_id": "a1", "app_secret": app.secret, "js_code": code, "else": 1}).to_string();
            let request = match way {
                0 => Request::get(&format!("{path}?{form}")),
                1 => Request::get(&format!("{path}?{granted}")),
                2 => Request::post(&format!("{path}?{form}")),
                3 => Request::post(path).body(granted),
                4 => Request::post(path).header("content-type", "application/json").body(json),
                5 => Request::post(&format!("{path}?app_id=a1")).body(form),
                _ => Request::post(path).multipart(&[
                    (&id, b"a1"),
                    (&secret, app.secret.as_bytes()),
                    (&code_part, code.as_bytes()),
                ]),
            };
            keys.insert(session_key(&till.send(request).await, "o1", None));
        }
    }
    assert_eq!(keys.len(), 14, "each session key is another");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_union_id_of_a_code_is_answered_and_makes_nobody_known() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let code = code_for(&till, &app, "o1", Some("u1")).await;
    session_key(&till.send(by_get(&app, &code)).await, "o1", Some("u1"));
    let code = code_for(&till, &app, "o1", None).await;
    session_key(&till.send(by_get(&app, &code)).await, "o1", None);
    assert_eq!(till.number("SELECT count(*) FROM wallets").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_works_once_and_makes_the_player_known_with_an_empty_wallet() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o2", 3, 4).await;
    let (new, known) = (code_for(&till, &app, "o1", None).await, code_for(&till, &app, "o2", None).await);
    assert_eq!(till.number("SELECT count(*) FROM wallets WHERE open_id = 'o1'").await, 0);
    session_key(&till.send(by_get(&app, &new)).await, "o1", None);
    session_key(&till.send(by_get(&app, &known)).await, "o2", None);
    assert_eq!(till.purses(&app, "o1").await, (0, 0, 0));
    assert_eq!(till.purses(&app, "o2").await, (3, 4, 1), "nothing of a known player changes");
    for code in [new, known] {
        till.send(by_get(&app, &code)).await.assert_refused(100_200_103, INVALID);
    }
    assert_eq!(till.number("SELECT count(*) FROM login_codes").await, 0);
    till.assert_audit_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_that_is_unknown_or_another_apps_is_100200103_and_is_not_used_up() {
    let till = TestTill::start().await;
    let (app, other) = (till.app("a1").await, till.app("a2").await);
    let code = code_for(&till, &other, "o1", None).await;
    let refused = format!(r#"{{"result":100200103,"error_msg":"{INVALID}"}}"#);
    for wrong in [code.as_str(), "x", &code[1..], &format!("{code}0"), &code.to_uppercase()] {
        till.send(by_get(&app, wrong)).await.assert_body(&refused);
    }
    assert_eq!(till.number("SELECT count(*) FROM wallets").await, 0);
    session_key(&till.send(by_get(&other, &code)).await, "o1", None);
}

/// Contract 11.3: five minutes, by the database's clock. That of the server does not count.
#[tokio::test(flavor = "multi_thread")]
async fn a_code_lives_five_minutes_by_the_clock_of_the_database() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let code = code_for(&till, &app, "o1", None).await;
    let left = "SELECT extract(epoch FROM expires_at - now())::bigint FROM login_codes";
    let left = till.number(left).await;
    assert!((240..=300).contains(&left), "{left} s are left");
    till.clock.advance(Duration::from_hours(1));
    till.execute("UPDATE login_codes SET expires_at = expires_at - interval '4 minutes'").await;
    session_key(&till.send(by_get(&app, &code)).await, "o1", None);

    let code = code_for(&till, &app, "o2", None).await;
    till.execute("UPDATE login_codes SET expires_at = expires_at - interval '5 minutes'").await;
    till.send(by_get(&app, &code)).await.assert_refused(100_200_103, INVALID);
    assert_eq!(till.number("SELECT count(*) FROM wallets WHERE open_id = 'o2'").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_codes_are_forgotten_and_no_others() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    code_for(&till, &app, "o1", None).await;
    assert_eq!(till.store.forget_expired_login_codes().await.unwrap(), 0);
    till.execute("UPDATE login_codes SET expires_at = now()").await;
    assert_eq!(till.store.forget_expired_login_codes().await.unwrap(), 1);
    assert_eq!(till.number("SELECT count(*) FROM login_codes").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_hash_of_a_code_is_stored() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let code = code_for(&till, &app, "o1", None).await;
    let stored: Vec<u8> =
        sqlx::query_scalar("SELECT code_hash FROM login_codes").fetch_one(&till.sql).await.unwrap();
    assert_eq!(stored, Sha256::digest(&code).to_vec());
    let line: String =
        sqlx::query_scalar("SELECT operator_log::text FROM operator_log ORDER BY at DESC LIMIT 1")
            .fetch_one(&till.sql)
            .await
            .unwrap();
    assert!(line.contains("login_code.issue") && !line.contains(&code), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parameter_that_is_missing_or_wrong_is_100200100_and_uses_nothing_up() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let code = code_for(&till, &app, "o1", None).await;
    let full = query(&app, &code);
    for path in PATHS {
        for name in ["app_id", "app_secret", "js_code"] {
            let rest = full.split('&').filter(|pair| !pair.starts_with(&format!("{name}=")));
            let without = rest.collect::<Vec<_>>().join("&");
            let message = format!("{name} is missing");
            till.send(Request::get(&format!("{path}?{without}"))).await.assert_refused(100_200_100, &message);
            till.send(Request::post(path).body(without)).await.assert_refused(100_200_100, &message);
        }
        let wrong = format!("{full}&grant_type=client_credentials");
        let message = "grant_type: expected authorization_code, got \"client_credentials\"";
        till.send(Request::get(&format!("{path}?{wrong}"))).await.assert_refused(100_200_100, message);
        till.send(Request::post(path).body(wrong)).await.assert_refused(100_200_100, message);
        let twice = Request::post(path).body(format!("{full}&js_code=x"));
        till.send(twice).await.assert_refused(100_200_100, "js_code: expected once, given twice");
        let array = till.send(Request::post(path).body("[1]")).await;
        array.assert_refused(100_200_100, "body: expected a JSON object, got an array");
        let long = till.send(Request::post(path).body(vec![b'x'; 65_537])).await;
        assert_eq!((long.status, long.code()), (413, 10_000_200));
    }
    session_key(&till.send(by_get(&app, &code)).await, "o1", None);
}

/// Contract 2.1 and 2.8: an answer never repeats a secret, whatever type it came as.
#[tokio::test(flavor = "multi_thread")]
async fn a_code_of_a_wrong_type_is_not_repeated() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    for code in ["271828.18", "-27182818", "27182818e1", "false", "[\"2718\"]"] {
        let body = format!(r#"{{"app_id":"a1","app_secret":"{}","js_code":{code}}}"#, app.secret);
        let answer = till.send(Request::post(PATHS[0]).body(body)).await;
        assert_eq!((answer.status, answer.code()), (200, 100_200_100), "{}", answer.body);
        assert!(
            answer.message().starts_with("js_code: ") && !answer.body.contains("2718"),
            "{}",
            answer.body
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_app_id_or_secret_is_100200101_and_a_suspended_app_100200102_and_neither_uses_a_code_up() {
    let till = TestTill::start().await;
    let (app, other) = (till.app("a1").await, till.app("a2").await);
    let code = code_for(&till, &app, "o1", None).await;
    for (app_id, secret) in [
        ("a1", "x"),
        ("a1", other.secret.as_str()),
        ("a1", app.pay_key.as_str()),
        ("a3", app.secret.as_str()),
        ("no!app", app.secret.as_str()),
    ] {
        let text = format!("app_id={app_id}&app_secret={secret}&js_code={code}");
        let wrong = format!(
            r#"{{"result":100200101,"error_msg":"app_id or app_secret is wrong; use those that the operator of this till gave you; app_id \"{app_id}\" came"}}"#
        );
        for path in PATHS {
            till.send(Request::get(&format!("{path}?{text}"))).await.assert_body(&wrong);
            till.send(Request::post(path).body(text.clone())).await.assert_body(&wrong);
        }
    }
    till.command(&app, AppCommand::Suspend(true)).await;
    till.clock.advance(Duration::from_secs(3));
    let suspended = till.send(by_get(&app, &code)).await;
    suspended.assert_refused(
        100_200_102,
        "app_id: the app is suspended; ask the operator of this till to resume it",
    );
    till.command(&app, AppCommand::Suspend(false)).await;
    till.clock.advance(Duration::from_secs(3));
    session_key(&till.send(by_get(&app, &code)).await, "o1", None);
}

/// Contract 11.3: the use of a code and the new wallet are one transaction.
#[tokio::test(flavor = "multi_thread")]
async fn a_code_whose_player_cannot_be_made_known_is_not_used_up() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let code = code_for(&till, &app, "o1", None).await;
    till.execute("ALTER TABLE wallets RENAME TO gone").await;
    let failed = till.send(by_get(&app, &code)).await;
    assert_eq!((failed.status, failed.code()), (500, 10_000_500), "{}", failed.body);
    till.execute("ALTER TABLE gone RENAME TO wallets").await;
    session_key(&till.send(by_get(&app, &code)).await, "o1", None);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_with_one_code_at_once_on_two_servers_one_logs_in() {
    let till = TestTill::start().await;
    let other = TestTill::start_on(till.database_url.clone(), |_| {}).await;
    let app = till.app("a1").await;
    for round in 0..5 {
        let code = code_for(&till, &app, &format!("o{round}"), None).await;
        let mut tries = JoinSet::new();
        for number in 0..40 {
            let address = if number % 2 == 0 { till.address } else { other.address };
            let request = by_get(&app, &code);
            tries.spawn(async move { request.send(address).await.code() });
        }
        let mut codes = tries.join_all().await;
        codes.sort_unstable();
        assert_eq!(codes[0], 1, "nobody logged in");
        assert!(codes[1..].iter().all(|code| *code == 100_200_103), "{codes:?}");
    }
    assert_eq!(till.number("SELECT count(*) FROM wallets").await, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_app_takes_sandbox_names_as_often_as_wanted_for_the_same_player() {
    let till = TestTill::start().await;
    let sandbox = till.app_like("a1", AppKind { sandbox: true, ..AppKind::default() }).await;
    let longest = format!("sandbox-{}", "a".repeat(32));
    for code in ["sandbox-alice", "sandbox-Z9", longest.as_str()] {
        let first = session_key(&till.send(by_get(&sandbox, code)).await, code, None);
        assert_ne!(first, session_key(&till.send(by_get(&sandbox, code)).await, code, None));
        assert_eq!(till.purses(&sandbox, code).await, (0, 0, 0));
    }
    till.player(&sandbox, "sandbox-alice", 5, 6).await;
    session_key(&till.send(by_get(&sandbox, "sandbox-alice")).await, "sandbox-alice", None);
    assert_eq!(till.purses(&sandbox, "sandbox-alice").await, (5, 6, 1));
    for no_name in ["sandbox-", "sandbox-a_b", "sandbox-a-b", "Sandbox-alice", &format!("{longest}a")] {
        till.send(by_get(&sandbox, no_name)).await.assert_refused(100_200_103, INVALID);
    }
    // A code of the operator works there too, and once.
    let code = code_for(&till, &sandbox, "o1", None).await;
    session_key(&till.send(by_get(&sandbox, &code)).await, "o1", None);
    till.send(by_get(&sandbox, &code)).await.assert_refused(100_200_103, INVALID);
    till.assert_audit_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_is_no_sandbox_knows_no_sandbox_names() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.send(by_get(&app, "sandbox-alice")).await.assert_refused(100_200_103, INVALID);
    assert_eq!(till.number("SELECT count(*) FROM wallets").await, 0);
}
