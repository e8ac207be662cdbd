//! TLS on a listener: certificate and key from PEM files, read anew when they change.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use tokio::signal::unix::{SignalKind, signal};
use tokio_rustls::TlsAcceptor;

/// How often the files are looked at: a renewal may take this long to be noticed.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// Why TLS cannot be had, in words that name the file.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file holds no certificate or no key in PEM form.
    #[error("{}: {problem}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// Certificate and key cannot be used together.
    #[error("{} with its key: {source}", certificate.display())]
    Pair {
        /// The certificate's file.
        certificate: PathBuf,
        /// Why.
        source: rustls::Error,
    },
}

/// The TLS of a listener. Cheap to clone; clones share what is read anew.
#[derive(Debug, Clone)]
pub struct Tls(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    certificate: PathBuf,
    key: PathBuf,
    current: RwLock<Current>,
}

/// What new connections get, and the bytes it was made of.
#[derive(Debug)]
struct Current {
    bytes: (Vec<u8>, Vec<u8>),
    config: Arc<ServerConfig>,
}

impl Tls {
    /// Reads a certificate chain, the server's own first, and its private key (PKCS #8, SEC 1 or
    /// PKCS #1), both PEM. Offers TLS 1.2 and 1.3 and HTTP/1.1.
    ///
    /// # Errors
    /// A file that cannot be read or does not hold what it should; a key of another certificate.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let bytes = (read(certificate)?, read(key)?);
        let config = config(certificate, key, &bytes)?;
        let current = RwLock::new(Current { bytes, config });
        Ok(Self(Arc::new(Shared { certificate: certificate.to_owned(), key: key.to_owned(), current })))
    }

    /// Reads the files again. New connections get what they hold now; those that are open keep
    /// what they have. Gives whether anything changed.
    ///
    /// # Errors
    /// As [`Tls::load`]; what was read before then stays in use.
    pub fn reload(&self) -> Result<bool, TlsError> {
        let Shared { certificate, key, current } = &*self.0;
        let bytes = (read(certificate)?, read(key)?);
        if current.read().unwrap_or_else(PoisonError::into_inner).bytes == bytes {
            return Ok(false);
        }
        let config = config(certificate, key, &bytes)?;
        *current.write().unwrap_or_else(PoisonError::into_inner) = Current { bytes, config };
        Ok(true)
    }

    /// Reads the files again at SIGHUP, and whenever they have changed. Never ends; files that are
    /// at fault are logged once and what was read before stays in use.
    pub async fn keep_fresh(self) {
        let mut hangup = signal(SignalKind::hangup()).ok();
        let mut last_problem = String::new();
        loop {
            let asked = async {
                match &mut hangup {
                    Some(hangup) => hangup.recv().await,
                    None => std::future::pending().await,
                }
            };
            let by_signal = tokio::time::timeout(LOOK_INTERVAL, asked).await.is_ok();
            let tls = self.clone();
            let reloaded = tokio::task::spawn_blocking(move || tls.reload()).await;
            let file = self.0.certificate.display();
            match reloaded {
                Ok(Ok(true)) => tracing::info!(certificate = %file, "a renewed certificate is in use"),
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

    /// What makes TLS of a connection that has just been accepted.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        let current = self.0.current.read().unwrap_or_else(PoisonError::into_inner);
        TlsAcceptor::from(Arc::clone(&current.config))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|source| TlsError::File { path: path.to_owned(), source })
}

fn config(certificate: &Path, key: &Path, bytes: &(Vec<u8>, Vec<u8>)) -> Result<Arc<ServerConfig>, TlsError> {
    let pem_fault = |path: &Path, problem: String| TlsError::Pem { path: path.to_owned(), problem };
    let chain = CertificateDer::pem_slice_iter(&bytes.0)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| pem_fault(certificate, error.to_string()))?;
    if chain.is_empty() {
        return Err(pem_fault(certificate, "expected a certificate in PEM form".to_owned()));
    }
    let private = PrivateKeyDer::from_pem_slice(&bytes.1)
        .map_err(|error| pem_fault(key, format!("expected a private key in PEM form: {error}")))?;
    let pair_fault = |source| TlsError::Pair { certificate: certificate.to_owned(), source };
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(pair_fault)?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(pair_fault)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests;
