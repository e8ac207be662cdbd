//! Access tokens and API keys in the console.

use std::time::Duration;

use domain::console_user::Role;
use serde_json::json;

use super::apps::secret;
use crate::support::program::Program;
use crate::support::{Request, TestTill};

/// Rule 8.2: an admin ends one token, by its name in the list, or all. No page shows a token.
#[tokio::test(flavor = "multi_thread")]
async fn an_admin_ends_tokens_on_the_page_of_an_app() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    for _ in 0..2 {
        till.store.issue_token(&app.id, Duration::from_hours(1)).await.unwrap();
    }
    let (admin, viewer) = (till.browser(Role::Admin).await, till.browser(Role::Viewer).await);
    let (path, change) = ("/console/apps/a1/tokens", "/console/apps/a1/token-revocations");
    let names: Vec<String> =
        till.store.tokens(&app.id).await.unwrap().into_iter().map(|token| token.token).collect();
    let seen = viewer.get(path).await.body;
    assert!(names.iter().all(|name| name.len() == 16 && seen.contains(name)), "{seen}");
    assert!(!seen.contains(&app.token) && !seen.contains(change), "{seen}");
    let end = async |name, value| admin.post(change, &[(name, value)]).await;
    let one = end("access_token", &names[0]).await;
    assert_eq!(
        (one.status, one.header("location")),
        (303, Some("/console/apps/a1/tokens?done=token.revoke"))
    );
    let again = end("access_token", &names[0]).await;
    assert!(
        again.status == 404 && again.body.contains("There is no such token of the app a1."),
        "{}",
        again.body
    );
    assert_eq!(end("access_token", "").await.status, 400);
    // The command line takes the same name.
    let program = Program::on(&till.database_url);
    let revoked = program.json(&["token", "revoke", "a1", "--token", &names[1]]);
    assert_eq!(revoked, json!({"app_id": "a1", "revoked": 1}));
    let left = till.store.tokens(&app.id).await.unwrap();
    assert_eq!(left.iter().map(|token| &token.token).collect::<Vec<_>>(), [&names[2]]);
    assert_eq!(end("all", "yes").await.status, 303);
    assert!(admin.get(path).await.body.contains("The app has no valid token."));
    let lines =
        "SELECT count(*) FROM operator_log WHERE action = 'token.revoke' AND operator_kind = 'console'";
    assert_eq!(till.number(lines).await, 2);
    assert_eq!(admin.get("/console/apps/a9/tokens").await.status, 404);
}

/// Rule 8.7: an admin makes an API key, which is shown once, sees its use, and revokes it.
#[tokio::test(flavor = "multi_thread")]
async fn an_admin_makes_and_revokes_an_api_key() {
    let till = TestTill::start().await;
    let (admin, viewer) = (till.browser(Role::Admin).await, till.browser(Role::Viewer).await);
    let path = "/console/api-keys";
    let create = async |name, role| admin.post(path, &[("name", name), ("role", role)]).await;
    let made = create("backend", "viewer").await;
    assert_eq!((made.status, made.header("cache-control")), (200, Some("no-store")));
    let key = secret(&made.body, "API key");
    let ask = async || {
        let request = Request::get("/admin/v1/apps").header("authorization", &format!("Bearer {key}"));
        request.send(till.operator_address).await.status
    };
    assert_eq!(ask().await, 200);
    till.store.write_key_uses().await.unwrap();
    let seen = viewer.get(path).await.body;
    assert!(seen.contains("title=\"backend\"") && seen.contains("last day\">1</td>"), "{seen}");
    assert!(!seen.contains(key) && !seen.contains("/console/api-keys/revoke"), "{seen}");
    for (name, role, words) in [
        ("backend", "admin", "The name backend belongs to another API key"),
        ("a b", "admin", "Name: expected"),
        ("other", "root", "Role: expected viewer, support, finance, payments, developer or admin"),
    ] {
        let refused = create(name, role).await;
        assert!(refused.status == 400 && refused.body.contains(words), "{}", refused.body);
    }
    let revoke = async |name| admin.post("/console/api-keys/revoke", &[("name", name)]).await;
    let revoked = revoke("backend").await;
    assert_eq!((revoked.status, revoked.header("location")), (303, Some("/console/api-keys?done=revoked")));
    assert_eq!(ask().await, 401);
    assert!(revoke("backend").await.body.contains("The API key backend is already revoked."));
    assert_eq!(revoke("nobody").await.status, 404);
    let lines = "SELECT count(*) FROM operator_log WHERE action IN ('api_key.create', 'api_key.revoke')
                 AND subject = 'backend' AND operator_kind = 'console' AND operator LIKE 'admin-%'";
    assert_eq!(till.number(lines).await, 2);
}
