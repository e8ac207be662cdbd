//! Reads events in their order, with what they tell.

use std::fmt;

use domain::event::{EventData, EventId, EventKeys, EventType, ROW_ID_BYTES};
use domain::fields::Expected;
use domain::ids::{AppId, WalletNo};
use domain::rights::Apps;
use sqlx::PgExecutor;
use time::OffsetDateTime;

use super::data::read_data;
use super::news::EventNews;
use crate::error::{Result, StoreError};
use crate::store::Store;
use crate::wallet_writer::plan_by_keys;

/// Rows that are read at once.
const ROWS_MAX: i64 = 64;
/// Rows of any type that are looked at once for some of the types that are wanted.
const PASSED_OVER_MAX: i64 = 8_192;

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its number.
    pub no: i64,
    /// Its id.
    pub id: EventId,
    /// Its type.
    pub event_type: EventType,
    /// The app.
    pub app_id: AppId,
    /// Time of the change.
    pub at: OffsetDateTime,
    /// Its content.
    pub data: EventData,
}

/// An event without what it tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventKey {
    /// Its number.
    pub no: i64,
    /// Its id.
    pub id: EventId,
    /// Its type.
    pub event_type: EventType,
    /// The app.
    pub app_id: AppId,
    /// Time of the change.
    pub at: OffsetDateTime,
    pub(super) key: EventSubject,
}

/// The row that an event tells of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EventSubject {
    Entry(WalletNo, i64),
    Order(String, i64),
    Image(String),
    Payment(String),
    Refund(String),
    Freeze(WalletNo, i64),
    Debt(WalletNo, i64),
}

/// The events that are read.
#[derive(Debug, Clone, Default)]
pub struct EventFilter {
    /// Only of this app.
    pub app_id: Option<AppId>,
    /// Only of these apps.
    pub apps: Apps,
    /// Only of these types. Empty: all.
    pub types: Vec<EventType>,
}

impl EventFilter {
    /// Whether it lets events of this app and type through.
    pub(super) fn matches(&self, app_id: &AppId, event_type: EventType) -> bool {
        self.app_id.as_ref().is_none_or(|only| only == app_id)
            && self.apps.has(app_id.as_str())
            && (self.types.is_empty() || self.types.contains(&event_type))
    }
}

/// A position in the feed: after an event. It knows the id of that event, so a cursor of another history of the
/// database is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventCursor {
    no: i64,
    /// The last bytes of the id of the row of that event. Zeros before the first event.
    mark: [u8; 4],
}

impl EventCursor {
    /// Before the first event.
    pub const START: Self = Self { no: 0, mark: [0; 4] };
    /// The accepted form, in words that follow "expected".
    pub const EXPECTED: &'static str = "a cursor that a page before gave";

    /// Parses the text form.
    ///
    /// # Errors
    /// Any other text.
    pub fn parse(text: &str) -> Result<Self, Expected> {
        let cursor = text.split_once('.').and_then(|(no, mark)| {
            let mut bytes = [0; 4];
            hex::decode_to_slice(mark, &mut bytes).ok()?;
            let no = no.parse().ok().filter(|no: &i64| *no >= 0)?;
            Some(Self { no, mark: bytes })
        });
        cursor.ok_or(Expected::new(Self::EXPECTED))
    }

    /// The number of the event.
    #[must_use]
    pub fn no(self) -> i64 {
        self.no
    }

    pub(super) fn after(no: i64, row_id: &[u8]) -> Self {
        let mark = row_id.last_chunk().copied().unwrap_or_default();
        Self { no, mark }
    }
}

impl fmt::Display for EventCursor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.no, hex::encode(self.mark))
    }
}

/// A part of the feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventPage {
    /// Events in their order, and where the next page begins.
    Events(Vec<Event>, EventCursor),
    /// Events after the cursor have been removed.
    Removed,
    /// The database has no event at the cursor: it was restored to an earlier time.
    UnknownCursor,
}

/// A row of events as it is stored.
struct EventRow {
    app_id: String,
    last_no: i64,
    at: OffsetDateTime,
    count: i32,
    r#type: String,
    row_id: Vec<u8>,
    keys: Vec<u8>,
}

impl EventRow {
    /// The events of the row after a number.
    fn events(&self, after: i64) -> Result<Vec<EventKey>> {
        let damaged = || StoreError::damaged("events");
        let event_type = EventType::parse(&self.r#type).map_err(|_| damaged())?;
        let app_id = AppId::parse(&self.app_id).map_err(|_| damaged())?;
        let row: [u8; ROW_ID_BYTES] = self.row_id.as_slice().try_into().map_err(|_| damaged())?;
        let keys: Vec<EventSubject> = match EventKeys::decode(event_type, &self.keys).ok_or_else(damaged)? {
            EventKeys::Entries(entries) => {
                entries.into_iter().map(|(no, seq)| EventSubject::Entry(no, seq)).collect()
            }
            EventKeys::Orders(orders) => {
                orders.into_iter().map(|(no, seq)| EventSubject::Order(no, seq)).collect()
            }
            EventKeys::Images(images) => images.into_iter().map(EventSubject::Image).collect(),
            EventKeys::Payments(payments) => payments.into_iter().map(EventSubject::Payment).collect(),
            EventKeys::Refunds(refunds) => refunds.into_iter().map(EventSubject::Refund).collect(),
            EventKeys::Debts(debts) => {
                debts.into_iter().map(|(no, seq)| EventSubject::Debt(no, seq)).collect()
            }
            EventKeys::Freezes(freezes) => {
                freezes.into_iter().map(|(no, until)| EventSubject::Freeze(no, until)).collect()
            }
        };
        let first_no = self.last_no - i64::from(self.count) + 1;
        let events = (first_no..).zip(0_u16..).zip(keys).filter(|((no, _), _)| *no > after);
        Ok(events
            .map(|((no, place), key)| EventKey {
                no,
                id: EventId { row, place },
                event_type,
                app_id: app_id.clone(),
                at: self.at,
                key,
            })
            .collect())
    }
}

impl Store {
    /// At most `limit` events after a position, of those that match `filter`.
    pub async fn event_page(
        &self,
        after: EventCursor,
        filter: &EventFilter,
        limit: usize,
    ) -> Result<EventPage> {
        let page = self.read_page(after, filter, limit).await?;
        // Events may have been removed while they were read.
        let is_whole = after == EventCursor::START || self.event_head().await?.removed_no <= after.no;
        Ok(if is_whole { page } else { EventPage::Removed })
    }

    async fn read_page(&self, after: EventCursor, filter: &EventFilter, limit: usize) -> Result<EventPage> {
        let position = sqlx::query!(
            r#"SELECT h.last_no, h.removed_no,
                (SELECT row_id FROM events WHERE last_no >= $1 ORDER BY last_no LIMIT 1) AS row_id,
                (SELECT e.row_id FROM events e WHERE e.last_no = h.last_no) AS head_row_id
               FROM event_head h"#,
            after.no
        );
        let position = position.fetch_one(&self.pool).await?;
        let is_start = after == EventCursor::START;
        if !is_start && after.no < position.removed_no {
            return Ok(EventPage::Removed);
        }
        let is_known = match &position.row_id {
            // The row of the cursor's event may be gone, and the next row is another.
            _ if is_start || after.no == position.removed_no => true,
            Some(row_id) => EventCursor::after(after.no, row_id) == after,
            None => false,
        };
        if !is_known {
            return Ok(EventPage::UnknownCursor);
        }
        let (mut keys, mut cursor) = (Vec::new(), after);
        // A filter may pass over many rows.
        for _ in 0..16 {
            let rows = self.event_rows(cursor.no, filter.app_id.as_ref()).await?;
            let is_last = i64::try_from(rows.len()).unwrap_or_default() < ROWS_MAX;
            for row in &rows {
                let is_of_type =
                    filter.types.is_empty() || filter.types.iter().any(|of| of.as_str() == row.r#type);
                if is_of_type && filter.apps.has(&row.app_id) {
                    let left = limit - keys.len();
                    keys.extend(row.events(cursor.no)?.into_iter().take(left));
                }
                let full = keys.len() == limit;
                let no = keys.last().filter(|_| full).map_or(row.last_no, |key: &EventKey| key.no);
                cursor = EventCursor::after(no, &row.row_id);
                if full {
                    return Ok(EventPage::Events(self.tell(keys).await?, cursor));
                }
            }
            if is_last {
                // Nothing is left of what there was before the rows were read. So the cursor of an app without events
                // does not grow old.
                if cursor.no < position.last_no {
                    let row_id = position.head_row_id.unwrap_or_default();
                    cursor = EventCursor::after(position.last_no, &row_id);
                }
                break;
            }
        }
        Ok(EventPage::Events(self.tell(keys).await?, cursor))
    }

    /// The next events after a number, of all apps; `None` where there are none.
    pub async fn event_news(&self, after: i64) -> Result<Option<EventNews>> {
        let rows = self.event_rows(after, None).await?;
        let Some(last) = rows.last() else { return Ok(None) };
        let next = EventCursor::after(last.last_no, &last.row_id);
        let mut keys = Vec::new();
        for row in &rows {
            keys.extend(row.events(after)?);
        }
        Ok(Some(EventNews::new(after, next, keys)))
    }

    async fn event_rows(&self, after: i64, app_id: Option<&AppId>) -> Result<Vec<EventRow>> {
        Ok(match app_id {
            Some(app_id) => {
                sqlx::query_as!(
                    EventRow,
                    "SELECT app_id, last_no, at, count, type, row_id, keys FROM events
                     WHERE app_id = $1 AND last_no > $2 ORDER BY last_no LIMIT $3",
                    app_id.as_str(),
                    after,
                    ROWS_MAX
                )
                .fetch_all(&self.pool)
                .await?
            }
            None => {
                sqlx::query_as!(
                    EventRow,
                    "SELECT app_id, last_no, at, count, type, row_id, keys FROM events
                     WHERE last_no > $1 ORDER BY last_no LIMIT $2",
                    after,
                    ROWS_MAX
                )
                .fetch_all(&self.pool)
                .await?
            }
        })
    }

    /// Events of an app after a number, of these types. With them come the number up to which all were looked at, and
    /// whether the app has events of any type among them. The events may be fewer than there are: ask again after that
    /// number.
    pub async fn events_after(
        &self,
        app_id: &AppId,
        after: i64,
        types: &[EventType],
    ) -> Result<(Vec<EventKey>, i64, bool)> {
        // Before the rows: a row that becomes visible meanwhile has a higher number.
        let head = self.event_head().await?.last_no;
        let looked_at_max = if types.is_empty() { ROWS_MAX } else { PASSED_OVER_MAX };
        let types: Vec<String> = types.iter().map(|of| of.as_str().to_owned()).collect();
        let looked_at = sqlx::query!(
            r#"SELECT count(*) AS "rows!", max(last_no) AS last_no,
                   (array_agg(last_no ORDER BY last_no) FILTER (WHERE $3::text[] = '{}' OR type = ANY ($3)))[:$5]
                       AS wanted
               FROM (SELECT last_no, type FROM events
                     WHERE app_id = $1 AND last_no > $2 ORDER BY last_no LIMIT $4) AS looked_at"#,
            app_id.as_str(),
            after,
            &types,
            looked_at_max,
            i32::try_from(ROWS_MAX).unwrap_or(i32::MAX)
        )
        .fetch_one(&self.pool)
        .await?;
        let numbers = looked_at.wanted.unwrap_or_default();
        let rows = sqlx::query_as!(
            EventRow,
            "SELECT app_id, last_no, at, count, type, row_id, keys FROM events
             WHERE app_id = $1 AND last_no = ANY ($2) ORDER BY last_no",
            app_id.as_str(),
            &numbers
        )
        .fetch_all(&self.pool)
        .await?;
        let last_looked_at = looked_at.last_no.unwrap_or(after);
        let through = match rows.last() {
            Some(last) if i64::try_from(rows.len()).unwrap_or_default() == ROWS_MAX => last.last_no,
            _ if looked_at.rows == looked_at_max => last_looked_at,
            _ => head.max(last_looked_at),
        };
        let mut keys = Vec::new();
        for row in &rows {
            keys.extend(row.events(after)?);
        }
        Ok((keys, through, looked_at.rows > 0))
    }

    /// The event with this id, if this app has it.
    pub async fn event_key(&self, app_id: &AppId, id: EventId) -> Result<Option<EventKey>> {
        event_key(&self.pool, app_id, id).await
    }

    /// The events of an app with these numbers, in the order of their numbers. A number without an event is left out.
    pub async fn event_keys(&self, app_id: &AppId, numbers: &[i64]) -> Result<Vec<EventKey>> {
        let rows = sqlx::query_as!(
            EventRow,
            r#"SELECT DISTINCT ON (e.last_no) e.app_id AS "app_id!", e.last_no AS "last_no!", e.at AS "at!",
                   e.count AS "count!", e.type AS "type!", e.row_id AS "row_id!", e.keys AS "keys!"
               FROM unnest($2::bigint[]) AS n (no)
               CROSS JOIN LATERAL (
                   SELECT * FROM events WHERE app_id = $1 AND last_no >= n.no ORDER BY last_no LIMIT 1) e
               ORDER BY e.last_no"#,
            app_id.as_str(),
            numbers
        )
        .fetch_all(&self.pool)
        .await?;
        let mut keys = Vec::new();
        for row in &rows {
            keys.extend(row.events(0)?.into_iter().filter(|event| numbers.contains(&event.no)));
        }
        Ok(keys)
    }

    /// What events tell. One whose row is gone is left out, and logged: orders go when their player is erased.
    pub async fn tell(&self, keys: Vec<EventKey>) -> Result<Vec<Event>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let engine = self.engine.get();
        let context = keys.clone();
        let mut told = self
            .transaction(context, move |connection, keys| {
                Box::pin(async move {
                    plan_by_keys(connection, engine).await?;
                    read_data(connection, keys).await
                })
            })
            .await?;
        let mut events = Vec::with_capacity(keys.len());
        for EventKey { no, id, event_type, app_id, at, key } in keys {
            if let Some(data) = told.remove(&no) {
                events.push(Event { no, id, event_type, app_id, at, data });
            } else if matches!(key, EventSubject::Order(..)) {
                tracing::info!(event_id = %id, "the order that an event tells of was erased with its player");
            } else {
                tracing::error!(event_id = %id, "the row that an event tells of is gone");
            }
        }
        Ok(events)
    }
}

/// The event with this id, if this app has it.
pub(crate) async fn event_key(
    executor: impl PgExecutor<'_>,
    app_id: &AppId,
    id: EventId,
) -> Result<Option<EventKey>> {
    let row = sqlx::query_as!(
        EventRow,
        "SELECT app_id, last_no, at, count, type, row_id, keys FROM events WHERE row_id = $1 AND app_id = $2",
        id.row.as_slice(),
        app_id.as_str()
    );
    let Some(row) = row.fetch_optional(executor).await? else { return Ok(None) };
    Ok(row.events(0)?.into_iter().find(|event| event.id == id))
}
