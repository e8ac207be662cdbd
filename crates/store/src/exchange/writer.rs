//! The writers of this process. A writer takes all exchanges that wait and writes them in one
//! transaction. Meanwhile the next exchanges queue up. A batch never waits to fill.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use domain::caller::Signed;
use domain::exchange::Balances;
use domain::wallet::{Receipt, WalletOutcome, WalletRequest};
use futures_util::FutureExt as _;
use telemetry::metrics::{ExchangeMetrics, Repeat};
use telemetry::traces::{self, SpanKind, Trace};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::batch::{Batch, Verdict};
use super::database::Database;
use super::driver::Opening;
use super::fault::SessionFault;
use super::queue::{Place, Queue};
use super::replays::Replays;
use super::session::Session;
use crate::{ATTEMPTS_MAX, Result, StoreError};

/// The maximum number of exchanges in one transaction.
const BATCH_MAX: usize = 512;
/// How long an idle writer waits before it tries exchanges of a held wallet again.
const SET_ASIDE_FOR: Duration = Duration::from_millis(10);

/// How long a writer locks wallets first after a conflict with another writer.
const LOCKS_FOR: Duration = Duration::from_millis(200);

type Outcome = Result<WalletOutcome>;

/// A handle of the writers. It is cheap to clone. The writers end when the last handle is dropped.
#[derive(Debug, Clone)]
pub(crate) struct Writers {
    queues: Arc<[mpsc::UnboundedSender<Job>]>,
    places: Queue,
}

/// An exchange in the queue.
#[derive(Debug)]
pub(super) struct Job {
    request: Signed<WalletRequest>,
    deadline: Instant,
    answer: oneshot::Sender<Outcome>,
    /// The trace of its request and the time of its arrival in the queue, while traces are collected.
    trace: Option<(Trace, Instant)>,
    /// Its place in the bounded queue, until it is answered.
    _place: Place,
}

impl Job {
    /// Sends the answer and returns the exchange.
    fn answer(self, outcome: Outcome) -> Signed<WalletRequest> {
        // After a time-out or a hang-up nobody receives the answer. The exchange is done all the
        // same.
        let _ = self.answer.send(outcome);
        self.request
    }

    /// Adds spans for its wait and for the database work of its batch.
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
    /// Starts `count` writers. Each connects at its first exchange.
    pub(crate) fn start(
        count: usize,
        queue_max: usize,
        opening: &Opening,
        metrics: &ExchangeMetrics,
        replays: &Replays,
    ) -> Result<Self> {
        let (writers, queues) = Self::with_queues(count.max(1), queue_max);
        for jobs in queues {
            run_in_thread(keep_writing(Writer::new(jobs, opening.clone(), metrics.clone(), replays.clone())))
                .map_err(|error| StoreError::Internal(format!("starting a writer: {error}")))?;
        }
        Ok(writers)
    }

    /// A handle of `count` writers, and the queue of each.
    pub(super) fn with_queues(count: usize, queue_max: usize) -> (Self, Vec<mpsc::UnboundedReceiver<Job>>) {
        let (queues, jobs): (Vec<_>, Vec<_>) = (0..count).map(|_| mpsc::unbounded_channel()).unzip();
        (Self { queues: queues.into(), places: Queue::new(queue_max) }, jobs)
    }

    /// The number of exchanges that the queue can still take.
    pub(crate) fn free_places(&self) -> usize {
        self.places.free()
    }

    /// A writer for benchmarks. It writes nothing and answers at once.
    pub(super) fn answering_at_once(queue_max: usize) -> Self {
        let (writers, mut queues) = Self::with_queues(1, queue_max);
        tokio::spawn(async move {
            while let Some(job) = queues[0].recv().await {
                let reference = job.request.value().reference.clone();
                let receipt = Receipt { reference, balances: Balances::default(), given_back: None };
                job.answer(Ok(WalletOutcome::Done(receipt)));
            }
        });
        writers
    }

    /// Puts an exchange into the queue of its wallet's writer.
    ///
    /// # Errors
    /// Too many wait, of all apps or of this one.
    pub(super) fn enqueue(
        &self,
        request: Signed<WalletRequest>,
        deadline: Instant,
    ) -> Result<oneshot::Receiver<Outcome>> {
        let place = self.places.take(request.app_id()).ok_or(StoreError::Overloaded)?;
        let queue = &self.queues[self.writer_of(&request)];
        let (answer, receiver) = oneshot::channel();
        let trace = traces::current().map(|trace| (trace, Instant::now()));
        queue
            .send(Job { request, deadline, answer, trace, _place: place })
            .map_err(|_| StoreError::Internal("a writer has ended".to_owned()))?;
        Ok(receiver)
    }

    /// Exchanges of one wallet always go to the same writer. In one batch they need one lock; two
    /// batches would wait for each other.
    fn writer_of(&self, request: &Signed<WalletRequest>) -> usize {
        if self.queues.len() == 1 {
            return 0;
        }
        let mut hasher = DefaultHasher::new();
        (request.app_id(), &request.value().open_id).hash(&mut hasher);
        let count = u64::try_from(self.queues.len()).unwrap_or(1);
        usize::try_from(hasher.finish() % count).unwrap_or(0)
    }
}

/// Runs a writer in a thread of its own. So the database never waits for a worker thread that is busy
/// with requests. The thread ends with the writer.
fn run_in_thread(writing: impl Future<Output = ()> + Send + 'static) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let thread = std::thread::Builder::new().name("writer".to_owned());
    thread.spawn(move || runtime.block_on(writing)).map(drop)
}

/// Restarts a writer after a panic. The exchanges of its batch get an error, the others are carried
/// out.
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
    /// Exchanges whose wallet another transaction has held for long. Each batch tries them again,
    /// without a wait for the lock, until they succeed or their deadline passes. So a held wallet
    /// does not delay the others.
    set_aside: Vec<Job>,
    /// Until this time the writer locks wallets before it reads them, because of a recent conflict.
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
                // One exchange may have caused the fault. The others must not suffer from it.
                for job in jobs {
                    let _ = self.carry_out(vec![job], skips_held).await;
                }
            }
        }
    }

    /// All exchanges that wait, those set aside first. The result is empty when the queue is closed.
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

    /// Writes a batch and answers it. Returns the exchanges when one of several may have caused a
    /// fault.
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
                Err(SessionFault::Again) if attempts < ATTEMPTS_MAX => {
                    self.metrics.repeats(Repeat::Conflict);
                    self.locks_until = self.database.now() + LOCKS_FOR;
                }
                Err(SessionFault::Again) => {
                    answer_all(jobs, &StoreError::Again);
                    return Ok(());
                }
                // Only the deadlines end the wait for a lock.
                Err(SessionFault::Blocked) => {
                    self.metrics.repeats(Repeat::WalletHeld);
                    skips_held = true;
                }
                // Idempotency makes a repeat safe: an exchange that was committed is a replay.
                Err(SessionFault::Lost(cause)) => {
                    tracing::warn!(cause, "a writer lost its session");
                    self.metrics.repeats(Repeat::SessionLost);
                    self.session = None;
                    if attempts == ATTEMPTS_MAX {
                        answer_all(jobs, &StoreError::Unavailable(cause));
                        return Ok(());
                    }
                }
                Err(SessionFault::Other(StoreError::Internal(_))) if jobs.len() > 1 => return Err(jobs),
                Err(SessionFault::Other(error)) => {
                    answer_all(jobs, &error);
                    return Ok(());
                }
            }
        }
    }

    /// Tries the batch in one transaction.
    async fn attempt(&mut self, jobs: &[Job], skips_held: bool) -> Result<Vec<Verdict>, SessionFault> {
        let session = match &mut self.session {
            Some(session) => session,
            None => self.session.insert(Session::open(&self.database).await?),
        };
        let requests = jobs.iter().map(|job| (job.request.app_no(), job.request.value()));
        let batch = Batch::new(requests.collect());
        if !skips_held && self.database.now() >= self.locks_until {
            let known = session.read(&batch).await?;
            let decisions = batch.decide(&known.rows, known.at());
            if !decisions.verdicts.contains(&Verdict::NeedsLock) {
                if !decisions.rows.is_empty() {
                    session.write(&batch, &known, &decisions).await?;
                }
                return Ok(decisions.verdicts);
            }
        }
        let known = session.begin(&batch, skips_held).await?;
        let decisions = batch.decide(&known.rows, known.at());
        session.commit(&batch, &known, &decisions).await?;
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
                    let is_replay = matches!(outcome, WalletOutcome::Replayed(_));
                    let request = job.answer(Ok(outcome));
                    if is_replay {
                        replayed.push((request.app_id().clone(), request.value().reference.clone()));
                    }
                }
                Verdict::SetAside | Verdict::NeedsLock => self.set_aside.push(job),
            }
        }
        self.replays.count(replayed);
    }
}

/// Drops exchanges past their deadline: nobody waits for them any more.
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
