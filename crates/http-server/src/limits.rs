//! The limits of a listener and its connections.

use std::time::Duration;

/// The limits of one listener and its connections.
///
/// There is no default. The right values depend on the requests and on what stands in front of the
/// server, so that every caller states all of them:
///
/// ```compile_fail,E0599
/// let limits = http_server::ServerLimits::default();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Bytes of a request's head, with the request line. A longer head gets status 431.
    pub header_bytes_max: usize,
    /// From the first byte of a head to its end. A new connection has the same time until its first
    /// byte, and for its TLS handshake.
    pub header_timeout: Duration,
    /// From a response to the first byte of the next request.
    pub keep_alive_timeout: Duration,
    /// How long the peer may accept no byte of a response while more of it waits.
    pub write_timeout: Duration,
    /// Bytes of one request that the server reads before a close, whether the handler reads them or
    /// the lingering close discards them. Handlers limit the bodies that they accept.
    pub request_bytes_max: u64,
    /// Open connections. More connections wait in the kernel's backlog.
    pub connections_max: usize,
    /// From the signal to stop until the server cuts the connections that remain.
    pub drain_timeout: Duration,
}
