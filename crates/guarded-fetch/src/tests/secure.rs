//! https. `authority.der` signed `certificate.der`, which names `pictures.example` and 127.0.0.1,
//! is valid from 2020 to 2120 and belongs to `key.der`. They exist for these tests only.

use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use super::*;

fn acceptor() -> TlsAcceptor {
    let certificate = CertificateDer::from(&include_bytes!("certificate.der")[..]);
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(&include_bytes!("key.der")[..]));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

pub(super) async fn secure_origin() -> Origin {
    Origin::serve_tls(acceptor(), |_| Reply::ok(b"picture")).await
}

pub(super) fn tests_authority() -> Tls {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(&include_bytes!("authority.der")[..])).unwrap();
    Tls::trusting(roots)
}

/// For whom every name is 127.0.0.1.
pub(super) fn all_is_local() -> LookUp {
    Arc::new(|_, port| Box::pin(async move { Ok(vec![SocketAddr::from(([127, 0, 0, 1], port))]) }))
}

/// A fetcher that trusts the tests' authority, for whom every name is 127.0.0.1.
fn trusting(settings: FetchSettings) -> Fetcher {
    Fetcher { tls: tests_authority(), ..asking(settings, all_is_local()) }
}

/// Rule (contract 5.3.12): https with a certificate that names the host; a name is sent (SNI), an
/// address is not.
#[tokio::test]
async fn a_trusted_certificate() {
    let origin = secure_origin().await;
    let fetcher = trusting(settings(&[&origin]));
    let port = origin.address.port();
    for host in ["pictures.example", "Pictures.Example", "pictures.example.", "127.0.0.1", "127.1"] {
        let found = fetcher.bytes(&format!("https://{host}:{port}/"), None).await;
        assert_eq!(found, Ok(body(b"picture")), "{host}");
    }
    let name = || Some("pictures.example".to_owned());
    assert_eq!(origin.server_names(), [name(), name(), name(), None, None]);
    assert!(origin.requests()[0].contains(&format!("\r\nhost: pictures.example:{port}\r\n")));
}

/// Rule (contract 5.3.12): TLS trusts the machine's own certificate store and nothing else; the
/// certificate must name the host.
#[tokio::test]
async fn certificates_that_are_not_trusted() {
    let origin = secure_origin().await;
    let port = origin.address.port();
    let fetcher = trusting(settings(&[&origin]));
    let found = fetcher.bytes(&format!("https://other.example:{port}/"), None).await;
    assert_eq!(found, Err(FetchError::Tls), "the certificate names another host");
    let machine = Fetcher::new(settings(&[&origin])).bytes(&origin.url("/"), None).await;
    let expected = [Err(FetchError::Tls), Err(FetchError::NoCertificateStore)];
    assert!(expected.contains(&machine), "this machine does not know the tests' authority: {machine:?}");
    assert_eq!(origin.requests(), Vec::<String>::new(), "nothing was asked for");
}

/// Rule: without a certificate store https fails with a cause of its own, and http still works.
#[tokio::test]
async fn without_a_certificate_store() {
    let (secure, plain) = (secure_origin().await, Origin::always(Reply::ok(b"picture")).await);
    let fetcher = Fetcher { tls: Tls::without_store(), ..Fetcher::new(settings(&[&secure, &plain])) };
    assert_eq!(fetcher.bytes(&secure.url("/"), None).await, Err(FetchError::NoCertificateStore));
    assert_eq!(fetcher.bytes(&plain.url("/"), None).await, Ok(body(b"picture")));
    assert_eq!(secure.connections(), 0);
}

/// Rule (contract 5.3.8): a redirect never leads from https to http, from http to https it may.
#[tokio::test]
async fn never_from_https_to_http() {
    let plain = Origin::always(Reply::ok(b"picture")).await;
    let to = plain.url("/");
    let secure = Origin::serve_tls(acceptor(), move |_| Reply::redirect("301 Moved Permanently", &to)).await;
    let fetcher = trusting(settings(&[&secure, &plain]));
    assert_eq!(fetcher.bytes(&secure.url("/"), None).await, Err(FetchError::Downgrade));
    assert_eq!(plain.connections(), 0);
    let secure = secure_origin().await;
    let upgrading = Origin::always(Reply::redirect("301 Moved Permanently", &secure.url("/"))).await;
    let fetcher = trusting(settings(&[&secure, &upgrading]));
    assert_eq!(fetcher.bytes(&upgrading.url("/"), None).await, Ok(body(b"picture")));
}

/// Rule (contract 5.3.10): 2 s to connect, TLS included.
#[tokio::test]
async fn a_tls_handshake_that_hangs() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let accepting = tokio::spawn(async move {
        let _open = silent.accept().await.unwrap();
        std::future::pending::<()>().await;
    });
    let hasty = FetchSettings { connect_timeout: SHORT, ports: vec![address.port()], ..settings(&[]) };
    let found = ending(trusting(hasty).bytes(&format!("https://{address}/"), None)).await;
    assert_eq!(found, Err(FetchError::ConnectTimedOut));
    accepting.abort();
}

/// Rule: an origin without TLS, and one that cuts the connection where the body's end is not
/// announced, are failures.
#[tokio::test]
async fn tls_that_is_none_or_ends_early() {
    let plain = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = plain.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = plain.accept().await.unwrap();
        let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    });
    let fetcher = trusting(FetchSettings { ports: vec![address.port()], ..settings(&[]) });
    assert_eq!(fetcher.bytes(&format!("https://{address}/"), None).await, Err(FetchError::Tls));

    let cutting = Origin::serve_tls(acceptor(), |_| Reply::head("200 OK", "").and(b"pict").then_cut()).await;
    let found = trusting(settings(&[&cutting])).bytes(&cutting.url("/"), None).await;
    assert_eq!(found, Err(FetchError::Broken), "a cut is no end");
}

/// The machine's store is read at most once, and whatever it holds does not panic.
#[tokio::test]
async fn the_machines_store_is_read_once() {
    let tls = Tls::default();
    let first = tls.connector().await.map(|connector| Arc::as_ptr(connector.config()));
    let second = tls.connector().await.map(|connector| Arc::as_ptr(connector.config()));
    assert_eq!(first, second);
}
