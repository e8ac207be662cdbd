//! Periods that people ask for by a word, such as the last 7 days, each with the period before it.

use jiff::Span as Distance;
use jiff::civil::Date;
use time::OffsetDateTime;

use super::{Period, TimeSpan, TimeZone};

crate::word_enum! {
    /// A period by its word. Each is of whole days, and `today` is the last of those that have not ended.
    pub enum Preset {
        /// The day that it is.
        Today = "today",
        /// The day before.
        Yesterday = "yesterday",
        /// The day that it is, and the 6 before.
        Last7Days = "7_days",
        /// The day that it is, and the 29 before.
        Last30Days = "30_days",
        /// The month that it is.
        ThisMonth = "this_month",
        /// The month before.
        LastMonth = "last_month",
    }
}

impl Preset {
    /// Its start and end at a moment, in a time zone. The end of one that has not ended is ahead.
    #[must_use]
    pub fn span(self, zone: &TimeZone, now: OffsetDateTime) -> TimeSpan {
        self.moved(zone, now, 0)
    }

    /// The period before it, of the same kind. Of a period that has not ended it is the part of the same length.
    #[must_use]
    pub fn before(self, zone: &TimeZone, now: OffsetDateTime) -> TimeSpan {
        let (span, before) = (self.span(zone, now), self.moved(zone, now, 1));
        let passed = now.min(span.until) - span.since;
        if now >= span.until {
            before
        } else {
            TimeSpan { until: before.until.min(before.since + passed), ..before }
        }
    }

    /// The span, moved back by its own length this many times.
    fn moved(self, zone: &TimeZone, now: OffsetDateTime, times: i32) -> TimeSpan {
        let today = zone.day_of(now);
        let days = |length: i32, last: i32| {
            let last = last + times * length;
            let (first, end) = (back(today, last + length - 1, 0), back(today, last - 1, 0));
            TimeSpan { since: start(first, zone), until: start(end, zone) }
        };
        let month = |months: i32| Period::Month(back(today.first_of_month(), 0, months + times)).span(zone);
        match self {
            Self::Today => days(1, 0),
            Self::Yesterday => days(1, 1),
            Self::Last7Days => days(7, 0),
            Self::Last30Days => days(30, 0),
            Self::ThisMonth => month(0),
            Self::LastMonth => month(1),
        }
    }
}

/// A day that is so many days and months earlier.
fn back(day: Date, days: i32, months: i32) -> Date {
    day.checked_sub(Distance::new().days(days).months(months)).unwrap_or(day)
}

fn start(day: Date, zone: &TimeZone) -> OffsetDateTime {
    Period::Day(day).span(zone).since
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moment::{parse, rfc3339};

    #[test]
    fn each_word_is_a_period_and_has_one_before() {
        let zone = TimeZone::parse("Asia/Shanghai").unwrap();
        // 08:30 on the 31st there.
        let now = parse("2026-03-31T00:30:00Z").unwrap();
        for (preset, span, before) in [
            (Preset::Today, ["03-30T16:00", "03-31T16:00"], ["03-29T16:00", "03-30T00:30"]),
            (Preset::Yesterday, ["03-29T16:00", "03-30T16:00"], ["03-28T16:00", "03-29T16:00"]),
            (Preset::Last7Days, ["03-24T16:00", "03-31T16:00"], ["03-17T16:00", "03-24T00:30"]),
            (Preset::Last30Days, ["03-01T16:00", "03-31T16:00"], ["01-30T16:00", "03-01T00:30"]),
            // February has no 31st, so all of it is compared.
            (Preset::ThisMonth, ["02-28T16:00", "03-31T16:00"], ["01-31T16:00", "02-28T16:00"]),
            (Preset::LastMonth, ["01-31T16:00", "02-28T16:00"], ["12-31T16:00", "01-31T16:00"]),
        ] {
            let texts = |span: TimeSpan| [span.since, span.until].map(|at| rfc3339(at)[5..16].to_owned());
            assert_eq!(texts(preset.span(&zone, now)), span, "{preset}");
            assert_eq!(texts(preset.before(&zone, now)), before, "{preset}");
        }
    }

    #[test]
    fn a_day_of_another_length_is_whole() {
        let zone = TimeZone::parse("Europe/Berlin").unwrap();
        let now = parse("2026-03-30T10:00:00Z").unwrap();
        let TimeSpan { since, until } = Preset::Yesterday.span(&zone, now);
        assert_eq!((until - since).whole_hours(), 23);
        let TimeSpan { since, until } = Preset::Yesterday.before(&zone, now);
        assert_eq!((until - since).whole_hours(), 24);
    }
}
