//! Held polls of the feed (contract 12.5): one look at the head of the feed for all of them.
//!
//! Whenever the head moves, one task reads what is new and keeps it for a while. Each poll finds there what it waits for, so a
//! tick costs the database the same for one poll and for thousands. A poll that has missed something reads by itself.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use store::{EventCursor, EventNews, Store};
use tokio::sync::watch;
use tokio::time::sleep;

/// News that are kept. A poll that is further behind reads by itself.
const NEWS_MAX: usize = 16;
/// How long the task waits before it asks again a database that did not answer.
const PAUSE: Duration = Duration::from_secs(1);
/// The shortest time between two looks at the feed: events of many payments come in one piece.
const TICK: Duration = Duration::from_millis(50);
/// Each look wakes all polls, so with more of them it comes less often. 4,000 polls hear of an event within a second.
const WOKEN_PER_SECOND: u32 = 4_000;

/// News for held polls. Cheap to clone.
#[derive(Debug, Clone)]
pub struct FeedWatch {
    recent: Arc<Mutex<Recent>>,
    moved: watch::Sender<()>,
    reads: Arc<Once>,
}

/// The last state that was read.
#[derive(Debug, Default)]
struct Recent {
    /// One after the other, oldest first. The last ones end at `seen`.
    news: VecDeque<Arc<EventNews>>,
    /// The number up to which the feed was read.
    seen: i64,
    /// A cursor at or behind `seen` that a poll has read to.
    head: Option<EventCursor>,
}

/// A held poll.
#[derive(Debug)]
pub struct HeldPoll {
    feed: FeedWatch,
    moved: watch::Receiver<()>,
}

impl Default for FeedWatch {
    fn default() -> Self {
        Self { recent: Arc::default(), moved: watch::Sender::new(()), reads: Arc::new(Once::new()) }
    }
}

impl FeedWatch {
    /// Listens to what comes from now on. What was there before must be read after this. The first call begins to read,
    /// with the sessions of this store, whenever the head moves.
    #[must_use]
    pub fn listen(&self, store: &Store, heads: &watch::Sender<i64>) -> HeldPoll {
        let listener = HeldPoll { feed: self.clone(), moved: self.moved.subscribe() };
        self.reads.call_once(|| {
            self.recent().seen = *heads.borrow();
            tokio::spawn(self.clone().read(store.clone(), heads.subscribe()));
        });
        listener
    }

    /// Reads what is new whenever the head moves, while somebody listens.
    async fn read(self, store: Store, mut heads: watch::Receiver<i64>) {
        loop {
            let head = *heads.borrow_and_update();
            // The head of a restored database went back.
            if head < self.recent().seen {
                self.recent().skip_to(head);
            }
            while self.recent().seen < head && self.moved.receiver_count() > 0 {
                let seen = self.recent().seen;
                match store.event_news(seen).await {
                    Ok(Some(news)) => self.recent().add(news),
                    Ok(None) => break,
                    Err(error) => {
                        tracing::debug!(%error, "held polls of the feed wait for the database");
                        sleep(PAUSE).await;
                    }
                }
            }
            if self.recent().seen < head {
                self.recent().skip_to(head);
            }
            self.moved.send_replace(());
            sleep(TICK.max(self.time_to_wake())).await;
            if heads.changed().await.is_err() {
                return;
            }
        }
    }

    fn time_to_wake(&self) -> Duration {
        let polls = u32::try_from(self.moved.receiver_count()).unwrap_or(u32::MAX);
        Duration::from_secs(1).saturating_mul(polls) / WOKEN_PER_SECOND
    }

    /// Forgets what was read: the feed begins anew.
    pub fn forget(&self) {
        *self.recent() = Recent::default();
        self.moved.send_replace(());
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recent {
    fn add(&mut self, news: EventNews) {
        if self.news.len() == NEWS_MAX {
            self.news.pop_front();
        }
        self.seen = news.next().no();
        self.head = Some(news.next());
        self.news.push_back(Arc::new(news));
    }

    /// Nobody wanted what is between, or it cannot be read.
    fn skip_to(&mut self, head: i64) {
        *self = Self { seen: head, ..Self::default() };
    }
}

impl HeldPoll {
    /// Whether this is a cursor of the feed behind which nothing is missed, so that a poll need not look at the database.
    #[must_use]
    pub fn knows(&self, cursor: EventCursor) -> bool {
        let recent = self.feed.recent();
        recent.head == Some(cursor) || recent.news.iter().any(|news| news.has_place(cursor))
    }

    /// Notes that a look at the database, which began after [`FeedWatch::listen`], found nothing behind this cursor.
    pub fn note(&self, cursor: EventCursor) {
        let mut recent = self.feed.recent();
        if cursor.no() >= recent.seen {
            recent.head = Some(cursor);
        }
    }

    /// Waits for the news behind the event with this number. `None` where some were missed.
    pub async fn next(&mut self, no: i64) -> Option<Arc<EventNews>> {
        loop {
            {
                let recent = self.feed.recent();
                if no < recent.seen {
                    return recent.news.iter().find(|news| news.go_on_from(no)).cloned();
                }
            }
            // This listener holds the sender, so it is never gone.
            let _ = self.moved.changed().await;
        }
    }
}
