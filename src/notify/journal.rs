//! A journal of the tries of notifications, until they are written to the database.

use std::time::Duration;

use store::{DueDelivery, NotTaken, ReceiverTry, TriesNote};
use tokio::time::Instant;

/// How often what became of tries is written.
pub(super) const NOTED_EVERY: Duration = Duration::from_millis(100);
/// How often the newest tries are written that were taken.
const TRIES_NOTED_EVERY: Duration = Duration::from_secs(1);
/// The most tries that an operator sees.
pub(crate) const TRIES_SHOWN: usize = 20;

/// The journal of one receiver.
#[derive(Debug)]
pub(super) struct Journal {
    note: TriesNote,
    has_news: bool,
    noted_at: Instant,
    /// When the newest tries were written. `None` before the first time.
    tries_noted_at: Option<Instant>,
    /// Whether the note that is being written has the newest tries.
    shows: bool,
}

impl Journal {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            note: TriesNote::default(),
            has_news: false,
            noted_at: now,
            tries_noted_at: None,
            shows: false,
        }
    }

    /// Whether it is time to write. A delivery that idles writes all news at once.
    pub(super) fn is_due(&self, is_idle: bool, now: Instant) -> bool {
        is_idle && self.has_news || now >= self.noted_at + NOTED_EVERY
    }

    /// The results that are not written yet.
    pub(super) fn note(&self) -> &TriesNote {
        &self.note
    }

    /// The place in the feed has advanced over events of the app.
    pub(super) fn advanced(&mut self) {
        self.has_news = true;
    }

    /// Nothing is left of these events that could be sent.
    pub(super) fn gone(&mut self, events: Vec<i64>) {
        self.has_news |= !events.is_empty();
        self.note.gone.extend(events);
    }

    /// An event was taken. `again` is its row, if it had been tried before.
    pub(super) fn taken(&mut self, again: Option<DueDelivery>, is_back: bool) {
        self.note.taken += 1;
        self.note.taken_again.extend(again);
        self.note.is_back |= is_back;
        self.note.last_was_taken = Some(true);
    }

    /// An event was not accepted. With `pauses` the receiver wants nothing more.
    pub(super) fn not_taken(&mut self, failed: NotTaken, pauses: bool) {
        self.note.pauses |= pauses;
        self.note.last_was_taken = Some(false);
        self.note.not_taken.push(failed);
    }

    /// The newest try, for operators.
    pub(super) fn show(&mut self, shown: ReceiverTry) {
        self.has_news = true;
        self.note.tries.insert(0, shown);
        self.note.tries.truncate(TRIES_SHOWN);
    }

    /// The results to write now. `None` without news.
    pub(super) fn begin(&mut self, through_no: i64, is_idle: bool, now: Instant) -> Option<TriesNote> {
        self.noted_at = now;
        self.note.through_no = through_no;
        if !self.has_news {
            return None;
        }
        self.shows = is_idle
            || !self.note.not_taken.is_empty()
            || self.tries_noted_at.is_none_or(|at| now >= at + TRIES_NOTED_EVERY);
        let mut note = self.note.clone();
        if !self.shows {
            note.tries.clear();
        }
        Some(note)
    }

    /// What was begun is written; gives it.
    pub(super) fn written(&mut self) -> TriesNote {
        let mut written = std::mem::take(&mut self.note);
        if self.shows {
            self.tries_noted_at = Some(self.noted_at);
        } else {
            self.note.tries = std::mem::take(&mut written.tries);
        }
        self.has_news = !self.note.tries.is_empty();
        written
    }
}
