//! Moments as people type them.

use std::ops::RangeInclusive;
use std::time::Duration;

use time::format_description::well_known::Rfc3339;
use time::{OffsetDateTime, PrimitiveDateTime, UtcOffset};

use super::fields::Expected;
use super::text;
use super::text::{Text, TextMoment};

/// Reads `2026-11`, `2026-11-21`, `2026-11-21T08:00`, `2026-11-21T08:00:00` or RFC 3339; UTC where no offset stands. The
/// seconds, and the colon or the minutes of an offset, may be left out. A blank may stand for the `T`, and before an
/// offset.
///
/// # Errors
/// Anything else.
pub fn parse(text: &str) -> Result<OffsetDateTime, Expected> {
    match parse_given(text)? {
        GivenMoment::Fixed(moment) => Ok(moment),
        GivenMoment::Local(local) => Ok(local.assume_utc()),
    }
}

/// A moment as it was typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GivenMoment {
    /// With an offset.
    Fixed(OffsetDateTime),
    /// Without an offset: in a time zone that is given elsewhere.
    Local(PrimitiveDateTime),
}

/// The years that RFC 3339 and PostgreSQL both write as they are. Years of a moment are those in UTC.
pub(crate) const UTC_YEARS: RangeInclusive<i32> = 1..=9999;

/// Reads what [`parse`] reads, and keeps whether an offset stands.
///
/// # Errors
/// Anything else, and a moment that in UTC is in a year before 1 or after 9999: `9999-12-31T23:00:00-08:00`.
pub fn parse_given(text: &str) -> Result<GivenMoment, Expected> {
    let with_offset = with_whole_offset(text);
    let whole = with_offset.as_deref().unwrap_or(text);
    let with_seconds = with_seconds(whole);
    if let Ok(fixed) = OffsetDateTime::parse(with_seconds.as_deref().unwrap_or(whole), &Rfc3339) {
        let utc = fixed.checked_to_offset(UtcOffset::UTC).filter(|utc| UTC_YEARS.contains(&utc.year()));
        return utc
            .map(GivenMoment::Fixed)
            .ok_or(Expected::new("a date and time in the years 1 to 9999 of UTC"));
    }
    let ends = ["Z", ":00Z", "T00:00:00Z", "-01T00:00:00Z"];
    let whole = ends.map(|end| format!("{text}{end}"));
    let moment = whole.iter().find_map(|text| OffsetDateTime::parse(text, &Rfc3339).ok());
    let moment = moment.filter(|moment| UTC_YEARS.contains(&moment.year()));
    let local = moment.map(|moment| GivenMoment::Local(PrimitiveDateTime::new(moment.date(), moment.time())));
    local.ok_or(Expected::new("a date and time such as 2026-11-21 or 2026-11-21T08:00"))
}

/// The length of a moment up to its minutes.
const TO_MINUTES: usize = "2026-11-21T08:00".len();

/// A text with an offset behind its time, which becomes that of RFC 3339. Java, PHP and Python write `+0800`, PostgreSQL
/// writes `+08`, and Ruby ` +0800`. A query that did not escape the plus has a blank in its place.
fn with_whole_offset(text: &str) -> Option<String> {
    let at = text.rfind([' ', '+', '-'])?;
    let (time, offset) = (&text[..at], &text[at + 1..]);
    let is_blank = text.as_bytes()[at] == b' ';
    let sign = if text.as_bytes()[at] == b'-' { "-" } else { "+" };
    let time = if is_blank { time } else { time.strip_suffix(' ').unwrap_or(time) };
    // The minus before the day of a date, and the blank behind it, begin no offset.
    if time.len() < TO_MINUTES {
        return None;
    }
    let (hours, minutes) = match offset.len() {
        // Behind minutes and a blank, two digits may be seconds.
        2 if !is_blank || time.len() > TO_MINUTES => (offset, "00"),
        4 => offset.split_at_checked(2)?,
        5 => offset.split_once(':')?,
        _ => return None,
    };
    // No clock is further ahead. Behind a blank, other digits may mean something else.
    if is_blank && hours > "14" {
        return None;
    }
    Some(format!("{time}{sign}{hours}:{minutes}"))
}

/// A text whose offset stands right behind the minutes, with seconds. Browsers and people leave them out.
fn with_seconds(text: &str) -> Option<String> {
    let (minutes, offset) = text.split_at_checked(TO_MINUTES)?;
    offset.starts_with(['Z', 'z', '+', '-']).then(|| format!("{minutes}:00{offset}"))
}

/// A moment as people and scripts read it: RFC 3339 in UTC.
#[must_use]
pub fn rfc3339(moment: OffsetDateTime) -> String {
    TextMoment(moment).english()
}

/// A moment as people and spreadsheets read it: date and time in UTC, to the second.
#[must_use]
pub fn plain(moment: OffsetDateTime) -> String {
    let utc = moment.to_offset(time::UtcOffset::UTC);
    let (date, time) = (utc.date(), utc.time());
    format!("{date} {:02}:{:02}:{:02}", time.hour(), time.minute(), time.second())
}

/// A moment in Unix milliseconds; nothing outside the years that are counted.
#[must_use]
pub fn of_millis(unix_millis: i64) -> Option<OffsetDateTime> {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(unix_millis) * 1_000_000).ok()
}

/// The same as [`rfc3339`], of a moment in Unix milliseconds.
#[must_use]
pub fn rfc3339_of_millis(unix_millis: i64) -> String {
    of_millis(unix_millis).map_or_else(|| unix_millis.to_string(), rfc3339)
}

/// How far a client's time is from now, both in Unix milliseconds: "6.0 s ahead of this server's clock".
#[must_use]
pub fn distance(client_millis: i64, now_millis: i64) -> Text {
    let ahead = i128::from(client_millis) - i128::from(now_millis);
    let millis = ahead.unsigned_abs();
    let seconds = format!("{}.{}", millis / 1000, millis % 1000 / 100);
    if ahead < 0 {
        text!("{seconds} s behind this server's clock", seconds)
    } else {
        text!("{seconds} s ahead of this server's clock", seconds)
    }
}

/// A duration in the largest unit that holds it whole: 48h, 5m, 90s.
#[must_use]
pub fn in_words(duration: Duration) -> String {
    match duration.as_secs() {
        seconds if seconds % 3600 == 0 => format!("{}h", seconds / 3600),
        seconds if seconds % 60 == 0 => format!("{}m", seconds / 60),
        seconds => format!("{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distance_is_in_seconds_and_has_a_side() {
        assert_eq!(distance(16_000, 10_000).english(), "6.0 s ahead of this server's clock");
        assert_eq!(distance(8_765, 10_000).english(), "1.2 s behind this server's clock");
        assert_eq!(
            distance(i64::MIN, i64::MAX).english(),
            "18446744073709551.6 s behind this server's clock"
        );
    }

    #[test]
    fn a_moment_is_a_date_with_or_without_a_time() {
        let at = |text: &str| parse(text).unwrap().unix_timestamp();
        assert_eq!(at("2027-01-15"), 1_799_971_200);
        for same in [
            "2027-01-15T08:00",
            "2027-01-15T08:00:00",
            "2027-01-15T10:00:00+02:00",
            "2027-01-15T10:00:00+0200",
            "2027-01-15T05:30:00.000-0230",
            "2027-01-15T08:00Z",
            "2027-01-15T16:00+08:00",
            "2027-01-15T16:00+0800",
            "2027-01-15T05:30-02:30",
            // As ISO 8601 and PostgreSQL have it, and with a blank before it.
            "2027-01-15T16:00+08",
            "2027-01-15 16:00:00.000000+08",
            "2027-01-15 06:00:00-02",
            "2027-01-15T16:00:00 +08:00",
            "2027-01-15 16:00:00 +0800",
            "2027-01-15 05:30:00 -02:30",
            // A blank without a sign is a plus that a query did not escape.
            "2027-01-15T16:00:00 08:00",
            "2027-01-15T16:00 0800",
            "2027-01-15 16:00:00 0800",
            "2027-01-15 16:00:00 08",
            "2027-01-15 08:00",
            "2027-01-15 08:00:00",
        ] {
            assert_eq!(at(same), 1_800_000_000, "{same}");
        }
        for none in [
            "2027-01-15T08:00:00+080",
            "2027-01-15T08:00:00+08:0",
            "2027-01-15T08:00:00+0é1",
            "2027-01-15T08:00:00+080:0",
            "2027-01-15T08:00:00+8",
            "2027-01-15T08:00:00  +08:00",
            "2027-01-15T08:00:00 - 08:00",
            "2027-01-15T08:00:00 é8:00",
            "2027-01-15T08:0é+08:00",
            "2027-01-15T08+08:00",
            "2027-01-15+08",
            "2027-01-15 08",
            "2027-0115",
            "2027-01-15T08:00 30",
            "2027-01-15T08:00 2027",
        ] {
            assert!(parse(none).is_err(), "{none}");
        }
        assert!(parse("").is_err() && parse("yesterday").is_err() && parse("2027-13-01").is_err());
    }

    #[test]
    fn a_moment_has_a_year_of_four_digits_in_utc() {
        for beyond in
            ["9999-12-31T23:59:59-08:00", "0001-01-01T00:00:00+08:00", "0000-06-01T00:00:00Z", "0000-06"]
        {
            assert!(parse(beyond).is_err(), "{beyond}");
        }
        for end in ["9999-12-31T23:59:59Z", "9999-12-31T23:59", "0001-01-01T00:00:00Z", "0001-01-01"] {
            let at = parse(end).unwrap();
            assert_eq!((at.offset(), parse(&rfc3339(at))), (UtcOffset::UTC, Ok(at)), "{end}");
        }
    }
}
