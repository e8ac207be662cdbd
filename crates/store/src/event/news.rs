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
    /// The position at which the feed goes on.
    next: EventCursor,
    keys: Vec<EventKey>,
    /// Each app with each type that one of the events has. Most of those who wait see here that nothing is for them.
    kinds: Vec<(AppId, EventType)>,
    /// What the events tell, once somebody needs it.
    told: OnceCell<Vec<Event>>,
}

impl EventNews {
    /// The news after the event with a number.
    pub(super) fn new(after: i64, next: EventCursor, keys: Vec<EventKey>) -> Self {
        let mut kinds: Vec<(AppId, EventType)> = Vec::new();
        for key in &keys {
            if !kinds.iter().any(|(app_id, of)| *of == key.event_type && *app_id == key.app_id) {
                kinds.push((key.app_id.clone(), key.event_type));
            }
        }
        Self { after, next, keys, kinds, told: OnceCell::new() }
    }

    /// Whether they hold the event after the one with this number.
    #[must_use]
    pub fn go_on_from(&self, no: i64) -> bool {
        (self.after..self.next.no()).contains(&no)
    }

    /// The position at which the feed goes on after them.
    #[must_use]
    pub fn next(&self) -> EventCursor {
        self.next
    }

    /// Whether a cursor is one after an event of these.
    #[must_use]
    pub fn has_place(&self, cursor: EventCursor) -> bool {
        let found = self.keys.binary_search_by_key(&cursor.no(), |key| key.no);
        found.is_ok_and(|index| EventCursor::after(cursor.no(), &self.keys[index].id.row) == cursor)
    }

    /// At most `limit` of the events behind `place` that match a filter, and the place where the feed goes on.
    ///
    /// # Errors
    /// The database is away.
    pub async fn for_one(
        &self,
        store: &Store,
        place: EventCursor,
        filter: &EventFilter,
        limit: usize,
    ) -> Result<(Vec<Event>, EventCursor)> {
        if !self.kinds.iter().any(|(app_id, of)| filter.matches(app_id, *of)) {
            return Ok((Vec::new(), self.next));
        }
        let is_wanted = |key: &&EventKey| key.no > place.no() && filter.matches(&key.app_id, key.event_type);
        let wanted: Vec<&EventKey> = self.keys.iter().filter(is_wanted).take(limit).collect();
        let next = match wanted.last() {
            Some(last) if wanted.len() == limit => EventCursor::after(last.no, &last.id.row),
            _ => self.next,
        };
        // One who waits asks for all: the others find it here.
        let told = self.told.get_or_try_init(|| store.tell(self.keys.clone())).await?;
        let is_asked_for = |event: &&Event| wanted.binary_search_by_key(&event.no, |key| key.no).is_ok();
        Ok((told.iter().filter(is_asked_for).cloned().collect(), next))
    }
}
