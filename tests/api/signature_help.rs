//! Help with wrong signatures is limited, so that it costs payments nothing (contract 3.7.5 and 3.7.6; operators' contract
//! 8.6.48 and 8.7.8).

use std::time::{Duration, Instant};

use domain::console_user::Role;
use domain::language::Language;
use serde_json::{Value, json};

use crate::admin::{Caller, assert_problem};
use crate::game::{BAD_SIGNATURE, DIAGNOSED, Game};
use crate::support::{AppKind, TestApp, TestTill};

const SECOND: Duration = Duration::from_secs(1);
const BUSY: &str =
    "sign: the signature does not match; the diagnosis is busy, so send it again in a second to learn why";

async fn sandbox(till: &TestTill, id: &str, language: Language) -> TestApp {
    let app = till.app_like(id, AppKind { sandbox: true, language, ..AppKind::default() }).await;
    till.player(&app, "o1", 0, 100).await;
    app
}

fn wrong(app: &TestApp) -> Game {
    Game::new(app, "o1", "b1", 1).with("sign", "0".repeat(64))
}

/// The next wrong signatures of a second get the code alone, of this app alone; a right one is not concerned.
#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_app_has_five_diagnoses_a_second() {
    let till = TestTill::start().await;
    let (app, other) = (sandbox(&till, "a1", Language::En).await, sandbox(&till, "a2", Language::Zh).await);
    let string = wrong(&app).string_to_sign();
    let diagnosed = json!({
        "code": 100_200_114,
        "msg": DIAGNOSED,
        "data": { "string_to_sign": string, "bytes": string.len() },
    });
    for _ in 0..5 {
        assert_eq!(wrong(&app).send(&till).await.json(), diagnosed);
    }
    wrong(&app).send(&till).await.assert_body(&format!(r#"{{"code":100200114,"msg":"{BUSY}"}}"#));
    for _ in 0..5 {
        assert!(wrong(&other).send(&till).await.json()["data"].is_object());
    }
    let busy = r#"{"code":100200114,"msg":"sign：签名不匹配；诊断正忙，请一秒后重新发送，以查看原因"}"#;
    wrong(&other).send(&till).await.assert_body(busy);
    assert_eq!(Game::new(&app, "o1", "b2", 1).send(&till).await.code(), 1);
    till.clock.advance(SECOND);
    assert_eq!(wrong(&app).send(&till).await.json(), diagnosed);
}

/// Names and values of 8 KiB are diagnosed, and a byte more is not. A form that is not diagnosed takes no turn.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_form_is_not_diagnosed() {
    let till = TestTill::start().await;
    let app = sandbox(&till, "a1", Language::En).await;
    let of_bytes = |bytes: usize| {
        let form = wrong(&app).with("unknown", "");
        let others: usize = form.fields.iter().map(|(name, value)| name.len() + value.len()).sum();
        form.with("unknown", "x".repeat(bytes - others))
    };
    let too_large = r#"{"code":100200114,"msg":"sign: the signature does not match; a form above 8192 bytes is not diagnosed"}"#;
    for _ in 0..6 {
        of_bytes(8193).send(&till).await.assert_body(too_large);
    }
    assert!(of_bytes(8192).send(&till).await.json()["data"].is_object());
}

/// Rule 3.2.9.
#[tokio::test(flavor = "multi_thread")]
async fn over_fifty_wrong_signatures_a_second_the_next_are_answered_late() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100).await;
    let late = &format!(r#"{{"code":100200114,"msg":"{BAD_SIGNATURE}"}}"#);
    for _ in 0..50 {
        wrong(&app).send(&till).await.assert_body(late);
    }
    let asked = Instant::now();
    assert_eq!(Game::new(&app, "o1", "b2", 1).send(&till).await.code(), 1);
    wrong(&app).send(&till).await.assert_body(late);
    assert!(asked.elapsed() >= SECOND, "it was answered at once");
}

/// A live app gets no diagnosis and no word of one.
#[tokio::test(flavor = "multi_thread")]
async fn a_live_app_is_told_the_same_each_time() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    for _ in 0..7 {
        wrong(&app)
            .send(&till)
            .await
            .assert_body(&format!(r#"{{"code":100200114,"msg":"{BAD_SIGNATURE}"}}"#));
    }
}

/// Operators have turns of their own, of which the app's own take none. Whether a signature is right is always answered.
#[tokio::test(flavor = "multi_thread")]
async fn operators_have_five_diagnoses_a_second_for_an_app() {
    let till = TestTill::start().await;
    let app = sandbox(&till, "a1", Language::En).await;
    for _ in 0..6 {
        wrong(&app).send(&till).await;
    }
    let caller = Caller::admin(&till).await;
    let check = async |form: String| {
        caller.send("POST", "/signature-checks", None, &json!({ "app_id": "a1", "form": form })).await
    };
    for _ in 0..5 {
        let answer = check(wrong(&app).body()).await;
        assert_eq!((answer.status, &answer.json()["matches"]), (200, &Value::from(false)), "{}", answer.body);
    }
    let busy = check(wrong(&app).body()).await;
    assert_problem(&busy, 503, "unavailable", "the diagnosis of this app's signatures is busy");
    assert_eq!(busy.header("retry-after"), Some("1"));
    let right = Game::new(&app, "o1", "b2", 1);
    assert_eq!(check(right.body()).await.json()["matches"], true);
    let viewer = till.browser(Role::Viewer).await;
    let page =
        async |game: &Game| viewer.post("/console/signature-check", &[("request", &*game.body())]).await;
    let shown = page(&wrong(&app)).await;
    let text = "The signature does not match. The diagnosis of this app is busy: send the form again in a second to learn why.";
    assert!(shown.status == 200 && shown.body.contains(text), "{}", shown.body);
    assert!(page(&right).await.body.contains("made with the current pay key"));
    till.clock.advance(SECOND);
    assert!(page(&wrong(&app)).await.body.contains("no known mistake explains it"));
    let large = check(wrong(&app).with("unknown", "x".repeat(8193)).body()).await;
    let field = json!([{
        "detail": "the signature does not match, and a form above 8192 bytes is not diagnosed", "field": "form",
    }]);
    assert_eq!((large.status, &large.json()["errors"]), (422, &field), "{}", large.body);
    let large = page(&wrong(&app).with("unknown", "x".repeat(8193))).await;
    assert!(large.body.contains("A form above 8192 bytes is not diagnosed."), "{}", large.body);
}
