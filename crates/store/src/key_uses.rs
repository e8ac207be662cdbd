//! Counts of how often keys prove who calls, for operators (contract 8.2.3). Nothing depends on them.
//!
//! A request adds to a number in memory that its key holds. Every half minute one statement adds these
//! numbers to the rows of the present hour. What a write could not store is in the next one.

use domain::ids::AppId;

use crate::error::Result;
use crate::store::Store;

impl Store {
    /// Writes the uses of keys that this process has counted since the last call.
    pub async fn write_key_uses(&self) -> Result<()> {
        let taken = self.key_uses.take();
        if taken.is_empty() {
            return Ok(());
        }
        let (mut app_ids, mut kinds, mut keys, mut counts) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for ((app_id, kind, key), _, count) in &taken {
            app_ids.push(app_id.clone());
            kinds.push(kind.to_string());
            keys.push(key.clone());
            counts.push(*count);
        }
        // A caller that stops waiting does not stop the write, so nothing is counted twice.
        let written = self.transaction((app_ids, kinds, keys, counts), |connection, rows| {
            Box::pin(async move {
                let (app_ids, kinds, keys, counts) = rows;
                let written = sqlx::query!(
                    "INSERT INTO key_uses AS known (app_id, kind, key, hour, uses, last_used_at)
                     SELECT app_id, kind, key, date_trunc('hour', now()), uses, now()
                     FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) AS counted (app_id, kind, key, uses)
                     ON CONFLICT (app_id, kind, key, hour) DO UPDATE
                     SET uses = known.uses + excluded.uses, last_used_at = excluded.last_used_at",
                    app_ids,
                    kinds,
                    keys,
                    counts
                );
                written.execute(connection).await?;
                Ok(())
            })
        });
        let written = written.await;
        if written.is_err() {
            for (_, uses, count) in taken {
                uses.add(count);
            }
        }
        written
    }

    /// Deletes the counts of hours past. The newest of each key stays, because it has its last use.
    pub async fn forget_old_key_uses(&self) -> Result<u64> {
        let gone = sqlx::query!(
            "DELETE FROM key_uses AS old WHERE hour < now() - interval '25 hours' AND EXISTS (
                 SELECT 1 FROM key_uses AS newer WHERE newer.app_id = old.app_id AND newer.kind = old.kind
                     AND newer.key = old.key AND newer.hour > old.hour)"
        );
        Ok(gone.execute(&self.pool).await?.rows_affected())
    }

    /// The apps whose keys were used most in the last day, on all instances, the busiest first.
    pub async fn busiest_apps(&self, limit: usize) -> Result<Vec<AppId>> {
        let rows = sqlx::query_scalar!(
            "SELECT app_id FROM key_uses WHERE app_id <> '' AND hour > now() - interval '24 hours'
             GROUP BY app_id ORDER BY sum(uses) DESC, app_id LIMIT $1",
            i64::try_from(limit).unwrap_or(i64::MAX)
        );
        Ok(rows.fetch_all(&self.pool).await?.iter().filter_map(|app_id| AppId::parse(app_id).ok()).collect())
    }
}
