//! The pooled client of strangers' URLs.

use std::sync::atomic::{AtomicUsize, Ordering};

use hyper::{HeaderMap, StatusCode};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;

use super::secure::{all_is_local, secure_origin, tests_authority};
use super::services::Closing;
use super::*;

impl GuardedClient {
    async fn ask(&self, url: &str) -> Result<GuardedAnswer, FetchError> {
        ending(self.post(&self.url(url)?, HeaderMap::new(), body(b"question"), NEVER, 100)).await
    }

    /// Status and body of an answer.
    async fn answer(&self, url: &str) -> Result<(u16, Bytes), FetchError> {
        self.ask(url).await.map(|answer| (answer.status.as_u16(), answer.body))
    }
}

fn client(origins: &[&Origin]) -> GuardedClient {
    GuardedClient::new(settings(origins))
}

/// A client that asks this resolver and trusts the tests' authority.
fn resolving(settings: FetchSettings, look_up: LookUp) -> GuardedClient {
    GuardedClient::with(settings, Resolver::asking(look_up), tests_authority())
}

/// A client that may connect to a service of the tests.
fn client_of(service: &Closing) -> GuardedClient {
    let port = service.url.trim_end_matches('/').rsplit(':').next().unwrap().parse().unwrap();
    GuardedClient::new(FetchSettings { ports: vec![port], ..settings(&[]) })
}

/// Rule (contract 12.4.10): the request, byte for byte: no cookies, nothing of earlier requests.
#[tokio::test]
async fn the_request_byte_for_byte() {
    let origin = Origin::always(Reply::head("204 No Content", "")).await;
    let headers = HeaderMap::from_iter([(hyper::header::ACCEPT, "text/plain".parse().unwrap())]);
    let url = origin.url("/a/b?c=d&e#fragment");
    let client = client(&[&origin]);
    let url = client.url(&url).unwrap();
    let answer = client.post(&url, headers, body(b"question"), NEVER, 100).await.unwrap();
    assert_eq!((answer.status, answer.body.len()), (StatusCode::NO_CONTENT, 0));
    let expected = format!(
        "POST /a/b?c=d&e HTTP/1.1\r\nhost: {}\r\naccept: text/plain\r\ncontent-length: 8\r\n\r\n",
        origin.address
    );
    assert_eq!(origin.requests(), [expected]);
}

/// Rule (contract 12.4.10): nothing is connected to whose address is neither public nor allowed, in whatever spelling, nor
/// on another port.
#[tokio::test]
async fn what_is_not_allowed_is_not_connected_to() {
    let origin = Origin::always(Reply::ok(b"secret")).await;
    let port = origin.address.port();
    let guarded = GuardedClient::new(FetchSettings { allow_networks: vec![], ..settings(&[&origin]) });
    for host in
        ["127.0.0.1", "127.1", "2130706433", "0x7f.1", "localhost", "[::ffff:127.0.0.1]", "0", "[::1]"]
    {
        let url = format!("http://{host}:{port}/");
        guarded.url(&url).unwrap();
        let found = guarded.answer(&url).await;
        assert!(
            matches!(found, Err(FetchError::AddressNotPublic | FetchError::NameNotFound)),
            "{host}: {found:?}"
        );
    }
    let other_port = GuardedClient::new(FetchSettings { ports: vec![80, 443], ..settings(&[&origin]) });
    for (url, expected) in [
        (origin.url("/"), FetchError::Port),
        (format!("ftp://127.0.0.1:{port}/"), FetchError::Scheme),
        ("http://user@127.0.0.1/".to_owned(), FetchError::UserInfo),
        ("/".to_owned(), FetchError::Url),
    ] {
        assert_eq!(other_port.url(&url).err(), Some(expected), "{url}");
        assert_eq!(other_port.answer(&url).await, Err(expected), "{url}");
    }
    assert_eq!(origin.connections(), 0);
}

/// Rule (contract 12.4.10): a name with any forbidden address is refused. Each new connection is judged anew, so a name
/// that leads inside later (rebinding) is refused then.
#[tokio::test]
async fn names_are_judged_at_each_connection() {
    let origin = Origin::always(Reply::head("200 OK", "content-length: 0\r\nconnection: close\r\n")).await;
    let port = origin.address.port();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let look_up: LookUp = Arc::new(move |name, port| {
        let first = count.fetch_add(1, Ordering::SeqCst) == 0;
        let addresses: &[[u8; 4]] = match name.as_str() {
            "mixed.example" => &[[127, 0, 0, 1], [127, 0, 0, 2]],
            _ if first => &[[127, 0, 0, 1]],
            _ => &[[127, 0, 0, 2]],
        };
        Box::pin(async move { Ok(addresses.iter().map(|ip| SocketAddr::from((*ip, port))).collect()) })
    });
    let client = resolving(settings(&[&origin]), look_up);
    let turning = format!("http://turning.example:{port}/");
    assert_eq!(client.answer(&turning).await, Ok((200, body(b""))));
    assert_eq!(client.answer(&turning).await, Err(FetchError::AddressNotPublic));
    let mixed = client.answer(&format!("http://mixed.example:{port}/")).await;
    assert_eq!(mixed, Err(FetchError::AddressNotPublic));
    assert_eq!((origin.connections(), asked.load(Ordering::SeqCst)), (1, 3));
}

/// Rule: any status is an answer, with its headers and the beginning of its body, as it came.
#[tokio::test]
async fn any_status_is_an_answer() {
    for status in [200, 201, 302, 404, 410, 500, 599] {
        let head = format!("{status} x");
        let reply = Reply::head(&head, "content-length: 4\r\ncontent-encoding: gzip\r\nretry-after: 7\r\n");
        let origin = Origin::always(reply.and(b"\0\xff{}")).await;
        let answer = client(&[&origin]).ask(&origin.url("/")).await.unwrap();
        assert_eq!((answer.status.as_u16(), &answer.body[..]), (status, &b"\0\xff{}"[..]));
        assert_eq!(answer.headers["retry-after"], "7");
    }
}

/// Rule: the body is cut, and what is too long or never ends is not waited for.
#[tokio::test]
async fn the_beginning_of_the_body_is_read() {
    let whole = Origin::always(Reply::ok(&[b'x'; 100])).await;
    let longer = Origin::always(Reply::ok(&[b'x'; 101])).await;
    let endless = Reply::head("500 x", "transfer-encoding: chunked\r\n");
    let endless = Origin::always(endless.then_repeat(b"3\r\nxxx\r\n", Duration::ZERO)).await;
    let cut = Origin::always(Reply::head("200 OK", "content-length: 9\r\n").and(b"abc").then_cut()).await;
    let client = client(&[&whole, &longer, &endless, &cut]);
    for (origin, status) in [(&whole, 200), (&longer, 200), (&endless, 500)] {
        assert_eq!(client.answer(&origin.url("/")).await, Ok((status, Bytes::from(vec![b'x'; 100]))));
    }
    assert_eq!(client.answer(&cut.url("/")).await, Ok((200, body(b"abc"))));
    // A body that is left unread ends its connection.
    endless.until_closed().await;
}

/// Rule: the time bounds the call. A status that came in time is an answer with as much of the body as came.
#[tokio::test]
async fn the_time_bounds_the_call() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    // It sends nothing more, and never closes.
    let part = Reply::head("202 x", "content-length: 9\r\n").and(b"ab").then_repeat(b"", SHORT);
    let slow = Origin::always(part).await;
    let client = GuardedClient::new(FetchSettings {
        ports: vec![address.port(), slow.address.port()],
        ..settings(&[])
    });
    let started = Instant::now();
    let url = client.url(&format!("http://{address}/")).unwrap();
    let late = client.post(&url, HeaderMap::new(), body(b"question"), SHORT, 100);
    assert_eq!(ending(late).await.unwrap_err(), FetchError::TimedOut);
    let (mut stream, _) = ending(silent.accept()).await.unwrap();
    // A request that is given up ends its connection.
    let _ = ending(stream.read_to_end(&mut Vec::new())).await;
    let url = client.url(&slow.url("/")).unwrap();
    // The status must come in that time.
    let part = client.post(&url, HeaderMap::new(), body(b"question"), SHORT * 5, 100);
    let answer = ending(part).await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.body), (202, body(b"ab")));
    assert!(started.elapsed() >= SHORT * 6);
}

/// Rule: a redirect is an answer like any other. Nobody asks where it leads.
#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = Origin::always(Reply::ok(b"secret")).await;
    let origin = Origin::always(Reply::redirect("307 Temporary Redirect", &elsewhere.url("/"))).await;
    let answer = client(&[&origin, &elsewhere]).ask(&origin.url("/")).await.unwrap();
    assert_eq!(answer.status, StatusCode::TEMPORARY_REDIRECT);
    assert_eq!((origin.connections(), elsewhere.connections()), (1, 0));
}

/// Rule: requests to one host use one connection, one after the other. Another client has its own.
#[tokio::test]
async fn a_connection_is_used_again() {
    let service = Closing::after(100).await;
    let client = client_of(&service);
    for _ in 0..5 {
        assert_eq!(client.answer(&service.url).await, Ok((200, body(b"answer"))));
    }
    assert_eq!(service.seen(), (1, 5));
    assert_eq!(client_of(&service).answer(&service.url).await, Ok((200, body(b"answer"))));
    assert_eq!(service.seen(), (2, 6));
}

/// Rule: a request whose kept connection turns out to be closed is sent once more; one on a new connection is not.
#[tokio::test]
async fn a_closed_connection_costs_no_answer() {
    let service = Closing::after(1).await;
    let client = client_of(&service);
    for _ in 0..3 {
        assert_eq!(client.answer(&service.url).await, Ok((200, body(b"answer"))));
    }
    assert_eq!(service.seen(), (3, 5));
    let broken = Closing::after(0).await;
    assert_eq!(client_of(&broken).answer(&broken.url).await, Err(FetchError::Broken));
    assert_eq!(broken.seen(), (1, 1));
}

/// Rule (contract 12.4.10): https needs a certificate that names the host. Without one nothing is sent.
#[tokio::test]
async fn https_needs_a_certificate_that_names_the_host() {
    let origin = secure_origin().await;
    let port = origin.address.port();
    let client = resolving(settings(&[&origin]), all_is_local());
    let ask = async |host: &str| client.answer(&format!("https://{host}:{port}/")).await;
    assert_eq!(ask("other.example").await, Err(FetchError::Tls));
    assert_eq!(origin.requests(), Vec::<String>::new(), "nothing was sent");
    assert_eq!(ask("pictures.example").await, Ok((200, body(b"picture"))));
}

/// Rule: causes of what is no answer.
#[tokio::test]
async fn causes() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let large = Reply::head("200 OK", &format!("x: {}\r\n", "x".repeat(300_000)));
    let large = Origin::always(large).await;
    let no_http = Origin::always(Reply::raw("what?\r\n\r\n")).await;
    let client = GuardedClient::new(FetchSettings {
        ports: vec![closed.port(), large.address.port(), no_http.address.port()],
        ..settings(&[])
    });
    for (url, expected) in [
        (format!("http://{closed}/"), FetchError::ConnectFailed),
        (format!("http://name.invalid:{}/", closed.port()), FetchError::NameNotFound),
        (large.url("/"), FetchError::HeaderTooLarge),
        (no_http.url("/"), FetchError::Broken),
    ] {
        assert_eq!(client.answer(&url).await, Err(expected), "{url}");
    }
}

/// A task can await a call on any thread.
#[test]
fn a_call_is_send() {
    fn send<T: Send>(_: &T) {}
    let client = GuardedClient::new(FetchSettings { ports: vec![80], ..settings(&[]) });
    let url = client.url("http://a.example/").unwrap();
    send(&client.post(&url, HeaderMap::new(), Bytes::new(), NEVER, 1));
}
