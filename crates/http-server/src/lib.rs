//! An HTTP/1.1 server for axum routers: accept loop, TLS, time-outs, connection limit and drain.
//!
//! hyper parses requests and writes responses. This crate adds what stands around hyper: time-outs
//! for each step of a connection (against slowloris and peers that do not read), a limit of open
//! connections, a lingering close, and a graceful drain. A drain answers exactly the requests whose
//! first byte has arrived, and closes idle keep-alive connections at once.
//!
//! | module | what it does |
//! |---|---|
//! | `accept` | accepts connections until the server stops, then drains them |
//! | `connection` | runs hyper on one connection, with a watchdog beside it |
//! | `progress` | the step that a connection is in, and the deadline of that step |
//! | `framing` | finds where one request ends and the next begins |
//! | `socket` | the byte stream that hyper reads and writes; the lingering close |
//! | `tracked_tcp` | the TCP stream below it; notices a peer that does not read |
//! | `tls` | certificate and key from PEM files, read again when they change |
//! | `tls_records` | finds where a TLS record ends |
//! | `process` | the tokio runtime and the limit of open files |

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::watch;

mod accept;
mod connection;
mod framing;
mod process;
mod progress;
mod socket;
mod tls;
mod tls_records;
mod tracked_tcp;

pub use process::{raise_open_files_limit, runtime};
pub use tls::{TlsError, TlsIdentity};

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

/// The number of open connections of a listener. Clones share one number.
#[derive(Clone, Debug, Default)]
pub struct OpenConnections(Arc<AtomicUsize>);

impl OpenConnections {
    /// Connections that are open now, those in a TLS handshake included.
    #[must_use]
    pub fn now(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// The result of a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Connections that the server cut because they were still open at the deadline.
    pub connections_cut: usize,
}

/// Serves `router` on `listener` until `shutdown` holds `true` or its sender is dropped; then drains.
///
/// With `tls`, every connection is TLS. Each request has the address of its peer among its
/// extensions, as `ConnectInfo<SocketAddr>`.
///
/// A drain accepts the connections of the backlog, closes the listener, and answers every request
/// whose first byte has arrived. The last response of a connection has `Connection: close`. Idle
/// connections are closed at once. The drain ends when all connections have ended, and at the
/// latest after `limits.drain_timeout`.
///
/// # Errors
///
/// The connections of the backlog could not be accepted. The connections that were open are drained
/// all the same. Before the drain, a failed accept is logged and tried again.
pub async fn serve(
    listener: TcpListener,
    tls: Option<TlsIdentity>,
    router: Router,
    limits: ServerLimits,
    shutdown: watch::Receiver<bool>,
) -> io::Result<Drained> {
    serve_counted(listener, tls, router, limits, OpenConnections::default(), shutdown).await
}

/// The same as [`serve`], and `open` holds the number of open connections at any time.
///
/// # Errors
///
/// As [`serve`].
pub async fn serve_counted(
    listener: TcpListener,
    tls: Option<TlsIdentity>,
    router: Router,
    limits: ServerLimits,
    open: OpenConnections,
    shutdown: watch::Receiver<bool>,
) -> io::Result<Drained> {
    accept::AcceptLoop::new(tls, router, limits, open, shutdown).run(listener).await
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExample;

#[cfg(test)]
mod tests;
