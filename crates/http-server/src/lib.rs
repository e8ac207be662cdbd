//! The accept loop: connections in, requests to the router, and an orderly end (contract 2.2, 2.7, 9).
//!
//! hyper speaks HTTP/1.1. Beside it, this module holds every connection to its limits, knows which
//! requests have begun when the server is told to stop, and answers exactly those. The walk of a
//! connection: [`serve`] accepts it, `tls` makes TLS of it where that is set, `connection` runs hyper
//! on it, `socket` sees its bytes pass (and `wire` those beneath TLS), `framing` tells from them where
//! requests begin and end, and `progress` says how long it may take.

mod connection;
mod framing;
mod progress;
mod socket;
mod tls;
mod wire;

use std::io;
use std::net::SocketAddr;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;
use std::time::Duration;

use axum::Router;
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{self, Runtime};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// The pause after a failure to accept that would repeat at once, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Failures to accept are logged no more often than this.
const ACCEPT_LOG_INTERVAL: Duration = Duration::from_secs(1);

/// How many connections a drain takes from the backlog: as many as the kernel keeps there by
/// default, so that a flood of new ones cannot keep the listener open.
const DRAIN_ACCEPTS_MAX: usize = 4096;

/// How long connections that were cut may take to let go.
const CUT_GRACE: Duration = Duration::from_millis(100);

pub use tls::{Tls, TlsError};

/// What a connection may take (contract 2.7). The defaults are the contract's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a request's head, request line and all; one more is answered with 431.
    pub header_bytes_max: usize,
    /// From a request's first byte to the end of its head, and from accept to a first byte.
    pub header_timeout: Duration,
    /// From an answer to the first byte of the next request.
    pub keep_alive_timeout: Duration,
    /// How long a peer may take no byte of an answer that waits for it.
    pub write_timeout: Duration,
    /// Connections at a time; more wait in the kernel's backlog.
    pub connections_max: usize,
    /// From the signal to stop to the moment when what is left is cut.
    pub drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            header_bytes_max: 32 * 1024,
            header_timeout: Duration::from_secs(10),
            keep_alive_timeout: Duration::from_secs(75),
            write_timeout: Duration::from_secs(30),
            connections_max: 10_000,
            drain_timeout: Duration::from_secs(30),
        }
    }
}

/// How many connections of a listener are open. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct OpenConnections(Arc<AtomicUsize>);

impl OpenConnections {
    /// Connections now.
    #[must_use]
    pub fn now(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// An open connection; it counts until this is dropped, however the connection ends.
struct Counted(OpenConnections);

impl Counted {
    fn new(open: &OpenConnections) -> Self {
        open.0.fetch_add(1, Ordering::Relaxed);
        Self(open.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How a drain went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Connections that were not done at the deadline and were cut.
    pub connections_cut: usize,
}

/// Serves `router` on `listener`, with TLS where `tls` is given, until `shutdown` holds `true` or its sender is gone; then drains.
///
/// Every request finds its peer's address as `ConnectInfo<SocketAddr>` among its extensions.
///
/// A drain accepts what waits in the backlog, closes the listener, answers every request whose first
/// byte has come, and closes each connection behind its last answer, which says
/// `Connection: close`; idle connections are closed at once. It ends when all connections have
/// ended, and after `limits.drain_timeout` in any case.
///
/// # Errors
///
/// When the connections that waited in the backlog could not be taken over; those that were open are
/// drained all the same. Before the drain, a failure to accept is logged and survived.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Tls>,
    router: Router,
    limits: Limits,
    shutdown: watch::Receiver<bool>,
) -> io::Result<Drained> {
    serve_counted(listener, tls, router, limits, OpenConnections::default(), shutdown).await
}

/// [`serve`], and `open` tells at any time how many connections are open.
///
/// # Errors
///
/// As [`serve`].
pub async fn serve_counted(
    listener: TcpListener,
    tls: Option<Tls>,
    router: Router,
    limits: Limits,
    open: OpenConnections,
    shutdown: watch::Receiver<bool>,
) -> io::Result<Drained> {
    let mut server = Server { tls, router, limits, shutdown, open, connections: JoinSet::new() };
    server.accept_until_stopped(&listener).await;
    let deadline = Instant::now() + limits.drain_timeout;
    let accepted = server.accept_backlog(listener, deadline).await;
    let drained = server.drain(deadline).await;
    accepted.map(|()| drained)
}

/// The runtime of a server: a worker thread for each core but one, because a writer of exchanges has
/// a thread of its own, which is to find a core free.
///
/// # Errors
///
/// When the operating system gives no threads.
pub fn runtime() -> io::Result<Runtime> {
    let cores = available_parallelism().map_or(1, NonZero::get);
    runtime::Builder::new_multi_thread().worker_threads(cores.saturating_sub(1).max(1)).enable_all().build()
}

/// Raises the process's soft limit of open files to its hard limit, and gives the limit that now
/// holds (`u64::MAX` for none). Every connection takes one file (contract 2.7).
///
/// # Errors
///
/// When the kernel refuses; the limit is then as it was.
pub fn raise_open_files_limit() -> io::Result<u64> {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        setrlimit(Resource::Nofile, limit)?;
    }
    Ok(limit.current.unwrap_or(u64::MAX))
}

/// Ends when the server is told to stop. A sender that is gone can tell nobody to stop any more, so
/// that counts as well.
async fn stopped(mut shutdown: watch::Receiver<bool>) {
    let _ = shutdown.wait_for(|stop| *stop).await;
}

struct Server {
    tls: Option<Tls>,
    router: Router,
    limits: Limits,
    open: OpenConnections,
    shutdown: watch::Receiver<bool>,
    connections: JoinSet<()>,
}

impl Server {
    async fn accept_until_stopped(&mut self, listener: &TcpListener) {
        let mut failures = AcceptFailures::default();
        let mut stop = std::pin::pin!(stopped(self.shutdown.clone()));
        loop {
            let has_room = self.connections.len() < self.limits.connections_max;
            tokio::select! {
                biased;
                () = &mut stop => return,
                Some(ended) = self.connections.join_next() => report(ended),
                accepted = listener.accept(), if has_room => match accepted {
                    Ok((stream, peer)) => self.start(stream, peer),
                    Err(error) => failures.survive(&error).await,
                },
            }
        }
    }

    /// Accepts what is established already, and closes the listener.
    async fn accept_backlog(&mut self, listener: TcpListener, deadline: Instant) -> io::Result<()> {
        // The event loop may not know yet of the newest connections; the kernel does.
        let listener = listener.into_std()?;
        for _ in 0..DRAIN_ACCEPTS_MAX {
            while self.connections.len() >= self.limits.connections_max {
                match timeout_at(deadline, self.connections.join_next()).await {
                    Ok(Some(ended)) => report(ended),
                    Ok(None) => break,
                    Err(_) => return Ok(()),
                }
            }
            match listener.accept() {
                Ok((stream, peer)) => {
                    stream.set_nonblocking(true)?;
                    self.start(TcpStream::from_std(stream)?, peer);
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn start(&mut self, stream: TcpStream, peer: SocketAddr) {
        // It fails only on a connection that is gone already, which the first read will tell.
        let _ = stream.set_nodelay(true);
        let (tls, router, shutdown) = (self.tls.clone(), self.router.clone(), self.shutdown.clone());
        let (limits, counted) = (self.limits, Counted::new(&self.open));
        self.connections.spawn(async move {
            connection::run(stream, peer, tls, router, limits, shutdown).await;
            drop(counted);
        });
    }

    async fn drain(mut self, deadline: Instant) -> Drained {
        let all_ended = async {
            while let Some(ended) = self.connections.join_next().await {
                report(ended);
            }
        };
        if timeout_at(deadline, all_ended).await.is_ok() {
            return Drained { connections_cut: 0 };
        }
        let connections_cut = self.connections.len();
        tracing::warn!(connections_cut, "the drain deadline has passed: connections are cut");
        // So that what the handlers hold is let go before the caller closes it under them.
        let _ = timeout(CUT_GRACE, self.connections.shutdown()).await;
        Drained { connections_cut }
    }
}

/// A panic ends its own connection alone.
fn report(ended: Result<(), JoinError>) {
    if ended.is_err_and(|error| error.is_panic()) {
        tracing::error!("the task of a connection panicked; the connection is closed");
    }
}

/// Whether a failure to accept concerns a connection that went away, and not the server.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}

/// Failures to accept, logged once a while.
#[derive(Default)]
struct AcceptFailures {
    last_logged: Option<Instant>,
    unlogged: u64,
}

impl AcceptFailures {
    async fn survive(&mut self, error: &io::Error) {
        self.unlogged += 1;
        if self.last_logged.is_none_or(|last| last.elapsed() >= ACCEPT_LOG_INTERVAL) {
            tracing::warn!(%error, failures = self.unlogged, "connections cannot be accepted");
            *self = Self { last_logged: Some(Instant::now()), unlogged: 0 };
        }
        if !is_of_one_connection(error) {
            sleep(ACCEPT_PAUSE).await;
        }
    }
}

#[cfg(test)]
mod tests;
