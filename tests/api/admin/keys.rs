//! `minitill api-key ...`, and what the database and the log hold of keys.

use domain::ids::ApiKeyName;
use domain::operation::key::ApiKeyCommand;
use serde_json::{Value, json};
use store::Store;

use crate::support::program::Program;
use crate::support::{Request, TestTill, fresh_database, operator};

async fn status(till: &TestTill, key: &str) -> u16 {
    let request = Request::get("/admin/v1/apps").header("authorization", &format!("Bearer {key}"));
    request.send(till.operator_address).await.status
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_made_shown_once_listed_and_revoked_on_the_command_line() {
    let till = TestTill::start().await;
    let program = Program::on(&till.database_url).with("MINITILL_OPERATOR", "alice");
    let made = program.json(&["api-key", "create", "backend", "--role", "admin"]);
    assert_eq!((&made["name"], &made["role"]), (&json!("backend"), &json!("admin")));
    let key = made["api_key"].as_str().unwrap().to_owned();
    assert!(key.strip_prefix("mtk_").is_some_and(|digits| digits.len() == 64), "{key}");
    assert_eq!(status(&till, &key).await, 200);
    till.store.write_key_uses().await.unwrap();
    let listed = program.json(&["api-key", "list"]);
    let line = &listed["api_keys"][0];
    assert_eq!(
        (&line["name"], &line["role"], &line["revoked_at"]),
        (&json!("backend"), &json!("admin"), &Value::Null)
    );
    assert!(line["last_used_at"].is_string() && line["uses_last_day"] == 1, "{line}");
    assert!(!listed.to_string().contains(&key));
    let table = String::from_utf8(program.run(&["api-key", "list"]).stdout).unwrap();
    assert!(table.contains("backend") && !table.contains(&key), "{table}");
    assert_eq!(program.json(&["api-key", "revoke", "backend"]), json!({"name": "backend", "revoked": true}));
    assert_eq!(status(&till, &key).await, 401, "at once, on a server that runs");
    till.store.write_key_uses().await.unwrap();
    assert_eq!(
        program.json(&["api-key", "list"])["api_keys"][0]["uses_last_day"],
        1,
        "a revoked key proves nothing"
    );
    let again = program.complaint(&["api-key", "create", "backend", "--role", "viewer"]);
    assert!(again.contains("the name backend belongs to another API key"), "{again}");
    assert!(program.complaint(&["api-key", "revoke", "backend"]).contains("is already revoked"));
    assert!(program.complaint(&["api-key", "revoke", "nobody"]).contains("there is no API key nobody"));
    let log = program.json(&["operator-log"]);
    let lines: Vec<_> =
        log["lines"].as_array().unwrap().iter().map(|line| (&line["action"], &line["subject"])).collect();
    assert_eq!(
        lines,
        [(&json!("api_key.create"), &json!("backend")), (&json!("api_key.revoke"), &json!("backend"))]
    );
    assert!(!log.to_string().contains(&key));
}

/// Rule (operators' contract 8.7.11): when a revocation is answered, every instance refuses the key. Both instances know the key,
/// and requests with it come to both without a pause.
#[tokio::test(flavor = "multi_thread")]
async fn when_a_revocation_is_answered_every_instance_refuses_the_key() {
    let till = TestTill::start().await;
    let other = TestTill::start_on(till.database_url.clone(), |_| {}).await;
    let program = Program::on(&till.database_url);
    for name in ["k1", "k2", "k3"] {
        let made = program.json(&["api-key", "create", name, "--role", "viewer"]);
        let key = made["api_key"].as_str().unwrap();
        let revoked = tokio::sync::watch::Sender::new(false);
        let use_it = async |till: &TestTill| {
            while !*revoked.borrow() {
                status(till, key).await;
            }
        };
        let name = ApiKeyName::parse(name).unwrap();
        // One of both finds the key revoked.
        let revoke = async |store: &Store| {
            let _ = store.change_api_keys(&operator(), ApiKeyCommand::Revoke(name.clone())).await;
            tokio::join!(status(&till, key), status(&other, key))
        };
        let revoke = async {
            let statuses = tokio::join!(revoke(&till.store), revoke(&other.store));
            revoked.send_replace(true);
            statuses
        };
        let ((), (), statuses) = tokio::join!(use_it(&till), use_it(&other), revoke);
        assert_eq!(statuses, ((401, 401), (401, 401)), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_name_or_role_is_wrong_usage() {
    let program = Program::on(&fresh_database().await.url);
    for arguments in
        [["api-key", "create", "a b", "--role", "admin"], ["api-key", "create", "backend", "--role", "root"]]
    {
        assert_eq!(program.run(&arguments).status.code(), Some(2), "{arguments:?}");
    }
    assert_eq!(program.run(&["api-key", "create", "backend"]).status.code(), Some(2), "a role must be said");
    assert_eq!(program.json(&["api-key", "list"]), json!({"api_keys": []}));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_database_holds_no_key() {
    let till = TestTill::start().await;
    let caller = super::Caller::admin(&till).await;
    caller.post("/apps", "k1", json!({"app_id": "a1"})).await;
    for table in ["api_keys", "api_requests", "operator_log"] {
        let found = format!("SELECT count(*) FROM {table} t WHERE t::text LIKE '%{}%'", &caller.key[4..20]);
        assert_eq!(till.number(&found).await, 0, "{table}");
    }
}
