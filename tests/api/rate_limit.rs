//! Rate limits for each app and endpoint (contract 7.2).

use std::time::Duration;

use domain::app::AppLimits;
use domain::operation::app::AppCommand;
use domain::per_second::PerSecond;
use minitill::config::Config;
use sqlx::{ConnectOptions as _, Executor as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::game::Game;
use crate::support::program::{Program, ServerProcess};
use crate::support::{Answer, PATIENCE, Request, TestApp, TestTill, fresh_database, until};

/// The answer's text about a limit (contract 7.2.8).
fn text(limit: u32, what: &str) -> String {
    let step = if what == "token requests" {
        "keep the token: it lives for 48 hours"
    } else {
        "wait as Retry-After says"
    };
    format!("rate limit: expected at most {limit} {what} a second of this app; {step}")
}

fn per_second(limit: u32) -> PerSecond {
    PerSecond::new(limit).unwrap()
}

async fn till() -> TestTill {
    TestTill::start_with(with_limits).await
}

fn with_limits(config: &mut Config) {
    config.limits.exchanges_per_second = per_second(4);
    config.limits.reports_per_second = per_second(5);
    config.limits.uploads_per_second = per_second(3);
    config.limits.tokens_per_second = per_second(2);
    config.limits.logins_per_second = per_second(6);
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

fn login(app: &TestApp) -> Request {
    let query = format!("app_id={}&app_secret={}&js_code=unknown", app.id, app.secret);
    Request::get(&format!("/oauth2/mp/code2session?{query}"))
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
    assert_eq!(burst(&till, &login(&app)).await, 6);
    // Both ways of uploading share one limit.
    assert_eq!(burst(&till, &upload(&app, "uploadWithFile")).await, 3);
    assert_eq!(burst(&till, &upload(&app, "uploadWithUrl")).await, 0);
    assert_eq!(burst(&till, &report(&other)).await, 5);
    let refused = till.send(report(&app)).await;
    refused.assert_refused(10_000_305, &text(5, "order reports"));
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
    refused.assert_body(&format!(r#"{{"code":10000305,"msg":"{}"}}"#, text(4, "exchanges")));
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
    let own = AppLimits {
        reports_per_second: PerSecond::new(7),
        uploads_per_second: PerSecond::new(0),
        ..AppLimits::default()
    };
    till.command(&app, AppCommand::Limit(own.into())).await;
    assert_eq!(burst(&till, &report(&app)).await, 7);
    assert_eq!(burst(&till, &upload(&app, "uploadWithFile")).await, 20);
    assert_eq!(burst(&till, &token(&app, &app.secret)).await, 2);
}

/// The numbers that contract 7.2.1 gives, out of the settings that are compiled in.
#[tokio::test(flavor = "multi_thread")]
async fn the_defaults_are_those_of_the_contract() {
    let defaults = Config::load(None, std::iter::empty()).unwrap().limits;
    let numbers = [
        defaults.exchanges_per_second,
        defaults.reports_per_second,
        defaults.uploads_per_second,
        defaults.tokens_per_second,
        defaults.logins_per_second,
    ];
    assert_eq!(numbers.map(PerSecond::get), [0, 2000, 50, 10, 500]);
    let till = TestTill::start_with(|config| config.limits = defaults).await;
    let app = till.app("a1").await;
    assert_eq!(burst(&till, &token(&app, &app.secret)).await, 10);
    // No limit on exchanges, and twenty reports or uploads are below theirs.
    assert_eq!(burst(&till, &Game::new(&app, "o1", "b1", 1).request()).await, 20);
    assert_eq!(burst(&till, &report(&app)).await, 20);
    assert_eq!(burst(&till, &upload(&app, "uploadWithFile")).await, 20);
    assert_eq!(burst(&till, &upload(&app, "uploadWithUrl")).await, 20);
    for _ in 0..10 {
        assert!(!is_limited(&till.send(upload(&app, "uploadWithUrl")).await));
    }
    till.send(upload(&app, "uploadWithFile")).await.assert_refused(10_000_305, &text(50, "uploads"));
}

/// Contract 9.9.1: what an operator changes acts within 5 seconds.
#[tokio::test(flavor = "multi_thread")]
async fn limits_of_an_app_change_while_the_server_runs_and_none_takes_the_setting_again() {
    let till = till().await;
    let (app, other) = (till.app("a1").await, till.app("a2").await);
    assert_eq!(burst(&till, &report(&app)).await, 5);
    let exchange = Game::new(&app, "o1", "b1", 1).request();
    let all = AppLimits {
        exchanges_per_second: PerSecond::new(6),
        reports_per_second: PerSecond::new(9),
        uploads_per_second: PerSecond::new(2),
        tokens_per_second: PerSecond::new(1),
        logins_per_second: PerSecond::new(3),
        ..AppLimits::default()
    };
    let unlimited = AppLimits {
        exchanges_per_second: PerSecond::new(0),
        reports_per_second: PerSecond::new(0),
        uploads_per_second: PerSecond::new(0),
        tokens_per_second: PerSecond::new(0),
        logins_per_second: PerSecond::new(0),
        ..AppLimits::default()
    };
    let steps = [(all, [6, 9, 2, 1, 3]), (unlimited, [20; 5]), (AppLimits::default(), [4, 5, 3, 2, 6])];
    for (limits, [exchanges, reports, uploads, tokens, logins]) in steps {
        till.command(&app, AppCommand::Limit(limits.clone().into())).await;
        till.clock.advance(Duration::from_secs(5));
        assert_eq!(burst(&till, &exchange).await, exchanges, "{limits:?}");
        assert_eq!(burst(&till, &report(&app)).await, reports, "{limits:?}");
        assert_eq!(burst(&till, &upload(&app, "uploadWithUrl")).await, uploads, "{limits:?}");
        assert_eq!(burst(&till, &token(&app, &app.secret)).await, tokens, "{limits:?}");
        assert_eq!(burst(&till, &login(&app)).await, logins, "{limits:?}");
        // Nobody else's change.
        assert_eq!(burst(&till, &report(&other)).await, 5);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_at_the_same_moment_are_counted_each() {
    let till = till().await;
    let app = till.app("a1").await;
    let mut tries = JoinSet::new();
    for _ in 0..40 {
        let (request, address) = (report(&app), till.address);
        tries.spawn(async move { request.send(address).await });
    }
    let passed = tries.join_all().await.iter().filter(|answer| !is_limited(answer)).count();
    assert_eq!(passed, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_as_told_passes() {
    let till = till().await;
    let app = till.app("a1").await;
    for (request, text) in [
        (report(&app), text(5, "order reports")),
        (token(&app, &app.secret), text(2, "token requests")),
        (login(&app), text(6, "logins")),
        (upload(&app, "uploadWithFile"), text(3, "uploads")),
    ] {
        burst(&till, &request).await;
        let refused = till.send(request.clone()).await;
        refused.assert_body(&format!(r#"{{"result":10000305,"error_msg":"{text}"}}"#));
        let seconds = refused.header("retry-after").unwrap().parse().unwrap();
        till.clock.advance(Duration::from_secs(seconds));
        let answer = till.send(request).await;
        assert!(!is_limited(&answer), "{}", answer.body);
        assert_eq!(answer.header("retry-after"), None);
    }
}

/// Contract 2.6: the limit is part of the check of the caller, which comes before the body.
#[tokio::test(flavor = "multi_thread")]
async fn a_report_over_the_limit_is_refused_before_its_body_comes() {
    let till = till().await;
    let app = till.app("a1").await;
    burst(&till, &report(&app)).await;
    let head = format!(
        "POST /openapi/mp/developer/order/v1/report?app_id={}&access_token={} HTTP/1.1\r\nhost: till\r\n\
         content-length: 60000\r\n\r\n",
        app.id, app.token
    );
    let mut stream = TcpStream::connect(till.address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut received = vec![0; 2048];
    let length = tokio::time::timeout(PATIENCE, stream.read(&mut received)).await.unwrap().unwrap();
    let text = String::from_utf8_lossy(&received[..length]).into_owned();
    assert!(text.contains(r#"{"result":10000305,"#), "{text}");
    assert!(text.to_ascii_lowercase().contains("\r\nretry-after: 1\r\n"), "{text}");
}

/// Contract 7.2.6: two servers admit together what one admits. When one has stopped, the other admits all.
#[tokio::test(flavor = "multi_thread")]
async fn the_servers_of_a_database_share_each_limit() {
    let first = till().await;
    let second = TestTill::start_on(first.database_url.clone(), with_limits).await;
    let app = first.app("a1").await;
    let both = [&first, &second];
    for till in both {
        till.till.share_rate_limits().await.unwrap();
    }
    for till in both {
        assert_eq!(burst(till, &token(&app, &app.secret)).await, 1);
        assert_eq!(burst(till, &login(&app)).await, 3);
        // Half of 5 and half of 3, in whole requests.
        assert_eq!(burst(till, &report(&app)).await, 2);
        assert_eq!(burst(till, &upload(&app, "uploadWithFile")).await, 1);
        // The text names the limit of both, and the header when this server admits one again.
        let refused = till.send(login(&app)).await;
        refused.assert_refused(10_000_305, &text(6, "logins"));
        assert_eq!(refused.header("retry-after"), Some("1"));
    }
    // In two seconds both admit what one would: ten reports. A burst is at most a second's.
    for quarter in 1..=5 {
        for till in both {
            till.clock.advance(Duration::from_millis(400));
            assert_eq!(burst(till, &report(&app)).await, 1, "after {} ms", quarter * 400);
        }
    }
    second.store.close().await;
    second.till.share_rate_limits().await.unwrap_err();
    assert_eq!(second.till.rate_limits.shares(), 2, "while the database is away, the last number holds");
    until("its sessions have ended", async || first.store.count_instances().await == Ok(1)).await;
    first.till.share_rate_limits().await.unwrap();
    assert_eq!(first.till.rate_limits.shares(), 2, "a lower number is counted twice");
    first.till.share_rate_limits().await.unwrap();
    first.clock.advance(Duration::from_mins(1));
    assert_eq!(burst(&first, &login(&app)).await, 6);
    assert_eq!(burst(&first, &report(&app)).await, 5);
    assert_eq!(burst(&first, &token(&app, &app.secret)).await, 2);
}

/// Rule: a server that is gone, but whose sessions the database has not noticed to be so, counts for 15 seconds. A
/// command never counts.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_counts_while_it_uses_its_sessions() {
    let till = till().await;
    let with_name = async |name: &str| {
        let options: sqlx::postgres::PgConnectOptions = till.database_url.parse().unwrap();
        let mut session = options.application_name(name).connect().await.unwrap();
        session.execute("SELECT 1").await.unwrap();
        session
    };
    let command = with_name("minitill").await;
    let mut server = with_name("minitill 0123456789abcdef").await;
    assert_eq!(till.store.count_instances().await, Ok(2));
    until("it is gone", async || till.store.count_instances().await == Ok(1)).await;
    let unused = "SELECT extract(epoch FROM now() - state_change)::bigint FROM pg_stat_activity
                  WHERE application_name = 'minitill 0123456789abcdef'";
    assert!(till.number(unused).await >= 15);
    server.execute("SELECT 1").await.unwrap();
    assert_eq!(till.store.count_instances().await, Ok(2), "it was used again");
    drop((server, command));
}

/// Rule: a running server knows the others from its start, and notices their start and their end.
#[tokio::test(flavor = "multi_thread")]
async fn running_servers_count_each_other() {
    let database = fresh_database().await;
    let program = Program::on(&database.url);
    let first = program.serve(None).await;
    let told = async |server: &ServerProcess| {
        let metrics = Request::get("/metrics").send(server.operator_address).await.body;
        let value = metrics.lines().find_map(|line| line.strip_prefix("minitill_instances "));
        value.expect("it is told").to_owned()
    };
    let becomes = async |expected: &str| {
        until(&format!("it knows of {expected}"), async || told(&first).await == expected).await;
    };
    becomes("1").await;
    let second = program.serve(None).await;
    assert_eq!(told(&second).await, "2");
    becomes("2").await;
    second.terminate();
    becomes("1").await;
    let third = program.serve(None).await;
    becomes("2").await;
    third.kill();
    becomes("1").await;
}
