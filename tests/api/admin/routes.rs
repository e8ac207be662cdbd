//! A walk over the route table of the admin API: each route has its cases of authentication here.

use std::time::Duration;

use domain::console_user::Role;
use domain::rights::Need;
use minitill::openapi::{Place, plain};
use minitill::operator::admin::{AdminRoute, ROUTES, RouteEffect};
use serde_json::json;

use super::{Caller, assert_problem, revoke};
use crate::support::{Request, TestTill};

/// A path of the route, below `/admin/v1`.
fn path(route: &AdminRoute) -> String {
    let path = route.path.strip_prefix("/admin/v1").unwrap();
    let path = path.replace("{app_id}", "a1").replace("{open_id}", "o1").replace("{biz_no}", "b1");
    path.replace("{img_id}", &"0".repeat(48)).replace("{out_biz_order_no}", "order-1")
}

/// Whatever a write could leave behind.
const TRACES: &str = "SELECT (SELECT count(*) FROM operator_log) + (SELECT count(*) FROM apps) + (SELECT count(*) FROM pay_keys)
     + (SELECT count(*) FROM access_tokens) + (SELECT count(*) FROM wallets) + (SELECT count(*) FROM ledger_entries)
     + (SELECT count(*) FROM api_requests) + (SELECT count(*) FROM packages) + (SELECT count(*) FROM picture_blocks)";

#[tokio::test(flavor = "multi_thread")]
async fn every_route_refuses_a_stranger_and_a_revoked_key_and_does_nothing() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100).await;
    let valid = Caller::admin(&till).await;
    let revoked = Caller::new(&till, "former", Role::Admin).await;
    revoke(&till, "former").await;
    let traces = till.number(TRACES).await;
    let unknown = format!("Bearer mtk_{}", "0".repeat(64));
    let cases = [
        (None, "expected one header Authorization: Bearer mtk_...", r#"Bearer realm="minitill admin""#),
        (
            Some("Basic YTpi".to_owned()),
            "expected one header Authorization: Bearer mtk_...",
            r#"Bearer realm="minitill admin""#,
        ),
        (
            Some("Bearer".to_owned()),
            "expected one header Authorization: Bearer mtk_...",
            r#"Bearer realm="minitill admin""#,
        ),
        (
            Some("Bearer guess".to_owned()),
            "there is no such API key",
            r#"Bearer realm="minitill admin", error="invalid_token""#,
        ),
        (
            Some(unknown),
            "there is no such API key",
            r#"Bearer realm="minitill admin", error="invalid_token""#,
        ),
        (
            Some(format!("Bearer {}", valid.key.to_uppercase())),
            "there is no such API key",
            r#"Bearer realm="minitill admin", error="invalid_token""#,
        ),
        (
            Some(format!("Bearer {}", revoked.key)),
            "the API key was revoked",
            r#"Bearer realm="minitill admin", error="invalid_token""#,
        ),
    ];
    for route in ROUTES.iter() {
        for (authorization, detail, challenge) in &cases {
            let mut request = Request::new(route.method, &format!("/admin/v1{}", path(route)))
                .header("idempotency-key", "k")
                .header("content-type", "application/json")
                .body("{}");
            if let Some(authorization) = authorization {
                request = request.header("authorization", authorization);
            }
            let answer = request.send(till.operator_address).await;
            assert_problem(&answer, 401, "unauthorized", detail);
            assert_eq!(answer.header("www-authenticate"), Some(*challenge));
        }
        let twice = valid
            .request(route.method, &path(route))
            .header("authorization", &format!("Bearer {}", valid.key));
        let answer = twice.send(till.operator_address).await;
        assert_problem(&answer, 401, "unauthorized", "expected one header Authorization: Bearer mtk_...");
    }
    assert_eq!(till.number(TRACES).await, traces);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewers_key_reads_and_no_other_route_does_anything() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100).await;
    let viewer = Caller::new(&till, "dashboard", Role::Viewer).await;
    let traces = till.number(TRACES).await;
    for route in ROUTES.iter() {
        // With the query of the example, because some routes must have one.
        let described = (route.describe)();
        let query: Vec<String> = described
            .fields_in(Place::Query)
            .filter_map(|field| Some(format!("{}={}", field.name, plain(field.example.as_ref()?))))
            .collect();
        let path = format!("{}?{}", path(route), query.join("&"));
        let answer = viewer.send(route.method, &path, Some("k"), &json!({})).await;
        assert_eq!(route.access == RouteEffect::Read, route.method == "GET", "{}", route.path);
        if route.need == Need::Read {
            assert_eq!(route.method, "GET", "{}", route.path);
            assert!([200, 404].contains(&answer.status), "{}: {}", route.path, answer.body);
        } else {
            let detail = "the API key dashboard has the role viewer, which may not make this call";
            assert_problem(&answer, 403, "forbidden", detail);
        }
    }
    assert_eq!(till.number(TRACES).await, traces);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_answers_other_methods_with_405_and_what_it_allows() {
    let till = TestTill::start().await;
    let caller = Caller::admin(&till).await;
    for of_path in ROUTES.chunk_by(|one, other| one.path == other.path) {
        let known: Vec<&str> = of_path.iter().map(|route| route.method).collect();
        let allowed = known.join(", ").replace("GET", "GET, HEAD");
        for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"] {
            if known.contains(&method) || (method == "HEAD" && known.contains(&"GET")) {
                continue;
            }
            let answer = caller.request(method, &path(&of_path[0])).send(till.operator_address).await;
            assert_eq!((answer.status, answer.header("allow")), (405, Some(allowed.as_str())), "{method}");
            if method != "HEAD" {
                let detail = format!("expected {allowed}, got \"{method}\"");
                assert_problem(&answer, 405, "method-not-allowed", &detail);
            }
        }
    }
    // Paths of the table stand together, or the walk above would see a part of them.
    let mut paths: Vec<&str> = ROUTES.iter().map(|route| route.path).collect();
    paths.dedup();
    let distinct: std::collections::BTreeSet<&&str> = paths.iter().collect();
    assert_eq!(distinct.len(), paths.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_path_is_a_problem_and_the_public_listener_knows_none_of_it() {
    let till = TestTill::start().await;
    let caller = Caller::admin(&till).await;
    for path in ["", "/", "/apps/", "/apps/a1/nothing", "/apps/a1/orders", "/../v2"] {
        let answer = caller.get(path).await;
        assert_problem(&answer, 404, "not-found", "there is nothing at this path");
    }
    let answer = Request::get("/admin").send(till.operator_address).await;
    assert_problem(&answer, 404, "not-found", "there is nothing at this path");
    for route in ROUTES.iter() {
        let answer = till.send(caller.request(route.method, &path(route))).await;
        assert_eq!(answer.status, 404, "{}", route.path);
    }
    for path in ["/admin/openapi.json", "/docs/admin"] {
        assert_eq!(till.send(Request::get(path)).await.status, 404, "{path}");
    }
}

/// The limits of what is read, and that what cannot be read does nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_is_one_json_object_of_64_kib_with_known_fields_only() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let caller = Caller::admin(&till).await;
    let path = "/apps/a1/wallets/o1/credits";
    let traces = till.number(TRACES).await;
    let send = async |content_type: &str, body: &[u8]| {
        let request =
            caller.request("POST", path).header("idempotency-key", "k").header("content-type", content_type);
        request.body(body).send(till.operator_address).await
    };
    let typo = send("application/json", br#"{"fre":5,"charg":1,"ref":"r1"}"#).await;
    assert_problem(&typo, 422, "invalid-field", "wrong: charg, fre");
    assert_eq!(
        typo.json()["errors"],
        json!([
            {"field": "charg", "detail": "unknown field, expected free, charge, ref, note, create"},
            {"field": "fre", "detail": "unknown field, expected free, charge, ref, note, create"},
        ])
    );
    assert_problem(
        &send("text/plain", b"{}").await,
        415,
        "unsupported-media-type",
        "content-type: expected application/json",
    );
    assert_problem(
        &send("application/json", &vec![b' '; 65_537]).await,
        413,
        "content-too-large",
        "body: expected at most 65536 bytes",
    );
    let twice = send("application/json", br#"{"ref":"a","ref":"b"}"#).await;
    assert_eq!((twice.status, twice.json()["type"].as_str()), (400, Some("/docs/admin#problem-bad-request")));
    assert!(
        twice.json()["detail"].as_str().unwrap().contains("ref: expected once, given twice"),
        "{}",
        twice.body
    );
    for (field, detail) in [
        (json!({"ref": "r1", "free": "5"}), "expected an integer from 0 to 9223372036854775807, got \"5\""),
        (json!({"ref": "r1", "free": 1.5}), "expected an integer from 0 to 9223372036854775807, got 1.5"),
        (json!({"ref": "r1", "free": true}), "expected an integer from 0 to 9223372036854775807, got true"),
    ] {
        let answer = caller.post(path, "k", field).await;
        assert_problem(&answer, 422, "invalid-field", "wrong: free");
        assert_eq!(answer.json()["errors"], json!([{ "field": "free", "detail": detail }]));
    }
    let note = caller.post(path, "k", json!({"ref": "r1", "note": "a\u{0}b"})).await;
    assert_problem(&note, 422, "invalid-field", "wrong: note");
    let query = caller.send("POST", &format!("{path}?free=5"), Some("k"), &json!({"ref": "r1"})).await;
    assert_problem(&query, 422, "invalid-field", "wrong: free");
    assert_eq!(till.number(TRACES).await, traces);
    // `; charset=utf-8` is fine, and so is no content type where there is no content.
    let fine = send("Application/JSON; charset=utf-8", br#" {"ref":"r1","free":1,"create":true} "#).await;
    assert_eq!(fine.status, 200, "{}", fine.body);
    let empty = caller.request("POST", "/apps/a1/pay-keys").header("idempotency-key", "k2");
    assert_eq!(empty.send(till.operator_address).await.status, 200);
    assert_eq!(till.purses(&app, "o1").await, (1, 0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_away_is_503_with_the_time_to_wait() {
    let till = TestTill::start().await;
    let caller = Caller::admin(&till).await;
    till.store.close().await;
    let answer = caller.get("/apps").await;
    let detail = "the database is away or too busy; nothing is known to be done";
    assert_problem(&answer, 503, "unavailable", detail);
    assert_eq!(answer.header("retry-after"), Some("1"));
}

/// Rule 9.5.3: who reads too much for one statement is told what helps. A change is not, because it cannot ask for less.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_whose_statement_takes_too_long_says_what_helps() {
    let patient = TestTill::start().await;
    patient.app("a1").await;
    let till = TestTill::start_on(patient.database_url.clone(), |config| {
        config.database.statement_timeout = Duration::from_secs(1);
    })
    .await;
    let caller = Caller::admin(&till).await;
    let mut held = till.sql.begin().await.unwrap();
    sqlx::query("LOCK TABLE access_tokens").execute(&mut *held).await.unwrap();
    let read = caller.get("/apps/a1/tokens").await;
    assert_problem(&read, 503, "unavailable", store::StoreError::TOO_SLOW);
    assert_eq!(read.header("retry-after"), Some("1"));
    let change = caller.post("/apps/a1/tokens", "k1", json!({})).await;
    let detail = "the database is away or too busy; nothing is known to be done";
    assert_problem(&change, 503, "unavailable", detail);
    held.rollback().await.unwrap();
    assert_eq!(caller.get("/apps/a1/tokens").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_id_is_echoed_and_stands_in_problems_as_a_uri() {
    let till = TestTill::start().await;
    let answer =
        Request::get("/admin/v1/apps").header("x-request-id", "a:b/c<d>").send(till.operator_address).await;
    assert_eq!(answer.header("x-request-id"), Some("a:b/c<d>"));
    assert_eq!(answer.json()["instance"], "a%3Ab%2Fc%3Cd%3E");
}
