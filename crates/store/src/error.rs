//! What can go wrong between us and the database.

/// A fault of the store. Business outcomes are not errors; each operation has its own type for them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The database is away, or did not answer in time. Nothing was acknowledged; safe to repeat.
    #[error("the database is not available: {0}")]
    Unavailable(String),
    /// Where pictures are outside the database cannot be reached, or must not be used. Nothing was
    /// acknowledged; safe to repeat.
    #[error("the store of pictures is not available: {0}")]
    PicturesUnavailable(String),
    /// More waits than may.
    #[error("too many requests are waiting")]
    Overloaded,
    /// The whole transaction has to be run again; seen outside only when that never ended.
    #[error("the database asked too often to repeat a transaction")]
    Again,
    /// Another try of the same request has taken effect; this one has not.
    #[error("the request has taken effect by another try")]
    Repeated,
    /// A fault of ours: a constraint that the code should have kept, a row that does not parse.
    #[error("{0}")]
    Internal(String),
}

impl StoreError {
    /// A row that does not parse: somebody wrote it by another way.
    pub(super) fn damaged(what: &str) -> Self {
        Self::Internal(format!("a stored row is damaged: {what}"))
    }

    /// An exchange that nobody waits for any more.
    #[must_use]
    pub fn past_deadline() -> Self {
        Self::Unavailable("an exchange waited past its deadline".to_owned())
    }

    /// What PostgreSQL tells with a code of five characters.
    pub(super) fn from_code(code: &str, words: String) -> Self {
        match code {
            // serialisation failure, deadlock
            "40001" | "40P01" => Self::Again,
            _ if is_unavailable(code) => Self::Unavailable(words),
            _ => Self::Internal(words),
        }
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::Database(fault) => {
                Self::from_code(fault.code().as_deref().unwrap_or_default(), error.to_string())
            }
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed => Self::Unavailable(error.to_string()),
            other => Self::Internal(other.to_string()),
        }
    }
}

/// Codes of a database that cannot serve now, whatever the statement.
fn is_unavailable(code: &str) -> bool {
    let class_is = |class: &str| code.starts_with(class);
    // connection faults; resources exhausted; ended by the operator, a crash or a time limit;
    // the login or the database is refused
    class_is("08") || class_is("53") || class_is("57") || class_is("28")
        // no such database; no connections allowed to it; lock time-out; read-only after a
        // failover; idle in a transaction
        || matches!(code, "3D000" | "55000" | "55P03" | "25006" | "25P03")
}
