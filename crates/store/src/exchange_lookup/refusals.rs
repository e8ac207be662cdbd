//! Refused exchanges, presents and cancels, for those who are asked why a player got nothing (contract 13.1).
//! Nothing depends on them.
//!
//! A handler notes a refusal in memory when it answers. Once a second one statement writes what was noted. What could
//! not be written waits for the next write. What a process has not written is lost when it dies.

use std::time::Duration;

use domain::ids::{AppId, BizNo, OpenId};
use domain::rights::Apps;
use domain::wallet::{Amount, Balances};
use serde::Serialize;
use time::OffsetDateTime;

use crate::counts::{RefusalCount, RefusalName, RefusedChange, RefusedContent, TakenCounts};
use crate::error::Result;
use crate::store::Store;

/// How long a refusal is kept after the last time.
pub(super) const KEPT_DAYS: i32 = 30;
/// Rows that an app keeps, the newest. Until the next removal it may have more.
const ROWS_OF_APP_MAX: i64 = 100_000;
/// Rows that one statement removes.
const REMOVED_AT_ONCE: i64 = 5_000;
/// Refusals that are shown of a number or a player, the newest.
const SHOWN_MAX: i64 = 100;

/// How often a code has refused a number of a player in the last 30 days.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "Refusal")]
pub struct RefusalRecord {
    /// The player.
    #[schemars(with = "OpenId")]
    pub open_id: String,
    /// The number.
    #[schemars(with = "BizNo")]
    pub biz_no: String,
    /// What was asked for the last time.
    #[schemars(extend("enum" = ["exchange", "present", "cancel"]))]
    pub kind: String,
    /// The code of the answer.
    pub code: i64,
    /// The first time, by the database's clock.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub first_at: OffsetDateTime,
    /// The last time.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub last_at: OffsetDateTime,
    /// How often.
    pub count: i64,
    /// Id of the last request, as the server log has it.
    pub request_id: String,
    /// The amount of the last time. Null where none came that can be one.
    pub amount: Option<i64>,
    /// The product of the last time. Null where an exchange named none that can be one, and for a present or a cancel.
    pub product_name: Option<String>,
    /// The gifted purse at the last time. Null where the till had not looked at the wallet.
    pub free_balance: Option<i64>,
    /// The charged purse at the last time.
    pub charge_balance: Option<i64>,
}

/// How often a code has refused an app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusalSum {
    /// The code of the answers.
    pub code: i64,
    /// How often.
    pub count: i64,
    /// Numbers that were refused.
    pub numbers: i64,
    /// Players that were refused.
    pub players: i64,
}

/// A number or a player that a search has found among the refusals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedMatch {
    /// The app.
    pub app_id: String,
    /// The `biz_no` or the `open_id`.
    pub name: String,
}

/// Reads the refusals that are shown of a number or a player, the newest first. `$column` names it, and `$next` the order of
/// those of one moment.
macro_rules! shown_refusals {
    ($column:literal, $next:literal, $app_id:expr, $name:expr) => {
        sqlx::query_as!(
            RefusalRecord,
            "SELECT open_id, biz_no, kind, code, first_at, last_at, count, request_id, amount, product_name, free_balance,
                 charge_balance
             FROM exchange_refusals
             WHERE app_id = $1 AND last_at > now() - make_interval(days => $3) AND " + $column + " = $2
             ORDER BY last_at DESC, " + $next + ", code LIMIT $4",
            $app_id.as_str(),
            $name.as_str(),
            KEPT_DAYS,
            SHOWN_MAX
        )
    };
}

impl Store {
    /// Notes a refusal, to be written within a second. It waits for nothing.
    pub fn note_refusal(&self, refused: RefusedChange) {
        self.refusals.note(refused, self.clock.monotonic());
    }

    /// Writes the refusals that this process has noted since the last call. The server calls it once a second. What a
    /// failed write had is in the next one.
    pub async fn write_refusals(&self) -> Result<()> {
        let TakenCounts { counts, uncounted } = self.refusals.take();
        if uncounted > 0 {
            tracing::warn!(uncounted, "more requests were refused in a second than are recorded");
        }
        if counts.is_empty() {
            return Ok(());
        }
        let rows = RefusalColumns::new(&counts, self.clock.monotonic());
        // A caller that stops waiting does not stop the write, so nothing is counted twice.
        let written =
            self.transaction(rows, |connection, rows| Box::pin(async move { rows.write(connection).await }));
        let written = written.await;
        if written.is_err() {
            self.refusals.put_back(counts);
        }
        written
    }

    /// The refusals of apps by code, the most frequent first. A recorded refusal counts with all its times if its last
    /// time lies in the span (contract 13.1.9).
    pub async fn refusals_by_code(
        &self,
        apps: &Apps,
        since: Option<OffsetDateTime>,
        until: Option<OffsetDateTime>,
    ) -> Result<Vec<RefusalSum>> {
        Ok(sqlx::query_as!(
            RefusalSum,
            r#"SELECT code, sum(count)::bigint AS "count!", sum(numbers)::bigint AS "numbers!",
                   sum(players)::bigint AS "players!"
               FROM (SELECT code, sum(count) AS count, count(DISTINCT biz_no) AS numbers, count(DISTINCT open_id) AS players
                   FROM exchange_refusals
                   WHERE ($1::text[] IS NULL OR app_id = ANY ($1)) AND last_at > now() - make_interval(days => $2)
                       AND ($3::timestamptz IS NULL OR last_at >= $3) AND ($4::timestamptz IS NULL OR last_at < $4)
                   GROUP BY app_id, code) of_app
               GROUP BY code ORDER BY 2 DESC, code"#,
            apps.ids(),
            KEPT_DAYS,
            since,
            until
        )
        .fetch_all(&self.pool)
        .await?)
    }

    /// Removes refusals that are older than 30 days, and of each app those beyond its newest 100,000, in small steps.
    /// Returns the number of rows.
    pub async fn remove_old_refusals(&self) -> Result<u64> {
        let mut removed = 0;
        loop {
            // Rows that are being written stay for the next time. One limit for both reasons: with OR between two, the index of
            // the oldest is read from one end to the other.
            let some = sqlx::query!(
                "DELETE FROM exchange_refusals gone USING (
                     SELECT r.app_id, r.biz_no, r.open_id, r.code FROM apps a
                     CROSS JOIN LATERAL (
                         SELECT greatest(now() - make_interval(days => $1), (
                             SELECT last_at FROM exchange_refusals r WHERE r.app_id = a.app_id
                             ORDER BY last_at DESC OFFSET $2 LIMIT 1)) AS at) too_old
                     CROSS JOIN LATERAL (
                         SELECT * FROM exchange_refusals r
                         WHERE r.app_id = a.app_id AND r.last_at <= too_old.at
                         ORDER BY r.last_at LIMIT $3 FOR UPDATE SKIP LOCKED) r
                     LIMIT $3) old
                 WHERE gone.app_id = old.app_id AND gone.biz_no = old.biz_no AND gone.open_id = old.open_id
                     AND gone.code = old.code",
                KEPT_DAYS,
                ROWS_OF_APP_MAX,
                REMOVED_AT_ONCE
            );
            let some = some.execute(&self.pool).await?.rows_affected();
            removed += some;
            if some < u64::try_from(REMOVED_AT_ONCE).unwrap_or_default() {
                return Ok(removed);
            }
        }
    }

    /// The refusals of a number, the newest first, at most 100.
    pub async fn refusals_of_number(&self, app_id: &AppId, biz_no: &BizNo) -> Result<Vec<RefusalRecord>> {
        Ok(shown_refusals!("biz_no", "open_id", app_id, biz_no).fetch_all(&self.pool).await?)
    }

    /// Those of these apps that have refused this number, at most `limit`. It reads each app by its key.
    pub async fn find_refused_number(
        &self,
        apps: &Apps,
        biz_no: &str,
        limit: u32,
    ) -> Result<Vec<RefusedMatch>> {
        Ok(sqlx::query_as!(
            RefusedMatch,
            "SELECT a.app_id, r.biz_no AS name FROM apps a CROSS JOIN LATERAL (
                 SELECT biz_no FROM exchange_refusals r
                 WHERE r.app_id = a.app_id AND r.biz_no = $1 AND r.last_at > now() - make_interval(days => $2)
                 LIMIT 1) r
             WHERE $4::text[] IS NULL OR a.app_id = ANY ($4)
             ORDER BY a.app_id LIMIT $3",
            biz_no,
            KEPT_DAYS,
            i64::from(limit),
            apps.ids()
        )
        .fetch_all(&self.pool)
        .await?)
    }

    /// Those of these apps that have refused this player and do not know them, at most `limit`.
    pub async fn find_refused_player(
        &self,
        apps: &Apps,
        open_id: &OpenId,
        limit: u32,
    ) -> Result<Vec<RefusedMatch>> {
        // Apart, because Citus does not join a table of the coordinator with one of its nodes.
        let known = sqlx::query_scalar!(
            "SELECT a.app_id FROM apps a JOIN wallets w ON w.app_no = a.app_no WHERE w.open_id = $1",
            open_id.as_str()
        );
        let known = known.fetch_all(&self.pool).await?;
        Ok(sqlx::query_as!(
            RefusedMatch,
            "SELECT a.app_id, r.open_id AS name FROM apps a CROSS JOIN LATERAL (
                 SELECT open_id FROM exchange_refusals r
                 WHERE r.app_id = a.app_id AND r.open_id = $1 AND r.last_at > now() - make_interval(days => $2)
                 LIMIT 1) r
             WHERE a.app_id <> ALL ($4) AND ($5::text[] IS NULL OR a.app_id = ANY ($5))
             ORDER BY a.app_id LIMIT $3",
            open_id.as_str(),
            KEPT_DAYS,
            i64::from(limit),
            &known,
            apps.ids()
        )
        .fetch_all(&self.pool)
        .await?)
    }

    /// The refusals of a player, the newest first, at most 100.
    pub async fn refusals_of_player(&self, app_id: &AppId, open_id: &OpenId) -> Result<Vec<RefusalRecord>> {
        Ok(shown_refusals!("open_id", "biz_no", app_id, open_id).fetch_all(&self.pool).await?)
    }
}

/// The columns of a write.
#[derive(Debug, Default)]
struct RefusalColumns {
    app_ids: Vec<String>,
    biz_nos: Vec<String>,
    open_ids: Vec<String>,
    codes: Vec<i64>,
    kinds: Vec<String>,
    /// Seconds before the write.
    first_ago: Vec<f64>,
    last_ago: Vec<f64>,
    counts: Vec<i64>,
    request_ids: Vec<String>,
    amounts: Vec<Option<i64>>,
    product_names: Vec<Option<String>>,
    free_balances: Vec<Option<i64>>,
    charge_balances: Vec<Option<i64>>,
}

impl RefusalColumns {
    fn new(counts: &[(AppId, RefusalName, RefusalCount)], now: Duration) -> Self {
        let mut rows = Self::default();
        for (app_id, (biz_no, open_id, code), count) in counts {
            rows.app_ids.push(app_id.to_string());
            rows.biz_nos.push(biz_no.clone());
            rows.open_ids.push(open_id.clone());
            rows.codes.push(i64::from(*code));
            rows.kinds.push(count.kind.as_str().to_owned());
            rows.first_ago.push(now.saturating_sub(count.first).as_secs_f64());
            rows.last_ago.push(now.saturating_sub(count.last).as_secs_f64());
            rows.counts.push(count.count);
            rows.request_ids.push(count.request_id.clone());
            let RefusedContent { amount, product_name, balances } = &count.asked;
            rows.amounts.push(amount.map(Amount::get));
            rows.product_names.push(product_name.as_ref().map(ToString::to_string));
            rows.free_balances.push(balances.map(Balances::free));
            rows.charge_balances.push(balances.map(Balances::charge));
        }
        rows
    }

    async fn write(&self, connection: &mut sqlx::PgConnection) -> Result<()> {
        sqlx::query!(
            "INSERT INTO exchange_refusals AS known
                 (app_id, biz_no, open_id, code, kind, first_at, last_at, count, request_id, amount, product_name,
                  free_balance, charge_balance)
             SELECT app_id, biz_no, open_id, code, kind, now() - make_interval(secs => first_ago),
                 now() - make_interval(secs => last_ago), count, request_id, amount, product_name, free, charge
             FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::float8[], $7::float8[],
                 $8::bigint[], $9::text[], $10::bigint[], $11::text[], $12::bigint[], $13::bigint[])
                 AS noted (app_id, biz_no, open_id, code, kind, first_ago, last_ago, count, request_id, amount,
                     product_name, free, charge)
             ON CONFLICT (app_id, biz_no, open_id, code) DO UPDATE
             SET first_at = least(known.first_at, excluded.first_at),
                 last_at = greatest(known.last_at, excluded.last_at),
                 count = known.count + excluded.count,
                 kind = CASE WHEN excluded.last_at >= known.last_at THEN excluded.kind ELSE known.kind END,
                 request_id = CASE WHEN excluded.last_at >= known.last_at THEN excluded.request_id ELSE known.request_id END,
                 amount = CASE WHEN excluded.last_at >= known.last_at THEN excluded.amount ELSE known.amount END,
                 product_name = CASE WHEN excluded.last_at >= known.last_at THEN excluded.product_name ELSE known.product_name END,
                 free_balance = CASE WHEN excluded.last_at >= known.last_at THEN excluded.free_balance ELSE known.free_balance END,
                 charge_balance = CASE WHEN excluded.last_at >= known.last_at THEN excluded.charge_balance ELSE known.charge_balance END",
            &self.app_ids,
            &self.biz_nos,
            &self.open_ids,
            &self.codes,
            &self.kinds,
            &self.first_ago,
            &self.last_ago,
            &self.counts,
            &self.request_ids,
            &self.amounts as &[Option<i64>],
            &self.product_names as &[Option<String>],
            &self.free_balances as &[Option<i64>],
            &self.charge_balances as &[Option<i64>]
        )
        .execute(connection)
        .await?;
        Ok(())
    }
}
