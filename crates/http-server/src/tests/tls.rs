//! Tests of TLS, with clients that speak it and some that do not.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::{CertificateValidity, TlsIdentity};

/// Seconds.
const DAY: i64 = 24 * 60 * 60;

/// A certificate that `openssl x509 -req` makes without a file of extensions.
const VERSION_1: &str = "\
-----BEGIN CERTIFICATE-----
MIIBKTCB0QIUZEG7TXx1ye5pbd6ko/LbpWX+QDgwCgYIKoZIzj0EAwIwFzEVMBMG
A1UEAwwMdGlsbC5leGFtcGxlMCAXDTI2MTEzMDE2MTQyNFoYDzIxMjYxMTA2MTYx
NDI0WjAXMRUwEwYDVQQDDAx0aWxsLmV4YW1wbGUwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAQAUfoBlZYIybADpIG0mVKP7n2mqFQYuMLoZwnPegdb07/n5S2b4kAb
tO53idZl09uicToIyUHy4vJKTTEx32HSMAoGCCqGSM49BAMCA0cAMEQCIC8ecWPP
44uWssi0+nrnx2kXDip9N2Ntvz1VmzuNBcq/AiA6GbIHKqIB2NQuGjTCicXICNXf
bQQPjQy+YA2hCOKQNA==
-----END CERTIFICATE-----
";

/// A self-signed certificate and its key, in files of one test.
struct PemFiles {
    folder: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

impl PemFiles {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("http-server-tls-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let files = Self { certificate: folder.join("cert.pem"), key: folder.join("key.pem"), folder };
        files.renew();
        files
    }

    /// Writes a new certificate and returns it.
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

impl Drop for PemFiles {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

struct TlsServer {
    address: SocketAddr,
    tls: TlsIdentity,
    open: OpenConnections,
    stop: watch::Sender<bool>,
    served: JoinHandle<io::Result<Drained>>,
}

impl TlsServer {
    async fn start(files: &PemFiles, limits: ServerLimits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let tls = TlsIdentity::load(&files.certificate, &files.key).unwrap();
        let (stop, shutdown) = watch::channel(false);
        let router = Router::new()
            .route("/", get(|| async { "hello" }))
            .route("/large", get(|| async { vec![b'a'; LARGE_BYTES] }))
            .route("/refuse", post(|| async { (StatusCode::PAYLOAD_TOO_LARGE, "refused") }));
        let open = OpenConnections::default();
        let served = tokio::spawn(serve(listener, Some(tls.clone()), router, limits, open.clone(), shutdown));
        Self { address, tls, open, stop, served }
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

/// Reads until the server closes. True if it sent `close_notify`, without which a client cannot
/// tell an end from a cut.
async fn is_closed_properly(client: &mut TlsStream<TcpStream>) -> bool {
    let mut rest = Vec::new();
    within(client.read_to_end(&mut rest)).await.is_ok_and(|length| length == 0)
}

#[tokio::test]
async fn tls_12_and_13_carry_http_1_1_and_nothing_else() {
    let files = PemFiles::new("versions");
    let server = TlsServer::start(&files, patient()).await;
    for version in [&TLS13, &TLS12] {
        let mut client =
            server.connect_as(files.certificate(), &[version], &[b"h2", b"http/1.1"]).await.unwrap();
        assert_eq!(client.get_ref().1.protocol_version(), Some(version.version));
        assert_eq!(client.get_ref().1.alpn_protocol(), Some(b"http/1.1".as_slice()));
        for _ in 0..3 {
            client.write_all(GET).await.unwrap();
            assert!(read_answer(&mut client).await.ends_with("hello"));
        }
    }
    let mut without = server.connect_as(files.certificate(), &[&TLS13], &[]).await.unwrap();
    without.write_all(GET).await.unwrap();
    assert!(read_answer(&mut without).await.ends_with("hello"), "a client may name no protocol");
    assert!(server.connect_as(files.certificate(), &[&TLS13], &[b"h2"]).await.is_err());
}

/// A handshake has as much time as a head. A broken handshake ends at once.
#[tokio::test]
async fn slow_and_broken_handshakes_are_closed() {
    let files = PemFiles::new("handshakes");
    let closed_after = async |server: &TlsServer, hello: &[u8]| {
        let started = Instant::now();
        let mut client = TcpStream::connect(server.address).await.unwrap();
        client.write_all(hello).await.unwrap();
        let _ = within(client.read_to_end(&mut Vec::new())).await;
        started.elapsed()
    };
    let impatient = TlsServer::start(&files, ServerLimits { header_timeout: SHORT, ..patient() }).await;
    let hello = [22, 3, 1, 2, 0, 1, 0];
    let (silent, half) = tokio::join!(closed_after(&impatient, b""), closed_after(&impatient, &hello));
    assert!(silent >= SHORT && half >= SHORT, "{silent:?} {half:?}");
    // No time limit of this server passes: these end by themselves.
    let server = TlsServer::start(&files, patient()).await;
    tokio::join!(closed_after(&server, GET), closed_after(&server, &[0xff; 4096]));
    let mut client = server.connect(files.certificate()).await.unwrap();
    client.write_all(GET).await.unwrap();
    assert!(read_answer(&mut client).await.ends_with("hello"), "others are served");
}

/// The limit of connections counts handshakes.
#[tokio::test]
async fn a_handshake_under_way_counts_as_a_connection() {
    let files = PemFiles::new("cap");
    let server = TlsServer::start(&files, ServerLimits { connections_max: 1, ..patient() }).await;
    let slow = TcpStream::connect(server.address).await.unwrap();
    until_open(&server.open, 1).await;
    let mut connecting = Box::pin(server.connect(files.certificate()));
    let early = timeout(Duration::from_millis(200), &mut connecting).await;
    assert!(early.is_err(), "served over the cap");
    drop(slow);
    let mut client = connecting.await.unwrap();
    client.write_all(GET).await.unwrap();
    assert!(read_answer(&mut client).await.ends_with("hello"));
}

#[tokio::test]
async fn an_idle_connection_is_dropped() {
    let files = PemFiles::new("idle");
    let server = TlsServer::start(&files, ServerLimits { keep_alive_timeout: SHORT, ..patient() }).await;
    let started = Instant::now();
    let mut idle = server.connect(files.certificate()).await.unwrap();
    idle.write_all(GET).await.unwrap();
    read_answer(&mut idle).await;
    let _ = within(idle.read_to_end(&mut Vec::new())).await;
    assert!(started.elapsed() >= SHORT, "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_peer_that_does_not_read_is_dropped() {
    let files = PemFiles::new("deaf");
    let server = TlsServer::start(&files, ServerLimits { write_timeout: SHORT, ..patient() }).await;
    let mut deaf = server.connect(files.certificate()).await.unwrap();
    deaf.write_all(b"GET /large HTTP/1.1\r\nHost: server\r\n\r\n").await.unwrap();
    until_open(&server.open, 0).await;
    let mut bytes = Vec::new();
    let _ = within(deaf.read_to_end(&mut bytes)).await;
    assert!(bytes.len() < LARGE_BYTES, "it was cut while it did not read");
}

#[tokio::test]
async fn a_large_answer_comes_whole() {
    let files = PemFiles::new("large");
    let server = TlsServer::start(&files, patient()).await;
    let mut client = server.connect(files.certificate()).await.unwrap();
    client.write_all(b"GET /large HTTP/1.1\r\nHost: server\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut bytes = Vec::new();
    within(client.read_to_end(&mut bytes)).await.unwrap();
    assert!(bytes.len() > LARGE_BYTES && bytes.ends_with(b"aaaa"));
}

/// Half a TLS record is half a request. Idle connections are closed at once.
#[tokio::test]
async fn a_drain_answers_a_request_of_which_half_a_record_has_come() {
    let files = PemFiles::new("drain");
    let server = TlsServer::start(&files, patient()).await;
    let mut idle = server.connect(files.certificate()).await.unwrap();
    let mut half = server.connect(files.certificate()).await.unwrap();
    for client in [&mut idle, &mut half] {
        client.write_all(GET).await.unwrap();
        read_answer(client).await;
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
    assert!(is_closed_properly(&mut idle).await);
    sleep(Duration::from_millis(500)).await;
    half.get_mut().0.write_all(&record[middle..]).await.unwrap();
    let answered = read_answer(&mut half).await;
    assert!(answered.ends_with("hello") && answered.contains("connection: close"), "{answered}");
    assert!(is_closed_properly(&mut half).await);
    assert_eq!(server.drained().await, Drained { connections_cut: 0 });
}

#[tokio::test]
async fn a_handshake_under_way_does_not_hold_up_a_drain() {
    let files = PemFiles::new("drain-handshake");
    let server = TlsServer::start(&files, patient()).await;
    let slow = TcpStream::connect(server.address).await.unwrap();
    until_open(&server.open, 1).await;
    server.stop.send(true).unwrap();
    assert_eq!(server.drained().await, Drained { connections_cut: 0 });
    drop(slow);
}

/// A client that sends its whole body before it reads still gets the refusal.
#[tokio::test]
async fn an_answer_before_the_body_survives_the_close() {
    let files = PemFiles::new("linger");
    let server = TlsServer::start(&files, patient()).await;
    let mut client = server.connect(files.certificate()).await.unwrap();
    let body = vec![b'x'; 4 * 1024 * 1024];
    let head = format!("POST /refuse HTTP/1.1\r\nHost: server\r\nContent-Length: {}\r\n\r\n", body.len());
    client.write_all(head.as_bytes()).await.unwrap();
    within(client.write_all(&body)).await.unwrap();
    let mut bytes = Vec::new();
    within(client.read_to_end(&mut bytes)).await.unwrap();
    assert!(String::from_utf8(bytes).unwrap().ends_with("refused"));
}

/// New connections get the renewed certificate, open ones continue, and broken files change
/// nothing.
#[tokio::test]
async fn a_renewed_certificate_is_taken_without_dropping_connections() {
    let files = PemFiles::new("renewed");
    let server = TlsServer::start(&files, patient()).await;
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
        assert!(read_answer(client).await.ends_with("hello"));
    }
}

#[test]
fn files_at_fault_are_named() {
    let files = PemFiles::new("faults");
    let problem =
        |certificate: &Path, key: &Path| TlsIdentity::load(certificate, key).unwrap_err().to_string();
    let missing = files.folder.join("missing.pem");
    assert!(problem(&missing, &files.key).contains("missing.pem"));
    assert!(problem(&files.key, &files.key).contains("expected a certificate in PEM form"));
    assert!(problem(&files.certificate, &files.certificate).contains("expected a private key in PEM form"));
    assert!(TlsIdentity::load(&files.certificate, &files.key).is_ok());
    fs::write(&files.certificate, VERSION_1).unwrap();
    let old = problem(&files.certificate, &files.key);
    assert!(old.ends_with("cert.pem: expected X.509 version 3, and the certificate has another"), "{old}");
}

#[test]
fn a_certificate_says_when_it_is_valid() {
    let files = PemFiles::new("validity");
    let tls = TlsIdentity::load(&files.certificate, &files.key).unwrap();
    assert!(tls.is_of(&files.certificate, &files.key) && !tls.is_of(&files.key, &files.certificate));
    let validity = tls.validity().unwrap();
    // These are the first seconds of 1975 and 4096.
    assert_eq!(validity, CertificateValidity { not_before: 157_766_400, not_after: 67_090_118_400 });
    let long = CertificateValidity { not_before: 0, not_after: 90 * DAY };
    for (now, expected) in [
        (-1, Some("the certificate is not valid yet: clients refuse it")),
        (0, None),
        (83 * DAY, None),
        (83 * DAY + 1, Some("the certificate expires soon, and was not renewed")),
        (90 * DAY, Some("the certificate expires soon, and was not renewed")),
        (90 * DAY + 1, Some("the certificate has expired: clients refuse it")),
    ] {
        assert_eq!(long.problem(now), expected, "{now}");
    }
    let short = CertificateValidity { not_before: 0, not_after: 6 * DAY };
    assert_eq!((long.renewal_due(), short.renewal_due()), (83 * DAY, 4 * DAY));
    assert_eq!((short.problem(4 * DAY), short.problem(4 * DAY + 1).is_some()), (None, true));
}
