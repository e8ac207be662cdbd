//! Sends events to one receiver while this instance holds its lease.
//!
//! Events that were never tried come from the feed, in its order. Each that is not accepted gets a row of its own and
//! is tried again by the schedule. The receiver's place in the feed advances over events that were tried. What became
//! of tries is written in short steps, so an event may be sent again after a crash, with the same id.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use domain::event::RETRY_AFTER_MAX;
use domain::sandbox::{FaultKind, FaultTarget};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use guarded_fetch::bulkhead::Permit;
use store::{LeasedReceiver, NotTaken};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::journal::{Journal, NOTED_EVERY};
use super::pace::Pace;
use super::queue::{Queue, Ready, TOLD_AT_ONCE};
use super::sender::{Recipient, Tried};
use super::{SendingContext, TICK};

/// How often the lease is renewed, and how often while the last tries end.
const RENEWED_EVERY: Duration = Duration::from_secs(2);
const RENEWED_AT_END_EVERY: Duration = Duration::from_secs(5);
/// How long a receiver keeps its place while others wait, and how many tries it may have under way then.
const TURN: Duration = Duration::from_secs(1);
const TRIES_IN_TURN: usize = 4;
/// The lease ends after so long without anything to send.
const IDLE_FOR: Duration = Duration::from_secs(5);
/// The most events that wait for another try at a receiver that is away, and at one that takes others. While there are as
/// many, later events wait in the feed.
const WAITING_AWAY_MAX: i64 = 1_000;
const WAITING_MAX: i64 = 100_000;
/// How often a receiver counts as back.
const BACK_EVERY: Duration = Duration::from_mins(1);
/// Failures in a row after which a receiver counts as away.
const AWAY_AFTER: u32 = 10;
/// How often an event of the feed is tried while the receiver is away.
const PROBED_EVERY: Duration = Duration::from_secs(30);
/// How long tries under way may take at the end.
const END_PATIENCE: Duration = Duration::from_secs(3);

type Sending = Pin<Box<dyn Future<Output = (Ready, Tried)> + Send>>;

/// The resources of a sending.
enum Held {
    /// A place, in which it sends.
    Place(Permit),
    /// The right to end its tries after it has given the place to others.
    Tries { _permits: OwnedSemaphorePermit },
}

/// The sending to one receiver.
pub(super) struct Delivery {
    shared: Arc<SendingContext>,
    lease: [u8; 16],
    held: Held,
    held_since: Instant,
    recipient: Arc<Recipient>,
    head: watch::Receiver<i64>,
    stop: watch::Receiver<bool>,
    queue: Queue,
    sending: FuturesUnordered<Sending>,
    journal: Journal,
    failures: u32,
    pace: Pace,
    renewed_at: Instant,
    probed_at: Instant,
    active_at: Instant,
    back_at: Option<Instant>,
    is_over: bool,
}

impl Delivery {
    pub(super) fn new(
        shared: Arc<SendingContext>,
        (lease, place): ([u8; 16], Permit),
        receiver: LeasedReceiver,
        head: watch::Receiver<i64>,
        stop: watch::Receiver<bool>,
    ) -> Self {
        let (now, newest) = (Instant::now(), *head.borrow());
        let long_ago = now.checked_sub(PROBED_EVERY).unwrap_or(now);
        let is_probed = receiver.is_away && receiver.has_just_failed;
        Self {
            queue: Queue::new(&receiver, now),
            failures: if receiver.is_away { AWAY_AFTER } else { 0 },
            pace: Pace::new(shared.settings.per_second_max, newest, now),
            recipient: Arc::new(shared.sender.recipient(receiver)),
            lease,
            held: Held::Place(place),
            held_since: now,
            shared,
            head,
            stop,
            sending: FuturesUnordered::new(),
            journal: Journal::new(now),
            renewed_at: now,
            probed_at: if is_probed { now } else { long_ago },
            active_at: now,
            back_at: None,
            is_over: false,
        }
    }

    /// Sends until nothing is left, the lease is lost or the server stops.
    pub(super) async fn run(mut self) {
        while !self.is_over && !*self.stop.borrow() {
            let worked = match self.held {
                Held::Place(_) => self.work().await,
                Held::Tries { .. } => self.end_tries().await,
            };
            if let Err(error) = worked {
                tracing::debug!(%error, "a receiver waits for the database");
                self.pause(Instant::now() + Duration::from_secs(1)).await;
            }
        }
        let ending = async {
            while let Some((ready, tried)) = self.sending.next().await {
                self.tried(ready, tried);
            }
        };
        // What is still under way is sent again by another instance, with the same id.
        let _ = timeout(END_PATIENCE, ending).await;
        let _ = self.write_note(true).await;
        let (app_id, id) = (&self.recipient.receiver.app_id, &self.recipient.receiver.id);
        let _ = self.shared.store.end_lease(&self.lease, app_id, id).await;
    }

    /// One turn: renew, refill, send, wait, write.
    async fn work(&mut self) -> store::Result<()> {
        let now = Instant::now();
        if now >= self.renewed_at + RENEWED_EVERY {
            self.renew().await?;
        }
        if now >= self.queue.due_at {
            self.refill_due().await?;
        }
        let is_behind = self.refill_fresh().await?;
        if self.is_over {
            return Ok(());
        }
        self.start();
        let is_held = self.is_away() && self.queue.has_fresh_alone();
        let is_still = self.sending.is_empty() && (self.queue.has_none_ready() || is_held);
        let is_idle = is_still && self.queue.has_told_all();
        if self.journal.is_due(is_idle, now) {
            self.write_note(is_idle).await?;
        }
        if is_still
            && self.is_away()
            && self.recipient.receiver.is_away
            && now < self.probed_at + PROBED_EVERY
        {
            // Until its next try it takes no place of others.
            self.write_note(true).await?;
            self.is_over = true;
            return Ok(());
        }
        if (is_idle || now >= self.held_since + TURN) && self.give_up_place() {
            return Ok(());
        }
        if !is_idle || self.is_away() && !self.recipient.receiver.is_away {
            self.active_at = now;
        } else if now >= self.active_at + IDLE_FOR {
            self.is_over = true;
            return Ok(());
        }
        let until = if is_behind { now } else { (now + NOTED_EVERY).min(self.queue.due_at.max(now + TICK)) };
        self.pause(until).await;
        Ok(())
    }

    /// Gives the place up if others wait for it and there is room for its tries under way. Nothing more is begun then. What
    /// was not tried is read again at the next turn of the receiver.
    fn give_up_place(&mut self) -> bool {
        let Held::Place(place) = &mut self.held else { return false };
        let tries = u32::try_from(self.sending.len()).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.shared.without_place).try_acquire_many_owned(tries);
        let Some(permits) = room.ok().filter(|_| place.is_asked_back()) else { return false };
        self.held = Held::Tries { _permits: permits };
        self.queue.let_go();
        true
    }

    /// One turn without a place: waits for tries under way, and writes what became of them.
    async fn end_tries(&mut self) -> store::Result<()> {
        let now = Instant::now();
        if now >= self.renewed_at + RENEWED_AT_END_EVERY {
            self.renew().await?;
        }
        if self.journal.is_due(false, now) {
            self.write_note(false).await?;
        }
        self.is_over |= self.sending.is_empty();
        if !self.is_over {
            self.pause(now + NOTED_EVERY).await;
        }
        Ok(())
    }

    /// Waits for the end of a try, for news or until a time.
    async fn pause(&mut self, until: Instant) {
        let is_waiting = !self.sending.is_empty();
        // While the rate or the receiver holds events back, new events are no news.
        let is_hungry = self.queue.is_empty() && !self.is_away();
        let ended = tokio::select! {
            ended = self.sending.next(), if is_waiting => ended,
            _ = self.head.changed(), if is_hungry => None,
            _ = self.stop.changed() => None,
            () = sleep_until(until) => None,
        };
        let mut ended = ended;
        while let Some((ready, tried)) = ended {
            self.tried(ready, tried);
            // All that have ended by now.
            ended = futures_util::FutureExt::now_or_never(self.sending.next()).flatten();
        }
    }

    fn is_away(&self) -> bool {
        self.failures >= AWAY_AFTER
    }

    async fn renew(&mut self) -> store::Result<()> {
        let (app_id, id) = (&self.recipient.receiver.app_id, &self.recipient.receiver.id);
        let receiver = self.shared.store.renew_lease(&self.lease, app_id, id).await?;
        self.renewed_at = Instant::now();
        self.know(receiver);
        Ok(())
    }

    /// Reads how the receiver is now. Call it after events were read and before they are sent. Then nothing is sent
    /// that happened after a pause, and a secret that was retired before an event does not sign it. `false` when
    /// nothing more may be sent.
    async fn may_send(&mut self) -> store::Result<bool> {
        let (app_id, id) = (&self.recipient.receiver.app_id, &self.recipient.receiver.id);
        let receiver = self.shared.store.leased_receiver(&self.lease, app_id, id).await?;
        self.know(receiver);
        Ok(!self.is_over)
    }

    fn know(&mut self, receiver: Option<LeasedReceiver>) {
        match receiver {
            Some(receiver) => {
                self.queue.waiting = receiver.waiting;
                self.recipient = Arc::new(self.shared.sender.recipient(receiver));
            }
            None => self.is_over = true,
        }
    }

    /// Takes deliveries that are due.
    async fn refill_due(&mut self) -> store::Result<()> {
        let due = self.queue.due(&self.shared.store, &self.recipient.receiver).await?;
        if due.is_empty() || !self.may_send().await? {
            return Ok(());
        }
        let gone = self.queue.add_due(&self.shared.store, &self.recipient.receiver, due).await?;
        self.journal.gone(gone);
        Ok(())
    }

    /// Takes events of the feed, if the receiver may get some. Returns whether it took none of many, and more are there.
    async fn refill_fresh(&mut self) -> store::Result<bool> {
        let waiting_max = if self.is_away() { WAITING_AWAY_MAX } else { WAITING_MAX };
        if self.queue.is_full() || self.queue.waiting >= waiting_max {
            return Ok(false);
        }
        let is_probed = Instant::now() < self.probed_at + PROBED_EVERY || self.queue.has_fresh_told();
        if self.is_away() && is_probed {
            return Ok(false);
        }
        let head = *self.head.borrow_and_update();
        let found = self.queue.look(&self.shared.store, &self.recipient.receiver, head).await?;
        if let Some(found) = found {
            if !found.is_empty() && !self.may_send().await? {
                return Ok(false);
            }
            if found.has_events {
                self.journal.advanced();
            }
            self.queue.add_found(found);
        }
        if self.queue.has_told_all() {
            return Ok(self.queue.is_behind(head));
        }
        let (format, limit) = (self.recipient.receiver.format, if self.is_away() { 1 } else { TOLD_AT_ONCE });
        self.queue.tell_fresh(&self.shared.store, format, limit).await?;
        Ok(false)
    }

    /// Starts tries, as many as may be under way and as the rate allows.
    fn start(&mut self) {
        let now = Instant::now();
        self.pace.count(*self.head.borrow(), now);
        let parallel_max = self.shared.settings.parallel_max.get();
        let others_wait = self.shared.places.waiting() > 0;
        let tries_max = if others_wait { parallel_max.min(TRIES_IN_TURN) } else { parallel_max };
        while self.sending.len() < tries_max && self.pace.allows() {
            let Some(ready) = self.next_ready(now) else { break };
            self.pace.take();
            if ready.due.is_none() {
                self.shared.metrics.first_try(self.shared.sender.since(ready.at));
            }
            let (shared, recipient) = (Arc::clone(&self.shared), Arc::clone(&self.recipient));
            self.sending.push(Box::pin(async move {
                let tried = send(&shared, &recipient, &ready).await;
                (ready, tried)
            }));
        }
    }

    /// The next event to be sent. While the receiver is away, only one of the feed each half minute.
    fn next_ready(&mut self, now: Instant) -> Option<Ready> {
        if !self.is_away() {
            return self.queue.next();
        }
        let again = self.queue.next_again();
        if again.is_some() || !self.sending.is_empty() || now < self.probed_at + PROBED_EVERY {
            return again;
        }
        self.probed_at = now;
        self.queue.next()
    }

    /// Notes what became of a try.
    fn tried(&mut self, ready: Ready, tried: Tried) {
        let is_taken = tried.is_taken();
        self.shared.metrics.tried(is_taken);
        if is_taken {
            let is_back = self.is_away() && self.back_at.is_none_or(|at| at.elapsed() >= BACK_EVERY);
            if is_back {
                self.back_at = Some(Instant::now());
            }
            self.failures = 0;
            self.journal.taken(ready.due, is_back);
            if ready.due.is_none() {
                self.queue.was_taken(ready.no);
            }
        } else {
            self.failures = self.failures.saturating_add(1);
            if self.failures == AWAY_AFTER {
                self.probed_at = Instant::now();
            }
            if ready.due.is_none() {
                self.queue.was_not_taken(ready.no);
            }
            let failed = self.not_taken(ready, &tried);
            self.journal.not_taken(failed, tried.is_gone);
        }
        self.journal.show(tried.shown);
    }

    /// An event that was not accepted, with the time of its next try.
    fn not_taken(&self, ready: Ready, tried: &Tried) -> NotTaken {
        let count = ready.due.map_or(0, |due| due.tries).saturating_add(1);
        let chance = f64::from(u16::from_be_bytes(store::secrets::random_bytes())) / f64::from(u16::MAX);
        let delays = &self.shared.settings.retry_delays;
        let next_in = if tried.is_gone {
            // It waits for the end of the pause.
            Some(Duration::ZERO)
        } else {
            delays.after(u32::try_from(count).unwrap_or(u32::MAX), tried.retry_after, chance)
        };
        if next_in.is_none() {
            self.shared.metrics.failed();
        }
        NotTaken {
            event_no: ready.no,
            due_at: ready.due.map(|due| due.due_at),
            event_id: ready.message.id,
            event_at: ready.at,
            event_type: ready.event_type,
            tries: count,
            next_in,
            asked: tried.retry_after.map(|asked| asked.min(RETRY_AFTER_MAX)),
            status: tried.shown.status,
            error: tried.shown.error.clone().unwrap_or_default(),
        }
    }

    /// Writes what became of tries.
    async fn write_note(&mut self, is_idle: bool) -> store::Result<()> {
        let through_no = self.queue.through_no(self.journal.note());
        let Some(note) = self.journal.begin(through_no, is_idle, Instant::now()) else { return Ok(()) };
        if !self.shared.store.note_tries(&self.lease, &self.recipient.receiver, note).await? {
            self.is_over = true;
            return Ok(());
        }
        let written = self.journal.written();
        self.is_over |= written.pauses;
        self.queue.forget(&written);
        if written.is_back {
            self.queue.due_at = Instant::now();
        }
        Ok(())
    }
}

/// Sends once, unless the receiver's app is a sandbox app and has asked for a fault (contract 15.3).
async fn send(shared: &SendingContext, recipient: &Recipient, ready: &Ready) -> Tried {
    let send = || shared.sender.send(recipient, &ready.message);
    let Some(app) = &recipient.receiver.sandbox else { return send().await };
    let target = FaultTarget::Notifications(ready.event_type);
    // A fault that cannot be read does not happen.
    let fault = shared.store.due_fault(app, target).await.ok().flatten();
    match fault.map(|fault| (fault.kind, fault.delay)) {
        Some((FaultKind::Never, _)) => shared.sender.pretend(&ready.message),
        Some((FaultKind::Late, delay)) => {
            tokio::time::sleep(delay).await;
            send().await
        }
        Some((FaultKind::Twice, _)) => {
            send().await;
            send().await
        }
        Some(_) | None => send().await,
    }
}
