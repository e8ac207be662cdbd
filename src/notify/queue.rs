//! The events that one receiver gets next: those of the feed, which were never tried, and those whose next try is due.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use domain::event::EventType;
use domain::receiver::ReceiverFormat;
use store::{DueDelivery, Event, EventKey, LeasedReceiver, Store, TriesNote};
use time::OffsetDateTime;
use tokio::time::Instant;

use super::message::Message;

/// Events whose texts are read at once.
pub(super) const TOLD_AT_ONCE: usize = 512;
/// How often due deliveries are looked for.
const DUE_EVERY: Duration = Duration::from_millis(250);

/// An event to be sent.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) no: i64,
    pub(super) at: OffsetDateTime,
    pub(super) event_type: EventType,
    pub(super) message: Message,
    /// Its row, if it has one. `None` for an event of the feed.
    pub(super) due: Option<DueDelivery>,
}

impl Ready {
    fn of(event: &Event, format: ReceiverFormat, due: Option<DueDelivery>) -> Self {
        let message = Message::of(event, format);
        Self { no: event.no, at: event.at, event_type: event.event_type, message, due }
    }
}

/// A part of the feed.
pub(super) struct FeedPart {
    keys: Vec<EventKey>,
    through: i64,
    /// Whether the app has events in it, of any type.
    pub(super) has_events: bool,
}

impl FeedPart {
    /// Whether nothing of it goes to the receiver.
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

/// The events of one receiver that are known and not done.
#[derive(Debug)]
pub(super) struct Queue {
    /// Number of events that wait for another try.
    pub(super) waiting: i64,
    /// When due deliveries are looked for.
    pub(super) due_at: Instant,
    /// The number up to which the feed was looked at.
    looked_through: i64,
    /// Events of the feed, in their order, that are not told yet.
    keys: VecDeque<EventKey>,
    ready: VecDeque<Ready>,
    /// Numbers of events of the feed that are not done.
    fresh: BTreeSet<i64>,
    /// Numbers of events under way, or to be written, that have a row of their own.
    again: BTreeSet<i64>,
    /// Numbers of events of the feed that were not accepted, until that is written.
    failed: BTreeSet<i64>,
}

impl Queue {
    pub(super) fn new(receiver: &LeasedReceiver, now: Instant) -> Self {
        Self {
            waiting: receiver.waiting,
            due_at: now,
            looked_through: receiver.through_no,
            keys: VecDeque::new(),
            ready: VecDeque::new(),
            fresh: BTreeSet::new(),
            again: BTreeSet::new(),
            failed: BTreeSet::new(),
        }
    }

    /// Whether no event is known that could be sent.
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.ready.is_empty()
    }

    /// Whether there is no event that can be sent to a receiver that is away: none that was tried before.
    pub(super) fn has_fresh_alone(&self) -> bool {
        self.ready.iter().all(|ready| ready.due.is_none())
    }

    /// Whether no event is told. Some of the feed may be known.
    pub(super) fn has_none_ready(&self) -> bool {
        self.ready.is_empty()
    }

    /// Whether no event of the feed is left to be told.
    pub(super) fn has_told_all(&self) -> bool {
        self.keys.is_empty()
    }

    /// Whether there is enough to send for now.
    pub(super) fn is_full(&self) -> bool {
        self.ready.len() >= TOLD_AT_ONCE / 2
    }

    /// Whether an event of the feed is told or under way.
    pub(super) fn has_fresh_told(&self) -> bool {
        self.fresh.len() > self.keys.len()
    }

    /// Whether the feed has events up to `head` that were not looked at.
    pub(super) fn is_behind(&self, head: i64) -> bool {
        self.looked_through < head
    }

    /// Deliveries that are due, as many as there is room for.
    pub(super) async fn due(
        &mut self,
        store: &Store,
        receiver: &LeasedReceiver,
    ) -> store::Result<Vec<DueDelivery>> {
        self.due_at = Instant::now() + DUE_EVERY;
        // The renewal counts them, too.
        if self.waiting == 0 {
            return Ok(Vec::new());
        }
        let free = TOLD_AT_ONCE.saturating_sub(self.again.len());
        let flying: Vec<i64> = self.again.union(&self.failed).copied().collect();
        let due = store.due_deliveries(receiver, &flying, free).await?;
        if due.len() == free && free > 0 {
            self.due_at = Instant::now();
        }
        Ok(due)
    }

    /// Makes due deliveries ready. Gives the numbers of those of which nothing is left to be sent.
    pub(super) async fn add_due(
        &mut self,
        store: &Store,
        receiver: &LeasedReceiver,
        due: Vec<DueDelivery>,
    ) -> store::Result<Vec<i64>> {
        let numbers: Vec<i64> = due.iter().map(|due| due.event_no).collect();
        let due: HashMap<i64, DueDelivery> = due.into_iter().map(|due| (due.event_no, due)).collect();
        let keys = store.event_keys(&receiver.app_id, &numbers).await?;
        let events = store.tell(keys).await?;
        let told: BTreeSet<i64> = events.iter().map(|event| event.no).collect();
        let gone = numbers.iter().copied().filter(|no| !told.contains(no)).collect();
        self.again.extend(numbers);
        self.ready.extend(
            events.iter().map(|event| Ready::of(event, receiver.format, due.get(&event.no).copied())),
        );
        Ok(gone)
    }

    /// The next part of the feed, if there is one up to `head` and what was found before is told.
    pub(super) async fn look(
        &self,
        store: &Store,
        receiver: &LeasedReceiver,
        head: i64,
    ) -> store::Result<Option<FeedPart>> {
        if !self.keys.is_empty() || !self.is_behind(head) {
            return Ok(None);
        }
        let (keys, through, has_events) =
            store.events_after(&receiver.app_id, self.looked_through, &receiver.types).await?;
        Ok(Some(FeedPart { keys, through, has_events }))
    }

    /// Adds a part of the feed.
    pub(super) fn add_found(&mut self, found: FeedPart) {
        self.fresh.extend(found.keys.iter().map(|key| key.no));
        self.keys.extend(found.keys);
        self.looked_through = found.through;
    }

    /// Makes events of the feed ready, `limit` at most.
    pub(super) async fn tell_fresh(
        &mut self,
        store: &Store,
        format: ReceiverFormat,
        limit: usize,
    ) -> store::Result<()> {
        let keys: Vec<EventKey> = self.keys.iter().take(limit).cloned().collect();
        let numbers: Vec<i64> = keys.iter().map(|key| key.no).collect();
        let events = store.tell(keys).await?;
        self.keys.drain(..numbers.len());
        // One whose row is gone can never be sent.
        let told: BTreeSet<i64> = events.iter().map(|event| event.no).collect();
        self.fresh.retain(|no| told.contains(no) || !numbers.contains(no));
        self.ready.extend(events.iter().map(|event| Ready::of(event, format, None)));
        Ok(())
    }

    /// Lets go of what was not begun, which keeps its place in the feed.
    pub(super) fn let_go(&mut self) {
        (self.keys, self.ready) = Default::default();
    }

    /// The next event.
    pub(super) fn next(&mut self) -> Option<Ready> {
        self.ready.pop_front()
    }

    /// The next event that was tried before.
    pub(super) fn next_again(&mut self) -> Option<Ready> {
        let place = self.ready.iter().position(|ready| ready.due.is_some())?;
        self.ready.remove(place)
    }

    /// An event of the feed was taken at its first try.
    pub(super) fn was_taken(&mut self, no: i64) {
        self.fresh.remove(&no);
    }

    /// An event of the feed was not accepted. It is not due again before that is written.
    pub(super) fn was_not_taken(&mut self, no: i64) {
        self.failed.insert(no);
    }

    /// The number up to which every event was tried once. One that was not accepted has a row once the note is written,
    /// so the feed may go on behind it.
    pub(super) fn through_no(&self, note: &TriesNote) -> i64 {
        let failed: BTreeSet<i64> = note.not_taken.iter().map(|failed| failed.event_no).collect();
        let open = self.fresh.iter().find(|no| !failed.contains(no));
        open.map_or(self.looked_through, |no| no - 1)
    }

    /// Forgets what is written.
    pub(super) fn forget(&mut self, written: &TriesNote) {
        for failed in &written.not_taken {
            let has_waited = failed.due_at.is_some();
            if has_waited {
                self.again.remove(&failed.event_no);
            } else {
                self.fresh.remove(&failed.event_no);
                self.failed.remove(&failed.event_no);
            }
            self.waiting += i64::from(failed.next_in.is_some()) - i64::from(has_waited);
        }
        let taken = written.taken_again.iter().map(|taken| &taken.event_no);
        for done in written.gone.iter().chain(taken) {
            self.again.remove(done);
            self.waiting -= 1;
        }
    }
}
