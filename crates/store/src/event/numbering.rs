//! Gives numbers to the events of the outbox, and removes old events.

use std::time::Duration;

use domain::event::row_id;
use sqlx::PgConnection;
use time::OffsetDateTime;

use crate::engine::Engine;
use crate::error::Result;
use crate::removal::remove_piece;
use crate::store::Store;

/// Rows of the outbox that get their numbers in one transaction.
pub(crate) const ROWS_AT_ONCE: u64 = 1_000;
/// Events that are looked at for removal in one transaction, in rows.
const REMOVED_AT_ONCE: i64 = 5_000;

/// The numbers of all events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventHead {
    /// Number of the newest event. 0 before the first.
    pub last_no: i64,
    /// The highest number of a removed event. 0 before the first removal.
    pub removed_no: i64,
}

/// The head of the events, which a transaction holds, and the time of the database.
struct HeldHead {
    last_no: i64,
    now: OffsetDateTime,
}

/// A row of the outbox.
struct OutboxRow {
    app_no: Option<i32>,
    app_id: String,
    row_id: Vec<u8>,
    at: OffsetDateTime,
    r#type: String,
    count: i32,
    keys: Vec<u8>,
}

impl Store {
    /// Gives numbers to the events of the outbox: to those of the time `within` which they were made, or to all. Returns
    /// the number of rows that it moved. Another transaction that does the same at this moment leaves it nothing to do.
    pub async fn number_events(&self, within: Option<Duration>) -> Result<u64> {
        let mut moved = 0;
        loop {
            let some = self
                .transaction(within, |connection, within| Box::pin(number_some(connection, false, *within)))
                .await?;
            moved += some;
            if some < ROWS_AT_ONCE {
                return Ok(moved);
            }
        }
    }

    /// Waits until this process has made an event. It does not notice events of other processes.
    pub async fn events_were_made(&self) {
        self.events.notified().await;
    }

    /// Whether the outbox has an event that was made `within` this time before now, or any event.
    ///
    /// An old snapshot keeps rows that left the outbox. A look at all rows reads each of them. The index leads to the first
    /// row, which EXISTS would look for in the whole table.
    pub async fn has_unnumbered_events(&self, within: Option<Duration>) -> Result<bool> {
        let any = sqlx::query_scalar!(
            r#"WITH first AS (
                   SELECT coalesce(substring(int8send((extract(epoch FROM now() - make_interval(secs => $1)) * 1000)::bigint)
                       FROM 3), '') AS row_id)
               SELECT coalesce(
                   (SELECT row_id FROM wallet_outbox WHERE row_id >= (SELECT row_id FROM first) ORDER BY row_id LIMIT 1),
                   (SELECT row_id FROM outbox WHERE row_id >= (SELECT row_id FROM first) ORDER BY row_id LIMIT 1))
                   IS NOT NULL AS "any!""#,
            within.map(|within| within.as_secs_f64())
        );
        Ok(any.fetch_one(&self.pool).await?)
    }

    /// The numbers of all events.
    pub async fn event_head(&self) -> Result<EventHead> {
        Ok(sqlx::query_as!(EventHead, "SELECT last_no, removed_no FROM event_head")
            .fetch_one(&self.pool)
            .await?)
    }

    /// Removes a piece of what was noted of deliveries before `keep`, but not of those that wait. Returns the number of
    /// rows.
    pub async fn remove_old_deliveries(&self, keep: Duration) -> Result<u64> {
        Ok(remove_piece!(
            self,
            "deliveries",
            "state <> 'waiting' AND last_at < now() - make_interval(secs => $2)",
            keep.as_secs_f64()
        ))
    }

    /// Removes events that are older than `keep`, unless a receiver still needs them. Returns the number of rows.
    pub async fn remove_old_events(&self, keep: Duration) -> Result<u64> {
        let seconds = keep.as_secs_f64();
        self.roll_up_sales().await?;
        let has_roll_up = self.engine.get() == Engine::Postgres;
        let mut removed = 0;
        let mut after = 0;
        loop {
            let (some, next) = self
                .transaction((seconds, after), move |connection, (seconds, after)| {
                    Box::pin(remove_some(connection, *seconds, *after, has_roll_up))
                })
                .await?;
            removed += some;
            match next {
                Some(next) => after = next,
                None => return Ok(removed),
            }
        }
    }
}

/// Gives numbers to some rows of the outbox, in the order of their time. These are the rows of the time `within` which
/// they were made, or all. It holds the head of the events until the transaction ends. Unless it `waits`, it does
/// nothing while another transaction holds the head.
pub(crate) async fn number_some(
    connection: &mut PgConnection,
    waits: bool,
    within: Option<Duration>,
) -> Result<u64> {
    let head = if waits {
        sqlx::query_as!(HeldHead, r#"SELECT last_no, clock_timestamp() AS "now!" FROM event_head FOR UPDATE"#)
            .fetch_optional(&mut *connection)
            .await?
    } else {
        sqlx::query_as!(
            HeldHead,
            r#"SELECT last_no, clock_timestamp() AS "now!" FROM event_head FOR UPDATE SKIP LOCKED"#
        )
        .fetch_optional(&mut *connection)
        .await?
    };
    let Some(HeldHead { mut last_no, now }) = head else { return Ok(0) };
    let first = within.map_or_else(Vec::new, |within| row_id(now - within, [0; 10]).to_vec());
    let mut rows = sqlx::query_as!(
        OutboxRow,
        r#"(SELECT o.app_no AS "app_no?", a.app_id AS "app_id!", o.row_id AS "row_id!", o.at AS "at!", o.type AS "type!",
                o.count AS "count!", o.keys AS "keys!"
            FROM wallet_outbox o JOIN apps a ON a.app_no = o.app_no WHERE o.row_id >= $2 ORDER BY o.row_id LIMIT $1)
           UNION ALL
           (SELECT NULL, app_id, row_id, at, type, count, keys FROM outbox WHERE row_id >= $2 ORDER BY row_id LIMIT $1)"#,
        i64::try_from(ROWS_AT_ONCE).unwrap_or(i64::MAX),
        first.as_slice()
    )
    .fetch_all(&mut *connection)
    .await?;
    if rows.is_empty() {
        return Ok(0);
    }
    // The ids know milliseconds alone.
    rows.sort_by(|one, other| (one.at, &one.row_id).cmp(&(other.at, &other.row_id)));
    rows.truncate(usize::try_from(ROWS_AT_ONCE).unwrap_or(usize::MAX));
    let numbers: Vec<i64> = rows
        .iter()
        .map(|row| {
            last_no += i64::from(row.count);
            last_no
        })
        .collect();
    let column =
        |text: fn(&OutboxRow) -> &str| rows.iter().map(|row| text(row).to_owned()).collect::<Vec<_>>();
    sqlx::query!(
        "INSERT INTO events (app_id, last_no, at, count, type, row_id, keys)
         SELECT unnest($1::text[]), unnest($2::bigint[]), unnest($3::timestamptz[]), unnest($4::integer[]),
             unnest($5::text[]), unnest($6::bytea[]), unnest($7::bytea[])",
        &column(|row| &row.app_id),
        &numbers,
        &rows.iter().map(|row| row.at).collect::<Vec<_>>(),
        &rows.iter().map(|row| row.count).collect::<Vec<_>>(),
        &column(|row| &row.r#type),
        &rows.iter().map(|row| row.row_id.clone()).collect::<Vec<_>>(),
        &rows.iter().map(|row| row.keys.clone()).collect::<Vec<_>>()
    )
    .execute(&mut *connection)
    .await?;
    remove_from_outbox(connection, &rows).await?;
    sqlx::query!("UPDATE event_head SET last_no = $1", last_no).execute(connection).await?;
    Ok(u64::try_from(rows.len()).unwrap_or_default())
}

async fn remove_from_outbox(connection: &mut PgConnection, rows: &[OutboxRow]) -> Result<()> {
    let (of_wallets, others): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.app_no.is_some());
    if !of_wallets.is_empty() {
        sqlx::query!(
            "DELETE FROM wallet_outbox WHERE app_no = ANY ($1) AND row_id = ANY ($2)",
            &of_wallets.iter().filter_map(|row| row.app_no).collect::<Vec<_>>(),
            &of_wallets.iter().map(|row| row.row_id.clone()).collect::<Vec<_>>()
        )
        .execute(&mut *connection)
        .await?;
    }
    if !others.is_empty() {
        sqlx::query!(
            "DELETE FROM outbox WHERE app_id = ANY ($1) AND row_id = ANY ($2)",
            &others.iter().map(|row| row.app_id.clone()).collect::<Vec<_>>(),
            &others.iter().map(|row| row.row_id.clone()).collect::<Vec<_>>()
        )
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}

/// Removes some rows of events after this number. Returns how many, and the number to go on after. `None` at the end.
/// Events that the roll-up of sales does not have stay.
async fn remove_some(
    connection: &mut PgConnection,
    seconds: f64,
    after: i64,
    has_roll_up: bool,
) -> Result<(u64, Option<i64>)> {
    let looked_at = sqlx::query!(
        r#"WITH old AS (
               SELECT app_id, last_no, count, at < now() - make_interval(secs => $1) AS is_old FROM events
               WHERE last_no > $2 ORDER BY last_no LIMIT $3
           ), gone AS (
               DELETE FROM events e USING old
               WHERE old.is_old AND e.app_id = old.app_id AND e.last_no = old.last_no
                   AND (NOT $4 OR e.last_no <= (SELECT through_no FROM sales_head))
                   AND NOT EXISTS (SELECT 1 FROM receivers r WHERE r.app_id = old.app_id AND r.through_no < old.last_no)
                   AND NOT EXISTS (
                       SELECT 1 FROM deliveries d WHERE d.app_id = old.app_id AND d.state <> 'taken'
                           AND d.event_no > old.last_no - old.count AND d.event_no <= old.last_no)
               RETURNING e.last_no
           )
           SELECT (SELECT count(*) FROM old WHERE is_old) AS "rows!", (SELECT max(last_no) FROM old) AS next,
               (SELECT count(*) FROM gone) AS "gone!", (SELECT max(last_no) FROM gone) AS last_gone"#,
        seconds,
        after,
        REMOVED_AT_ONCE,
        has_roll_up
    )
    .fetch_one(&mut *connection)
    .await?;
    if let Some(last_gone) = looked_at.last_gone {
        sqlx::query!("UPDATE event_head SET removed_no = greatest(removed_no, $1)", last_gone)
            .execute(connection)
            .await?;
    }
    // Numbers follow the time but for moments, so behind a young event there is none that is old.
    let next = looked_at.next.filter(|_| looked_at.rows == REMOVED_AT_ONCE);
    Ok((u64::try_from(looked_at.gone).unwrap_or_default(), next))
}
