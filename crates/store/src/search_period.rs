//! The period of a search that no index bounds: what it may read at most (operators' contract 8.5.9).

use time::{Duration, OffsetDateTime};

/// The longest period of such a search: a quarter of a year.
pub const SEARCH_PERIOD_DAYS_MAX: i64 = 92;

/// Whether a period has a beginning and is short enough. Without an end it ends now.
pub(crate) fn is_bounded(
    since: Option<OffsetDateTime>,
    until: Option<OffsetDateTime>,
    now: OffsetDateTime,
) -> bool {
    since.is_some_and(|since| until.unwrap_or(now) - since <= Duration::days(SEARCH_PERIOD_DAYS_MAX))
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    #[test]
    fn a_period_begins_at_most_92_days_before_its_end() {
        let now = datetime!(2026-12-31 0:00 UTC);
        let day = Some(datetime!(2026-09-30 0:00 UTC));
        assert!(is_bounded(day, None, now));
        assert!(!is_bounded(day, Some(datetime!(2026-12-31 0:01 UTC)), now));
        assert!(!is_bounded(None, Some(now), now));
        assert!(is_bounded(Some(datetime!(2020-01-01 0:00 UTC)), Some(datetime!(2020-04-02 0:00 UTC)), now));
    }
}
