//! Tests of the server through raw sockets. A test shortens the one time limit that it is about. So
//! an operation that ends can have ended by that limit alone, however slow the machine is.

mod connection_slots;
mod drain;
mod time_limits;
mod tls;

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Extension;
use axum::http::StatusCode;
use axum::routing::{get, post};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::progress::{Peer, SharedProgress};
use crate::socket::Socket;
use crate::tracked_tcp::TrackedTcp;
use crate::{Drained, OpenConnections, ServerLimits, serve};

/// Ends a test that hangs. Nothing is judged by it.
const PATIENCE: Duration = Duration::from_mins(1);
/// A time limit that no test reaches.
const NEVER: Duration = Duration::from_hours(1);
/// A time limit that a test waits for.
const SHORT: Duration = Duration::from_millis(400);
const LARGE_BYTES: usize = 24 * 1024 * 1024;
const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: server\r\n\r\n";
const GET_GATED: &[u8] = b"GET /gated HTTP/1.1\r\nHost: server\r\n\r\n";

/// Limits as a server in production may have them.
pub(crate) const LIMITS: ServerLimits = ServerLimits {
    header_bytes_max: 32 * 1024,
    header_timeout: Duration::from_secs(10),
    keep_alive_timeout: Duration::from_secs(75),
    write_timeout: Duration::from_secs(30),
    request_bytes_max: 11_000_000,
    connections_max: 10_000,
    connections_per_address_max: 1_024,
    unlimited_networks: Vec::new(),
    drain_timeout: Duration::from_secs(30),
};

/// Limits of which no time passes.
fn patient() -> ServerLimits {
    ServerLimits {
        header_timeout: NEVER,
        keep_alive_timeout: NEVER,
        write_timeout: NEVER,
        drain_timeout: NEVER,
        ..LIMITS
    }
}

/// A server for one test; `gate` holds back the handler of `/gated`.
struct TestServer {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    gate: watch::Sender<bool>,
    entered: watch::Receiver<u32>,
    served: JoinHandle<std::io::Result<Drained>>,
    open: OpenConnections,
}

impl TestServer {
    async fn open(limits: ServerLimits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::open_on(listener, limits)
    }

    fn open_on(listener: TcpListener, limits: ServerLimits) -> Self {
        let address = listener.local_addr().unwrap();
        let (stop, shutdown) = watch::channel(false);
        let (gate, opened) = watch::channel(false);
        let (enter, entered) = watch::channel(0);
        let open = OpenConnections::default();
        let served =
            tokio::spawn(serve(listener, None, router(opened, enter), limits, open.clone(), shutdown));
        Self { address, stop, gate, entered, served, open }
    }

    /// A server, and a connection to it that has had one answer and is idle. The request waits before the server
    /// does, so no limit of a new connection can pass.
    async fn open_with_idle(limits: ServerLimits) -> (Self, TcpStream) {
        let (server, mut client) = Self::open_with(limits, GET).await;
        assert!(read_answer(&mut client).await.ends_with("hello"));
        (server, client)
    }

    /// A server, and a connection to it on which these bytes were sent before the server accepted it.
    async fn open_with(limits: ServerLimits, bytes: &[u8]) -> (Self, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        client.write_all(bytes).await.unwrap();
        (Self::open_on(listener, limits), client)
    }

    async fn connect(&self) -> TcpStream {
        within(TcpStream::connect(self.address)).await.unwrap()
    }

    /// A connection that has had one answer and is idle.
    async fn connect_idle(&self) -> TcpStream {
        let mut client = self.connect().await;
        client.write_all(GET).await.unwrap();
        assert!(read_answer(&mut client).await.ends_with("hello"));
        client
    }

    async fn wait_until_entered(&mut self) {
        within(self.entered.wait_for(|count| *count > 0)).await.unwrap();
    }

    fn stop(&self) {
        self.stop.send(true).unwrap();
    }

    async fn drained(self) -> Drained {
        within(self.served).await.unwrap().unwrap()
    }
}

fn router(opened: watch::Receiver<bool>, enter: watch::Sender<u32>) -> Router {
    Router::new()
        .route("/", get(|| async { "hello" }))
        .route(
            "/gated",
            get(move || async move {
                enter.send_modify(|count| *count += 1);
                opened.clone().wait_for(|open| *open).await.unwrap();
                "gated"
            }),
        )
        .route("/never", get(|| async { std::future::pending::<&str>().await }))
        .route("/large", get(|| async { vec![b'a'; LARGE_BYTES] }))
        .route("/peer", get(|Extension(peer): Extension<Peer>| async move { peer.address().to_string() }))
        .route(
            "/until-closed",
            get(|Extension(peer): Extension<Peer>| async move {
                peer.closed().await;
                "closed"
            }),
        )
        .route("/panic", get(|| async { panic!("on purpose") as &str }))
        .route("/refuse", post(|| async { (StatusCode::PAYLOAD_TOO_LARGE, "refused") }))
        .route(
            "/length",
            post(|body: Body| async move { to_bytes(body, usize::MAX).await.unwrap().len().to_string() }),
        )
}

async fn within<F: Future>(step: F) -> F::Output {
    timeout(PATIENCE, step).await.expect("the step ends")
}

/// Waits until this many connections are open.
async fn until_open(open: &OpenConnections, count: usize) {
    let reached = async {
        while open.now() != count {
            sleep(Duration::from_millis(5)).await;
        }
    };
    within(reached).await;
}

/// One answer, head and body, as text. It must have a content length.
async fn read_answer(client: &mut (impl AsyncRead + Unpin)) -> String {
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(within(client.read_u8()).await.expect("an answer comes"));
    }
    let head = String::from_utf8(answer).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    within(client.read_exact(&mut body)).await.unwrap();
    head + &String::from_utf8(body).unwrap()
}

/// All bytes until the server closes. A reset counts as a close.
async fn read_until_closed(client: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = within(client.read_to_end(&mut bytes)).await;
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn pipelined_requests_are_all_answered_in_order() {
    let server = TestServer::open(patient()).await;
    let mut client = server.connect().await;
    let post = b"POST /length HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc";
    client.write_all(&[GET, post, GET].concat()).await.unwrap();
    assert!(read_answer(&mut client).await.ends_with("hello"));
    assert!(read_answer(&mut client).await.ends_with("\r\n\r\n3"));
    assert!(read_answer(&mut client).await.ends_with("hello"));
}

/// A refusal may come before the body is read. A client that sends its whole body before it reads
/// still gets that refusal.
#[tokio::test]
async fn a_refusal_reaches_a_client_that_sends_its_body_first() {
    let server = TestServer::open(patient()).await;
    for length in ["Content-Length: 5000000", "Transfer-Encoding: chunked"] {
        let mut client = server.connect().await;
        let head = format!("POST /refuse HTTP/1.1\r\nHost: server\r\n{length}\r\n\r\n4c4b40\r\n");
        client.write_all(head.as_bytes()).await.unwrap();
        sleep(Duration::from_millis(50)).await;
        within(client.write_all(&vec![b'a'; 5_000_000])).await.expect("the whole body is taken");
        let answer = read_until_closed(&mut client).await;
        assert!(answer.starts_with("HTTP/1.1 413 ") && answer.ends_with("refused"), "{answer}");
        assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
    }
}

/// The limit counts what hyper has read as well. The connection stays open after it, so that no
/// reset destroys the answer.
#[tokio::test]
async fn eleven_megabytes_of_a_request_are_read_and_no_more() {
    for read_before in [0, 4_000_000] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let progress = SharedProgress::new(Instant::now());
        let tcp = Box::new(TrackedTcp::new(stream, progress.clone(), false));
        let mut socket = Socket::new(tcp, progress.clone(), 11_000_000);
        let sending = tokio::spawn(async move { client.write_all(&vec![b'a'; 40_000_000]).await.is_ok() });
        within(socket.read_exact(&mut vec![0; read_before])).await.unwrap();
        let all_read = async {
            while progress.lock().request_bytes() < 11_000_000 {
                sleep(Duration::from_millis(5)).await;
            }
            // It would read more now, if it read more.
            sleep(Duration::from_millis(100)).await;
        };
        tokio::select! {
            _ = socket.shutdown() => panic!("it waits for the client"),
            () = within(all_read) => {}
        }
        let bytes = progress.lock().request_bytes();
        assert!((11_000_000..11_010_000).contains(&bytes), "{bytes}");
        assert!(!sending.is_finished(), "nothing was reset");
        drop(socket);
        assert!(!within(sending).await.unwrap(), "not all was taken");
    }
}

#[tokio::test]
async fn what_is_too_large_or_unreadable_is_refused_before_there_is_a_request() {
    let server = TestServer::open(patient()).await;
    let too_large = format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "a".repeat(32 * 1024));
    let too_many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: a\r\n".repeat(101));
    let fits = format!("GET / HTTP/1.1\r\nConnection: close\r\nA: {}\r\n\r\n", "a".repeat(32_000));
    for (request, status) in [
        (too_large.as_str(), "431"),
        (too_many.as_str(), "431"),
        (fits.as_str(), "200"),
        ("what is this\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nno colon\r\n\r\n", "400"),
        ("POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n", "400"),
    ] {
        let mut client = server.connect().await;
        client.write_all(request.as_bytes()).await.unwrap();
        let mut status_line = [0; 12];
        within(client.read_exact(&mut status_line)).await.unwrap();
        assert_eq!(std::str::from_utf8(&status_line).unwrap(), format!("HTTP/1.1 {status}"), "{request:.40}");
    }
}

/// A client that begins with HTTP/2 without asking is answered, and not only cut off.
#[tokio::test]
async fn a_client_of_http_2_is_answered() {
    let server = TestServer::open(patient()).await;
    let mut client = server.connect().await;
    client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    let answer = read_until_closed(&mut client).await;
    assert_eq!(answer, "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
}

/// A proxy may read such a head otherwise, so it ends the connection, also behind another request. No handler gets it.
#[tokio::test]
async fn a_head_that_others_may_read_otherwise_is_refused() {
    let server = TestServer::open(patient()).await;
    let post = |lines: &str| format!("POST /length HTTP/1.1\r\n{lines}");
    for (request, status) in [
        (post("Host: a\nContent-Length: 3\r\n\r\nabc"), "400 Bad Request"),
        (post("Content-Length: 3\r\n\nabc"), "400 Bad Request"),
        ("GET / HTTP/1.1\nHost: a\n\n".to_owned(), "400 Bad Request"),
        (post("Transfer-Encoding: gzip\r\n\r\n3\r\nabc\r\n0\r\n\r\n"), "501 Not Implemented"),
        (post("transfer-encoding: gzip, chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"), "501 Not Implemented"),
        (post("Transfer-Encoding: identity\r\nContent-Length: 3\r\n\r\nabc"), "501 Not Implemented"),
        (
            post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
            "501 Not Implemented",
        ),
    ] {
        let mut client = server.connect().await;
        client.write_all(request.as_bytes()).await.unwrap();
        let answer = read_until_closed(&mut client).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}\r\nconnection: close\r\n")),
            "{request:?}: {answer}"
        );
        assert!(answer.ends_with("\r\n\r\n"), "{request:?}: {answer}");
        // Behind another request, in the same piece.
        let mut client = server.connect().await;
        client.write_all(&[GET, request.as_bytes()].concat()).await.unwrap();
        assert!(read_answer(&mut client).await.ends_with("hello"));
        let answer = read_until_closed(&mut client).await;
        let refused = [format!("HTTP/1.1 {status}\r\n"), "HTTP/1.1 400 Bad Request\r\n".to_owned()];
        assert!(refused.iter().any(|refused| answer.starts_with(refused)), "{request:?}: {answer}");
        assert!(answer.contains("connection: close\r\n"), "{request:?}: {answer}");
        // Behind a chunked request, and behind another that came in one piece with it.
        let chunked = post("Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
        let trailers = post("Transfer-Encoding: chunked\r\n\r\n0\r\nX: 1\n\r\nY: 2\r\n\r\n");
        for before in [chunked.as_bytes(), trailers.as_bytes(), &[chunked.as_bytes(), GET].concat()] {
            let mut client = server.connect().await;
            client.write_all(&[before, request.as_bytes()].concat()).await.unwrap();
            client.shutdown().await.unwrap();
            let answers = read_until_closed(&mut client).await;
            let answered = answers.matches("HTTP/1.1 200 OK\r\n").count();
            assert_eq!(answered, before.windows(8).filter(|bytes| bytes == b"HTTP/1.1").count(), "{answers}");
            let answer = answers.rsplit_once("HTTP/1.1 ").unwrap().1;
            let answer = format!("HTTP/1.1 {answer}");
            assert!(refused.iter().any(|refused| answer.starts_with(refused)), "{request:?}: {answer}");
        }
    }
    let mut client = server.connect().await;
    client
        .write_all(post("TRANSFER-ENCODING: Chunked\r\n\r\n3\r\na\nb\r\n0\r\n\r\n").as_bytes())
        .await
        .unwrap();
    assert!(read_answer(&mut client).await.ends_with("\r\n\r\n3"), "a line feed in a body is no fault");
}

/// The bytes behind a head that is far too long do not destroy the answer.
#[tokio::test]
async fn a_refused_head_of_a_megabyte_gets_its_answer() {
    let server = TestServer::open(patient()).await;
    let mut client = server.connect().await;
    let request = format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "a".repeat(1024 * 1024));
    within(client.write_all(request.as_bytes())).await.unwrap();
    assert!(read_until_closed(&mut client).await.starts_with("HTTP/1.1 431 "));
}

#[tokio::test]
async fn a_body_is_asked_for_when_the_handler_reads_it() {
    let server = TestServer::open(patient()).await;
    let expecting = "HTTP/1.1\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n";
    let mut client = server.connect().await;
    client.write_all(format!("POST /length {expecting}").as_bytes()).await.unwrap();
    let mut interim = [0; 25];
    within(client.read_exact(&mut interim)).await.unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    client.write_all(b"abc").await.unwrap();
    assert!(read_answer(&mut client).await.ends_with("\r\n\r\n3"));

    let mut client = server.connect().await;
    client.write_all(format!("POST /refuse {expecting}").as_bytes()).await.unwrap();
    assert!(read_answer(&mut client).await.starts_with("HTTP/1.1 413 "), "refused without asking");
}

#[tokio::test]
async fn http_1_0_is_answered_and_closed() {
    let server = TestServer::open(patient()).await;
    let mut client = server.connect().await;
    client.write_all(b"GET / HTTP/1.0\r\n\r\n").await.unwrap();
    let answer = read_until_closed(&mut client).await;
    assert!(answer.starts_with("HTTP/1.0 200 ") && answer.ends_with("hello"), "{answer}");
}

#[tokio::test]
async fn an_absolute_url_as_request_target_finds_its_route() {
    let server = TestServer::open(patient()).await;
    let mut client = server.connect().await;
    client.write_all(b"GET http://till.example:8080/ HTTP/1.1\r\nHost: server\r\n\r\n").await.unwrap();
    assert!(read_answer(&mut client).await.ends_with("hello"));
}

#[tokio::test]
async fn a_request_knows_its_peer() {
    let server = TestServer::open(patient()).await;
    let mut client = server.connect().await;
    client.write_all(b"GET /peer HTTP/1.1\r\n\r\n").await.unwrap();
    let address = client.local_addr().unwrap().to_string();
    assert!(read_answer(&mut client).await.ends_with(&address));
}

#[tokio::test]
async fn a_client_that_closes_its_write_side_gets_its_answer() {
    let mut server = TestServer::open(patient()).await;
    let mut client = server.connect().await;
    client.write_all(GET_GATED).await.unwrap();
    client.shutdown().await.unwrap();
    server.wait_until_entered().await;
    sleep(Duration::from_millis(50)).await;
    server.gate.send(true).unwrap();
    assert!(read_until_closed(&mut client).await.ends_with("gated"));
}

/// Rule: a handler learns that the peer has closed its side, also behind bytes that nobody has read. It may still answer.
#[tokio::test]
async fn a_handler_learns_that_its_peer_has_closed() {
    let server = TestServer::open(patient()).await;
    let get = b"GET /until-closed HTTP/1.1\r\n\r\n";
    let mut client = server.connect().await;
    client.write_all(get).await.unwrap();
    let mut answer = [0; 1];
    assert!(timeout(SHORT, client.read_exact(&mut answer)).await.is_err(), "it is there");
    client.shutdown().await.unwrap();
    assert!(read_until_closed(&mut client).await.ends_with("closed"));
    let mut gone = server.connect().await;
    gone.write_all(&[get, GET].concat()).await.unwrap();
    until_open(&server.open, 1).await;
    drop(gone);
    until_open(&server.open, 0).await;
}

#[tokio::test]
async fn a_panic_ends_its_own_connection_alone() {
    let server = TestServer::open(patient()).await;
    let mut other = server.connect_idle().await;
    let mut client = server.connect().await;
    client.write_all(b"GET /panic HTTP/1.1\r\n\r\n").await.unwrap();
    assert_eq!(read_until_closed(&mut client).await, "");
    other.write_all(GET).await.unwrap();
    assert!(read_answer(&mut other).await.ends_with("hello"));
    server.connect_idle().await;
}

#[tokio::test]
async fn a_connection_over_the_cap_waits_and_is_served() {
    let server = TestServer::open(ServerLimits { connections_max: 2, ..patient() }).await;
    let first = server.connect_idle().await;
    let mut second = server.connect_idle().await;
    let mut third = server.connect().await;
    third.write_all(GET).await.unwrap();
    let early = timeout(Duration::from_millis(200), third.read_u8()).await;
    assert!(early.is_err(), "served over the cap");
    second.write_all(GET).await.unwrap();
    assert!(read_answer(&mut second).await.ends_with("hello"));
    drop(first);
    assert!(read_answer(&mut third).await.ends_with("hello"));
}

#[tokio::test]
async fn a_sender_that_is_gone_stops_the_server() {
    let TestServer { stop, served, .. } = TestServer::open(patient()).await;
    drop(stop);
    assert_eq!(within(served).await.unwrap().unwrap(), Drained { connections_cut: 0 });
}

/// Java's HTTP client offers HTTP/2 in its first request. The offer is ignored.
#[tokio::test]
async fn an_offer_to_upgrade_is_ignored() {
    let server = TestServer::open(patient()).await;
    let offer = "HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA\r\n";
    let mut client = server.connect().await;
    client.write_all(format!("POST /length {offer}Content-Length: 3\r\n\r\nabc").as_bytes()).await.unwrap();
    assert!(read_answer(&mut client).await.ends_with("\r\n\r\n3"));
    client.write_all(GET).await.unwrap();
    assert!(read_answer(&mut client).await.ends_with("hello"), "the connection goes on");
    let mut client = server.connect().await;
    client
        .write_all(format!("POST /refuse {offer}Content-Length: 5000000\r\n\r\n").as_bytes())
        .await
        .unwrap();
    sleep(Duration::from_millis(50)).await;
    within(client.write_all(&vec![b'a'; 5_000_000])).await.expect("the whole body is taken");
    assert!(read_until_closed(&mut client).await.ends_with("refused"));
}
