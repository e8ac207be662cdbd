//! The hash chain of the operator's log (contract 8.5.4). Tests hold what the audit says of each
//! damage, and that operators who work at once leave no gap.

use std::path::Path;
use std::sync::Arc;

use domain::ids::{CreditRef, OpenId};
use domain::operation::app::AppCommand;
use domain::operation::wallet::Credit;
use serde_json::json;

use crate::support::program::Program;
use crate::support::{TestApp, TestTill, operator};

const KEEP: &str = "CREATE SCHEMA spare; CREATE TABLE spare.l AS TABLE operator_log;
    CREATE TABLE spare.h AS TABLE operator_log_head";
const PUT_BACK: &str = "TRUNCATE operator_log, operator_log_head; INSERT INTO operator_log TABLE spare.l;
    INSERT INTO operator_log_head TABLE spare.h; DROP SCHEMA spare CASCADE";

/// The documented encoding in PostgreSQL's own functions, and what somebody with full access does to
/// hide a change: all lines numbered and hashed again.
const RECHAIN: &str = "\
CREATE FUNCTION hashed(text) RETURNS bytea LANGUAGE sql AS $$
    SELECT coalesce(int4send(octet_length($1)) || convert_to($1, 'UTF8'), int4send(-1))
$$;
CREATE FUNCTION texts(l operator_log) RETURNS bytea LANGUAGE sql AS $$
    SELECT sha256(coalesce(int4send(16) || l.salt, int4send(-1)) || hashed(l.subject) || hashed(l.before::text)
        || hashed(l.after::text) || hashed(l.note) || hashed(l.credits::text)
        || CASE WHEN l.state IS NULL THEN '' ELSE hashed(l.state::text) END)
$$;
CREATE FUNCTION chained(before bytea, l operator_log) RETURNS bytea LANGUAGE sql AS $$
    SELECT sha256(before || int4send(8) || int8send(l.seq) || hashed(l.app_id)
        || int4send(8) || timestamptz_send(l.at) || int4send(8) || int8send(l.id)
        || hashed(l.operator_kind) || hashed(l.operator) || hashed(l.action) || int4send(32) || l.content_hash)
$$;
CREATE FUNCTION rechain() RETURNS void LANGUAGE plpgsql AS $$
    DECLARE l operator_log; number bigint := 0; last bytea := decode(repeat('00', 32), 'hex');
    BEGIN
        FOR l IN SELECT * FROM operator_log ORDER BY seq LOOP
            number := number + 1;
            UPDATE operator_log SET seq = number WHERE id = l.id;
            l.seq := number;
            l.content_hash := texts(l);
            last := chained(last, l);
            UPDATE operator_log SET content_hash = l.content_hash, chain_hash = last WHERE id = l.id;
        END LOOP;
        UPDATE operator_log_head SET seq = number, chain_hash = last;
    END
$$;";

/// Damage, and all that the audit finds: check, app, subject and detail.
type Damage = (&'static str, &'static [[&'static str; 4]]);

/// The lines are: 1 the app, 2 its package, 3 a credit of `o1`, 4 one of `o2` by an import, 5 its
/// suspension.
const DAMAGES: &[Damage] = &[
    (
        "UPDATE operator_log SET note = 'x' WHERE seq = 2",
        &[[
            "operator log hash chain",
            "a1",
            "operator log",
            "line 2: its texts are not those that it was written with",
        ]],
    ),
    // With the hash of the texts too.
    (
        "UPDATE operator_log SET note = 'x' WHERE seq = 2; UPDATE operator_log l SET content_hash = texts(l) WHERE seq = 2",
        &[[
            "operator log hash chain",
            "a1",
            "operator log",
            "line 2: its hash does not follow from it and line 1",
        ]],
    ),
    // As if a player had been erased.
    (
        "UPDATE operator_log SET note = 'x', salt = NULL WHERE seq = 2",
        &[[
            "operator log hash chain",
            "",
            "operator log",
            "line 2: its texts were replaced, and no erasure of a player tells of it",
        ]],
    ),
    // Its hash computed again, and not those behind it.
    (
        "UPDATE operator_log SET operator = 'x' WHERE seq = 2; \
         UPDATE operator_log l SET chain_hash = chained((SELECT chain_hash FROM operator_log WHERE seq = 1), l) WHERE seq = 2",
        &[[
            "operator log hash chain",
            "a1",
            "operator log",
            "line 3: its hash does not follow from it and line 2",
        ]],
    ),
    (
        "DELETE FROM operator_log WHERE seq = 2",
        &[
            ["gap in the operator log", "a1", "operator log", "line 3: comes after line 1"],
            [
                "operator log hash chain",
                "a1",
                "operator log",
                "line 3: its hash does not follow from it and line 1",
            ],
        ],
    ),
    (
        "DELETE FROM operator_log WHERE seq = 5",
        &[
            ["operator log against its head", "", "operator log", "the head is line 5; the newest line is 4"],
            ["app against the operator log", "a1", "a1", "suspended: line 1 tells false; there is true"],
        ],
    ),
    (
        "INSERT INTO operator_log SELECT app_id, at, 1, operator_kind, operator, action, subject, before, after, note, 6, chain_hash, content_hash, salt, \
         credits, state FROM operator_log WHERE seq = 5",
        &[
            [
                "operator log hash chain",
                "a1",
                "operator log",
                "line 6: its hash does not follow from it and line 5",
            ],
            ["operator log against its head", "", "operator log", "the head is line 5; the newest line is 6"],
        ],
    ),
    // Inserted between two lines, without the key that forbids a number twice.
    (
        "DROP INDEX operator_log_seq; INSERT INTO operator_log SELECT app_id, at + interval '1 second', 1, operator_kind, \
         operator, action, subject, before, after, note, 2, chain_hash, content_hash, salt FROM operator_log WHERE seq = 2",
        &[
            ["gap in the operator log", "a1", "operator log", "line 2: comes after line 2"],
            [
                "operator log hash chain",
                "a1",
                "operator log",
                "line 2: its hash does not follow from it and line 2",
            ],
        ],
    ),
    (
        "UPDATE operator_log_head SET chain_hash = sha256('')",
        &[["operator log against its head", "", "operator log", "the head has another hash than line 5"]],
    ),
    (
        "DELETE FROM operator_log_head",
        &[["operator log against its head", "", "operator log", "there is no head; the newest line is 5"]],
    ),
    // All hashes computed again: the ledger still has the credit, or has none.
    (
        "DELETE FROM operator_log WHERE seq = 4; SELECT rechain()",
        &[["entry without its line", "a1", "o2", "entry 1: r2 has no line in the operator log"]],
    ),
    (
        "INSERT INTO operator_log SELECT app_id, at, 1, operator_kind, operator, action, 'o9', before, after, note, 6, chain_hash, content_hash, salt \
         FROM operator_log WHERE seq = 3; SELECT rechain()",
        &[[
            "line without its entry",
            "a1",
            "start-o1",
            "line 6 of the operator log: the ledger has no such entry",
        ]],
    ),
    // The same credit told twice.
    (
        "INSERT INTO operator_log SELECT app_id, at, 1, operator_kind, operator, action, subject, before, after, note, 6, chain_hash, content_hash, salt \
         FROM operator_log WHERE seq = 3; SELECT rechain()",
        &[[
            "line without its entry",
            "a1",
            "start-o1",
            "line 6 of the operator log: the ledger has no such entry",
        ]],
    ),
    (
        "UPDATE operator_log SET after = '[]' WHERE seq = 3; SELECT rechain()",
        &[
            ["entry without its line", "a1", "o1", "entry 1: start-o1 has no line in the operator log"],
            ["line without its entry", "a1", "?", "line 3 of the operator log: the ledger has no such entry"],
        ],
    ),
    (
        "UPDATE operator_log SET after = jsonb_set(after, '{charge_balance}', '8') WHERE seq = 4; SELECT rechain()",
        &[
            ["entry without its line", "a1", "o2", "entry 1: r2 has no line in the operator log"],
            [
                "line without its entry",
                "a1",
                "r2",
                "line 4 of the operator log: the ledger has no such entry",
            ],
        ],
    ),
];

/// Since a checkpoint of these five lines; 6 and 7 came after it: a credit `r3` of `o2`, and the end of
/// the suspension.
const DAMAGES_SINCE: &[Damage] = &[
    (
        "UPDATE operator_log SET note = 'x' WHERE seq = 7",
        &[[
            "operator log hash chain",
            "a1",
            "operator log",
            "line 7: its texts are not those that it was written with",
        ]],
    ),
    (
        "DELETE FROM operator_log WHERE seq = 2",
        &[["number of rows", "", "operator_log", "6 rows, expected 7"]],
    ),
    (
        "DELETE FROM operator_log WHERE seq = 6; SELECT rechain()",
        &[["entry without its line", "a1", "o2", "entry 2: r3 has no line in the operator log"]],
    ),
    // The whole log written anew: only the checkpoint shows it.
    (
        "UPDATE operator_log SET note = 'x' WHERE seq = 5; SELECT rechain()",
        &[
            ["gap in the operator log", "a1", "operator log", "line 5: comes after line 5"],
            [
                "operator log hash chain",
                "a1",
                "operator log",
                "line 5: its hash does not follow from it and line 5",
            ],
            ["changed since the checkpoint", "", "operator log", "line 5 is not what the checkpoint has"],
        ],
    ),
    // The newest lines taken away with the head: the checkpoint has a line that is gone.
    (
        "DELETE FROM operator_log WHERE seq IN (5, 7); DELETE FROM operator_log WHERE seq = 6; SELECT rechain()",
        &[
            ["operator log against its head", "", "operator log", "the head is line 4; the newest line is 5"],
            ["entry without its line", "a1", "o2", "entry 2: r3 has no line in the operator log"],
            ["changed since the checkpoint", "", "operator log", "line 5 is not what the checkpoint has"],
        ],
    ),
];

fn credit(open_id: &str, reference: &str) -> Credit {
    let (open_id, reference) = (OpenId::parse(open_id).unwrap(), CreditRef::parse(reference).unwrap());
    Credit { open_id, free: 0, charge: 7, reference, note: String::new(), create: true }
}

/// A till with the five lines of [`DAMAGES`].
async fn till() -> (TestTill, TestApp, Program) {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 5, 0).await;
    till.store.change_wallet(&operator(), &app.id, credit("o2", "r2")).await.unwrap();
    till.command(&app, AppCommand::Suspend(true)).await;
    till.execute(RECHAIN).await;
    let program = Program::on(&till.database_url);
    (till, app, program)
}

/// Does each damage, has the audit name exactly what was done, and repairs it.
async fn assert_found(till: &TestTill, damages: &[Damage], since: Option<&Path>) {
    for (damage, expected) in damages {
        till.execute(KEEP).await;
        till.execute(damage).await;
        let report = json!(till.audit(since).await);
        assert_eq!(report["clean"], false);
        let found = report["findings"].as_array().unwrap().iter();
        let found: Vec<_> = found
            .map(|found| ["check", "app_id", "subject", "detail"].map(|name| found[name].clone()))
            .collect();
        assert_eq!(json!(found), json!(expected), "{damage}");
        till.execute(PUT_BACK).await;
        till.execute("CREATE UNIQUE INDEX IF NOT EXISTS operator_log_seq ON operator_log (seq)").await;
    }
    till.assert_audit_clean().await;
}

/// Rule: contract 8.5.4 and 8.5.5; and PostgreSQL computes the same hashes from the documented encoding.
#[tokio::test(flavor = "multi_thread")]
async fn each_damage_to_the_log_is_found_and_named() {
    let (till, _, _) = till().await;
    till.execute(KEEP).await;
    till.execute("SELECT rechain()").await;
    let same = "SELECT count(*) FROM spare.l JOIN operator_log USING (seq, id, chain_hash)";
    assert_eq!(till.number(same).await, 5);
    till.execute(PUT_BACK).await;
    assert_found(&till, DAMAGES, None).await;
}

/// Rule: contract 8.5.6. The checkpoint has the head of the log, so a log written anew is found.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_was_written_anew_is_found_against_the_checkpoint() {
    let (till, app, program) = till().await;
    let path = std::env::temp_dir().join(format!("minitill-{}-log.checkpoint", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let checkpoint = path.to_str().unwrap();
    program.json(&["audit", "--checkpoint", checkpoint]);
    assert_eq!(program.json(&["audit", "--since", checkpoint])["operator_log_lines"], 0);
    till.store.change_wallet(&operator(), &app.id, credit("o2", "r3")).await.unwrap();
    till.command(&app, AppCommand::Suspend(false)).await;
    assert_eq!(program.json(&["audit", "--since", checkpoint])["operator_log_lines"], 2);
    assert_found(&till, DAMAGES_SINCE, Some(&path)).await;
    std::fs::remove_file(path).unwrap();
}

/// Rule: operators who change things at once wait for each other only at the head of the log. The chain
/// has no gap, nobody fails, and each change has its line.
#[tokio::test(flavor = "multi_thread")]
async fn operators_at_once_leave_a_chain_without_a_gap() {
    let till = Arc::new(TestTill::start_with(|config| config.database.connections = 6).await);
    let app = till.app("a1").await;
    let operators = (0..6).map(|operator_number| {
        let (till, app) = (Arc::clone(&till), app.clone());
        tokio::spawn(async move {
            for turn in 0..8 {
                // The same few wallets, in another order for each operator.
                let open_id = format!("o{}", (operator_number * 5 + turn * 3) % 4);
                let reference = format!("r{operator_number}x{turn}");
                till.store.change_wallet(&operator(), &app.id, credit(&open_id, &reference)).await.unwrap();
                let suspended = (operator_number + turn) % 2 == 0;
                till.command(&app, AppCommand::Suspend(suspended)).await;
            }
        })
    });
    for operator in operators.collect::<Vec<_>>() {
        operator.await.unwrap();
    }
    let credits = "SELECT count(*) FROM operator_log WHERE action = 'wallet.credit'";
    assert_eq!(till.number(credits).await, 48);
    let gapless =
        "SELECT count(*) - max(seq) + (SELECT h.seq FROM operator_log_head h) - max(seq) FROM operator_log";
    assert_eq!(till.number(gapless).await, 0);
    till.assert_audit_clean().await;
}
