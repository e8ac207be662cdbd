//! The hours, days or weeks of a report, by the clock of its time zone.

use domain::period::{TimeSpan, TimeZone};
use time::OffsetDateTime;

use super::revenue::{HOUR, RevenueGroup, Span, hour_before};
use crate::error::{Result, StoreError};

/// The lengths of time of a report. The database counts with their beginnings, so that it need not know the time zone.
/// Its data may be older than those of the statement and the bill.
#[derive(Debug, Default)]
pub(super) struct TimeGroups {
    names: Vec<String>,
    /// Of each of them. `width_bucket` gives the number of one by them, from 1 on.
    pub(super) starts: Vec<OffsetDateTime>,
}

impl TimeGroups {
    /// Those that a span touches.
    pub(super) fn new(group: RevenueGroup, zone: &TimeZone, span: Span) -> Self {
        let (names, starts) = named(group, zone, span).into_iter().unzip();
        Self { names, starts }
    }

    pub(super) fn name(&self, number: i32) -> Result<String> {
        let place = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
        let name = place.and_then(|place| self.names.get(place));
        name.cloned().ok_or_else(|| StoreError::Internal("an entry outside its report".to_owned()))
    }

    /// The hours of a span in which one begins, but not at their beginning: zones with half and quarter hours have them.
    pub(super) fn split_hours(&self, (since, until): Span) -> impl Iterator<Item = OffsetDateTime> {
        let starts = self.starts.iter().filter(|start| hour_before(**start) != **start);
        starts.map(|start| hour_before(*start)).filter(move |hour| (since..until).contains(hour))
    }
}

/// The hours, days or weeks that a span touches, oldest first, each with the moment at which it begins. A group that is
/// no length of time has none.
#[must_use]
pub fn named(group: RevenueGroup, zone: &TimeZone, (since, until): Span) -> Vec<(String, OffsetDateTime)> {
    let span = TimeSpan { since, until };
    match group {
        RevenueGroup::Hour => {
            let hours = std::iter::successors(Some(hour_before(since)), |hour| hour.checked_add(HOUR));
            hours.take_while(|hour| *hour < until).map(|hour| (hour_name(zone, hour), hour)).collect()
        }
        RevenueGroup::Day => zone.days(span).into_iter().map(named_day).collect(),
        RevenueGroup::Week => zone.weeks(span).into_iter().map(named_day).collect(),
        RevenueGroup::App | RevenueGroup::ProductName | RevenueGroup::Zone | RevenueGroup::Os => Vec::new(),
    }
}

fn named_day((day, start): (impl std::fmt::Display, OffsetDateTime)) -> (String, OffsetDateTime) {
    (day.to_string(), start)
}

/// An hour as the clock of a zone shows its beginning, with the offset: a clock may show an hour twice.
fn hour_name(zone: &TimeZone, hour: OffsetDateTime) -> String {
    let clock = zone.clock(hour);
    let offset = (clock.assume_utc() - hour).whole_minutes();
    let (sign, minutes) = (if offset < 0 { '-' } else { '+' }, offset.unsigned_abs());
    let time = clock.time();
    format!(
        "{}T{:02}:{:02}{sign}{:02}:{:02}",
        clock.date(),
        time.hour(),
        time.minute(),
        minutes / 60,
        minutes % 60
    )
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    fn names(group: RevenueGroup, zone: &str, span: Span) -> Vec<String> {
        let zone = TimeZone::parse(zone).unwrap();
        named(group, &zone, span).into_iter().map(|(name, _)| name).collect()
    }

    /// Rule 13.2.4: an hour that the clock shows twice is two hours, and one of a zone with half hours keeps its beginning.
    #[test]
    fn hours_are_those_of_utc_by_the_clock_of_the_zone() {
        let span = (datetime!(2026-10-25 00:10 UTC), datetime!(2026-10-25 02:00 UTC));
        let berlin = ["2026-10-25T02:00+02:00", "2026-10-25T02:00+01:00"];
        assert_eq!(names(RevenueGroup::Hour, "Europe/Berlin", span), berlin);
        let kolkata = ["2026-10-25T05:30+05:30", "2026-10-25T06:30+05:30"];
        assert_eq!(names(RevenueGroup::Hour, "Asia/Kolkata", span), kolkata);
    }

    /// Rule 13.2.4: weeks begin on Mondays, the first of them before the span.
    #[test]
    fn weeks_begin_on_mondays() {
        let weeks = |since, until| names(RevenueGroup::Week, "Asia/Shanghai", (since, until));
        let monday = datetime!(2026-10-25 16:00 UTC);
        assert_eq!(weeks(monday, datetime!(2026-11-01 16:00 UTC)), ["2026-10-26"]);
        let both = ["2026-10-19", "2026-10-26"];
        assert_eq!(weeks(datetime!(2026-10-25 15:59 UTC), datetime!(2026-10-25 16:01 UTC)), both);
        assert!(names(RevenueGroup::Zone, "UTC", (monday, monday)).is_empty());
    }
}
