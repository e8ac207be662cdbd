//! Users of the console: `minitill console-user`, and the page that lists them.

use std::io::Write as _;
use std::process::{Output, Stdio};

use domain::console_user::{ConsoleUserName, Role};
use domain::operation::user::{UserCommand, last_admin};
use domain::operator::{Operator, OperatorKind};
use serde_json::{Value, json};
use store::OperationError;

use super::apps::secret;
use super::sign_in::sign_in;
use crate::support::program::Program;
use crate::support::{TestTill, fresh_database};

fn run(program: &Program, arguments: &[&str], typed: &str) -> Output {
    let mut command = program.command(arguments);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A command that refuses before it reads closes its end.
    let _ = child.stdin.take().unwrap().write_all(typed.as_bytes());
    child.wait_with_output().unwrap()
}

fn complaint(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn users_are_made_listed_changed_and_removed() {
    let program = Program::on(&fresh_database().await.url).with("MINITILL_OPERATOR", "root");
    let add = ["console-user", "add", "alice", "--role", "admin", "--json"];
    let made = run(&program, &add, "correct horse battery\n");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    let console = "http://127.0.0.1:8081/console";
    assert_eq!(made, json!({"name": "alice", "role": "admin", "apps": [], "console": console}));
    let taken = "minitill: there is already a user alice\n";
    assert_eq!(complaint(&run(&program, &add[..5], "correct horse battery\n")), taken);
    let list = program.json(&["console-user", "list"]);
    let alice = &list["users"][0];
    assert_eq!(
        (&alice["name"], &alice["role"], &alice["sessions"]),
        (&json!("alice"), &json!("admin"), &json!(0))
    );
    assert_eq!(alice["locked_until"], Value::Null);
    assert!(!list.to_string().contains("argon2"));
    let set = run(&program, &["console-user", "set-password", "alice"], "another long password");
    assert!(set.status.success());
    program.json(&["console-user", "set-role", "alice", "viewer"]);
    program.json(&["console-user", "set-role", "alice", "viewer"]);
    program.json(&["console-user", "unlock", "alice"]);
    program.json(&["console-user", "reset-second-factor", "alice"]);
    program.json(&["console-user", "remove", "alice"]);
    let unknown = "minitill: there is no user alice; to list all users, run `minitill console-user list`\n";
    for arguments in [
        &["unlock", "alice"][..],
        &["reset-second-factor", "alice"],
        &["remove", "alice"],
        &["set-role", "alice", "admin"],
    ] {
        assert_eq!(program.complaint(&[&["console-user"], arguments].concat()), unknown);
    }
    let common = run(&program, &["console-user", "set-password", "bob"], "passwordpassword");
    let told = "minitill: password: expected a password that is hard to guess: not a common one, not a pattern, and not made of the name\n";
    assert_eq!(complaint(&common), told);
    let marked = run(
        &program,
        &["console-user", "add", "carol", "--role", "viewer"],
        "\u{feff}correct horse battery\n",
    );
    let told = "minitill: password: expected a password without a byte-order mark before it\n";
    assert_eq!(complaint(&marked), told);
    let unknown_too = run(&program, &["console-user", "set-password", "alice"], "another long password");
    assert_eq!(complaint(&unknown_too), unknown);
    let log = program.json(&["operator-log"]);
    let lines = log["lines"].as_array().unwrap().iter();
    let lines: Vec<_> =
        lines.map(|line| (line["action"].clone(), line["before"].clone(), line["after"].clone())).collect();
    assert_eq!(
        lines,
        [
            (json!("console_user.add"), Value::Null, json!({"role": "admin"})),
            (json!("console_user.set_password"), Value::Null, Value::Null),
            (json!("console_user.set_role"), json!({"role": "admin"}), json!({"role": "viewer"})),
            (json!("console_user.remove"), json!({"role": "viewer"}), Value::Null),
        ]
    );
}

/// Rules 8.6.36 and 8.6.39: a user and a key are for some apps, which are there; lists and the log tell which.
#[tokio::test(flavor = "multi_thread")]
async fn users_and_keys_are_for_some_apps() {
    let program = Program::on(&fresh_database().await.url);
    program.json(&["app", "create", "a1"]);
    program.json(&["app", "create", "a2"]);
    let add = ["console-user", "add", "bob", "--role", "support", "--app", "a2", "--app", "a1", "--json"];
    let made = run(&program, &add, "correct horse battery\n");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let key = program.json(&["api-key", "create", "billing", "--role", "finance", "--app", "a1"]);
    assert_eq!((&key["role"], &key["apps"]), (&json!("finance"), &json!(["a1"])));
    let shown = |list: &[&str], of: &str| {
        let list = program.json(list);
        (list[of][0]["role"].clone(), list[of][0]["apps"].clone())
    };
    assert_eq!(shown(&["api-key", "list"], "api_keys"), (json!("finance"), json!(["a1"])));
    assert_eq!(shown(&["console-user", "list"], "users"), (json!("support"), json!(["a1", "a2"])));
    let unknown = "minitill: --app: there is no app a3\n";
    for arguments in [
        &["console-user", "set-role", "bob", "viewer", "--app", "a1", "--app", "a3"][..],
        &["api-key", "create", "other", "--role", "viewer", "--app", "a3"],
    ] {
        assert_eq!(program.complaint(arguments), unknown);
    }
    program.json(&["console-user", "set-role", "bob", "developer", "--app", "a2"]);
    assert_eq!(shown(&["console-user", "list"], "users"), (json!("developer"), json!(["a2"])));
    // Without --app the role is for all apps.
    program.json(&["console-user", "set-role", "bob", "developer"]);
    assert_eq!(shown(&["console-user", "list"], "users"), (json!("developer"), json!([])));
    let log = program.json(&["operator-log"]);
    let lines =
        log["lines"].as_array().unwrap().iter().filter(|line| line["action"] == "console_user.set_role");
    let lines: Vec<_> = lines.map(|line| (line["before"].clone(), line["after"].clone())).collect();
    assert_eq!(
        lines,
        [
            (json!({"role": "support", "apps": ["a1", "a2"]}), json!({"role": "developer", "apps": ["a2"]})),
            (json!({"role": "developer", "apps": ["a2"]}), json!({"role": "developer"})),
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_used_is_told_in_words() {
    let program = Program::on(&fresh_database().await.url);
    let add = ["console-user", "add", "alice", "--role", "viewer"];
    for short in ["eleven char\n", "\n", ""] {
        let told = complaint(&run(&program, &add, short));
        assert!(
            told.starts_with("minitill: password: expected a password of at least 12 characters"),
            "{told}"
        );
    }
    for (wrong, said) in [
        (&["console-user", "add", "Alice", "--role", "viewer"][..], "expected a name of 1 to 64"),
        (
            &["console-user", "add", "alice", "--role", "boss"],
            "expected viewer, support, finance, payments, developer or admin",
        ),
        (&["console-user", "add", "alice"], "--role"),
    ] {
        let output = program.run(wrong);
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains(said), "{wrong:?}");
    }
    let none = program.run(&["console-user", "list"]);
    assert!(String::from_utf8_lossy(&none.stdout).contains("console-user add NAME --role admin"));
}

/// Rule: an admin can unlock a name, once, and it is told who did.
#[tokio::test(flavor = "multi_thread")]
async fn an_admin_unlocks_a_name_on_the_page() {
    let till = TestTill::start().await;
    let (admin, viewer) = (till.browser(Role::Admin).await, till.browser(Role::Viewer).await);
    till.execute(
        "INSERT INTO console_users (name, role, password) VALUES ('carol', 'viewer', 'none');
         INSERT INTO console_attempts VALUES ('carol', '203.0.113.1', 10, now() + interval '15 minutes'),
                                             ('carol', '203.0.113.2', 3, NULL)",
    )
    .await;
    let locked = "SELECT count(*) FROM console_attempts";
    let seen = viewer.get("/console/users").await;
    assert!(
        seen.body.contains("13 failed attempts; an address waits until")
            && !seen.body.contains("href=\"/console/users/carol\""),
        "{}",
        seen.body
    );
    let page = admin.get("/console/users/carol").await;
    assert!(page.body.contains("action=\"/console/users/carol/unlock\""), "{}", page.body);
    let log = super::reading::link_called(&page, "Operator log of carol");
    assert_eq!(log.as_deref(), Some("/console/log?operator=carol&by=people"));
    let unknown = admin.post("/console/users/nobody/unlock", &[]).await;
    assert_eq!(unknown.status, 404);
    assert!(unknown.body.contains("There is no user nobody"));
    assert_eq!(till.number(locked).await, 2);
    let done = admin.post("/console/users/carol/unlock", &[]).await;
    assert_eq!((done.status, done.header("location")), (303, Some("/console/users/carol?done=unlock")));
    assert_eq!(till.number(locked).await, 0);
    let page = admin.get("/console/users/carol?done=unlock").await;
    assert!(
        page.body.contains("<p class=\"notice\" role=\"status\">Every address can sign in again.</p>"),
        "{}",
        page.body
    );
    let line = "SELECT count(*) FROM operator_log WHERE action = 'console_user.unlock' AND subject = 'carol' AND before ->> 'failed_attempts' = '13'
                AND operator_kind = 'console' AND operator LIKE 'admin-%'";
    assert_eq!(till.number(line).await, 1);
}

/// Rule 8.6.3 and 8.6.4: an admin adds, changes and removes users. The last admin stays.
#[tokio::test(flavor = "multi_thread")]
async fn an_admin_manages_users_and_the_last_admin_stays() {
    let till = TestTill::start().await;
    let (admin, viewer) = (till.browser(Role::Admin).await, till.browser(Role::Viewer).await);
    let users = till.store.console_users().await.unwrap();
    let own = format!("/console/users/{}", users.iter().find(|user| user.role == "admin").unwrap().name);
    let add = async |name, role| admin.post("/console/users", &[("name", name), ("role", role)]).await;
    let made = add("bob", "viewer").await;
    assert_eq!((made.status, made.header("cache-control")), (200, Some("no-store")), "{}", made.body);
    let password = secret(&made.body, "Password");
    assert!(password.len() == 32 && !admin.get("/console/users/bob").await.body.contains(password));
    assert_eq!(sign_in(&till, "bob", password).await.status, 303);
    for (name, role, words) in [
        ("bob", "admin", "There is already a user bob."),
        ("Bob", "admin", "Name: expected a name of 1 to 64"),
        ("carol", "boss", "Role: expected viewer, support, finance, payments, developer or admin"),
    ] {
        let refused = add(name, role).await;
        assert!(refused.status == 400 && refused.body.contains(words), "{}", refused.body);
    }
    let lost = admin.post("/console/users", &[("name", "carol"), ("role", "viewer"), ("apps", "a9")]).await;
    assert!(lost.status == 400 && lost.body.contains(">Apps: there is no app a9.</p>"), "{}", lost.body);
    // There is one admin.
    for (path, role) in [(format!("{own}/role"), "viewer"), (format!("{own}/remove"), "")] {
        let refused = admin.post(&path, &[("role", role)]).await;
        assert!(
            refused.status == 400 && refused.body.contains("is the last admin of all apps;"),
            "{}",
            refused.body
        );
    }
    assert_eq!(admin.post(&format!("{own}/role"), &[("role", "admin")]).await.status, 303, "nothing changes");
    let role = admin.post("/console/users/bob/role", &[("role", "admin")]).await;
    assert_eq!((role.status, role.header("location")), (303, Some("/console/users/bob?done=role")));
    assert_eq!(till.number("SELECT count(*) FROM console_sessions WHERE name = 'bob'").await, 0);
    assert_eq!(admin.post("/console/users/bob/role", &[("role", "viewer")]).await.status, 303);
    let removed = admin.post("/console/users/bob/remove", &[]).await;
    assert_eq!((removed.status, removed.header("location")), (303, Some("/console/users?done=removed")));
    assert_eq!(admin.post("/console/users/bob/remove", &[]).await.status, 404);
    let page = viewer.get("/console/users").await.body;
    assert!(!page.contains("bob") && !page.contains("Add a user"), "{page}");
    let lines = till.store.operator_log(&store::OperatorLogFilter::default(), 4).await.unwrap();
    let lines: Vec<_> = lines
        .iter()
        .map(|line| (line.action.as_str(), line.subject.as_str(), line.operator_kind.as_str()))
        .collect();
    let of_bob = |action| (action, "bob", "console");
    let roles = of_bob("console_user.set_role");
    assert_eq!(lines, [of_bob("console_user.add"), roles, roles, of_bob("console_user.remove")]);
}

/// Rule 8.6.4: two admins that remove each other at once leave one.
#[tokio::test(flavor = "multi_thread")]
async fn two_admins_cannot_remove_each_other() {
    let till = TestTill::start().await;
    for round in 0..5 {
        till.execute(
            "DELETE FROM console_users;
             INSERT INTO console_users (name, role, password) VALUES ('alice', 'admin', 'none'), ('bob', 'admin', 'none')",
        )
        .await;
        let remove = async |name| {
            let name = ConsoleUserName::parse(name).unwrap();
            let operator = Operator::new(OperatorKind::Console, "carol").unwrap();
            till.store.change_console_user(&operator, &name, UserCommand::Remove).await
        };
        let both = tokio::join!(remove("alice"), remove("bob"));
        let refused = |name| Err(OperationError::Refused(last_admin(name)));
        assert!(
            both == (Ok(()), refused("bob")) || both == (refused("alice"), Ok(())),
            "round {round}: {both:?}"
        );
        assert_eq!(till.number("SELECT count(*) FROM console_users").await, 1);
    }
}
