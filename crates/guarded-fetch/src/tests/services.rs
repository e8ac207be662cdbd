//! The pooled client of services.

use std::sync::atomic::{AtomicUsize, Ordering};

use hyper::HeaderMap;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::secure::{all_is_local, secure_origin, tests_authority};
use super::*;

fn local(tls: Tls) -> ServiceClient {
    ServiceClient::with(Resolver::asking(all_is_local()), tls)
}

async fn post(client: &ServiceClient, url: &str) -> Result<Bytes, FetchError> {
    let url = ServiceUrl::parse(url).unwrap();
    ending(client.post(&url, HeaderMap::new(), body(b"question"), NEVER, 100)).await
}

/// A service that answers `answers` requests on each connection, says nothing of closing it, and
/// closes it when it has read one request more.
pub(super) struct Closing {
    pub(super) url: String,
    connections: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
}

impl Closing {
    pub(super) async fn after(answers: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let service = Self { url, connections: Arc::default(), requests: Arc::default() };
        let (connections, requests) = (Arc::clone(&service.connections), Arc::clone(&service.requests));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream, answers, Arc::clone(&requests)));
            }
        });
        service
    }

    /// Connections and requests that came.
    pub(super) fn seen(&self) -> (usize, usize) {
        (self.connections.load(Ordering::SeqCst), self.requests.load(Ordering::SeqCst))
    }
}

async fn serve(mut stream: TcpStream, answers: usize, requests: Arc<AtomicUsize>) {
    for number in 0..=answers {
        let mut request = Vec::new();
        while !request.ends_with(b"question") {
            let Ok(1..) = stream.read_buf(&mut request).await else { return };
        }
        requests.fetch_add(1, Ordering::SeqCst);
        if number == answers {
            return;
        }
        // Old servers write a blank before the colon, and fold lines.
        let head = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\nx-blank : 1\r\nx-folded: one\r\n two\r\n\r\n";
        stream.write_all(&[&head[..], b"answer"].concat()).await.unwrap();
    }
}

/// Rule: requests to one host use one connection, one after the other.
#[tokio::test]
async fn a_connection_is_used_again() {
    let service = Closing::after(100).await;
    let client = local(Tls::default());
    for _ in 0..5 {
        assert_eq!(post(&client, &service.url).await, Ok(body(b"answer")));
    }
    assert_eq!(service.seen(), (1, 5));
}

/// Rule: a service that closes a pooled connection while it gets a request costs no request its
/// answer. The request is sent once more, on a new connection.
#[tokio::test]
async fn a_request_on_a_closed_connection_is_sent_once_more() {
    let service = Closing::after(1).await;
    let client = local(Tls::default());
    for _ in 0..3 {
        assert_eq!(post(&client, &service.url).await, Ok(body(b"answer")));
    }
    assert_eq!(service.seen(), (3, 5));
}

/// Rule: a request on a new connection is sent once, whatever becomes of it.
#[tokio::test]
async fn a_request_on_a_new_connection_is_sent_once() {
    let service = Closing::after(0).await;
    assert_eq!(post(&local(Tls::default()), &service.url).await, Err(FetchError::Broken));
    assert_eq!(service.seen(), (1, 1));
}

/// Rule: a service on https must have a certificate that names it, on any port and any address.
/// Without one nothing is sent.
#[tokio::test]
async fn a_service_on_https() {
    let origin = secure_origin().await;
    let port = origin.address.port();
    let call =
        async |host: &str, tls: Tls| post(&local(tls), &format!("https://{host}:{port}/judge#no")).await;
    assert_eq!(call("other.example", tests_authority()).await, Err(FetchError::Tls));
    assert_eq!(call("pictures.example", Tls::without_store()).await, Err(FetchError::NoCertificateStore));
    assert_eq!(origin.requests(), Vec::<String>::new(), "nothing was sent");
    assert_eq!(call("pictures.example", tests_authority()).await, Ok(body(b"picture")));
    let expected =
        format!("POST /judge HTTP/1.1\r\nhost: pictures.example:{port}\r\ncontent-length: 8\r\n\r\n");
    assert_eq!(origin.requests(), [expected]);
}

/// Rule: the errors of a service have causes of their own.
#[tokio::test]
async fn causes() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let system = ServiceClient::default();
    assert_eq!(post(&system, &format!("http://{closed}/")).await, Err(FetchError::ConnectFailed));
    assert_eq!(post(&system, "http://name.invalid/").await, Err(FetchError::NameNotFound));
    let large = Origin::always(Reply::ok(&[b'x'; 101])).await;
    assert_eq!(post(&system, &large.url("/")).await, Err(FetchError::TooLarge));
    let unwell = Origin::always(Reply::head("500 x", "content-length: 1\r\n").and(b"x")).await;
    assert_eq!(post(&system, &unwell.url("/")).await, Err(FetchError::Status));
    let away = Origin::always(Reply::redirect("302 Found", "/")).await;
    assert_eq!(post(&system, &away.url("/")).await, Err(FetchError::Status));
    let hanging = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = ServiceUrl::parse(&format!("http://{}/", hanging.local_addr().unwrap())).unwrap();
    let late = system.post(&url, HeaderMap::new(), body(b"question"), SHORT, 100).await;
    assert_eq!(late, Err(FetchError::TimedOut));
    let (mut stream, _) = ending(hanging.accept()).await.unwrap();
    // A request that is given up ends its connection.
    let _ = ending(stream.read_to_end(&mut Vec::new())).await;
}

/// Rule: the URL of a service has a scheme of HTTP and a host, no user, and is never printed.
#[test]
fn urls_of_services() {
    for text in ["10.0.0.7:8090", "ftp://a.example/", "http://u:p@a.example/", "/judge", "http://"] {
        assert!(ServiceUrl::parse(text).is_err(), "{text}");
    }
    let url = ServiceUrl::parse("http://[::1]:8090/secret path?a|{b}=\"ü#x").unwrap();
    assert_eq!(url.uri(), "http://[::1]:8090/secret%20path?a|{b}=%22%C3%BC");
    assert_eq!(format!("{url:?}"), "ServiceUrl(..)");
}
