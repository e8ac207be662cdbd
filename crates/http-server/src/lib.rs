//! An HTTP/1.1 server for axum routers: accept loop, TLS, time-outs, connection limit and drain.
//!
//! hyper parses requests and writes responses. This crate adds what stands around hyper. It has time-outs for each step
//! of a connection, against slowloris and peers that do not read. It limits open connections, closes them lingeringly,
//! and drains gracefully. A drain answers exactly the requests whose first byte has arrived, and closes idle keep-alive
//! connections at once.
//!
//! | module | what it does |
//! |---|---|
//! | `limits` | the limits of a listener and its connections |
//! | `accept` | accepts connections until the server stops, then drains them |
//! | `connection_slots` | counts the connections of each address, and finds those that have been idle longest |
//! | `connection` | runs hyper on one connection, with a watchdog beside it |
//! | `progress` | the step that a connection is in, and the deadline of that step |
//! | `framing` | finds where one request ends and the next begins |
//! | `socket` | the byte stream that hyper reads and writes; the lingering close |
//! | `tracked_tcp` | the TCP stream below it; notices a peer that does not read |
//! | `tls` | certificate and key from PEM files, read again when they change |
//! | `tls_records` | finds where a TLS record ends |
//! | `process` | the tokio runtime and the limit of open files |

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use socket2::SockRef;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tower::Service;

mod accept;
mod connection;
mod connection_slots;
mod framing;
mod limits;
mod process;
mod progress;
mod socket;
mod tls;
mod tls_records;
mod tracked_tcp;

pub use accept::{Drained, OpenConnections, listen};
pub use connection_slots::{AddressCounts, counted_as};
pub use limits::ServerLimits;
pub use process::{hide_memory, raise_open_files_limit, runtime};
pub use progress::Peer;
pub use tls::{CertificateValidity, TlsError, TlsIdentity};

use accept::AcceptLoop;
use connection_slots::ConnectionSlots;

/// How many bytes of a connection the kernel takes before it can send them.
const UNSENT_BYTES_MAX: u32 = 32 * 1024;

/// What answers requests: an axum router, or a service around one.
pub trait Handler:
    Service<Request, Response = Response, Error = Infallible, Future: Send> + Clone + Send + Sync + 'static
{
}

impl<S> Handler for S where
    S: Service<Request, Response = Response, Error = Infallible, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static
{
}

/// Serves `handler` on `listener` until `shutdown` holds `true` or its sender is dropped. Then it
/// drains.
///
/// With `tls`, every connection is TLS. Each request has its [`Peer`] among its extensions.
///
/// A drain accepts the connections of the backlog, closes the listener, and answers every request
/// whose first byte has arrived. The last response of a connection has `Connection: close`. Idle
/// connections are closed at once. The drain ends when all connections have ended, and at the
/// latest after `limits.drain_timeout`.
///
/// `open` holds the number of open connections at any time, and counts those that were turned away.
///
/// # Errors
///
/// The connections of the backlog could not be accepted. The connections that were open are drained
/// all the same. Before the drain, a failed accept is logged and tried again.
pub async fn serve(
    listener: TcpListener,
    tls: Option<TlsIdentity>,
    handler: impl Handler,
    limits: ServerLimits,
    open: OpenConnections,
    shutdown: watch::Receiver<bool>,
) -> io::Result<Drained> {
    // Accepted connections inherit it. Without it, the kernel takes megabytes for a slow reader.
    let _ = SockRef::from(&listener).set_tcp_notsent_lowat(UNSENT_BYTES_MAX);
    let (limits, places, connections) = (Arc::new(limits), ConnectionSlots::default(), JoinSet::new());
    AcceptLoop { tls, handler, limits, open, shutdown, places, connections }.run(listener).await
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct HttpServerReadme;

#[cfg(test)]
mod tests;
