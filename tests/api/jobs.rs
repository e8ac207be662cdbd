//! Jobs: all that a server does by itself.

use std::collections::BTreeMap;

use domain::code::Code;
use domain::ids::{AppId, BizNo, OpenId};
use domain::ledger::ReferenceKind;
use minitill::jobs::Jobs;
use store::{RefusedChange, RefusedContent};
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
