//! A sandbox server: the platform on a laptop (contract 18). Here is what its calls share: a clock that moves forward, and
//! the way to a reset. A normal server has none of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use domain::clock::{Clock, SystemClock};
use store::{Result, StoreError};
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock, mpsc, oneshot};

/// Resets that wait. Each has the calls to itself, so there is one at most.
const RESETS_MAX: usize = 1;

/// The machine's clock, and how far this server is ahead of it.
#[derive(Debug, Default)]
pub struct SandboxClock {
    machine: SystemClock,
    ahead_millis: AtomicU64,
}

impl SandboxClock {
    /// How far it is ahead.
    #[must_use]
    pub fn ahead(&self) -> Duration {
        Duration::from_millis(self.ahead_millis.load(Ordering::Relaxed))
    }

    /// Sets how far it is ahead, in whole milliseconds.
    pub fn set_ahead(&self, ahead: Duration) {
        self.ahead_millis.store(u64::try_from(ahead.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

impl Clock for SandboxClock {
    fn unix_millis(&self) -> i64 {
        let ahead = i64::try_from(self.ahead().as_millis()).unwrap_or(i64::MAX);
        self.machine.unix_millis().saturating_add(ahead)
    }

    /// Caches and rate limits go on by the machine's clock.
    fn monotonic(&self) -> Duration {
        self.machine.monotonic()
    }
}

/// A reset that was asked for. The answer is sent back once all is as after the start.
pub type Reset = oneshot::Sender<Result<()>>;

/// What the handlers of a sandbox server have besides those of a normal one.
#[derive(Debug)]
pub struct SandboxServer {
    /// The clock of its state.
    pub clock: Arc<SandboxClock>,
    /// Calls hold it for reading, what needs them to stand still for writing.
    calls: Arc<RwLock<()>>,
    resets: mpsc::Sender<Reset>,
}

impl SandboxServer {
    /// The parts, and where resets are asked for: whoever runs the jobs of the server carries them out.
    #[must_use]
    pub fn new(clock: Arc<SandboxClock>) -> (Self, mpsc::Receiver<Reset>) {
        let (resets, asked) = mpsc::channel(RESETS_MAX);
        (Self { clock, calls: Arc::default(), resets }, asked)
    }

    /// A call is under way while the result lives. It begins after a reset that is under way.
    pub async fn begin_call(&self) -> OwnedRwLockReadGuard<()> {
        Arc::clone(&self.calls).read_owned().await
    }

    /// Waits until the calls under way have ended. None begins while the result lives.
    pub async fn stop_calls(&self) -> OwnedRwLockWriteGuard<()> {
        Arc::clone(&self.calls).write_owned().await
    }

    /// Makes everything as it was after the start, once the calls under way have ended.
    ///
    /// # Errors
    /// The database is away, or the server stops.
    pub async fn reset(&self) -> Result<()> {
        let _alone = self.stop_calls().await;
        let (reset, done) = oneshot::channel();
        let stopping = || StoreError::Unavailable("the server stops".to_owned());
        self.resets.send(reset).await.map_err(|_| stopping())?;
        done.await.map_err(|_| stopping())?
    }
}
