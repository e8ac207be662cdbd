//! TLS for outgoing connections. It trusts the machine's own certificate store.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ConfigBuilder, DigitallySignedStruct, RootCertStore, SignatureScheme,
    WantsVerifier,
};
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;

use super::error::FetchError;

/// The TLS connector, made at the first https request. `None` in the cell: the machine trusts no
/// certificate, and the log has said so.
#[derive(Default)]
pub(super) struct Tls(OnceCell<Option<TlsConnector>>);

impl Tls {
    /// Takes every certificate, so it does not know who answers.
    pub(super) fn unverified() -> Self {
        let provider = Arc::new(ring::default_provider());
        let check = Arc::new(ServerCheck { chain: None, takes_any_name: true, provider });
        let mut config = versions().dangerous().with_custom_certificate_verifier(check).with_no_client_auth();
        config.resumption = Resumption::disabled();
        Self(OnceCell::new_with(Some(Some(TlsConnector::from(Arc::new(config))))))
    }

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

fn versions() -> ConfigBuilder<ClientConfig, WantsVerifier> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    builder.with_safe_default_protocol_versions().expect("ring speaks TLS 1.2 and 1.3")
}

fn connector(roots: RootCertStore) -> TlsConnector {
    let mut config = versions().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // One fetch must not change the next.
    config.resumption = Resumption::disabled();
    TlsConnector::from(Arc::new(config))
}

/// Checks the certificate of a server, whose sender must hold its key in any case.
#[derive(Debug)]
pub struct ServerCheck {
    /// Checks the chain and the name. Without it every certificate is taken.
    pub chain: Option<Arc<WebPkiServerVerifier>>,
    /// Whether the name may be another one.
    pub takes_any_name: bool,
    /// Checks signatures.
    pub provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for ServerCheck {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        match chain.verify_server_cert(certificate, intermediates, name, ocsp_response, now) {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.takes_any_name => Ok(ServerCertVerified::assertion()),
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
