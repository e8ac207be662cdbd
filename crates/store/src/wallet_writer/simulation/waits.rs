//! Waits for locks. A wait ends when the other transaction ends, at `lock_timeout`, or by a
//! deadlock.

use super::counts::EventKind;
use super::protocol::{SqlError, SqlStatement, Tx, error};
use super::world::{Transaction, World};
use crate::writer::LOCK_TIMEOUT;

/// The time limit of an operator's statement.
const STATEMENT_TIMEOUT: u64 = 5_000;

impl World {
    /// True when a session can do a step now.
    pub(super) fn can_work(&self, place: usize) -> bool {
        let backend = &self.backends[place];
        let Some(asked) = backend.queue.front() else { return false };
        let holds =
            matches!(asked.statement, SqlStatement::Hold { until } if self.now < until && self.has_faults);
        !backend.is_dead && !holds && (backend.waits.is_none() || self.end_of_wait(place).is_some())
    }

    /// The end of a wait, if it has ended: the lock may be free, or the wait has failed.
    pub(super) fn end_of_wait(&self, place: usize) -> Option<Result<(), SqlError>> {
        let backend = &self.backends[place];
        let (holder, since) = backend.waits?;
        if self.backend_of(holder).is_none() {
            return Some(Ok(()));
        }
        let waited = self.now - since;
        let lock_timeout = u64::try_from(LOCK_TIMEOUT.as_millis()).unwrap();
        if backend.is_writers && waited >= lock_timeout {
            Some(Err(error("55P03")))
        } else if waited >= self.settings.deadlock_timeout && self.is_deadlocked(place) {
            Some(Err(error("40P01")))
        } else {
            (waited >= STATEMENT_TIMEOUT).then_some(Err(error("57014")))
        }
    }

    fn backend_of(&self, tx: Tx) -> Option<usize> {
        let has = |transaction: &Transaction| transaction.id == tx && !transaction.has_failed;
        self.backends.iter().position(|backend| backend.transaction.as_ref().is_some_and(has))
    }

    /// True when a session waits for itself through others.
    fn is_deadlocked(&self, place: usize) -> bool {
        let mut next = place;
        for _ in 0..self.backends.len() {
            let Some(holder) = self.backends[next].waits.and_then(|(tx, _)| self.backend_of(tx)) else {
                return false;
            };
            if holder == place {
                return true;
            }
            next = holder;
        }
        false
    }

    pub(super) fn count_fault(&mut self, fault: SqlError) {
        match fault.code {
            "55P03" => self.counts.add(EventKind::LockTimeout),
            "40P01" => self.counts.add(EventKind::Deadlock),
            _ => {}
        }
    }
}
