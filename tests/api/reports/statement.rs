//! `minitill report statement` (contract 13.3).

use std::time::Duration;

use domain::console_user::Role;
use domain::ids::OpenId;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection};
use store::LedgerFilter;

use super::{Folder, date, play, replace_function, three_months, till};
use crate::admin::Caller;
use crate::game::Game;
use crate::support::program::Program;
use crate::support::{TestTill, fresh_database};

const MARCH: [&str; 7] = ["report", "statement", "a1", "--month", "2026-03", "--time-zone", "Europe/Berlin"];

const DOCUMENT: &str = "\
Statement of all wallets

app                                   a1
period                           2026-03
time zone                  Europe/Berlin
since               2026-02-28T23:00:00Z
until               2026-03-31T22:00:00Z
wallets                                4

                                  gifted             charged
opening balance                     1000                2000
+ credits: command                     1               10000
+ credits: import                    320                 100
+ credits: api                     54000                   7
+ credits: console                600000                   3
+ presents                       7000000                   0
- exchanges                            0                4500
+ cancels                              0                 530
- debits                               2                   9
closing balance                  7655319                8131

ties to the ledger: yes
";

fn month(program: &Program, month: &str) -> Value {
    program.json(&["report", "statement", "a1", "--month", month, "--time-zone", "Europe/Berlin"])
}

/// Rule 13.3.1 and 13.3.2: each kind and source has its figure, in a month with a changed clock.
#[tokio::test(flavor = "multi_thread")]
async fn a_statement_has_a_figure_for_each_kind_and_source() {
    let (till, _, program) = three_months("statement").await;
    let march = month(&program, "2026-03");
    let (document, sha256) = (march["document"].as_str().unwrap(), march["sha256"].as_str().unwrap());
    assert_eq!(document, format!("{DOCUMENT}sha256: {sha256}"));
    // As `head -n -1 FILE | sha256sum` tells.
    let of_text: String = sqlx::query_scalar("SELECT encode(sha256(convert_to($1, 'UTF8')), 'hex')")
        .bind(DOCUMENT)
        .fetch_one(&till.sql)
        .await
        .unwrap();
    assert_eq!(sha256, of_text);
    let expected = json!({
        "app_id": "a1", "period": "2026-03", "time_zone": "Europe/Berlin",
        "since": "2026-02-28T23:00:00Z", "until": "2026-03-31T22:00:00Z",
        "free": {
            "opening": 1000, "credits": {"command": 1, "import": 320, "api": 54000, "console": 600_000},
            "topups": 0, "presents": 7_000_000, "exchanges": 0, "cancels": 0, "debits": 2, "refunds": 0, "settlements": 0, "closing": 7_655_319,
        },
        "charge": {
            "opening": 2000, "credits": {"command": 10000, "import": 100, "api": 7, "console": 3},
            "topups": 0, "presents": 0, "exchanges": 4500, "cancels": 530, "debits": 9, "refunds": 0, "settlements": 0, "closing": 8131,
        },
        "wallets": 4, "ties": true, "document": document, "sha256": sha256,
    });
    assert_eq!(march, expected);
    let printed = program.run(&MARCH);
    assert_eq!(String::from_utf8(printed.stdout).unwrap(), format!("{document}\n"));
    let caller = Caller::new(&till, "books", Role::Finance).await;
    let path = "/reports/statement?app_id=a1&month=2026-03&time_zone=europe/berlin";
    assert_eq!(caller.get(path).await.json(), expected);
}

/// Rule 13.3.3: the opening is the closing before, through days and months.
#[tokio::test(flavor = "multi_thread")]
async fn an_opening_is_the_closing_before() {
    let (_till, _, program) = three_months("opening").await;
    let [february, march, april] = ["2026-02", "2026-03", "2026-04"].map(|name| month(&program, name));
    for purse in ["free", "charge"] {
        assert_eq!(february[purse]["opening"], 0);
        assert_eq!(march[purse]["opening"], february[purse]["closing"]);
        assert_eq!(april[purse]["opening"], march[purse]["closing"]);
        assert_eq!(april[purse]["credits"]["command"], 5);
    }
    let day =
        |day| program.json(&["report", "statement", "a1", "--day", day, "--time-zone", "Europe/Berlin"]);
    let (first, last) = (day("2026-03-01"), day("2026-03-31"));
    assert_eq!(first["charge"]["opening"], march["charge"]["opening"]);
    assert_eq!(first["charge"]["closing"], 12000);
    assert_eq!(last["charge"]["debits"], 9);
    assert_eq!(last["charge"]["closing"], march["charge"]["closing"]);
    // In UTC the last moments of March are others.
    let utc = program.json(&["report", "statement", "a1", "--month", "2026-03"]);
    assert_eq!((&utc["charge"]["closing"], &utc["time_zone"]), (&json!(8136), &json!("UTC")));
}

/// Rule 13.3.4: later entries, and the archive, change no byte.
#[tokio::test(flavor = "multi_thread")]
async fn a_statement_is_the_same_bytes_whenever_it_is_made() {
    let (till, _, program) = three_months("same").await;
    let before = program.run(&MARCH);
    assert!(before.status.success());
    program.json(&["wallet", "credit", "a1", "o1", "--free", "9", "--ref", "later"]);
    program.json(&["user", "add", "a1", "o9"]);
    assert_eq!(program.run(&MARCH).stdout, before.stdout);
    till.execute(crate::audit::REHASH).await;
    till.execute("DELETE FROM wallet_outbox").await;
    till.execute(
        "SELECT rehash(wallet_no, max(seq)) FROM ledger_entries WHERE seq IS NOT NULL GROUP BY wallet_no",
    )
    .await;
    let folder = Folder::new("statement-archive");
    let archived = program.json(&["archive", "--before", "2026-03-31T21:00", "--to", folder.path()]);
    assert_eq!(archived["archives"][0]["entries"], 11);
    assert_eq!(program.run(&MARCH).stdout, before.stdout);
    program.json(&["archive", "restore", archived["archives"][0]["file"].as_str().unwrap()]);
    assert_eq!(program.run(&MARCH).stdout, before.stdout);
}

/// Rule 13.3.5: a statement that does not tie says so, and the exit code is 1.
#[tokio::test(flavor = "multi_thread")]
async fn a_statement_says_that_it_does_not_tie() {
    let (till, _, program) = three_months("ties").await;
    let ties = || {
        let output = program.run(&[&MARCH[..], &["--json"]].concat());
        let statement: Value = serde_json::from_slice(&output.stdout).unwrap();
        let told = statement["document"].as_str().unwrap().contains("\nties to the ledger: yes\n");
        assert_eq!(statement["ties"], told);
        assert_eq!(output.status.code(), Some(i32::from(!told)));
        told
    };
    assert!(ties());
    for (damage, repair) in [
        // Two faults that hide each other in the sum.
        (
            "UPDATE wallets SET free_balance = free_balance + CASE open_id WHEN 'o2' THEN 1 ELSE -1 END WHERE open_id IN ('o2', 'o3')",
            "UPDATE wallets SET free_balance = free_balance - CASE open_id WHEN 'o2' THEN 1 ELSE -1 END WHERE open_id IN ('o2', 'o3')",
        ),
        (
            "UPDATE wallets SET entry_count = entry_count + 1 WHERE open_id = 'o2'",
            "UPDATE wallets SET entry_count = entry_count - 1 WHERE open_id = 'o2'",
        ),
        (
            "UPDATE operator_log SET action = 'wallet.debit' WHERE after ->> 'ref' = 'r1'",
            "UPDATE operator_log SET action = 'wallet.credit' WHERE after ->> 'ref' = 'r1'",
        ),
    ] {
        till.execute(damage).await;
        assert!(!ties(), "{damage}");
        till.execute(repair).await;
        assert!(ties(), "{repair}");
    }
    till.execute("DELETE FROM wallets WHERE open_id = 'o2'").await;
    assert!(!ties());
}

/// Rules 8.3.12 and 13.3.5: a ref may begin with the mark that stands before refs. Answers, ledger, log and statement
/// have it as it was sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_ref_that_begins_with_the_mark_of_refs_stays_what_it_is() {
    let (till, app, program) = three_months("marked").await;
    let caller = Caller::new(&till, "marked", Role::Admin).await;
    let refs = ["!p2", "!!p2"];
    let credits = refs.map(|reference| json!({"open_id": "o1", "free": 1, "ref": reference}));
    let answer = caller.send("POST", "/apps/a1/credits:batch", None, &json!({"credits": credits})).await;
    let lines = answer.json()["lines"].clone();
    assert_eq!([&lines[0]["ref"], &lines[1]["ref"]], refs, "{}", answer.body);
    let one = program.json(&["wallet", "credit", "a1", "o1", "--free", "1", "--ref", "!r1"]);
    assert_eq!(one["ref"], "!r1");
    let back = program.json(&["wallet", "cancel", "a1", "b1", "--amount", "1", "--ref", "!give"]);
    assert_eq!(back["ref"], "!give");
    let shown = Game::query(&app, "o1", "b1").send(&till).await.json()["data"].clone();
    let cancels: Vec<_> = shown["cancels"].as_array().unwrap().iter().map(|one| &one["bizNo"]).collect();
    assert_eq!(cancels, ["b1c", "give", "!give"]);
    let o1 = OpenId::parse("o1").unwrap();
    let entries = till.store.ledger(&app.id, &o1, &LedgerFilter::default(), None, 4).await.unwrap().items;
    assert!(entries.iter().all(|entry| entry.operator.is_some()), "{entries:?}");
    for reference in ["!!p2", "!!!p2", "!!r1", "!!give"] {
        date(&till, reference, "2026-03-29T12:00:00.5Z").await;
    }
    let statement = program.json(&MARCH);
    assert_eq!(statement["ties"], true, "{statement}");
}

/// Rule 13.3.6: a period that has not ended is refused, and its field is named.
#[tokio::test(flavor = "multi_thread")]
async fn a_period_that_has_not_ended_is_refused() {
    let (till, _, program) = till().await;
    let caller = Caller::admin(&till).await;
    let row: (String, String) = sqlx::query_as(
        "SELECT to_char(now() AT TIME ZONE 'Asia/Shanghai', 'YYYY-MM'),
             to_char((date_trunc('month', now() AT TIME ZONE 'Asia/Shanghai') + interval '1 month')
                 AT TIME ZONE 'Asia/Shanghai' AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')",
    )
    .fetch_one(&till.sql)
    .await
    .unwrap();
    let (month, end) = row;
    let words = format!("{month} has not ended in Asia/Shanghai: it ends at {end}");
    let asked = ["report", "statement", "a1", "--month", &month, "--time-zone", "Asia/Shanghai"];
    assert_eq!(program.complaint(&asked), format!("minitill: --month: {words}\n"));
    let answer =
        caller.get(&format!("/reports/statement?app_id=a1&month={month}&time_zone=Asia/Shanghai")).await;
    assert_eq!(
        (answer.status, &answer.json()["errors"]),
        (422, &json!([{"field": "month", "detail": words}]))
    );
    let complaint = program.complaint(&["report", "statement", "a1", "--day", "2999-12-31"]);
    assert_eq!(
        complaint,
        "minitill: --day: 2999-12-31 has not ended in UTC: it ends at 3000-01-01T00:00:00Z\n"
    );
    let complaint = program.complaint(&[
        "report",
        "statement",
        "a1",
        "--day",
        "2011-12-30",
        "--time-zone",
        "Pacific/Apia",
    ]);
    assert_eq!(complaint, "minitill: --day: there is no 2011-12-30 in Pacific/Apia: its clocks skipped it\n");
    for (query, field, detail) in [
        ("app_id=a1", "month", "expected a month or a day, got none"),
        ("app_id=a1&month=2026-03&day=2026-03-01", "month", "expected a month or a day, got both"),
        ("app_id=a1&day=2026-02-29", "day", "expected a day such as 2026-10-31, got \"2026-02-29\""),
        (
            "app_id=a1&month=2026-03&time_zone=CET%2B1",
            "time_zone",
            "expected the IANA name of a time zone, such as UTC or Asia/Shanghai, got \"CET+1\"",
        ),
    ] {
        let answer = caller.get(&format!("/reports/statement?{query}")).await;
        assert_eq!(
            (answer.status, &answer.json()["errors"]),
            (422, &json!([{"field": field, "detail": detail}])),
            "{query}"
        );
    }
}

/// Rule 8.1: wrong usage is exit code 2, and an unknown app 1.
#[tokio::test(flavor = "multi_thread")]
async fn wrong_usage_of_a_statement_is_told() {
    let program = Program::on(&fresh_database().await.url);
    for (arguments, told) in [
        (
            &["--month", "2026-3"][..],
            "invalid value '2026-3' for '--month <MONTH>': expected a month such as 2026-10",
        ),
        (
            &["--day", "2026-03-01", "--time-zone", "Mars/Phobos"],
            "invalid value 'Mars/Phobos' for '--time-zone <ZONE>': expected the IANA name of a time zone",
        ),
        (&["--day", "2026-03-01", "--month", "2026-03"], "cannot be used with"),
        (&[], "the following required arguments were not provided"),
    ] {
        let output = program.run(&[&["report", "statement", "a9"], arguments].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && error.contains(told), "{arguments:?}: {error}");
    }
    let complaint = program.complaint(&["report", "statement", "a9", "--month", "2026-03"]);
    assert_eq!(complaint, "minitill: there is no app a9; to list all apps, run `minitill app list`\n");
}

/// Rule 13.3.4: an entry that was written in time and is committed late is waited for.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_commit_is_in_the_statement() {
    let (till, app, program) = till().await;
    till.player(&app, "o1", 5, 0).await;
    super::date(&till, "!start-o1", "2026-03-05").await;
    let mut late = PgConnection::connect(&till.database_url).await.unwrap();
    let written = "BEGIN; UPDATE wallets SET free_balance = 6, entry_count = 2;
        INSERT INTO ledger_entries (app_no, wallet_no, seq, kind, reference, free_change, charge_change, free_balance,
            charge_balance, chain_hash, at)
        SELECT app_no, wallet_no, 2, 'present', 'late', 1, 0, 6, 0, sha256(''), '2026-03-31T23:59:59Z' FROM wallets";
    sqlx::raw_sql(written).execute(&mut late).await.unwrap();
    let asked = tokio::task::spawn_blocking({
        let program = program.clone();
        move || program.json(&["report", "statement", "a1", "--month", "2026-03"])
    });
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(!asked.is_finished(), "it waits");
    sqlx::raw_sql("COMMIT").execute(&mut late).await.unwrap();
    let statement = asked.await.unwrap();
    assert_eq!((&statement["free"]["presents"], &statement["ties"]), (&json!(1), &json!(true)));
    // One that does not end is not waited for without end.
    sqlx::raw_sql("BEGIN; UPDATE wallets SET free_balance = 6").execute(&mut late).await.unwrap();
    let complaint = tokio::task::spawn_blocking(move || {
        program.complaint(&["report", "statement", "a1", "--month", "2026-03"])
    });
    let words = "entries of 2026-03 may still come: a transaction that writes to the ledger does not end";
    assert_eq!(complaint.await.unwrap(), format!("minitill: --month: {words}\n"));
}

/// Rule 13.3.7: a period can be closed two minutes after its end.
#[tokio::test(flavor = "multi_thread")]
async fn a_period_is_closed_two_minutes_after_its_end() {
    let (till, _, program) = till().await;
    let at = |at: &str| {
        format!(
            "CREATE OR REPLACE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS
             $$ SELECT timestamptz '{at}' $$"
        )
    };
    let asked = ["report", "statement", "a1", "--day", "2026-03-31", "--time-zone", "Europe/Berlin"];
    let young = "2026-03-31 ended at 2026-03-31T22:00:00Z: entries may come until 2026-03-31T22:02:00Z";
    for (now, words) in [
        (
            "2026-03-31T21:59:59.999999Z",
            "2026-03-31 has not ended in Europe/Berlin: it ends at 2026-03-31T22:00:00Z",
        ),
        ("2026-03-31T22:00:00Z", young),
        ("2026-03-31T22:01:59.999999Z", young),
    ] {
        replace_function(&till.database_url, &at(now)).await;
        assert_eq!(program.complaint(&asked), format!("minitill: --day: {words}\n"));
    }
    replace_function(&till.database_url, &at("2026-03-31T22:02:00Z")).await;
    assert_eq!(program.json(&asked)["ties"], true);
}

/// Rule 13.3.7: a write whose time is a minute old is repeated with a new one.
#[tokio::test(flavor = "multi_thread")]
async fn an_entry_is_not_written_with_an_old_time() {
    let database = fresh_database().await;
    // The first statement that writes entries begins a minute after the time that was read for it.
    let clock = "CREATE SEQUENCE writes;
        CREATE FUNCTION public.statement_timestamp() RETURNS timestamptz LANGUAGE plpgsql AS $$ BEGIN
            IF current_query() LIKE '%INSERT INTO ledger_entries%' AND nextval('writes') = 1 THEN
                RETURN clock_timestamp() + interval '1 minute';
            END IF;
            RETURN pg_catalog.statement_timestamp();
        END $$";
    replace_function(&database.url, clock).await;
    let till = TestTill::start_on(database.url.clone(), |_| {}).await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 10).await;
    till.execute("SELECT setval('writes', 1, false)").await;
    play(&till, Game::new(&app, "o1", "b1", 4)).await;
    assert_eq!(till.purses(&app, "o1").await, (0, 6, 2));
    assert_eq!(till.number("SELECT last_value FROM writes").await, 2, "it was written at the second try");
    till.assert_audit_clean().await;
}

/// Rule 13.3.8: of an app one statement is made at the same time. Another one waits, and is refused when it waits too long.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_statement_of_an_app_is_refused() {
    let till = TestTill::start_with(|config| config.database.acquire_timeout = Duration::from_secs(3)).await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 5, 0).await;
    let other = till.app("a2").await;
    till.player(&other, "o2", 5, 0).await;
    let caller = Caller::admin(&till).await;
    let mut session = PgConnection::connect(&till.database_url).await.unwrap();
    sqlx::raw_sql("BEGIN; UPDATE wallets SET free_balance = 5 WHERE open_id = 'o1'")
        .execute(&mut session)
        .await
        .unwrap();
    let path = "/reports/statement?app_id=a1&month=2026-03";
    // One waits for the transaction. The other one is answered before it ends.
    let mut asking: FuturesUnordered<_> = (0..2).map(|_| caller.get(path)).collect();
    let refused = asking.next().await.unwrap();
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    sqlx::raw_sql("COMMIT").execute(&mut session).await.unwrap();
    let made = asking.next().await.unwrap();
    assert_eq!(made.status, 200, "{}", made.body);
    assert_eq!(caller.get(path).await.status, 200);
}

/// Rule 13.8.1: a statement is of a day or a month, so its help has no other ends.
#[tokio::test(flavor = "multi_thread")]
async fn the_help_of_a_statement_names_no_span() {
    let (_till, _, program) = till().await;
    let help = |report| String::from_utf8(program.run(&["report", report, "--help"]).stdout).unwrap();
    assert!(help("bill").contains("--since") && help("bill").contains("--until"));
    let statement = help("statement");
    assert!(statement.contains("--month") && !statement.contains("--since"), "{statement}");
    assert!(!statement.contains("--until"), "{statement}");
}
