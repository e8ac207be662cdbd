//! Days and months in a time zone: where they begin and end, over changes of the clock too.
//!
//! The time zones are those of the IANA database that is compiled in. So a period has the same limits on every machine,
//! whatever its system and its PostgreSQL know.

use std::fmt;

use jiff::civil::Date;
use jiff::tz;
use jiff::{Span as Distance, Zoned};
use time::OffsetDateTime;

use super::fields::Expected;

/// Longest name of a time zone, in bytes.
const NAME_BYTES_MAX: usize = 64;
/// The years that a period may lie in.
const YEARS: std::ops::RangeInclusive<i16> = 1970..=9998;

/// A time zone by its IANA name, such as `Asia/Shanghai`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeZone(tz::TimeZone);

impl TimeZone {
    /// What is accepted, in words that follow "expected".
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
    /// What [`Period::day`] accepts.
    pub const DAY_EXPECTED: &'static str = "a day such as 2026-10-31";
    /// What [`Period::month`] accepts.
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

    /// Where it begins and ends in a time zone. A day that the clocks skip is empty.
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
