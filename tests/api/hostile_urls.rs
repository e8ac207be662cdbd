//! Every URL of `tests/urls/hostile.json` through the whole service (contract 5.3).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::net::TcpListener;

use crate::support::{Answer, Request, TestApp, TestTill, encoded, until};

pub(crate) const HOSTILE: &str = include_str!("../urls/hostile.json");
const REFUSED: &str =
    r#"{"result":10000419,"error_msg":"url: expected a picture on a public http or https address"}"#;

/// Counts who connects to any address of this machine on a port; answers nobody.
pub(crate) async fn inside() -> (u16, Arc<AtomicUsize>) {
    let connections = Arc::new(AtomicUsize::new(0));
    let every = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let port = every.local_addr().unwrap().port();
    let mut listeners = vec![every];
    // A machine without IPv6 has nothing to connect to there.
    listeners.extend(TcpListener::bind(format!("[::1]:{port}")).await);
    for listener in listeners {
        let connections = Arc::clone(&connections);
        tokio::spawn(async move {
            while listener.accept().await.is_ok() {
                connections.fetch_add(1, Ordering::SeqCst);
            }
        });
    }
    (port, connections)
}

async fn ask(till: &TestTill, app: &TestApp, url: &str) -> Answer {
    let query = format!("app_id={}&access_token={}&url={}", app.id, app.token, encoded(url));
    till.send(Request::post(&format!("/openapi/mp/developer/file/img/uploadWithUrl?{query}"))).await
}

/// Rule (contract 5.3.14): every refusal is 10000419 with the same bytes, and makes no connection inside.
#[tokio::test(flavor = "multi_thread")]
async fn every_hostile_url_is_refused_alike_and_reaches_nothing() {
    let (port, connections) = inside().await;
    let till = TestTill::start_with(|config| {
        config.fetch.ports = vec![port];
        config.fetch.timeout = Duration::from_secs(2);
    })
    .await;
    let app = till.app("a1").await;
    let urls: Vec<String> = serde_json::from_str(HOSTILE).unwrap();
    assert!(urls.len() >= 150, "{}", urls.len());
    for url in urls {
        let url = url.replace("{port}", &port.to_string());
        let answer = ask(&till, &app, &url).await;
        // NUL is refused where fields are read, before there is a URL.
        let expected = if url.contains('\0') {
            r#"{"result":10000200,"error_msg":"url: expected text without NUL characters"}"#
        } else {
            REFUSED
        };
        assert_eq!((answer.status, answer.body.as_str()), (200, expected), "{url:?}");
    }
    assert_eq!(connections.load(Ordering::SeqCst), 0);
    assert_eq!(till.number("SELECT count(*) FROM images").await, 0);
    // The listener counts: without the guard there would have been connections.
    drop(tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap());
    until("it was counted", async || connections.load(Ordering::SeqCst) == 1).await;
}
