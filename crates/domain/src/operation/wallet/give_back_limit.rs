//! The limit of what an operator gives back of an exchange (contract 8.6.38).

use super::refusal::{above_limit, above_rest_of_limit};
use crate::operation::OperationRefusal;

/// How many coins of an exchange an operator may give back. What others gave back of it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GiveBackLimit {
    max: i64,
    /// What the exchange took.
    taken: i64,
}

impl GiveBackLimit {
    /// At most `max` coins of an exchange that took `taken`.
    #[must_use]
    pub const fn new(max: i64, taken: i64) -> Self {
        Self { max, taken }
    }

    /// How many coins the operator may give back while `remaining` are left of the exchange. Negative where others gave
    /// back more than the limit.
    #[must_use]
    pub fn allowed(self, remaining: i64) -> i64 {
        remaining.min(self.max.saturating_sub(self.given(remaining)))
    }

    /// Checks that the operator may give back these coins while `remaining` are left of the exchange.
    ///
    /// # Errors
    /// They are above the limit.
    pub fn check(self, remaining: i64, coins: i64) -> Result<(), OperationRefusal> {
        if coins <= self.allowed(remaining) {
            return Ok(());
        }
        Err(match self.given(remaining) {
            0 => above_limit(self.max),
            given => above_rest_of_limit(self.max, given),
        })
    }

    const fn given(self, remaining: i64) -> i64 {
        self.taken.saturating_sub(remaining)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract 8.6.38.
    #[test]
    fn what_was_given_back_counts() {
        let limit = GiveBackLimit::new(1000, 2000);
        for (remaining, allowed) in [(2000, 1000), (1400, 400), (1000, 0), (500, -500)] {
            assert_eq!(limit.allowed(remaining), allowed);
        }
        assert_eq!(GiveBackLimit::new(1000, 600).allowed(600), 600, "no more than is left");
        assert_eq!(limit.check(2000, 1000), Ok(()));
        assert_eq!(limit.check(2000, 1001), Err(above_limit(1000)));
        assert_eq!(limit.check(1400, 400), Ok(()));
        assert_eq!(limit.check(1400, 401), Err(above_rest_of_limit(1000, 600)));
    }
}
