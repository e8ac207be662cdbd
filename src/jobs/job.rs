//! A job: what a server does again and again, and the loop that does it.

use std::sync::Arc;
use std::time::Duration;

use domain::clock::Clock;
use futures_util::future::BoxFuture;
use store::{StoreError, unless_silent};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, interval_at, sleep};

use crate::metrics::{JobCounters, JobMetrics};

/// How many times as long as it worked most jobs pause while there is more to do. So the database is left to the
/// exchanges most of the time.
const PAUSES: u32 = 30;

/// A job that reads whole ledgers may hear nothing for so many times as long as the others.
const LEDGER_PATIENCE: u32 = 60;

/// A run of a job. It fails as a call of the store does.
type Run<C> = for<'a> fn(&'a C) -> BoxFuture<'a, store::Result<Rest>>;

/// A repeated task of a server.
pub(super) struct Job<C: 'static> {
    /// Its name in the log and in the label of its metrics.
    name: &'static str,
    every: Duration,
    /// Whether it waits while another such job works.
    takes_turns: bool,
    /// How many times as long as others it may hear nothing.
    patience: u32,
    /// How many times as long as it worked it pauses while there is more to do.
    pauses: u32,
    run: Run<C>,
}

/// When a job runs first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Begins {
    Now,
    AtItsTime,
}

/// The work that a run has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    Nothing,
    Something,
}

impl<C: Send + Sync> Job<C> {
    pub(super) const fn every(every: Duration, name: &'static str, run: Run<C>) -> Self {
        Self { name, every, takes_turns: false, patience: 1, pauses: PAUSES, run }
    }

    /// A job that removes what is old. It can have much to remove, so only one of them works at a time.
    pub(super) const fn hourly(name: &'static str, run: Run<C>) -> Self {
        Self { name, every: Duration::from_hours(1), takes_turns: true, patience: 1, pauses: PAUSES, run }
    }

    /// The same for a job that reads whole ledgers, by statements without a time limit.
    pub(super) const fn reading_ledgers(name: &'static str, run: Run<C>) -> Self {
        let patience = LEDGER_PATIENCE;
        Self { name, every: Duration::from_hours(1), takes_turns: true, patience, pauses: PAUSES, run }
    }

    /// The same job with shorter pauses, because most of its time is none of the database.
    pub(super) const fn pausing(mut self, pauses: u32) -> Self {
        self.pauses = pauses;
        self
    }

    /// Runs the job as often as its row says. It never ends by itself.
    async fn keep(
        &self,
        context: &C,
        clock: &dyn Clock,
        counters: &JobCounters,
        (turns, begins, silence_max): (&Mutex<()>, Begins, Duration),
    ) {
        let mut times = match begins {
            Begins::Now => interval(self.every),
            Begins::AtItsTime => interval_at(Instant::now() + self.every, self.every),
        };
        times.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            times.tick().await;
            while let Some(pause) = self.run_in_turn(context, clock, counters, (turns, silence_max)).await {
                sleep(pause).await;
            }
        }
    }

    /// Runs the job once, when it has its turn. A job that pauses leaves the turn to others: its pauses are long.
    async fn run_in_turn(
        &self,
        context: &C,
        clock: &dyn Clock,
        counters: &JobCounters,
        (turns, silence_max): (&Mutex<()>, Duration),
    ) -> Option<Duration> {
        let _turn = if self.takes_turns { Some(turns.lock().await) } else { None };
        self.run_once(context, clock, counters, silence_max).await
    }

    /// Runs the job once, and gives up when it hears nothing any more. Returns how long it pauses before it does the rest,
    /// where it has left something.
    async fn run_once(
        &self,
        context: &C,
        clock: &dyn Clock,
        counters: &JobCounters,
        silence_max: Duration,
    ) -> Option<Duration> {
        let began = Instant::now();
        let run = unless_silent(silence_max * self.patience, (self.run)(context)).await;
        match run.unwrap_or_else(|| Err(StoreError::unavailable("it does not answer"))) {
            Ok(rest) => {
                counters.last_success.set(clock.unix_millis().div_euclid(1000));
                (rest == Rest::Something).then(|| began.elapsed() * self.pauses)
            }
            Err(error) => {
                counters.failures.inc();
                let every = humantime::format_duration(self.every);
                tracing::warn!(job = self.name, %error, %every, "a job failed; it runs again at its next time");
                None
            }
        }
    }
}

/// A run that leaves nothing to do.
pub(super) fn done<'a, T>(
    work: impl Future<Output = store::Result<T>> + Send + 'a,
) -> BoxFuture<'a, store::Result<Rest>> {
    Box::pin(async { work.await.map(|_| Rest::Nothing) })
}

/// A run that removes a piece of what is old, and gives its size. A `full` one may have left something, so the job goes on
/// after a pause. Meanwhile others have their turn.
pub(super) fn piece<'a>(
    full: u32,
    removing: impl Future<Output = store::Result<u64>> + Send + 'a,
) -> BoxFuture<'a, store::Result<Rest>> {
    Box::pin(async move {
        let removed = removing.await?;
        Ok(if removed >= u64::from(full) { Rest::Something } else { Rest::Nothing })
    })
}

/// Starts each job in a task of its own. The tasks end when what this returns is dropped. A run that hears nothing for
/// `silence_max` has failed.
pub(super) fn start<C: Clone + Send + Sync>(
    jobs: &'static [Job<C>],
    context: &C,
    clock: &Arc<dyn Clock>,
    metrics: &JobMetrics,
    (begins, silence_max): (Begins, Duration),
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let turns = Arc::new(Mutex::new(()));
    for job in jobs {
        let (context, clock, turns) = (context.clone(), Arc::clone(clock), Arc::clone(&turns));
        let counters = metrics.of(job.name);
        tasks.spawn(async move {
            job.keep(&context, &*clock, &counters, (&turns, begins, silence_max)).await;
        });
    }
    tasks
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Mutex as StdMutex, PoisonError};

    use telemetry::metrics::ExchangeMetrics;
    use tokio::sync::Semaphore;
    use tokio::time::timeout;

    use super::*;
    use crate::metrics::Metrics;

    const OFTEN: Duration = Duration::from_millis(1);
    /// A test that would wait for ever fails after this time.
    const PATIENCE: Duration = Duration::from_mins(1);

    #[derive(Debug)]
    struct Noon;

    impl Clock for Noon {
        fn unix_millis(&self) -> i64 {
            43_200_999
        }

        fn monotonic(&self) -> Duration {
            Duration::ZERO
        }
    }

    /// The shared state of the jobs of the tests. A run takes a permit; without one it never ends.
    #[derive(Debug)]
    struct Probe {
        runs: [AtomicU32; 4],
        permits: [Semaphore; 4],
    }

    impl Probe {
        fn with_permits(permits: [usize; 4]) -> Arc<Self> {
            Arc::new(Self { runs: Default::default(), permits: permits.map(Semaphore::new) })
        }

        async fn run(&self, job: usize) -> store::Result<()> {
            self.runs[job].fetch_add(1, Ordering::SeqCst);
            self.permits[job].acquire().await.expect("nobody closes it").forget();
            Ok(())
        }

        fn runs(&self) -> [u32; 4] {
            self.runs.each_ref().map(|runs| runs.load(Ordering::SeqCst))
        }

        async fn until(&self, what: impl Fn([u32; 4]) -> bool) {
            let waiting = async {
                while !what(self.runs()) {
                    sleep(OFTEN).await;
                }
            };
            timeout(PATIENCE, waiting).await.expect("the jobs go on");
        }
    }

    fn metrics() -> Metrics {
        Metrics::new(ExchangeMetrics::default(), 0)
    }

    /// A log in memory.
    #[derive(Debug, Clone, Default)]
    struct Log(Arc<StdMutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    async fn fail_twice(probe: &Probe) -> store::Result<()> {
        probe.run(0).await?;
        if probe.runs()[0] <= 2 { Err(StoreError::Overloaded) } else { Ok(()) }
    }

    static FAILING: [Job<Arc<Probe>>; 1] =
        [Job::every(OFTEN, "fails_twice", |probe| done(fail_twice(probe)))];

    #[tokio::test]
    async fn a_job_that_fails_is_logged_and_counted_and_runs_again() {
        let (log, metrics, probe) = (Log::default(), metrics(), Probe::with_permits([3, 0, 0, 0]));
        let writer = log.clone();
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        let _logging = tracing::subscriber::set_default(subscriber);
        let clock: Arc<dyn Clock> = Arc::new(Noon);
        let _tasks = start(&FAILING, &probe, &clock, metrics.jobs(), (Begins::Now, PATIENCE));
        // The fourth run has no permit: the three before it were counted.
        probe.until(|runs| runs[0] == 4).await;
        let counted = metrics.jobs().of("fails_twice");
        assert_eq!((counted.failures.get(), counted.last_success.get()), (2, 43_200));
        let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        assert_eq!(log.lines().count(), 2, "{log}");
        for line in log.lines() {
            assert!(line.contains("WARN") && line.contains("job=\"fails_twice\""), "{line}");
            assert!(line.contains("error=too many requests are waiting every=1ms"), "{line}");
        }
    }

    /// A run that nothing wakes is given up, and holds up no other. It begins anew at the next time of the job.
    #[tokio::test]
    async fn a_run_that_hears_nothing_is_given_up_and_counted() {
        static SILENT: [Job<Arc<Probe>>; 3] = [
            Job::every(OFTEN, "silent", |probe| done(probe.run(0))),
            Job::reading_ledgers("patient", |probe| done(probe.run(1))),
            Job::hourly("after_it", |probe| done(probe.run(2))),
        ];
        let (metrics, probe) = (metrics(), Probe::with_permits([0, 0, 1, 0]));
        let clock: Arc<dyn Clock> = Arc::new(Noon);
        let _tasks = start(&SILENT, &probe, &clock, metrics.jobs(), (Begins::Now, OFTEN));
        probe.until(|runs| runs[0] >= 3 && runs[2] == 1).await;
        let of = |name| metrics.jobs().of(name);
        assert!(of("silent").failures.get() >= 2);
        assert_eq!((of("patient").failures.get(), of("after_it").failures.get()), (1, 0));
    }

    static BESIDE: [Job<Arc<Probe>>; 4] = [
        Job::every(OFTEN, "slow", |probe| done(probe.run(0))),
        Job::every(OFTEN, "quick", |probe| done(probe.run(1))),
        Job::hourly("first", |probe| done(probe.run(2))),
        Job::hourly("second", |probe| done(probe.run(3))),
    ];

    #[tokio::test]
    async fn a_slow_job_delays_no_other_and_hourly_ones_take_turns() {
        let (metrics, probe) = (metrics(), Probe::with_permits([0, usize::MAX >> 3, 0, 1]));
        let clock: Arc<dyn Clock> = Arc::new(Noon);
        let _tasks = start(&BESIDE, &probe, &clock, metrics.jobs(), (Begins::Now, PATIENCE));
        probe.until(|runs| runs[1] >= 3).await;
        assert_eq!(probe.runs()[0], 1, "it never ended");
        assert_eq!(probe.runs()[2..], [1, 0], "the second waits for the first");
        probe.permits[2].add_permits(1);
        probe.until(|runs| runs[3] == 1).await;
        assert_eq!(probe.runs()[2..], [1, 1]);
    }

    /// The pauses of a job with more to do are long, and others that take turns work meanwhile.
    #[tokio::test]
    async fn a_job_that_pauses_leaves_its_turn_to_others() {
        static PAUSING: [Job<Arc<Probe>>; 2] = [
            Job::hourly("pausing", |probe| Box::pin(async { probe.run(0).await.map(|()| Rest::Something) })),
            Job::hourly("beside_it", |probe| done(probe.run(1))),
        ];
        let (metrics, probe) = (metrics(), Probe::with_permits([0, 1, 0, 0]));
        let clock: Arc<dyn Clock> = Arc::new(Noon);
        let _tasks = start(&PAUSING, &probe, &clock, metrics.jobs(), (Begins::Now, PATIENCE));
        probe.until(|runs| runs[0] == 1).await;
        // So it pauses for three seconds at least.
        sleep(Duration::from_millis(100)).await;
        assert_eq!(probe.runs()[..2], [1, 0], "the other waits for its turn");
        probe.permits[0].add_permits(1);
        probe.until(|runs| runs[1] == 1).await;
        assert_eq!(probe.runs()[0], 1, "it pauses");
    }

    /// Only a full piece may have left something.
    #[tokio::test]
    async fn a_full_piece_has_more_to_do() {
        for (removed, rest) in
            [(0, Rest::Nothing), (19, Rest::Nothing), (20, Rest::Something), (21, Rest::Something)]
        {
            assert_eq!(piece(20, async move { Ok(removed) }).await, Ok(rest), "{removed}");
        }
        let failed = piece(20, async { Err(StoreError::Overloaded) }).await;
        assert_eq!(failed, Err(StoreError::Overloaded));
    }

    /// What has more to do goes on before its next time, which is an hour away.
    #[tokio::test]
    async fn a_job_with_more_to_do_goes_on_soon() {
        static HOURLY: [Job<Arc<Probe>>; 1] = [Job::hourly("in_parts", |probe| {
            Box::pin(async {
                probe.run(0).await?;
                Ok(if probe.runs()[0] < 3 { Rest::Something } else { Rest::Nothing })
            })
        })];
        let (metrics, probe) = (metrics(), Probe::with_permits([9, 0, 0, 0]));
        let clock: Arc<dyn Clock> = Arc::new(Noon);
        let _tasks = start(&HOURLY, &probe, &clock, metrics.jobs(), (Begins::Now, PATIENCE));
        probe.until(|runs| runs[0] == 3).await;
    }
}
