//! TLS for outgoing connections. It trusts the machine's own certificate store.

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;

use super::error::FetchError;

/// The TLS connector, made at the first https request. `None` in the cell: the machine trusts no
/// certificate, and the log has said so.
#[derive(Default)]
pub(super) struct Tls(OnceCell<Option<TlsConnector>>);

impl Tls {
    /// Trusts these roots and not the machine's.
    #[cfg(test)]
    pub(super) fn trusting(roots: RootCertStore) -> Self {
        Self(OnceCell::new_with(Some(Some(connector(roots)))))
    }

    /// A machine without a certificate store.
    #[cfg(test)]
    pub(super) fn without_store() -> Self {
        Self(OnceCell::new_with(Some(None)))
    }

    /// The connector. It reads the certificate store once.
    ///
    /// # Errors
    ///
    /// [`FetchError::NoCertificateStore`].
    pub(super) async fn connector(&self) -> Result<TlsConnector, FetchError> {
        let load = async || tokio::task::spawn_blocking(from_machine).await.unwrap_or(None);
        self.0.get_or_init(load).await.clone().ok_or(FetchError::NoCertificateStore)
    }
}

/// Reads the machine's store, or the files that `SSL_CERT_FILE` and `SSL_CERT_DIR` name.
fn from_machine() -> Option<TlsConnector> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (trusted, unreadable) = roots.add_parsable_certificates(found.certs);
    if trusted == 0 {
        tracing::error!(
            errors = ?found.errors,
            "this machine has no readable certificate store, so https requests fail; install its CA \
             certificates (ca-certificates) and restart"
        );
        return None;
    }
    if unreadable > 0 || !found.errors.is_empty() {
        tracing::warn!(trusted, unreadable, errors = ?found.errors, "part of the certificate store is unreadable");
    }
    Some(connector(roots))
}

fn connector(roots: RootCertStore) -> TlsConnector {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().expect("ring speaks TLS 1.2 and 1.3");
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // One fetch must not change the next.
    config.resumption = Resumption::disabled();
    TlsConnector::from(Arc::new(config))
}
