//! `minitill audit` (docs/audit.md): every kind of damage, made by hand, is found under its own
//! name, and what the program writes is found clean.

use std::path::{Path, PathBuf};

use domain::app::Scope;
use domain::ids::OpenId;
use domain::operation::app::AppCommand;
use serde_json::{Value, json};

use crate::game::Game;
use crate::support::program::Program;
use crate::support::{AppKind, TestApp, TestTill};

/// What the tables held, to be put back after each damage; and the number of a player's wallet then.
const KEEP: &str = "\
CREATE SCHEMA spare; CREATE TABLE spare.w AS TABLE wallets; CREATE TABLE spare.l AS TABLE ledger_entries;
CREATE TABLE spare.i AS TABLE items;
CREATE OR REPLACE FUNCTION w(player text) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
    BEGIN RETURN (SELECT wallet_no FROM spare.w WHERE open_id = player); END
$$";
const PUT_BACK: &str = "\
TRUNCATE wallets, ledger_entries, items;
INSERT INTO wallets TABLE spare.w; INSERT INTO ledger_entries TABLE spare.l; INSERT INTO items TABLE spare.i;
DROP SCHEMA spare CASCADE";

/// The documented encoding in PostgreSQL's own functions. Somebody with full access hides a change
/// with it: all hashes of a wallet up to an entry are computed again.
pub(crate) const REHASH: &str = "\
CREATE FUNCTION hash_of(before bytea, e ledger_entries) RETURNS bytea LANGUAGE sql AS $$
    SELECT sha256(before
        || int4send(4) || int4send(e.app_no) || int4send(8) || int8send(e.wallet_no)
        || int4send(8) || int8send(e.seq)
        || int4send(octet_length(e.kind)) || convert_to(e.kind, 'UTF8')
        || int4send(octet_length(e.reference)) || convert_to(e.reference, 'UTF8')
        || coalesce(int4send(octet_length(e.of_biz_no)) || convert_to(e.of_biz_no, 'UTF8'), int4send(-1))
        || coalesce(int4send(8) || int8send(e.remaining), int4send(-1))
        || coalesce(int4send(16) || e.item_id, int4send(-1))
        || coalesce(int4send(2) || int2send(e.pay_priority), int4send(-1))
        || int4send(8) || int8send(e.free_change) || int4send(8) || int8send(e.charge_change)
        || int4send(8) || int8send(e.free_balance) || int4send(8) || int8send(e.charge_balance)
        || int4send(8) || timestamptz_send(e.at))
$$;
CREATE FUNCTION rehash(wallet bigint, up_to bigint) RETURNS void LANGUAGE plpgsql AS $$
    DECLARE e ledger_entries; last bytea := decode(repeat('00', 32), 'hex');
    BEGIN
        FOR e IN SELECT * FROM ledger_entries WHERE wallet_no = wallet AND seq <= up_to ORDER BY seq LOOP
            last := hash_of(last, e);
            UPDATE ledger_entries SET chain_hash = last WHERE wallet_no = wallet AND seq = e.seq;
        END LOOP;
        UPDATE wallets SET chain_hash = last WHERE wallet_no = wallet AND entry_count = up_to;
    END
$$;";

/// Damage, and the name that it is found under.
const DAMAGES: &[(&str, &str)] = &[
    ("UPDATE wallets SET free_balance = free_balance + 1 WHERE open_id = 'o1'", "wallet against ledger"),
    ("UPDATE wallets SET charge_balance = charge_balance - 1 WHERE open_id = 'o2'", "wallet against ledger"),
    ("UPDATE wallets SET free_balance = free_balance + 1 WHERE open_id = 'o1'", "sums of an app"),
    ("UPDATE wallets SET entry_count = 9 WHERE open_id = 'o1'", "wallet against ledger"),
    ("UPDATE wallets SET chain_hash = sha256('') WHERE open_id = 'o1'", "wallet against hash chain"),
    ("UPDATE wallets SET chain_hash = '' WHERE open_id = 'o1'", "wallet against hash chain"),
    (
        "UPDATE wallets SET chain_hash = (SELECT chain_hash FROM ledger_entries WHERE wallet_no = w('o1') AND seq = 3) WHERE open_id = 'o1'",
        "wallet against hash chain",
    ),
    ("DELETE FROM wallets WHERE open_id = 'o2'", "entries without a wallet"),
    ("UPDATE wallets SET wallet_no = 1 WHERE open_id = 'o2'", "wallet without its entries"),
    ("UPDATE wallets SET free_balance = 1 WHERE open_id = 'o3'", "wallet without its entries"),
    ("DELETE FROM ledger_entries WHERE wallet_no = w('o2')", "wallet without its entries"),
    (
        "INSERT INTO ledger_entries (app_no, wallet_no, seq, kind, reference, free_change, charge_change, free_balance, charge_balance, at, chain_hash) VALUES (2, 1, 1, 'credit', '!r', 1, 1, 1, 1, now(), sha256(''))",
        "entries without a wallet",
    ),
    (
        "UPDATE ledger_entries SET free_balance = 7 WHERE wallet_no = w('o1') AND seq = 2",
        "balance does not follow",
    ),
    (
        "UPDATE ledger_entries SET charge_change = -11 WHERE wallet_no = w('o1') AND seq = 2",
        "balance does not follow",
    ),
    ("UPDATE ledger_entries SET seq = 7 WHERE wallet_no = w('o1') AND seq = 4", "gap in the ledger"),
    ("DELETE FROM ledger_entries WHERE wallet_no = w('o1') AND seq = 3", "gap in the ledger"),
    ("DELETE FROM ledger_entries WHERE wallet_no = w('o1') AND seq = 4", "wallet against ledger"),
    (
        "UPDATE ledger_entries SET kind = 'credit' WHERE wallet_no = w('o1') AND seq = 4",
        "change does not fit its kind",
    ),
    ("UPDATE ledger_entries SET kind = 'credit' WHERE wallet_no = w('o1') AND seq = 4", "hash chain"),
    ("UPDATE ledger_entries SET reference = 'other' WHERE wallet_no = w('o1') AND seq = 4", "hash chain"),
    (
        "UPDATE ledger_entries SET at = at - interval '1 hour' WHERE wallet_no = w('o1') AND seq = 2",
        "hash chain",
    ),
    (
        "UPDATE ledger_entries SET at = at - interval '1 microsecond' WHERE wallet_no = w('o1') AND seq = 2",
        "hash chain",
    ),
    // The sums of both purses together are what they were, and so are the balances at the end.
    (
        "UPDATE ledger_entries SET free_change = 51, free_balance = free_balance + 1 WHERE wallet_no = w('o1') AND seq = 1; \
         UPDATE ledger_entries SET free_change = -1 WHERE wallet_no = w('o1') AND seq = 2",
        "hash chain",
    ),
    // Two entries swapped.
    (
        "UPDATE ledger_entries SET seq = 10 - seq WHERE wallet_no = w('o1') AND seq IN (2, 3); UPDATE ledger_entries SET seq = seq - 5, \
         charge_balance = 10 * (10 - seq) WHERE wallet_no = w('o1') AND seq >= 7",
        "hash chain",
    ),
    // An entry's hash computed again and not those behind it.
    (
        "UPDATE ledger_entries SET at = at - interval '1 hour' WHERE wallet_no = w('o1') AND seq = 2; SELECT rehash(w('o1'), 2)",
        "hash chain",
    ),
    // All hashes but the wallet's.
    (
        "UPDATE ledger_entries SET at = at - interval '1 hour' WHERE wallet_no = w('o1'); SELECT rehash(w('o1'), 4); \
         UPDATE wallets w SET chain_hash = s.chain_hash FROM spare.w s WHERE s.open_id = w.open_id",
        "wallet against hash chain",
    ),
    // Hashes taken away: the wallet's row still covers the change.
    (
        "ALTER TABLE ledger_entries DROP CONSTRAINT ledger_entries_closed_is_no_entry; UPDATE ledger_entries SET at = at - interval '1 hour', chain_hash = NULL WHERE wallet_no = w('o1')",
        "wallet against hash chain",
    ),
    ("DELETE FROM items", "item of an exchange"),
    ("UPDATE items SET product_name = 'another'", "item of an exchange"),
    ("UPDATE items SET item_id = substr(sha256(''), 1, 16)", "item of an exchange"),
    ("UPDATE ledger_entries SET pay_priority = 1 WHERE reference = 'b1'", "change does not fit its kind"),
    ("UPDATE ledger_entries SET item_id = NULL WHERE reference = 'b1'", "hash chain"),
    (
        "ALTER TABLE ledger_entries DROP CONSTRAINT ledger_entries_chain_hash_length; UPDATE ledger_entries SET chain_hash = '' WHERE wallet_no = w('o1') AND seq = 2",
        "hash chain",
    ),
    (
        "ALTER TABLE ledger_entries DROP CONSTRAINT ledger_entries_kind_known; UPDATE ledger_entries SET kind = 'gift' WHERE wallet_no = w('o2')",
        "change does not fit its kind",
    ),
    (
        "ALTER TABLE wallets DROP CONSTRAINT wallets_free_balance_not_negative; ALTER TABLE ledger_entries DROP CONSTRAINT ledger_entries_free_balance_not_negative; \
         UPDATE ledger_entries SET free_change = -1, free_balance = -1, kind = 'exchange' WHERE wallet_no = w('o2'); UPDATE wallets SET free_balance = -1 WHERE open_id = 'o2'",
        "negative balance",
    ),
];

/// The same since a checkpoint that knows three entries of `o1` less, and not `o4`.
const DAMAGES_SINCE: &[(&str, &str)] = &[
    ("DELETE FROM wallets WHERE open_id = 'o2'", "changed since the checkpoint"),
    ("DELETE FROM wallets WHERE open_id = 'o2'", "number of rows"),
    ("UPDATE wallets SET free_balance = 51 WHERE open_id = 'o2'", "changed since the checkpoint"),
    ("UPDATE wallets SET chain_hash = sha256('') WHERE open_id = 'o2'", "changed since the checkpoint"),
    ("UPDATE wallets SET entry_count = 0 WHERE open_id = 'o2'", "changed since the checkpoint"),
    ("UPDATE wallets SET free_balance = free_balance + 1 WHERE open_id = 'o1'", "wallet against ledger"),
    ("UPDATE wallets SET chain_hash = sha256('') WHERE open_id = 'o1'", "wallet against hash chain"),
    ("UPDATE wallets SET free_balance = 1 WHERE open_id = 'o3'", "changed since the checkpoint"),
    ("DELETE FROM ledger_entries WHERE wallet_no = w('o1') AND seq = 4", "changed since the checkpoint"),
    ("DELETE FROM ledger_entries WHERE wallet_no = w('o1') AND seq >= 4", "wallet against ledger"),
    ("DELETE FROM ledger_entries WHERE wallet_no = w('o1') AND seq = 6", "gap in the ledger"),
    ("DELETE FROM ledger_entries WHERE wallet_no = w('o1') AND seq = 2", "number of rows"),
    ("UPDATE ledger_entries SET reference = 'other' WHERE wallet_no = w('o1') AND seq = 6", "hash chain"),
    ("DELETE FROM items", "item of an exchange"),
    (
        "INSERT INTO ledger_entries (app_no, wallet_no, seq, kind, reference, free_change, charge_change, free_balance, \
         charge_balance, at, chain_hash) SELECT 1, w('o2') + 1, 1, 'credit', '!forged', 1, 1, 1, 1, now(), sha256('')",
        "number of rows",
    ),
];

/// Damage to presents, cancels and closed numbers. The first entries of `o1` are: 1 credit, 2 exchange `b1` of 60 (40
/// gifted and 20 charged), 3 cancel `c1` of 30. The others are 4 cancel `c2` of 10, 5 present `p1` of 5,
/// 6 exchange `b2` of 5. `x1` is closed.
const DAMAGES_OF_KINDS: &[(&str, &str)] = &[
    ("UPDATE ledger_entries SET remaining = 29 WHERE reference = 'c1'", "hash chain"),
    (
        "UPDATE ledger_entries SET remaining = 29 WHERE reference = 'c1'; SELECT rehash(w('o1'), 6)",
        "cancel of an exchange",
    ),
    ("UPDATE ledger_entries SET of_biz_no = 'b2' WHERE reference = 'c1'", "hash chain"),
    (
        "UPDATE ledger_entries SET of_biz_no = 'b2' WHERE reference = 'c1'; SELECT rehash(w('o1'), 6)",
        "cancel of an exchange",
    ),
    (
        "UPDATE ledger_entries SET of_biz_no = 'none' WHERE reference = 'c2'; SELECT rehash(w('o1'), 6)",
        "cancel of an exchange",
    ),
    (
        "UPDATE ledger_entries SET of_biz_no = 'p1' WHERE reference = 'c2'; SELECT rehash(w('o1'), 6)",
        "cancel of an exchange",
    ),
    (
        "UPDATE ledger_entries SET of_biz_no = 'b9' WHERE reference = 'c2'; SELECT rehash(w('o1'), 6)",
        "cancel of an exchange",
    ),
    (
        "UPDATE ledger_entries SET reference = 'other' WHERE reference = 'b1'; SELECT rehash(w('o1'), 6)",
        "cancel of an exchange",
    ),
    (
        "UPDATE ledger_entries SET kind = 'present', of_biz_no = NULL, remaining = NULL WHERE reference = 'c1'; SELECT rehash(w('o1'), 6)",
        "change does not fit its kind",
    ),
    (
        "UPDATE ledger_entries SET kind = 'credit', of_biz_no = NULL, remaining = NULL WHERE reference = 'c1'; SELECT rehash(w('o1'), 6)",
        "change does not fit its kind",
    ),
    // One coin more from the gifted purse and one less from the charged one, in everything behind it too.
    (
        "UPDATE ledger_entries SET free_change = 11, charge_change = 19 WHERE reference = 'c1'; \
         UPDATE ledger_entries SET free_balance = free_balance + 1, charge_balance = charge_balance - 1 WHERE wallet_no = w('o1') AND seq >= 3; \
         UPDATE wallets SET free_balance = free_balance + 1, charge_balance = charge_balance - 1 WHERE open_id = 'o1'; SELECT rehash(w('o1'), 6)",
        "cancel of an exchange",
    ),
    // A cancel gives back one coin more than it tells.
    (
        "UPDATE ledger_entries SET free_change = free_change + 1 WHERE reference = 'c2'; \
         UPDATE ledger_entries SET free_balance = free_balance + 1 WHERE wallet_no = w('o1') AND seq >= 4; \
         UPDATE wallets SET free_balance = free_balance + 1 WHERE open_id = 'o1'; SELECT rehash(w('o1'), 6)",
        "cancel of an exchange",
    ),
    (
        "ALTER TABLE ledger_entries DROP CONSTRAINT IF EXISTS ledger_entries_remaining_not_negative; \
         UPDATE ledger_entries SET remaining = -1 WHERE reference = 'c2'; SELECT rehash(w('o1'), 6)",
        "change does not fit its kind",
    ),
    (
        "UPDATE ledger_entries SET free_change = 4, charge_change = 1 WHERE reference = 'p1'; SELECT rehash(w('o1'), 6)",
        "change does not fit its kind",
    ),
    ("UPDATE ledger_entries SET reference = '!p1' WHERE reference = 'p1'", "entry without its line"),
    ("UPDATE ledger_entries SET reference = '!p1' WHERE reference = 'p1'", "change does not fit its kind"),
    (
        "UPDATE ledger_entries SET pay_priority = 0 WHERE reference = 'b1'; SELECT rehash(w('o1'), 6)",
        "cancel of an exchange",
    ),
    ("UPDATE ledger_entries SET free_change = 5 WHERE reference = 'x1'", "closed number"),
    ("UPDATE ledger_entries SET charge_balance = 5 WHERE reference = 'x1'", "closed number"),
    (
        "ALTER TABLE ledger_entries DROP CONSTRAINT IF EXISTS ledger_entries_closed_is_no_entry; UPDATE ledger_entries SET kind = 'present' WHERE reference = 'x1'",
        "closed number",
    ),
    (
        "ALTER TABLE ledger_entries DROP CONSTRAINT IF EXISTS ledger_entries_closed_is_no_entry; UPDATE ledger_entries SET kind = 'closed' WHERE reference = 'p1'",
        "closed number",
    ),
    (
        "UPDATE ledger_entries SET kind = 'closed', seq = NULL, chain_hash = NULL WHERE reference = 'p1'",
        "gap in the ledger",
    ),
    ("DELETE FROM ledger_entries WHERE reference = 'c1'", "cancel of an exchange"),
    (
        "UPDATE ledger_entries SET wallet_no = w('o2'), seq = 2 WHERE reference = 'c2'",
        "cancel of an exchange",
    ),
];

/// A file of one test's own that is not there yet.
fn file(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("minitill-{}-{name}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

/// Two players with money, three exchanges of one of them, and one player with nothing.
async fn till() -> (TestTill, TestApp, Program) {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 50, 50).await;
    till.player(&app, "o2", 50, 50).await;
    till.command(&app, AppCommand::AddUsers(vec![OpenId::parse("o3").unwrap()])).await;
    for index in 0..3 {
        Game::new(&app, "o1", &format!("b{index}"), 10).send(&till).await;
    }
    till.execute(REHASH).await;
    let program = Program::on(&till.database_url);
    (till, app, program)
}

/// Does the damage, has it found under its name, and repairs it.
async fn assert_found(till: &TestTill, damage: &str, check: &str, since: Option<&Path>) {
    till.execute(KEEP).await;
    till.execute(damage).await;
    let report = json!(till.audit(since).await);
    assert_eq!(report["clean"], false);
    let named = report["findings"].as_array().unwrap().iter().any(|finding| finding["check"] == check);
    assert!(named && report["kinds"][check].is_u64(), "{damage}: expected {check}, got {report:#}");
    till.execute(PUT_BACK).await;
}

/// What the program writes is clean, and the report says what was looked at.
#[tokio::test(flavor = "multi_thread")]
async fn a_clean_audit_counts_and_adds_up_everything() {
    let (till, _, program) = till().await;
    // PostgreSQL computes the same hashes from the documented encoding.
    till.execute(KEEP).await;
    till.execute("SELECT rehash(w('o1'), 4); SELECT rehash(w('o2'), 1)").await;
    let same = "SELECT count(*) FROM spare.l JOIN ledger_entries USING (wallet_no, seq, chain_hash)";
    assert_eq!(till.number(same).await, 5);
    let mut report = program.json(&["audit"]);
    assert!(report["at"].as_str().unwrap().ends_with('Z'));
    report.as_object_mut().unwrap().remove("at");
    let app = json!({
        "wallets": 3, "free_balance": 100, "charge_balance": 70, "changes": {
            "credit": {"entries": 2, "free_change": 100, "charge_change": 100},
            "exchange": {"entries": 3, "free_change": 0, "charge_change": -30},
        },
    });
    let expected = json!({
        "clean": true, "since": null, "wallets": 3, "entries": 5, "archived_entries": 0,
        "operator_log_lines": 5, "differences": 0, "kinds": {}, "all": app, "apps": {"a1": app}, "findings": [],
        "not_noted": null,
    });
    assert_eq!(report, expected);
    let text = String::from_utf8(program.run(&["audit"]).stdout).unwrap();
    assert!(
        text.contains("Clean: 3 wallets, 5 ledger entries (3 exchange, 2 credit), 5 operator log lines checked, no differences."),
        "{text}"
    );
}

/// Each kind of damage that the audit claims to find: balances, rows, records, hashes.
#[tokio::test(flavor = "multi_thread")]
async fn the_audit_finds_each_kind_of_damage() {
    let (till, _, _) = till().await;
    for (damage, check) in DAMAGES {
        assert_found(&till, damage, check, None).await;
    }
    till.assert_audit_clean().await;
}

/// The same for the kinds of contract 10.7.1.
#[tokio::test(flavor = "multi_thread")]
async fn the_audit_finds_each_kind_of_damage_to_presents_cancels_and_closed_numbers() {
    let till = TestTill::start().await;
    let app = till.app_like("a1", AppKind { scopes: &Scope::ALL, ..AppKind::default() }).await;
    till.player(&app, "o1", 40, 100).await;
    till.player(&app, "o2", 40, 100).await;
    let path = file("kinds.checkpoint");
    let program = Program::on(&till.database_url);
    program.json(&["audit", "--checkpoint", path.to_str().unwrap()]);
    for game in [
        Game::new(&app, "o1", "b1", 60).with("pay_priority", 1),
        Game::cancel(&app, "o1", "c1", "b1", 30),
        Game::cancel(&app, "o1", "c2", "b1", 10),
        Game::present(&app, "o1", "p1", 5),
        Game::new(&app, "o1", "b2", 5),
        Game::query(&app, "o1", "x1").with("close", 1),
    ] {
        assert_eq!(game.send(&till).await.code(), 1);
    }
    till.execute(REHASH).await;
    till.assert_audit_clean().await;
    for (damage, check) in DAMAGES_OF_KINDS {
        assert_found(&till, damage, check, None).await;
        // A continued audit sees no closed numbers, which are no entries, and all else.
        if *check != "closed number" {
            assert_found(&till, damage, check, Some(&path)).await;
        }
    }
    assert_eq!(json!(till.audit(Some(&path)).await)["clean"], true);
    std::fs::remove_file(path).unwrap();
}

/// Of each kind the first twenty are named; all are counted. The command exits with 1.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_differences_are_counted_and_the_first_are_named() {
    let (till, _, program) = till().await;
    till.execute(
        "INSERT INTO wallets (app_no, wallet_no, open_id, free_balance) SELECT 1, n, 'p' || n, 1 FROM generate_series(1, 1000) AS n",
    )
    .await;
    let output = program.run(&["audit", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["kinds"], json!({"wallet without its entries": 1000, "sums of an app": 1}));
    assert_eq!(
        (report["differences"].as_u64(), report["findings"].as_array().unwrap().len()),
        (Some(1001), 21)
    );
    let text = String::from_utf8(program.run(&["audit"]).stdout).unwrap();
    assert!(text.contains("1001 differences in 1003 wallets"), "{text}");
}

/// Rule: each audit leaves its line, so that monitoring knows of it. A role that may only read audits all the same, and
/// says that nobody will know.
#[tokio::test(flavor = "multi_thread")]
async fn an_audit_is_noted_down_where_the_role_may_write() {
    let (till, _, program) = till().await;
    let path = file("noted.checkpoint");
    let checkpoint = path.to_str().unwrap();
    program.json(&["audit", "--checkpoint", checkpoint]);
    program.json(&["audit", "--since", checkpoint]);
    till.execute("UPDATE wallets SET free_balance = free_balance + 1 WHERE open_id = 'o1'").await;
    assert_eq!(program.run(&["audit"]).status.code(), Some(1));
    let noted = "SELECT json_agg(json_build_array(scope, entries, differences, program_version, \
                 finished_at >= started_at) ORDER BY started_at) FROM audits";
    let noted: Value = sqlx::query_scalar(noted).fetch_one(&till.sql).await.unwrap();
    let version = env!("CARGO_PKG_VERSION");
    // The wallet, and the sums of its app.
    let expected =
        json!([["full", 5, 0, version, true], ["since", 0, 0, version, true], ["full", 5, 2, version, true]]);
    assert_eq!(noted, expected);
    till.execute("UPDATE wallets SET free_balance = free_balance - 1 WHERE open_id = 'o1'").await;
    let reader = till.url_of_role("GRANT SELECT ON ALL TABLES IN SCHEMA public TO minitill;").await;
    let reader = Program::on(&reader);
    let output = reader.run(&["audit", "--json"]);
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{complaint}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let reason = report["not_noted"].as_str().unwrap();
    assert!(report["clean"] == true && reason.contains("permission denied for table audits"), "{reason}");
    assert_eq!(
        complaint,
        format!(
            "minitill: the result of this audit was not stored, so the metrics do not have it: {reason}\n"
        )
    );
    assert_eq!(till.number("SELECT count(*) FROM audits").await, 3);
    std::fs::remove_file(path).unwrap();
}

/// A checkpoint tells what no hash can: that a whole past was written anew.
#[tokio::test(flavor = "multi_thread")]
async fn a_past_that_was_written_anew_is_found_only_against_a_checkpoint() {
    let (till, app, program) = till().await;
    let path = file("past.checkpoint");
    let checkpoint = path.to_str().unwrap();
    program.json(&["audit", "--checkpoint", checkpoint]);
    // Nothing has happened since.
    let report = program.json(&["audit", "--since", checkpoint]);
    assert_eq!(
        (&report["clean"], &report["entries"], &report["wallets"]),
        (&json!(true), &json!(0), &json!(3))
    );
    assert!(report["since"].is_string());
    // The newest exchange is made a cheaper one, everywhere, with all hashes.
    let anew = "UPDATE ledger_entries SET charge_change = -9, charge_balance = 21 WHERE wallet_no = w('o1') AND seq = 4; \
        UPDATE wallets SET charge_balance = 21 WHERE open_id = 'o1'; SELECT rehash(w('o1'), 4)";
    till.execute(KEEP).await;
    till.execute(anew).await;
    till.assert_audit_clean().await;
    till.execute(PUT_BACK).await;
    assert_found(&till, anew, "changed since the checkpoint", Some(&path)).await;
    // Likewise where the wallet has had an exchange since, on top of the new past.
    Game::new(&app, "o1", "b3", 10).send(&till).await;
    Game::new(&app, "o2", "b4", 60).send(&till).await;
    let report = program.json(&["audit", "--since", checkpoint]);
    assert_eq!(
        (
            &report["entries"],
            &report["all"]["changes"]["exchange"]["entries"],
            &report["all"]["changes"]["credit"]
        ),
        (&json!(2), &json!(2), &Value::Null)
    );
    let on_top = format!(
        "{}; UPDATE ledger_entries SET charge_balance = 11 WHERE wallet_no = w('o1') AND seq = 5; \
         UPDATE wallets SET charge_balance = 11 WHERE open_id = 'o1'; SELECT rehash(w('o1'), 5)",
        "UPDATE ledger_entries SET charge_change = -9, charge_balance = 21 WHERE wallet_no = w('o1') AND seq = 4"
    );
    till.execute(KEEP).await;
    till.execute(&on_top).await;
    till.assert_audit_clean().await;
    till.execute(PUT_BACK).await;
    assert_found(&till, &on_top, "changed since the checkpoint", Some(&path)).await;
    std::fs::remove_file(path).unwrap();
}

/// What the continued audit finds, and that one checkpoint leads to the next.
#[tokio::test(flavor = "multi_thread")]
async fn a_continued_audit_finds_damage_to_what_came_since_and_to_what_the_checkpoint_has() {
    let (till, app, program) = till().await;
    let path = file("since.checkpoint");
    let checkpoint = path.to_str().unwrap();
    program.json(&["audit", "--checkpoint", checkpoint]);
    for index in 3..6 {
        Game::new(&app, "o1", &format!("b{index}"), 10).send(&till).await;
    }
    till.player(&app, "o4", 5, 5).await;
    for (damage, check) in DAMAGES_SINCE {
        assert_found(&till, damage, check, Some(&path)).await;
    }
    till.assert_audit_clean().await;
    // The next checkpoint takes the place of the first; nothing has come since.
    program.json(&["audit", "--since", checkpoint, "--checkpoint", checkpoint]);
    assert_eq!(program.json(&["audit", "--since", checkpoint])["entries"], 0);
    std::fs::remove_file(path).unwrap();
}

/// A checkpoint is believed only whole, signed with the master key and of this database.
#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_that_is_forged_cut_or_of_another_database_is_refused_in_words() {
    let (till, _, program) = till().await;
    let path = file("forged.checkpoint");
    let checkpoint = path.to_str().unwrap();
    program.json(&["audit", "--checkpoint", checkpoint]);
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600, "it names players");
    let text = std::fs::read_to_string(&path).unwrap();
    let since = ["audit", "--since", checkpoint];
    let refused =
        format!("minitill: checkpoint {checkpoint}: it was changed, or not signed with this master key\n");
    let last = text.lines().last().unwrap();
    let forgeries = [
        text.replace(" 4 50 20 ", " 4 50 21 "),
        text.replace("\"entries\":5", "\"entries\":4"),
        text.replace(last, &last.replace(char::is_numeric, "0")),
        text[..text.len() - 1].to_owned(),
        text[text.len() / 2..].to_owned(),
        text.replace("checkpoint 4", "checkpoint 3"),
        "short".to_owned(),
        String::new(),
    ];
    for forged in forgeries {
        assert_ne!(forged, text);
        std::fs::write(&path, &forged).unwrap();
        assert_eq!(program.complaint(&since), refused, "{forged}");
    }
    std::fs::write(&path, &text).unwrap();
    let other = TestTill::start().await;
    assert_eq!(
        Program::on(&other.database_url).complaint(&since),
        format!(
            "minitill: checkpoint {checkpoint}: it was made of another database, or before its master key was replaced\n"
        )
    );
    // Nothing is written where something differs, and what is there stays.
    till.execute("UPDATE wallets SET free_balance = 51 WHERE open_id = 'o2'").await;
    assert_eq!(program.run(&["audit", "--checkpoint", checkpoint]).status.code(), Some(1));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    std::fs::remove_file(&path).unwrap();
    assert!(program.complaint(&since).contains("No such file"));
}
