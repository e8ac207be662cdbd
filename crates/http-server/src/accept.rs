//! The accept loop and the graceful drain of one listener.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::{self, JoinError, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout, timeout_at};

use crate::Handler;
use crate::connection;
use crate::connection_slots::ConnectionSlots;
use crate::limits::ServerLimits;
use crate::progress::SharedProgress;
use crate::tls::TlsIdentity;

/// The pause after a failed accept that would fail again at once, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Failed accepts are logged at most this often.
const ACCEPT_LOG_INTERVAL: Duration = Duration::from_secs(1);

/// How often a crowded listener looks for idle connections to close.
const ROOM_INTERVAL: Duration = Duration::from_millis(100);

/// How many new connections the kernel keeps for the listener. One that finds no room tries again after
/// a second.
const BACKLOG: u16 = 4096;

/// A drain accepts this many of them, so a flood of new connections cannot keep the listener open.
const DRAIN_ACCEPTS_MAX: usize = BACKLOG as usize;

/// How long connections that were cut may take to release what they hold.
const CUT_GRACE: Duration = Duration::from_millis(100);

/// The counts of a listener's connections. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct OpenConnections(Arc<ConnectionCounts>);

#[derive(Debug, Default)]
struct ConnectionCounts {
    now: AtomicUsize,
    refused: AtomicU64,
    closed_for_room: AtomicU64,
}

impl OpenConnections {
    /// Connections that are open now, those in a TLS handshake included.
    #[must_use]
    pub fn now(&self) -> usize {
        self.0.now.load(Ordering::Relaxed)
    }

    /// Connections that were reset because their address had as many as it may have.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }

    /// Idle connections that were closed to make room for others.
    #[must_use]
    pub fn closed_for_room(&self) -> u64 {
        self.0.closed_for_room.load(Ordering::Relaxed)
    }
}

/// Listens on an address, with room for a crowd of new connections. Linux caps the room at
/// `net.core.somaxconn`.
///
/// # Errors
/// The address is in use, is not this machine's, or may not be used.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A server that starts again need not wait for the connections of the one before.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG.into())
}

/// The result of a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Connections that the server cut because they were still open at the deadline.
    pub connections_cut: usize,
}

/// A listener's settings and its open connections.
pub(super) struct AcceptLoop<H> {
    pub(super) tls: Option<TlsIdentity>,
    pub(super) handler: H,
    pub(super) limits: Arc<ServerLimits>,
    pub(super) open: OpenConnections,
    pub(super) shutdown: watch::Receiver<bool>,
    pub(super) places: ConnectionSlots,
    pub(super) connections: JoinSet<()>,
}

impl<H: Handler> AcceptLoop<H> {
    /// Accepts connections until the server stops, then drains.
    pub(super) async fn run(mut self, listener: TcpListener) -> io::Result<Drained> {
        self.accept_until_stopped(&listener).await;
        let deadline = Instant::now() + self.limits.drain_timeout;
        let accepted = self.accept_backlog(listener, deadline).await;
        let drained = self.drain(deadline).await;
        accepted.map(|()| drained)
    }

    async fn accept_until_stopped(&mut self, listener: &TcpListener) {
        let mut failures = AcceptFailures::default();
        let mut stop = pin!(stopped(self.shutdown.clone()));
        let mut room = interval(ROOM_INTERVAL);
        room.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let crowded_at = self.limits.connections_max - self.limits.connections_max / 10;
        loop {
            let has_room = self.connections.len() < self.limits.connections_max;
            let is_crowded = self.connections.len() > crowded_at;
            tokio::select! {
                biased;
                () = &mut stop => return,
                Some(ended) = self.connections.join_next_with_id() => self.ended(ended),
                _ = room.tick(), if is_crowded => self.make_room(crowded_at),
                accepted = listener.accept(), if has_room => match accepted {
                    Ok((stream, peer)) => self.start(stream, peer),
                    Err(error) => failures.survive(&error).await,
                },
            }
        }
    }

    /// Accepts the connections that the kernel has established, and closes the listener.
    async fn accept_backlog(&mut self, listener: TcpListener, deadline: Instant) -> io::Result<()> {
        // tokio may not have seen the newest connections yet. The kernel has, so ask it directly.
        let listener = listener.into_std()?;
        for _ in 0..DRAIN_ACCEPTS_MAX {
            while self.connections.len() >= self.limits.connections_max {
                match timeout_at(deadline, self.connections.join_next_with_id()).await {
                    Ok(Some(ended)) => self.ended(ended),
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
        let Some(admission) = self.places.admit(peer.ip(), &self.limits) else {
            // A reset costs less than an answer, and the kernel keeps nothing of the connection.
            let _ = stream.set_zero_linger();
            self.open.0.refused.fetch_add(1, Ordering::Relaxed);
            return;
        };
        // This fails only on a connection that is gone. The first read reports that.
        let _ = stream.set_nodelay(true);
        let (progress, close) = (SharedProgress::new(Instant::now()), Arc::new(Notify::new()));
        let (shutdown, closed) = (self.shutdown.clone(), Arc::clone(&close));
        let stop = async move {
            tokio::select! {
                () = stopped(shutdown) => {}
                () = closed.notified() => {}
            }
        };
        let (tls, handler, limits) = (self.tls.clone(), self.handler.clone(), Arc::clone(&self.limits));
        let running = connection::run(stream, peer, tls, handler, limits, progress.clone(), stop);
        let task = self.connections.spawn(running).id();
        self.places.open(task, admission, progress, close);
        self.count();
    }

    fn ended(&mut self, ended: Result<(task::Id, ()), JoinError>) {
        let task = match &ended {
            Ok((task, ())) => *task,
            Err(error) => error.id(),
        };
        self.places.ended(task);
        self.count();
        // A panic ends only its own connection.
        if ended.is_err_and(|error| error.is_panic()) {
            tracing::error!("the task of a connection panicked; the connection is closed");
        }
    }

    fn make_room(&self, crowded_at: usize) {
        let closed = self.places.make_room(crowded_at) as u64;
        self.open.0.closed_for_room.fetch_add(closed, Ordering::Relaxed);
    }

    fn count(&self) {
        self.open.0.now.store(self.connections.len(), Ordering::Relaxed);
    }

    async fn drain(mut self, deadline: Instant) -> Drained {
        let all_ended = async {
            while let Some(ended) = self.connections.join_next_with_id().await {
                self.ended(ended);
            }
        };
        if timeout_at(deadline, all_ended).await.is_ok() {
            return Drained { connections_cut: 0 };
        }
        let connections_cut = self.connections.len();
        tracing::warn!(connections_cut, "the drain deadline has passed: connections are cut");
        // The handlers release what they hold before the caller closes it.
        let _ = timeout(CUT_GRACE, self.connections.shutdown()).await;
        self.count();
        Drained { connections_cut }
    }
}

/// Ends when the server is to stop. A dropped sender counts as a signal to stop, because nothing
/// could send that signal any more.
async fn stopped(mut shutdown: watch::Receiver<bool>) {
    let _ = shutdown.wait_for(|stop| *stop).await;
}

/// Whether an accept failed because its connection went away. Other errors concern the listener.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}

/// Counts failed accepts between two lines of the log.
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
