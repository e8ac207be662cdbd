//! `minitill archive` (docs/archives.md): entries leave for a file and come back, and no number takes effect twice.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

use domain::app::Scope;
use domain::ids::OpenId;
use domain::operation::app::AppCommand;
use domain::wallet::DeveloperTexts;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::audit::REHASH;
use crate::game::Game;
use crate::support::program::Program;
use crate::support::{AppKind, TestApp, TestTill, until};

/// All rows about money and its numbers, as bytes.
const BOOKS: &str = "SELECT string_agg(e::text, E'\\n' ORDER BY reference) FROM ledger_entries e";

/// A folder that is removed at the end of a test.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("minitill-archive-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    pub(super) fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    pub(super) fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Makes everything in the ledger older, with the hashes that it would then have. Its events have left.
pub(super) async fn age(till: &TestTill, hours: u32) {
    till.execute(&format!(
        "UPDATE ledger_entries SET at = at - interval '{hours} hours';
         SELECT rehash(wallet_no, max(seq)) FROM ledger_entries WHERE seq IS NOT NULL GROUP BY wallet_no;
         UPDATE wallets w SET chain_hash = e.chain_hash FROM ledger_entries e
         WHERE e.wallet_no = w.wallet_no AND e.seq = w.entry_count;
         DELETE FROM wallet_outbox; DELETE FROM events; UPDATE event_head SET removed_no = last_no"
    ))
    .await;
}

/// The day before which everything is archived that is four days old.
pub(super) async fn day(till: &TestTill) -> String {
    let day = "SELECT to_char((now() AT TIME ZONE 'UTC')::date - 3, 'YYYY-MM-DD')";
    sqlx::query_scalar(day).fetch_one(&till.sql).await.unwrap()
}

async fn books(till: &TestTill) -> String {
    sqlx::query_scalar(BOOKS).fetch_one(&till.sql).await.unwrap()
}

/// An app whose player `o1` has one entry of each kind and a closed number, all ten days old. The entries are: 1 credit
/// of 40 and 100, 2 exchange `b1` of 60, 3 cancel `c1` of 30, 4 present `p1` of 5. `x1` is closed. `o2` has a credit
/// alone, and `o4` the closed number `y1`.
pub(super) async fn old_till() -> (TestTill, TestApp, Program) {
    let till = TestTill::start().await;
    let app = till.app_like("a1", AppKind { scopes: &Scope::ALL, ..AppKind::default() }).await;
    till.player(&app, "o1", 40, 100).await;
    till.player(&app, "o2", 7, 0).await;
    till.command(&app, AppCommand::AddUsers(vec![OpenId::parse("o4").unwrap()])).await;
    for game in [
        Game::new(&app, "o1", "b1", 60).with("pay_priority", 1).with_texts("tab\there \\N"),
        Game::cancel(&app, "o1", "c1", "b1", 30),
        Game::present(&app, "o1", "p1", 5),
        Game::query(&app, "o1", "x1").with("close", 1),
        Game::query(&app, "o4", "y1").with("close", 1),
    ] {
        let answer = game.send(&till).await;
        assert_eq!(answer.code(), 1, "{}", answer.body);
    }
    till.execute(REHASH).await;
    age(&till, 240).await;
    till.assert_audit_clean().await;
    let program = Program::on(&till.database_url);
    (till, app, program)
}

/// What every caller is answered about old numbers.
async fn answers(till: &TestTill, app: &TestApp, program: &Program) -> Vec<String> {
    let mut answers = Vec::new();
    for game in [
        Game::new(app, "o1", "b1", 60).with("pay_priority", 1),
        Game::new(app, "o1", "b1", 60).with("pay_priority", 1).with_texts("tab\there \\N"),
        Game::new(app, "o1", "b1", 61),
        Game::new(app, "o4", "y1", 1),
        Game::cancel(app, "o1", "c1", "b1", 30),
        Game::present(app, "o1", "p1", 5),
        Game::new(app, "o1", "x1", 1),
        Game::new(app, "o2", "p1", 1),
        Game::cancel(app, "o1", "c9", "b1", 31),
        Game::cancel(app, "o1", "c9", "p1", 1),
        Game::query(app, "o1", "b1"),
        Game::query(app, "o1", "c1"),
        Game::query(app, "o1", "p1"),
        Game::query(app, "o1", "x1"),
        Game::query(app, "o2", "b1"),
        Game::balance(app, "o1"),
    ] {
        answers.push(game.send(till).await.body);
    }
    let credit = ["wallet", "credit", "a1", "o1", "--free", "40", "--charge", "100", "--ref", "start-o1"];
    answers.push(program.json(&credit).to_string());
    answers.push(program.json(&["exchange", "list", "b1"]).to_string());
    answers.push(program.json(&["exchange", "list", "start-o1"]).to_string());
    answers
}

/// Games and operators are answered about an archived number as before, and nothing of it takes effect again.
#[tokio::test(flavor = "multi_thread")]
async fn an_archived_number_is_answered_as_before_and_changes_nothing() {
    let (till, app, program) = old_till().await;
    let folder = Folder::new("answers");
    let before = answers(&till, &app, &program).await;
    let (purses, totals) = (till.purses(&app, "o1").await, added_up(&till, &app).await);
    let day = day(&till).await;
    let written = program.json(&["archive", "--before", &day, "--to", folder.path()]);
    assert_eq!(
        (written["archives"][0]["entries"].clone(), written["compacted"].clone()),
        (json!(7), json!(false))
    );
    assert_eq!(till.number("SELECT count(*) FROM ledger_entries").await, 0);
    assert_eq!(answers(&till, &app, &program).await, before);
    assert_eq!(till.purses(&app, "o1").await, purses);
    assert_eq!(added_up(&till, &app).await, totals);
    till.assert_audit_clean().await;
    // What was not given back before can still be given back, and not more.
    assert_eq!(Game::cancel(&app, "o1", "c2", "b1", 30).send(&till).await.code(), 1);
    assert_eq!(Game::cancel(&app, "o1", "c3", "b1", 1).send(&till).await.code(), 10_000_605);
    assert_eq!(Game::new(&app, "o1", "b2", 1).send(&till).await.code(), 1);
    till.assert_audit_clean().await;
    let report = program.json(&["audit"]);
    assert_eq!((&report["entries"], &report["archived_entries"]), (&json!(2), &json!(5)));
    let text = String::from_utf8(program.run(&["audit"]).stdout).unwrap();
    assert!(text.contains("no differences. The sums of 5 archived entries are right, too."), "{text}");
}

/// What the page of a player adds up.
async fn added_up(till: &TestTill, app: &TestApp) -> Value {
    let open_id = OpenId::parse("o1").unwrap();
    let wallet = till.store.wallet(&app.id, &open_id).await.unwrap().unwrap();
    json!(till.store.wallet_totals(&wallet).await.unwrap())
}

/// Two archives and their restores, the newest first: each restore leaves every byte of the ledger as it was.
#[tokio::test(flavor = "multi_thread")]
async fn a_restore_is_equal_to_the_byte() {
    let (till, app, program) = old_till().await;
    let folder = Folder::new("restore");
    let first = books(&till).await;
    let day = day(&till).await;
    let archive = || program.json(&["archive", "--before", &day, "--to", folder.path()])["archives"].clone();
    let one = archive()[0]["file"].as_str().unwrap().to_owned();
    let name = one.strip_prefix(&folder.file(&format!("a1-1-before-{day}-"))).unwrap();
    assert!(name.len() == 15 && name.ends_with(".tsv.gz"), "{one}");
    assert_eq!(archive(), json!([]), "nothing is left to archive");
    for game in [Game::cancel(&app, "o1", "c2", "b1", 10), Game::new(&app, "o1", "b2", 1)] {
        assert_eq!(game.send(&till).await.code(), 1);
    }
    age_new(&till).await;
    let second = books(&till).await;
    let two = archive()[0]["file"].as_str().unwrap().to_owned();
    till.assert_audit_clean().await;
    for file in [&one, &two] {
        let sums = format!("{file}.sha256");
        let mut check = std::process::Command::new("sha256sum");
        check.args(["--check", "--quiet", &sums]).current_dir(&folder.0);
        assert!(check.status().unwrap().success());
    }
    let verified = program.json(&["archive", "verify", &one, &two]);
    assert_eq!(verified["verified"][1], json!({"file": two, "app_id": "a1", "archive_no": 2, "entries": 2}));
    // People are told of rows, because not all of them are ledger entries.
    let list = String::from_utf8(program.run(&["archive", "list"]).stdout).unwrap();
    assert!(list.starts_with("app_id\tarchive_no\tbefore\trows\tstate\tfile\n"), "{list}");
    assert_eq!(
        program.complaint(&["archive", "restore", &one]),
        "minitill: restore archive 2 of the app a1 first: it is newer\n"
    );
    program.json(&["archive", "restore", &two]);
    assert_eq!(books(&till).await, second);
    till.assert_audit_clean().await;
    program.json(&["archive", "restore", &one]);
    let mut both: Vec<&str> = first.lines().chain(second.lines()).collect();
    both.sort_unstable();
    let restored = books(&till).await;
    let mut rows: Vec<&str> = restored.lines().collect();
    rows.sort_unstable();
    assert_eq!(rows, both);
    till.assert_audit_clean().await;
    assert_eq!(till.number("SELECT (SELECT count(*) FROM archives) + (SELECT count(*) FROM archived_entries) + (SELECT count(*) FROM archived_wallets)").await, 0);
    let lines = program.json(&["operator-log", "--limit", "4"])["lines"].clone();
    let actions: Vec<_> = lines.as_array().unwrap().iter().map(|line| line["action"].clone()).collect();
    assert_eq!(
        json!(actions),
        json!(["archive.write", "archive.write", "archive.restore", "archive.restore"])
    );
}

/// Makes the entries of `o1` that follow an archive five days old.
async fn age_new(till: &TestTill) {
    till.execute(
        "UPDATE ledger_entries SET at = at - interval '120 hours';
         DO $$
         DECLARE e ledger_entries; last bytea; BEGIN
             FOR e IN SELECT * FROM ledger_entries ORDER BY wallet_no, seq LOOP
                 SELECT coalesce((SELECT chain_hash FROM ledger_entries WHERE wallet_no = e.wallet_no AND seq = e.seq - 1),
                     (SELECT chain_hash FROM archived_wallets WHERE wallet_no = e.wallet_no AND seq = e.seq - 1)) INTO last;
                 UPDATE ledger_entries SET chain_hash = hash_of(last, e) WHERE reference = e.reference;
                 UPDATE wallets SET chain_hash = hash_of(last, e) WHERE wallet_no = e.wallet_no;
             END LOOP;
         END $$",
    )
    .await;
}

/// What was made after the day stays, and so does the ledger of each wallet behind it, whatever the clock did.
#[tokio::test(flavor = "multi_thread")]
async fn an_entry_stays_when_an_earlier_one_of_its_wallet_does() {
    let (till, _, program) = old_till().await;
    let folder = Folder::new("stays");
    till.execute(
        "UPDATE ledger_entries SET at = now() WHERE reference = 'c1';
         SELECT rehash(wallet_no, 4) FROM ledger_entries WHERE reference = 'c1'",
    )
    .await;
    till.assert_audit_clean().await;
    program.json(&["archive", "--before", &day(&till).await, "--to", folder.path()]);
    let stays: Value = sqlx::query_scalar("SELECT json_agg(reference ORDER BY seq) FROM ledger_entries")
        .fetch_one(&till.sql)
        .await
        .unwrap();
    assert_eq!(stays, json!(["c1", "p1"]));
    till.assert_audit_clean().await;
}

/// Damage to what stays of an archive, and the name that the audit finds it under.
const DAMAGES: &[(&str, &str)] = &[
    ("DELETE FROM archived_entries WHERE reference = 'p1'", "archived entries"),
    ("UPDATE archived_entries SET free_change = free_change + 1 WHERE reference = 'p1'", "archived entries"),
    ("UPDATE archived_entries SET free_change = 1 WHERE reference = 'x1'", "archived entries"),
    ("UPDATE archived_wallets SET free_balance = free_balance + 1 WHERE seq = 4", "archived entries"),
    ("UPDATE archived_wallets SET seq = 3 WHERE seq = 4", "archived entries"),
    ("UPDATE archived_wallets SET chain_hash = sha256('') WHERE seq = 4", "hash chain"),
    ("UPDATE archived_wallets SET chain_hash = sha256('') WHERE seq = 1", "wallet without its entries"),
    ("DELETE FROM archived_wallets WHERE seq = 4", "archived entries"),
    ("DELETE FROM archived_wallets WHERE seq = 4", "gap in the ledger"),
    ("UPDATE archived_entries SET item_id = sha256('') WHERE reference = 'b1'", "item of an exchange"),
    ("UPDATE archived_entries SET reference = 'other' WHERE reference = 'p1'", "archived entries"),
    ("UPDATE archived_entries SET reference = 'other' WHERE reference = 'y1'", "archived entries"),
    ("UPDATE archived_entries SET at = at + interval '1 year' WHERE reference = 'p1'", "archived entries"),
    ("UPDATE archived_entries SET zone_id = '2' WHERE reference = 'b1'", "archived entries"),
    ("DELETE FROM archived_entries WHERE reference = 'x1'", "archived entries"),
    ("UPDATE archived_entries SET remaining = 29 WHERE reference = 'c1'", "cancel of an exchange"),
    ("UPDATE archived_entries SET free_balance = 41 WHERE reference = '!start-o1'", "entry without its line"),
    (
        "UPDATE archived_entries SET reference = '!other' WHERE reference = '!start-o1'",
        "line without its entry",
    ),
    ("UPDATE wallets SET free_balance = 8 WHERE open_id = 'o2'", "wallet without its entries"),
];

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_finds_each_kind_of_damage_to_an_archive() {
    let (till, app, program) = old_till().await;
    let folder = Folder::new("damage");
    program.json(&["archive", "--before", &day(&till).await, "--to", folder.path()]);
    assert_eq!(Game::new(&app, "o1", "b2", 1).send(&till).await.code(), 1);
    till.assert_audit_clean().await;
    till.execute(
        "CREATE SCHEMA spare; CREATE TABLE spare.e AS TABLE archived_entries; CREATE TABLE spare.s AS TABLE archived_wallets;
         CREATE TABLE spare.w AS TABLE wallets",
    )
    .await;
    for (damage, check) in DAMAGES {
        till.execute(damage).await;
        let report = json!(till.audit(None).await);
        assert!(report["kinds"][check].as_u64() >= Some(1), "{damage}: {}", report["findings"]);
        till.execute(
            "TRUNCATE archived_entries, archived_wallets, wallets; INSERT INTO archived_entries TABLE spare.e;
             INSERT INTO archived_wallets TABLE spare.s; INSERT INTO wallets TABLE spare.w",
        )
        .await;
    }
    till.assert_audit_clean().await;
}

/// Damage to what stays, and what the check of the file names.
const DIFFERENCES: &[(&str, &str)] = &[
    ("UPDATE archived_entries SET reference = 'other' WHERE reference = 'p1'", "p1"),
    ("UPDATE archived_entries SET at = at + interval '1 year' WHERE reference = 'p1'", "p1"),
    ("UPDATE archived_entries SET kind = 'present' WHERE reference = 'b1'", "b1"),
    ("UPDATE archived_entries SET zone_id = '2' WHERE reference = 'b1'", "b1"),
    ("UPDATE archived_entries SET pay_priority = 0 WHERE reference = 'b1'", "b1"),
    ("UPDATE archived_entries SET free_balance = 41 WHERE reference = '!start-o1'", "!start-o1"),
    ("DELETE FROM archived_entries WHERE reference = 'y1'", "y1"),
    ("UPDATE archived_wallets SET free_balance = 99 WHERE seq = 4", "o1"),
    ("UPDATE archived_wallets SET chain_hash = sha256('') WHERE seq = 4", "o1"),
    ("DELETE FROM archived_wallets WHERE seq = 1", "o2"),
];

#[tokio::test(flavor = "multi_thread")]
async fn the_check_of_a_file_finds_each_difference_to_what_stays() {
    let (till, _, program) = old_till().await;
    let folder = Folder::new("differences");
    let written = program.json(&["archive", "--before", &day(&till).await, "--to", folder.path()]);
    let file = written["archives"][0]["file"].as_str().unwrap();
    till.execute(
        "CREATE SCHEMA spare; CREATE TABLE spare.e AS TABLE archived_entries;
         CREATE TABLE spare.s AS TABLE archived_wallets",
    )
    .await;
    for (damage, named) in DIFFERENCES {
        till.execute(damage).await;
        assert_eq!(
            program.complaint(&["archive", "verify", file]),
            format!("minitill: {file}: the database does not have {named} as the file has it\n"),
            "{damage}"
        );
        till.execute(
            "TRUNCATE archived_entries, archived_wallets; INSERT INTO archived_entries TABLE spare.e;
             INSERT INTO archived_wallets TABLE spare.s",
        )
        .await;
    }
    program.json(&["archive", "verify", file]);
}

/// Adds a player `o3` with 5,000 old entries. They are a batch of their own, which comes first.
async fn add_large_wallet(till: &TestTill) {
    till.execute(
        "INSERT INTO wallets (app_no, wallet_no, open_id, free_balance, entry_count) VALUES (1, 1, 'o3', 5000, 5000);
         INSERT INTO ledger_entries (app_no, wallet_no, seq, kind, reference, free_change, charge_change, free_balance,
             charge_balance, at, chain_hash)
         SELECT 1, 1, n, 'present', 'many' || n, 1, 0, n, 0, now() - interval '10 days', sha256('')
         FROM generate_series(1, 5000) AS n;
         SELECT rehash(1, 5000)",
    )
    .await;
    till.assert_audit_clean().await;
}

/// A restore that begins while an archive moves waits for its batch. Then everything goes back, and the archive ends
/// without having its way.
#[tokio::test(flavor = "multi_thread")]
async fn a_restore_overtakes_an_archive() {
    let (till, _, program) = old_till().await;
    add_large_wallet(&till).await;
    let folder = Folder::new("overtaken");
    let (before, day) = (books(&till).await, day(&till).await);
    // The archive waits for this row in its first batch.
    let mut row = till.sql.acquire().await.unwrap();
    let lock = "BEGIN; SELECT 1 FROM ledger_entries WHERE reference = 'many1' FOR UPDATE";
    sqlx::raw_sql(lock).execute(&mut *row).await.unwrap();
    let start = |words: &[&str]| program.command(words).stderr(Stdio::piped()).spawn().unwrap();
    let archive = start(&["archive", "--before", &day, "--to", folder.path()]);
    wait_for_lock(&till, "DELETE FROM ledger_entries").await;
    let list = program.json(&["archive", "list"]);
    let file = list["archives"][0]["file"].as_str().unwrap().to_owned();
    let restore = start(&["archive", "restore", &file]);
    wait_for_lock(&till, "FROM archives WHERE app_id = $1 FOR UPDATE").await;
    sqlx::raw_sql("ROLLBACK").execute(&mut *row).await.unwrap();
    let (archive, restore) = (archive.wait_with_output().unwrap(), restore.wait_with_output().unwrap());
    assert!(restore.status.success(), "{}", String::from_utf8_lossy(&restore.stderr));
    let complaint = String::from_utf8(archive.stderr).unwrap();
    let overtaken =
        "minitill: another command has changed archive 1 of the app a1; see minitill archive list\n";
    assert!(archive.status.success() || complaint == overtaken, "{complaint}");
    assert_eq!(books(&till).await, before);
    assert_eq!(program.json(&["archive", "list"])["archives"], json!([]));
    till.assert_audit_clean().await;
}

/// Until a session waits with this statement.
async fn wait_for_lock(till: &TestTill, statement: &str) {
    let waits = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
         AND query LIKE '%{statement}%'"
    );
    until(&format!("a session waits with {statement}"), async || till.number(&waits).await > 0).await;
}

/// Of two archives at the same time one moves the entries, and the other says so. Then the same is archived again into
/// the same folder.
#[tokio::test(flavor = "multi_thread")]
async fn two_archives_at_the_same_time_move_each_entry_once() {
    let (till, _, program) = old_till().await;
    let folder = Folder::new("twice");
    let (before, day) = (books(&till).await, day(&till).await);
    // Both have written their files before the first may store its archive.
    let mut head = till.sql.acquire().await.unwrap();
    let lock = "BEGIN; SELECT 1 FROM operator_log_head FOR UPDATE";
    sqlx::raw_sql(lock).execute(&mut *head).await.unwrap();
    let words = ["archive", "--before", &day, "--to", folder.path()];
    let both = [(), ()].map(|()| program.command(&words).stderr(Stdio::piped()).spawn().unwrap());
    wait_for_lock(&till, "INSERT INTO archives").await;
    sqlx::raw_sql("ROLLBACK").execute(&mut *head).await.unwrap();
    let both = both.map(|one| one.wait_with_output().unwrap());
    assert_eq!(both.iter().filter(|one| one.status.success()).count(), 1);
    let refused = both.iter().find(|one| !one.status.success()).unwrap();
    assert_eq!(
        String::from_utf8_lossy(&refused.stderr),
        "minitill: another command has moved entries of the app a1; nothing was moved, run this one again\n"
    );
    till.assert_audit_clean().await;
    for _ in 0..2 {
        let list = program.json(&["archive", "list"])["archives"].clone();
        assert_eq!(list.as_array().unwrap().len(), 1);
        program.json(&["archive", "restore", list[0]["file"].as_str().unwrap()]);
        assert_eq!(books(&till).await, before);
        program.json(&words);
    }
    till.assert_audit_clean().await;
}

/// A wallet deducts and gives back while its entries leave and come back.
#[tokio::test(flavor = "multi_thread")]
async fn a_wallet_is_used_while_it_is_archived() {
    let (till, app, program) = old_till().await;
    add_large_wallet(&till).await;
    let folder = Folder::new("used");
    let day = day(&till).await;
    let ends = AtomicBool::new(false);
    let play = async {
        let mut count = 0;
        while !ends.load(Ordering::Relaxed) {
            count += 1;
            let (pay, cancel) = (format!("n{count}"), format!("g{count}"));
            for (game, code) in [
                (Game::new(&app, "o3", &pay, 1), 1),
                (Game::cancel(&app, "o3", &cancel, &pay, 1), 1),
                (Game::present(&app, "o3", "many4000", 1), 10_000_603),
                (Game::new(&app, "o1", "b1", 60).with("pay_priority", 1), 10_000_603),
            ] {
                let answer = game.send(&till).await;
                assert_eq!(answer.code(), code, "{}", answer.body);
            }
        }
        count
    };
    let moves = tokio::task::spawn_blocking(move || {
        for _ in 0..2 {
            let written = program.json(&["archive", "--before", &day, "--to", folder.path()]);
            program.json(&["audit"]);
            program.json(&["archive", "restore", written["archives"][0]["file"].as_str().unwrap()]);
        }
        drop(folder);
    });
    let ended = async {
        moves.await.unwrap();
        ends.store(true, Ordering::Relaxed);
    };
    let (count, ()) = tokio::join!(play, ended);
    assert!(count > 10, "{count}");
    assert_eq!(till.purses(&app, "o3").await, (5_000, 0, 5_000 + 2 * count));
    till.assert_audit_clean().await;
}

/// A checkpoint serves on after an archive of what it covers. One that is older than an archived entry does not.
#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_goes_on_over_an_archive_of_what_it_covers() {
    let (till, app, program) = old_till().await;
    let folder = Folder::new("checkpoint");
    fs::create_dir_all(&folder.0).unwrap();
    let checkpoint = folder.file("new.checkpoint");
    program.json(&["audit", "--checkpoint", &checkpoint]);
    program.json(&["archive", "--before", &day(&till).await, "--to", folder.path()]);
    let since = |path: &str| program.json(&["audit", "--since", path]);
    assert_eq!(
        (since(&checkpoint)["clean"].clone(), since(&checkpoint)["entries"].clone()),
        (json!(true), json!(0))
    );
    assert_eq!(Game::new(&app, "o1", "b2", 1).send(&till).await.code(), 1);
    assert_eq!(
        (since(&checkpoint)["clean"].clone(), since(&checkpoint)["entries"].clone()),
        (json!(true), json!(1))
    );
    till.execute("UPDATE archived_wallets SET chain_hash = sha256('') WHERE seq = 4").await;
    let report = json!(till.audit(Some(Path::new(&checkpoint))).await);
    assert_eq!(report["kinds"], json!({"changed since the checkpoint": 1}));
    till.execute("UPDATE archived_wallets a SET chain_hash = (SELECT chain_hash FROM archived_wallets WHERE seq = 1) WHERE seq = 4")
        .await;
    // As if one more entry had been archived.
    till.execute("UPDATE archived_wallets SET seq = 5 WHERE seq = 4").await;
    assert_eq!(
        program.complaint(&["audit", "--since", &checkpoint]),
        "minitill: entries after this checkpoint are in an archive: run an audit without --since\n"
    );
}

/// A command that ended half-way is completed by the next one. Until then the audit is clean, and no number takes effect
/// twice.
#[tokio::test(flavor = "multi_thread")]
async fn an_archive_that_was_not_finished_is_completed() {
    let (till, app, program) = old_till().await;
    let folder = Folder::new("killed");
    add_large_wallet(&till).await;
    let before = books(&till).await;
    let day = day(&till).await;
    let archive = || program.run(&["archive", "--before", &day, "--to", folder.path(), "--json"]);
    till.execute(
        "CREATE FUNCTION stop() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'stop'; END $$;
         CREATE TRIGGER stop BEFORE INSERT ON archived_wallets FOR EACH ROW WHEN (NEW.seq < 5000) EXECUTE FUNCTION stop()",
    )
    .await;
    assert_eq!(archive().status.code(), Some(1));
    let moved =
        "SELECT (SELECT count(*) FROM archived_entries) * 10000 + (SELECT count(*) FROM ledger_entries)";
    assert_eq!(till.number(moved).await, 5_000 * 10_000 + 7);
    till.assert_audit_clean().await;
    assert_eq!(Game::present(&app, "o3", "many1", 1).send(&till).await.code(), 10_000_603);
    assert_eq!(Game::new(&app, "o1", "b1", 60).send(&till).await.code(), 10_000_603);
    let list = program.json(&["archive", "list"])["archives"][0].clone();
    assert_eq!((&list["archive_no"], &list["state"]), (&json!(1), &json!("moving")));
    let file = list["file"].as_str().unwrap();
    // Without its file it cannot go on, and says so.
    till.execute("DROP TRIGGER stop ON archived_wallets").await;
    fs::rename(file, folder.file("away")).unwrap();
    let complaint = program.complaint(&["archive", "--before", &day, "--to", folder.path()]);
    let needed = "No such file or directory (os error 2); put the file back, or run minitill archive restore with its new path";
    assert_eq!(complaint, format!("minitill: {file}: {needed}\n"));
    fs::rename(folder.file("away"), file).unwrap();
    let finished: Value = serde_json::from_slice(&archive().stdout).unwrap();
    assert_eq!(finished["archives"][0]["state"], "kept", "{finished}");
    assert_eq!(till.number("SELECT count(*) FROM ledger_entries").await, 0);
    till.assert_audit_clean().await;
    // The same for a restore.
    till.execute(
        "CREATE TRIGGER stop BEFORE INSERT ON ledger_entries FOR EACH ROW WHEN (NEW.reference = 'b1') EXECUTE FUNCTION stop()",
    )
    .await;
    assert_eq!(program.run(&["archive", "restore", file]).status.code(), Some(1));
    assert_eq!(till.number(moved).await, 7 * 10_000 + 5_000);
    till.assert_audit_clean().await;
    let complaint = program.complaint(&["archive", "--before", &day, "--to", folder.path()]);
    let restored =
        "minitill: archive 1 of the app a1 is being restored; to complete that, run minitill archive restore";
    assert_eq!(complaint, format!("{restored} {file}\n"));
    let complaint = program.complaint(&["archive", "verify", file]);
    assert_eq!(complaint, format!("minitill: {file}: its archive is restoring\n"));
    till.execute("DROP TRIGGER stop ON ledger_entries").await;
    program.json(&["archive", "restore", file]);
    assert_eq!(books(&till).await, before);
    till.assert_audit_clean().await;
}

/// Every refusal by its exact answer. Each leaves the ledger as it was.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_archived_or_restored_is_refused() {
    let (till, _, program) = old_till().await;
    let folder = Folder::new("refused");
    let before = books(&till).await;
    let day = day(&till).await;
    let today: String = sqlx::query_scalar("SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD')")
        .fetch_one(&till.sql)
        .await
        .unwrap();
    let archive = |day: &str| program.complaint(&["archive", "--before", day, "--to", folder.path()]);
    assert_eq!(
        archive(&today),
        "minitill: only entries that are 72 hours old can be archived: order numbers are replayed for 48 hours\n"
    );
    assert!(!folder.0.exists(), "a refusal leaves no folder");
    assert_eq!(
        program.complaint(&["archive", "--before", &day, "--app", "nobody"]),
        "minitill: there is no app nobody\n"
    );
    for words in [&["archive", "--to", "x"][..], &["archive", "--app", "a1", "--compact"]] {
        let usage = String::from_utf8(program.run(words).stderr).unwrap();
        assert!(usage.contains("--before <T>"), "{usage}");
    }
    let soon = program.run(&["archive", "--before", "soon"]);
    assert_eq!(soon.status.code(), Some(2));
    let usage = String::from_utf8(soon.stderr).unwrap();
    assert!(usage.contains("invalid value 'soon' for '--before <T>'"), "{usage}");
    till.execute("UPDATE ledger_entries SET free_balance = free_balance + 1 WHERE reference = 'p1'").await;
    assert_eq!(
        archive(&day),
        "minitill: nothing was moved, because the ledger of o1 has a difference: entry 4: free balance 16 is not 10 +5; \
         run minitill audit\n"
    );
    till.execute("UPDATE ledger_entries SET free_balance = free_balance - 1 WHERE reference = 'p1'").await;
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0, "nothing is left behind");
    let mode = fs::metadata(&folder.0).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "the files tell of players");
    assert_eq!(books(&till).await, before);

    let file =
        program.json(&["archive", "--before", &day, "--to", folder.path()])["archives"][0]["file"].clone();
    let file = file.as_str().unwrap();
    let damaged = folder.file("damaged.tsv.gz");
    let mut bytes = fs::read(file).unwrap();
    bytes[40] ^= 1;
    fs::write(&damaged, bytes).unwrap();
    for command in ["verify", "restore"] {
        assert_eq!(
            program.complaint(&["archive", command, &damaged]),
            format!("minitill: {damaged}: no archive of this database has this checksum\n")
        );
    }
    program.json(&["archive", "restore", file]);
    assert_eq!(books(&till).await, before);
    let nothing = program.run(&["archive", "--before", "2001-01", "--to", folder.path()]);
    assert_eq!(String::from_utf8(nothing.stdout).unwrap(), "No entry is that old.\n");
}

/// Archives what is older than a day: the file, and its text.
fn archived(program: &Program, day: &str, folder: &Folder) -> (String, String) {
    let archives = program.json(&["archive", "--before", day, "--to", folder.path()])["archives"].clone();
    let file = archives[0]["file"].as_str().unwrap().to_owned();
    let mut text = String::new();
    GzDecoder::new(fs::File::open(&file).unwrap()).read_to_string(&mut text).unwrap();
    (file, text)
}

/// The file has a line for each row with all its columns, and the texts for a reader.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_holds_every_column_and_only_its_owner_may_read_it() {
    let (till, _, program) = old_till().await;
    let folder = Folder::new("file");
    let day = day(&till).await;
    let (file, text) = archived(&program, &day, &folder);
    let columns: i64 = till
        .number("SELECT count(*) FROM information_schema.columns WHERE table_name = 'ledger_entries' AND table_schema = 'public'")
        .await;
    let names: Vec<&str> = text.lines().next().unwrap().split('\t').collect();
    assert_eq!(names.len(), usize::try_from(columns).unwrap() + 4, "all columns and four for readers");
    let line = text.lines().find(|line| line.contains("\tb1\t")).unwrap();
    let cells: Vec<&str> = line.split('\t').collect();
    let of = |name: &str| cells[names.iter().position(|known| *known == name).unwrap()];
    assert_eq!(
        (of("kind"), of("user_ip"), of("open_id"), of("product_name")),
        ("exchange", "203.0.113.9", "o1", "Sword & shield = 100%")
    );
    assert_eq!(DeveloperTexts::NAMES.map(of), DeveloperTexts::NAMES.map(|_| "tab\\there \\\\N"));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

/// A file from before a column of the ledger is verified and restored; the column has its default.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_without_a_later_column_is_restored() {
    let (till, _, program) = old_till().await;
    let folder = Folder::new("earlier");
    let day = day(&till).await;
    let (file, text) = archived(&program, &day, &folder);
    let names: Vec<&str> = text.lines().next().unwrap().split('\t').collect();
    let mut earlier = GzEncoder::new(Vec::new(), Compression::default());
    for line in text.lines() {
        let cells =
            names.iter().zip(line.split('\t')).filter(|(name, _)| !DeveloperTexts::NAMES.contains(name));
        writeln!(earlier, "{}", cells.map(|(_, cell)| cell).collect::<Vec<_>>().join("\t")).unwrap();
    }
    let earlier = earlier.finish().unwrap();
    till.execute(&format!("UPDATE archives SET sha256 = '\\x{}'", hex::encode(Sha256::digest(&earlier))))
        .await;
    fs::write(&file, earlier).unwrap();
    let verified = program.json(&["archive", "verify", &file]);
    assert_eq!(verified["verified"][0]["archive_no"], 1, "{verified}");
    program.json(&["archive", "restore", &file]);
    for name in DeveloperTexts::NAMES {
        let without = format!("reference = 'b1' AND {name} IS NULL AND user_ip IS NOT NULL");
        assert_eq!(till.number(&format!("SELECT count(*) FROM ledger_entries WHERE {without}")).await, 1);
    }
    till.assert_audit_clean().await;
}

/// What operators see of an archived exchange and of a ledger that begins later.
#[tokio::test(flavor = "multi_thread")]
async fn operators_see_where_an_archived_exchange_is() {
    let (till, app, program) = old_till().await;
    let folder = Folder::new("seen");
    let day = day(&till).await;
    let file =
        program.json(&["archive", "--before", &day, "--to", folder.path()])["archives"][0]["file"].clone();
    let file = file.as_str().unwrap();
    let shown = program.json(&["exchange", "show", "a1", "b1"]);
    assert_eq!(
        (
            &shown["archive"],
            &shown["amount"],
            &shown["remaining"],
            &shown["cancels"][0]["biz_no"],
            shown.get("ts")
        ),
        (&json!(file), &json!(60), &json!(30), &json!("c1"), None)
    );
    assert_eq!(Game::new(&app, "o1", "b2", 1).send(&till).await.code(), 1);
    let statement = program.run(&["wallet", "statement", "a1", "o1", "--format", "jsonl"]);
    assert_eq!(
        String::from_utf8(statement.stderr).unwrap(),
        format!(
            "minitill: the ledger up to entry 4 is archived, so it is not in this statement; the newest file is {file}\n"
        )
    );
    let lines = String::from_utf8(statement.stdout).unwrap();
    let entry: Value = serde_json::from_str(lines.trim_end()).unwrap();
    assert_eq!((&entry["seq"], &entry["biz_no"]), (&json!(5), &json!("b2")), "{lines}");
}
