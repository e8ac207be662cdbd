//! The number of servers that share this database, and so the rate limits (contract 7.2.6).
//!
//! A server's sessions are its lease: all of them have its name, and it uses one of them every few seconds.
//! Nothing is written for it, so a till that nobody uses writes nothing.

use crate::error::Result;
use crate::store::Store;

impl Store {
    /// Counts the servers of this database that have used a session in the last 15 seconds. This one has, by asking.
    pub async fn count_instances(&self) -> Result<u32> {
        // Without the right to see when a session was used, it counts as long as it is open.
        let counted = sqlx::query_scalar!(
            r#"SELECT count(DISTINCT application_name) AS "instances!" FROM pg_stat_activity
               WHERE datname = current_database() AND application_name LIKE 'minitill %'
                   AND (state_change IS NULL OR state_change > now() - interval '15 seconds')"#
        );
        let instances = counted.fetch_one(&self.pool).await?;
        Ok(u32::try_from(instances).unwrap_or(u32::MAX).max(1))
    }
}
