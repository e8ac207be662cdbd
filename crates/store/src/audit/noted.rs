//! What audits came to, noted down in the database: monitoring and the console tell from it when the
//! books were last known to be right.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use time::OffsetDateTime;

use super::AuditReport;
use crate::look_up_cache::LookUpCache;
use crate::secrets::random_bytes;
use crate::{Store, StoreError};

/// How long an answer to [`Store::last_audits`] is remembered.
const REMEMBERED_FOR: Duration = Duration::from_secs(30);

/// What an audit read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AuditScope {
    /// Everything.
    Full,
    /// What came after a checkpoint.
    Since,
}

impl AuditScope {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Full, Self::Since];

    /// Its word in the database and among the labels of metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Since => "since",
        }
    }
}

/// What is known of the audits of one scope, as there was one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LastAudit {
    /// What they read.
    pub scope: AuditScope,
    /// When the last of them saw the books, database time.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// What the last of them found; 0 is clean.
    pub differences: i64,
    /// When the last one that found nothing saw the books; `None` where none was clean.
    #[serde(with = "time::serde::rfc3339::option")]
    pub last_clean_at: Option<OffsetDateTime>,
}

/// The answer to [`Store::last_audits`] that is remembered.
#[derive(Debug)]
pub(crate) struct LastAudits(LookUpCache<(), Arc<[LastAudit]>>);

impl Default for LastAudits {
    fn default() -> Self {
        Self(LookUpCache::lasting(REMEMBERED_FOR))
    }
}

impl Store {
    /// The last audit of each scope that there was one of. Asked of the database every 30 seconds at
    /// most, however often it is asked here.
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

    /// Notes down what an audit came to.
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
