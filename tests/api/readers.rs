//! Readers have their own sessions: whatever operators read, payments and `readyz` go on (operators' contract 9.5.5 to
//! 9.5.8, 8.5.9 and 8.6.49).

use std::time::Duration;

use domain::console_user::Role;
use serde_json::json;
use sqlx::Connection as _;
use tokio::task::JoinSet;

use crate::admin::{Caller, assert_problem};
use crate::game::Game;
use crate::support::{Answer, Request, TestTill};

/// A till whose readers wait a short while, with four sessions for operators.
async fn till() -> TestTill {
    TestTill::start_with(|config| config.database.acquire_timeout = Duration::from_secs(2)).await
}

/// Reads that wait for a table that somebody has locked.
fn waiting(till: &TestTill, caller: &Caller<'_>, count: usize) -> JoinSet<Answer> {
    let mut waiting = JoinSet::new();
    for _ in 0..count {
        let (request, address) = (caller.request("GET", "/operator-log"), till.operator_address);
        waiting.spawn(async move { request.send(address).await });
    }
    waiting
}

async fn assert_payments_go_on(till: &TestTill, game: Game) {
    assert_eq!(game.send(till).await.code(), 1);
    let ready = Request::get("/readyz").send(till.operator_address).await;
    assert_eq!((ready.status, ready.body.as_str()), (200, r#"{"status":"ready"}"#));
}

/// One key has half of the sessions. Two keys have all, and even then nobody else is held up but operators.
#[tokio::test(flavor = "multi_thread")]
async fn one_key_holds_half_of_the_sessions_and_none_of_payments() {
    let till = till().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 10).await;
    let reader = Caller::new(&till, "reader", Role::Viewer).await;
    let other = Caller::new(&till, "other", Role::Viewer).await;
    let third = Caller::new(&till, "third", Role::Viewer).await;
    let viewer = till.browser(Role::Viewer).await;
    let mut lock = sqlx::PgConnection::connect(&till.database_url).await.unwrap();
    sqlx::raw_sql("BEGIN; LOCK TABLE operator_log IN ACCESS EXCLUSIVE MODE")
        .execute(&mut lock)
        .await
        .unwrap();
    let of_reader = waiting(&till, &reader, 2);
    till.until_locked_out(2).await;
    let busy = "this API key has half of the places, or all are taken; ask less at once";
    let refused = reader.get("/apps").await;
    assert_problem(&refused, 503, "unavailable", busy);
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(other.get("/apps").await.status, 200);
    assert_eq!(viewer.get("/console/apps").await.status, 200);
    assert_payments_go_on(&till, Game::new(&app, "o1", "b1", 1)).await;
    let of_other = waiting(&till, &other, 2);
    till.until_locked_out(4).await;
    // All places are gone. A session more finds keys and users.
    assert_problem(&third.get("/apps").await, 503, "unavailable", busy);
    assert_eq!(viewer.get("/console/apps").await.status, 503);
    assert_payments_go_on(&till, Game::new(&app, "o1", "b2", 1)).await;
    sqlx::raw_sql("ROLLBACK").execute(&mut lock).await.unwrap();
    for answer in of_reader.join_all().await.into_iter().chain(of_other.join_all().await) {
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    assert_eq!((third.get("/apps").await.status, reader.get("/apps").await.status), (200, 200));
}

/// A console user too has half of the sessions.
#[tokio::test(flavor = "multi_thread")]
async fn one_console_user_holds_half_of_the_sessions() {
    let till = till().await;
    let viewer = till.browser(Role::Viewer).await;
    let caller = Caller::new(&till, "other", Role::Viewer).await;
    let mut lock = sqlx::PgConnection::connect(&till.database_url).await.unwrap();
    sqlx::raw_sql("BEGIN; LOCK TABLE operator_log IN ACCESS EXCLUSIVE MODE")
        .execute(&mut lock)
        .await
        .unwrap();
    let refused = async {
        till.until_locked_out(2).await;
        let refused = viewer.get("/console/apps").await;
        assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
        let text = "Too many pages are being made at the moment, for you or for all.";
        assert!(refused.body.contains(text), "{}", refused.body);
        assert_eq!(caller.get("/apps").await.status, 200);
        // It shows how the till is, also while it is not well.
        assert_eq!(viewer.get("/console").await.status, 200);
        sqlx::raw_sql("ROLLBACK").execute(&mut lock).await.unwrap();
    };
    let (one, two, ()) = tokio::join!(viewer.get("/console/log"), viewer.get("/console/log"), refused);
    assert_eq!((one.status, two.status), (200, 200));
}

/// What looks for a text without an index needs a period, and names the parameter.
#[tokio::test(flavor = "multi_thread")]
async fn a_search_without_an_index_asks_for_a_period() {
    let till = TestTill::start().await;
    till.app("a1").await;
    let (caller, viewer) =
        (Caller::new(&till, "reader", Role::Viewer).await, till.browser(Role::Viewer).await);
    // The time of the test is in 2027.
    for (path, fields, searched) in [
        ("/operator-log?subject=o1", "", "subject, operator, action and by"),
        ("/operator-log?operator=bob", "&app_id=a1", "subject, operator, action and by"),
        ("/exchanges?product_name=Sword", "", "without app_id, zone, product_name, os and kind"),
        ("/exchanges?os=ios", "", "without app_id, zone, product_name, os and kind"),
        ("/exchanges?zone=z1", "", "without app_id, zone, product_name, os and kind"),
        ("/exchanges?kind=present", "", "without app_id, zone, product_name, os and kind"),
    ] {
        let path = format!("{path}{fields}");
        for (period, got) in [("", "nothing"), ("&since=2026-01-01", "\"2026-01-01\"")] {
            let detail =
                format!("expected at most 92 days before until, because {searched} have no index, got {got}");
            let answer = caller.get(&format!("{path}{period}")).await;
            assert_eq!(
                (answer.status, &answer.json()["errors"]),
                (422, &json!([{ "field": "since", "detail": detail }]))
            );
        }
        for period in ["&since=2027-01-01", "&since=2020-01-01&until=2020-04-02"] {
            assert_eq!(caller.get(&format!("{path}{period}")).await.status, 200, "{path}{period}");
        }
        let page = format!("/console{}", path.replace("/operator-log", "/log"));
        // Where no time is typed, the log begins as early as it may.
        let too_early = if page.starts_with("/console/log") { "&from=2026-01-01" } else { "" };
        let refused = viewer.get(&format!("{page}{too_early}")).await;
        let text = "a moment at most 92 days before the end, because this search has no index";
        assert!(refused.status == 400 && refused.body.contains(text), "{}", refused.body);
        assert_eq!(viewer.get(&format!("{page}&from=2027-01-01")).await.status, 200, "{page}");
    }
    for path in ["/operator-log?app_id=a1", "/exchanges?app_id=a1&zone=z1", "/exchanges", "/operator-log"] {
        assert_eq!(caller.get(path).await.status, 200, "{path}");
    }
}

/// Thousands of polls that wait at the head hold no place and need none to come back. So a reader with no place left
/// polls on.
#[tokio::test(flavor = "multi_thread")]
async fn polls_at_the_head_of_the_feed_need_no_place() {
    let till = till().await;
    let reader = Caller::new(&till, "reader", Role::Viewer).await;
    let head = "0.00000000";
    // It reads to the head, which the others then know.
    let poll = format!("/events?after={head}&wait=1");
    assert_eq!(reader.get(&poll).await.status, 200);
    let mut lock = sqlx::PgConnection::connect(&till.database_url).await.unwrap();
    sqlx::raw_sql("BEGIN; LOCK TABLE operator_log IN ACCESS EXCLUSIVE MODE")
        .execute(&mut lock)
        .await
        .unwrap();
    let waiting = waiting(&till, &reader, 2);
    till.until_locked_out(2).await;
    let mut polls = JoinSet::new();
    for _ in 0..100 {
        let (request, address) = (reader.request("GET", &poll), till.operator_address);
        polls.spawn(async move { request.send(address).await });
    }
    for answer in polls.join_all().await {
        assert_eq!((answer.status, answer.json()), (200, json!({ "items": [], "next": head })));
    }
    sqlx::raw_sql("ROLLBACK").execute(&mut lock).await.unwrap();
    waiting.join_all().await;
}
