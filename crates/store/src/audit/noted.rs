//! Records the results of audits in the database. Monitoring and the console report the last clean
//! audit.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use time::OffsetDateTime;

use super::AuditReport;
use crate::look_up_cache::LookUpCache;
use crate::secrets::random_bytes;
use crate::{Store, StoreError};

/// How long the result of [`Store::last_audits`] is cached.
const REMEMBERED_FOR: Duration = Duration::from_secs(30);

/// The scope of an audit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AuditScope {
    /// Everything.
    Full,
    /// Everything after a checkpoint.
    Since,
}

impl AuditScope {
    /// All scopes.
    pub const ALL: [Self; 2] = [Self::Full, Self::Since];

    /// The word in the database and in the labels of metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Since => "since",
        }
    }
}

/// The last audit of a scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LastAudit {
    /// The scope.
    pub scope: AuditScope,
    /// Database time of its snapshot.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// Number of differences that it found.
    pub differences: i64,
    /// Database time of the snapshot of the last clean audit, or `None`.
    #[serde(with = "time::serde::rfc3339::option")]
    pub last_clean_at: Option<OffsetDateTime>,
}

/// The cache of [`Store::last_audits`].
#[derive(Debug)]
pub(crate) struct LastAudits(LookUpCache<(), Arc<[LastAudit]>>);

impl Default for LastAudits {
    fn default() -> Self {
        Self(LookUpCache::lasting(REMEMBERED_FOR))
    }
}

impl Store {
    /// The last audit of each scope. It queries the database at most every 30 seconds.
    pub async fn last_audits(&self) -> Result<Arc<[LastAudit]>, StoreError> {
        let store = self.clone();
        let look_up = async move { store.look_up_last_audits().await.map(Some) };
        let found = self.last_audits.0.get_or((), self.clock.monotonic(), self.look_up_within(), look_up);
        Ok(found.await?.unwrap_or_default())
    }

    async fn look_up_last_audits(&self) -> Result<Arc<[LastAudit]>, StoreError> {
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
    pub(super) async fn note_audit(&self, report: &AuditReport) -> Result<(), StoreError> {
        let scope = if report.since.is_some() { AuditScope::Since } else { AuditScope::Full };
        let count = |rows: u64| i64::try_from(rows).unwrap_or(i64::MAX);
        let (at, entries, differences) = (report.at, count(report.entries), count(report.differences));
        self.transaction((), move |connection, ()| {
            Box::pin(async move {
                sqlx::query!(
                    "INSERT INTO audits (scope, started_at, id, finished_at, entries, differences, program_version)
                     VALUES ($1, $2, $3, clock_timestamp(), $4, $5, $6)",
                    scope.as_str(),
                    at,
                    i64::from_be_bytes(random_bytes()),
                    entries,
                    differences,
                    env!("CARGO_PKG_VERSION")
                )
                .execute(connection)
                .await?;
                Ok(())
            })
        })
        .await
    }
}
