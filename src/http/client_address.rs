//! The address of the client: the peer of the connection, or, behind proxies that the operator
//! trusts, the address that they say they serve.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use axum::http::{Extensions, HeaderMap, HeaderName};
use http_server::Peer;
use ipnet::IpNet;

static FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The client of a request to the operator's listener, for its handlers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientAddress(pub(crate) IpAddr);

impl ClientAddress {
    /// The client of a request. The listener notes the peer of each request; one without has no address.
    pub(crate) fn of(noted: &Extensions, headers: &HeaderMap, trusted_proxies: &[IpNet]) -> Self {
        let peer = noted.get::<Peer>().map(Peer::address);
        let client = peer.map(|peer| client_address(peer, headers, trusted_proxies));
        Self(client.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED)))
    }
}

/// The right-most address that is not a trusted proxy's. Each proxy appends the one it was called from, so whatever
/// stands further left was written by somebody who is not trusted. `peer` itself when it is no trusted proxy. At an
/// entry that is no address the one before it counts.
pub(crate) fn client_address(peer: SocketAddr, headers: &HeaderMap, trusted_proxies: &[IpNet]) -> IpAddr {
    let is_trusted = |address: &IpAddr| trusted_proxies.iter().any(|network| network.contains(address));
    let mut client = peer.ip().to_canonical();
    let lines = headers.get_all(&FORWARDED_FOR).iter().rev();
    // A line that is no text ends the chain as an entry that is no address does.
    let entries = lines.flat_map(|line| line.to_str().unwrap_or("?").rsplit(','));
    // Empty elements of a list do not count (RFC 9110, 5.6.1.2).
    let mut entries = entries.map(str::trim).filter(|entry| !entry.is_empty());
    while is_trusted(&client) {
        let Some(address) = entries.next().and_then(parse) else { break };
        client = address;
    }
    client
}

/// An address, as proxies write it: with a port or without, IPv6 in brackets or not.
fn parse(entry: &str) -> Option<IpAddr> {
    let address = entry.parse().ok().or_else(|| entry.parse().ok().map(|socket: SocketAddr| socket.ip()));
    let bracketed = || entry.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    address.or_else(bracketed).map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(peer: &str, lines: &[&str]) -> String {
        let trusted: Vec<IpNet> =
            ["10.0.0.0/8", "fd00::/8"].iter().map(|text| text.parse().unwrap()).collect();
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(&FORWARDED_FOR, axum::http::HeaderValue::from_bytes(line.as_bytes()).unwrap());
        }
        client_address(SocketAddr::new(peer.parse().unwrap(), 9), &headers, &trusted).to_string()
    }

    #[test]
    fn a_trusted_proxy_tells_whom_it_serves() {
        assert_eq!(client("10.0.0.1", &["203.0.113.5"]), "203.0.113.5");
        assert_eq!(client("10.0.0.1", &["203.0.113.5, 10.2.2.2"]), "203.0.113.5", "two proxies");
        assert_eq!(client("10.0.0.1", &["203.0.113.5", "fd00::7,10.2.2.2"]), "203.0.113.5", "several lines");
        assert_eq!(client("10.0.0.1", &["203.0.113.5:4711"]), "203.0.113.5");
        assert_eq!(client("10.0.0.1", &["203.0.113.5,, 10.2.2.2 ,", ""]), "203.0.113.5", "empty elements");
        assert_eq!(client("fd00::1", &["[2001:db8::5]:4711"]), "2001:db8::5");
        assert_eq!(client("fd00::1", &["[2001:db8::5]"]), "2001:db8::5");
        assert_eq!(client("::ffff:10.0.0.1", &["203.0.113.5"]), "203.0.113.5", "a socket for both families");
    }

    #[test]
    fn what_a_stranger_forges_is_ignored() {
        assert_eq!(client("198.51.100.9", &["203.0.113.5"]), "198.51.100.9", "the peer is no proxy");
        assert_eq!(client("10.0.0.1", &["1.1.1.1, 203.0.113.5"]), "203.0.113.5", "left of an untrusted one");
        assert_eq!(client("10.0.0.1", &["1.1.1.1", "203.0.113.5"]), "203.0.113.5");
        assert_eq!(
            client("10.0.0.1", &["10.9.9.9, nonsense, 10.2.2.2"]),
            "10.2.2.2",
            "the last that was told"
        );
        for nothing in [&[][..], &[""], &["unknown"], &["\u{e9}"]] {
            assert_eq!(client("10.0.0.1", nothing), "10.0.0.1", "{nothing:?}");
        }
    }
}
