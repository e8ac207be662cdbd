//! Assumptions of the simulation of the writers about PostgreSQL (docs/design/simulation.md), each checked on the real
//! one. Sessions are as a writer's are: READ COMMITTED.

use std::time::{Duration, Instant};

use sqlx::postgres::PgQueryResult;
use sqlx::{Connection as _, PgConnection, Row as _};
use tokio::task::JoinHandle;

use crate::support::{TestTill, until};

/// Three wallets with an entry each, and sessions of the test's own.
async fn wallets() -> (TestTill, String) {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    for open_id in ["o1", "o2", "o3"] {
        till.player(&app, open_id, 0, 100).await;
    }
    let url = till.database_url.clone();
    (till, url)
}

async fn session(url: &str) -> PgConnection {
    PgConnection::connect(url).await.unwrap()
}

async fn run(session: &mut PgConnection, statements: &str) -> Result<PgQueryResult, String> {
    let done = sqlx::raw_sql(sqlx::AssertSqlSafe(statements.to_owned())).execute(session).await;
    done.map_err(|error| {
        error.as_database_error().and_then(|fault| Some(fault.code()?.into_owned())).unwrap()
    })
}

async fn number(session: &mut PgConnection, statement: &str) -> i64 {
    let row = sqlx::raw_sql(sqlx::AssertSqlSafe(statement.to_owned())).fetch_one(session).await.unwrap();
    row.get(0)
}

/// Runs statements in a session of their own; they are to wait for somebody.
async fn waiting(url: &str, statements: &str) -> JoinHandle<(PgConnection, Result<PgQueryResult, String>)> {
    let (mut waiter, statements) = (session(url).await, statements.to_owned());
    let pid = number(&mut waiter, "SELECT pg_backend_pid()::bigint").await;
    let task = tokio::spawn(async move {
        let outcome = run(&mut waiter, &statements).await;
        (waiter, outcome)
    });
    until_locked_out(url, pid).await;
    task
}

/// Waits until the session of this process waits for a lock.
async fn until_locked_out(url: &str, pid: i64) {
    let mut watcher = session(url).await;
    let waits =
        format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {pid} AND wait_event_type = 'Lock'");
    until("the session waits for a lock", async || number(&mut watcher, &waits).await == 1).await;
}

/// The row of an exchange: ledger entry and idempotency record.
fn entered(biz_no: &str, open_id: &str, seq: i64) -> String {
    format!(
        "INSERT INTO ledger_entries (app_no, wallet_no, seq, kind, reference, free_change, charge_change,
             free_balance, charge_balance, chain_hash, at)
         SELECT app_no, wallet_no, unnest(ARRAY[{seq}]), 'exchange', '{biz_no}', 0, -7, 0, 93, sha256(''), now()
         FROM players WHERE app_id = 'a1' AND open_id = '{open_id}'"
    )
}

/// A write of the shape of the writers': entries and wallets, and a guard that divides by zero.
fn written(biz_no: &str, open_id: &str, entry_count: i64) -> String {
    let seq = entry_count + 1;
    format!(
        "WITH entered AS ({}), changed AS (
             UPDATE wallets w SET charge_balance = 93, entry_count = {seq}
             WHERE open_id = '{open_id}' AND entry_count = {entry_count} RETURNING 1
         )
         SELECT 1 / (count(*) = 1)::integer FROM changed",
        entered(biz_no, open_id, seq)
    )
}

const ROWS: &str = "SELECT count(*) FROM ledger_entries";

/// Locks a wallet as a writer that locks first does.
fn locked(open_id: &str) -> String {
    format!("SELECT charge_balance FROM wallets WHERE open_id = '{open_id}' FOR UPDATE")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_that_is_being_recorded_is_waited_for_and_then_refused_or_taken() {
    let (_till, url) = wallets().await;
    for (number, seq, end, expected) in [("b1", 2, "COMMIT", Some("23505")), ("b2", 3, "ROLLBACK", None)] {
        let mut first = session(&url).await;
        run(&mut first, &format!("BEGIN; {}", entered(number, "o1", seq))).await.unwrap();
        let second = waiting(&url, &entered(number, "o2", seq)).await;
        run(&mut first, end).await.unwrap();
        let (_, outcome) = second.await.unwrap();
        assert_eq!(outcome.err().as_deref(), expected, "{end}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guarded_write_writes_everything_or_nothing() {
    let (_till, url) = wallets().await;
    let mut sql = session(&url).await;
    assert_eq!(number(&mut sql, ROWS).await, 3);
    // The wallet is not as it was read: the guard.
    assert_eq!(run(&mut sql, &written("b1", "o1", 0)).await.unwrap_err(), "22012");
    // The wallet is, the entry is there already: its key.
    run(&mut sql, "UPDATE wallets SET entry_count = 0 WHERE open_id = 'o1'").await.unwrap();
    assert_eq!(run(&mut sql, &written("b1", "o1", 0)).await.unwrap_err(), "23505");
    assert_eq!(number(&mut sql, ROWS).await, 3);
    // As it was read, both.
    run(&mut sql, &written("b1", "o2", 1)).await.unwrap();
    assert_eq!(number(&mut sql, ROWS).await, 4);
    // The number is taken: neither entry nor balance.
    assert_eq!(run(&mut sql, &written("b1", "o3", 1)).await.unwrap_err(), "23505");
    assert_eq!(number(&mut sql, ROWS).await, 4);
    assert_eq!(number(&mut sql, "SELECT sum(charge_balance)::bigint FROM wallets").await, 293);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guarded_write_that_waited_for_a_wallet_looks_at_it_again() {
    let (_till, url) = wallets().await;
    let mut first = session(&url).await;
    // An entry of another place, so that the guard alone is asked.
    let change = "BEGIN; UPDATE wallets SET charge_balance = 50, entry_count = 7 WHERE open_id = 'o1'";
    run(&mut first, change).await.unwrap();
    let second = waiting(&url, &written("b1", "o1", 1)).await;
    run(&mut first, "COMMIT").await.unwrap();
    assert_eq!(second.await.unwrap().1.unwrap_err(), "22012");
    assert_eq!(number(&mut first, ROWS).await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_was_waited_for_shows_the_wallet_of_then_and_only_a_later_statement_the_records() {
    let (_till, url) = wallets().await;
    let mut first = session(&url).await;
    run(&mut first, &format!("BEGIN; {}", written("b1", "o1", 1))).await.unwrap();
    let mut sql = session(&url).await;
    run(&mut sql, "BEGIN").await.unwrap();
    let pid = number(&mut sql, "SELECT pg_backend_pid()::bigint").await;
    let reading = tokio::spawn(async move {
        // Lock and records in one statement: the balance is of now, the records of before.
        let in_one = "SELECT charge_balance * 10 + (SELECT count(*) FROM ledger_entries) FROM wallets
                      WHERE open_id = 'o1' FOR UPDATE";
        let stale = number(&mut sql, in_one).await;
        (stale, number(&mut sql, "SELECT count(*) FROM ledger_entries").await)
    });
    until_locked_out(&url, pid).await;
    run(&mut first, "COMMIT").await.unwrap();
    assert_eq!(reading.await.unwrap(), (933, 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_behind_a_failed_statement_rolls_back_and_says_nothing() {
    let (_till, url) = wallets().await;
    let mut sql = session(&url).await;
    run(&mut sql, &format!("BEGIN; {}", written("b1", "o1", 1))).await.unwrap();
    run(&mut sql, "SELECT 1 / 0").await.unwrap_err();
    assert_eq!(run(&mut sql, "SELECT 1").await.unwrap_err(), "25P02");
    // What it held is free at once, before it ends.
    let mut other = session(&url).await;
    run(&mut other, &format!("{} NOWAIT", locked("o1"))).await.unwrap();
    run(&mut sql, "COMMIT").await.unwrap();
    assert_eq!(number(&mut sql, ROWS).await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_for_a_lock_bounds_the_wait_for_a_wallet_and_for_a_key() {
    let (_till, url) = wallets().await;
    let mut first = session(&url).await;
    run(&mut first, &format!("BEGIN; {}", written("b1", "o1", 1))).await.unwrap();
    let mut second = session(&url).await;
    run(&mut second, "SET lock_timeout = 200").await.unwrap();
    for statement in [locked("o1"), entered("b1", "o2", 2)] {
        let started = Instant::now();
        assert_eq!(run(&mut second, &statement).await.unwrap_err(), "55P03");
        assert!(started.elapsed() >= Duration::from_millis(190), "{:?}", started.elapsed());
    }
    let skipped = format!("SELECT count(*) FROM ({} SKIP LOCKED) AS locked", locked("o1"));
    assert_eq!(number(&mut second, &skipped).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_that_wait_for_each_other_one_fails_and_the_other_goes_on() {
    let (_till, url) = wallets().await;
    let mut first = session(&url).await;
    run(&mut first, &format!("SET deadlock_timeout = '50ms'; BEGIN; {}", locked("o1"))).await.unwrap();
    let second = waiting(&url, &format!("BEGIN; {}; {}", locked("o2"), locked("o1"))).await;
    let crossed = run(&mut first, &locked("o2")).await;
    run(&mut first, "ROLLBACK").await.unwrap();
    let (_, other) = second.await.unwrap();
    let failed: Vec<String> = [crossed.err(), other.err()].into_iter().flatten().collect();
    assert_eq!(failed, ["40P01"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_ends_leaves_nothing_behind() {
    let (_till, url) = wallets().await;
    let mut first = session(&url).await;
    run(&mut first, &format!("BEGIN; {}", written("b1", "o1", 1))).await.unwrap();
    let second = waiting(&url, &entered("b1", "o2", 2)).await;
    // As after a crash of the process: no word of goodbye.
    drop(first);
    let (mut second, outcome) = second.await.unwrap();
    outcome.unwrap();
    assert_eq!(number(&mut second, ROWS).await, 4);
}

/// The guard of an entry's time is evaluated once, at the start of the statement, also where there are no rows.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_of_entries_with_an_old_time_fails_as_a_whole() {
    let (_till, url) = wallets().await;
    let mut sql = session(&url).await;
    let prepare = "PREPARE enter (text[], timestamptz) AS
        INSERT INTO ledger_entries (app_no, wallet_no, kind, reference, free_change, charge_change, free_balance,
            charge_balance, at)
        SELECT 1, 1, 'closed', unnest($1), 0, 0, 0, 0, $2
        WHERE 1 / ($2 > statement_timestamp() - interval '1 minute')::integer = 1";
    run(&mut sql, prepare).await.unwrap();
    for _ in 0..7 {
        // More than five times: PostgreSQL goes over to one plan for all parameters.
        for numbers in ["ARRAY['b1', 'b2']", "ARRAY[]::text[]"] {
            let old = format!("EXECUTE enter ({numbers}, now() - interval '61 seconds')");
            assert_eq!(run(&mut sql, &old).await.unwrap_err(), "22012");
        }
    }
    assert_eq!(number(&mut sql, ROWS).await, 3);
    run(&mut sql, "EXECUTE enter (ARRAY['b1', 'b2'], now() - interval '50 seconds')").await.unwrap();
    assert_eq!(number(&mut sql, ROWS).await, 5);
}
