//! Reports that read the whole ledger of an app, for pages. A page waits a moment for its report, and loads itself
//! again while it is made (contract 8.6.59).

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use store::{OperationError, StoreError};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

/// How long a page waits for its report.
const PATIENCE: Duration = Duration::from_millis(100);
/// A report for which no page has asked for this long is dropped.
const KEPT: Duration = Duration::from_mins(1);
/// How long a page that had to wait can get the same report again: an answer may be lost on its way.
const KEPT_GIVEN: Duration = Duration::from_secs(5);
/// How many reports of one kind are made for a user at once.
const PER_USER_MAX: usize = 4;
/// How long a report waits before it asks for its turn again.
const TURN_POLL: Duration = Duration::from_millis(200);

/// The user, the app and the moment or period of a report. Nobody gets the report of another user.
pub type ReportKey = [String; 3];

type MadeReport<Report> = Result<Report, OperationError>;

/// Reports of one kind for which pages wait.
pub struct SlowReports<Report>(Mutex<HashMap<ReportKey, Making<Report>>>);

/// A report that is being made, or is made and waits for its page.
struct Making<Report> {
    report: Shared<BoxFuture<'static, MadeReport<Report>>>,
    task: AbortHandle,
    asked_at: Instant,
    /// When a page got it.
    given_at: Option<Instant>,
}

impl<Report> Making<Report> {
    fn is_wanted(&self) -> bool {
        match self.given_at {
            Some(given_at) => given_at.elapsed() < KEPT_GIVEN,
            None => self.asked_at.elapsed() < KEPT,
        }
    }
}

impl<Report> Drop for Making<Report> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<Report> Default for SlowReports<Report> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<Report: Clone + Send + Sync + 'static> SlowReports<Report> {
    /// The report, if it is made within 100 ms. `None` while it is being made: the next calls with this key wait for the same.
    /// Where other reports have all turns, `work` is called again until it has one.
    ///
    /// # Errors
    /// Those of `work`; `Overloaded` where four others of the user are being made.
    pub async fn get<F>(
        &self,
        key: ReportKey,
        work: impl Fn() -> F + Send + 'static,
    ) -> Option<MadeReport<Report>>
    where
        F: Future<Output = MadeReport<Report>> + Send,
    {
        let asked_at = Instant::now();
        let (report, is_new) = {
            let mut reports = self.lock();
            reports.retain(|_, making| making.is_wanted());
            if let Some(making) = reports.get_mut(&key) {
                making.asked_at = asked_at;
                (making.report.clone(), false)
            } else {
                let of_user = |(other, making): &(&ReportKey, &Making<Report>)| {
                    other[0] == key[0] && making.report.peek().is_none()
                };
                if reports.iter().filter(of_user).count() >= PER_USER_MAX {
                    return Some(Err(StoreError::Overloaded.into()));
                }
                let making = begin(work, asked_at);
                let report = making.report.clone();
                reports.insert(key.clone(), making);
                (report, true)
            }
        };
        let made = timeout(PATIENCE, report).await.ok()?;
        let mut reports = self.lock();
        if is_new {
            // Nobody had to wait, so the next page gets a new one.
            reports.remove(&key);
        } else if let Some(making) = reports.get_mut(&key) {
            making.given_at.get_or_insert_with(Instant::now);
        }
        Some(made)
    }

    /// Drops all of them.
    pub fn forget(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ReportKey, Making<Report>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn begin<Report, F>(work: impl Fn() -> F + Send + 'static, asked_at: Instant) -> Making<Report>
where
    Report: Clone + Send + Sync + 'static,
    F: Future<Output = MadeReport<Report>> + Send,
{
    let task = tokio::spawn(async move {
        loop {
            match work().await {
                Err(OperationError::Store(StoreError::Overloaded)) => sleep(TURN_POLL).await,
                made => return made,
            }
        }
    });
    let handle = task.abort_handle();
    let report = task.map(|made| {
        made.unwrap_or_else(|fault| {
            Err(StoreError::Internal(format!("the task of a report ended: {fault}")).into())
        })
    });
    Making { report: report.boxed().shared(), task: handle, asked_at, given_at: None }
}
