//! The generic cell rate algorithm: a smooth limit with a burst, in one number of state.

use std::time::Duration;

/// State of one limit: when the requests so far will have been paid off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Gcra {
    theoretical_arrival: Duration,
}

impl Gcra {
    /// Lets a request pass at `now` when a share of the limit of `per_second` requests allows it. `shares` (at
    /// least 1) have the limit together. The burst of a share is one second's worth, and at least one request.
    /// 0 requests are no limit (contract 7.2).
    ///
    /// # Errors
    /// How long to wait until a request would pass.
    pub fn admit(&mut self, now: Duration, per_second: u32, shares: u32) -> Result<(), Duration> {
        if per_second == 0 {
            return Ok(());
        }
        let interval = Duration::from_secs(shares.into()) / per_second;
        let burst = interval.max(Duration::from_secs(1));
        let arrival = self.theoretical_arrival.max(now);
        let allowed_at = (arrival + interval).saturating_sub(burst);
        if allowed_at > now {
            return Err(allowed_at.saturating_sub(now));
        }
        self.theoretical_arrival = arrival + interval;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_second_of_burst_passes_then_one_for_each_interval() {
        let mut limit = Gcra::default();
        let start = Duration::from_secs(100);
        for _ in 0..10 {
            assert_eq!(limit.admit(start, 10, 1), Ok(()));
        }
        assert_eq!(limit.admit(start, 10, 1), Err(Duration::from_millis(100)));
        assert_eq!(limit.admit(start + Duration::from_millis(99), 10, 1), Err(Duration::from_millis(1)));
        assert_eq!(limit.admit(start + Duration::from_millis(100), 10, 1), Ok(()));
        assert_eq!(limit.admit(start + Duration::from_millis(100), 10, 1), Err(Duration::from_millis(100)));
    }

    #[test]
    fn a_share_of_a_limit_has_a_burst_of_at_least_one() {
        let mut limit = Gcra::default();
        let start = Duration::from_secs(100);
        assert_eq!(limit.admit(start, 2, 5), Ok(()));
        assert_eq!(limit.admit(start, 2, 5), Err(Duration::from_millis(2500)));
        assert_eq!(limit.admit(start + Duration::from_millis(2500), 2, 5), Ok(()));
    }

    proptest! {
        #[test]
        fn never_more_than_the_rate_and_one_burst(
            per_second in 1_u32..2_000,
            shares in 1_u32..5,
            steps in prop::collection::vec(0_u64..20_000, 1..400),
        ) {
            let mut limit = Gcra::default();
            let mut now = Duration::ZERO;
            let mut passed = 0_u32;
            for step in steps {
                now += Duration::from_micros(step);
                passed += u32::from(limit.admit(now, per_second, shares).is_ok());
            }
            let most = f64::from(per_second) / f64::from(shares) * (1.0 + now.as_secs_f64()) + 1.0;
            prop_assert!(f64::from(passed) <= most, "{passed} of at most {most}");
        }

        #[test]
        fn what_it_says_to_wait_is_enough(
            per_second in 1_u32..2_000,
            shares in 1_u32..5,
            requests in 1_u32..3_000,
        ) {
            let mut limit = Gcra::default();
            let mut now = Duration::from_secs(5);
            for _ in 0..requests {
                if let Err(wait) = limit.admit(now, per_second, shares) {
                    now += wait;
                    prop_assert_eq!(limit.admit(now, per_second, shares), Ok(()));
                }
            }
        }
    }
}
