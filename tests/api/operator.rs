//! The operator listener (contract 9.7).

use domain::secret::Secret;

use crate::support::{PICTURE, Request, TestTill, raw};

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

/// Rule (contract 1.2.6): the listener answers to its own names alone, whatever the path.
#[tokio::test(flavor = "multi_thread")]
async fn the_operators_listener_answers_to_its_own_names_alone() {
    let till = TestTill::start_with(|config| config.ops.hosts = vec!["Till.Internal".to_owned()]).await;
    let ask = async |head: &str| {
        let request = format!("GET /healthz HTTP/1.1\r\n{head}connection: close\r\n\r\n");
        raw(till.operator_address, request.as_bytes()).await
    };
    for host in [
        "localhost",
        "LOCALHOST:1",
        "127.0.0.1:8081",
        "10.1.2.3",
        "[::1]:8081",
        "till.internal:1",
        "till.internal.",
    ] {
        assert_eq!(ask(&format!("host: {host}\r\n")).await.status, 200, "{host}");
    }
    for host in ["evil.example", "till.internal.evil.example", "localhost.evil.example", ""] {
        let answer = ask(&format!("host: {host}\r\n")).await;
        let text = format!("host: expected a name of this listener (setting ops.hosts), got \"{host}\"");
        assert_eq!((answer.status, answer.message()), (421, text));
    }
    for none_or_two in ["", "host: localhost\r\nhost: localhost\r\n"] {
        let answer = ask(none_or_two).await;
        assert_eq!((answer.status, answer.message().as_str()), (400, "host: expected one Host header"));
    }
    let absolute =
        b"GET http://evil.example/healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    assert_eq!(raw(till.operator_address, absolute).await.status, 421);
}

/// Rule (contract 9.7.3): with a token set, the metrics are for who has it.
#[tokio::test(flavor = "multi_thread")]
async fn the_metrics_need_their_token_where_there_is_one() {
    let till =
        TestTill::start_with(|config| config.ops.metrics_token = Secret::new("s3cret".to_owned())).await;
    let ask = async |token: Option<&str>| {
        let request = Request::get("/metrics");
        let request = match token {
            Some(token) => request.header("authorization", token),
            None => request,
        };
        request.send(till.operator_address).await
    };
    for wrong in [None, Some("Bearer s3cre"), Some("s3cret")] {
        let answer = ask(wrong).await;
        assert_eq!((answer.status, answer.header("www-authenticate")), (401, Some("Bearer")), "{wrong:?}");
        assert!(!answer.body.contains("minitill_"));
    }
    assert_eq!(ask(Some("Bearer s3cret")).await.status, 200);
}

/// Rule (contract 9.7.3): without a token the metrics tell of no single app.
#[tokio::test(flavor = "multi_thread")]
async fn metrics_without_a_token_name_no_app() {
    for (token, is_named) in [("", false), ("s3cret", true)] {
        let till =
            TestTill::start_with(|config| config.ops.metrics_token = Secret::new(token.to_owned())).await;
        let app = till.app("game-of-a-customer").await;
        till.player(&app, "o1", 0, 10).await;
        assert_eq!(crate::game::Game::new(&app, "o1", "b1", 1).send(&till).await.code(), 1);
        let request = Request::get("/metrics").header("authorization", &format!("Bearer {token}"));
        let answer = request.send(till.operator_address).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.body.contains("game-of-a-customer"), is_named, "{token:?}");
    }
}
