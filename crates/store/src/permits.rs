//! Permits of what reads much of a ledger: statements, bills and comparisons.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::{Result, StoreError};

/// Statements, bills and comparisons that a process makes at the same time, of each so many. Each reads much of the ledger
/// of an app.
const AT_ONCE: usize = 2;

/// The permits of the statements that a process makes, of its bills, or of its comparisons. A bill lasts as long as its
/// reader takes, and a file to be compared may come slowly: neither must keep others from closing a period.
#[derive(Debug, Clone)]
pub(crate) struct Permits(Arc<Semaphore>);

impl Default for Permits {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE)))
    }
}

impl Permits {
    /// A permit for one of them.
    ///
    /// # Errors
    /// `Overloaded` while too many are being made.
    pub(crate) fn take(&self) -> Result<OwnedSemaphorePermit> {
        self.0.clone().try_acquire_owned().map_err(|_| StoreError::Overloaded)
    }
}
