//! A sandbox server: the platform on a laptop (contract 18). Here is what its calls share: a clock that moves forward, and
//! the way to a reset. A normal server has none of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use domain::clock::{Clock, SystemClock};
use store::{Result, StoreError};
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock, mpsc, oneshot};
use tracing::Instrument as _;

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

/// A reset that was asked for. No call is under way while it lives, even where who asked hangs up.
#[derive(Debug)]
pub struct Reset {
    alone: OwnedRwLockWriteGuard<()>,
    done: oneshot::Sender<Result<()>>,
}

impl Reset {
    /// Tells who asked what became of it, and lets calls begin.
    pub fn answer(self, outcome: Result<()>) {
        drop(self.alone);
        // Who has asked may be gone.
        let _ = self.done.send(outcome);
    }
}

/// The additional state of the handlers of a sandbox server.
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
    async fn stop_calls(&self) -> OwnedRwLockWriteGuard<()> {
        Arc::clone(&self.calls).write_owned().await
    }

    /// Does this once the calls under way have ended. It is done to its end, even where who asked hangs up, and no call
    /// begins before.
    ///
    /// # Errors
    /// The work panicked.
    pub async fn alone<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T> {
        let alone = self.stop_calls().await;
        let work = async move {
            let _alone = alone;
            work.await
        };
        tokio::spawn(work.in_current_span())
            .await
            .map_err(|fault| StoreError::Internal(format!("the task of a call ended: {fault}")))
    }

    /// Makes everything as it was after the start, once the calls under way have ended.
    ///
    /// # Errors
    /// The database is away, or the server stops.
    pub async fn reset(&self) -> Result<()> {
        let alone = self.stop_calls().await;
        let (done, outcome) = oneshot::channel();
        let stopping = || StoreError::unavailable("the server stops");
        self.resets.send(Reset { alone, done }).await.map_err(|_| stopping())?;
        outcome.await.map_err(|_| stopping())?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rule 18.2.2: who hangs up lets no call begin before the work is done.
    #[tokio::test]
    async fn calls_wait_for_work_whose_caller_hangs_up() {
        let (sandbox, mut asked) = SandboxServer::new(Arc::default());
        let sandbox = Arc::new(sandbox);
        let caller = tokio::spawn({
            let sandbox = Arc::clone(&sandbox);
            async move { sandbox.reset().await }
        });
        let reset = asked.recv().await.unwrap();
        caller.abort();
        assert!(caller.await.unwrap_err().is_cancelled());
        assert!(sandbox.calls.try_read().is_err());
        reset.answer(Ok(()));
        drop(sandbox.begin_call().await);

        let (begin, begins) = oneshot::channel();
        let (done, end) = oneshot::channel();
        let caller = tokio::spawn({
            let sandbox = Arc::clone(&sandbox);
            async move {
                sandbox
                    .alone(async move {
                        begin.send(()).unwrap();
                        end.await.unwrap();
                    })
                    .await
            }
        });
        begins.await.unwrap();
        caller.abort();
        assert!(caller.await.unwrap_err().is_cancelled());
        assert!(sandbox.calls.try_read().is_err());
        done.send(()).expect("the work goes on");
        drop(sandbox.begin_call().await);
    }
}
