//! News of the feed: the events that came since a look at it, read once for all who wait for them.

use domain::event::EventType;
use domain::ids::AppId;
use tokio::sync::OnceCell;

use super::reader::{Event, EventCursor, EventFilter, EventKey};
use crate::error::Result;
use crate::store::Store;

/// The events between two places of the feed.
#[derive(Debug)]
pub struct EventNews {
    /// The number of the event before them.
    after: i64,
    /// Where the feed goes on.
    next: EventCursor,
    keys: Vec<EventKey>,
    /// Each app with each type that one of the events has. Most of those who wait see here that nothing is for them.
    kinds: Vec<(AppId, EventType)>,
    /// What the events tell, once somebody needs it.
    told: OnceCell<Vec<Event>>,
}

/// What the news are to somebody who waits at a place of the feed.
#[derive(Debug)]
pub enum Awaited {
    /// Nothing: they are older than the place.
    Known,
    /// They begin behind the place, so something between is missing.
    Gap,
    /// These events, which may be none, and the place where the feed goes on.
    Events(Vec<Event>, EventCursor),
}

impl EventNews {
    /// The news after the event with a number; `None` where there are none.
    pub(super) fn new(after: i64, next: EventCursor, keys: Vec<EventKey>) -> Self {
        let mut kinds: Vec<(AppId, EventType)> = Vec::new();
        for key in &keys {
            if !kinds.iter().any(|(app_id, of)| *of == key.event_type && *app_id == key.app_id) {
                kinds.push((key.app_id.clone(), key.event_type));
            }
        }
        Self { after, next, keys, kinds, told: OnceCell::new() }
    }

    /// The number of the last event.
    #[must_use]
    pub fn last_no(&self) -> i64 {
        self.next.no()
    }

    /// At most `limit` of the events that match a filter, for somebody who has seen all up to `place`.
    pub async fn for_one(
        &self,
        store: &Store,
        place: EventCursor,
        filter: &EventFilter,
        limit: usize,
    ) -> Result<Awaited> {
        if place.no() < self.after {
            return Ok(Awaited::Gap);
        }
        if place.no() >= self.last_no() {
            return Ok(Awaited::Known);
        }
        if !self.kinds.iter().any(|(app_id, of)| filter.matches(app_id, *of)) {
            return Ok(Awaited::Events(Vec::new(), self.next));
        }
        let is_wanted = |key: &&EventKey| key.no > place.no() && filter.matches(&key.app_id, key.event_type);
        let wanted: Vec<&EventKey> = self.keys.iter().filter(is_wanted).take(limit).collect();
        let next = match wanted.last() {
            Some(last) if wanted.len() == limit => EventCursor::after(last.no, &last.id.row),
            _ => self.next,
        };
        // One who waits asks for all: the others find it here.
        let told = self.told.get_or_try_init(|| store.tell(self.keys.clone())).await?;
        let is_there = |event: &&Event| wanted.iter().any(|key| key.no == event.no);
        Ok(Awaited::Events(told.iter().filter(is_there).cloned().collect(), next))
    }
}
