//! The operator's log: every change an operator makes has its line, in the change's own transaction.

use std::path::PathBuf;

use domain::app::AppLimits;
use domain::ids::{AppId, CreditRef, OpenId};
use domain::operation::app::AppCommand;
use domain::operation::wallet::Credit;
use domain::per_second::PerSecond;
use serde_json::{Value, json};
use store::OperatorLogFilter;

use crate::support::program::Program;
use crate::support::{PICTURE, TestTill, committed, fresh_database, operator};

fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("minitill-{}-{name}", std::process::id()));
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Action, subject, before, after and note of each line.
fn lines(program: &Program, arguments: &[&str]) -> Vec<(String, String, Value, Value, String)> {
    let log = program.json(&[&["operator-log"][..], arguments].concat());
    let text = |line: &Value, name: &str| line[name].as_str().unwrap().to_owned();
    let lines = log["lines"].as_array().unwrap().iter();
    lines
        .map(|line| {
            let (before, after) = (line["before"].clone(), line["after"].clone());
            (text(line, "action"), text(line, "subject"), before, after, text(line, "note"))
        })
        .collect()
}

/// Every command that changes something, and the line that it must leave.
#[tokio::test(flavor = "multi_thread")]
async fn each_command_that_changes_something_leaves_its_line_and_no_secret() {
    let program = Program::on(&fresh_database().await.url).with("MINITILL_OPERATOR", "alice");
    let made = program.json(&["app", "create", "a1", "--name", "Game", "--scope", "epay"]);
    let mut secrets = vec![made["app_secret"].clone(), made["pay_key"].clone()];
    program.json(&["app", "change", "a1", "--sandbox", "true"]);
    program.json(&["app", "suspend", "a1"]);
    program.json(&["app", "resume", "a1"]);
    secrets.push(program.json(&["app", "rotate-pay-key", "a1"])["pay_key"].clone());
    secrets.push(program.json(&["app", "rotate-secret", "a1"])["app_secret"].clone());
    program.json(&["app", "publish", "a1", "--version", "1", "--path", "pages/a"]);
    program.json(&["app", "publish", "a1", "--version", "2", "--path", "pages/b"]);
    program.json(&["app", "limit", "a1", "--uploads-per-second", "5"]);
    program.json(&["app", "poi", "add", "a1", "p1", "p2"]);
    program.json(&["app", "poi", "add", "a1", "p2", "p3"]);
    program.json(&["app", "preorder", "add", "a1", "order_1"]);
    secrets.push(program.json(&["token", "issue", "a1", "--ttl", "90m"])["access_token"].clone());
    secrets.push(program.json(&["login-code", "issue", "a1", "o7"])["js_code"].clone());
    program.json(&["user", "add", "a1", "o1"]);
    program.json(&["wallet", "credit", "a1", "o1", "--free", "5", "--ref", "r1", "--note", "a gift"]);
    let picture = file("log.png", PICTURE);
    program.json(&["image", "block", picture.to_str().unwrap(), "--reason", "gore"]);
    program.json(&["image", "unblock", picture.to_str().unwrap()]);
    std::fs::remove_file(picture).unwrap();

    let none = Value::Null;
    let limits = |uploads: Value| json!({"exchanges_per_second": null, "reads_per_second": null, "reports_per_second": null, "uploads_per_second": uploads, "tokens_per_second": null, "logins_per_second": null, "image_bytes_per_day": null, "image_bytes_max": null, "images_per_day": null, "images_max": null});
    let like_app = |sandbox: bool| json!({"name": "Game", "category": "general", "scopes": ["epay"], "sandbox": sandbox, "preorder_check": false, "language": "en"});
    let got = lines(&program, &[]);
    let expected = [
        (
            "app.create",
            none.clone(),
            json!({"name": "Game", "category": "general", "scopes": ["epay"], "sandbox": false, "preorder_check": false, "language": "en"}),
        ),
        ("app.change", like_app(false), like_app(true)),
        ("app.suspend", json!({"suspended": false}), json!({"suspended": true})),
        ("app.resume", json!({"suspended": true}), json!({"suspended": false})),
        ("app.rotate_pay_key", json!({"generation": 1}), json!({"generation": 2})),
        ("app.rotate_secret", json!({"generation": 1}), json!({"generation": 2})),
        ("app.publish", none.clone(), json!({"version": "1", "pages": ["pages/a"]})),
        (
            "app.publish",
            json!({"version": "1", "pages": ["pages/a"]}),
            json!({"version": "2", "pages": ["pages/b"]}),
        ),
        ("app.limit", limits(none.clone()), limits(json!(5))),
        ("app.poi.add", none.clone(), json!({"poi_ids": ["p1", "p2"]})),
        ("app.poi.add", none.clone(), json!({"poi_ids": ["p3"]})),
        ("app.preorder.add", none.clone(), json!({"out_order_nos": ["order_1"]})),
        ("token.issue", none.clone(), json!({"lifetime": "1h 30m"})),
        ("login_code.issue", none.clone(), json!({"union_id": null})),
        ("user.add", none.clone(), json!({"open_ids": ["o1"]})),
        (
            "wallet.credit",
            json!({"free_balance": 0, "charge_balance": 0}),
            json!({"free_balance": 5, "charge_balance": 0, "ref": "r1"}),
        ),
        ("image.block", none.clone(), json!({"reason": "gore", "images": 0})),
        ("image.unblock", json!({"reason": "gore"}), none.clone()),
    ];
    assert_eq!(got.len(), expected.len(), "{got:#?}");
    for ((action, subject, before, after, _), expected) in got.iter().zip(&expected) {
        assert_eq!((action.as_str(), before, after), (expected.0, &expected.1, &expected.2), "{subject}");
    }
    assert_eq!((got[13].1.as_str(), got[15].1.as_str(), got[15].4.as_str()), ("o7", "o1", "a gift"));
    let whole = program.json(&["operator-log"]).to_string();
    for secret in &secrets {
        assert!(!whole.contains(secret.as_str().unwrap()), "a secret stands in the log");
    }
    for line in program.json(&["operator-log"])["lines"].as_array().unwrap() {
        assert_eq!((&line["operator"], &line["operator_kind"]), (&json!("alice"), &json!("command_line")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_nothing_leaves_no_line() {
    let program = Program::on(&fresh_database().await.url);
    program.json(&["app", "create", "a1"]);
    program.json(&["wallet", "credit", "a1", "o1", "--free", "5", "--ref", "r1", "--create"]);
    program.json(&["app", "poi", "add", "a1", "p1"]);
    let publish = ["app", "publish", "a1", "--version", "1", "--path", "pages/a"];
    let published = program.json(&publish);
    let before = lines(&program, &[]).len();
    assert_eq!(program.json(&publish), published);
    program.json(&["wallet", "credit", "a1", "o1", "--free", "5", "--ref", "r1", "--create"]);
    program.complaint(&["wallet", "credit", "a1", "o1", "--free", "6", "--ref", "r1", "--create"]);
    program.complaint(&["app", "create", "a1"]);
    program.json(&["app", "resume", "a1"]);
    program.json(&["app", "limit", "a1"]);
    program.json(&["app", "poi", "add", "a1", "p1"]);
    program.json(&["user", "add", "a1", "o1"]);
    program.complaint(&["app", "suspend", "a9"]);
    assert_eq!(lines(&program, &[]).len(), before);
}

/// A change whose line cannot be written is not made; one that is rolled back leaves no line.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_and_its_line_are_one_transaction() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let open_id = OpenId::parse("o1").unwrap();
    till.player(&app, "o1", 1, 1).await;
    let count = "SELECT count(*) FROM operator_log";
    till.execute("ALTER TABLE operator_log ADD CONSTRAINT nothing_more CHECK (at < '2000-01-01') NOT VALID")
        .await;
    let lines = till.number(count).await;
    let reference = CreditRef::parse("r1").unwrap();
    let credit =
        Credit { open_id: open_id.clone(), free: 5, charge: 0, reference, note: String::new(), create: true };
    assert!(till.store.change_wallet(&operator(), &app.id, credit.clone()).await.is_err());
    assert_eq!(till.purses(&app, "o1").await, (1, 1, 1));
    let refused = [
        till.store.carry_out(&operator(), &app.id, AppCommand::Suspend(true)).await.is_err(),
        till.store.carry_out(&operator(), &app.id, AppCommand::RotatePayKey(None)).await.is_err(),
        till.store.carry_out(&operator(), &app.id, AppCommand::RotateSecret(None)).await.is_err(),
        till.store
            .carry_out(
                &operator(),
                &app.id,
                AppCommand::Limit(
                    AppLimits { tokens_per_second: PerSecond::new(1), ..AppLimits::default() }.into(),
                ),
            )
            .await
            .is_err(),
        till.store
            .carry_out(&operator(), &app.id, AppCommand::AddUsers(vec![OpenId::parse("o2").unwrap()]))
            .await
            .is_err(),
        till.store
            .carry_out(&operator(), &app.id, AppCommand::IssueToken(std::time::Duration::from_secs(9)))
            .await
            .is_err(),
    ];
    assert_eq!(refused, [true; 6]);
    let unchanged = "SELECT count(*) FROM apps a JOIN pay_keys USING (app_id) WHERE suspended_at IS NULL AND tokens_per_second IS NULL";
    assert_eq!(till.number(unchanged).await, 1);
    assert_eq!(till.number("SELECT count(*) FROM access_tokens").await, 1);
    assert_eq!(till.number("SELECT count(*) FROM wallets").await, 1);
    till.execute("ALTER TABLE operator_log DROP CONSTRAINT nothing_more; ALTER TABLE ledger_entries ADD CONSTRAINT no_more CHECK (seq < 2) NOT VALID").await;
    assert!(till.store.change_wallet(&operator(), &app.id, credit).await.is_err());
    assert_eq!(till.number(count).await, lines);
    till.assert_audit_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_has_one_line_with_sums_and_its_credits_are_found_by_player() {
    let program = Program::on(&fresh_database().await.url);
    program.json(&["app", "create", "a1"]);
    let rows = file("logged.csv", b"open_id,free,charge,ref\no1,1,2,r1\no2,3,4,r2\no1,5,6,r3\n");
    for _ in 0..2 {
        program.json(&["wallet", "import", "a1", rows.to_str().unwrap(), "--create"]);
    }
    let shown = lines(&program, &["--app", "a1"]);
    let imports: Vec<_> = shown.iter().filter(|line| line.0 == "wallet.credits").collect();
    assert_eq!((shown.len(), imports.len()), (2, 1), "the second import did nothing: {shown:#?}");
    let (_, subject, _, after, _) = imports[0];
    assert_eq!(subject, "994318f585c333edf626b7a401a8cfa105f37059cae02e389405cae10b9e08f5");
    assert_eq!(
        (&after["file"], &after["credited"], &after["free"], &after["charge"]),
        (&json!(rows.file_name().unwrap().to_str().unwrap()), &json!(3), &json!("9"), &json!("12"))
    );
    assert_eq!(lines(&program, &["--subject", "o1"]).len(), 1);
    assert_eq!(lines(&program, &["--subject", "r2"]).len(), 1, "a ref is found too");
    std::fs::remove_file(rows).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_is_selected_by_time_app_and_operator_and_shows_the_newest_last() {
    let program = Program::on(&fresh_database().await.url);
    program.json(&["app", "create", "a1", "--operator", "alice"]);
    program.json(&["app", "create", "a2", "--operator", "bob"]);
    program.json(&["app", "suspend", "a2", "--operator", "alice"]);
    let subjects =
        |arguments: &[&str]| lines(&program, arguments).into_iter().map(|line| line.1).collect::<Vec<_>>();
    assert_eq!(subjects(&[]), ["a1", "a2", "a2"]);
    assert_eq!(subjects(&["--limit", "1"]), ["a2"]);
    assert_eq!(subjects(&["--operator", "alice"]), ["a1", "a2"]);
    assert_eq!(subjects(&["--app", "a1"]), ["a1"]);
    assert_eq!(subjects(&["--since", "1h", "--until", "2999-01-01"]).len(), 3);
    assert_eq!(subjects(&["--since", "2999-01-01"]).len(), 0);
    assert_eq!(subjects(&["--until", "1h"]).len(), 0);
    let table = String::from_utf8(program.run(&["operator-log", "--app", "a2"]).stdout).unwrap();
    assert!(table.contains("suspended: no → yes") && table.contains("bob"), "{table}");
    assert_eq!(program.run(&["operator-log", "--since", "soon"]).status.code(), Some(2));
    assert_eq!(program.run(&["app", "list", "--operator", "a\nb"]).status.code(), Some(2));
    let nobody = program.json(&["app", "resume", "a2"]);
    assert_eq!(nobody["suspended"], false);
    let by =
        program.json(&["operator-log", "--limit", "1"])["lines"][0]["operator"].as_str().unwrap().to_owned();
    assert!(by.contains('@'), "the system's user and machine: {by}");
}

/// deploy/rights.sql: with these rights the server works and the books cannot be rewritten.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_role_without_update_and_delete_serves_and_cannot_rewrite_the_books() {
    let url = fresh_database().await.url;
    let owner = TestTill::start_on(url.clone(), |_| {}).await;
    let restricted = owner.url_of_role(&committed("deploy/rights.sql")).await;
    let program = Program::on(&restricted);
    // A server whose role may rewrite the log says so at its start.
    let folder = std::env::temp_dir().join(format!("minitill-roles-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let warns = async |program: &Program, name: &str| {
        let log = folder.join(name);
        let server = program.serve(Some(log.clone())).await;
        let text = std::fs::read_to_string(log).unwrap();
        (server, text.contains("this server's role may rewrite the operator's log"))
    };
    assert!(warns(&Program::on(&url), "owner").await.1);
    let (server, warned) = warns(&program, "restricted").await;
    assert!(!warned);
    std::fs::remove_dir_all(&folder).unwrap();
    program.json(&["app", "create", "a1"]);
    program.json(&["wallet", "credit", "a1", "o1", "--free", "5", "--ref", "r1", "--create"]);
    assert_eq!(lines(&program, &[]).len(), 2);
    let pool = sqlx::PgPool::connect(&restricted).await.unwrap();
    for statement in [
        "UPDATE operator_log SET operator = 'x'",
        "DELETE FROM operator_log",
        "TRUNCATE operator_log",
        "DELETE FROM operator_log_head",
        "DELETE FROM ledger_entries",
    ] {
        let refused = sqlx::raw_sql(statement).execute(&pool).await.unwrap_err();
        assert!(refused.to_string().contains("permission denied"), "{statement}: {refused}");
    }
    pool.close().await;
    server.terminate();
    // The server's exchanges work with these rights as well.
    let till = TestTill::start_on(restricted, |_| {}).await;
    let app = till.app("a2").await;
    till.player(&app, "o1", 50, 50).await;
    let answer = crate::game::Game::new(&app, "o1", "b1", 10).send(&till).await;
    assert_eq!(answer.code(), 1);
    let lines = till
        .store
        .operator_log(
            &OperatorLogFilter { app_id: AppId::parse("a2").ok(), ..OperatorLogFilter::default() },
            9,
        )
        .await
        .unwrap();
    assert_eq!(lines.len(), 3);
}
