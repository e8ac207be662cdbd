//! The command line, the admin API and the console do the same to an app. They have one range of
//! limits and one name for one thing, and a field that did not come changes nothing.

use domain::console_user::Role;
use domain::ids::AppId;
use serde_json::json;
use store::OperatorLogFilter;

use crate::admin::Caller;
use crate::support::TestTill;
use crate::support::program::Program;

const RANGE: &str = "expected an integer from 0 to 1000000; 0 is no limit";

/// How many lines of this action the operator's log has.
async fn lines(till: &TestTill, action: &str) -> usize {
    let lines = till.store.operator_log(&OperatorLogFilter::default(), 1000).await.unwrap();
    lines.iter().filter(|line| line.action == action).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_has_one_range_and_one_refusal_in_all_three_faces() {
    let till = TestTill::start().await;
    till.app("a1").await;
    let (program, browser) = (Program::on(&till.database_url), till.browser(Role::Admin).await);
    let caller = Caller::admin(&till).await;
    let mut refused = Vec::new();
    for limit in ["1000001", "2147483647", "4294967295", "-1", "1.5", "many"] {
        let flag = format!("--exchanges-per-second={limit}");
        let output = program.run(&["app", "limit", "a1", &flag]);
        let complaint = String::from_utf8(output.stderr).unwrap();
        refused.push((limit, output.status.code() == Some(2) && complaint.contains(RANGE)));
        let number: serde_json::Value = serde_json::from_str(limit).unwrap_or(json!(limit));
        let body = json!({ "exchanges_per_second": number });
        let answer = caller.send("PUT", "/apps/a1/limits", None, &body).await;
        refused.push((limit, answer.status == 422 && answer.body.contains(RANGE)));
        let page = browser.post("/console/apps/a1/limits", &[("exchanges_per_second", limit)]).await;
        refused.push((limit, page.status == 400 && page.body.contains(RANGE)));
    }
    let accepted: Vec<_> = refused.iter().filter(|(_, refused)| !refused).collect();
    assert!(accepted.is_empty(), "{accepted:?}");
    assert_eq!(lines(&till, "app.limit").await, 0);
}

/// A limit is logged as it holds, and only when it changes, whichever face sets it.
#[tokio::test(flavor = "multi_thread")]
async fn a_limit_that_is_set_again_leaves_no_line_in_the_log() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let (program, browser) = (Program::on(&till.database_url), till.browser(Role::Admin).await);
    let caller = Caller::admin(&till).await;
    for limit in ["1000000", "4294967295"] {
        for _ in 0..2 {
            program.run(&["app", "limit", "a1", "--exchanges-per-second", limit]);
        }
    }
    let body = json!({ "exchanges_per_second": 1_000_000 });
    caller.send("PUT", "/apps/a1/limits", None, &body).await;
    browser.post("/console/apps/a1/limits", &[("exchanges_per_second", "1000000")]).await;
    assert_eq!(lines(&till, "app.limit").await, 1);
    let limits = till.store.app_detail(&app.id).await.unwrap().unwrap().summary.limits;
    assert_eq!(json!(limits)["exchanges_per_second"], 1_000_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pages_of_a_package_have_one_name() {
    let till = TestTill::start().await;
    till.app("a1").await;
    let program = Program::on(&till.database_url);
    let published = program.json(&["app", "publish", "a1", "--version", "2", "--path", "pages/a"]);
    let answer = Caller::admin(&till)
        .await
        .post("/apps/a1/packages", "key", json!({ "version": "2", "pages": ["pages/a"] }))
        .await;
    assert_eq!(published, answer.json());
    assert_eq!(published, json!({ "app_id": "a1", "version": "2", "pages": ["pages/a"] }));
}

/// A page that was shown by a former version of the program sends fewer fields than today's.
#[tokio::test(flavor = "multi_thread")]
async fn a_field_that_a_stale_page_of_the_console_does_not_send_stays_as_it_is() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let program = Program::on(&till.database_url);
    program.json(&["app", "change", "a1", "--name", "Game", "--category", "local_life", "--sandbox", "true"]);
    program.json(&["app", "limit", "a1", "--exchanges-per-second", "5", "--reports-per-second", "6"]);
    let browser = till.browser(Role::Admin).await;
    let find = async || till.store.app_detail(&app.id).await.unwrap().unwrap().summary;

    let sent = browser.post("/console/apps/a1/settings", &[("category", "general")]).await;
    assert_eq!(sent.status, 303, "{}", sent.body);
    let summary = json!(find().await);
    assert_eq!(
        (&summary["name"], &summary["category"], &summary["scopes"], &summary["sandbox"]),
        (&json!("Game"), &json!("general"), &json!(["epay"]), &json!(true))
    );
    let sent = browser.post("/console/apps/a1/limits", &[("uploads_per_second", "7")]).await;
    assert_eq!(sent.status, 303, "{}", sent.body);
    let limits = json!(find().await.limits);
    let expected = json!({
        "exchanges_per_second": 5, "reads_per_second": null, "reports_per_second": 6, "uploads_per_second": 7, "tokens_per_second": null,
        "logins_per_second": null,
        "image_bytes_per_day": null,
        "image_bytes_max": null,
        "images_per_day": null,
        "images_max": null,
    });
    assert_eq!(limits, expected);

    // An empty field clears what it names, and a box that the page showed and nobody ticked is a no.
    let fields = [("name", ""), ("category", "general"), ("shown", "scopes_epay sandbox")];
    let sent = browser.post("/console/apps/a1/settings", &fields).await;
    assert_eq!(sent.status, 303, "{}", sent.body);
    let summary = json!(find().await);
    assert_eq!(
        (&summary["name"], &summary["scopes"], &summary["sandbox"]),
        (&json!(""), &json!([]), &json!(false))
    );
    let sent = browser.post("/console/apps/a1/limits", &[("exchanges_per_second", "")]).await;
    assert_eq!(sent.status, 303, "{}", sent.body);
    assert_eq!(json!(find().await.limits)["exchanges_per_second"], json!(null));
    assert!(till.store.find_app(&AppId::parse("a1").unwrap()).await.unwrap().is_some());
}
