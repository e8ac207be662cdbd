//! The sockets and certificates of the two listeners.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use domain::clock::Clock;
use http_server::{CertificateValidity, TlsIdentity};
use tokio::net::TcpListener;

use crate::config::Listener;

/// Listens as the settings of this section say, and puts the port into them that was chosen for port 0. A
/// task reloads a renewed certificate. Listeners with the same files share `other`.
pub(super) fn listen(
    section: &str,
    settings: &mut Listener,
    other: Option<&TlsIdentity>,
    clock: &Arc<dyn Clock>,
) -> Result<(TcpListener, Option<TlsIdentity>)> {
    let listener = http_server::listen(settings.listen)
        .map_err(|error| anyhow!("{section}.listen: cannot listen on {}: {error}", settings.listen))?;
    settings.listen = listener.local_addr()?;
    if !settings.has_tls() {
        return Ok((listener, None));
    }
    let Listener { tls_certificate, tls_key, .. } = settings;
    if let Some(other) = other.filter(|other| other.is_of(tls_certificate, tls_key)) {
        return Ok((listener, Some(other.clone())));
    }
    let tls = TlsIdentity::load(tls_certificate, tls_key)
        .map_err(|error| anyhow!("{section}.tls_certificate and {section}.tls_key: {error}"))?;
    let (clock, file) = (Arc::clone(clock), tls_certificate.display().to_string());
    let warn = move |tls: &TlsIdentity| warn_of_certificate(tls, &file, clock.unix_millis());
    warn(&tls);
    tokio::spawn(tls.clone().keep_fresh(warn));
    Ok((listener, Some(tls)))
}

/// Warns of a certificate that clients refuse, or will soon.
fn warn_of_certificate(tls: &TlsIdentity, file: &str, now_millis: i64) {
    let Some(validity) = tls.validity() else { return };
    if let Some(problem) = validity.problem(now_millis.div_euclid(1000)) {
        let CertificateValidity { not_before, not_after } = validity;
        tracing::warn!(certificate = file, not_before, not_after, "{problem}");
    }
}

/// Warns of an operator's listener that others can listen in on.
pub(super) fn warn_of_open_listener(listen: SocketAddr, has_tls: bool) {
    if is_open_to_listeners(listen, has_tls) {
        tracing::warn!(
            %listen,
            "the operator's listener is open to other machines without TLS: passwords and API keys can be read on the way"
        );
    }
}

/// Whether others can read what is sent to this address: other machines reach it, and it has no TLS
/// (contract 1.2.4).
fn is_open_to_listeners(address: SocketAddr, has_tls: bool) -> bool {
    !has_tls && !address.ip().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A warning at the start tells that passwords can be read on the way.
    #[test]
    fn an_operators_listener_on_other_machines_needs_tls() {
        for (address, has_tls, is_open) in [
            ("127.0.0.1:8081", false, false),
            ("[::1]:8081", false, false),
            ("0.0.0.0:8081", false, true),
            ("[::]:8081", false, true),
            ("192.0.2.7:8081", false, true),
            ("192.0.2.7:8081", true, false),
        ] {
            assert_eq!(is_open_to_listeners(address.parse().unwrap(), has_tls), is_open, "{address}");
        }
    }
}
