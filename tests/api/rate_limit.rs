//! Rate limits for each app and endpoint (contract 7).

use std::time::Duration;

use minitill::error::ErrorStatus;
use minitill::store::AppLimits;

use crate::game::Game;
use crate::support::{Answer, Request, TestApp, TestTill};

const TEXT: &str = "too many requests, try again later";

async fn till() -> TestTill {
    TestTill::start_with(|config| {
        config.limits.exchanges_per_second = 4;
        config.limits.reports_per_second = 5;
        config.limits.uploads_per_second = 3;
        config.limits.tokens_per_second = 2;
    })
    .await
}

fn report(app: &TestApp) -> Request {
    Request::post(&format!(
        "/openapi/mp/developer/order/v1/report?app_id={}&access_token={}",
        app.id, app.token
    ))
    .body("{}")
}

fn upload(app: &TestApp, way: &str) -> Request {
    Request::post(&format!(
        "/openapi/mp/developer/file/img/{way}?app_id={}&access_token={}",
        app.id, app.token
    ))
}

fn token(app: &TestApp, secret: &str) -> Request {
    let query = format!("app_id={}&app_secret={secret}&grant_type=client_credentials", app.id);
    Request::get(&format!("/oauth2/access_token?{query}"))
}

fn is_limited(answer: &Answer) -> bool {
    answer.code() == 10_000_305
}

/// How many of twenty requests at one moment pass.
async fn burst(till: &TestTill, request: &Request) -> usize {
    let mut passed = 0;
    for _ in 0..20 {
        passed += usize::from(!is_limited(&till.send(request.clone()).await));
    }
    passed
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_of_burst_passes_and_then_the_rate_for_each_app_and_endpoint_apart() {
    let till = till().await;
    let (app, other) = (till.app("a1").await, till.app("a2").await);
    assert_eq!(burst(&till, &report(&app)).await, 5);
    assert_eq!(burst(&till, &Game::new(&app, "o1", "b1", 1).request()).await, 4);
    assert_eq!(burst(&till, &token(&app, &app.secret)).await, 2);
    // Both ways of uploading share one limit.
    assert_eq!(burst(&till, &upload(&app, "uploadWithFile")).await, 3);
    assert_eq!(burst(&till, &upload(&app, "uploadWithUrl")).await, 0);
    assert_eq!(burst(&till, &report(&other)).await, 5);
    let refused = till.send(report(&app)).await;
    refused.assert_refused(10_000_305, TEXT);
    assert_eq!(refused.header("retry-after"), Some("1"));
    till.clock.advance(Duration::from_millis(199));
    assert_eq!(burst(&till, &report(&app)).await, 0);
    till.clock.advance(Duration::from_millis(1));
    assert_eq!(burst(&till, &report(&app)).await, 1);
    till.clock.advance(Duration::from_mins(10));
    assert_eq!(burst(&till, &report(&app)).await, 5);
    let exchange = Game::new(&app, "o1", "b1", 1);
    burst(&till, &exchange.request()).await;
    let refused = exchange.send(&till).await;
    refused.assert_body(&format!(r#"{{"code":10000305,"msg":"{TEXT}"}}"#));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_uses_up_nothing() {
    let till = till().await;
    let app = till.app("a1").await;
    let wrong = TestApp { token: "wrong".to_owned(), ..app.clone() };
    for _ in 0..20 {
        assert_eq!(till.send(report(&wrong)).await.code(), 100_200_102);
        assert_eq!(till.send(token(&app, "wrong")).await.code(), 100_200_101);
    }
    assert_eq!(burst(&till, &report(&app)).await, 5);
    assert_eq!(burst(&till, &token(&app, &app.secret)).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_may_have_limits_of_its_own_and_0_is_none() {
    let till = till().await;
    let app = till.app("a1").await;
    let own = AppLimits { reports_per_second: Some(7), uploads_per_second: Some(0), ..AppLimits::default() };
    till.store.set_limits(&app.id, own).await.unwrap();
    assert_eq!(burst(&till, &report(&app)).await, 7);
    assert_eq!(burst(&till, &upload(&app, "uploadWithFile")).await, 20);
    assert_eq!(burst(&till, &token(&app, &app.secret)).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_statuses_are_asked_for_it_is_429() {
    let till = TestTill::start_with(|config| {
        config.http.error_status = ErrorStatus::Rest;
        config.limits.reports_per_second = 1;
    })
    .await;
    let app = till.app("a1").await;
    till.send(report(&app)).await;
    let refused = till.send(report(&app)).await;
    assert_eq!((refused.status, refused.code(), refused.header("retry-after")), (429, 10_000_305, Some("1")));
}
