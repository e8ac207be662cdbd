//! What happened in each app today, for the list of apps.

use std::collections::HashMap;

use domain::rights::Apps;
use time::OffsetDateTime;

use crate::engine::Engine;
use crate::error::Result;
use crate::store::Store;

/// What happened in an app since some hour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AppToday {
    /// Coins that exchanges took, less what was given back, by what the sums of hours have.
    pub coins: i64,
    /// Refusals of properly signed changes, by their last times.
    pub refusals: i64,
    /// The last exchange, where it is among the newest 1,000 entries; or else the beginning of its hour.
    pub last_exchange_at: Option<OffsetDateTime>,
}

impl Store {
    /// What happened in each of these apps since the beginning of an hour, by the ids. Empty on Citus, which has no sums.
    pub async fn apps_today(&self, apps: &Apps, since: OffsetDateTime) -> Result<HashMap<String, AppToday>> {
        if self.engine.get() == Engine::Citus {
            return Ok(HashMap::new());
        }
        let rows = sqlx::query!(
            r#"SELECT a.app_id, least(9223372036854775807, coalesce(sold.coins, 0))::bigint AS "coins!",
                   coalesce(refused.count, 0)::bigint AS "refusals!", coalesce(newest.at, sold.last_hour) AS last_at
               FROM apps a
               LEFT JOIN LATERAL (
                   SELECT sum(h.free_taken + h.charge_taken - h.free_given_back - h.charge_given_back)
                           FILTER (WHERE h.hour >= $2) AS coins,
                       max(h.hour) FILTER (WHERE h.count > 0) AS last_hour
                   FROM sales_hours h
                   WHERE h.app_no = a.app_no AND h.cut = 2 AND h.hour >= $2 - interval '30 days') sold ON true
               LEFT JOIN LATERAL (
                   SELECT sum(r.count) AS count FROM exchange_refusals r WHERE r.app_id = a.app_id AND r.last_at >= $2
               ) refused ON true
               LEFT JOIN LATERAL (
                   SELECT max(e.at) AS at FROM (
                       SELECT l.at, l.kind FROM ledger_entries l WHERE l.app_no = a.app_no ORDER BY l.at DESC LIMIT 1000) e
                   WHERE e.kind = 'exchange') newest ON true
               WHERE $1::text[] IS NULL OR a.app_id = ANY ($1)"#,
            apps.ids(),
            since
        );
        let rows = rows.fetch_all(&self.pool).await?.into_iter().map(|row| {
            let today = AppToday { coins: row.coins, refusals: row.refusals, last_exchange_at: row.last_at };
            (row.app_id, today)
        });
        Ok(rows.collect())
    }
}
