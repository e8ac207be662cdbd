//! The pace of notifications to one receiver: a rate limit that adapts (contract 12.4.11).

use std::num::NonZeroU32;
use std::time::Duration;

use tokio::time::Instant;

/// Over what time the rate of new events is measured.
const MEASURED_OVER: Duration = Duration::from_millis(500);

/// What a receiver gets of its rate while more events are made.
const OUTRUN_SHARE: f64 = 0.35;

/// Counts how many events a receiver may get now. Exchanges go first: while the till makes more events a second than a
/// receiver may get, it gets about a third of its rate. It falls behind in any case, and exchanges keep the processors.
#[derive(Debug)]
pub(super) struct Pace {
    per_second_max: f64,
    allowed: f64,
    counted_at: Instant,
    /// The newest event when the rate of new events was measured last.
    head: i64,
    measured_at: Instant,
    is_outrun: bool,
}

impl Pace {
    pub(super) fn new(per_second_max: NonZeroU32, head: i64, now: Instant) -> Self {
        Self {
            per_second_max: per_second_max.get().into(),
            allowed: 1.0,
            counted_at: now,
            head,
            measured_at: now,
            is_outrun: false,
        }
    }

    /// Counts on. `head` is the number of the newest event.
    pub(super) fn count(&mut self, head: i64, now: Instant) {
        let measured = (now - self.measured_at).as_secs_f64();
        if measured >= MEASURED_OVER.as_secs_f64() {
            let made = f64::from(u32::try_from(head - self.head).unwrap_or(u32::MAX));
            self.is_outrun = made > self.per_second_max * measured;
            (self.head, self.measured_at) = (head, now);
        }
        let rate = if self.is_outrun { self.per_second_max * OUTRUN_SHARE } else { self.per_second_max };
        let allowed = self.allowed + rate * (now - self.counted_at).as_secs_f64();
        self.allowed = allowed.min((rate / 10.0).max(1.0));
        self.counted_at = now;
    }

    /// Whether one more may go out.
    pub(super) fn allows(&self) -> bool {
        self.allowed >= 1.0
    }

    /// One goes out.
    pub(super) fn take(&mut self) {
        self.allowed -= 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events that go out within a second while this many are made.
    fn sent(pace: &mut Pace, head: &mut i64, now: &mut Instant, made: i64) -> u32 {
        let mut sent = 0;
        for _ in 0..100 {
            (*head, *now) = (*head + made / 100, *now + Duration::from_millis(10));
            pace.count(*head, *now);
            while pace.allows() {
                pace.take();
                sent += 1;
            }
        }
        sent
    }

    /// Rule: at most `notify.per_second_max` a second, and 35 percent of it while more events are made.
    #[test]
    fn fewer_while_more_events_are_made_than_may_go_out() {
        let (mut head, mut now) = (7, Instant::now());
        let mut pace = Pace::new(NonZeroU32::new(1_000).unwrap(), head, now);
        let mut sent = |made| sent(&mut pace, &mut head, &mut now, made);
        assert!((990..=1_010).contains(&sent(1_000)), "as many are made as may go out");
        sent(1_100);
        assert!((340..=360).contains(&sent(1_100)), "more are made");
        sent(500);
        assert!((990..=1_010).contains(&sent(500)), "the receiver catches up");
    }

    /// Rule: what was not used is kept for a tenth of a second.
    #[test]
    fn a_pause_allows_no_flood() {
        let now = Instant::now();
        let mut pace = Pace::new(NonZeroU32::new(1_000).unwrap(), 0, now);
        pace.count(0, now + Duration::from_mins(1));
        let mut sent = 0;
        while pace.allows() {
            pace.take();
            sent += 1;
        }
        assert_eq!(sent, 100);
    }
}
