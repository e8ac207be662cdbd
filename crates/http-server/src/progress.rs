//! The step that a connection is in, and the deadline of that step.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::framing::{Framing, HeadFault};
use crate::limits::ServerLimits;

/// How long a drain waits for the first byte of a new connection. Its client has just connected,
/// and the request is probably on the way.
const FRESH_GRACE: Duration = Duration::from_millis(250);

/// The part of a response that the peer must accept within the write time-out. So a peer that reads a
/// few bytes now and then does not hold a connection for ever.
const PACE_BYTES: usize = 256 * 1024;

/// How often a handler that asks for the peer looks at it.
const PEER_LOOKED_AT_EVERY: Duration = Duration::from_millis(250);

/// The longest lingering close.
const LINGER_TIME_MAX: Duration = Duration::from_secs(10);
/// The longest lingering close without a byte from the peer.
const LINGER_STALL_MAX: Duration = Duration::from_secs(2);

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The first byte after it was accepted.
    Fresh,
    /// The first byte of the next request.
    Idle,
    /// The rest of a request's head.
    ReceivingHead,
    /// The router's response.
    Handling,
    /// The peer, which must read the rest of the response.
    Flushing,
    /// The rest of a request whose response is out already.
    ReceivingRest,
    /// The peer, which must stop sending and close.
    Lingering,
}

/// The state of one connection. Its socket, its service and its watchdog share it. All of them run
/// in the connection's own task, one after the other.
#[derive(Debug)]
pub(super) struct ConnectionProgress {
    phase: Phase,
    since: Instant,
    framing: Framing,
    request_bytes: u64,
    write_blocked_since: Option<Instant>,
    /// Bytes that the peer has accepted of the present [`PACE_BYTES`], and the time it was waited for.
    paced_bytes: usize,
    paced_wait: Duration,
    last_discarded: Instant,
    draining_since: Option<Instant>,
    unread_bytes: u64,
    peer: PeerState,
}

/// The known state of the peer's own end while the router works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum PeerState {
    /// Nobody asks.
    #[default]
    Unwatched,
    Open,
    Closed,
}

impl ConnectionProgress {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            phase: Phase::Fresh,
            since: now,
            framing: Framing::default(),
            request_bytes: 0,
            write_blocked_since: None,
            paced_bytes: 0,
            paced_wait: Duration::ZERO,
            last_discarded: now,
            draining_since: None,
            unread_bytes: 0,
            peer: PeerState::Unwatched,
        }
    }

    /// Whether the peer was seen to close its side. From the first question on it is looked for.
    fn has_peer_closed(&mut self) -> bool {
        if self.peer == PeerState::Unwatched {
            self.peer = PeerState::Open;
        }
        self.peer == PeerState::Closed
    }

    /// Looks whether the peer has closed its side, if somebody asks.
    pub(super) fn look_at_peer(&mut self, is_closed: impl FnOnce() -> bool) {
        if self.peer == PeerState::Open && is_closed() {
            self.peer = PeerState::Closed;
        }
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    fn enter(&mut self, phase: Phase, now: Instant) {
        self.phase = phase;
        self.since = now;
    }

    /// hyper has read these bytes.
    pub(super) fn received(&mut self, bytes: &[u8], now: Instant) {
        self.framing.received(bytes);
        self.request_bytes += bytes.len() as u64;
        if self.phase == Phase::ReceivingRest {
            self.end_exchange(now);
        } else if matches!(self.phase, Phase::Fresh | Phase::Idle) && self.framing.is_in_head() {
            self.enter(Phase::ReceivingHead, now);
        }
    }

    /// Why the head that is being received, or that the router does not have yet, is refused.
    pub(super) fn head_fault(&self) -> Option<HeadFault> {
        self.framing.head_fault()
    }

    /// hyper has parsed a request with a body of this length; `None` means chunked. Gives why the router does not get it.
    pub(super) fn request_begins(&mut self, body_bytes: Option<u64>, now: Instant) -> Option<HeadFault> {
        // hyper may begin the next request before the last response is out.
        if matches!(self.phase, Phase::Flushing | Phase::ReceivingRest) {
            self.framing.request_ends();
            self.request_bytes = 0;
        }
        let fault = self.framing.request_begins(body_bytes);
        self.enter(Phase::Handling, now);
        fault
    }

    /// hyper has the whole response.
    pub(super) fn response_ends(&mut self, now: Instant) {
        if self.phase == Phase::Handling {
            self.enter(Phase::Flushing, now);
        }
    }

    /// The kernel has accepted all that hyper had to write.
    pub(super) fn flushed(&mut self, now: Instant) {
        if self.phase == Phase::Flushing {
            (self.paced_bytes, self.paced_wait) = (0, Duration::ZERO);
            self.enter(Phase::ReceivingRest, now);
            self.end_exchange(now);
        }
    }

    fn end_exchange(&mut self, now: Instant) {
        if self.framing.is_request_complete() {
            self.framing.request_ends();
            self.request_bytes = 0;
            self.enter(if self.framing.is_in_head() { Phase::ReceivingHead } else { Phase::Idle }, now);
        }
    }

    /// The kernel accepted this many bytes to write. `None`: it has no room, because the peer does
    /// not read.
    pub(super) fn wrote(&mut self, accepted: Option<usize>, now: Instant) {
        let Some(bytes) = accepted else {
            self.write_blocked_since.get_or_insert(now);
            return;
        };
        if let Some(since) = self.write_blocked_since.take() {
            self.paced_wait += now - since;
        }
        self.paced_bytes += bytes;
        if self.paced_bytes >= PACE_BYTES {
            (self.paced_bytes, self.paced_wait) = (0, Duration::ZERO);
        }
    }

    /// The write side is closed, and the lingering close begins.
    pub(super) fn lingers(&mut self, now: Instant) {
        self.enter(Phase::Lingering, now);
        self.last_discarded = now;
    }

    /// The lingering close has discarded this many bytes.
    pub(super) fn discarded(&mut self, bytes: usize, now: Instant) {
        self.request_bytes += bytes as u64;
        self.last_discarded = now;
    }

    /// Bytes that arrived after the last complete request: those of the present one.
    pub(super) fn request_bytes(&self) -> u64 {
        self.request_bytes
    }

    /// The server stops, or needs the place: this connection ends with the requests that have begun.
    pub(super) fn drain(&mut self, now: Instant) {
        self.draining_since.get_or_insert(now);
    }

    /// Since when no request is under way; `None` while one is.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        matches!(self.phase, Phase::Fresh | Phase::Idle).then_some(self.since)
    }

    pub(super) fn is_draining(&self) -> bool {
        self.draining_since.is_some()
    }

    /// How many bytes have arrived and wait to be read. It is kept up to date in a drain only.
    pub(super) fn note_unread_bytes(&mut self, bytes: u64) {
        self.unread_bytes = bytes;
    }

    /// Whether the server stops, every request has its response, and nothing waits to be read.
    pub(super) fn is_over(&self) -> bool {
        self.is_draining() && self.phase == Phase::Idle && self.unread_bytes == 0
    }

    /// Whether the present response is the connection's last. It is if the server will not read the
    /// rest of its request, or if the server stops and no other request has begun.
    pub(super) fn is_last_response(&self) -> bool {
        let next_has_begun = self.unread_bytes > 0 || self.framing.has_begun_next();
        !self.framing.is_request_complete() || (self.is_draining() && !next_has_begun)
    }

    /// Whether the peer may be sending now, so that a close could destroy the response.
    pub(super) fn peer_may_be_sending(&self) -> bool {
        match self.phase {
            Phase::Idle => false,
            Phase::Handling | Phase::Flushing => {
                !self.framing.is_request_complete() || self.framing.has_begun_next()
            }
            Phase::Fresh | Phase::ReceivingHead | Phase::ReceivingRest | Phase::Lingering => true,
        }
    }

    /// When the watchdog drops the connection, unless something happens before. `None` while the
    /// router works: handlers limit their own time.
    pub(super) fn deadline(&self, limits: &ServerLimits) -> Option<Instant> {
        let of_phase = match self.phase {
            Phase::Fresh => {
                let silent = self.since + limits.header_timeout;
                Some(self.draining_since.map_or(silent, |drain| silent.min(drain + FRESH_GRACE)))
            }
            Phase::Idle => Some(self.since + limits.keep_alive_timeout),
            Phase::ReceivingHead | Phase::ReceivingRest => Some(self.since + limits.header_timeout),
            Phase::Handling | Phase::Flushing => None,
            Phase::Lingering => {
                Some((self.since + LINGER_TIME_MAX).min(self.last_discarded + LINGER_STALL_MAX))
            }
        };
        let of_write = self.write_blocked_since;
        let of_write = of_write.map(|since| since + limits.write_timeout.saturating_sub(self.paced_wait));
        of_phase.into_iter().chain(of_write).min()
    }
}

/// A shared handle to the [`ConnectionProgress`] of one connection.
#[derive(Clone, Debug)]
pub(super) struct SharedProgress(Arc<Mutex<ConnectionProgress>>);

/// The other end of a connection: its address, and when it has gone. Each request has it among its extensions.
#[derive(Clone, Debug)]
pub struct Peer {
    address: SocketAddr,
    progress: SharedProgress,
}

impl Peer {
    pub(super) fn new(address: SocketAddr, progress: SharedProgress) -> Self {
        Self { address, progress }
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until the peer has closed its side of the connection, or has reset it. TCP does not tell a client that has gone
    /// from one that sends nothing more and still reads. So a response is still to be sent. The handler must wait for this in
    /// the task that called it.
    pub async fn closed(&self) {
        while !self.progress.lock().has_peer_closed() {
            sleep(PEER_LOOKED_AT_EVERY).await;
        }
    }
}

impl SharedProgress {
    pub(super) fn new(now: Instant) -> Self {
        Self(Arc::new(Mutex::new(ConnectionProgress::new(now))))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, ConnectionProgress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::{ConnectionProgress, FRESH_GRACE, LINGER_STALL_MAX, LINGER_TIME_MAX, PACE_BYTES, Phase};
    use crate::framing::HeadFault;
    use crate::limits::ServerLimits;
    use crate::tests::LIMITS;

    const GET: &[u8] = b"GET / HTTP/1.1\r\n\r\n";

    /// The deadline without those of the phases.
    fn write_deadline(progress: &ConnectionProgress) -> Option<Instant> {
        let day = Duration::from_hours(24);
        progress.deadline(&ServerLimits { header_timeout: day, keep_alive_timeout: day, ..LIMITS })
    }

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    /// Rule: hyper may begin the next request before the last response is out. Its head is judged all the same.
    #[test]
    fn a_head_is_judged_although_the_last_response_is_not_out() {
        let now = Instant::now();
        let mut progress = ConnectionProgress::new(now);
        progress.received(&[GET, b"GET / HTTP/1.1\n\r\n"].concat(), now);
        assert_eq!(progress.request_begins(Some(0), now), None);
        progress.response_ends(now);
        assert_eq!(progress.phase(), Phase::Flushing);
        assert_eq!(progress.request_begins(Some(0), now), Some(HeadFault::BareLineFeed));
    }

    /// 10 s from accept, 10 s from a head's first byte, 75 s between requests.
    #[test]
    fn each_phase_has_its_own_deadline() {
        let limits = LIMITS;
        let start = Instant::now();
        let mut progress = ConnectionProgress::new(start);
        assert_eq!(progress.deadline(&limits), Some(after(start, 10)));
        progress.received(b"\r\n", after(start, 1));
        assert_eq!(progress.deadline(&limits), Some(after(start, 10)), "a line end begins nothing");
        progress.received(&GET[..5], after(start, 2));
        progress.received(&GET[5..], after(start, 9));
        assert_eq!(progress.deadline(&limits), Some(after(start, 12)), "from the first byte on");
        progress.request_begins(Some(0), after(start, 9));
        assert_eq!(progress.deadline(&limits), None);
        progress.response_ends(after(start, 10));
        progress.wrote(None, after(start, 10));
        progress.wrote(None, after(start, 11));
        assert_eq!(progress.deadline(&limits), Some(after(start, 40)), "blocked since 10");
        progress.wrote(Some(1), after(start, 12));
        assert_eq!(progress.deadline(&limits), None);
        progress.flushed(after(start, 13));
        assert_eq!(progress.phase(), Phase::Idle);
        assert_eq!(progress.deadline(&limits), Some(after(start, 88)));
    }

    /// Rule: a peer has the write time-out for each 256 KiB, and time in which nothing is written does not count.
    #[test]
    fn a_peer_must_keep_a_pace() {
        let start = Instant::now();
        let mut progress = ConnectionProgress::new(start);
        progress.wrote(None, start);
        progress.wrote(Some(PACE_BYTES - 1), after(start, 20));
        progress.wrote(None, after(start, 100));
        assert_eq!(write_deadline(&progress), Some(after(start, 110)), "10 of 30 seconds are left");
        progress.wrote(Some(1), after(start, 105));
        progress.wrote(None, after(start, 200));
        assert_eq!(write_deadline(&progress), Some(after(start, 230)), "the next 256 KiB");
        progress.wrote(Some(1), after(start, 220));
        progress.request_begins(Some(0), after(start, 221));
        progress.response_ends(after(start, 222));
        progress.flushed(after(start, 223));
        progress.wrote(None, after(start, 300));
        assert_eq!(write_deadline(&progress), Some(after(start, 330)), "the next response");
    }

    #[test]
    fn bytes_are_counted_anew_for_each_request() {
        let start = Instant::now();
        let mut progress = ConnectionProgress::new(start);
        progress.received(GET, start);
        progress.request_begins(Some(0), start);
        progress.response_ends(start);
        assert_eq!(progress.request_bytes(), GET.len() as u64);
        progress.flushed(start);
        assert_eq!(progress.request_bytes(), 0, "the request was complete");
        progress.received(&[GET, GET].concat(), start);
        progress.request_begins(Some(0), start);
        progress.response_ends(start);
        progress.request_begins(Some(0), start);
        assert_eq!(progress.request_bytes(), 0, "another had begun before the response was out");
        progress.discarded(7, start);
        assert_eq!(progress.request_bytes(), 7);
    }

    #[test]
    fn half_a_pipelined_head_is_timed_as_a_head() {
        let start = Instant::now();
        let mut progress = ConnectionProgress::new(start);
        progress.received(&[GET, b"GET /"].concat(), start);
        progress.request_begins(Some(0), start);
        progress.response_ends(start);
        progress.flushed(after(start, 5));
        assert_eq!(progress.phase(), Phase::ReceivingHead);
        assert_eq!(progress.deadline(&LIMITS), Some(after(start, 15)));
    }

    #[test]
    fn lingering_ends_after_a_stall_and_in_any_case() {
        let start = Instant::now();
        let mut progress = ConnectionProgress::new(start);
        progress.lingers(start);
        assert_eq!(progress.deadline(&LIMITS), Some(start + LINGER_STALL_MAX));
        progress.discarded(1, after(start, 9));
        assert_eq!(progress.deadline(&LIMITS), Some(start + LINGER_TIME_MAX));
    }

    #[test]
    fn a_drain_listens_to_a_fresh_connection_for_a_moment() {
        let start = Instant::now();
        let mut progress = ConnectionProgress::new(start);
        progress.drain(after(start, 1));
        assert!(!progress.is_over());
        assert_eq!(progress.deadline(&LIMITS), Some(after(start, 1) + FRESH_GRACE));
    }

    #[test]
    fn a_drain_closes_behind_the_last_request_that_has_begun() {
        let start = Instant::now();
        let mut progress = ConnectionProgress::new(start);
        progress.received(&[GET, b"GET"].concat(), start);
        progress.drain(start);
        progress.request_begins(Some(0), start);
        assert!(!progress.is_last_response(), "another head has begun");
        progress.response_ends(start);
        progress.flushed(start);
        progress.received(&GET[3..], start);
        progress.request_begins(Some(0), start);
        progress.note_unread_bytes(1);
        assert!(!progress.is_last_response(), "a byte of another head waits in the kernel");
        progress.note_unread_bytes(0);
        assert!(progress.is_last_response());
        progress.response_ends(start);
        progress.flushed(start);
        assert!(progress.is_over());
        assert!(!progress.peer_may_be_sending(), "no lingering holds up the close");
        progress.note_unread_bytes(1);
        assert!(!progress.is_over(), "a byte waits in the kernel");
    }
}
