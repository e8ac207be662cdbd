//! Held polls of the feed (contract 12.5): one look at the head of the feed for all of them.
//!
//! Whenever the head moves, one task reads what is new and hands it to every poll. So a tick costs the database the same
//! for one poll and for thousands. A poll that has missed something reads by itself.

use std::sync::{Arc, Once};
use std::time::Duration;

use store::{EventNews, Store};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use tokio::time::sleep;

/// News that wait for a poll. One that is further behind reads by itself.
const WAITING_MAX: usize = 64;
/// How long the task waits before it asks again a database that did not answer.
const PAUSE: Duration = Duration::from_secs(1);
/// The shortest time between two looks at the feed: events of many payments come in one piece.
const TICK: Duration = Duration::from_millis(50);

/// News for held polls.
#[derive(Debug)]
pub struct FeedWatch {
    news: broadcast::Sender<Arc<EventNews>>,
    reads: Once,
}

/// What a held poll hears.
#[derive(Debug)]
pub struct Listener(broadcast::Receiver<Arc<EventNews>>);

impl Default for FeedWatch {
    fn default() -> Self {
        Self { news: broadcast::Sender::new(WAITING_MAX), reads: Once::new() }
    }
}

impl FeedWatch {
    /// Listens to what comes from now on. What was there before must be read after this. The first call begins to read,
    /// with the sessions of this store, whenever the head moves.
    pub fn listen(&self, store: &Store, heads: &watch::Sender<i64>) -> Listener {
        let listener = Listener(self.news.subscribe());
        self.reads.call_once(|| {
            tokio::spawn(read(store.clone(), heads.subscribe(), self.news.clone()));
        });
        listener
    }
}

impl Listener {
    /// The next news. `None` after some that were missed.
    pub async fn next(&mut self) -> Option<Arc<EventNews>> {
        match self.0.recv().await {
            Ok(news) => Some(news),
            Err(RecvError::Lagged(_)) => None,
            // A server that stops tells nothing more.
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// Reads what is new whenever the head moves, while somebody listens.
async fn read(store: Store, mut heads: watch::Receiver<i64>, news: broadcast::Sender<Arc<EventNews>>) {
    let mut seen = *heads.borrow_and_update();
    while heads.changed().await.is_ok() {
        let head = *heads.borrow_and_update();
        // The head of a restored database went back.
        seen = seen.min(head);
        while seen < head && news.receiver_count() > 0 {
            match store.event_news(seen).await {
                Ok(Some(new)) => {
                    seen = new.last_no();
                    // It fails when nobody listens any more.
                    let _ = news.send(Arc::new(new));
                }
                Ok(None) => break,
                Err(error) => {
                    tracing::debug!(%error, "held polls of the feed wait for the database");
                    sleep(PAUSE).await;
                }
            }
        }
        seen = seen.max(head);
        sleep(TICK).await;
    }
}
