//! Translates the database URL, TLS included, for the driver of the writers.

use std::sync::Arc;

use guarded_fetch::ServerCheck;
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use sqlx::ConnectOptions as _;
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use tokio_postgres::Config;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::{Result, StoreError};

/// The same address, user, password, database and options.
pub(super) fn configuration(options: &PgConnectOptions) -> Config {
    let mut config = Config::new();
    match options.get_socket() {
        Some(folder) => config.host_path(folder),
        None => config.host(options.get_host()),
    };
    // After a failover the old address may lead to a standby for a while.
    config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    config.port(options.get_port()).user(options.get_username());
    config.application_name(options.get_application_name().unwrap_or_default());
    // The first driver gives the password only in this form.
    let url = options.to_url_lossy();
    if let Some(password) = url.password() {
        config.password(percent_encoding::percent_decode_str(password).collect::<Vec<u8>>());
    }
    if let Some(database) = options.get_database() {
        config.dbname(database);
    }
    if let Some(more) = options.get_options() {
        config.options(more);
    }
    config.ssl_mode(match options.get_ssl_mode() {
        // As in the first driver.
        PgSslMode::Disable | PgSslMode::Allow => SslMode::Disable,
        PgSslMode::Prefer => SslMode::Prefer,
        PgSslMode::Require | PgSslMode::VerifyCa | PgSslMode::VerifyFull => SslMode::Require,
    });
    config
}

/// The TLS connector for the URL. `None` when the URL never leads to TLS.
pub(super) fn connector(options: &PgConnectOptions) -> Result<Option<MakeRustlsConnect>> {
    let mode = options.get_ssl_mode();
    if options.get_socket().is_some() || matches!(mode, PgSslMode::Disable | PgSslMode::Allow) {
        return Ok(None);
    }
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(unusable)?;
    let url = options.to_url_lossy();
    // The first driver writes `file: ` before a path.
    let file = |name: &str| {
        let value = url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())?;
        Some(value.strip_prefix("file: ").unwrap_or(&value).to_owned())
    };
    let chain = verifier(mode, file("sslrootcert"), &provider)?;
    let check = ServerCheck { chain, takes_any_name: matches!(mode, PgSslMode::VerifyCa), provider };
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(check));
    let config = match (file("sslcert"), file("sslkey")) {
        (Some(certificate), Some(key)) => {
            let chain = certificates(&certificate)?;
            let key = PrivateKeyDer::from_pem_file(&key).map_err(|error| unreadable(&key, error))?;
            builder.with_client_auth_cert(chain, key).map_err(unusable)?
        }
        (_, _) => builder.with_no_client_auth(),
    };
    Ok(Some(MakeRustlsConnect::new(config)))
}

/// Verifies the chain with the named roots or the machine's own, in the modes that require it.
fn verifier(
    mode: PgSslMode,
    roots: Option<String>,
    provider: &Arc<CryptoProvider>,
) -> Result<Option<Arc<WebPkiServerVerifier>>> {
    if !matches!(mode, PgSslMode::VerifyCa | PgSslMode::VerifyFull) {
        return Ok(None);
    }
    let trusted = match roots {
        Some(file) => certificates(&file)?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(trusted);
    let built = WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(provider)).build();
    built.map(Some).map_err(unusable)
}

fn certificates(file: &str) -> Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    read.map_err(|error| unreadable(file, error))
}

fn unreadable(file: &str, error: impl std::fmt::Display) -> StoreError {
    StoreError::Internal(format!("database.url: {file}: {error}"))
}

fn unusable(error: impl std::fmt::Display) -> StoreError {
    StoreError::Internal(format!("database.url: TLS cannot be set up: {error}"))
}

#[cfg(test)]
mod tests {
    use tokio_postgres::config::Host;

    use super::*;

    fn options(url: &str) -> PgConnectOptions {
        url.parse().unwrap()
    }

    #[test]
    fn the_second_driver_is_told_what_the_url_tells_the_first() {
        let config = configuration(&options(
            "postgres://us%40er:p%40ss%3A%2Fword@db.example:6432/the%20app?sslmode=require&options=-c%20a%3Db",
        ));
        assert_eq!(config.get_hosts(), [Host::Tcp("db.example".to_owned())]);
        assert_eq!(config.get_ports(), [6432]);
        assert_eq!(config.get_user(), Some("us@er"));
        assert_eq!(config.get_password(), Some(b"p@ss:/word".as_slice()));
        assert_eq!(config.get_dbname(), Some("the app"));
        assert_eq!(config.get_options(), Some("-c a=b"));
        assert_eq!(config.get_ssl_mode(), SslMode::Require);
        let config =
            configuration(&options("postgres:///app?host=/run/pg%20sql&user=minitill&sslmode=disable"));
        assert_eq!(config.get_hosts(), [Host::Unix("/run/pg sql".into())]);
        assert_eq!((config.get_user(), config.get_password()), (Some("minitill"), None));
        assert_eq!(config.get_ssl_mode(), SslMode::Disable);
    }

    #[test]
    fn tls_is_used_where_the_url_can_lead_to_it() {
        let uses_tls = |url: &str| connector(&options(url)).map(|connector| connector.is_some());
        assert_eq!(uses_tls("postgres://db.example/app?sslmode=disable"), Ok(false));
        assert_eq!(uses_tls("postgres:///app?host=/run"), Ok(false));
        for mode in ["prefer", "require", "verify-ca", "verify-full"] {
            let url = format!("postgres://db.example/app?sslmode={mode}&sslrootcert=/nowhere.pem");
            // The roots matter only where the chain is checked.
            assert_eq!(uses_tls(&url).is_ok(), !mode.starts_with("verify"), "{mode}");
        }
        let fault = uses_tls("postgres://db.example/app?sslmode=verify-full&sslrootcert=/nowhere.pem");
        let StoreError::Internal(words) = fault.unwrap_err() else { panic!("another error") };
        assert!(words.starts_with("database.url: /nowhere.pem: "), "{words}");
    }
}
