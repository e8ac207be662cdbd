//! Leases of receivers, and the reads and writes of sending to them. An instance sends to a receiver while it holds
//! its lease. Whoever has lost the lease can write nothing any more.

use std::time::Duration;

use domain::event::EventType;
use domain::ids::AppId;
use domain::receiver::{ReceiverFormat, ReceiverId};
use domain::sandbox::SandboxApp;
use domain::secret::Secret;
use sqlx::PgConnection;
use time::OffsetDateTime;

use super::search::ReceiverTry;
use super::{damaged, event_types};
use crate::error::{Result, StoreError};
use crate::store::Store;

/// How long a lease lasts unless it is renewed.
const LEASED_FOR_SECONDS: f64 = 10.0;
/// How many receivers are counted that wait for an instance.
const WAITING_COUNTED_MAX: i64 = 1_000;

/// A receiver to which this instance may send.
#[derive(Debug, Clone)]
pub struct LeasedReceiver {
    /// The app.
    pub app_id: AppId,
    /// The same, if it is a sandbox app.
    pub sandbox: Option<SandboxApp>,
    /// Its id.
    pub id: ReceiverId,
    /// Where events are sent.
    pub url: String,
    /// The types of events that it is told of. Empty: all.
    pub types: Vec<EventType>,
    /// Format of the notifications.
    pub format: ReceiverFormat,
    /// The secrets that sign, newest first.
    pub secrets: Vec<Secret>,
    /// The secret of the app, which signs in the platform's format.
    pub app_secret: Secret,
    /// Number of the last event that was tried once.
    pub through_no: i64,
    /// Number of events that wait for another try.
    pub waiting: i64,
    /// It has failed for a minute or more.
    pub is_away: bool,
    /// It has failed within the last 30 seconds.
    pub has_just_failed: bool,
}

/// An event that is due for another try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueDelivery {
    /// Number of the event.
    pub event_no: i64,
    /// Number of tries before.
    pub tries: i32,
    /// Since when it is due. An operator who sends the event again sets another time.
    pub due_at: OffsetDateTime,
}

/// An event that was tried and not accepted.
#[derive(Debug, Clone)]
pub struct NotTaken {
    /// Number of the event.
    pub event_no: i64,
    /// As [`DueDelivery`] had it. `None` for a try of the feed.
    pub due_at: Option<OffsetDateTime>,
    /// Its id.
    pub event_id: String,
    /// Time of the change.
    pub event_at: OffsetDateTime,
    /// Its type.
    pub event_type: EventType,
    /// Number of tries, this one included.
    pub tries: i32,
    /// How long to wait for the next try. `None` after the last one.
    pub next_in: Option<Duration>,
    /// How long the receiver wants no try.
    pub asked: Option<Duration>,
    /// HTTP status, where there was an answer.
    pub status: Option<i16>,
    /// Why it was not accepted.
    pub error: String,
}

/// The outcomes of tries.
#[derive(Debug, Clone, Default)]
pub struct TriesNote {
    /// Number up to which every event was tried once.
    pub through_no: i64,
    /// Number of events that were taken.
    pub taken: i64,
    /// The events among them that had been tried before.
    pub taken_again: Vec<DueDelivery>,
    /// Events that were not accepted.
    pub not_taken: Vec<NotTaken>,
    /// Events among them of which nothing is left to be sent.
    pub gone: Vec<i64>,
    /// Whether the last of all these tries was taken. `None` without any.
    pub last_was_taken: Option<bool>,
    /// The newest tries, newest first.
    pub tries: Vec<ReceiverTry>,
    /// The receiver has asked for a pause by 410.
    pub pauses: bool,
    /// The receiver is back: what waits is due now.
    pub is_back: bool,
}

impl Store {
    /// Leases receivers that have something to be sent, and to which no other instance sends, `limit` at most: first whoever
    /// was served longest ago. Beside them comes how many more there are, 1,000 at most. One that is away gets no event for
    /// the first time while it has just failed.
    pub async fn lease_receivers(
        &self,
        lease: &[u8; 16],
        limit: usize,
    ) -> Result<(Vec<LeasedReceiver>, u32)> {
        let mut due = sqlx::query!(
            "SELECT app_id, receiver_id FROM receivers c
             WHERE paused_at IS NULL AND (leased_until IS NULL OR leased_until < now()) AND (
                 (EXISTS (SELECT 1 FROM events e WHERE e.app_id = c.app_id AND e.last_no > c.through_no)
                     AND (failing_since < now() - interval '1 minute'
                         AND last_failed_at > now() - interval '30 seconds') IS NOT TRUE)
                 OR EXISTS (
                     SELECT 1 FROM deliveries d WHERE d.app_id = c.app_id AND d.receiver_id = c.receiver_id
                         AND d.state = 'waiting' AND d.next_at <= now()))
             ORDER BY served_until NULLS FIRST LIMIT $1",
            i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(WAITING_COUNTED_MAX)
        )
        .fetch_all(&self.pool)
        .await?;
        let waiting = due.split_off(limit.min(due.len())).len();
        let waiting = u32::try_from(waiting).unwrap_or(u32::MAX);
        if due.is_empty() {
            return Ok((Vec::new(), waiting));
        }
        let (apps, ids): (Vec<_>, Vec<_>) = due.into_iter().map(|row| (row.app_id, row.receiver_id)).unzip();
        let leased = sqlx::query!(
            "UPDATE receivers SET lease = $1, leased_until = now() + make_interval(secs => $2)
             WHERE (app_id, receiver_id) IN (
                 SELECT c.app_id, c.receiver_id
                 FROM receivers c JOIN unnest($3::text[], $4::text[]) AS due (app_id, receiver_id)
                     ON c.app_id = due.app_id AND c.receiver_id = due.receiver_id
                 WHERE c.paused_at IS NULL AND (c.leased_until IS NULL OR c.leased_until < now())
                 FOR UPDATE OF c SKIP LOCKED)
             RETURNING app_id, receiver_id",
            lease.as_slice(),
            LEASED_FOR_SECONDS,
            &apps,
            &ids
        );
        let leased = leased.fetch_all(&self.pool).await?;
        let mut receivers = Vec::new();
        for row in leased {
            let app_id = AppId::parse(&row.app_id).map_err(damaged)?;
            let id = ReceiverId::parse(&row.receiver_id).map_err(damaged)?;
            receivers.extend(self.leased_receiver(lease, &app_id, &id).await?);
        }
        Ok((receivers, waiting))
    }

    /// Renews the lease of a receiver, and reads how the receiver is now. `None` when it is paused or gone, or another
    /// instance has it.
    pub async fn renew_lease(
        &self,
        lease: &[u8; 16],
        app_id: &AppId,
        id: &ReceiverId,
    ) -> Result<Option<LeasedReceiver>> {
        let renewed = sqlx::query!(
            "UPDATE receivers SET leased_until = now() + make_interval(secs => $4)
             WHERE app_id = $1 AND receiver_id = $2 AND lease = $3 AND paused_at IS NULL",
            app_id.as_str(),
            id.as_str(),
            lease.as_slice(),
            LEASED_FOR_SECONDS
        );
        if renewed.execute(&self.pool).await?.rows_affected() == 0 {
            return Ok(None);
        }
        self.leased_receiver(lease, app_id, id).await
    }

    /// Ends the lease of a receiver, so that any instance may take it.
    pub async fn end_lease(&self, lease: &[u8; 16], app_id: &AppId, id: &ReceiverId) -> Result<()> {
        sqlx::query!(
            "UPDATE receivers SET lease = NULL, leased_until = NULL, served_until = now()
             WHERE app_id = $1 AND receiver_id = $2 AND lease = $3",
            app_id.as_str(),
            id.as_str(),
            lease.as_slice()
        )
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// A receiver with its secrets, for a test. `None` when the app has no such receiver.
    pub async fn receiver_to_test(&self, app_id: &AppId, id: &ReceiverId) -> Result<Option<LeasedReceiver>> {
        self.read_receiver(app_id, id, None).await
    }

    /// A receiver under a lease, as it is now. `None` when it is paused or gone, or another instance has it.
    pub async fn leased_receiver(
        &self,
        lease: &[u8; 16],
        app_id: &AppId,
        id: &ReceiverId,
    ) -> Result<Option<LeasedReceiver>> {
        self.read_receiver(app_id, id, Some(lease)).await
    }

    async fn read_receiver(
        &self,
        app_id: &AppId,
        id: &ReceiverId,
        lease: Option<&[u8; 16]>,
    ) -> Result<Option<LeasedReceiver>> {
        let row = sqlx::query!(
            r#"SELECT r.url, r.types, r.format, r.secret, r.through_no, a.app_secret, a.sandbox,
                   CASE WHEN r.former_until > now() THEN r.former_secret END AS former_secret,
                   (SELECT count(*) FROM deliveries d WHERE d.app_id = r.app_id AND d.receiver_id = r.receiver_id
                        AND d.state = 'waiting') AS "waiting!",
                   coalesce(r.failing_since < now() - interval '1 minute', false) AS "is_away!",
                   coalesce(r.last_failed_at > now() - interval '30 seconds', false) AS "has_just_failed!"
               FROM receivers r JOIN apps a ON a.app_id = r.app_id
               WHERE r.app_id = $1 AND r.receiver_id = $2
                   AND ($3::bytea IS NULL OR (r.lease = $3 AND r.paused_at IS NULL))"#,
            app_id.as_str(),
            id.as_str(),
            lease.map(<[u8; 16]>::as_slice)
        );
        let Some(row) = row.fetch_optional(&self.pool).await? else { return Ok(None) };
        let sealed: Vec<Vec<u8>> =
            [row.app_secret, row.secret].into_iter().chain(row.former_secret).collect();
        let mut opened = self.open_secrets(app_id, &sealed).await?.into_iter().map(Secret::new);
        let app_secret = opened.next().ok_or_else(|| StoreError::damaged("apps"))?;
        Ok(Some(LeasedReceiver {
            app_id: app_id.clone(),
            sandbox: SandboxApp::read(app_id, row.sandbox),
            id: id.clone(),
            url: row.url,
            types: event_types(&row.types)?,
            format: ReceiverFormat::parse(&row.format).map_err(damaged)?,
            secrets: opened.collect(),
            app_secret,
            through_no: row.through_no,
            waiting: row.waiting,
            is_away: row.is_away,
            has_just_failed: row.has_just_failed,
        }))
    }

    /// Deliveries of a receiver that are due, those that are due longest first, without those of `flying`.
    pub async fn due_deliveries(
        &self,
        receiver: &LeasedReceiver,
        flying: &[i64],
        limit: usize,
    ) -> Result<Vec<DueDelivery>> {
        Ok(sqlx::query_as!(
            DueDelivery,
            r#"SELECT event_no, tries, next_at AS "due_at!" FROM deliveries
               WHERE app_id = $1 AND receiver_id = $2 AND state = 'waiting' AND next_at <= now()
                   AND event_no <> ALL ($3)
               ORDER BY next_at LIMIT $4"#,
            receiver.app_id.as_str(),
            receiver.id.as_str(),
            flying,
            i64::try_from(limit).unwrap_or(i64::MAX)
        )
        .fetch_all(&self.pool)
        .await?)
    }

    /// Writes what became of tries: all of it, or nothing. An event that an operator has sent again since its try began
    /// stays due, whatever became of that try (contract 12.4.7). `false` when another instance has the lease, or the
    /// receiver is gone.
    pub async fn note_tries(
        &self,
        lease: &[u8; 16],
        receiver: &LeasedReceiver,
        note: TriesNote,
    ) -> Result<bool> {
        let context = (*lease, receiver.app_id.clone(), receiver.id.clone(), note);
        self.transaction(context, |connection, (lease, app_id, id, note)| {
            Box::pin(async move {
                if !write_receiver(connection, lease, app_id, id, note).await? {
                    return Ok(false);
                }
                write_deliveries(connection, app_id, id, note).await?;
                Ok(true)
            })
        })
        .await
    }
}

async fn write_receiver(
    connection: &mut PgConnection,
    lease: &[u8; 16],
    app_id: &AppId,
    id: &ReceiverId,
    note: &TriesNote,
) -> Result<bool> {
    let last = note.not_taken.last();
    let tries = serde_json::to_value(&note.tries).map_err(|error| StoreError::Internal(error.to_string()))?;
    let written = sqlx::query!(
        "UPDATE receivers SET through_no = greatest(through_no, $4), taken = taken + $5,
             last_taken_at = CASE WHEN $5 > 0 THEN now() ELSE last_taken_at END,
             last_failed_at = CASE WHEN $6 THEN now() ELSE last_failed_at END,
             last_status = CASE WHEN $6 THEN $7 ELSE last_status END,
             last_error = CASE WHEN $6 THEN $8 ELSE last_error END,
             failing_since = CASE WHEN $9::boolean IS NULL THEN failing_since WHEN $9 THEN NULL
                 WHEN $5 > 0 THEN now() ELSE coalesce(failing_since, now()) END,
             tries = CASE WHEN jsonb_array_length($10::jsonb) = 0 THEN tries
                 ELSE jsonb_path_query_array($10::jsonb || tries, '$[0 to 19]') END,
             paused_at = CASE WHEN $11 THEN coalesce(paused_at, now()) ELSE paused_at END,
             paused_by = CASE WHEN $11 THEN coalesce(paused_by, 'receiver') ELSE paused_by END
         WHERE app_id = $1 AND receiver_id = $2 AND lease = $3",
        app_id.as_str(),
        id.as_str(),
        lease.as_slice(),
        note.through_no,
        note.taken,
        last.is_some(),
        last.and_then(|last| last.status),
        last.map(|last| last.error.as_str()),
        note.last_was_taken,
        tries,
        note.pauses
    );
    Ok(written.execute(connection).await?.rows_affected() == 1)
}

/// The row of the receiver is locked, as whoever sends an event again locks it. So a `next_at` other than that of the try is
/// the operator's, and stays.
async fn write_deliveries(
    connection: &mut PgConnection,
    app_id: &AppId,
    id: &ReceiverId,
    note: &TriesNote,
) -> Result<()> {
    if !note.taken_again.is_empty() {
        let rows = &note.taken_again;
        sqlx::query!(
            "UPDATE deliveries d SET state = 'taken', tries = d.tries + 1, next_at = NULL, last_at = now(), status = NULL,
                 error = NULL
             FROM unnest($3::bigint[], $4::timestamptz[]) AS n (event_no, due_at)
             WHERE d.app_id = $1 AND d.receiver_id = $2 AND d.event_no = n.event_no
                 AND d.next_at = n.due_at",
            app_id.as_str(),
            id.as_str(),
            &rows.iter().map(|row| row.event_no).collect::<Vec<_>>(),
            &rows.iter().map(|row| row.due_at).collect::<Vec<_>>()
        )
        .execute(&mut *connection)
        .await?;
    }
    if !note.not_taken.is_empty() {
        write_not_taken(connection, app_id, id, &note.not_taken).await?;
    }
    if !note.gone.is_empty() {
        sqlx::query!(
            "UPDATE deliveries SET state = 'failed', next_at = NULL, last_at = now(), status = NULL,
                 error = 'the row that it tells of is gone'
             WHERE app_id = $1 AND receiver_id = $2 AND event_no = ANY ($3)",
            app_id.as_str(),
            id.as_str(),
            &note.gone
        )
        .execute(&mut *connection)
        .await?;
    }
    if note.is_back {
        // This try is none of the schedule: if it fails, the schedule goes on as if it had not been.
        sqlx::query!(
            "UPDATE deliveries SET next_at = greatest(now(), not_before), tries = greatest(tries - 1, 0)
             WHERE app_id = $1 AND receiver_id = $2 AND state = 'waiting' AND next_at > greatest(now(), not_before)",
            app_id.as_str(),
            id.as_str()
        )
        .execute(connection)
        .await?;
    }
    Ok(())
}

/// Writes tries that did not take their events. A row that has ended, or that an operator has made due since, is not
/// overwritten.
async fn write_not_taken(
    connection: &mut PgConnection,
    app_id: &AppId,
    id: &ReceiverId,
    rows: &[NotTaken],
) -> Result<()> {
    sqlx::query!(
        "INSERT INTO deliveries (app_id, receiver_id, event_no, event_id, event_at, type, state, tries, next_at,
             not_before, last_at, status, error)
         SELECT $1, $2, event_no, event_id, event_at, type, CASE WHEN next_in IS NULL THEN 'failed' ELSE 'waiting' END,
             tries, now() + make_interval(secs => next_in), now() + make_interval(secs => asked), now(), status, error
         FROM unnest($3::bigint[], $4::text[], $5::timestamptz[], $6::text[], $7::integer[], $8::float8[],
             $9::smallint[], $10::text[], $11::float8[], $12::timestamptz[])
             AS n (event_no, event_id, event_at, type, tries, next_in, status, error, asked, due_at)
         WHERE NOT EXISTS (
             SELECT 1 FROM deliveries d WHERE d.app_id = $1 AND d.receiver_id = $2 AND d.event_no = n.event_no
                 AND (n.due_at IS NULL OR d.next_at IS DISTINCT FROM n.due_at))
         ON CONFLICT (app_id, receiver_id, event_no) DO UPDATE SET state = excluded.state, tries = excluded.tries,
             next_at = excluded.next_at, not_before = excluded.not_before, last_at = excluded.last_at,
             status = excluded.status, error = excluded.error",
        app_id.as_str(),
        id.as_str(),
        &rows.iter().map(|row| row.event_no).collect::<Vec<_>>(),
        &rows.iter().map(|row| row.event_id.clone()).collect::<Vec<_>>(),
        &rows.iter().map(|row| row.event_at).collect::<Vec<_>>(),
        &rows.iter().map(|row| row.event_type.as_str().to_owned()).collect::<Vec<_>>(),
        &rows.iter().map(|row| row.tries).collect::<Vec<_>>(),
        &rows.iter().map(|row| row.next_in.map(|next| next.as_secs_f64())).collect::<Vec<_>>() as _,
        &rows.iter().map(|row| row.status).collect::<Vec<_>>() as _,
        &rows.iter().map(|row| row.error.clone()).collect::<Vec<_>>(),
        &rows.iter().map(|row| row.asked.map(|asked| asked.as_secs_f64())).collect::<Vec<_>>() as _,
        &rows.iter().map(|row| row.due_at).collect::<Vec<_>>() as _
    )
    .execute(connection)
    .await?;
    Ok(())
}
