//! The books (contract 13): the statement of a period, the bill, and the comparison with the books of others.

mod bill;
mod comparison;
mod reconcile;
mod settled;
mod statement;
mod their_file;

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{Result, StoreError};

pub use bill::{BillColumn, BillError, BillSums};
pub use comparison::{Compared, Comparison, ComparisonPermit, OneSided};
pub use reconcile::{Difference, ReconcileError, Reconciled};
pub use statement::{Credits, Flows, Statement, StatementError};
pub use their_file::{FileFault, FileRefusal, TheirFile};

/// Statements that a process makes at the same time. Each reads the whole ledger of an app.
const STATEMENTS_AT_ONCE: usize = 2;
/// Files of others that a process takes and compares at the same time. Each reads the whole ledger of an app, and takes
/// room on two disks.
const COMPARISONS_AT_ONCE: usize = 2;

/// The permits of what a process makes.
#[derive(Debug, Clone)]
pub(crate) struct Permits {
    statements: Arc<Semaphore>,
    /// These are other permits than those of statements: a file may come slowly.
    comparisons: Arc<Semaphore>,
}

impl Default for Permits {
    fn default() -> Self {
        Self {
            statements: Arc::new(Semaphore::new(STATEMENTS_AT_ONCE)),
            comparisons: Arc::new(Semaphore::new(COMPARISONS_AT_ONCE)),
        }
    }
}

/// A permit.
///
/// # Errors
/// `Overloaded` while too many are out.
fn take(permits: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit> {
    permits.clone().try_acquire_owned().map_err(|_| StoreError::Overloaded)
}
