//! The operator listener (contract 9).

use crate::support::{PICTURE, Request, TestTill};

#[tokio::test(flavor = "multi_thread")]
async fn health_is_200_while_the_process_lives_and_ready_when_it_can_serve() {
    let till = TestTill::start().await;
    let get = async |path: &str| Request::get(path).send(till.operator_address).await;
    let health = get("/healthz").await;
    assert_eq!((health.status, health.body.as_str()), (200, r#"{"status":"ok"}"#));
    let ready = get("/readyz").await;
    assert_eq!((ready.status, ready.body.as_str()), (200, r#"{"status":"ready"}"#));
    till.execute("DELETE FROM _sqlx_migrations WHERE version = 1").await;
    let ready = get("/readyz").await;
    assert_eq!(
        (ready.status, ready.body.as_str()),
        (503, r#"{"reason":"1 migrations are not applied","status":"not ready"}"#)
    );
    till.store.close().await;
    let ready = get("/readyz").await;
    assert_eq!(
        (ready.status, ready.body.as_str()),
        (503, r#"{"reason":"the database is not available","status":"not ready"}"#)
    );
    assert_eq!(get("/healthz").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_two_listeners_serve_nothing_of_each_other() {
    let till = TestTill::start().await;
    for path in ["/healthz", "/readyz", "/demo/cover.png"] {
        assert_eq!(till.send(Request::get(path)).await.status, 404, "{path}");
    }
    for path in ["/oauth2/access_token", "/openapi/mp/developer/order/v1/report"] {
        let answer = Request::get(path).send(till.operator_address).await;
        assert_eq!((answer.status, answer.code()), (404, 10_000_200), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demonstrations_picture_is_one_that_is_accepted() {
    let picture = pictures::inspect(PICTURE).unwrap();
    assert_eq!((picture.side, picture.length), (128, PICTURE.len()));
}
