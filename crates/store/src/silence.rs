//! A timeout for work that hears nothing more, however long the work takes in all.
//!
//! A host that is cut off does not even end its sessions. TCP notices that after a quarter of an hour, and never when it was
//! the host's turn to speak. The driver of the sessions has no setting for its sockets, so whoever waits for an answer
//! gives up by itself.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use tokio::time::{Instant, sleep};

use crate::error::{Result, StoreError};

/// Wakes the task of some work, and remembers that it has. So its waking differs from that of the timer.
#[derive(Debug)]
struct Waking {
    has_come: AtomicBool,
    task: AtomicWaker,
}

impl Wake for Waking {
    fn wake(self: Arc<Self>) {
        self.has_come.store(true, Ordering::Release);
        self.task.wake();
    }
}

/// A session may be silent for so many times the time limit of a statement. A COMMIT, which has no time limit, waits
/// for disks and standbys.
pub(crate) const SILENT_STATEMENTS: u32 = 3;

/// Waits for the end of `work`. It is dropped, and gives `None`, once nothing has woken it for `silence_max`: no answer, and
/// no timer of its own. What it had begun elsewhere may go on there.
pub async fn unless_silent<T>(silence_max: Duration, work: impl Future<Output = T>) -> Option<T> {
    let waking = Arc::new(Waking { has_come: AtomicBool::new(true), task: AtomicWaker::new() });
    let waker = Waker::from(Arc::clone(&waking));
    let mut work = pin!(work);
    let mut silence = pin!(sleep(silence_max));
    poll_fn(|context| {
        waking.task.register(context.waker());
        if waking.has_come.swap(false, Ordering::AcqRel) {
            if let Poll::Ready(done) = work.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Poll::Ready(Some(done));
            }
            silence.as_mut().reset(Instant::now() + silence_max);
        }
        silence.as_mut().poll(context).map(|()| None)
    })
    .await
}

/// The result of a look-up, or an error once nothing has woken it for `silence_max`.
pub(crate) async fn unless_silent_look_up<T>(
    silence_max: Duration,
    look_up: impl Future<Output = Result<T>>,
) -> Result<T> {
    let found = unless_silent(silence_max, look_up).await;
    found.unwrap_or_else(|| Err(StoreError::unavailable("it does not answer")))
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    const MOMENT: Duration = Duration::from_millis(5);

    #[tokio::test]
    async fn work_that_nothing_wakes_is_given_up() {
        assert_eq!(unless_silent(MOMENT, pending::<()>()).await, None);
        let falls_silent = async {
            sleep(MOMENT).await;
            pending::<()>().await;
        };
        assert_eq!(unless_silent(4 * MOMENT, falls_silent).await, None);
    }

    /// Where the machine stalls, what has woken the work counts, and not the time.
    #[tokio::test]
    async fn work_that_is_woken_lasts_as_long_as_it_takes() {
        let began = Instant::now();
        let goes_on = async {
            while began.elapsed() < 40 * MOMENT {
                sleep(MOMENT).await;
            }
            7
        };
        assert_eq!(unless_silent(20 * MOMENT, goes_on).await, Some(7));
    }
}
