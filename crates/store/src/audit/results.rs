//! Records the results of audits in the database. Monitoring and the console report the last clean
//! audit.

use std::sync::Arc;

use domain::audit::{AuditScope, LastAudit};

use super::AuditReport;
use crate::error::Result;
use crate::secrets::random_bytes;
use crate::store::Store;

impl Store {
    /// The last audit of each scope. It queries the database at most every 30 seconds.
    pub async fn last_audits(&self) -> Result<Arc<[LastAudit]>> {
        let store = self.clone();
        let look_up = async move { store.look_up(store.look_up_last_audits()).await.map(Some) };
        let found = self.last_audits.get_or(&(), self.clock.monotonic(), self.look_up_within(), |_| look_up);
        Ok(found.await?.unwrap_or_default())
    }

    async fn look_up_last_audits(&self) -> Result<Arc<[LastAudit]>> {
        let mut audits = Vec::new();
        for scope in AuditScope::ALL {
            let last = sqlx::query!(
                r#"SELECT started_at, differences,
                       (SELECT started_at FROM audits WHERE scope = $1 AND differences = 0
                        ORDER BY started_at DESC LIMIT 1) AS last_clean_at
                   FROM audits WHERE scope = $1 ORDER BY started_at DESC, id DESC LIMIT 1"#,
                scope.as_str()
            )
            .fetch_optional(&self.pool)
            .await?;
            audits.extend(last.map(|last| LastAudit {
                scope,
                at: last.started_at,
                differences: last.differences,
                last_clean_at: last.last_clean_at,
            }));
        }
        Ok(audits.into())
    }

    /// Records the result of an audit.
    pub(super) async fn note_audit(&self, report: &AuditReport) -> Result<()> {
        let scope = if report.since.is_some() { AuditScope::Since } else { AuditScope::Full };
        let count = |rows: u64| i64::try_from(rows).unwrap_or(i64::MAX);
        sqlx::query!(
            "INSERT INTO audits (scope, started_at, id, finished_at, entries, differences, program_version)
             VALUES ($1, $2, $3, clock_timestamp(), $4, $5, $6)",
            scope.as_str(),
            report.at,
            i64::from_be_bytes(random_bytes()),
            count(report.entries),
            count(report.differences),
            env!("CARGO_PKG_VERSION")
        )
        .execute(&self.pool)
        .await?;
        Ok(())
    }
}
