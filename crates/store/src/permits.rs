//! Permits of what reads much of a ledger: statements, bills and comparisons.

use std::sync::Arc;
use std::time::Duration;

use domain::ids::AppId;
use guarded_fetch::bulkhead::{Bulkhead, Permit};
use tokio::time::timeout;

use crate::error::{Result, StoreError};

/// Statements, bills and comparisons that a process makes at the same time, of each so many. Each reads much of the ledger
/// of an app.
const AT_ONCE: u32 = 2;

/// The permits of the statements that a process makes, of its bills, or of its comparisons. An app has half of them. A
/// bill lasts as long as its reader takes, and a file to be compared may come slowly. Neither must keep others from
/// closing a period.
#[derive(Debug, Clone)]
pub(crate) struct Permits {
    places: Arc<Bulkhead>,
    wait: Duration,
}

impl Permits {
    /// Permits for which a caller waits so long.
    pub(crate) fn new(wait: Duration) -> Self {
        Self { places: Arc::new(Bulkhead::halved(AT_ONCE)), wait }
    }

    /// A permit for one of this app.
    ///
    /// # Errors
    /// `Overloaded` when none becomes free in time.
    pub(crate) async fn take(&self, app_id: &AppId) -> Result<Permit> {
        let permit = timeout(self.wait, self.places.acquire(app_id.as_str(), 1)).await;
        permit.map_err(|_| StoreError::Overloaded)
    }

    /// How many wait for one.
    pub(crate) fn waiting(&self) -> u64 {
        self.places.waiting()
    }
}
