//! TLS seen from clients that speak it, and from some that do not, with short limits.

use std::net::SocketAddr;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::{get, post};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::{Drained, Limits, serve};

/// No single step of a test takes longer.
const PATIENCE: Duration = Duration::from_secs(8);
const LARGE_BYTES: usize = 24 * 1024 * 1024;
const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: till\r\n\r\n";

fn short_limits() -> Limits {
    Limits {
        header_timeout: Duration::from_secs(2),
        keep_alive_timeout: Duration::from_secs(3),
        write_timeout: Duration::from_secs(1),
        drain_timeout: Duration::from_secs(5),
        ..Limits::default()
    }
}

/// A certificate of the test's own, in files.
struct Files {
    folder: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

impl Files {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("minitill-tls-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let files = Self { certificate: folder.join("cert.pem"), key: folder.join("key.pem"), folder };
        files.renew();
        files
    }

    /// Writes a fresh certificate and gives it.
    fn renew(&self) -> CertificateDer<'static> {
        let made = rcgen::generate_simple_self_signed(vec!["till.example".to_owned()]).unwrap();
        fs::write(&self.certificate, made.cert.pem()).unwrap();
        fs::write(&self.key, made.signing_key.serialize_pem()).unwrap();
        made.cert.der().clone()
    }

    fn certificate(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_file(&self.certificate).unwrap()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

struct Server {
    address: SocketAddr,
    tls: Tls,
    stop: watch::Sender<bool>,
    served: JoinHandle<io::Result<Drained>>,
}

impl Server {
    async fn start(files: &Files, limits: Limits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let tls = Tls::load(&files.certificate, &files.key).unwrap();
        let (stop, shutdown) = watch::channel(false);
        let router = Router::new()
            .route("/", get(|| async { "hello" }))
            .route("/large", get(|| async { vec![b'a'; LARGE_BYTES] }))
            .route("/refuse", post(|| async { (StatusCode::PAYLOAD_TOO_LARGE, "refused") }));
        let served = tokio::spawn(serve(listener, Some(tls.clone()), router, limits, shutdown));
        Self { address, tls, stop, served }
    }

    async fn connect(&self, trusted: CertificateDer<'static>) -> io::Result<TlsStream<TcpStream>> {
        self.connect_as(trusted, &[&TLS13, &TLS12], &[b"h2", b"http/1.1"]).await
    }

    async fn connect_as(
        &self,
        trusted: CertificateDer<'static>,
        versions: &[&'static SupportedProtocolVersion],
        protocols: &[&[u8]],
    ) -> io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(trusted).unwrap();
        let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        let stream = TcpStream::connect(self.address).await?;
        let name = ServerName::try_from("till.example").unwrap();
        within(TlsConnector::from(Arc::new(config)).connect(name, stream)).await
    }

    async fn drained(self) -> Drained {
        within(self.served).await.unwrap().unwrap()
    }
}

async fn within<F: Future>(step: F) -> F::Output {
    timeout(PATIENCE, step).await.expect("the step ends in time")
}

/// One answer; its length must be given.
async fn answer(client: &mut TlsStream<TcpStream>) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        bytes.push(within(client.read_u8()).await.expect("an answer comes"));
    }
    let head = String::from_utf8(bytes).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    within(client.read_exact(&mut body)).await.unwrap();
    head + &String::from_utf8(body).unwrap()
}

/// Reads until the server closes; whether it said TLS's farewell, without which a client cannot
/// tell an end from a cut.
async fn is_closed_properly(client: &mut TlsStream<TcpStream>) -> bool {
    let mut rest = Vec::new();
    within(client.read_to_end(&mut rest)).await.is_ok_and(|length| length == 0)
}

#[tokio::test]
async fn tls_12_and_13_carry_http_1_1_and_nothing_else() {
    let files = Files::new("versions");
    let server = Server::start(&files, short_limits()).await;
    for version in [&TLS13, &TLS12] {
        let mut client =
            server.connect_as(files.certificate(), &[version], &[b"h2", b"http/1.1"]).await.unwrap();
        assert_eq!(client.get_ref().1.protocol_version(), Some(version.version));
        assert_eq!(client.get_ref().1.alpn_protocol(), Some(b"http/1.1".as_slice()));
        for _ in 0..3 {
            client.write_all(GET).await.unwrap();
            assert!(answer(&mut client).await.ends_with("hello"));
        }
    }
    let mut without = server.connect_as(files.certificate(), &[&TLS13], &[]).await.unwrap();
    without.write_all(GET).await.unwrap();
    assert!(answer(&mut without).await.ends_with("hello"), "a client may name no protocol");
    assert!(server.connect_as(files.certificate(), &[&TLS13], &[b"h2"]).await.is_err());
}

/// Contract 2.7: a handshake has the time of a head, and a broken one ends at once.
#[tokio::test]
async fn slow_and_broken_handshakes_are_closed() {
    let files = Files::new("handshakes");
    let server = Server::start(&files, short_limits()).await;
    let closed_after = async |hello: &[u8]| {
        let mut client = TcpStream::connect(server.address).await.unwrap();
        let started = Instant::now();
        client.write_all(hello).await.unwrap();
        let _ = within(client.read_to_end(&mut Vec::new())).await;
        started.elapsed()
    };
    let hello = [22, 3, 1, 2, 0, 1, 0];
    let (silent, half) = tokio::join!(closed_after(b""), closed_after(&hello));
    assert!(
        silent >= Duration::from_millis(1900) && half >= Duration::from_millis(1900),
        "{silent:?} {half:?}"
    );
    let (plain, nonsense) = tokio::join!(closed_after(GET), closed_after(&[0xff; 4096]));
    assert!(plain < Duration::from_secs(2) && nonsense < Duration::from_secs(2), "{plain:?} {nonsense:?}");
    let mut client = server.connect(files.certificate()).await.unwrap();
    client.write_all(GET).await.unwrap();
    assert!(answer(&mut client).await.ends_with("hello"), "others are served");
}

/// Contract 2.7: a handshake is a connection, for the cap.
#[tokio::test]
async fn a_handshake_under_way_counts_as_a_connection() {
    let files = Files::new("cap");
    let server = Server::start(&files, Limits { connections_max: 1, ..short_limits() }).await;
    let slow = TcpStream::connect(server.address).await.unwrap();
    sleep(Duration::from_millis(100)).await;
    let started = Instant::now();
    let mut client = server.connect(files.certificate()).await.unwrap();
    client.write_all(GET).await.unwrap();
    assert!(answer(&mut client).await.ends_with("hello"));
    assert!(started.elapsed() >= Duration::from_secs(1), "it waited for the slow one to run out of time");
    drop(slow);
}

#[tokio::test]
async fn an_idle_connection_and_a_peer_that_does_not_read_are_dropped() {
    let files = Files::new("limits");
    let server = Server::start(&files, short_limits()).await;
    let mut idle = server.connect(files.certificate()).await.unwrap();
    idle.write_all(GET).await.unwrap();
    answer(&mut idle).await;
    let started = Instant::now();
    let _ = within(idle.read_to_end(&mut Vec::new())).await;
    assert!(started.elapsed() >= Duration::from_millis(2500), "keep-alive");
    let mut deaf = server.connect(files.certificate()).await.unwrap();
    deaf.write_all(b"GET /large HTTP/1.1\r\nHost: till\r\n\r\n").await.unwrap();
    sleep(Duration::from_secs(3)).await;
    let mut bytes = Vec::new();
    let _ = within(deaf.read_to_end(&mut bytes)).await;
    assert!(bytes.len() < LARGE_BYTES, "it was cut while it did not read");
}

/// A large answer comes whole, and slowly too.
#[tokio::test]
async fn a_large_answer_comes_whole() {
    let files = Files::new("large");
    let server =
        Server::start(&files, Limits { write_timeout: Duration::from_secs(5), ..short_limits() }).await;
    let mut client = server.connect(files.certificate()).await.unwrap();
    client.write_all(b"GET /large HTTP/1.1\r\nHost: till\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut bytes = Vec::new();
    within(client.read_to_end(&mut bytes)).await.unwrap();
    assert!(bytes.len() > LARGE_BYTES && bytes.ends_with(b"aaaa"));
}

/// Contract 9: what has begun to come is answered, what is idle is closed at once.
#[tokio::test]
async fn a_drain_answers_a_request_of_which_half_a_record_has_come() {
    let files = Files::new("drain");
    let server = Server::start(&files, Limits { keep_alive_timeout: PATIENCE, ..short_limits() }).await;
    let mut idle = server.connect(files.certificate()).await.unwrap();
    let mut half = server.connect(files.certificate()).await.unwrap();
    for client in [&mut idle, &mut half] {
        client.write_all(GET).await.unwrap();
        answer(client).await;
    }
    // The record is made here, and its halves go out by hand.
    let mut record = Vec::new();
    let (stream, session) = half.get_mut();
    io::Write::write_all(&mut session.writer(), GET).unwrap();
    session.write_tls(&mut record).unwrap();
    let middle = record.len() / 2;
    stream.write_all(&record[..middle]).await.unwrap();
    sleep(Duration::from_millis(200)).await;
    server.stop.send(true).unwrap();
    let started = Instant::now();
    assert!(is_closed_properly(&mut idle).await);
    assert!(started.elapsed() < Duration::from_secs(4), "an idle connection is closed at once");
    sleep(Duration::from_millis(500)).await;
    half.get_mut().0.write_all(&record[middle..]).await.unwrap();
    let answered = answer(&mut half).await;
    assert!(answered.ends_with("hello") && answered.contains("connection: close"), "{answered}");
    assert!(is_closed_properly(&mut half).await);
    assert_eq!(server.drained().await, Drained { connections_cut: 0 });
}

#[tokio::test]
async fn a_handshake_under_way_does_not_hold_up_a_drain() {
    let files = Files::new("drain-handshake");
    let server =
        Server::start(&files, Limits { header_timeout: Duration::from_secs(20), ..short_limits() }).await;
    let slow = TcpStream::connect(server.address).await.unwrap();
    sleep(Duration::from_millis(100)).await;
    server.stop.send(true).unwrap();
    let started = Instant::now();
    assert_eq!(server.drained().await, Drained { connections_cut: 0 });
    assert!(started.elapsed() < Duration::from_secs(3));
    drop(slow);
}

/// A client that sends its whole body before it reads learns why it was refused.
#[tokio::test]
async fn an_answer_before_the_body_survives_the_close() {
    let files = Files::new("linger");
    let server =
        Server::start(&files, Limits { write_timeout: Duration::from_secs(8), ..short_limits() }).await;
    let mut client = server.connect(files.certificate()).await.unwrap();
    let body = vec![b'x'; 4 * 1024 * 1024];
    let head = format!("POST /refuse HTTP/1.1\r\nHost: till\r\nContent-Length: {}\r\n\r\n", body.len());
    client.write_all(head.as_bytes()).await.unwrap();
    within(client.write_all(&body)).await.unwrap();
    let mut bytes = Vec::new();
    within(client.read_to_end(&mut bytes)).await.unwrap();
    assert!(String::from_utf8(bytes).unwrap().ends_with("refused"));
}

/// Certificates renew: new connections get the new one, open ones stay, files at fault change nothing.
#[tokio::test]
async fn a_renewed_certificate_is_taken_without_dropping_connections() {
    let files = Files::new("renewed");
    let server = Server::start(&files, Limits { keep_alive_timeout: PATIENCE, ..short_limits() }).await;
    let former = files.certificate();
    let mut open = server.connect(former.clone()).await.unwrap();
    let key = fs::read(&files.key).unwrap();
    assert!(!server.tls.reload().unwrap(), "nothing changed");
    let renewed = files.renew();
    let new_key = fs::read(&files.key).unwrap();
    for (broken, says) in [(key, "with its key"), (b"no key".to_vec(), "expected a private key")] {
        fs::write(&files.key, broken).unwrap();
        let problem = server.tls.reload().unwrap_err().to_string();
        assert!(problem.contains(says), "{problem}");
        assert!(server.connect(former.clone()).await.is_ok(), "the former one stays in use");
    }
    fs::write(&files.key, new_key).unwrap();
    assert!(server.tls.reload().unwrap());
    assert!(server.connect(former).await.is_err());
    let mut fresh = server.connect(renewed).await.unwrap();
    for client in [&mut open, &mut fresh] {
        client.write_all(GET).await.unwrap();
        assert!(answer(client).await.ends_with("hello"));
    }
}

#[test]
fn files_at_fault_are_named() {
    let files = Files::new("faults");
    let problem = |certificate: &Path, key: &Path| Tls::load(certificate, key).unwrap_err().to_string();
    let missing = files.folder.join("missing.pem");
    assert!(problem(&missing, &files.key).contains("missing.pem"));
    assert!(problem(&files.key, &files.key).contains("expected a certificate in PEM form"));
    assert!(problem(&files.certificate, &files.certificate).contains("expected a private key in PEM form"));
    assert!(Tls::load(&files.certificate, &files.key).is_ok());
}
