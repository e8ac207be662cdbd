//! TLS for a listener: certificate and key from PEM files, read again when they change.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use tokio::signal::unix::{SignalKind, signal};
use tokio_rustls::TlsAcceptor;
use webpki::EndEntityCert;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;

/// How often the files are checked for a change.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// The reason why a certificate and its key cannot be used. A file cannot be read or is not in PEM form. The key does
/// not belong to the certificate. Or rustls does not support one of them. The text names the file.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TlsError(String);

/// The longest time before the end of a certificate in which it should have been renewed, in seconds.
const RENEWED_BEFORE_END: i64 = 7 * 24 * 60 * 60;

/// From when to when a certificate is valid, in Unix seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CertificateValidity {
    /// The first second.
    pub not_before: i64,
    /// The last second.
    pub not_after: i64,
}

impl CertificateValidity {
    fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let validity = Certificate::from_der(certificate).ok()?.tbs_certificate.validity;
        let seconds = |time: x509_cert::time::Time| {
            i64::try_from(time.to_unix_duration().as_secs()).unwrap_or(i64::MAX)
        };
        Some(Self { not_before: seconds(validity.not_before), not_after: seconds(validity.not_after) })
    }

    /// The second by which it should have been renewed, in Unix time: 7 days before its end, or where the last third of
    /// its time begins. A certificate for few days is renewed later.
    #[must_use]
    pub fn renewal_due(&self) -> i64 {
        let lifetime = self.not_after.saturating_sub(self.not_before);
        self.not_after.saturating_sub(RENEWED_BEFORE_END.min(lifetime / 3))
    }

    /// Its fault at this time, in words.
    #[must_use]
    pub fn problem(&self, now: i64) -> Option<&'static str> {
        let Self { not_before, not_after } = *self;
        if now > not_after {
            Some("the certificate has expired: clients refuse it")
        } else if now < not_before {
            Some("the certificate is not valid yet: clients refuse it")
        } else if now > self.renewal_due() {
            Some("the certificate expires soon, and was not renewed")
        } else {
            None
        }
    }
}

/// The certificate and the key of a listener, which can be read again. Clones share one state.
#[derive(Debug, Clone)]
pub struct TlsIdentity(Arc<TlsFiles>);

#[derive(Debug)]
struct TlsFiles {
    certificate: PathBuf,
    key: PathBuf,
    loaded: RwLock<LoadedIdentity>,
}

/// The configuration of new connections, and the bytes of the two files that it was made of.
#[derive(Debug)]
struct LoadedIdentity {
    bytes: (Vec<u8>, Vec<u8>),
    validity: Option<CertificateValidity>,
    config: Arc<ServerConfig>,
}

impl LoadedIdentity {
    fn new(certificate: &Path, key: &Path, bytes: (Vec<u8>, Vec<u8>)) -> Result<Self, TlsError> {
        let (config, validity) = config(certificate, key, &bytes)?;
        Ok(Self { bytes, validity, config })
    }
}

impl TlsIdentity {
    /// Reads a certificate chain and its private key, both in PEM form.
    ///
    /// The server's own certificate is the first of the chain. The key is PKCS #8, SEC 1 or PKCS
    /// #1. The listener offers TLS 1.2, TLS 1.3 and HTTP/1.1.
    ///
    /// # Errors
    /// A file cannot be read or has other contents; the key belongs to another certificate.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let bytes = (read(certificate)?, read(key)?);
        let loaded = RwLock::new(LoadedIdentity::new(certificate, key, bytes)?);
        Ok(Self(Arc::new(TlsFiles { certificate: certificate.to_owned(), key: key.to_owned(), loaded })))
    }

    /// Reads the files again, and returns whether they have changed. Open connections keep the
    /// certificate of their handshake.
    ///
    /// # Errors
    /// As [`TlsIdentity::load`]. The former certificate then stays in use.
    pub fn reload(&self) -> Result<bool, TlsError> {
        let TlsFiles { certificate, key, loaded } = &*self.0;
        let bytes = (read(certificate)?, read(key)?);
        if loaded.read().unwrap_or_else(PoisonError::into_inner).bytes == bytes {
            return Ok(false);
        }
        let renewed = LoadedIdentity::new(certificate, key, bytes)?;
        *loaded.write().unwrap_or_else(PoisonError::into_inner) = renewed;
        Ok(true)
    }

    /// From when to when the certificate in use is valid. `None` if its form is not known.
    #[must_use]
    pub fn validity(&self) -> Option<CertificateValidity> {
        self.0.loaded.read().unwrap_or_else(PoisonError::into_inner).validity
    }

    /// Whether it was read from these files.
    #[must_use]
    pub fn is_of(&self, certificate: &Path, key: &Path) -> bool {
        self.0.certificate == certificate && self.0.key == key
    }

    /// Reads the files again at SIGHUP, and at most 10 s after a change. It never ends.
    ///
    /// Files that cannot be used are logged once, and the former certificate stays in use. `renewed` is called after each
    /// renewal.
    pub async fn keep_fresh(self, renewed: impl Fn(&Self) + Send) {
        let mut hangup = signal(SignalKind::hangup()).ok();
        let mut last_problem = String::new();
        loop {
            let by_signal = tokio::select! {
                Some(()) = async { hangup.as_mut()?.recv().await } => true,
                () = tokio::time::sleep(CHECK_INTERVAL) => false,
            };
            let identity = self.clone();
            let reloaded = tokio::task::spawn_blocking(move || identity.reload()).await;
            let file = self.0.certificate.display();
            match reloaded {
                Ok(Ok(true)) => {
                    tracing::info!(certificate = %file, "a renewed certificate is in use");
                    renewed(&self);
                }
                Ok(Ok(false)) if by_signal => {
                    tracing::info!(certificate = %file, "the certificate is unchanged");
                }
                Ok(Ok(false)) | Err(_) => {}
                Ok(Err(error)) => {
                    let problem = error.to_string();
                    if by_signal || problem != last_problem {
                        tracing::warn!(
                            problem,
                            "the certificate cannot be renewed; the one before stays in use"
                        );
                    }
                    last_problem = problem;
                    continue;
                }
            }
            last_problem.clear();
        }
    }

    /// Whether the certificate in use names this host, a DNS name or an address.
    #[must_use]
    pub fn is_valid_for(&self, host: &str) -> bool {
        let loaded = self.0.loaded.read().unwrap_or_else(PoisonError::into_inner);
        let leaf = CertificateDer::pem_slice_iter(&loaded.bytes.0).find_map(Result::ok);
        let Some(leaf) = &leaf else { return false };
        let (Ok(certificate), Ok(name)) = (EndEntityCert::try_from(leaf), ServerName::try_from(host)) else {
            return false;
        };
        certificate.verify_is_valid_for_subject_name(&name).is_ok()
    }

    /// Makes TLS of a new connection, with the certificate that was read last.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        let loaded = self.0.loaded.read().unwrap_or_else(PoisonError::into_inner);
        TlsAcceptor::from(Arc::clone(&loaded.config))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|error| TlsError(format!("{}: {error}", path.display())))
}

fn config(
    certificate: &Path,
    key: &Path,
    bytes: &(Vec<u8>, Vec<u8>),
) -> Result<(Arc<ServerConfig>, Option<CertificateValidity>), TlsError> {
    let (certificate, key) = (certificate.display(), key.display());
    let chain = CertificateDer::pem_slice_iter(&bytes.0)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| TlsError(format!("{certificate}: {error}")))?;
    let Some(own) = chain.first() else {
        return Err(TlsError(format!("{certificate}: expected a certificate in PEM form")));
    };
    if matches!(EndEntityCert::try_from(own), Err(webpki::Error::UnsupportedCertVersion)) {
        return Err(TlsError(format!(
            "{certificate}: expected X.509 version 3, and the certificate has another"
        )));
    }
    let validity = CertificateValidity::of(own);
    let private = PrivateKeyDer::from_pem_slice(&bytes.1)
        .map_err(|error| TlsError(format!("{key}: expected a private key in PEM form: {error}")))?;
    let misfit = |error: rustls::Error| TlsError(format!("{certificate} with its key: {error}"));
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(misfit)?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(misfit)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok((Arc::new(config), validity))
}
