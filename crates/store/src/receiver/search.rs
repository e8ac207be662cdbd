//! Reads of receivers for operators: lists, tries and failed events.

use std::time::Duration;

use domain::event::EventType;
use domain::ids::AppId;
use domain::receiver::{Receiver, ReceiverId, TimeBounds};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sqlx::types::Json;
use time::OffsetDateTime;

use super::receiver_rows;
use crate::error::{Result, StoreError};
use crate::store::Store;

/// One try to send an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReceiverTry {
    /// The event.
    pub event_id: String,
    /// When it was tried.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub at: OffsetDateTime,
    /// HTTP status. Null when there was no answer.
    pub status: Option<i16>,
    /// Why it was not taken. Null when it was.
    pub error: Option<String>,
    /// The beginning of the answer.
    pub body: String,
    /// Milliseconds until the answer was read, or until there was none. Null for a try that was not measured.
    #[serde(default)]
    pub elapsed_ms: Option<i64>,
}

/// A receiver with its tries.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ReceiverDetail {
    /// The receiver.
    #[serde(flatten)]
    pub receiver: Receiver,
    /// How many events wait for a try.
    pub waiting: i64,
    /// When the oldest of them happened. Null without any.
    #[serde(with = "time::serde::rfc3339::option")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub oldest_waiting_at: Option<OffsetDateTime>,
    /// How many events failed after their last try.
    pub failed: i64,
    /// The newest 20 tries, newest first.
    pub tries: Vec<ReceiverTry>,
}

/// An event that a receiver did not take at any try.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FailedEvent {
    /// The event.
    pub event_id: String,
    /// Its type.
    #[serde(rename = "type")]
    #[schemars(with = "EventType")]
    pub event_type: String,
    /// Number of tries.
    pub tries: i32,
    /// Time of the last try.
    #[serde(with = "time::serde::rfc3339::option")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub last_at: Option<OffsetDateTime>,
    /// HTTP status of the last try. Null when there was no answer.
    pub status: Option<i16>,
    /// Why it was not taken.
    pub error: Option<String>,
    /// Number of the event.
    #[serde(skip)]
    pub no: i64,
}

/// How the receivers of all apps are.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ReceiverCounts {
    /// Receivers that are paused.
    pub paused: u64,
    /// Receivers that fail.
    pub failing: u64,
    /// How long the one has failed that fails longest.
    pub failing_for: Duration,
    /// Age of the oldest event that waits at a receiver that is not paused, or for its number.
    pub lag: Duration,
}

impl Store {
    /// Counts the receivers of all apps.
    pub async fn count_receivers(&self) -> Result<ReceiverCounts> {
        let counted = sqlx::query!(
            r#"SELECT count(*) FILTER (WHERE paused_at IS NOT NULL) AS "paused!",
                   count(*) FILTER (WHERE paused_at IS NULL AND failing_since IS NOT NULL) AS "failing!",
                   extract(epoch FROM now() - min(failing_since) FILTER (WHERE paused_at IS NULL))::float8 AS failing_for,
                   extract(epoch FROM now() - least(min(fresh.at), min(again.at),
                       (SELECT at FROM wallet_outbox ORDER BY row_id LIMIT 1), (SELECT at FROM outbox ORDER BY row_id LIMIT 1)
                   ))::float8 AS lag
               FROM receivers r
               LEFT JOIN LATERAL (
                   SELECT e.at FROM events e WHERE e.app_id = r.app_id AND e.last_no > r.through_no
                       AND r.paused_at IS NULL ORDER BY e.last_no LIMIT 1) fresh ON true
               LEFT JOIN LATERAL (
                   SELECT min(d.event_at) AS at FROM deliveries d WHERE d.app_id = r.app_id
                       AND d.receiver_id = r.receiver_id AND d.state = 'waiting' AND r.paused_at IS NULL) again ON true"#
        );
        let counted = counted.fetch_one(&self.pool).await?;
        let duration =
            |seconds: Option<f64>| Duration::try_from_secs_f64(seconds.unwrap_or(0.0)).unwrap_or_default();
        Ok(ReceiverCounts {
            paused: u64::try_from(counted.paused).unwrap_or_default(),
            failing: u64::try_from(counted.failing).unwrap_or_default(),
            failing_for: duration(counted.failing_for),
            lag: duration(counted.lag),
        })
    }

    /// The receivers of an app, oldest first.
    pub async fn receivers(&self, app_id: &AppId) -> Result<Vec<Receiver>> {
        let rows = receiver_rows!("WHERE app_id = $1 ORDER BY created_at, receiver_id", app_id.as_str());
        rows.fetch_all(&self.pool).await?.into_iter().map(Receiver::try_from).collect()
    }

    /// Receivers of all apps that fail or are paused, those with the oldest trouble first, `limit` at most.
    pub async fn troubled_receivers(&self, limit: u32) -> Result<Vec<Receiver>> {
        let rows = receiver_rows!(
            "WHERE failing_since IS NOT NULL OR paused_at IS NOT NULL
             ORDER BY least(failing_since, paused_at), app_id, receiver_id LIMIT $1",
            i64::from(limit)
        );
        rows.fetch_all(&self.pool).await?.into_iter().map(Receiver::try_from).collect()
    }

    /// A receiver with its tries. `None` when the app has no such receiver.
    pub async fn receiver(&self, app_id: &AppId, id: &ReceiverId) -> Result<Option<ReceiverDetail>> {
        let row = receiver_rows!("WHERE app_id = $1 AND receiver_id = $2", app_id.as_str(), id.as_str());
        let Some(row) = row.fetch_optional(&self.pool).await? else { return Ok(None) };
        let found = sqlx::query!(
            r#"SELECT r.through_no, r.tries AS "tries: Json<Vec<ReceiverTry>>", d.waiting AS "waiting!",
                   d.failed AS "failed!", d.oldest AS oldest
               FROM receivers r
               CROSS JOIN LATERAL (
                   SELECT count(*) FILTER (WHERE state = 'waiting') AS waiting,
                       count(*) FILTER (WHERE state = 'failed') AS failed,
                       min(event_at) FILTER (WHERE state = 'waiting') AS oldest
                   FROM deliveries WHERE app_id = r.app_id AND receiver_id = r.receiver_id) d
               WHERE r.app_id = $1 AND r.receiver_id = $2"#,
            app_id.as_str(),
            id.as_str()
        );
        let Some(found) = found.fetch_optional(&self.pool).await? else { return Ok(None) };
        let later = sqlx::query!(
            r#"SELECT coalesce(sum(least(count, last_no - $2)), 0)::bigint AS "waiting!", min(at) AS oldest
               FROM events WHERE app_id = $1 AND last_no > $2 AND (cardinality($3::text[]) = 0 OR type = ANY ($3))"#,
            app_id.as_str(),
            found.through_no,
            &row.types
        );
        let later = later.fetch_one(&self.pool).await?;
        let Json(tries) = found.tries;
        Ok(Some(ReceiverDetail {
            receiver: row.try_into()?,
            waiting: found.waiting + later.waiting,
            oldest_waiting_at: found.oldest.into_iter().chain(later.oldest).min(),
            failed: found.failed,
            tries,
        }))
    }

    /// Events that a receiver did not take at any try, of changes in a span of time and after this number, oldest first.
    /// `None` when the app has no such receiver.
    pub async fn failed_events(
        &self,
        app_id: &AppId,
        id: &ReceiverId,
        TimeBounds { since, until }: TimeBounds,
        after: i64,
        limit: u32,
    ) -> Result<Option<Vec<FailedEvent>>> {
        let events = sqlx::query_as!(
            FailedEvent,
            "SELECT event_id, type AS event_type, tries, last_at, status, error, event_no AS no FROM deliveries
             WHERE app_id = $1 AND receiver_id = $2 AND state = 'failed' AND event_no > $5
                 AND ($3::timestamptz IS NULL OR event_at >= $3) AND ($4::timestamptz IS NULL OR event_at < $4)
             ORDER BY event_no LIMIT $6",
            app_id.as_str(),
            id.as_str(),
            since,
            until,
            after,
            i64::from(limit)
        );
        let events = events.fetch_all(&self.pool).await?;
        if !events.is_empty() {
            return Ok(Some(events));
        }
        let known = sqlx::query_scalar!(
            r#"SELECT EXISTS (SELECT 1 FROM receivers WHERE app_id = $1 AND receiver_id = $2) AS "known!""#,
            app_id.as_str(),
            id.as_str()
        );
        Ok(known.fetch_one(&self.pool).await?.then_some(events))
    }

    /// Notes a try that an operator asked for. `false` when the receiver is gone.
    pub async fn note_test(&self, app_id: &AppId, id: &ReceiverId, test: &ReceiverTry) -> Result<bool> {
        let tries = serde_json::to_value([test]).map_err(|error| StoreError::Internal(error.to_string()))?;
        let noted = sqlx::query!(
            "UPDATE receivers SET tries = jsonb_path_query_array($3::jsonb || tries, '$[0 to 19]')
             WHERE app_id = $1 AND receiver_id = $2",
            app_id.as_str(),
            id.as_str(),
            tries
        );
        Ok(noted.execute(&self.pool).await?.rows_affected() == 1)
    }
}
