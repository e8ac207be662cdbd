//! The last audit of a scope, for monitoring and the console.

use serde::Serialize;
use time::OffsetDateTime;

crate::word_enum! {
    /// The scope of an audit. The word is in the database and in the labels of metrics.
    pub enum AuditScope {
        /// Everything.
        Full = "full",
        /// Everything after a checkpoint.
        Since = "since",
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
