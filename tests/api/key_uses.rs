//! The uses of keys, by which an operator sees whether a rotation is safe (contract 8.2.3).

use std::time::Duration;

use domain::console_user::Role;
use domain::operation::app::{AppCommand, NewAppSecret};
use serde_json::{Value, json};

use crate::admin::Caller;
use crate::game::Game;
use crate::support::program::Program;
use crate::support::{Request, TestApp, TestTill};

async fn ask_for_token(till: &TestTill, app: &TestApp) -> u64 {
    let query = format!("app_id=a1&app_secret={}&grant_type=client_credentials", app.secret);
    till.send(Request::get(&format!("/oauth2/access_token?{query}"))).await.code()
}

/// Kind, generation, validity and uses of each key.
fn shown(app: &Value) -> Vec<Value> {
    let keys = app["keys"].as_array().unwrap().iter();
    keys.map(|key| json!([key["kind"], key["generation"], key["valid"], key["uses_last_day"]])).collect()
}

/// Rule 8.2.3: each right signature and secret counts for its key, whatever becomes of the request, and
/// nothing else does. The figures are those of all instances.
#[tokio::test(flavor = "multi_thread")]
async fn each_proof_counts_for_its_key_and_every_face_shows_it() {
    let till = TestTill::start().await;
    let other = TestTill::start_on(till.database_url.clone(), |_| {}).await;
    let first = till.app("a1").await;
    till.player(&first, "o1", 0, 100).await;
    let pay = async |till: &TestTill, app: &TestApp, biz_no: &str, amount: i64| {
        Game::new(app, "o1", biz_no, amount).send(till).await.code()
    };
    assert_eq!(pay(&till, &first, "b1", 60).await, 1);
    assert_eq!(pay(&other, &first, "b1", 60).await, 1, "a replay, on another instance");
    assert_eq!(pay(&till, &first, "b2", 60).await, 10_000_601, "its signature is right");
    assert_eq!(ask_for_token(&other, &first).await, 1);
    let pay_key = till.rotate_pay_key(&first).await;
    let secret = till.command(&first, AppCommand::RotateSecret(None)).await;
    let secret = NewAppSecret::try_from(secret).unwrap().app_secret;
    let second = TestApp { pay_key, secret, ..first.clone() };
    for till in [&till, &other] {
        till.clock.advance(Duration::from_secs(3));
    }
    assert_eq!(pay(&till, &second, "b3", 1).await, 1);
    assert_eq!(pay(&other, &first, "b4", 1).await, 1);
    for app in [&first, &second, &second] {
        assert_eq!(ask_for_token(&till, app).await, 1);
    }
    let stranger = TestApp { pay_key: "x".to_owned(), secret: "x".to_owned(), ..first.clone() };
    assert_eq!(pay(&till, &stranger, "b5", 1).await, 100_200_114);
    assert_eq!(ask_for_token(&till, &stranger).await, 100_200_101);
    let program = Program::on(&till.database_url);
    let show = || program.json(&["app", "show", "a1"]);
    assert_eq!(show()["keys"][0]["last_used_at"], Value::Null);
    for till in [&till, &other] {
        till.store.write_key_uses().await.unwrap();
        till.store.write_key_uses().await.unwrap();
    }
    let expected = [
        json!(["pay_key", 2, true, 1]),
        json!(["pay_key", 1, true, 4]),
        json!(["app_secret", 2, true, 2]),
        json!(["app_secret", 1, true, 2]),
    ];
    assert_eq!(shown(&show()), expected);
    assert!(show()["keys"].as_array().unwrap().iter().all(|key| key["last_used_at"].is_string()));
    let by_api = Caller::admin(&till).await.get("/apps/a1").await.json();
    assert_eq!(by_api["keys"], show()["keys"]);
    let page = till.browser(Role::Viewer).await.get("/console/apps/a1").await.body;
    for (key, uses) in [("Pay key 2", 1), ("Pay key 1", 4), ("App secret 2", 2), ("App secret 1", 2)] {
        let row = page.split(&format!(">{key}</th>")).nth(1).unwrap().split("</tr>").next().unwrap();
        assert!(row.contains(&format!("last day\">{uses}</td>")), "{row}");
    }
    assert_eq!(till.store.busiest_apps(9).await.unwrap(), std::slice::from_ref(&first.id));

    // What is older than a day is in no figure. The last use of each key stays.
    till.execute(
        "UPDATE key_uses SET hour = hour - interval '26 hours', last_used_at = last_used_at - interval '26 hours'",
    )
    .await;
    assert_eq!(pay(&till, &first, "b6", 1).await, 1);
    till.store.write_key_uses().await.unwrap();
    assert_eq!(till.number("SELECT count(*) FROM key_uses WHERE kind <> 'api_key'").await, 5);
    assert_eq!(till.store.forget_old_key_uses().await.unwrap(), 1);
    let uses: Vec<_> = shown(&show()).iter().map(|key| key[3].clone()).collect();
    assert_eq!(uses, [0, 1, 0, 0]);
    assert!(show()["keys"][0]["last_used_at"].is_string());
}
