//! Errors of the store.

use domain::operation::OperationRefusal;
use domain::picture_store::Outside;

use crate::objects::ObjectStoreError;

/// How the driver says that the server has no TLS, where `sslmode` asks for it.
const NO_TLS: &str = "server does not support TLS";

/// A result of the store.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// An error of the store. Every method of the store may return it. Business outcomes are not
/// errors: each operation has its own type for them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The database does not answer, or not in time. Nothing was acknowledged, so a repeat is safe.
    #[error("the database is not available: {1}")]
    Unavailable(Outage, String),
    /// An object store of pictures does not answer, or must not be used. Nothing was acknowledged,
    /// so a repeat is safe.
    #[error("the store of pictures is not available: {0}")]
    PicturesUnavailable(String),
    /// The queue is full.
    #[error("too many requests are waiting")]
    Overloaded,
    /// The transaction must be repeated. Callers get it only after the last attempt.
    #[error("the database asked too often to repeat a transaction")]
    Again,
    /// Another attempt of the same request has taken effect. This one has not.
    #[error("the request has taken effect by another try")]
    Repeated,
    /// A fault of this program: a violated constraint, or a row that does not parse.
    #[error("{0}")]
    Internal(String),
}

/// What may end an outage of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outage {
    /// A wait.
    Passing,
    /// Only another statement: it was ended, because it took too long.
    TooSlow,
    /// Only an operator: the database refuses the login or TLS, or there is no such database.
    Lasting,
}

impl StoreError {
    /// What to tell somebody who reads and whose statement takes too long.
    pub const TOO_SLOW: &str = "it takes longer than a statement may (database.statement_timeout): ask for a shorter time or one app";

    /// The error of an outage that may pass, with its words.
    #[must_use]
    pub fn unavailable(words: impl Into<String>) -> Self {
        Self::Unavailable(Outage::Passing, words.into())
    }

    /// The error of a row that does not parse.
    pub(super) fn damaged(what: &str) -> Self {
        Self::Internal(format!("a stored row is damaged: {what}"))
    }

    /// The error of an exchange past its deadline.
    #[must_use]
    pub fn past_deadline() -> Self {
        Self::Unavailable(Outage::Passing, "an exchange waited past its deadline".to_owned())
    }

    /// The error of an SQLSTATE.
    pub(super) fn from_code(code: &str, words: String) -> Self {
        match code {
            // serialisation failure, deadlock
            "40001" | "40P01" => Self::Again,
            // ended, as by its time limit
            "57014" => Self::Unavailable(Outage::TooSlow, words),
            // the login is refused; no such database
            "28000" | "28P01" | "3D000" => Self::Unavailable(Outage::Lasting, words),
            _ if may_pass(code) => Self::unavailable(words),
            _ => Self::Internal(words),
        }
    }

    /// Whether no wait helps. Only a start asks; a request is answered 503 all the same.
    #[must_use]
    pub fn is_lasting(&self) -> bool {
        matches!(self, Self::Unavailable(Outage::Lasting, _))
    }

    /// Whether the database ended a statement, because it took too long. Who reads can ask for less; a wait helps nobody.
    #[must_use]
    pub fn is_too_slow(&self) -> bool {
        matches!(self, Self::Unavailable(Outage::TooSlow, _))
    }

    /// The error of a call to an object store.
    pub(super) fn of_object_store(store: Outside, error: &ObjectStoreError) -> Self {
        Self::PicturesUnavailable(format!("{}: {error}", store.as_str()))
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::Database(fault) => {
                let code = fault.code().unwrap_or_default();
                // Its own text ends with a line of the source of PostgreSQL.
                Self::from_code(&code, format!("{code}: {}", fault.message()))
            }
            sqlx::Error::Tls(cause) if cause.to_string() == NO_TLS => {
                Self::Unavailable(Outage::Lasting, error.to_string())
            }
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed => Self::unavailable(error.to_string()),
            other => Self::Internal(other.to_string()),
        }
    }
}

/// Why a transaction that may be refused was rolled back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusable<R> {
    /// It does not fit what is there.
    Refused(R),
    /// The database is away, or a fault of ours.
    Store(StoreError),
}

/// Why an operator's command was not carried out.
pub type OperationError = Refusable<OperationRefusal>;

impl From<OperationRefusal> for OperationError {
    fn from(refusal: OperationRefusal) -> Self {
        Self::Refused(refusal)
    }
}

impl<R, E: Into<StoreError>> From<E> for Refusable<R> {
    fn from(error: E) -> Self {
        Self::Store(error.into())
    }
}

/// An error of a transaction. It may hold a [`StoreError`].
pub(crate) trait AsStoreError {
    /// True when the transaction must be repeated.
    fn is_again(&self) -> bool;
}

impl AsStoreError for StoreError {
    fn is_again(&self) -> bool {
        matches!(self, Self::Again)
    }
}

impl<R> AsStoreError for Refusable<R> {
    fn is_again(&self) -> bool {
        matches!(self, Self::Store(StoreError::Again))
    }
}

/// True for the SQLSTATE of a database that cannot serve now, whatever the statement, and may serve later.
fn may_pass(code: &str) -> bool {
    let class_is = |class: &str| code.starts_with(class);
    // connection faults; resources exhausted; ended by the operator, a crash or a time limit; a refusal of the login
    // that is of none of its own codes
    class_is("08") || class_is("53") || class_is("57") || class_is("28")
        // no connections allowed to the database; lock time-out; read-only after a failover; idle in a transaction
        || matches!(code, "55000" | "55P03" | "25006" | "25P03")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rule 9.3.5: a start waits for a database that is away, and not for one that refuses it.
    #[test]
    fn a_refused_login_is_not_waited_for() {
        let outage_of = |error: &StoreError| match error {
            StoreError::Unavailable(outage, _) => Some(*outage),
            _ => None,
        };
        let of_code =
            |code: &str| outage_of(&StoreError::from_code(code, "the words do not matter".to_owned()));
        for code in ["28P01", "28000", "3D000"] {
            assert_eq!(of_code(code), Some(Outage::Lasting), "{code}");
        }
        for code in ["57P03", "57P01", "53300", "55000", "08006", "28001"] {
            assert_eq!(of_code(code), Some(Outage::Passing), "{code}");
        }
        assert_eq!((of_code("23505"), of_code("40001")), (None, None));
        let tls = |cause: &str| StoreError::from(sqlx::Error::Tls(cause.into()));
        assert!(tls("server does not support TLS").is_lasting());
        assert!(!tls("unexpected EOF").is_lasting());
        assert!(!StoreError::unavailable("28P01: it may pass").is_lasting());
    }

    /// Rule 9.5.3: only a statement that was ended is too slow.
    #[test]
    fn a_statement_that_was_ended_is_too_slow() {
        let ended = "57014: canceling statement due to statement timeout";
        let error = StoreError::from_code("57014", ended.to_owned());
        assert_eq!(error.to_string(), format!("the database is not available: {ended}"));
        assert!(error.is_too_slow() && !error.is_lasting());
        for code in ["57P01", "28P01", "53300", "23505"] {
            assert!(!StoreError::from_code(code, ended.to_owned()).is_too_slow(), "{code}");
        }
        assert!(!StoreError::unavailable(ended).is_too_slow(), "words decide nothing");
    }
}
