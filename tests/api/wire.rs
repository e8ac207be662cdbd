//! Rules of the wire that hold on every endpoint (contract 2), and the habits of real clients,
//! byte for byte.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::game::{Game, PATH};
use crate::support::{Answer, PAGE, PANICKING_PATH, PATIENCE, PICTURE, Request, TestTill, raw};

const REPORT: &str = "/openapi/mp/developer/order/v1/report";
const UPLOAD: &str = "/openapi/mp/developer/file/img/uploadWithFile";

/// Rule (contract 2.2.7): with the setting, the public listener serves its documents.
#[tokio::test(flavor = "multi_thread")]
async fn the_public_listener_serves_its_documents_when_it_is_told_to() {
    let till = TestTill::start_with(|config| config.public.docs = true).await;
    let first = till.send(Request::get("/")).await;
    assert_eq!((first.status, first.header("location")), (303, Some("/docs")));
    let page = till.send(Request::get("/docs")).await;
    assert!(page.status == 200 && page.body.contains("data-sends=\"true\""), "{}", page.body);
    assert!(!page.body.contains("admin"), "{}", page.body);
    // Rule 2.2.8: the page takes the keys with which it signs what it sends.
    assert!(page.body.contains("<input id=\"pay_key\""), "{}", page.body);
    for (path, kind) in [
        ("/openapi.json", "application/json; charset=utf-8"),
        ("/docs/start.js", "text/javascript; charset=utf-8"),
        ("/docs/style.css", "text/css; charset=utf-8"),
    ] {
        let answer = till.send(Request::get(path)).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some(kind)), "{path}");
    }
    let answer = till.send(Request::post("/docs")).await;
    let expected = r#"{"result":10000200,"error_msg":"method: expected GET, got \"POST\""}"#;
    assert_eq!((answer.status, answer.body.as_str()), (405, expected));
    assert_eq!(answer.header("allow"), Some("GET,HEAD"));
}

/// Rule (contract 2.2): an unknown path is named. Under `/api/` the names are those of the exchange.
#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_path_is_404_in_the_envelope_and_is_named() {
    let till = TestTill::start().await;
    let documents = "; the documents of this API are on the operator listener (setting ops.listen), at /docs";
    let token = "0123456789abcdef".repeat(4);
    for (path, named, more) in [
        ("/", "/", documents),
        ("/docs", "/docs", documents),
        ("/nothing?access_token=secret", "/nothing", ""),
        ("//oauth2///access_tokens/", "/oauth2/access_tokens", ""),
        (&format!("/oauth2/access_token/{token}"), "/oauth2/access_token/0123...", ""),
        ("/healthz", "/healthz", ""),
        ("/metrics", "/metrics", ""),
        ("/API/kpay/minigame/pay", "/API/kpay/minigame/pay", ""),
        ("/api", "/api", ""),
    ] {
        let answer = till.send(Request::post(path)).await;
        let expected =
            format!(r#"{{"result":10000200,"error_msg":"path: no such endpoint: \"{named}\"{more}"}}"#);
        assert_eq!((answer.status, answer.body), (404, expected), "{path}");
    }
    for (path, named) in [
        ("/api/kpay/minigame", "/api/kpay/minigame"),
        ("/api/a/b/minigame/pay", "/api/a/b/minigame/pay"),
        ("//api//x/", "/api/x"),
    ] {
        let answer = till.send(Request::post(path)).await;
        let expected = format!(r#"{{"code":10000200,"msg":"path: no such endpoint: \"{named}\""}}"#);
        assert_eq!((answer.status, answer.body.as_str()), (404, expected.as_str()), "{path}");
        assert_eq!(answer.header("content-type"), Some("application/json; charset=utf-8"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_over_the_limit_is_413_and_one_at_the_limit_is_read() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100).await;
    let body = Game::new(&app, "o1", "b1", 10).body();
    let padded = |length: usize| format!("{body}&x={}", "y".repeat(length - body.len() - 3));
    let over = till.send(Request::post(PATH).body(padded(65_537))).await;
    assert_eq!(
        (over.status, over.body.as_str()),
        (413, r#"{"code":10000200,"msg":"body: expected at most 65536 bytes"}"#)
    );
    assert_eq!(till.purses(&app, "o1").await, (0, 100, 1));
    assert_eq!(till.send(Request::post(PATH).body(padded(65_536))).await.code(), 1);
    // A body without a length is counted as it comes.
    let mut chunked = format!(
        "POST {PATH} HTTP/1.1\r\nhost: till\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    .into_bytes();
    chunked.extend_from_slice(format!("{:x}\r\n{}\r\n0\r\n\r\n", 70_000, "y".repeat(70_000)).as_bytes());
    assert_eq!(raw(till.address, &chunked).await.status, 413);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_stalls_is_408_and_one_that_ends_early_is_refused_or_dropped() {
    let till = TestTill::start_with(|config| config.http.body_timeout = Duration::from_millis(300)).await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100).await;
    let whole = Game::new(&app, "o1", "b1", 10).request().bytes();
    let half = &whole[..whole.len() - 10];
    let mut stream = TcpStream::connect(till.address).await.unwrap();
    stream.write_all(half).await.unwrap();
    let mut received = Vec::new();
    stream.read_to_end(&mut received).await.unwrap();
    let answer = Answer::parse(&received);
    assert_eq!(
        (answer.status, answer.body.as_str()),
        (408, r#"{"code":10000200,"msg":"body: expected within 0.3 s"}"#)
    );
    let mut stream = TcpStream::connect(till.address).await.unwrap();
    stream.write_all(half).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut received = Vec::new();
    let _ = stream.read_to_end(&mut received).await;
    if !received.is_empty() {
        assert_ne!(Answer::parse(&received).code(), 1);
    }
    assert_eq!(till.purses(&app, "o1").await, (0, 100, 1));
    assert_eq!(raw(till.address, &whole).await.code(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_500_in_the_envelope_and_the_server_goes_on() {
    let till = TestTill::start().await;
    for _ in 0..3 {
        let answer = till.send(Request::post(PANICKING_PATH)).await;
        assert_eq!(
            (answer.status, answer.body.as_str()),
            (500, r#"{"code":10000500,"msg":"system error; send the same request again"}"#)
        );
        assert_eq!(answer.header("content-type"), Some("application/json; charset=utf-8"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_http_is_400_and_a_head_over_the_limit_431() {
    let till = TestTill::start().await;
    assert_eq!(raw(till.address, b"nonsense\r\n\r\n").await.status, 400);
    let long = format!("GET / HTTP/1.1\r\nhost: till\r\nx-long: {}\r\n\r\n", "y".repeat(40_000));
    assert_eq!(raw(till.address, long.as_bytes()).await.status, 431);
    let fits = format!(
        "GET / HTTP/1.1\r\nhost: till\r\nconnection: close\r\nx-long: {}\r\n\r\n",
        "y".repeat(30_000)
    );
    assert_eq!(raw(till.address, fits.as_bytes()).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_id_is_echoed_or_made() {
    let till = TestTill::start().await;
    let sent = till.send(Request::get("/").header("x-request-id", "abc-123")).await;
    assert_eq!(sent.header("x-request-id"), Some("abc-123"));
    for bad in ["", "with space", &"y".repeat(129)] {
        let answer = till.send(Request::get("/").header("x-request-id", bad)).await;
        let made = answer.header("x-request-id").unwrap();
        assert!(made.len() == 32 && made.bytes().all(|byte| byte.is_ascii_hexdigit()), "{made}");
    }
    let first = till.send(Request::get("/")).await;
    assert_ne!(first.header("x-request-id"), till.send(Request::get("/")).await.header("x-request-id"));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_body_is_read_for_a_stranger() {
    let till = TestTill::start().await;
    for path in [REPORT, UPLOAD] {
        let head = format!(
            "POST {path}?app_id=a1&access_token=wrong HTTP/1.1\r\nhost: till\r\ncontent-type: multipart/form-data; boundary=b\r\n\
             content-length: 10485760\r\nexpect: 100-continue\r\n\r\n"
        );
        let mut stream = TcpStream::connect(till.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut received = vec![0; 4096];
        let length = tokio::time::timeout(PATIENCE, stream.read(&mut received)).await.unwrap().unwrap();
        let text = String::from_utf8_lossy(&received[..length]).into_owned();
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "no 100 Continue for a stranger: {text}");
        assert!(text.contains("100200102"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn absolute_targets_pipelining_and_chunked_bodies_are_understood() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100).await;
    let (first, second) = (Game::new(&app, "o1", "b1", 1).body(), Game::new(&app, "o1", "b2", 1).body());
    let bytes = format!(
        "POST http://till.example{PATH} HTTP/1.1\r\nhost: till.example\r\ncontent-length: {}\r\n\r\n{first}\
         POST {PATH} HTTP/1.1\r\nhost: till\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{second}\r\n0\r\n\r\n",
        first.len(),
        second.len()
    );
    let mut stream = TcpStream::connect(till.address).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    let mut received = String::new();
    stream.read_to_string(&mut received).await.unwrap();
    assert_eq!(received.matches(r#"{"code":1,"msg":"SUCCESS""#).count(), 2, "{received}");
    assert_eq!(till.purses(&app, "o1").await, (0, 98, 3));
}

/// A Java client of the platform posts the order report with the credentials in the query. Its JSON
/// is as it maps it: numbers as text, nulls, fields of its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_json_mapper_that_writes_nulls_and_numbers_as_text_is_understood() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 0).await;
    let img_id = till.image(&app).await;
    let body = json!({
        "app_id": "a1", "sign": "ignored", "out_biz_order_no": 12_345_678, "out_order_no": "12345678", "open_id": "o1",
        "order_create_time": "1700000000000", "order_status": "1", "order_path": PAGE, "order_backup_url": "",
        "product_cover_img_id": img_id.as_str(), "poi_id": null, "product_catalog_code": null,
    })
    .to_string();
    let bytes = format!(
        "POST /openapi/mp/developer/order/v1/report?app_id=a1&access_token={} HTTP/1.1\r\nAccept: text/plain, application/json, \
         */*\r\nContent-Type: application/json;charset=UTF-8\r\nUser-Agent: Java/1.8.0_271\r\nHost: till\r\nConnection: \
         close\r\nContent-Length: {}\r\n\r\n{body}",
        app.token,
        body.len()
    );
    raw(till.address, bytes.as_bytes()).await.assert_body(r#"{"result":1,"error_msg":"success"}"#);
    assert_eq!(
        till.number("SELECT count(*) FROM orders WHERE out_biz_order_no = '12345678' AND order_status = 1")
            .await,
        1
    );
}

/// The file upload as real clients send it. They send a slash too many, a multipart body with a
/// part of another name before the file, and quoted names.
#[tokio::test(flavor = "multi_thread")]
async fn an_upload_with_a_doubled_slash_is_understood() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    for path in
        ["/openapi/mp/developer/file//img/uploadWithFile", "//openapi/mp/developer/file/img/uploadWithFile"]
    {
        let mut body = b"------WebKitFormBoundary7MA4YWxkTrZu0gW\r\nContent-Disposition: form-data; name=\"app_id\"\r\n\r\na1\r\n\
            ------WebKitFormBoundary7MA4YWxkTrZu0gW\r\nContent-Disposition: form-data; name=\"file\"; filename=\"cover.PNG\"\r\n\
            Content-Type: image/png\r\n\r\n"
            .to_vec();
        body.extend_from_slice(PICTURE);
        body.extend_from_slice(b"\r\n------WebKitFormBoundary7MA4YWxkTrZu0gW--\r\n");
        let mut bytes = format!(
            "POST {path}?app_id=a1&access_token={} HTTP/1.1\r\nHost: till\r\nConnection: close\r\nContent-Type: \
             multipart/form-data; boundary=----WebKitFormBoundary7MA4YWxkTrZu0gW\r\nContent-Length: {}\r\n\r\n",
            app.token,
            body.len()
        )
        .into_bytes();
        bytes.extend_from_slice(&body);
        assert_eq!(raw(till.address, &bytes).await.code(), 1, "{path}");
    }
}
