//! Limits on what one stranger takes of the public listener (contract 2.7): connections, requests, sessions of the
//! database, turns to decode a picture.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::game::Game;
use crate::image::{large_picture, png, upload, uploaded};
use crate::support::{PATIENCE, Request, TestApp, TestTill, raw, until};

/// A connection that the server has accepted and keeps.
async fn kept(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /nowhere HTTP/1.1\r\nhost: till\r\n\r\n").await.unwrap();
    stream.read_u8().await.unwrap();
    stream
}

/// Rule (contract 2.7.6): on both listeners, a connection over the limit of its address is reset. A metric counts it.
#[tokio::test(flavor = "multi_thread")]
async fn an_address_has_so_many_connections_and_no_more() {
    let till = TestTill::start_with(|config| config.http.connections_per_address_max = 2).await;
    for address in [till.address, till.operator_address] {
        let open = [kept(address).await, kept(address).await];
        let refused = async { TcpStream::connect(address).await?.read_u8().await };
        let refused = timeout(PATIENCE, refused).await.unwrap().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionReset);
        drop(open);
    }
    let answered = async {
        loop {
            let scraping = async {
                let mut stream = TcpStream::connect(till.operator_address).await?;
                stream.write_all(&Request::get("/metrics").bytes()).await?;
                let mut text = String::new();
                stream.read_to_string(&mut text).await.map(|_| text)
            };
            if let Ok(text) = scraping.await {
                return text;
            }
        }
    };
    let text = timeout(PATIENCE, answered).await.expect("places are free again");
    assert!(text.contains("\nminitill_connections_refused_total 1\n"), "{text}");
    assert!(text.contains("\nminitill_connections_closed_for_room_total 0\n"), "{text}");
}

/// The head of an exchange for this client of the proxy, whose body does not come yet. `more` are further headers.
fn begun(client: &str, more: &str) -> String {
    format!(
        "POST /api/kpay/minigame/pay HTTP/1.1\r\nhost: till\r\nconnection: close\r\nx-forwarded-for: {client}\r\n\
         content-type: application/x-www-form-urlencoded\r\n{more}content-length: 3\r\n\r\n"
    )
}

/// Rule (contract 2.7.7): behind a trusted proxy the requests under way of a client count, in the envelope of their
/// endpoint. Other clients of the proxy are served, and its connections have no limit.
#[tokio::test(flavor = "multi_thread")]
async fn behind_a_proxy_the_requests_of_a_client_are_counted() {
    let till = TestTill::start_with(|config| {
        config.http.connections_per_address_max = 1;
        config.public.trusted_proxies = vec!["127.0.0.1/32".parse().unwrap()];
    })
    .await;
    let mut first = TcpStream::connect(till.address).await.unwrap();
    first.write_all(begun("2001:db8::1", "expect: 100-continue\r\n").as_bytes()).await.unwrap();
    // The server asks for the body, so the request has begun.
    let mut asked = [0; 25];
    first.read_exact(&mut asked).await.unwrap();
    assert_eq!(&asked, b"HTTP/1.1 100 Continue\r\n\r\n");
    let pay = |client: &str| [begun(client, "").as_bytes(), b"a=1"].concat();
    // The same network of 64 bits is the same client.
    let of_second = async || raw(till.address, &pay("2001:db8::2")).await;
    let refused = of_second().await;
    let body = r#"{"code":10000500,"msg":"the service is overloaded, try again"}"#;
    assert_eq!(
        (refused.status, refused.body.as_str(), refused.header("retry-after")),
        (503, body, Some("1"))
    );
    let refused =
        till.send(Request::get("/oauth2/access_token").header("x-forwarded-for", "2001:db8::2")).await;
    let body = r#"{"result":10000500,"error_msg":"the service is overloaded, try again"}"#;
    assert_eq!((refused.status, refused.body.as_str()), (503, body));
    assert_eq!(raw(till.address, &pay("2001:db8:0:1::1")).await.status, 200, "another network");
    let _idle = [kept(till.address).await, kept(till.address).await];
    first.write_all(b"a=1").await.unwrap();
    let mut answer = String::new();
    first.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let after = of_second().await;
    assert_eq!(after.status, 200, "the first one has ended: {after:?}");
}

/// Rule (contract 2.7.9): a crowd that asks for pictures takes no session of what has credentials. Here the
/// pictures are locked, so that each question waits with its session.
#[tokio::test(flavor = "multi_thread")]
async fn pictures_take_no_session_of_payments() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100).await;
    let id = uploaded(&till, &app, &large_picture()).await;
    assert_eq!(Game::new(&app, "o1", "b1", 10).send(&till).await.code(), 1);
    let mut lock = till.sql.begin().await.unwrap();
    sqlx::raw_sql("LOCK TABLE images IN ACCESS EXCLUSIVE MODE").execute(&mut *lock).await.unwrap();
    let mut crowd = JoinSet::new();
    for _ in 0..20 {
        let (request, address) = (Request::get(&format!("/img/{id}")), till.address);
        crowd.spawn(async move { request.send(address).await.status });
    }
    till.until_locked_out(1).await;
    // The app and its token are looked up anew.
    till.clock.advance(Duration::from_secs(10));
    // The lock is held until after these answers.
    assert_eq!(Game::new(&app, "o1", "b2", 10).send(&till).await.code(), 1);
    assert_eq!(till.send(token(&app)).await.code(), 1);
    assert!(crowd.try_join_next().is_none(), "the pictures wait");
    lock.rollback().await.unwrap();
    let answers = crowd.join_all().await;
    assert!(answers.iter().all(|status| *status == 200), "{answers:?}");
}

fn token(app: &TestApp) -> Request {
    let (id, secret) = (&app.id, &app.secret);
    Request::get(&format!(
        "/oauth2/access_token?app_id={id}&app_secret={secret}&grant_type=client_credentials"
    ))
}

/// Rule (contract 5.1.7): apps take turns to have a picture decoded. Here the test has the one place until all wait.
#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_uploads_many_pictures_keeps_no_other_waiting() {
    let till = TestTill::start_with(|config| config.image.decodes_max = 1).await;
    let (many, other) = (till.app("a1").await, till.app("a2").await);
    let turn = till.till.picture_work.turn("nobody").await.unwrap();
    let waiting = || till.till.picture_work.waiting();
    let sent = |app: &TestApp, shade| {
        let (request, address) = (upload(app, &png(16, |_, _| [shade; 3])), till.address);
        async move { request.send(address).await.code() }
    };
    let mut uploads = JoinSet::new();
    for shade in 0..12 {
        uploads.spawn(sent(&many, shade));
    }
    until("twelve wait for a turn", async || waiting() == 12).await;
    let of_other = tokio::spawn(sent(&other, 99));
    until("the other app waits too", async || waiting() == 13).await;
    let work = till.till.picture_work.clone();
    let third = tokio::spawn(async move { work.turn("somebody").await });
    until("so does the test", async || waiting() == 14).await;
    drop(turn);
    let third = third.await.unwrap().unwrap();
    // In the order of their arrival all twelve would have come first.
    until("eleven still wait", async || waiting() == 11).await;
    assert_eq!(of_other.await.unwrap(), 1);
    drop(third);
    assert!(uploads.join_all().await.into_iter().all(|code| code == 1));
}

/// Rule (contract 5.7.10): a slow reader gets the right bytes, of a picture and of a small copy.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_gets_the_whole_picture() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let large = large_picture();
    let id = uploaded(&till, &app, &large).await;
    for path in [format!("/img/{id}"), format!("/img/{id}?w=240")] {
        let mut stream = TcpStream::connect(till.address).await.unwrap();
        stream.write_all(&Request::get(&path).bytes()).await.unwrap();
        let (mut slowly, mut chunk) = (Vec::new(), vec![0; 64 * 1024]);
        loop {
            match stream.read(&mut chunk).await.unwrap() {
                0 => break,
                read => slowly.extend_from_slice(&chunk[..read]),
            }
            sleep(Duration::from_millis(20)).await;
        }
        let quickly = till.send(Request::get(&path)).await.bytes;
        assert!(slowly.ends_with(&quickly) && quickly.len() > 32 * 1024, "{path}: {} bytes", quickly.len());
        let part = till.send(Request::get(&path).header("range", "bytes=15000-40000")).await;
        assert!(part.status == 206 && part.bytes == quickly[15_000..=40_000], "{path}");
    }
}
