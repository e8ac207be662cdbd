//! Days and months in a time zone: where they begin and end, over changes of the clock too.
//!
//! The time zones are those of the IANA database that is compiled in. So a period has the same limits on every machine,
//! whatever its system and its PostgreSQL know.

mod preset;

use std::fmt;

use jiff::civil::{Date, DateTime, Weekday};
use jiff::{Span as Distance, Timestamp, Zoned, tz};
pub use preset::Preset;
use time::{OffsetDateTime, PrimitiveDateTime, UtcOffset};

use super::fields::Expected;
use super::moment::{GivenMoment, UTC_YEARS};

/// Longest name of a time zone, in bytes.
const NAME_BYTES_MAX: usize = 64;
/// The years that a period may lie in.
const YEARS: std::ops::RangeInclusive<i16> = 1970..=9998;

/// A time zone by its IANA name, such as `Asia/Shanghai`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeZone(tz::TimeZone);

impl TimeZone {
    /// The accepted form, in words that follow "expected".
    pub const EXPECTED: &'static str = "the IANA name of a time zone, such as UTC or Asia/Shanghai";
    /// UTC.
    pub const UTC: Self = Self(tz::TimeZone::UTC);

    /// Accepts an IANA name in any case.
    ///
    /// # Errors
    /// Anything else, an offset such as `+08:00` too.
    pub fn parse(text: &str) -> Result<Self, Expected> {
        let known = text.len() <= NAME_BYTES_MAX && text.bytes().all(|byte| byte.is_ascii_graphic());
        let found = if known { tz::TimeZone::get(text).ok() } else { None };
        let found = found.filter(|zone| zone.iana_name().is_some() && !zone.is_unknown());
        found.map(Self).ok_or(Expected::new(Self::EXPECTED))
    }

    /// Its IANA name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// The moment that somebody gave, by the clock of this zone where no offset stands. A time that the clock skips counts
    /// from before the change, and of one that it shows twice the first counts (RFC 5545).
    #[must_use]
    pub fn moment(&self, given: GivenMoment) -> OffsetDateTime {
        match given {
            GivenMoment::Fixed(moment) => moment,
            GivenMoment::Local(local) => {
                let moment = self.of_clock(local).filter(|moment| UTC_YEARS.contains(&moment.year()));
                moment.unwrap_or(local.assume_utc())
            }
        }
    }

    fn of_clock(&self, local: PrimitiveDateTime) -> Option<OffsetDateTime> {
        let part = |part: u8| i8::try_from(part).ok();
        let (year, month, day) = local.to_calendar_date();
        let (hour, minute, second, nanosecond) = local.as_hms_nano();
        let date = Date::new(i16::try_from(year).ok()?, part(month.into())?, part(day)?).ok()?;
        let nanosecond = i32::try_from(nanosecond).ok()?;
        let clock: DateTime = date.at(part(hour)?, part(minute)?, part(second)?, nanosecond);
        let stamp = self.0.to_ambiguous_timestamp(clock).compatible().ok()?;
        OffsetDateTime::from_unix_timestamp_nanos(stamp.as_nanosecond()).ok()
    }

    /// The clock time of this zone at a moment.
    #[must_use]
    pub fn clock(&self, moment: OffsetDateTime) -> PrimitiveDateTime {
        let offset = Timestamp::from_second(moment.unix_timestamp()).ok();
        let offset =
            offset.and_then(|stamp| UtcOffset::from_whole_seconds(self.0.to_offset(stamp).seconds()).ok());
        let moment = offset.and_then(|offset| moment.checked_to_offset(offset)).unwrap_or(moment);
        PrimitiveDateTime::new(moment.date(), moment.time())
    }

    /// The day of the calendar at a moment.
    #[must_use]
    pub fn day_of(&self, moment: OffsetDateTime) -> Date {
        let (year, month, day) = self.clock(moment).date().to_calendar_date();
        let part = |part: u8| i8::try_from(part).ok();
        let date = || Date::new(i16::try_from(year).ok()?, part(month.into())?, part(day)?).ok();
        date().unwrap_or(Date::constant(1970, 1, 1))
    }

    /// The weeks that a span of time touches, oldest first, each with its Monday and the moment at which that begins.
    #[must_use]
    pub fn weeks(&self, span: TimeSpan) -> Vec<(Date, OffsetDateTime)> {
        let week_before = span.since.saturating_sub(time::Duration::days(7));
        let mut weeks = self.days(TimeSpan { since: week_before, ..span });
        weeks.retain(|(day, _)| day.weekday() == Weekday::Monday);
        let first = weeks.iter().rposition(|(_, start)| *start <= span.since).unwrap_or_default();
        weeks.split_off(first)
    }

    /// The days that a span of time touches, oldest first, each with the moment at which it begins. A day that the clocks
    /// skip is not there.
    #[must_use]
    pub fn days(&self, span: TimeSpan) -> Vec<(Date, OffsetDateTime)> {
        let mut days = Vec::new();
        let mut next = Some(self.day_of(span.since));
        while let Some(day) = next {
            let limits = Period::Day(day).span(self);
            if limits.since >= span.until {
                break;
            }
            if limits.since < limits.until {
                days.push((day, limits.since));
            }
            next = day.tomorrow().ok();
        }
        days
    }
}

impl Default for TimeZone {
    fn default() -> Self {
        Self::UTC
    }
}

super::text_traits!(TimeZone, { "type": "string", "maxLength": 64 });

/// A day or a month of the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Period {
    /// From midnight to midnight.
    Day(Date),
    /// From the first midnight to that of the next month. The day is the first.
    Month(Date),
}

impl Period {
    /// The form that [`Period::day`] accepts.
    pub const DAY_EXPECTED: &'static str = "a day such as 2026-10-31";
    /// The form that [`Period::month`] accepts.
    pub const MONTH_EXPECTED: &'static str = "a month such as 2026-10";

    /// Reads a day, such as `2026-10-31`.
    ///
    /// # Errors
    /// Anything else.
    pub fn day(text: &str) -> Result<Self, Expected> {
        date(text).map(Self::Day).ok_or(Expected::new(Self::DAY_EXPECTED))
    }

    /// Reads a month, such as `2026-10`.
    ///
    /// # Errors
    /// Anything else.
    pub fn month(text: &str) -> Result<Self, Expected> {
        date(&format!("{text}-01")).map(Self::Month).ok_or(Expected::new(Self::MONTH_EXPECTED))
    }

    /// The name of the field that it comes in: `day` or `month`.
    #[must_use]
    pub const fn field(self) -> &'static str {
        match self {
            Self::Day(_) => "day",
            Self::Month(_) => "month",
        }
    }

    /// Its start and end in a time zone. A day that the clocks skip is empty.
    #[must_use]
    pub fn span(self, zone: &TimeZone) -> TimeSpan {
        let (first, length) = match self {
            Self::Day(day) => (day, Distance::new().days(1)),
            Self::Month(first) => (first, Distance::new().months(1)),
        };
        let start = |day: Date| {
            let start = day.to_zoned(zone.0.clone()).and_then(|midnight| midnight.start_of_day());
            start.ok().and_then(|start: Zoned| {
                OffsetDateTime::from_unix_timestamp(start.timestamp().as_second()).ok()
            })
        };
        // The years leave room for every offset, so there is always a start.
        let since = start(first).unwrap_or(OffsetDateTime::UNIX_EPOCH);
        let until = first.checked_add(length).ok().and_then(start).unwrap_or(since);
        TimeSpan { since, until }
    }
}

impl Period {
    /// Whether another month is the next one. A day has none.
    #[must_use]
    pub fn is_month_before(self, next: Self) -> bool {
        let (Self::Month(first), Self::Month(next)) = (self, next) else { return false };
        first.checked_add(Distance::new().months(1)).is_ok_and(|end| end == next)
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Day(day) => write!(f, "{day}"),
            Self::Month(first) => write!(f, "{:04}-{:02}", first.year(), first.month()),
        }
    }
}

fn date(text: &str) -> Option<Date> {
    let part = |range: std::ops::Range<usize>| {
        let digits = text.get(range)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<i16>().ok()).flatten()
    };
    let bytes = text.as_bytes();
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return None;
    }
    let (year, month, day) = (part(0..4)?, part(5..7)?, part(8..10)?);
    let date = Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()?;
    YEARS.contains(&year).then_some(date)
}

/// A span of time: the beginning is in it, the end is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeSpan {
    /// The first moment.
    pub since: OffsetDateTime,
    /// The first moment after it.
    pub until: OffsetDateTime,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moment::rfc3339;

    fn span(period: Period, zone: &str) -> (String, String) {
        let TimeSpan { since, until } = period.span(&TimeZone::parse(zone).unwrap());
        (rfc3339(since), rfc3339(until))
    }

    fn day(text: &str, zone: &str) -> (String, String) {
        span(Period::day(text).unwrap(), zone)
    }

    fn texts(since: &str, until: &str) -> (String, String) {
        (since.to_owned(), until.to_owned())
    }

    #[test]
    fn a_month_has_the_midnights_of_its_zone() {
        let month = |zone| span(Period::month("2026-10").unwrap(), zone);
        assert_eq!(month("UTC"), texts("2026-10-01T00:00:00Z", "2026-11-01T00:00:00Z"));
        assert_eq!(month("Asia/Shanghai"), texts("2026-09-30T16:00:00Z", "2026-10-31T16:00:00Z"));
        // An hour longer: the clocks go back on the 25th.
        assert_eq!(month("europe/berlin"), texts("2026-09-30T22:00:00Z", "2026-10-31T23:00:00Z"));
        let december = span(Period::month("2026-12").unwrap(), "UTC");
        assert_eq!(december, texts("2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"));
    }

    #[test]
    fn a_day_may_be_shorter_or_longer_than_24_hours() {
        assert_eq!(day("2026-03-29", "Europe/Berlin"), texts("2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"));
        assert_eq!(day("2026-10-25", "Europe/Berlin"), texts("2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"));
        // Midnight itself is skipped: the day begins at one o'clock.
        assert_eq!(
            day("2018-11-04", "America/Sao_Paulo"),
            texts("2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z")
        );
        // Midnight comes twice: the day begins with the first.
        assert_eq!(
            day("2024-11-03", "America/Havana"),
            texts("2024-11-03T04:00:00Z", "2024-11-04T05:00:00Z")
        );
        // Half an hour.
        assert_eq!(
            day("2026-04-05", "Australia/Lord_Howe"),
            texts("2026-04-04T13:00:00Z", "2026-04-05T13:30:00Z")
        );
        // The island skipped this day.
        let (since, until) = day("2011-12-30", "Pacific/Apia");
        assert_eq!(since, until);
    }

    #[test]
    fn what_is_no_zone_day_or_month_is_refused() {
        for zone in [
            "",
            "Mars/Phobos",
            "+08:00",
            "UTC+8",
            "CST6CDT,M3.2.0",
            "Etc/Unknown",
            "../etc/passwd",
            "Asia/Shanghai ",
        ] {
            assert!(TimeZone::parse(zone).is_err(), "{zone}");
        }
        assert_eq!(TimeZone::parse("asia/shanghai").unwrap().as_str(), "Asia/Shanghai");
        assert_eq!(TimeZone::parse("UTC").unwrap().as_str(), "UTC");
        for day in [
            "",
            "2026-10",
            "2026-02-29",
            "2026-13-01",
            "2026-1-01",
            "+026-10-01",
            "1969-12-31",
            "9999-01-01",
            "2026-10-31T",
        ] {
            assert!(Period::day(day).is_err(), "{day}");
        }
        for month in ["", "2026", "2026-00", "2026-13", "2026-1", "26-10", "2026-10-31"] {
            assert!(Period::month(month).is_err(), "{month}");
        }
        let (day, month) = (Period::day("2024-02-29").unwrap(), Period::month("2026-03").unwrap());
        assert_eq!((day.to_string(), day.field()), ("2024-02-29".to_owned(), "day"));
        assert_eq!((month.to_string(), month.field()), ("2026-03".to_owned(), "month"));
    }

    #[test]
    fn a_time_of_the_clock_is_a_moment() {
        let read = |text: &str, zone: &str| {
            let given = crate::moment::parse_given(text).unwrap();
            rfc3339(TimeZone::parse(zone).unwrap().moment(given))
        };
        assert_eq!(read("2026-11-21", "Asia/Shanghai"), "2026-11-20T16:00:00Z");
        assert_eq!(read("2026-11-21T08:00:00+02:00", "Asia/Shanghai"), "2026-11-21T06:00:00Z");
        assert_eq!(read("2026-11-21T08:00:00.25", "Asia/Kathmandu"), "2026-11-21T02:15:00.25Z");
        // The clock goes from 2 to 3 in March, and from 3 to 2 in October.
        assert_eq!(read("2026-03-29T02:30", "Europe/Berlin"), "2026-03-29T01:30:00Z");
        assert_eq!(read("2026-10-25T02:30", "Europe/Berlin"), "2026-10-25T00:30:00Z");
        // In UTC it would be in a year that cannot be written, so it is read as of UTC.
        assert_eq!(read("0001-01-01", "Asia/Shanghai"), "0001-01-01T00:00:00Z");
        assert_eq!(read("9999-12-31T20:00", "America/New_York"), "9999-12-31T20:00:00Z");
    }

    #[test]
    fn the_days_of_a_span_are_those_that_it_touches() {
        let days = |since: &str, until: &str, zone: &str| {
            let at = |text: &str| crate::moment::parse(text).unwrap();
            let days = TimeZone::parse(zone).unwrap().days(TimeSpan { since: at(since), until: at(until) });
            days.into_iter().map(|(day, start)| format!("{day} {}", rfc3339(start))).collect::<Vec<_>>()
        };
        assert_eq!(
            days("2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z", "Europe/Berlin"),
            ["2026-10-25 2026-10-24T22:00:00Z"]
        );
        assert_eq!(
            days("2026-10-24T21:59:59Z", "2026-10-25T23:00:01Z", "Europe/Berlin"),
            [
                "2026-10-24 2026-10-23T22:00:00Z",
                "2026-10-25 2026-10-24T22:00:00Z",
                "2026-10-26 2026-10-25T23:00:00Z"
            ]
        );
        // The island skipped the 30th.
        assert_eq!(
            days("2011-12-30T09:59:59Z", "2011-12-30T10:00:01Z", "Pacific/Apia"),
            ["2011-12-29 2011-12-29T10:00:00Z", "2011-12-31 2011-12-30T10:00:00Z"]
        );
        assert_eq!(days("2026-10-24", "2026-10-24", "UTC"), [] as [&str; 0]);
    }

    #[test]
    fn the_days_of_a_year_follow_each_other_in_every_zone() {
        for zone in
            ["UTC", "Asia/Shanghai", "Europe/Berlin", "America/New_York", "Africa/Cairo", "Pacific/Chatham"]
        {
            let zone = TimeZone::parse(zone).unwrap();
            let mut end = Period::day("2026-01-01").unwrap().span(&zone).since;
            let mut at = Date::constant(2026, 1, 1);
            for month in 1..=12 {
                let span = Period::month(&format!("2026-{month:02}")).unwrap().span(&zone);
                assert_eq!(span.since, end);
                while at.month() == month {
                    let day = Period::Day(at).span(&zone);
                    assert_eq!(day.since, end, "{at}");
                    (end, at) = (day.until, at.tomorrow().unwrap());
                }
                assert_eq!(span.until, end);
            }
        }
    }
}
