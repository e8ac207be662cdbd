//! Commands: what all of them share (contract 8.1), and the lists of what there is.

use serde_json::{Value, json};

use crate::game::Game;
use crate::support::program::{Program, free_address};
use crate::support::{TestTill, fresh_database};

fn printed(program: &Program, arguments: &[&str]) -> String {
    let output = program.run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Rule: a program reads tabs, whatever the texts hold.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_piped_has_tabs() {
    let program = Program::on(&fresh_database().await.url);
    program.json(&["app", "create", "a1"]);
    program.json(&["user", "add", "a1", "o1", "o2", "p3"]);
    program.json(&["wallet", "credit", "a1", "o1", "--free", "5", "--charge", "7", "--ref", "r1"]);
    assert_eq!(
        printed(&program, &["user", "list", "a1", "--begins", "o"]),
        "open_id\tfree_balance\tcharge_balance\tentries\no1\t5\t7\t1\no2\t0\t0\t0\n"
    );
    let statement = printed(&program, &["wallet", "statement", "a1", "o1"]);
    let heading = "seq\tkind\tbiz_no or ref\tfree_change\tcharge_change\tfree_balance\tcharge_balance\tat\n";
    assert!(statement.starts_with(&format!("{heading}1\tcredit\tr1\t5\t7\t5\t7\t20")), "{statement}");
}

/// Rule 8.1.3: with `--json` an error is an object too, and the exit code stays.
#[tokio::test(flavor = "multi_thread")]
async fn errors_are_json_where_json_is_asked_for() {
    let program = Program::on(&fresh_database().await.url);
    let refused = program.complaint(&["app", "show", "a9", "--json"]);
    let expected = json!({"error": "there is no app a9; to list all apps, run `minitill app list`"});
    assert_eq!(serde_json::from_str::<Value>(&refused).unwrap(), expected);
    let wrong = program.run(&["app", "show", "a b", "--json"]);
    assert_eq!((wrong.status.code(), wrong.stdout.as_slice()), (Some(2), &b""[..]));
    let error: Value = serde_json::from_slice(&wrong.stderr).unwrap();
    let text = error["error"].as_str().unwrap();
    assert!(text.starts_with("error: invalid value 'a b' for '<APP_ID>'"), "{text}");
}

/// Rule 8.1.5: a script is not asked, and `--yes` is known to every command.
#[tokio::test(flavor = "multi_thread")]
async fn a_script_is_not_asked() {
    let program = Program::on(&fresh_database().await.url);
    program.json(&["app", "create", "a1"]);
    assert_eq!(program.json(&["app", "suspend", "a1"])["suspended"], true);
    program.json(&["app", "resume", "a1"]);
    assert_eq!(program.json(&["app", "suspend", "a1", "--yes"])["suspended"], true);
}

/// Rule 8.2, 8.3 and 8.4: each noun has its list and its show.
#[tokio::test(flavor = "multi_thread")]
async fn what_there_is_is_listed_and_shown() {
    let database = fresh_database().await;
    let program = Program::on(&database.url);
    let till = TestTill::start_on(database.url.clone(), |_| {}).await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 10).await;
    assert_eq!(Game::new(&app, "o1", "B1", 4).send(&till).await.code(), 1);
    let shown = program.json(&["exchange", "show", "a1", "B1"]);
    assert_eq!((&shown["open_id"], &shown["amount"]), (&json!("o1"), &json!(4)));
    let found =
        |arguments: &[&str]| program.json(&[&["exchange", "list"], arguments].concat())["exchanges"].clone();
    let (exchange, credit) = (found(&["B1", "--app", "a1"]), found(&["start-o1"]));
    assert_eq!((&exchange[0]["kind"], &exchange[0]["reference"]), (&json!("exchange"), &json!("B1")));
    assert_eq!((&credit[0]["kind"], &credit[0]["app_id"]), (&json!("credit"), &json!("a1")));
    till.app("a2").await;
    assert_eq!((found(&["B1", "--app", "a2"]), found(&["B1", "--limit", "0"])), (json!([]), json!([])));
    let none = program.complaint(&["exchange", "show", "a1", "B2"]);
    let words = "minitill: the app a1 has no exchange B2, and refused none in the last 30 days; a request without a \
                 right signature leaves no trace but in the server log\n";
    assert_eq!(none, words);
    assert_eq!(program.json(&["user", "show", "a1", "o1"])["charge_balance"], 6);
    assert_eq!(program.json(&["user", "list", "a1"])["users"].as_array().unwrap().len(), 1);

    program.json(&["app", "poi", "add", "a1", "p2", "p1"]);
    program.json(&["app", "preorder", "add", "a1", "pay-000001"]);
    assert_eq!(program.json(&["app", "poi", "list", "a1"]), json!({"app_id": "a1", "poi_ids": ["p1", "p2"]}));
    let preorders = program.json(&["app", "preorder", "list", "a1"]);
    assert_eq!(preorders, json!({"app_id": "a1", "out_order_nos": ["pay-000001"]}));

    // The app has a token already, and its text is in no list.
    let issued = program.json(&["token", "issue", "a1"]);
    let listed = program.json(&["token", "list", "a1"]);
    assert_eq!(listed["tokens"].as_array().unwrap().len(), 2);
    assert_eq!(listed["tokens"][0]["token"].as_str().unwrap().len(), 16);
    assert!(!listed.to_string().contains(issued["access_token"].as_str().unwrap()));
    program.json(&["token", "revoke", "a1", "--all"]);
    assert_eq!(program.json(&["token", "list", "a1"]), json!({"tokens": []}));

    till.execute(
        "INSERT INTO orders (app_id, out_biz_order_no, out_order_no, open_id, order_create_time, order_status,
                order_path, product_cover_img_id, event_count) VALUES
                ('a1', 'order_0001', 'paid_0001', 'o1', 1700000000000, 1, 'p', 'x', 1)",
    )
    .await;
    let orders = program.json(&["order", "list", "a1", "--open-id", "o1", "--status", "1"]);
    assert_eq!(orders["orders"][0]["out_biz_order_no"], "order_0001");
    assert_eq!(program.json(&["order", "list", "a1", "--status", "2"]), json!({"orders": []}));
    let order = program.json(&["order", "show", "a1", "order_0001"]);
    assert_eq!((&order["out_order_no"], &order["payments"]), (&json!("paid_0001"), &json!([])));
    let none = program.complaint(&["order", "show", "a1", "order_0002"]);
    assert_eq!(none, "minitill: the app a1 has no order order_0002\n");
    for list in [
        &["user", "list", "a9"][..],
        &["token", "list", "a9"],
        &["app", "poi", "list", "a9"],
        &["order", "list", "a9"],
        &["topup", "list", "a9"],
        &["exchange", "list", "B1", "--app", "a9"],
        &["refusal", "list", "--app", "a9"],
        &["operator-log", "--app", "a9"],
    ] {
        let none = "minitill: there is no app a9; to list all apps, run `minitill app list`\n";
        assert_eq!(program.complaint(list), none, "{list:?}");
    }
}

/// Rule (contract 8.4.4): the status tells of server and database, and the exit code whether all is well.
#[tokio::test(flavor = "multi_thread")]
async fn the_status_tells_of_the_server_and_of_the_database() {
    let program = Program::on(&fresh_database().await.url);
    program.json(&["app", "create", "a1"]);
    program.json(&["user", "add", "a1", "o1", "o2"]);
    let server = program.serve(None).await;
    let program = program.with("MINITILL_OPS__LISTEN", &server.operator_address.to_string());
    let status = program.json(&["status"]);
    for (name, value) in [
        ("server", json!("ready")),
        ("operator", json!(format!("http://{}", server.operator_address))),
        ("version", json!(env!("CARGO_PKG_VERSION"))),
        ("database", json!("database.url")),
        ("apps", json!(1)),
        ("players", json!(2)),
        ("entries", json!(0)),
    ] {
        assert_eq!(status[name], value, "{name}: {status}");
    }
    let told = String::from_utf8(program.run(&["status"]).stdout).unwrap();
    assert!(told.contains("\nledger_rows ") && !told.contains("\nentries "), "{told}");
    drop(server);
    let stopped = program.run(&["status", "--json"]);
    assert_eq!(stopped.status.code(), Some(1));
    let status: Value = serde_json::from_slice(&stopped.stdout).unwrap();
    assert_eq!((&status["server"], &status["apps"]), (&json!("not running"), &json!(1)));
    let away = Program::on("postgres://nobody@127.0.0.1:1/none").run(&["status", "--json"]);
    let status: Value = serde_json::from_slice(&away.stdout).unwrap();
    assert!(away.status.code() == Some(1) && status["database_error"].is_string(), "{status}");
}

/// Rule (contract 8.4.5): the exit code tells whether the server lives, and with `--ready` whether it can serve. One
/// line says it.
#[tokio::test(flavor = "multi_thread")]
async fn health_asks_the_server_of_the_settings() {
    let till = TestTill::start().await;
    let at = |address: &str| {
        Program::on("postgres://nobody@127.0.0.1:1/none").with("MINITILL_OPS__LISTEN", address)
    };
    let here = at(&till.operator_address.to_string());
    assert_eq!(printed(&here, &["health"]), "ok\n");
    assert_eq!(printed(&here, &["health", "--ready"]), "ready\n");
    assert_eq!(here.json(&["health"]), json!({"status": "ok"}));
    till.execute("DELETE FROM _sqlx_migrations WHERE version = 1").await;
    let url = format!("http://{}", till.operator_address);
    let unready = format!("minitill: {url}/readyz: 503, 1 migrations are not applied\n");
    assert_eq!(here.complaint(&["health", "--ready"]), unready);
    assert_eq!(printed(&here, &["health"]), "ok\n");
    let nobody = free_address();
    let away = at(&nobody.to_string()).complaint(&["health"]);
    assert_eq!(away, format!("minitill: http://{nobody}/healthz: not running\n"));
    // It accepts the connection, and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let late = at(&address.to_string()).complaint(&["health"]);
    assert_eq!(late, format!("minitill: http://{address}/healthz: no answer\n"));
}

/// Each command has a manual page, and `help` knows it.
#[test]
fn manual_pages_and_help_know_every_command() {
    let program = Program::on("postgres://nobody@127.0.0.1:1/none");
    let folder = std::env::temp_dir().join(format!("minitill-man-{}", std::process::id()));
    printed(&program, &["man", folder.to_str().unwrap()]);
    let page = std::fs::read_to_string(folder.join("minitill-wallet-credit.1")).unwrap();
    assert!(page.starts_with(".ie") && page.contains("Examples") && page.contains("welcome"), "{page}");
    assert!(folder.join("minitill.1").exists() && !folder.join("minitill-help-page.1").exists());
    std::fs::remove_dir_all(&folder).unwrap();
    let help = printed(&program, &["help", "wallet", "credit"]);
    assert!(help.contains("Examples:\n  minitill wallet credit mygame player-1 --free 40"), "{help}");
}
