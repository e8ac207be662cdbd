//! The refusal that writers leave for readiness: why the database gave none of them a new session.
//!
//! A writer opens a session only when it has work, and the session of readiness may last while no new one is given.

use std::sync::{Arc, Mutex, PoisonError};

/// Why the last session that was asked for was not given. All clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct SessionRefusal(Arc<Mutex<Option<String>>>);

impl SessionRefusal {
    /// Keeps the reason, or forgets the former one with `None`: a session was given.
    pub(crate) fn keep(&self, reason: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    }

    /// The reason, or `None` while sessions are given.
    pub(crate) fn reason(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_is_given_takes_back_the_reason() {
        let writers = SessionRefusal::default();
        let readiness = writers.clone();
        assert_eq!(readiness.reason(), None);
        writers.keep(Some("53300: too many connections".to_owned()));
        assert_eq!(readiness.reason().as_deref(), Some("53300: too many connections"));
        writers.keep(None);
        assert_eq!(readiness.reason(), None);
    }
}
