//! How far a connection is, and until when it may stay there (contract 2.7).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::Limits;
use super::framing::Framing;

/// How long an accepted connection that has sent nothing is still listened to in a drain. Its
/// client has just connected, and the request is most likely on the way.
const FRESH_GRACE: Duration = Duration::from_millis(250);

/// How long a client that still sends is read after its answer, all told and without a byte.
const LINGER_TIME_MAX: Duration = Duration::from_secs(10);
const LINGER_STALL_MAX: Duration = Duration::from_secs(2);

/// What a connection is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The first byte since it was accepted.
    Fresh,
    /// The first byte of the next request.
    Idle,
    /// The rest of a request's head.
    ReceivingHead,
    /// The router's answer.
    Handling,
    /// The peer, to take the rest of the answer.
    Flushing,
    /// The rest of a request that has been answered already.
    Answered,
    /// The peer, to stop sending and close.
    Lingering,
}

/// The state of one connection. Its socket, service and watchdog share it; all of them run in the
/// connection's own task, one after the other.
#[derive(Debug)]
pub(super) struct Progress {
    phase: Phase,
    since: Instant,
    framing: Framing,
    request_bytes: u64,
    write_blocked_since: Option<Instant>,
    last_discarded: Instant,
    draining_since: Option<Instant>,
    unread_bytes: u64,
}

impl Progress {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            phase: Phase::Fresh,
            since: now,
            framing: Framing::default(),
            request_bytes: 0,
            write_blocked_since: None,
            last_discarded: now,
            draining_since: None,
            unread_bytes: 0,
        }
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    fn enter(&mut self, phase: Phase, now: Instant) {
        self.phase = phase;
        self.since = now;
    }

    /// hyper was given these bytes from the socket.
    pub(super) fn received(&mut self, bytes: &[u8], now: Instant) {
        self.framing.received(bytes);
        self.request_bytes += bytes.len() as u64;
        match self.phase {
            Phase::Fresh | Phase::Idle if self.framing.is_in_head() => self.enter(Phase::ReceivingHead, now),
            Phase::Answered => self.end_exchange(now),
            Phase::Fresh
            | Phase::Idle
            | Phase::ReceivingHead
            | Phase::Handling
            | Phase::Flushing
            | Phase::Lingering => {}
        }
    }

    /// The router is given a request; the length of its body is `None` when it is chunked.
    pub(super) fn request_begins(&mut self, body_bytes: Option<u64>, now: Instant) {
        // hyper may go on to the next request while the last answer is still on its way out.
        if matches!(self.phase, Phase::Flushing | Phase::Answered) {
            self.framing.request_ends();
            self.request_bytes = 0;
        }
        self.framing.request_begins(body_bytes);
        self.enter(Phase::Handling, now);
    }

    /// The whole answer is in hyper's hands.
    pub(super) fn answer_ends(&mut self, now: Instant) {
        if self.phase == Phase::Handling {
            self.enter(Phase::Flushing, now);
        }
    }

    /// The kernel has taken all that hyper had to write.
    pub(super) fn flushed(&mut self, now: Instant) {
        if self.phase == Phase::Flushing {
            self.enter(Phase::Answered, now);
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

    /// The kernel took bytes to write, or (`blocked`) has no room because the peer does not read.
    pub(super) fn wrote(&mut self, blocked: bool, now: Instant) {
        self.write_blocked_since = blocked.then(|| self.write_blocked_since.unwrap_or(now));
    }

    /// The write side is closed; what the peer still sends is discarded.
    pub(super) fn lingers(&mut self, now: Instant) {
        self.enter(Phase::Lingering, now);
        self.last_discarded = now;
    }

    /// This many bytes came and were discarded.
    pub(super) fn discarded(&mut self, bytes: usize, now: Instant) {
        self.request_bytes += bytes as u64;
        self.last_discarded = now;
    }

    /// Bytes that came since the last request was complete: of the one that is under way.
    pub(super) fn request_bytes(&self) -> u64 {
        self.request_bytes
    }

    /// The server stops: this connection ends with the requests that have begun.
    pub(super) fn drain(&mut self, now: Instant) {
        self.draining_since.get_or_insert(now);
    }

    pub(super) fn is_draining(&self) -> bool {
        self.draining_since.is_some()
    }

    /// How many bytes have come and wait to be read; kept up to date while the connection drains.
    pub(super) fn note_unread_bytes(&mut self, bytes: u64) {
        self.unread_bytes = bytes;
    }

    /// Whether the connection has had its requests, all that it sent is read, and the server stops.
    pub(super) fn is_over(&self) -> bool {
        self.is_draining() && self.phase == Phase::Idle && self.unread_bytes == 0
    }

    /// Whether the answer that is being made is the connection's last: the rest of its request is
    /// not going to be read, or the server stops and no other request has begun.
    pub(super) fn answers_last(&self) -> bool {
        let next_has_begun = self.unread_bytes > 0 || self.framing.has_begun_next();
        !self.framing.is_request_complete() || (self.is_draining() && !next_has_begun)
    }

    /// Whether the peer may be in the middle of sending, so that closing could destroy the answer.
    pub(super) fn peer_may_be_sending(&self) -> bool {
        match self.phase {
            Phase::Idle => false,
            Phase::Handling | Phase::Flushing => {
                !self.framing.is_request_complete() || self.framing.has_begun_next()
            }
            Phase::Fresh | Phase::ReceivingHead | Phase::Answered | Phase::Lingering => true,
        }
    }

    /// When the connection is to be dropped unless something happens before; `None` while the
    /// router works, whose time the handlers limit.
    pub(super) fn deadline(&self, limits: &Limits) -> Option<Instant> {
        let of_phase = match self.phase {
            Phase::Fresh => {
                let silent = self.since + limits.header_timeout;
                Some(self.draining_since.map_or(silent, |drain| silent.min(drain + FRESH_GRACE)))
            }
            Phase::Idle => Some(self.since + limits.keep_alive_timeout),
            Phase::ReceivingHead | Phase::Answered => Some(self.since + limits.header_timeout),
            Phase::Handling | Phase::Flushing => None,
            Phase::Lingering => {
                Some((self.since + LINGER_TIME_MAX).min(self.last_discarded + LINGER_STALL_MAX))
            }
        };
        let of_write = self.write_blocked_since.map(|since| since + limits.write_timeout);
        of_phase.into_iter().chain(of_write).min()
    }
}

/// The handle through which the parts of one connection reach its [`Progress`].
#[derive(Clone, Debug)]
pub(super) struct SharedProgress(Arc<Mutex<Progress>>);

impl SharedProgress {
    pub(super) fn new(now: Instant) -> Self {
        Self(Arc::new(Mutex::new(Progress::new(now))))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Progress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::{FRESH_GRACE, LINGER_STALL_MAX, LINGER_TIME_MAX, Phase, Progress};
    use crate::Limits;

    const GET: &[u8] = b"GET / HTTP/1.1\r\n\r\n";

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    /// Contract 2.7: 10 s from accept, 10 s from a head's first byte, 75 s between requests.
    #[test]
    fn each_phase_has_its_own_deadline() {
        let limits = Limits::default();
        let start = Instant::now();
        let mut progress = Progress::new(start);
        assert_eq!(progress.deadline(&limits), Some(after(start, 10)));
        progress.received(b"\r\n", after(start, 1));
        assert_eq!(progress.deadline(&limits), Some(after(start, 10)), "a line end begins nothing");
        progress.received(&GET[..5], after(start, 2));
        progress.received(&GET[5..], after(start, 9));
        assert_eq!(progress.deadline(&limits), Some(after(start, 12)), "from the first byte on");
        progress.request_begins(Some(0), after(start, 9));
        assert_eq!(progress.deadline(&limits), None);
        progress.answer_ends(after(start, 10));
        progress.wrote(true, after(start, 10));
        progress.wrote(true, after(start, 11));
        assert_eq!(progress.deadline(&limits), Some(after(start, 40)), "blocked since 10");
        progress.wrote(false, after(start, 12));
        assert_eq!(progress.deadline(&limits), None);
        progress.flushed(after(start, 13));
        assert_eq!(progress.phase(), Phase::Idle);
        assert_eq!(progress.deadline(&limits), Some(after(start, 88)));
    }

    /// Contract 2.7: bytes count for one request, not for all that a connection ever had.
    #[test]
    fn bytes_are_counted_anew_for_each_request() {
        let start = Instant::now();
        let mut progress = Progress::new(start);
        progress.received(GET, start);
        progress.request_begins(Some(0), start);
        progress.answer_ends(start);
        assert_eq!(progress.request_bytes(), GET.len() as u64);
        progress.flushed(start);
        assert_eq!(progress.request_bytes(), 0, "the request was complete");
        progress.received(&[GET, GET].concat(), start);
        progress.request_begins(Some(0), start);
        progress.answer_ends(start);
        progress.request_begins(Some(0), start);
        assert_eq!(progress.request_bytes(), 0, "another had begun before the answer was out");
        progress.discarded(7, start);
        assert_eq!(progress.request_bytes(), 7);
    }

    #[test]
    fn half_a_pipelined_head_is_timed_as_a_head() {
        let start = Instant::now();
        let mut progress = Progress::new(start);
        progress.received(&[GET, b"GET /"].concat(), start);
        progress.request_begins(Some(0), start);
        progress.answer_ends(start);
        progress.flushed(after(start, 5));
        assert_eq!(progress.phase(), Phase::ReceivingHead);
        assert_eq!(progress.deadline(&Limits::default()), Some(after(start, 15)));
    }

    #[test]
    fn lingering_ends_after_a_stall_and_in_any_case() {
        let start = Instant::now();
        let mut progress = Progress::new(start);
        progress.lingers(start);
        assert_eq!(progress.deadline(&Limits::default()), Some(start + LINGER_STALL_MAX));
        progress.discarded(1, after(start, 9));
        assert_eq!(progress.deadline(&Limits::default()), Some(start + LINGER_TIME_MAX));
    }

    #[test]
    fn a_drain_listens_to_a_fresh_connection_for_a_moment() {
        let start = Instant::now();
        let mut progress = Progress::new(start);
        progress.drain(after(start, 1));
        assert!(!progress.is_over());
        assert_eq!(progress.deadline(&Limits::default()), Some(after(start, 1) + FRESH_GRACE));
    }

    /// Contract 9: what has begun to come, here or in the kernel, is answered before the close.
    #[test]
    fn a_drain_closes_behind_the_last_request_that_has_begun() {
        let start = Instant::now();
        let mut progress = Progress::new(start);
        progress.received(&[GET, b"GET"].concat(), start);
        progress.drain(start);
        progress.request_begins(Some(0), start);
        assert!(!progress.answers_last(), "another head has begun");
        progress.answer_ends(start);
        progress.flushed(start);
        progress.received(&GET[3..], start);
        progress.request_begins(Some(0), start);
        progress.note_unread_bytes(1);
        assert!(!progress.answers_last(), "a byte of another head waits in the kernel");
        progress.note_unread_bytes(0);
        assert!(progress.answers_last());
        progress.answer_ends(start);
        progress.flushed(start);
        assert!(progress.is_over());
        progress.note_unread_bytes(1);
        assert!(!progress.is_over(), "a byte waits in the kernel");
    }
}
