//! The limits of a listener and its connections.

use std::time::Duration;

use ipnet::IpNet;

/// The limits of one listener and its connections.
///
/// There is no default. The right values depend on the requests and on what stands in front of the
/// server, so that every caller states all of them:
///
/// ```compile_fail,E0599
/// let limits = http_server::ServerLimits::default();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Bytes of a request's head, with the request line. A longer head gets status 431.
    pub header_bytes_max: usize,
    /// From the first byte of a head to its end. A new connection has the same time until its first
    /// byte, and for its TLS handshake.
    pub header_timeout: Duration,
    /// From a response to the first byte of the next request.
    pub keep_alive_timeout: Duration,
    /// How long, in all, the server may wait for the peer to accept the next 256 KiB of a response, or
    /// the rest of it. It is also the longest time without a byte.
    pub write_timeout: Duration,
    /// Bytes of one request that the server reads before a close, whether the handler reads them or
    /// the lingering close discards them. Handlers limit the bodies that they accept.
    pub request_bytes_max: u64,
    /// Open connections. More connections wait in the kernel's backlog. While more than nine tenths
    /// are open, those without a request under way are closed, the longest idle first.
    pub connections_max: usize,
    /// Open connections of one IPv4 address, or of one IPv6 network of 64 bits. A further one is
    /// reset at once.
    pub connections_per_address_max: usize,
    /// Networks without a limit for each address, such as those of proxies in front.
    pub unlimited_networks: Vec<IpNet>,
    /// From the signal to stop until the server cuts the connections that remain.
    pub drain_timeout: Duration,
}
