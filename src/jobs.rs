//! Jobs: all that a server does by itself, each with its name and how often it runs.
//!
//! A row of `JOBS` is a job. Each runs in a task of its own, so a slow one delays no other. A run that
//! fails, or whose session with the database falls silent, is logged and counted, and the job runs again
//! at its next time.
//!
//! What follows something other than a period is no row. It has a loop of its own:
//!
//! - [`notify::run`] sends events as they are made. [`Jobs::start`] starts it.
//! - `service_manager::keep_alive` gives signs of life as often as the service manager asks.
//!   [`Jobs::start`] starts it.
//! - [`http_server::TlsIdentity::keep_fresh`] reads a renewed certificate at a signal, too.
//!   `src/cli/listen.rs` starts it, because the signal may come before the database is open.
//! - `src/cli/serve.rs` serves both listeners.
//! - `crates/store/src/hosts.rs` follows the host of the database that takes writes, and
//!   `crates/store/src/writer` has the threads that write. The store starts them.
//! - `crates/telemetry/src/traces.rs` sends traces, where the settings name a collector.
//! - `crates/private-postgres/src/supervisor.rs` watches the private PostgreSQL.

mod job;
pub(crate) mod service_manager;

use std::sync::Arc;
use std::time::Duration;

use store::{IMAGES_AT_ONCE, REMOVED_AT_ONCE};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use self::job::{Begins, Job, Rest, done, piece};
use crate::state::AppState;
use crate::{metrics, notify, operator};

/// All jobs, the most frequent first.
static JOBS: [Job<AppState>; 21] = [
    Job::every(Duration::from_secs(1), "write_replays", |state| done(state.store.write_replays())),
    Job::every(Duration::from_secs(1), "write_refusals", |state| done(state.store.write_refusals())),
    Job::every(Duration::from_secs(1), "credit_gifts", |state| done(credit_gifts(state))),
    Job::every(Duration::from_secs(3), "share_rate_limits", |state| done(state.share_rate_limits())),
    Job::every(metrics::SAMPLE_INTERVAL, "take_sample", |state| done(take_sample(state))),
    // Reports read each exchange that is not added up yet.
    Job::every(Duration::from_secs(10), "roll_up_sales", |state| Box::pin(roll_up_sales(state))),
    Job::every(Duration::from_secs(30), "write_key_uses", |state| done(state.store.write_key_uses())),
    // A flood of refusals does not wait for an hour: an app adds at most 60,000 rows on each server meanwhile.
    Job::every(Duration::from_mins(1), "remove_refusals", |state| done(state.store.remove_old_refusals())),
    Job::hourly("remove_admin_answers", |state| piece(REMOVED_AT_ONCE, state.store.forget_old_requests())),
    Job::hourly("remove_tokens", |state| piece(REMOVED_AT_ONCE, state.store.forget_expired_tokens())),
    Job::hourly("remove_login_codes", |state| {
        piece(REMOVED_AT_ONCE, state.store.forget_expired_login_codes())
    }),
    Job::hourly("remove_sign_in_attempts", |state| done(state.store.forget_old_console_attempts())),
    Job::hourly("remove_console_sessions", |state| done(state.store.forget_ended_console_sessions())),
    Job::hourly("remove_replays", |state| piece(REMOVED_AT_ONCE, state.store.forget_old_replays())),
    Job::hourly("remove_key_uses", |state| done(state.store.forget_old_key_uses())),
    // One gift may be all that a run removes: it can have 100,000 lines.
    Job::hourly("remove_gifts", |state| piece(1, state.store.forget_old_gifts())),
    Job::hourly("remove_events", |state| Box::pin(remove_events(state))),
    Job::hourly("remove_health", |state| done(state.store.forget_old_health())),
    Job::hourly("remove_sandbox_faults", |state| piece(REMOVED_AT_ONCE, state.store.forget_test_worlds())),
    Job::reading_ledgers("compare_closed_periods", |state| Box::pin(compare_closed(state))),
    Job::hourly("remove_images", |state: &AppState| {
        piece(IMAGES_AT_ONCE, state.store.sweep_unused_images(state.config.image.unused_ttl))
    })
    .pausing(4),
];

/// How long a run of a job may hear nothing, beyond the time that statements may take. A transaction gives a silent session
/// up before that, and then the run puts back what it has taken.
const SILENCE_MAX: Duration = Duration::from_mins(1);
/// How long notifications under way may take when the server stops.
const NOTIFYING_PATIENCE: Duration = Duration::from_secs(4);
/// How long the last counts may take to be stored when the server stops.
const COUNTS_PATIENCE: Duration = Duration::from_secs(1);

/// Ends an interval of the log of refusals and takes a sample. A minute of them is told.
async fn take_sample(state: &AppState) -> store::Result<()> {
    state.refusal_log.end_interval();
    operator::take_sample(state).await;
    state.health.sampled(&state.store, &state.metrics, state.clock.unix_millis()).await
}

/// Credits what is left of the gifts that were started. Somebody waits for it.
async fn credit_gifts(state: &AppState) -> store::Result<()> {
    let store = state.store.for_operators();
    while store.credit_gift_lines().await? {}
    Ok(())
}

/// Adds new exchanges to the sums of their hours.
async fn roll_up_sales(state: &AppState) -> store::Result<Rest> {
    Ok(if state.store.roll_up_some_sales().await? { Rest::Something } else { Rest::Nothing })
}

/// Removes old deliveries, and then old events: a delivery that failed keeps its event.
async fn remove_events(state: &AppState) -> store::Result<Rest> {
    let keep = state.config.notify.keep;
    let rest = piece(REMOVED_AT_ONCE, state.store.remove_old_deliveries(keep)).await;
    if rest != Ok(Rest::Something) {
        state.store.remove_old_events(keep).await?;
    }
    rest
}

/// Compares a closed period with its statement now. The pauses of a job with something left keep it from the exchanges.
async fn compare_closed(state: &AppState) -> store::Result<Rest> {
    Ok(if state.store.compare_a_closed_period().await? { Rest::Something } else { Rest::Nothing })
}

/// The jobs of a running server.
pub struct Jobs {
    tasks: JoinSet<()>,
    notifying: JoinHandle<()>,
}

impl Jobs {
    /// Starts all jobs. Notifications under way are finished once `stopped` is true.
    #[must_use]
    pub fn start(state: &AppState, stopped: watch::Receiver<bool>) -> Self {
        Self::begin(state, stopped, Begins::Now)
    }

    /// Ends all jobs at once, and notifications under way too. Once `work` is done they begin again.
    pub async fn interrupted_by<T>(
        self,
        state: &AppState,
        stopped: watch::Receiver<bool>,
        work: impl Future<Output = T>,
    ) -> (Self, T) {
        let Self { mut tasks, notifying } = self;
        notifying.abort();
        tasks.shutdown().await;
        let _ = notifying.await;
        let done = work.await;
        (Self::begin(state, stopped, Begins::AtItsTime), done)
    }

    fn begin(state: &AppState, stopped: watch::Receiver<bool>, begins: Begins) -> Self {
        let database = &state.config.database;
        let silence_max = SILENCE_MAX + database.acquire_timeout + database.statement_timeout * 4;
        let mut tasks = job::start(&JOBS, state, &state.clock, state.metrics.jobs(), (begins, silence_max));
        tasks.spawn(service_manager::keep_alive());
        let (store, sender) = (state.store.clone(), state.notifier.clone());
        let places = Arc::clone(&state.receiver_places);
        let (settings, counters) = (state.config.notify.clone(), state.metrics.notify().clone());
        let head = state.event_heads.clone();
        let notifying = tokio::spawn(notify::run(store, sender, places, settings, counters, head, stopped));
        Self { tasks, notifying }
    }

    /// Waits for notifications under way and ends the jobs. Then writes what was counted since their last run, and
    /// that this instance stops.
    pub async fn stop(mut self, state: &AppState) {
        let _ = timeout(NOTIFYING_PATIENCE, self.notifying).await;
        // A job that still works would write the same, and take what waits from under it.
        self.tasks.shutdown().await;
        let (store, samples) = (&state.store, state.metrics.last_hour());
        let goodbye = state.health.tell(store, &samples, true);
        let counts = async {
            tokio::join!(store.write_replays(), store.write_refusals(), store.write_key_uses(), goodbye)
        };
        let _ = timeout(COUNTS_PATIENCE, counts).await;
    }
}
