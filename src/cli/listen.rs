//! The sockets and certificates of the two listeners.

use std::net::SocketAddr;

use anyhow::{Result, anyhow};
use http_server::TlsIdentity;
use tokio::net::TcpListener;

use crate::config::Listener;

/// Listens as the settings of this section say, and puts the port into them that was chosen for port 0. A
/// task reloads a renewed certificate.
pub(super) fn listen(section: &str, settings: &mut Listener) -> Result<(TcpListener, Option<TlsIdentity>)> {
    let listener = http_server::listen(settings.listen)
        .map_err(|error| anyhow!("{section}.listen: cannot listen on {}: {error}", settings.listen))?;
    settings.listen = listener.local_addr()?;
    if !settings.has_tls() {
        return Ok((listener, None));
    }
    let Listener { tls_certificate, tls_key, .. } = settings;
    let tls = TlsIdentity::load(tls_certificate, tls_key)
        .map_err(|error| anyhow!("{section}.tls_certificate and {section}.tls_key: {error}"))?;
    tokio::spawn(tls.clone().keep_fresh());
    Ok((listener, Some(tls)))
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
