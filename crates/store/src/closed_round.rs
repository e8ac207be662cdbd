//! The closed periods whose comparison has failed, so that they hold up no other (operators' contract 13.3.11).

use std::mem::take;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::StoreError;

/// The periods that failed since all others were compared. Without it the one that always fails would always be the next.
#[derive(Debug, Default)]
pub(crate) struct ClosedRound(Mutex<FailedPeriods>);

#[derive(Debug, Default)]
struct FailedPeriods {
    names: Vec<(String, String)>,
    /// Why the first has failed.
    first: Option<StoreError>,
}

impl ClosedRound {
    fn lock(&self) -> MutexGuard<'_, FailedPeriods> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn failed(&self, app_id: String, month: String, error: StoreError) {
        let mut failed = self.lock();
        failed.names.push((app_id, month));
        failed.first.get_or_insert(error);
    }

    pub(crate) fn names(&self) -> (Vec<String>, Vec<String>) {
        self.lock().names.iter().cloned().unzip()
    }

    pub(crate) fn end(&self) -> Option<StoreError> {
        take(&mut *self.lock()).first
    }
}
