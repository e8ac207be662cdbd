//! The outcome of one event at a receiver.

use domain::receiver::ReceiverId;
use time::OffsetDateTime;

use super::event_types;
use crate::error::{Result, StoreError};
use crate::event::EventKey;
use crate::store::Store;

/// The outcome of an event at a receiver. `tries` is their number since the event was sent first, or sent again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventOutcome {
    /// The receiver is not told of events of this type.
    NotWanted,
    /// It happened before the receiver was added.
    Earlier,
    /// It waits for its next try.
    Waiting {
        /// Tries before.
        tries: i32,
        /// Time of the next one, if there was one before.
        next_at: Option<OffsetDateTime>,
    },
    /// The receiver did not take it at any try.
    Failed {
        /// How often it was tried.
        tries: i32,
    },
    /// The receiver took it.
    Taken,
}

impl Store {
    /// The outcome of an event at a receiver. `None` when the app of the event has no such receiver.
    pub async fn event_outcome(&self, event: &EventKey, id: &ReceiverId) -> Result<Option<EventOutcome>> {
        let row = sqlx::query!(
            r#"SELECT r.types, r.created_at, r.through_no, d.state AS "state?", d.tries AS "tries?", d.next_at AS "next_at?"
               FROM receivers r LEFT JOIN deliveries d
                   ON d.app_id = r.app_id AND d.receiver_id = r.receiver_id AND d.event_no = $3
               WHERE r.app_id = $1 AND r.receiver_id = $2"#,
            event.app_id.as_str(),
            id.as_str(),
            event.no
        );
        let Some(row) = row.fetch_optional(&self.pool).await? else { return Ok(None) };
        let (types, tries) = (event_types(&row.types)?, row.tries.unwrap_or(0));
        Ok(Some(match row.state.as_deref() {
            Some("waiting") => EventOutcome::Waiting { tries, next_at: row.next_at },
            Some("failed") => EventOutcome::Failed { tries },
            Some("taken") => EventOutcome::Taken,
            Some(_) => return Err(StoreError::damaged("deliveries")),
            None if !types.is_empty() && !types.contains(&event.event_type) => EventOutcome::NotWanted,
            None if event.no > row.through_no => EventOutcome::Waiting { tries: 0, next_at: None },
            None if event.at < row.created_at => EventOutcome::Earlier,
            // An event that was taken at its first try has no row.
            None => EventOutcome::Taken,
        }))
    }
}
