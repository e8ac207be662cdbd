//! Jobs: all that a server does by itself.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::code::Code;
use domain::ids::{AppId, BizNo, OpenId};
use domain::ledger::ReferenceKind;
use minitill::jobs::Jobs;
use store::{REMOVED_AT_ONCE, RefusedChange, RefusedContent};
use tokio::sync::watch;

use crate::support::{Request, TestTill, until};

/// A metric of each job.
async fn of_each(till: &TestTill, metric: &str) -> BTreeMap<String, u64> {
    let text = Request::get("/metrics").send(till.operator_address).await.body;
    let prefix = format!("{metric}{{name=\"");
    let series = text.lines().filter_map(|line| line.strip_prefix(&prefix)?.split_once("\"} "));
    series.map(|(name, value)| (name.to_owned(), value.parse().unwrap())).collect()
}

/// Each row of the table does its work on a real database. One that fails leaves the others alone.
#[tokio::test(flavor = "multi_thread")]
async fn every_job_runs_and_one_that_fails_is_counted_alone() {
    let till = TestTill::start().await;
    till.execute("ALTER TABLE access_tokens RENAME TO gone").await;
    let (stop, stopped) = watch::channel(false);
    let jobs = Jobs::start(&till.till, stopped);
    let failures = async || of_each(&till, "minitill_job_failures_total").await;
    let successes = async || of_each(&till, "minitill_job_last_success_timestamp_seconds").await;
    let never_ran = async || -> Vec<String> {
        let successes = successes().await.into_iter();
        successes.filter(|(_, at)| *at == 0).map(|(name, _)| name).collect()
    };
    until("all jobs but one have run", async || never_ran().await == ["remove_tokens"]).await;
    until("that one has failed", async || failures().await["remove_tokens"] == 1).await;
    let mut failures = failures().await;
    failures.remove("remove_tokens");
    assert!(failures.len() > 10 && failures.values().all(|count| *count == 0), "{failures:?}");
    stop.send(true).unwrap();
    jobs.stop(&till.till).await;
}

/// Contract 13.1 and 16.1.2: what was counted since the last run is written at the stop, and the instance says that it
/// stops.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_counts_are_written_at_the_stop() {
    let till = TestTill::start().await;
    let (stop, stopped) = watch::channel(false);
    let jobs = Jobs::start(&till.till, stopped);
    until("a sample was taken", async || !till.till.metrics.last_hour().is_empty()).await;
    stop.send(true).unwrap();
    till.store.note_refusal(RefusedChange {
        app_id: AppId::parse("a1").unwrap(),
        open_id: OpenId::parse("o1").unwrap(),
        biz_no: BizNo::parse("B1").unwrap(),
        kind: ReferenceKind::Exchange,
        code: Code::InsufficientBalance,
        request_id: "r".to_owned(),
        asked: RefusedContent::default(),
    });
    jobs.stop(&till.till).await;
    assert_eq!(till.number("SELECT count(*) FROM exchange_refusals").await, 1);
    let stopped = "SELECT count(*) FROM health_minutes WHERE (seen ->> 'stopped')::boolean";
    assert_eq!(till.number(stopped).await, 1);
}

/// Rule 9.5.12: old rows go in pieces of 5,000, because a statement for all of a backlog would take too long.
#[tokio::test(flavor = "multi_thread")]
async fn old_rows_go_in_pieces() {
    let till = TestTill::start().await;
    till.execute(
        "INSERT INTO api_requests (api_key, idempotency_key, content_sha256, attempt, answer, created_at)
             SELECT 'k', no::text, ''::bytea, ''::bytea, ''::bytea, now() - interval '2 days' FROM generate_series(0, 5000) no;
         INSERT INTO login_codes (app_id, code_hash, open_id, expires_at)
             SELECT 'a1', sha256(no::text::bytea), 'o1', now() - interval '1 day' FROM generate_series(0, 5000) no;
         INSERT INTO access_tokens (app_id, token_hash, expires_at)
             SELECT 'a1', sha256(no::text::bytea), now() - interval '8 days' FROM generate_series(0, 5000) no;
         INSERT INTO exchange_replays (app_id, biz_no, replays, first_at, last_at)
             SELECT 'a1', no::text, 1, now() - interval '31 days', now() - interval '31 days'
             FROM generate_series(0, 5000) no;
         INSERT INTO deliveries (app_id, receiver_id, event_no, event_id, event_at, type, state, tries, last_at)
             SELECT 'a1', 'r', no, no::text, now(), 't', 'taken', 1, now() - interval '31 days'
             FROM generate_series(0, 5000) no;
         INSERT INTO sandbox_shipments (app_id, biz_no, first_at)
             SELECT 'a1', no::text, now() - interval '8 days' FROM generate_series(0, 5000) no",
    )
    .await;
    let store = &till.store;
    let keep = Duration::from_hours(30 * 24);
    for removed in [u64::from(REMOVED_AT_ONCE), 1, 0] {
        assert_eq!(store.forget_old_requests().await, Ok(removed));
        assert_eq!(store.forget_expired_login_codes().await, Ok(removed));
        assert_eq!(store.forget_expired_tokens().await, Ok(removed));
        assert_eq!(store.forget_old_replays().await, Ok(removed));
        assert_eq!(store.remove_old_deliveries(keep).await, Ok(removed));
        assert_eq!(store.forget_test_worlds().await, Ok(removed));
    }
}

/// Rule 9.5.12: a gift goes with all its lines, and no other begins to go once they are a full piece.
#[tokio::test(flavor = "multi_thread")]
async fn old_gifts_go_whole_and_a_few_at_a_time() {
    let till = TestTill::start().await;
    till.execute(
        "INSERT INTO gifts (app_id, gift, line_count, free, charge, replayed, create_wallets, reason, made_at)
             SELECT 'a1', 'gift-' || no, 3000, 1, 0, 0, false, 'r', now() - interval '2 days'
             FROM generate_series(1, 3) no;
         INSERT INTO gift_lines (app_id, gift, line, open_id, free, charge, ref, makes_known)
             SELECT 'a1', 'gift-' || no, line, 'o1', 1, 0, 'p-' || line, false
             FROM generate_series(1, 3) no, generate_series(1, 3000) line",
    )
    .await;
    for (removed, lines) in [(2, 3000), (1, 0), (0, 0)] {
        assert_eq!(till.store.forget_old_gifts().await, Ok(removed));
        assert_eq!(till.number("SELECT count(*) FROM gift_lines").await, lines);
    }
}

/// Rule 9.5.12: a job that has removed a full piece goes on soon, and not at its next time.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_goes_on_after_a_full_piece() {
    let till = TestTill::start().await;
    till.execute(
        "INSERT INTO login_codes (app_id, code_hash, open_id, expires_at)
             SELECT 'a1', sha256(no::text::bytea), 'o1', now() - interval '1 day' FROM generate_series(0, 5000) no",
    )
    .await;
    let (stop, stopped) = watch::channel(false);
    let jobs = Jobs::start(&till.till, stopped);
    until("the second piece is gone", async || till.number("SELECT count(*) FROM login_codes").await == 0)
        .await;
    stop.send(true).unwrap();
    jobs.stop(&till.till).await;
}
