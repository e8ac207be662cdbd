//! Faults of a writer's session, and what each error code of PostgreSQL means for a batch.

use crate::error::StoreError;

/// The reason why a batch failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SessionFault {
    /// The transaction must be repeated.
    Again,
    /// Another session holds a lock for too long.
    Blocked,
    /// The session has ended. A COMMIT that was sent may have succeeded or not.
    Lost(String),
    /// Any other fault. The session is usable.
    Other(StoreError),
}

impl SessionFault {
    /// The fault of an SQLSTATE.
    pub(crate) fn from_code(code: &str, message: String) -> Self {
        match code {
            // 22012: the guard of the write, because a wallet has changed. 23505: another
            // transaction has recorded the same biz_no. The name of the key is not checked: a
            // partition has its own.
            "22012" | "23505" => Self::Again,
            // A node of Citus has met a key that exists. The coordinator passes on its words alone.
            "XX000" if message.contains("duplicate key value") => Self::Again,
            "55P03" => Self::Blocked,
            // The server has become a standby. A new session finds the new primary.
            "25006" => Self::Lost(message),
            code => match StoreError::from_code(code, message) {
                StoreError::Again => Self::Again,
                other => Self::Other(other),
            },
        }
    }
}
