//! Reports that read the whole ledger of an app, for pages: a page waits a moment for its report, and loads itself again
//! while it is made (contract 8.6.59).

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use store::{OperationError, StoreError};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

/// How long a page waits for its report.
const PATIENCE: Duration = Duration::from_millis(100);
/// A report for which no page has asked for this long is dropped.
const KEPT: Duration = Duration::from_mins(1);

/// The user, the app and the moment or period of a report. Nobody gets the report of another user.
pub type ReportKey = [String; 3];

/// Reports of one kind that are being made, or are made and wait for their page.
pub struct SlowReports<Report>(Mutex<HashMap<ReportKey, Making<Report>>>);

/// A report and its task.
struct Making<Report> {
    task: JoinHandle<Result<Report, OperationError>>,
    asked_at: Instant,
}

impl<Report> Default for SlowReports<Report> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<Report: Send + 'static> SlowReports<Report> {
    /// The report, if it is made within 100 ms. The first call starts `make`, and the next ones wait for the same report until
    /// one of them gets it. `None` while it is being made.
    pub async fn get(
        &self,
        key: ReportKey,
        make: impl Future<Output = Result<Report, OperationError>> + Send + 'static,
    ) -> Option<Result<Report, OperationError>> {
        let asked_at = Instant::now();
        let begun = self.lock().remove(&key);
        let mut task = begun.map_or_else(|| tokio::spawn(make), |begun| begun.task);
        if let Ok(made) = timeout(PATIENCE, &mut task).await {
            let ended = |fault| StoreError::Internal(format!("the task of a report ended: {fault}")).into();
            return Some(made.unwrap_or_else(|fault| Err(ended(fault))));
        }
        let mut reports = self.lock();
        reports.retain(|_, making| making.asked_at.elapsed() < KEPT);
        reports.insert(key, Making { task, asked_at });
        None
    }

    /// Drops all of them.
    pub fn forget(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ReportKey, Making<Report>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
