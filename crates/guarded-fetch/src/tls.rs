//! TLS that trusts the machine's own certificate store (contract 5).

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;

use super::refused::Refused;

/// The connector, made when the first https URL is fetched. `None` in the cell: there is nothing
/// to trust, which was logged when it was found.
#[derive(Default)]
pub(super) struct Tls(OnceCell<Option<TlsConnector>>);

impl Tls {
    /// Trusts these roots and not the machine's.
    #[cfg(test)]
    pub(super) fn trusting(roots: RootCertStore) -> Self {
        Self(OnceCell::new_with(Some(connector(roots))))
    }

    /// Found nothing to trust.
    #[cfg(test)]
    pub(super) fn without_store() -> Self {
        Self(OnceCell::new_with(Some(None)))
    }

    /// The connector. Reads the certificate store once in the life of the process.
    ///
    /// # Errors
    ///
    /// [`Refused::NoCertificateStore`].
    pub(super) async fn connector(&self) -> Result<TlsConnector, Refused> {
        let load = async || tokio::task::spawn_blocking(from_machine).await.unwrap_or(None);
        self.0.get_or_init(load).await.clone().ok_or(Refused::NoCertificateStore)
    }
}

/// Reads the machine's store, or what `SSL_CERT_FILE` and `SSL_CERT_DIR` name in its place.
fn from_machine() -> Option<TlsConnector> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (trusted, unreadable) = roots.add_parsable_certificates(found.certs);
    if trusted == 0 {
        tracing::error!(
            errors = ?found.errors,
            "this machine has no certificate store that can be read: pictures on https cannot be \
             fetched; install its CA certificates (ca-certificates) and restart"
        );
        return None;
    }
    if unreadable > 0 || !found.errors.is_empty() {
        tracing::warn!(trusted, unreadable, errors = ?found.errors, "part of the certificate store is unreadable");
    }
    connector(roots)
}

fn connector(roots: RootCertStore) -> Option<TlsConnector> {
    let provider = Arc::new(ring::default_provider());
    let builder = match ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions() {
        Ok(builder) => builder,
        Err(error) => {
            tracing::error!(%error, "TLS cannot be set up: pictures on https cannot be fetched");
            return None;
        }
    };
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // Nothing is remembered from one fetch for the next.
    config.resumption = Resumption::disabled();
    Some(TlsConnector::from(Arc::new(config)))
}
