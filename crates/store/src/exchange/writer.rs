//! The writers of this process. A writer takes whatever exchanges wait and writes them in one
//! transaction; while that commits, the next ones gather. Nothing waits for a batch to fill.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use domain::caller::Signed;
use domain::exchange::{Exchange, ExchangeOutcome, Receipt};
use futures_util::FutureExt as _;
use telemetry::metrics::{ExchangeMetrics, Repeat};
use telemetry::traces::{self, SpanKind, Trace};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::Instant;

use super::batch::{Batch, Verdict};
use super::database::Database;
use super::driver::Opening;
use super::replays::Replays;
use super::session::{Fault, Session};
use crate::{ATTEMPTS_MAX, StoreError};

/// Most exchanges of one transaction.
const BATCH_MAX: usize = 512;
/// How long a writer with nothing else to do leaves those alone whose wallet somebody else holds.
const SET_ASIDE_FOR: Duration = Duration::from_millis(10);

/// How long a writer locks wallets first after it met another writer at one.
const LOCKS_FOR: Duration = Duration::from_millis(200);

type Outcome = Result<ExchangeOutcome, StoreError>;

/// The way to the writers. Cheap to clone; they end when the last way to them is gone.
#[derive(Debug, Clone)]
pub(crate) struct Writers {
    queues: Arc<[mpsc::UnboundedSender<Job>]>,
    places: Arc<Semaphore>,
}

/// An exchange that waits.
#[derive(Debug)]
pub(super) struct Job {
    exchange: Signed<Exchange>,
    deadline: Instant,
    answer: oneshot::Sender<Outcome>,
    /// The trace of its request and when it was queued, where a collector wants to know.
    trace: Option<(Trace, Instant)>,
    /// Its place in the bounded queue, until it is answered.
    _place: OwnedSemaphorePermit,
}

impl Job {
    /// Answers, and gives the exchange back.
    fn answer(self, outcome: Outcome) -> Signed<Exchange> {
        // Nobody listens any more after a time-out or a hang-up; the work stands all the same.
        let _ = self.answer.send(outcome);
        self.exchange
    }

    /// Spans for its wait and for the database work of its batch.
    fn trace_batch(&self, exchanges: usize, began: Instant, ended: Instant) {
        if let Some((trace, queued)) = &self.trace {
            trace.add("exchange queue", SpanKind::Internal, (*queued, began), Vec::new());
            let exchanges = ("minitill.batch.exchanges", traces::number(exchanges));
            let attributes = vec![("db.system.name", "postgresql".into()), exchanges];
            trace.add("exchange batch", SpanKind::Client, (began, ended), attributes);
        }
    }
}

impl Writers {
    /// Starts `count` writers. Each connects when its first exchange comes.
    ///
    /// # Errors
    /// The operating system gives no thread.
    pub(crate) fn start(
        count: usize,
        queue_max: usize,
        opening: &Opening,
        metrics: &ExchangeMetrics,
        replays: &Replays,
    ) -> Result<Self, StoreError> {
        let (writers, queues) = Self::with_queues(count.max(1), queue_max);
        for jobs in queues {
            run_in_thread(keep_writing(Writer::new(jobs, opening.clone(), metrics.clone(), replays.clone())))
                .map_err(|error| StoreError::Internal(format!("starting a writer: {error}")))?;
        }
        Ok(writers)
    }

    /// The way to `count` writers, and the queue of each.
    pub(super) fn with_queues(count: usize, queue_max: usize) -> (Self, Vec<mpsc::UnboundedReceiver<Job>>) {
        let (queues, jobs): (Vec<_>, Vec<_>) = (0..count).map(|_| mpsc::unbounded_channel()).unzip();
        (Self { queues: queues.into(), places: Arc::new(Semaphore::new(queue_max)) }, jobs)
    }

    /// Places in the queue that nobody has taken.
    pub(crate) fn free_places(&self) -> usize {
        self.places.available_permits()
    }

    /// A writer that writes nothing and answers at once.
    pub(super) fn answering_at_once(queue_max: usize) -> Self {
        let (writers, mut queues) = Self::with_queues(1, queue_max);
        tokio::spawn(async move {
            while let Some(job) = queues[0].recv().await {
                let biz_no = job.exchange.value().biz_no.to_string();
                job.answer(Ok(ExchangeOutcome::Done(Receipt { biz_no, free_balance: 0, charge_balance: 0 })));
            }
        });
        writers
    }

    /// Puts an exchange into the queue of its wallet's writer.
    ///
    /// # Errors
    /// Too many wait.
    pub(super) fn enqueue(
        &self,
        exchange: Signed<Exchange>,
        deadline: Instant,
    ) -> Result<oneshot::Receiver<Outcome>, StoreError> {
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| StoreError::Overloaded)?;
        let queue = &self.queues[self.writer_of(&exchange)];
        let (answer, receiver) = oneshot::channel();
        let trace = traces::current().map(|trace| (trace, Instant::now()));
        queue
            .send(Job { exchange, deadline, answer, trace, _place: place })
            .map_err(|_| StoreError::Internal("a writer has ended".to_owned()))?;
        Ok(receiver)
    }

    /// Exchanges of one wallet always go to the same writer: in a batch they cost one lock, and two
    /// batches would wait for each other.
    fn writer_of(&self, exchange: &Signed<Exchange>) -> usize {
        if self.queues.len() == 1 {
            return 0;
        }
        let mut hasher = DefaultHasher::new();
        (exchange.app_id(), &exchange.value().content.open_id).hash(&mut hasher);
        let count = u64::try_from(self.queues.len()).unwrap_or(1);
        usize::try_from(hasher.finish() % count).unwrap_or(0)
    }
}

/// Runs a writer in a thread of its own: the database must not wait until a worker thread has been
/// through the requests in its queue. The thread ends with the writer.
fn run_in_thread(writing: impl Future<Output = ()> + Send + 'static) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let thread = std::thread::Builder::new().name("writer".to_owned());
    thread.spawn(move || runtime.block_on(writing)).map(drop)
}

/// A writer outlives a panic of its own: those it had in hand are told, the others are carried out.
async fn keep_writing<D: Database>(mut writer: Writer<D>) {
    while AssertUnwindSafe(writer.run()).catch_unwind().await.is_err() {
        tracing::error!("a writer of exchanges panicked; it goes on with a new session");
        writer.session = None;
    }
}

pub(super) struct Writer<D: Database> {
    jobs: mpsc::UnboundedReceiver<Job>,
    database: D,
    session: Option<Session<D>>,
    /// Those whose wallet another transaction has held for long. They are tried again with each
    /// batch, without waiting for the lock, until they succeed or their deadline passes: one
    /// wallet that is held must not hold up the others.
    set_aside: Vec<Job>,
    /// Until when wallets are locked before they are read, because somebody else has just changed
    /// one between reading and writing.
    locks_until: Instant,
    metrics: ExchangeMetrics,
    replays: Replays,
}

impl<D: Database> Writer<D> {
    pub(super) fn new(
        jobs: mpsc::UnboundedReceiver<Job>,
        database: D,
        metrics: ExchangeMetrics,
        replays: Replays,
    ) -> Self {
        let locks_until = database.now();
        Self { jobs, database, session: None, set_aside: Vec::new(), locks_until, metrics, replays }
    }

    pub(super) async fn run(&mut self) {
        loop {
            let skips_held = !self.set_aside.is_empty();
            let jobs = self.next_batch().await;
            if jobs.is_empty() {
                return;
            }
            let (count, started) = (jobs.len(), self.database.now());
            let carried_out = self.carry_out(jobs, skips_held).await;
            self.metrics.wrote(count, self.database.now() - started);
            if let Err(jobs) = carried_out {
                // One of them may have caused the fault: it shall not cost its neighbours anything.
                for job in jobs {
                    let _ = self.carry_out(vec![job], skips_held).await;
                }
            }
        }
    }

    /// Whatever waits, those set aside first; nothing when nothing can come any more.
    async fn next_batch(&mut self) -> Vec<Job> {
        let mut jobs = std::mem::take(&mut self.set_aside);
        if !jobs.is_empty() {
            tokio::select! {
                biased;
                _ = self.jobs.recv_many(&mut jobs, BATCH_MAX) => {}
                () = self.database.pause(SET_ASIDE_FOR) => {}
            }
            return jobs;
        }
        if let Some(session) = &mut self.session {
            tokio::select! {
                biased;
                _ = self.jobs.recv_many(&mut jobs, BATCH_MAX) => return jobs,
                () = session.ended() => self.session = None,
            }
        }
        self.jobs.recv_many(&mut jobs, BATCH_MAX).await;
        jobs
    }

    /// Writes a batch and answers it. Gives back several of which one may have caused a fault.
    async fn carry_out(&mut self, mut jobs: Vec<Job>, mut skips_held: bool) -> Result<(), Vec<Job>> {
        let (mut attempts, began) = (0, self.database.now());
        loop {
            jobs = without_late_ones(jobs, self.database.now());
            if jobs.is_empty() {
                return Ok(());
            }
            attempts += 1;
            match self.attempt(&jobs, skips_held).await {
                Ok(verdicts) => {
                    self.answer(jobs, verdicts, began);
                    return Ok(());
                }
                Err(Fault::Again) if attempts < ATTEMPTS_MAX => {
                    self.metrics.repeats(Repeat::Conflict);
                    self.locks_until = self.database.now() + LOCKS_FOR;
                }
                Err(Fault::Again) => {
                    answer_all(jobs, &StoreError::Again);
                    return Ok(());
                }
                // Only their deadline ends the patience with a lock.
                Err(Fault::Blocked) => {
                    self.metrics.repeats(Repeat::WalletHeld);
                    skips_held = true;
                }
                // The numbers make it safe to write the batch again: what was committed is a replay.
                Err(Fault::Lost(cause)) => {
                    tracing::warn!(cause, "a writer lost its session");
                    self.metrics.repeats(Repeat::SessionLost);
                    self.session = None;
                    if attempts == ATTEMPTS_MAX {
                        answer_all(jobs, &StoreError::Unavailable(cause));
                        return Ok(());
                    }
                }
                Err(Fault::Other(StoreError::Internal(_))) if jobs.len() > 1 => return Err(jobs),
                Err(Fault::Other(error)) => {
                    answer_all(jobs, &error);
                    return Ok(());
                }
            }
        }
    }

    /// One transaction.
    async fn attempt(&mut self, jobs: &[Job], skips_held: bool) -> Result<Vec<Verdict>, Fault> {
        let session = match &mut self.session {
            Some(session) => session,
            None => self.session.insert(Session::open(&self.database).await?),
        };
        let exchanges = jobs.iter().map(|job| (job.exchange.app_id(), job.exchange.value()));
        let batch = Batch::new(exchanges.collect());
        let decisions = if skips_held || self.database.now() < self.locks_until {
            let known = session.begin(&batch, skips_held).await?;
            let decisions = batch.decide(&known.wallets, &known.records, known.at());
            session.commit(&batch, &known, &decisions).await?;
            decisions
        } else {
            let known = session.read(&batch).await?;
            let decisions = batch.decide(&known.wallets, &known.records, known.at());
            if !decisions.deductions.is_empty() {
                session.write(&batch, &known, &decisions).await?;
            }
            decisions
        };
        Ok(decisions.verdicts)
    }

    fn answer(&mut self, jobs: Vec<Job>, verdicts: Vec<Verdict>, began: Instant) {
        let (exchanges, ended) = (jobs.len(), self.database.now());
        let mut replayed = Vec::new();
        for (job, verdict) in jobs.into_iter().zip(verdicts) {
            match verdict {
                Verdict::Answer(outcome) => {
                    self.metrics.decided(&outcome);
                    job.trace_batch(exchanges, began, ended);
                    let is_replay = matches!(outcome, ExchangeOutcome::Replayed(_));
                    let exchange = job.answer(Ok(outcome));
                    if is_replay {
                        replayed.push((exchange.app_id().clone(), exchange.value().biz_no.clone()));
                    }
                }
                Verdict::SetAside => self.set_aside.push(job),
            }
        }
        self.replays.count(replayed);
    }
}

/// Nobody waits for an exchange past its deadline: it is not begun, as it could only be thrown away.
fn without_late_ones(jobs: Vec<Job>, now: Instant) -> Vec<Job> {
    let (in_time, late): (Vec<Job>, Vec<Job>) = jobs.into_iter().partition(|job| now < job.deadline);
    answer_all(late, &StoreError::past_deadline());
    in_time
}

fn answer_all(jobs: Vec<Job>, error: &StoreError) {
    for job in jobs {
        job.answer(Err(error.clone()));
    }
}
