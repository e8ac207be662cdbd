//! The requests of a sandbox app, and the form that sends one (contract 18.4).

use domain::app::Scope;
use domain::console_user::Role;
use serde_json::json;

use crate::game::Game;
use crate::support::{AppKind, TestTill};

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_sent_and_shown_with_programs_that_sign_it() {
    let till = TestTill::start().await;
    let app = till.app_like("a1", AppKind { sandbox: true, scopes: &Scope::ALL, ..AppKind::default() }).await;
    till.player(&app, "o1", 40, 100).await;
    till.app("live").await;
    let (developer, viewer) = (till.browser(Role::Developer).await, till.browser(Role::Viewer).await);
    let path = "/console/apps/a1/calls";
    let link = r#"<a href="/console/apps/a1/calls">Calls of this app</a>"#;
    assert!(viewer.get("/console/apps/a1").await.body.contains(link));
    assert!(viewer.get(path).await.body.contains("No call of this app is known."));
    let fields = [("call", "pay"), ("open_id", "o1"), ("amount", "60"), ("biz_no", "B1")];
    let page = developer.post(path, &fields).await;
    assert_eq!(page.status, 200, "{}", page.body);
    // The answer, the call as curl, and the five programs with its fields.
    let answer = "{&#34;code&#34;:1,&#34;msg&#34;:&#34;SUCCESS&#34;,&#34;data&#34;:{&#34;bizNo&#34;:&#34;B1&#34;,&#34;freeBalance&#34;:40,&#34;chargeBalance&#34;:40}}";
    assert!(page.body.contains(answer), "{}", page.body);
    assert!(page.body.contains("/api/kpay/minigame/pay") && page.body.contains("biz_no=B1"), "{}", page.body);
    for program in [
        "python3 sign.py",
        "node sign.js",
        "java Sign.java",
        "go run sign.go",
        "php sign.php",
        "mono Sign.exe",
    ] {
        assert!(page.body.contains(&format!("{program} PAY_KEY")), "{program} in {}", page.body);
    }
    assert!(!page.body.contains(&app.pay_key), "no key is shown");
    assert_eq!(till.purses(&app, "o1").await, (40, 40, 2));
    // What is left empty is filled in, and a fault happens to it as to any call.
    let fault = json!({"target": "balance", "fault": "refuse", "code": 10_000_423});
    let ask = format!("/sandbox/v1/faults?app_id=a1&access_token={}", app.token);
    till.send(crate::support::Request::post(&ask).body(fault.to_string())).await;
    let page = developer.post(path, &[("call", "balance"), ("open_id", "o1")]).await;
    assert!(page.body.contains("a fault that this sandbox app asked for"), "{}", page.body);
    assert!(page.body.contains(r#"<span class="tag">fault</span>"#), "{}", page.body);
    let page = developer.post(path, &[("call", "present"), ("open_id", "o1")]).await;
    assert!(page.body.contains("&#34;freeBalance&#34;:41"), "{}", page.body);
    let wrong = developer.post(path, &[("call", "buy"), ("open_id", "o1")]).await;
    assert_eq!(wrong.status, 400);
    let wrong = developer.post(path, &[("call", "pay"), ("open_id", "a b")]).await;
    assert_eq!(wrong.status, 400);
    // Rule 8.5.1: the log tells of the token of each of the three calls. A form that was refused issued none.
    let lines = "SELECT count(*) FROM operator_log WHERE action = 'token.issue' AND app_id = 'a1' AND operator_kind = 'console'
                 AND operator ~ '^developer-' AND after = '{\"lifetime\": \"10m\"}'";
    let tokens = "SELECT count(*) FROM access_tokens WHERE app_id = 'a1'";
    assert_eq!((till.number(lines).await, till.number(tokens).await), (3, 4));
    assert_eq!(developer.post("/console/apps/live/calls", &fields).await.status, 404);
    // A game's own calls are there too, and nobody sees a secret.
    Game::new(&app, "o1", "B2", 1).send(&till).await;
    let page = viewer.get(path).await.body;
    assert!(page.contains("biz_no=B2") && page.contains("sign=***"), "{page}");
    assert!(!page.contains(&app.token) && !page.contains("Send a call"), "{page}");
    let live = viewer.get("/console/apps/live/calls").await;
    assert!(live.status == 200 && live.body.contains("Only a sandbox app has a list of its calls."));
}
