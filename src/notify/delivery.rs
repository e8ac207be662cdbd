//! Sends events to one receiver while this instance holds its lease.
//!
//! Events that were never tried come from the feed, in its order. Each that is not taken gets a row of its own and is
//! tried again by the schedule. The receiver's place in the feed advances over events that were tried. What became of
//! tries is written in short steps, so an event may be sent again after a crash, with the same id.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use domain::event::{EventType, RETRY_AFTER_MAX};
use domain::receiver::ReceiverFormat;
use domain::sandbox::{FaultKind, FaultTarget};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use store::{Event, EventKey, LeasedReceiver, NotTaken, ReceiverTry, TriesNote};
use time::OffsetDateTime;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use super::message::Message;
use super::pace::Pace;
use super::sender::{Recipient, Tried};
use super::{Shared, TICK};

/// Events whose texts are read at once.
const TOLD_AT_ONCE: usize = 512;
/// How often what became of tries is written.
const NOTED_EVERY: Duration = Duration::from_millis(100);
/// How often the newest tries are written that were taken.
const TRIES_NOTED_EVERY: Duration = Duration::from_secs(1);
/// How often due deliveries are looked for.
const DUE_EVERY: Duration = Duration::from_millis(250);
/// How often the lease is renewed.
const RENEWED_EVERY: Duration = Duration::from_secs(2);
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
/// The most tries that an operator sees.
const TRIES_SHOWN: usize = 20;
/// How long tries under way may take at the end.
const END_PATIENCE: Duration = Duration::from_secs(3);

/// An event to be sent.
#[derive(Debug)]
struct Ready {
    no: i64,
    at: OffsetDateTime,
    event_type: EventType,
    message: Message,
    /// Number of tries before. `None` for an event of the feed.
    tries: Option<i32>,
}

impl Ready {
    fn of(event: &Event, format: ReceiverFormat, tries: Option<i32>) -> Self {
        let message = Message::of(event, format);
        Self { no: event.no, at: event.at, event_type: event.event_type, message, tries }
    }
}

type Sending = Pin<Box<dyn Future<Output = (Ready, Tried)> + Send>>;

/// The sending to one receiver.
pub(super) struct Delivery {
    shared: Arc<Shared>,
    lease: [u8; 16],
    recipient: Arc<Recipient>,
    /// Number of events that wait for another try.
    waiting: i64,
    head: watch::Receiver<i64>,
    stop: watch::Receiver<bool>,
    /// The number up to which the feed was looked at.
    looked_through: i64,
    /// Events of the feed, in their order, that are not told yet.
    keys: VecDeque<EventKey>,
    ready: VecDeque<Ready>,
    /// Numbers of events of the feed that are ready or under way.
    fresh: BTreeSet<i64>,
    /// Numbers of events under way, or to be written, that have a row of their own.
    again: BTreeSet<i64>,
    sending: FuturesUnordered<Sending>,
    note: TriesNote,
    has_news: bool,
    failures: u32,
    pace: Pace,
    noted_at: Instant,
    tries_noted_at: Instant,
    due_at: Instant,
    renewed_at: Instant,
    probed_at: Instant,
    active_at: Instant,
    back_at: Option<Instant>,
    is_over: bool,
}

impl Delivery {
    pub(super) fn new(
        shared: Arc<Shared>,
        lease: [u8; 16],
        receiver: LeasedReceiver,
        head: watch::Receiver<i64>,
        stop: watch::Receiver<bool>,
    ) -> Self {
        let now = Instant::now();
        let long_ago = now.checked_sub(PROBED_EVERY).unwrap_or(now);
        let pace = Pace::new(shared.settings.per_second_max, *head.borrow(), now);
        let is_probed = receiver.is_away && receiver.has_just_failed;
        Self {
            looked_through: receiver.through_no,
            note: TriesNote { through_no: receiver.through_no, ..TriesNote::default() },
            failures: if receiver.is_away { AWAY_AFTER } else { 0 },
            lease,
            waiting: receiver.waiting,
            recipient: Arc::new(shared.sender.recipient(receiver)),
            pace,
            shared,
            head,
            stop,
            keys: VecDeque::new(),
            ready: VecDeque::new(),
            fresh: BTreeSet::new(),
            again: BTreeSet::new(),
            sending: FuturesUnordered::new(),
            has_news: false,
            noted_at: now,
            tries_noted_at: long_ago,
            due_at: now,
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
            let worked = self.work().await;
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
        if now >= self.due_at {
            self.refill_due().await?;
        }
        let is_behind = self.refill_fresh().await?;
        if self.is_over {
            return Ok(());
        }
        self.start();
        let is_held = self.is_away() && self.ready.iter().all(|ready| ready.tries.is_none());
        let is_still = self.sending.is_empty() && (self.ready.is_empty() || is_held);
        let is_idle = is_still && self.keys.is_empty();
        if is_idle && self.has_news || now >= self.noted_at + NOTED_EVERY {
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
        if !is_idle || self.is_away() && !self.recipient.receiver.is_away {
            self.active_at = now;
        } else if now >= self.active_at + IDLE_FOR {
            self.is_over = true;
            return Ok(());
        }
        let until = if is_behind { now } else { (now + NOTED_EVERY).min(self.due_at.max(now + TICK)) };
        self.pause(until).await;
        Ok(())
    }

    /// Waits for the end of a try, for news or until a time.
    async fn pause(&mut self, until: Instant) {
        let is_waiting = !self.sending.is_empty();
        // While the rate or the receiver holds events back, new events are no news.
        let is_hungry = self.keys.is_empty() && self.ready.is_empty() && !self.is_away();
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

    /// Reads how the receiver is now. Call it after events were read and before they are sent: then nothing is sent that
    /// happened after a pause, and a secret that was retired before an event does not sign it. `false` when nothing more
    /// may be sent.
    async fn may_send(&mut self) -> store::Result<bool> {
        let (app_id, id) = (&self.recipient.receiver.app_id, &self.recipient.receiver.id);
        let receiver = self.shared.store.leased_receiver(&self.lease, app_id, id).await?;
        self.know(receiver);
        Ok(!self.is_over)
    }

    fn know(&mut self, receiver: Option<LeasedReceiver>) {
        match receiver {
            Some(receiver) => {
                self.waiting = receiver.waiting;
                self.recipient = Arc::new(self.shared.sender.recipient(receiver));
            }
            None => self.is_over = true,
        }
    }

    /// Takes deliveries that are due.
    async fn refill_due(&mut self) -> store::Result<()> {
        self.due_at = Instant::now() + DUE_EVERY;
        // The renewal counts them, too.
        if self.waiting == 0 {
            return Ok(());
        }
        let free = TOLD_AT_ONCE.saturating_sub(self.again.len());
        let flying: Vec<i64> = self.again.iter().copied().collect();
        let due = self.shared.store.due_deliveries(&self.recipient.receiver, &flying, free).await?;
        if due.is_empty() || !self.may_send().await? {
            return Ok(());
        }
        let tries: HashMap<i64, i32> = due.iter().map(|due| (due.event_no, due.tries)).collect();
        let numbers: Vec<i64> = due.iter().map(|due| due.event_no).collect();
        let keys = self.shared.store.event_keys(&self.recipient.receiver.app_id, &numbers).await?;
        let events = self.shared.store.tell(keys).await?;
        let told: BTreeSet<i64> = events.iter().map(|event| event.no).collect();
        self.note.gone.extend(numbers.iter().filter(|no| !told.contains(no)));
        self.has_news |= !self.note.gone.is_empty();
        self.again.extend(numbers);
        for event in events {
            let tries = tries.get(&event.no).copied();
            self.ready.push_back(Ready::of(&event, self.recipient.receiver.format, tries));
        }
        if due.len() == free {
            self.due_at = Instant::now();
        }
        Ok(())
    }

    /// Takes events of the feed, if the receiver may get some. Returns whether it took none of many, and more are there.
    async fn refill_fresh(&mut self) -> store::Result<bool> {
        let waiting_max = if self.is_away() { WAITING_AWAY_MAX } else { WAITING_MAX };
        if self.ready.len() >= TOLD_AT_ONCE / 2 || self.waiting >= waiting_max {
            return Ok(false);
        }
        let mut wanted = TOLD_AT_ONCE;
        if self.is_away() {
            let is_probed = self.fresh.len() > self.keys.len();
            if Instant::now() < self.probed_at + PROBED_EVERY || is_probed {
                return Ok(false);
            }
            wanted = 1;
        }
        let head = *self.head.borrow_and_update();
        if self.keys.is_empty() && self.looked_through < head {
            let (app_id, types) = (&self.recipient.receiver.app_id, &self.recipient.receiver.types);
            let (keys, through, has_events) =
                self.shared.store.events_after(app_id, self.looked_through, types).await?;
            if !keys.is_empty() && !self.may_send().await? {
                return Ok(false);
            }
            self.fresh.extend(keys.iter().map(|key| key.no));
            self.keys.extend(keys);
            self.looked_through = through;
            self.has_news |= has_events;
        }
        let keys: Vec<EventKey> = self.keys.iter().take(wanted).cloned().collect();
        let numbers: Vec<i64> = keys.iter().map(|key| key.no).collect();
        if keys.is_empty() {
            return Ok(self.looked_through < head);
        }
        let events = self.shared.store.tell(keys).await?;
        self.keys.drain(..numbers.len());
        // One whose row is gone can never be sent.
        let told: BTreeSet<i64> = events.iter().map(|event| event.no).collect();
        self.fresh.retain(|no| told.contains(no) || !numbers.contains(no));
        self.ready.extend(events.iter().map(|event| Ready::of(event, self.recipient.receiver.format, None)));
        Ok(false)
    }

    /// Starts tries, as many as may be under way and as the rate allows.
    fn start(&mut self) {
        let now = Instant::now();
        self.pace.count(*self.head.borrow(), now);
        while self.sending.len() < self.shared.settings.parallel_max.get() && self.pace.allows() {
            let Some(ready) = self.next_ready(now) else { break };
            self.pace.take();
            if ready.tries.is_none() {
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
            return self.ready.pop_front();
        }
        if let Some(place) = self.ready.iter().position(|ready| ready.tries.is_some()) {
            return self.ready.remove(place);
        }
        if !self.sending.is_empty() || now < self.probed_at + PROBED_EVERY {
            return None;
        }
        self.probed_at = now;
        self.ready.pop_front()
    }

    /// Notes what became of a try.
    fn tried(&mut self, ready: Ready, tried: Tried) {
        self.has_news = true;
        let is_taken = tried.is_taken();
        let Tried { shown, retry_after, is_gone } = tried;
        self.shared.metrics.tried(is_taken);
        self.note.last_was_taken = Some(is_taken);
        if is_taken {
            self.note.taken += 1;
            if self.is_away() && self.back_at.is_none_or(|at| at.elapsed() >= BACK_EVERY) {
                self.note.is_back = true;
                self.back_at = Some(Instant::now());
            }
            self.failures = 0;
            match ready.tries {
                Some(_) => self.note.taken_again.push(ready.no),
                None => drop(self.fresh.remove(&ready.no)),
            }
        } else {
            self.failures = self.failures.saturating_add(1);
            if self.failures == AWAY_AFTER {
                self.probed_at = Instant::now();
            }
            self.note.pauses |= is_gone;
            let count = ready.tries.unwrap_or(0).saturating_add(1);
            let chance = f64::from(u16::from_be_bytes(store::secrets::random_bytes())) / f64::from(u16::MAX);
            let delays = &self.shared.settings.retry_delays;
            let next_in = if is_gone {
                // It waits for the end of the pause.
                Some(Duration::ZERO)
            } else {
                delays.after(u32::try_from(count).unwrap_or(u32::MAX), retry_after, chance)
            };
            if next_in.is_none() {
                self.shared.metrics.failed();
            }
            self.again.insert(ready.no);
            self.note.not_taken.push(NotTaken {
                event_no: ready.no,
                event_id: ready.message.id,
                event_at: ready.at,
                event_type: ready.event_type,
                tries: count,
                next_in,
                asked: retry_after.map(|asked| asked.min(RETRY_AFTER_MAX)),
                status: shown.status,
                error: shown.error.clone().unwrap_or_default(),
            });
        }
        self.show(shown);
    }

    fn show(&mut self, shown: ReceiverTry) {
        self.note.tries.insert(0, shown);
        self.note.tries.truncate(TRIES_SHOWN);
    }

    /// Writes what became of tries.
    async fn write_note(&mut self, is_idle: bool) -> store::Result<()> {
        self.noted_at = Instant::now();
        // An event that was not taken has a row, so the feed may go on behind it.
        let failed: BTreeSet<i64> = self.note.not_taken.iter().map(|failed| failed.event_no).collect();
        let open = self.fresh.iter().find(|no| !failed.contains(no));
        self.note.through_no = open.map_or(self.looked_through, |no| no - 1);
        if !self.has_news {
            return Ok(());
        }
        let mut note = self.note.clone();
        let shows =
            is_idle || !note.not_taken.is_empty() || self.noted_at >= self.tries_noted_at + TRIES_NOTED_EVERY;
        if !shows {
            note.tries.clear();
        }
        let through_no = note.through_no;
        if !self.shared.store.note_tries(&self.lease, &self.recipient.receiver, note).await? {
            self.is_over = true;
            return Ok(());
        }
        let note = std::mem::replace(&mut self.note, TriesNote { through_no, ..TriesNote::default() });
        self.is_over |= note.pauses;
        if shows {
            self.tries_noted_at = self.noted_at;
        } else {
            self.note.tries = note.tries;
        }
        for failed in &note.not_taken {
            let has_waited = !self.fresh.remove(&failed.event_no);
            self.again.remove(&failed.event_no);
            self.waiting += i64::from(failed.next_in.is_some()) - i64::from(has_waited);
        }
        for gone in &note.gone {
            self.again.remove(gone);
            self.waiting -= 1;
        }
        for taken in &note.taken_again {
            self.again.remove(taken);
            self.waiting -= 1;
        }
        if note.is_back {
            self.due_at = Instant::now();
        }
        self.has_news = !self.note.tries.is_empty();
        Ok(())
    }
}

/// Sends once, unless the receiver's app is a sandbox app and has asked for a fault (contract 15.3).
async fn send(shared: &Shared, recipient: &Recipient, ready: &Ready) -> Tried {
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
