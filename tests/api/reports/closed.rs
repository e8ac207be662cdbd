//! Closed periods (contract 13.3.9 to 13.3.11).

use domain::console_user::Role;
use domain::operation::books::figures_changed;
use domain::period::{Period, TimeZone};
use serde_json::{Value, json};
use store::OperationError;

use super::{date, three_months, till};
use crate::admin::Caller;
use crate::support::operator;

const MARCH: [&str; 7] = ["report", "close", "a1", "--month", "2026-03", "--time-zone", "Europe/Berlin"];

/// The members that a clock gives are left out.
fn without_times(mut closed: Value) -> Value {
    for name in ["closed_at", "compared_at"] {
        assert!(closed.as_object_mut().unwrap().remove(name).unwrap().is_string());
    }
    closed
}

/// Rules 13.3.9 and 13.3.10: the first close stands on every face, and its line is in the log.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_close_stands() {
    let (till, _, program) = three_months("closed").await;
    let statement = program.json(&[&["report", "statement"], &MARCH[2..]].concat());
    let first = program.json(&MARCH);
    let expected = json!({
        "app_id": "a1", "month": "2026-03", "time_zone": "Europe/Berlin", "sha256": statement["sha256"],
        "closed_by_kind": "command_line", "closed_by": first["closed_by"], "differs": false,
    });
    assert_eq!(without_times(first.clone()), expected);
    let caller = Caller::new(&till, "books", Role::Finance).await;
    let zone = json!({"time_zone": "Europe/Berlin"});
    let second = caller.send("PUT", "/apps/a1/closed-periods/2026-03", None, &zone).await;
    assert_eq!((second.status, second.json()), (200, first.clone()));
    let third = caller.send("PUT", "/apps/a1/closed-periods/2026-03", None, &json!({})).await;
    let detail = "2026-03 was closed in the time zone Europe/Berlin";
    assert_eq!((third.status, &third.json()["detail"]), (409, &json!(detail)));
    assert_eq!(program.complaint(&MARCH[..5]), format!("minitill: {detail}\n"));
    assert_eq!(caller.get("/apps/a1/closed-periods").await.json(), json!({"items": [first], "next": null}));
    assert_eq!(program.json(&["report", "closed", "a1"]), json!({"closed_periods": [first]}));
    let lines: Vec<(String, Value)> = sqlx::query_as(
        "SELECT subject, after FROM operator_log WHERE action = 'period.close' AND app_id = 'a1'",
    )
    .fetch_all(&till.sql)
    .await
    .unwrap();
    let after = json!({"time_zone": "Europe/Berlin", "sha256": first["sha256"]});
    assert_eq!(lines, [("2026-03".to_owned(), after)]);
}

/// Rule 13.3.10: the close of a month that does not meet the month before stands, and the command and the page tell of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_close_names_a_month_of_another_time_zone() {
    let (till, _, program) = three_months("closed-zones").await;
    let close = |month, zone| {
        program.run(&["report", "close", "a1", "--month", month, "--time-zone", zone, "--json"])
    };
    let first = close("2026-03", "Asia/Shanghai");
    assert!(first.status.success() && first.stderr.is_empty());
    let second = close("2026-04", "UTC");
    let told = "2026-03 in Asia/Shanghai ends at 2026-03-31T16:00:00Z, but 2026-04 in UTC begins at \
                2026-04-01T00:00:00Z: entries between count in neither month";
    assert!(second.status.success());
    assert_eq!(String::from_utf8(second.stderr).unwrap(), format!("minitill: {told}\n"));
    let finance = till.browser(Role::Finance).await;
    let page = finance.get("/console/reports/statement?app_id=a1&month=2026-04").await;
    let shown = "Another time zone</span> 2026-03 in Asia/Shanghai ends at";
    assert!(page.body.contains(shown), "{}", page.body);
}

/// Rule 13.3.10: what does not tie, and what has not ended, is not closed.
#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_tie_is_not_closed() {
    let (till, _, program) = three_months("closed-ties").await;
    till.execute("UPDATE wallets SET free_balance = free_balance + 1 WHERE open_id = 'o2'").await;
    let words = "the statement of 2026-03 does not tie to the ledger";
    assert_eq!(program.complaint(&MARCH), format!("minitill: --month: {words}\n"));
    let caller = Caller::new(&till, "closer", Role::Finance).await;
    for (month, detail) in
        [("2026-03", words), ("2999-12", "2999-12 has not ended in UTC: it ends at 3000-01-01T00:00:00Z")]
    {
        let path = format!("/apps/a1/closed-periods/{month}");
        let answer = caller.send("PUT", &path, None, &json!({})).await;
        assert_eq!(
            (answer.status, &answer.json()["errors"]),
            (422, &json!([{"field": "month", "detail": detail}]))
        );
    }
    assert_eq!(program.json(&["report", "closed", "a1"]), json!({"closed_periods": []}));
    assert_eq!(caller.get("/apps/a9/closed-periods").await.status, 404);
}

/// Rule 13.3.11: a closed month that would differ is told by the list, the first page and the audit, until it is as it was.
#[tokio::test(flavor = "multi_thread")]
async fn a_closed_month_that_differs_is_told() {
    let (till, _, program) = three_months("closed-differs").await;
    program.json(&MARCH);
    let admin = till.browser(Role::Admin).await;
    // A day later: nothing is compared before.
    assert!(!till.store.compare_a_closed_period().await.unwrap());
    let compared = async || {
        till.execute("UPDATE closed_periods SET compared_at = compared_at - interval '25 hours'").await;
        assert!(till.store.compare_a_closed_period().await.unwrap());
        assert!(!till.store.compare_a_closed_period().await.unwrap());
        let told = admin.get("/console").await.body.contains("Closed months that differ now");
        let listed = program.json(&["report", "closed", "a1"]);
        assert_eq!(listed["closed_periods"][0]["differs"], told);
        told
    };
    let audited = || -> Vec<Value> {
        let output = program.run(&["audit", "--json"]);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let findings = report["findings"].as_array().unwrap().iter();
        findings
            .filter(|finding| finding["check"].as_str().unwrap().starts_with("closed period"))
            .cloned()
            .collect()
    };
    assert!(!compared().await);
    assert_eq!(audited(), Vec::<Value>::new());
    date(&till, "!r1", "2026-02-28T22:59:59Z").await;
    assert!(compared().await);
    let detail = "the statement that was closed has \"opening balance 1000 2000\"; now it has \"opening balance 1001 12000\"";
    let finding = json!({
        "check": "closed period against the ledger", "app_id": "a1", "subject": "2026-03", "detail": detail,
    });
    assert_eq!(audited(), [finding]);
    date(&till, "!r1", "2026-02-28T23:00:00Z").await;
    assert!(!compared().await);
    // Who rewrites the close is found by the operator's log.
    till.execute("UPDATE closed_periods SET sha256 = sha256(sha256)").await;
    let found: Vec<Value> = audited();
    assert_eq!((found.len(), &found[0]["check"]), (1, &json!("closed period against the operator log")));
}

/// Rule 13.3.11: a month that cannot be compared holds up no other, is told at the end, and was not compared.
#[tokio::test(flavor = "multi_thread")]
async fn a_closed_month_that_fails_holds_up_no_other() {
    let (till, _, program) = three_months("closed-fails").await;
    program.json(&MARCH);
    till.execute(
        "UPDATE closed_periods SET compared_at = compared_at - interval '25 hours';
         INSERT INTO closed_periods (app_id, month, time_zone, sha256, statement, closed_by_kind, closed_by, compared_at)
             SELECT app_id, '2026-02', 'no zone', sha256, statement, closed_by_kind, closed_by,
                 compared_at - interval '1 hour' FROM closed_periods",
    )
    .await;
    let due = async || -> Vec<String> {
        let due =
            "SELECT month FROM closed_periods WHERE compared_at < now() - interval '1 day' ORDER BY month";
        sqlx::query_scalar(due).fetch_all(&till.sql).await.unwrap()
    };
    for _ in 0..2 {
        // The wrong one is the older one.
        assert!(till.store.compare_a_closed_period().await.unwrap());
        assert_eq!(due().await, ["2026-02", "2026-03"]);
        assert!(till.store.compare_a_closed_period().await.unwrap());
        assert_eq!(due().await, ["2026-02"]);
        till.store.compare_a_closed_period().await.unwrap_err();
        till.execute("UPDATE closed_periods SET compared_at = compared_at - interval '25 hours' WHERE month = '2026-03'")
            .await;
    }
}

/// Rule 8.6.32: finance closes a month by a button after a preview, once, and sees who did.
#[tokio::test(flavor = "multi_thread")]
async fn the_console_closes_a_month() {
    let (till, _, program) = till().await;
    program.json(&["wallet", "credit", "a1", "o1", "--create", "--free", "7", "--ref", "r1"]);
    date(&till, "!r1", "2026-03-05").await;
    let finance = till.browser(Role::Finance).await;
    let page = finance.get("/console/reports/statement?app_id=a1&month=2026-03").await;
    let form = "action=\"/console/apps/a1/closed-periods/check\"";
    assert!(page.body.contains(form) && page.body.contains(", 1 wallet<"), "{}", page.body);
    let check = finance.post("/console/apps/a1/closed-periods/check", &[("month", "2026-03")]).await;
    assert_eq!(check.status, 200, "{}", check.body);
    let statement = program.json(&["report", "statement", "a1", "--month", "2026-03"]);
    let sha256 = statement["sha256"].as_str().unwrap();
    for words in [
        "Nothing has changed yet. A close stands for ever",
        "<dd><span class=\"id\" title=\"a1\">",
        "<dt>Month</dt><dd>2026-03</dd>",
        "<dt>Time zone</dt><dd>UTC</dd>",
        "<dt>Wallets</dt><dd>1</dd>",
        "data-label=\"Gifted\">7</td>",
        &format!("title=\"{sha256}\""),
        "action=\"/console/apps/a1/closed-periods\"",
    ] {
        assert!(check.body.contains(words), "{words}: {}", check.body);
    }
    let listed = program.json(&["report", "closed", "a1"]);
    assert_eq!(listed, json!({"closed_periods": []}), "a preview closes nothing");
    let done = finance.post("/console/apps/a1/closed-periods", &[("month", "2026-03")]).await;
    assert_eq!(
        (done.status, done.header("location")),
        (303, Some("/console/reports/statement?app_id=a1&month=2026-03&done=closed"))
    );
    let page = finance.get("/console/reports/statement?app_id=a1&month=2026-03&done=closed").await;
    assert!(page.body.contains("The books of the month are closed."), "{}", page.body);
    assert!(!page.body.contains(form));
    let again = finance.post("/console/apps/a1/closed-periods/check", &[("month", "2026-03")]).await;
    let stands = "/console/reports/statement?app_id=a1&month=2026-03";
    assert_eq!((again.status, again.header("location")), (303, Some(stands)));
    let listed = &program.json(&["report", "closed", "a1"])["closed_periods"][0];
    assert_eq!((&listed["closed_by_kind"], &listed["time_zone"]), (&json!("console"), &json!("UTC")));
    assert_eq!(listed["sha256"], sha256, "it closes what the preview has shown");
    assert!(page.body.contains(&format!("title=\"{sha256}\"")));
    // A day has no such button.
    let page = finance.get("/console/reports/statement?app_id=a1&day=2026-03-05").await;
    assert!(!page.body.contains(form));
}

/// Rule 13.3.10: a close keeps the figures that were shown, or nothing.
#[tokio::test(flavor = "multi_thread")]
async fn figures_that_changed_after_they_were_shown_are_not_closed() {
    let (till, app, _) = three_months("closed-shown").await;
    let (month, zone) = (Period::month("2026-03").unwrap(), TimeZone::parse("UTC").unwrap());
    let shown = till.store.foresee_close(&app.id, month, &zone).await.unwrap().sha256;
    date(&till, "!r1", "2026-03-05").await;
    let refused = till.store.close_period(&operator(), &app.id, month, &zone, Some(&shown)).await;
    assert_eq!(refused.unwrap_err(), OperationError::Refused(figures_changed(month)));
    let finance = till.browser(Role::Finance).await;
    let fields = [("month", "2026-03"), ("sha256", shown.as_str())];
    let preview = finance.post("/console/apps/a1/closed-periods", &fields).await;
    let now = till.store.foresee_close(&app.id, month, &zone).await.unwrap().sha256;
    assert_ne!(now, shown);
    assert_eq!(preview.status, 200, "{}", preview.body);
    let names_now = format!("name=\"sha256\" value=\"{now}\"");
    assert!(preview.body.contains(&names_now), "{}", preview.body);
    assert!(till.store.closed_periods(&app.id).await.unwrap().is_empty(), "neither has closed it");
    let lines = "SELECT count(*) FROM operator_log WHERE action = 'period.close'";
    assert_eq!(till.number(lines).await, 0);
    let closed = till.store.close_period(&operator(), &app.id, month, &zone, Some(&now)).await.unwrap();
    assert_eq!(closed.sha256, now);
    // The first close stands, whatever was shown.
    let again = till.store.close_period(&operator(), &app.id, month, &zone, Some(&shown)).await.unwrap();
    assert_eq!(again, closed);
}

/// Rules 8.6.32 and 13.3.10: of two closes at the same time the first stands. Whoever was shown other figures is led to
/// it, and not told that theirs were closed.
#[tokio::test(flavor = "multi_thread")]
async fn a_close_that_somebody_else_made_meanwhile_stands() {
    let (till, _, program) = till().await;
    program.json(&["wallet", "credit", "a1", "o1", "--create", "--free", "7", "--ref", "r1"]);
    date(&till, "!r1", "2026-03-05").await;
    let statement = program.json(&["report", "statement", "a1", "--month", "2026-03"]);
    let finance = till.browser(Role::Finance).await;
    let fields = [("month", "2026-03"), ("sha256", statement["sha256"].as_str().unwrap())];
    let mut other = till.sql.begin().await.unwrap();
    sqlx::query(
        "INSERT INTO closed_periods (app_id, month, time_zone, sha256, statement, closed_by_kind, closed_by)
         VALUES ('a1', '2026-03', 'UTC', sha256('other'), 'other', 'console', 'somebody')",
    )
    .execute(&mut *other)
    .await
    .unwrap();
    let meanwhile = async {
        till.until_locked_out(1).await;
        other.commit().await.unwrap();
    };
    let close = finance.post("/console/apps/a1/closed-periods", &fields);
    let (closed, ()) = tokio::join!(close, meanwhile);
    let stands = "/console/reports/statement?app_id=a1&month=2026-03";
    assert_eq!((closed.status, closed.header("location")), (303, Some(stands)), "{}", closed.body);
    let listed = &program.json(&["report", "closed", "a1"])["closed_periods"][0];
    assert_eq!(listed["closed_by"], "somebody");
}
