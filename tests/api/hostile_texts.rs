//! Texts of others that steer a terminal: each command shows them escaped (contract 8.1.7), and CSV makes no formula of
//! them (contract 8.3.10).

use std::process::Output;

use serde_json::json;

use crate::game::Game;
use crate::support::program::Program;
use crate::support::receiver::{Receiver, Reply};
use crate::support::{AppKind, TestTill};

/// It sets the title of a terminal, goes up and forges a line, turns the direction, and begins a line of its own.
const HOSTILE: &str =
    "\u{1b}]0;owned\u{7}\u{1b}[1A\u{9b}2K\rFORGED\u{202e}gpj\u{2066}\u{200f}\nFORGED\tclean\u{2028}\u{7f}";
/// How it is shown.
const SHOWN: &str =
    r"\u{1b}]0;owned\u{7}\u{1b}[1A\u{9b}2K\rFORGED\u{202e}gpj\u{2066}\u{200f}\nFORGED\tclean\u{2028}\u{7f}";

/// Whether a terminal does nothing with it but show it, but for the line ends and tabs of the program itself.
fn is_harmless(printed: &[u8]) -> bool {
    let text = std::str::from_utf8(printed).unwrap();
    let steers = |character: char| {
        character.is_control() && !matches!(character, '\n' | '\t')
            || matches!(
                character,
                '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            )
    };
    !text.contains(steers) && !text.lines().any(|line| line.starts_with("FORGED"))
}

#[track_caller]
fn assert_harmless(output: &Output, of: &[&str]) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(is_harmless(&output.stdout) && is_harmless(&output.stderr), "{of:?}: {out:?}, {err:?}");
    format!("{out}{err}")
}

/// A till in which games, players, receivers and operators have left such texts wherever a text may hold them.
async fn till(receiver: &Receiver) -> (TestTill, Program) {
    let url = receiver.url("/");
    let port = receiver.address.port();
    let till = TestTill::start_with(move |config| {
        config.notify.allow_networks = vec!["127.0.0.0/8".parse().unwrap()];
        config.notify.ports = vec![port];
    })
    .await;
    let app = till.app_like("a1", AppKind::default()).await;
    till.player(&app, "o1", 0, 1000).await;
    assert_eq!(Game::new(&app, "o1", "B1", 7).send(&till).await.code(), 1);
    // No endpoint takes all of these texts. What is in the database may have come by a restore, or by an older version.
    let app_name = HOSTILE.replace(char::is_control, "");
    for statement in [
        format!(
            "INSERT INTO orders (app_id, out_biz_order_no, out_order_no, open_id, order_create_time, order_status,
                    order_path, product_cover_img_id, event_count)
             VALUES ('a1', 'order_0001', 'paid_0001', 'o1', 1700000000000, 1, '{HOSTILE}', 'x', 1)"
        ),
        format!("INSERT INTO picture_blocks (content_sha256, reason) VALUES (sha256('x'), '{HOSTILE}')"),
        format!("UPDATE items SET product_name = '{HOSTILE}'"),
        format!("UPDATE sales_hours SET product_name = '{HOSTILE}' WHERE product_name <> ''"),
        format!("UPDATE apps SET name = '{app_name}'"),
        format!("UPDATE operator_log SET note = '{HOSTILE}'"),
    ] {
        till.execute(&statement).await;
    }
    let program = Program::on(&till.database_url)
        .with("MINITILL_NOTIFY__ALLOW_NETWORKS", "127.0.0.1/32")
        .with("MINITILL_NOTIFY__PORTS", &port.to_string());
    program.json(&["receiver", "add", "a1", &url]);
    (till, program)
}

/// Rule 8.1.7: whatever command prints it, on standard output or on standard error.
#[tokio::test(flavor = "multi_thread")]
async fn texts_of_others_are_shown_escaped_by_every_command() {
    let receiver = Receiver::answering(|_, _| Reply::status(500).body(HOSTILE)).await;
    let (_till, program) = till(&receiver).await;
    let listed = program.json(&["receiver", "list", "a1"]);
    let id = listed["receivers"][0]["receiver_id"].as_str().unwrap().to_owned();
    let file = std::env::temp_dir().join(format!("minitill-hostile-{}.csv", std::process::id()));
    let path = file.to_str().unwrap();
    std::fs::write(
        &file,
        format!("\"{HOSTILE}\",biz_no,product_name\nx,B1,\"{HOSTILE}\"\nx,\"{HOSTILE}\",y\n"),
    )
    .unwrap();
    for shows in [
        &["exchange", "list", "B1"][..],
        &["exchange", "show", "a1", "B1"],
        &["image", "list"],
        &["operator-log"],
        &["order", "show", "a1", "order_0001"],
        &["receiver", "test", "a1", &id],
        &["receiver", "show", "a1", &id],
        &["reconcile", "a1", path],
        &["report", "revenue", "a1", "--group", "product_name"],
    ] {
        let said = assert_harmless(&program.run(shows), shows);
        assert!(said.contains(SHOWN), "{shows:?}: {said}");
    }
    for other in [
        &["app", "list"][..],
        &["app", "show", "a1"],
        &["user", "list", "a1"],
        &["token", "list", "a1"],
        &["order", "list", "a1"],
        &["wallet", "show", "a1", "o1"],
        &["wallet", "statement", "a1", "o1"],
        &["receiver", "list", "a1"],
        &["receiver", "failed", "a1", &id],
        &["report", "check", "a1"],
        &["report", "statement", "a1", "--month", "2026-11"],
        &["audit"],
        &["status"],
        &["api-key", "list"],
        &["console-user", "list"],
        &["archive", "list"],
        // What somebody pasted.
        &["app", "show", HOSTILE],
        &["exchange", "list", HOSTILE],
        &["image", "unblock", HOSTILE],
        &["operator-log", "--subject", HOSTILE],
        &["wallet", "import", "a1", path],
        &["wallet", "import", "a1", HOSTILE],
        &[HOSTILE],
    ] {
        assert_harmless(&program.run(other), other);
    }
    std::fs::remove_file(&file).unwrap();
    // JSON carries the text by its own rules.
    let shown = program.json(&["exchange", "show", "a1", "B1"]);
    assert_eq!(shown["product_name"], json!(HOSTILE));
}
