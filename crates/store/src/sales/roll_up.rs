//! The roll-up: sums of each hour, so that a report need not read every exchange of a month (contract 13.2.7).
//!
//! It follows the numbers of the events, which are given after the commit. So each ledger entry is added once, however
//! late its transaction ends, and what is not added yet is known by its number ([`unrolled`]).

use domain::event::{EventKeys, EventType};
use domain::ids::AppId;
use serde::Serialize;
use sqlx::PgConnection;
use time::OffsetDateTime;

use super::revenue::{GroupRow, RevenueScope, Span};
use crate::app_number::number_of;
use crate::engine::Engine;
use crate::error::{OperationError, Result, StoreError};
use crate::store::Store;
use crate::wallet_writer::plan_by_keys;

/// Rows of events that one transaction adds, at most.
const EVENT_ROWS_AT_ONCE: i64 = 2000;
/// It adds no more rows once it has as many entries. A row has 512 at most.
const ENTRIES_AT_ONCE: usize = 20_000;
/// The most differences that a check shows.
const DIFFERENCES_MAX: i64 = 100;

/// Ledger entries by app, wallet and sequence number.
#[derive(Debug, Default)]
pub(super) struct Keys {
    app_nos: Vec<i32>,
    wallet_nos: Vec<i64>,
    seqs: Vec<i64>,
}

impl Keys {
    /// Adds the entries of a row of events that are exchanges or cancels.
    fn add(&mut self, app_no: i32, event_type: &str, keys: &[u8]) -> Result<()> {
        let damaged = || StoreError::damaged("events");
        let event_type = EventType::parse(event_type).map_err(|_| damaged())?;
        if !matches!(event_type, EventType::ExchangeSucceeded | EventType::CancelSucceeded) {
            return Ok(());
        }
        if let EventKeys::Entries(entries) = EventKeys::decode(event_type, keys).ok_or_else(damaged)? {
            self.wallet_nos.extend(entries.iter().map(|(wallet_no, _)| wallet_no.0));
            self.seqs.extend(entries.iter().map(|(_, seq)| *seq));
            self.app_nos.resize(self.seqs.len(), app_no);
        }
        Ok(())
    }
}

/// Whether the sums of the hours are those of the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RollUpCheck {
    /// The app.
    pub app_id: String,
    /// Whether all sums are the same.
    pub ties: bool,
    /// Number of rows of the roll-up.
    pub rows: i64,
    /// Number of exchanges and cancels that it does not have yet. They are read from the ledger.
    pub not_rolled_up: usize,
    /// Sums that differ, at most 100.
    pub differs: Vec<RollUpDifference>,
}

/// A sum that is not what the ledger has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RollUpDifference {
    /// Beginning of the hour.
    #[serde(with = "time::serde::rfc3339")]
    pub hour: OffsetDateTime,
    /// The product. Empty in a sum of all products.
    pub product_name: String,
    /// The zone. Empty in a sum of all zones.
    pub zone: String,
    /// The platform. Empty in a sum of all platforms.
    pub os: String,
    /// Exchanges that the roll-up has too many. Negative: too few.
    pub count: i64,
    /// What it has too much of what was taken, less what was given back. Text, because it may need more than 64 bits.
    pub net: String,
}

/// What all apps sold in some hours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SalesOfHours {
    /// Exchanges.
    pub exchanges: i64,
    /// Coins that they took, of both purses, less what was given back.
    pub coins: i64,
}

impl Store {
    /// Adds to the roll-up what has a number and is not in it.
    pub async fn roll_up_sales(&self) -> Result<()> {
        while self.roll_up_some_sales().await? {}
        Ok(())
    }

    /// Adds some of it, and tells whether there may be more. Another transaction that does the same at this moment leaves it
    /// nothing to do. Citus has no roll-up.
    pub async fn roll_up_some_sales(&self) -> Result<bool> {
        let engine = self.engine.get();
        if engine == Engine::Citus {
            return Ok(false);
        }
        self.transaction((), move |connection, ()| Box::pin(roll_up_some(connection, engine))).await
    }

    /// The sums of all apps in whole hours, by what the roll-up has. `None` on Citus, which has no roll-up.
    pub async fn sales_of_hours(
        &self,
        since: OffsetDateTime,
        until: OffsetDateTime,
    ) -> Result<Option<SalesOfHours>> {
        if self.engine.get() == Engine::Citus {
            return Ok(None);
        }
        let sums = sqlx::query!(
            r#"SELECT coalesce(sum(h.count), 0)::bigint AS "exchanges!", least(9223372036854775807, coalesce(
                   sum(h.free_taken + h.charge_taken - h.free_given_back - h.charge_given_back), 0))::bigint AS "coins!"
               FROM apps a JOIN sales_hours h ON h.app_no = a.app_no AND h.cut = 2 AND h.hour >= $1 AND h.hour < $2"#,
            since,
            until
        );
        let sums = sums.fetch_one(&self.pool).await?;
        Ok(Some(SalesOfHours { exchanges: sums.exchanges, coins: sums.coins }))
    }

    /// Compares the roll-up of an app with its ledger. It reads all of the ledger, however long that takes.
    pub async fn check_roll_up(&self, app_id: &AppId) -> Result<RollUpCheck, OperationError> {
        let app_id = app_id.clone();
        self.long_transaction(app_id, |connection, app_id| Box::pin(check(connection, app_id))).await
    }
}

async fn roll_up_some(connection: &mut PgConnection, engine: Engine) -> Result<bool> {
    let head = sqlx::query_scalar!("SELECT through_no FROM sales_head FOR UPDATE SKIP LOCKED");
    let Some(through_no) = head.fetch_optional(&mut *connection).await? else { return Ok(false) };
    let rows = sqlx::query!(
        r#"SELECT a.app_no AS "app_no?", e.last_no, e.type, e.keys FROM events e LEFT JOIN apps a ON a.app_id = e.app_id
           WHERE e.last_no > $1 ORDER BY e.last_no LIMIT $2"#,
        through_no,
        EVENT_ROWS_AT_ONCE
    );
    let rows = rows.fetch_all(&mut *connection).await?;
    let count = i64::try_from(rows.len()).unwrap_or(i64::MAX);
    let (mut keys, mut added) = (Keys::default(), None);
    for row in rows {
        if let Some(app_no) = row.app_no {
            keys.add(app_no, &row.r#type, &row.keys)?;
        }
        added = Some(row.last_no);
        if keys.seqs.len() >= ENTRIES_AT_ONCE {
            break;
        }
    }
    let Some(added) = added else { return Ok(false) };
    if !keys.seqs.is_empty() {
        plan_by_keys(connection, engine).await?;
        add_up(connection, &keys).await?;
    }
    sqlx::query!("UPDATE sales_head SET through_no = $1", added).execute(connection).await?;
    Ok(count == EVENT_ROWS_AT_ONCE || keys.seqs.len() >= ENTRIES_AT_ONCE)
}

/// Adds entries. It sums up by item before it reads the names of items, which a batch has few of.
async fn add_up(connection: &mut PgConnection, keys: &Keys) -> Result<()> {
    sqlx::query!(
        "INSERT INTO sales_hours AS known (app_no, cut, hour, product_name, zone, os, count, free_taken, charge_taken,
             free_given_back, charge_given_back)
         SELECT s.app_no, 7 - grouping(s.os, i.product_name, s.zone), s.hour, coalesce(i.product_name, ''),
             coalesce(s.zone, ''), coalesce(s.os, ''), sum(s.count), sum(s.free_taken), sum(s.charge_taken),
             sum(s.free_given_back), sum(s.charge_given_back)
         FROM (
             SELECT e.app_no, date_bin('1 hour', e.at, to_timestamp(0)) AS hour, e.item_id,
                 split_part(e.zone_id, '_', 1) AS zone, e.os, sum(e.count) AS count, sum(e.free_taken) AS free_taken,
                 sum(e.charge_taken) AS charge_taken, sum(e.free_given_back) AS free_given_back,
                 sum(e.charge_given_back) AS charge_given_back
             FROM unnest($1::integer[], $2::bigint[], $3::bigint[]) AS k (app_no, wallet_no, seq)
             JOIN sold_entries e ON e.app_no = k.app_no AND e.wallet_no = k.wallet_no AND e.seq = k.seq
             GROUP BY 1, 2, 3, 4, 5
         ) s
         JOIN items i ON i.app_no = s.app_no AND i.item_id = s.item_id
         GROUP BY GROUPING SETS (
             (s.app_no, s.hour, i.product_name), (s.app_no, s.hour, s.zone),
             (s.app_no, s.hour, i.product_name, s.zone), (s.app_no, s.hour, s.os),
             (s.app_no, s.hour, i.product_name, s.zone, s.os))
         ON CONFLICT (app_no, cut, hour, product_name, zone, os) DO UPDATE
         SET count = known.count + excluded.count, free_taken = known.free_taken + excluded.free_taken,
             charge_taken = known.charge_taken + excluded.charge_taken,
             free_given_back = known.free_given_back + excluded.free_given_back,
             charge_given_back = known.charge_given_back + excluded.charge_given_back",
        &keys.app_nos,
        &keys.wallet_nos,
        &keys.seqs
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// The exchanges and cancels of apps that are not in the roll-up, in the snapshot of the transaction.
pub(super) async fn unrolled(connection: &mut PgConnection, app_nos: &[i32]) -> Result<Keys> {
    let rows = sqlx::query!(
        r#"SELECT a.app_no AS "app_no!", e.type AS "type!", e.keys AS "keys!"
           FROM apps a JOIN events e ON e.app_id = a.app_id
           WHERE a.app_no = ANY ($1) AND e.last_no > (SELECT through_no FROM sales_head)
           UNION ALL
           SELECT o.app_no, o.type, o.keys FROM wallet_outbox o WHERE o.app_no = ANY ($1)"#,
        app_nos
    );
    let mut keys = Keys::default();
    for row in rows.fetch_all(connection).await? {
        keys.add(row.app_no, &row.r#type, &row.keys)?;
    }
    Ok(keys)
}

/// The first hour that the roll-up knows by platform.
pub(super) async fn known_by_os(connection: &mut PgConnection) -> Result<OffsetDateTime> {
    Ok(sqlx::query_scalar!("SELECT os_since FROM sales_head").fetch_one(connection).await?)
}

/// How many exchanges the roll-up has of these hours.
pub(super) async fn exchanges(
    connection: &mut PgConnection,
    scope: &RevenueScope,
    (since, until): Span,
) -> Result<i64> {
    let count = sqlx::query_scalar!(
        r#"SELECT coalesce(sum(count), 0)::bigint AS "count!" FROM sales_hours
           WHERE app_no = ANY ($1) AND cut = 1 AND hour >= $2 AND hour < $3"#,
        &scope.app_nos,
        since,
        until
    );
    Ok(count.fetch_one(connection).await?)
}

/// The sums of whole hours from the roll-up. Rows by time leave out hours in which a day or a week begins.
pub(super) async fn of_hours(
    connection: &mut PgConnection,
    scope: &RevenueScope,
    (since, until): (OffsetDateTime, OffsetDateTime),
) -> Result<Vec<GroupRow>> {
    let has_product = scope.by_product || scope.item.is_some();
    let has_zone = scope.by_zone || scope.zone.is_some();
    // Platforms are few: where their rows go back far enough, they are fewer than those of products.
    let is_by_os = scope.is_of_os() || !has_product && !has_zone && since >= known_by_os(connection).await?;
    let cut: i16 = match (is_by_os, has_product, has_zone) {
        (true, false, false) => 4,
        (true, ..) => 7,
        (false, true, true) => 3,
        (false, false, true) => 1,
        (false, _, false) => 2,
    };
    let has_split_hours = scope.times.split_hours((since, until)).next().is_some();
    let rows = sqlx::query_as!(
        GroupRow,
        r#"SELECT CASE WHEN $5 THEN width_bucket(h.hour, $9::timestamptz[]) END AS time,
               CASE WHEN $6 THEN h.app_no END AS app_no, CASE WHEN $7 THEN h.product_name END AS product_name,
               CASE WHEN $8 THEN h.zone END AS zone, CASE WHEN $14 THEN h.os END AS os,
               sum(h.count)::text AS "count!", sum(h.free_taken)::text AS "free_taken!",
               sum(h.charge_taken)::text AS "charge_taken!", sum(h.free_given_back)::text AS "free_given_back!",
               sum(h.charge_given_back)::text AS "charge_given_back!"
           FROM sales_hours h
           WHERE h.app_no = ANY ($1) AND h.cut = $2 AND h.hour >= $3 AND h.hour < $4
               AND NOT ($10 AND width_bucket(h.hour, $9)
                   <> width_bucket(h.hour + interval '1 hour' - interval '1 microsecond', $9))
               AND ($11::text IS NULL OR h.zone = $11)
               AND ($12::text IS NULL OR h.product_name = $12
                   OR $13 AND strpos(lower(h.product_name), lower($12 COLLATE "C")) > 0)
               AND ($15::text IS NULL OR h.os = $15)
           GROUP BY 1, 2, 3, 4, 5"#,
        &scope.app_nos,
        cut,
        since,
        until,
        scope.by_time,
        scope.by_app,
        scope.by_product,
        scope.by_zone,
        &scope.times.starts,
        has_split_hours,
        scope.zone,
        scope.item,
        scope.is_part,
        scope.by_os,
        scope.os
    );
    Ok(rows.fetch_all(connection).await?)
}

/// The sums of the same hours of what is not rolled up.
pub(super) async fn of_keys(
    connection: &mut PgConnection,
    scope: &RevenueScope,
    (since, until): (OffsetDateTime, OffsetDateTime),
) -> Result<Vec<GroupRow>> {
    let keys = unrolled(connection, &scope.app_nos).await?;
    let has_split_hours = scope.times.split_hours((since, until)).next().is_some();
    let rows = sqlx::query_as!(
        GroupRow,
        r#"SELECT CASE WHEN $6 THEN width_bucket(s.at, $10::timestamptz[]) END AS time,
               CASE WHEN $7 THEN s.app_no END AS app_no, CASE WHEN $8 THEN i.product_name END AS product_name,
               CASE WHEN $9 THEN split_part(s.zone_id, '_', 1) END AS zone, CASE WHEN $15 THEN s.os END AS os,
               sum(s.count)::text AS "count!", sum(s.free_taken)::text AS "free_taken!",
               sum(s.charge_taken)::text AS "charge_taken!", sum(s.free_given_back)::text AS "free_given_back!",
               sum(s.charge_given_back)::text AS "charge_given_back!"
           FROM unnest($1::integer[], $2::bigint[], $3::bigint[]) AS k (app_no, wallet_no, seq)
           JOIN sold_entries s ON s.app_no = k.app_no AND s.wallet_no = k.wallet_no AND s.seq = k.seq
           JOIN items i ON i.app_no = s.app_no AND i.item_id = s.item_id
           CROSS JOIN LATERAL (SELECT date_trunc('hour', s.at, 'UTC') AS hour) h
           WHERE s.at >= $4 AND s.at < $5
               AND NOT ($11 AND width_bucket(h.hour, $10)
                   <> width_bucket(h.hour + interval '1 hour' - interval '1 microsecond', $10))
               AND ($12::text IS NULL OR split_part(s.zone_id, '_', 1) = $12)
               AND ($13::text IS NULL OR i.product_name = $13
                   OR $14 AND strpos(lower(i.product_name COLLATE "C"), lower($13 COLLATE "C")) > 0)
               AND ($16::text IS NULL OR s.os = $16)
           GROUP BY 1, 2, 3, 4, 5"#,
        &keys.app_nos,
        &keys.wallet_nos,
        &keys.seqs,
        since,
        until,
        scope.by_time,
        scope.by_app,
        scope.by_product,
        scope.by_zone,
        &scope.times.starts,
        has_split_hours,
        scope.zone,
        scope.item,
        scope.is_part,
        scope.by_os,
        scope.os
    );
    Ok(rows.fetch_all(connection).await?)
}

async fn check(connection: &mut PgConnection, app_id: &AppId) -> Result<RollUpCheck, OperationError> {
    sqlx::query!("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        .execute(&mut *connection)
        .await?;
    sqlx::query!("SET LOCAL statement_timeout = 0").execute(&mut *connection).await?;
    let app_no = number_of(&mut *connection, app_id).await?;
    let keys = unrolled(connection, &[app_no]).await?;
    let rows =
        sqlx::query_scalar!(r#"SELECT count(*) AS "rows!" FROM sales_hours WHERE app_no = $1"#, app_no);
    let rows = rows.fetch_one(&mut *connection).await?;
    let differs = sqlx::query_as!(
        RollUpDifference,
        r#"WITH detail AS (
               SELECT 1 AS sign, date_trunc('hour', s.at, 'UTC') AS hour, i.product_name,
                   split_part(s.zone_id, '_', 1) AS zone, s.os, s.count, s.free_taken, s.charge_taken,
                   s.free_given_back, s.charge_given_back
               FROM unnest($2::bigint[], $3::bigint[]) AS k (wallet_no, seq)
               JOIN sold_entries s ON s.app_no = $1 AND s.wallet_no = k.wallet_no AND s.seq = k.seq
               JOIN items i ON i.app_no = $1 AND i.item_id = s.item_id
               UNION ALL
               SELECT -1, date_trunc('hour', s.at, 'UTC'), i.product_name, split_part(s.zone_id, '_', 1), s.os,
                   s.count, s.free_taken, s.charge_taken, s.free_given_back, s.charge_given_back
               FROM sales s JOIN items i ON i.app_no = s.app_no AND i.item_id = s.item_id
               WHERE s.app_no = $1
           ), parts AS (
               SELECT cut, hour, product_name, zone, os, count, free_taken, charge_taken, free_given_back,
                   charge_given_back
               FROM sales_hours WHERE app_no = $1
               UNION ALL
               SELECT 7 - grouping(os, product_name, zone), hour, coalesce(product_name, ''), coalesce(zone, ''),
                   coalesce(os, ''), sum(sign * count), sum(sign * free_taken), sum(sign * charge_taken),
                   sum(sign * free_given_back), sum(sign * charge_given_back)
               FROM detail
               GROUP BY GROUPING SETS (
                   (hour, product_name), (hour, zone), (hour, product_name, zone), (hour, os),
                   (hour, product_name, zone, os))
           )
           SELECT hour AS "hour!", product_name AS "product_name!", zone AS "zone!", os AS "os!", sum(count)::bigint AS "count!",
               (sum(free_taken) + sum(charge_taken) - sum(free_given_back) - sum(charge_given_back))::text AS "net!"
           FROM parts
           WHERE cut < 4 OR hour >= (SELECT os_since FROM sales_head)
           GROUP BY cut, hour, product_name, zone, os
           HAVING sum(count) <> 0 OR sum(free_taken) <> 0 OR sum(charge_taken) <> 0 OR sum(free_given_back) <> 0
               OR sum(charge_given_back) <> 0
           ORDER BY hour, product_name, zone, os LIMIT $4"#,
        app_no,
        &keys.wallet_nos,
        &keys.seqs,
        DIFFERENCES_MAX
    );
    let differs = differs.fetch_all(connection).await?;
    Ok(RollUpCheck {
        app_id: app_id.to_string(),
        ties: differs.is_empty(),
        rows,
        not_rolled_up: keys.seqs.len(),
        differs,
    })
}
