//! A writer takes all requests that wait and carries them out in one batch: one transaction, of payments up to two.
//! Meanwhile the next requests queue up. A batch never waits to fill. What a batch does is a [`Work`]: changes of
//! wallets (`crate::wallet_writer`), reports of orders (`crate::order_writer`), payments (`crate::topup`).

mod connect;
mod queue;
mod refusal;
mod tls;

use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use domain::ids::AppId;
use futures_util::FutureExt as _;
use telemetry::metrics::BatchRetry;
use telemetry::traces::{self, SpanKind, Trace};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use self::queue::{QueueSlot, QueueSlots};
use crate::error::{Result, StoreError};
use crate::transaction::ATTEMPTS_MAX;

#[cfg(test)]
pub(crate) use connect::LOCK_TIMEOUT;
pub(crate) use connect::{
    ANSWER_MARGIN, Connection, Opening, PlansMade, SessionFault, answered, connect, drive, drive_within,
    execute, fault, planning,
};
pub(crate) use refusal::SessionRefusal;

/// The maximum number of new requests in one batch. Those set aside come on top: they must not keep others waiting.
const BATCH_MAX: usize = 512;
/// How long an idle writer waits before it tries requests again that were set aside.
const SET_ASIDE_FOR: Duration = Duration::from_millis(10);
/// How long a writer locks rows first after a conflict with another writer.
const LOCKS_FOR: Duration = Duration::from_millis(200);

/// What a writer does with the requests of one kind.
pub(crate) trait Work {
    /// A request.
    type Request;
    /// What became of it.
    type Outcome;

    /// Names of its spans, and of the attribute with the size of a batch.
    const SPANS: Spans;

    /// Tries requests in one transaction, or payments in up to two, in their order. `None` is the outcome of a request
    /// that must be tried again.
    /// After a fault the session is usable, unless it is `Lost`.
    async fn attempt(
        &mut self,
        requests: &[&Self::Request],
        locking: Locking,
    ) -> Result<Vec<Option<Self::Outcome>>, SessionFault>;

    /// Waits until the database ends the session, and forgets it. Without a session it waits for ever.
    async fn session_ended(&mut self);

    /// Gives the session up. The next attempt opens another.
    fn forget_session(&mut self);

    /// Whether all requests of an attempt must be of one app.
    fn separates_apps(&self) -> bool {
        false
    }

    /// The present time.
    fn now(&self) -> Instant {
        Instant::now()
    }

    /// Waits for this duration.
    async fn pause(&mut self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    /// Counts a batch and how long it took.
    fn wrote(&self, _requests: usize, _took: Duration) {}

    /// Counts a batch that runs again.
    fn retries(&self, _why: BatchRetry) {}

    /// Counts what became of requests.
    fn decided(&self, _requests: &[&Self::Request], _outcomes: &[Option<Self::Outcome>]) {}
}

/// Names of the spans of a kind of work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spans {
    pub(crate) queue: &'static str,
    pub(crate) batch: &'static str,
    pub(crate) size: &'static str,
}

/// How an attempt treats the rows of its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Locking {
    /// It reads them without a lock. Its write detects a later change.
    None,
    /// It locks them first.
    Wait,
    /// The same without those that another transaction has locked.
    SkipHeld,
}

/// A handle of the writers of one kind. It is cheap to clone. The writers end when the last handle is dropped.
#[derive(Debug)]
pub(crate) struct Writers<Q, O> {
    queues: Arc<[mpsc::UnboundedSender<Queued<Q, O>>]>,
    places: QueueSlots,
}

impl<Q, O> Clone for Writers<Q, O> {
    fn clone(&self) -> Self {
        Self { queues: Arc::clone(&self.queues), places: self.places.clone() }
    }
}

/// A request in the queue.
#[derive(Debug)]
pub(crate) struct Queued<Q, O> {
    request: Q,
    deadline: Instant,
    answer: oneshot::Sender<Result<O>>,
    /// The trace of its request and the time of its arrival in the queue, while traces are collected.
    trace: Option<(Trace, Instant)>,
    /// Its place in the bounded queue, until it is answered.
    place: QueueSlot,
}

impl<Q, O> Queued<Q, O> {
    /// Sends the answer.
    fn answer(self, outcome: Result<O>) {
        // After a time-out or a hang-up nobody receives the answer. The request is carried out all the
        // same.
        let _ = self.answer.send(outcome);
    }

    /// Adds spans for its wait and for the database work of its batch.
    fn trace_batch(&self, spans: Spans, requests: usize, (began, ended): (Instant, Instant)) {
        if let Some((trace, queued)) = &self.trace {
            trace.add(spans.queue, SpanKind::Internal, (*queued, began), Vec::new());
            let requests = (spans.size, traces::number(requests));
            let attributes = vec![("db.system.name", "postgresql".into()), requests];
            trace.add(spans.batch, SpanKind::Client, (began, ended), attributes);
        }
    }
}

impl<Q: Send + 'static, O: Send + 'static> Writers<Q, O> {
    /// Starts `count` writers. Each connects at its first request. `writing` makes the loop of one writer.
    pub(crate) fn start<F: Future<Output = ()> + Send + 'static>(
        count: usize,
        queue_max: usize,
        writing: impl Fn(mpsc::UnboundedReceiver<Queued<Q, O>>) -> F,
    ) -> Result<Self> {
        Self::start_with(count, QueueSlots::new(queue_max), writing)
    }

    /// Starts `count` writers more, which share the places of these.
    pub(crate) fn beside<F: Future<Output = ()> + Send + 'static>(
        &self,
        count: usize,
        writing: impl Fn(mpsc::UnboundedReceiver<Queued<Q, O>>) -> F,
    ) -> Result<Self> {
        Self::start_with(count, self.places.clone(), writing)
    }

    fn start_with<F: Future<Output = ()> + Send + 'static>(
        count: usize,
        places: QueueSlots,
        writing: impl Fn(mpsc::UnboundedReceiver<Queued<Q, O>>) -> F,
    ) -> Result<Self> {
        let (writers, queues) = Self::with_places(count.max(1), places);
        for queue in queues {
            run_in_thread(writing(queue))?;
        }
        Ok(writers)
    }

    /// A handle of `count` writers, and the queue of each.
    pub(crate) fn with_queues(
        count: usize,
        queue_max: usize,
    ) -> (Self, Vec<mpsc::UnboundedReceiver<Queued<Q, O>>>) {
        Self::with_places(count, QueueSlots::new(queue_max))
    }

    fn with_places(count: usize, places: QueueSlots) -> (Self, Vec<mpsc::UnboundedReceiver<Queued<Q, O>>>) {
        let (queues, receivers): (Vec<_>, Vec<_>) = (0..count).map(|_| mpsc::unbounded_channel()).unzip();
        (Self { queues: queues.into(), places }, receivers)
    }

    /// The number of requests that the queue can still take.
    pub(crate) fn free_places(&self) -> usize {
        self.places.free()
    }

    /// A writer for benchmarks. It writes nothing and answers at once.
    pub(crate) fn answering_at_once(queue_max: usize, outcome: fn(&Q) -> O) -> Self {
        let (writers, mut queues) = Self::with_queues(1, queue_max);
        tokio::spawn(async move {
            while let Some(one) = queues[0].recv().await {
                let outcome = outcome(&one.request);
                one.answer(Ok(outcome));
            }
        });
        writers
    }

    /// Hands a request to a writer, and waits for its outcome until `deadline`. The work belongs to the writer, so it goes
    /// on when the caller stops waiting.
    ///
    /// - One writer has all requests with this key, and takes them in the order of arrival.
    /// - The app needs a place in the queue. While other apps wait, it has at most half of all places, else at most seven
    ///   eighths (contract 9.5.1).
    ///
    /// # Errors
    /// Too many wait, of all apps or of this one; the deadline has passed; or the database does not answer.
    pub(crate) async fn submit(
        &self,
        app_id: &AppId,
        key: impl Hash,
        request: Q,
        deadline: Instant,
    ) -> Result<O> {
        let answer = self.enqueue(app_id, key, request, deadline)?;
        match tokio::time::timeout_at(deadline, answer).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(StoreError::Internal("a writer ended without an answer".to_owned())),
            Err(_) => Err(StoreError::past_deadline()),
        }
    }

    /// Puts a request into a queue.
    ///
    /// # Errors
    /// Too many wait, of all apps or of this one.
    pub(crate) fn enqueue(
        &self,
        app_id: &AppId,
        key: impl Hash,
        request: Q,
        deadline: Instant,
    ) -> Result<oneshot::Receiver<Result<O>>> {
        let place = self.places.take(app_id).ok_or(StoreError::Overloaded)?;
        let queue = &self.queues[self.writer_of(key)];
        let (answer, receiver) = oneshot::channel();
        let trace = traces::current().map(|trace| (trace, Instant::now()));
        queue
            .send(Queued { request, deadline, answer, trace, place })
            .map_err(|_| StoreError::Internal("a writer has ended".to_owned()))?;
        Ok(receiver)
    }

    /// Requests with one key always go to the same writer. In one batch they need one lock; two
    /// batches would wait for each other.
    fn writer_of(&self, key: impl Hash) -> usize {
        if self.queues.len() == 1 {
            return 0;
        }
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let count = u64::try_from(self.queues.len()).unwrap_or(1);
        usize::try_from(hasher.finish() % count).unwrap_or(0)
    }
}

/// Runs a writer in a thread of its own. So the database never waits for a worker thread that is busy
/// with requests. The thread ends with the writer.
pub(crate) fn run_in_thread(writing: impl Future<Output = ()> + Send + 'static) -> Result<()> {
    let failed = |error: std::io::Error| StoreError::Internal(format!("starting a writer: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let thread = std::thread::Builder::new().name("writer".to_owned());
    thread.spawn(move || runtime.block_on(writing)).map(drop).map_err(failed)
}

/// Restarts a writer after a panic. The requests of its batch get an error, the others are carried
/// out.
pub(crate) async fn keep_writing<W: Work>(mut writer: Writer<W>) {
    while AssertUnwindSafe(writer.run()).catch_unwind().await.is_err() {
        tracing::error!("a writer panicked; it goes on with a new session");
        writer.work.forget_session();
    }
}

/// A writer, with the requests that it took from its queue.
pub(crate) struct Writer<W: Work> {
    queue: mpsc::UnboundedReceiver<QueuedOf<W>>,
    work: W,
    /// Requests whose rows another transaction has held for long. Each batch tries them again,
    /// without a wait for the lock, until they succeed or their deadline passes. So a held row
    /// does not delay the others.
    set_aside: Vec<QueuedOf<W>>,
    /// Until this time the writer locks rows before it reads them, because of a recent conflict.
    locks_until: Instant,
}

type QueuedOf<W> = Queued<<W as Work>::Request, <W as Work>::Outcome>;

impl<W: Work> Writer<W> {
    pub(crate) fn new(queue: mpsc::UnboundedReceiver<QueuedOf<W>>, work: W) -> Self {
        let locks_until = work.now();
        Self { queue, work, set_aside: Vec::new(), locks_until }
    }

    /// Carries requests out until the queue is closed.
    pub(crate) async fn run(&mut self) {
        loop {
            let skips_held = !self.set_aside.is_empty();
            let queued = self.next_batch().await;
            if queued.is_empty() {
                return;
            }
            for queued in self.batches_of(queued) {
                let (count, started) = (queued.len(), self.work.now());
                let carried_out = self.carry_out(queued, skips_held).await;
                self.work.wrote(count, self.work.now() - started);
                if let Err(queued) = carried_out {
                    // One request may have caused the fault. The others must not suffer from it.
                    for one in queued {
                        let _ = self.carry_out(vec![one], skips_held).await;
                    }
                }
            }
        }
    }

    /// All requests that wait, those set aside first. The result is empty when the queue is closed.
    async fn next_batch(&mut self) -> Vec<QueuedOf<W>> {
        let mut queued = std::mem::take(&mut self.set_aside);
        if !queued.is_empty() {
            tokio::select! {
                biased;
                _ = self.queue.recv_many(&mut queued, BATCH_MAX) => {}
                () = self.work.pause(SET_ASIDE_FOR) => {}
            }
            return queued;
        }
        tokio::select! {
            biased;
            _ = self.queue.recv_many(&mut queued, BATCH_MAX) => return queued,
            () = self.work.session_ended() => {}
        }
        self.queue.recv_many(&mut queued, BATCH_MAX).await;
        queued
    }

    /// The batches in which requests are carried out: one, or one for each app.
    fn batches_of(&self, mut queued: Vec<QueuedOf<W>>) -> Vec<Vec<QueuedOf<W>>> {
        if !self.work.separates_apps() {
            return vec![queued];
        }
        // It keeps the order of the requests of an app.
        queued.sort_by(|one, other| one.place.app_id().cmp(other.place.app_id()));
        let mut batches: Vec<Vec<QueuedOf<W>>> = Vec::new();
        for one in queued {
            match batches.last_mut() {
                Some(batch) if batch[0].place.app_id() == one.place.app_id() => batch.push(one),
                Some(_) | None => batches.push(vec![one]),
            }
        }
        batches
    }

    /// Writes a batch and answers it. Returns the requests when one of several may have caused a
    /// fault.
    async fn carry_out(
        &mut self,
        mut queued: Vec<QueuedOf<W>>,
        mut skips_held: bool,
    ) -> Result<(), Vec<QueuedOf<W>>> {
        let (mut attempts, began) = (0, self.work.now());
        loop {
            queued = without_late_ones(queued, self.work.now());
            if queued.is_empty() {
                return Ok(());
            }
            attempts += 1;
            let locking = match skips_held {
                true => Locking::SkipHeld,
                false if self.work.now() < self.locks_until => Locking::Wait,
                false => Locking::None,
            };
            let requests: Vec<_> = queued.iter().map(|one| &one.request).collect();
            match self.work.attempt(&requests, locking).await {
                Ok(outcomes) => {
                    self.work.decided(&requests, &outcomes);
                    self.answer(queued, outcomes, began);
                    return Ok(());
                }
                Err(SessionFault::Again) if attempts < ATTEMPTS_MAX => {
                    self.work.retries(BatchRetry::Conflict);
                    self.locks_until = self.work.now() + LOCKS_FOR;
                }
                Err(SessionFault::Again) => {
                    answer_all(queued, &StoreError::Again);
                    return Ok(());
                }
                // Only the deadlines end the wait for a lock.
                Err(SessionFault::Blocked) => {
                    self.work.retries(BatchRetry::WalletHeld);
                    skips_held = true;
                }
                // Idempotency makes a repeat safe: a request that was committed is a replay, or changes nothing.
                Err(SessionFault::Lost(cause)) => {
                    tracing::warn!(cause, "a writer lost its session");
                    self.work.retries(BatchRetry::SessionLost);
                    self.work.forget_session();
                    // Rounds that wait for a lock count, too, and may be more.
                    if attempts >= ATTEMPTS_MAX {
                        answer_all(queued, &StoreError::unavailable(cause));
                        return Ok(());
                    }
                }
                Err(SessionFault::Other(StoreError::Internal(_))) if queued.len() > 1 => return Err(queued),
                Err(SessionFault::Other(error)) => {
                    answer_all(queued, &error);
                    return Ok(());
                }
            }
        }
    }

    fn answer(&mut self, queued: Vec<QueuedOf<W>>, outcomes: Vec<Option<W::Outcome>>, began: Instant) {
        let (requests, ended) = (queued.len(), self.work.now());
        for (one, outcome) in queued.into_iter().zip(outcomes) {
            match outcome {
                Some(outcome) => {
                    one.trace_batch(W::SPANS, requests, (began, ended));
                    one.answer(Ok(outcome));
                }
                None => self.set_aside.push(one),
            }
        }
    }
}

/// Drops requests past their deadline: nobody waits for them any more.
fn without_late_ones<Q, O>(queued: Vec<Queued<Q, O>>, now: Instant) -> Vec<Queued<Q, O>> {
    let (in_time, late): (Vec<_>, Vec<_>) = queued.into_iter().partition(|one| now < one.deadline);
    answer_all(late, &StoreError::past_deadline());
    in_time
}

fn answer_all<Q, O>(queued: Vec<Queued<Q, O>>, error: &StoreError) {
    for one in queued {
        one.answer(Err(error.clone()));
    }
}
