//! Refusals of reports about the books of an app: revenue (contract 13.2.6) and statements (contract 13.3). A report
//! changes nothing, and its query is a type of the store.

use std::fmt::Display;

use time::OffsetDateTime;

use super::{OperationRefusal, RefusalKind};
use crate::period::{Period, TimeSpan, TimeZone};
use crate::text;
use crate::text::{Text, TextMoment};

/// The span of a period that is asked for. A day that the clocks of its zone skip has none: nothing would be in it, as if
/// nothing had happened (contract 13.3.1).
///
/// # Errors
/// There is no such day.
pub fn existing_span(period: Period, zone: &TimeZone) -> Result<TimeSpan, OperationRefusal> {
    let span = period.span(zone);
    if span.since < span.until {
        return Ok(span);
    }
    let text = text!("there is no {period} in {zone}: its clocks skipped it", period, zone = zone.as_str());
    Err(OperationRefusal::new(RefusalKind::Invalid(period.field()), text))
}

/// More entries may come into the period (contract 13.3.7). `why` says until when.
#[must_use]
pub const fn not_closed(field: &'static str, why: Text) -> OperationRefusal {
    OperationRefusal::new(RefusalKind::Invalid(field), why)
}

/// The statement of the period does not tie to the ledger, so it is not closed (contract 13.3.10).
#[must_use]
pub fn does_not_tie(field: &'static str, period: impl Display) -> OperationRefusal {
    let text = text!("the statement of {period} does not tie to the ledger", period);
    OperationRefusal::new(RefusalKind::Invalid(field), text)
}

/// A figure of the period needs more than 64 bits.
#[must_use]
pub fn sums_too_large(field: &'static str, period: impl Display) -> OperationRefusal {
    let text = text!("the sums of {period} need more than 64 bits", period);
    OperationRefusal::new(RefusalKind::Invalid(field), text)
}

/// The report is by platform, and would read more exchanges one by one than it may (contract 13.2.7). `field` asks for
/// platforms. Sums have them from `since` on.
#[must_use]
pub fn platforms_not_summed(
    field: &'static str,
    since: OffsetDateTime,
    max: impl Display,
) -> OperationRefusal {
    let text = text!(
        "platforms are summed from {since} on, and more than {max} exchanges are before it; expected a later beginning",
        since = TextMoment(since),
        max
    );
    OperationRefusal::new(RefusalKind::Invalid(field), text)
}

/// What to tell of two months that were closed in time zones of their own (contract 13.3.10). `None` where the second
/// is not the next month, or begins at the moment at which the first ends.
#[must_use]
pub fn months_do_not_meet(first: (Period, &TimeZone), second: (Period, &TimeZone)) -> Option<Text> {
    let ((month, zone), (next, next_zone)) = (first, second);
    let (end, beginning) = (month.span(zone).until, next.span(next_zone).since);
    if !month.is_month_before(next) || end == beginning {
        return None;
    }
    let (is_overlap, end, beginning) = (beginning < end, TextMoment(end), TextMoment(beginning));
    Some(if is_overlap {
        text!(
            "{month} in {zone} ends at {end}, but {next} in {next_zone} begins at {beginning}: entries between count in both months",
            month,
            zone,
            end,
            next,
            next_zone,
            beginning
        )
    } else {
        text!(
            "{month} in {zone} ends at {end}, but {next} in {next_zone} begins at {beginning}: entries between count in neither month",
            month,
            zone,
            end,
            next,
            next_zone,
            beginning
        )
    })
}

refusals! {
    /// The first close stands, and it was of other limits.
    closed_in_another_zone(month, time_zone): Conflict,
        text!("{month} was closed in the time zone {time_zone}", month, time_zone);
    /// Nothing is closed: the statement is another one than whoever closes was shown (contract 13.3.10).
    figures_changed(month): Conflict,
        text!("the figures of {month} have changed since they were shown", month);
    /// The span ends before it begins.
    empty_span(): Invalid("until"), text!("expected a moment after since");
    /// The report would have more rows than it may have.
    too_many_rows(max): Invalid("group"),
        text!("expected groups that make at most {max} rows in this span", max);
    /// A workbook would have more entries than it may have.
    too_many_entries(max): Invalid("format"),
        text!("expected a period with at most {max} entries for a workbook; CSV has no limit", max);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract 13.3.1.
    #[test]
    fn a_day_that_the_clocks_skip_is_refused() {
        let (day, apia) = (Period::day("2011-12-30").unwrap(), TimeZone::parse("Pacific/Apia").unwrap());
        let refused = existing_span(day, &apia).unwrap_err();
        assert_eq!(refused.kind, RefusalKind::Invalid("day"));
        assert_eq!(refused.text.english(), "there is no 2011-12-30 in Pacific/Apia: its clocks skipped it");
        assert_eq!(existing_span(day, &TimeZone::UTC).unwrap(), day.span(&TimeZone::UTC));
    }

    /// Contract 13.3.10.
    #[test]
    fn months_of_two_time_zones_overlap_or_leave_a_gap() {
        let told = |first: (&str, &str), second: (&str, &str)| {
            let [first, second] = [first, second]
                .map(|(month, zone)| (Period::month(month).unwrap(), TimeZone::parse(zone).unwrap()));
            months_do_not_meet((first.0, &first.1), (second.0, &second.1)).map(|text| text.english())
        };
        assert_eq!(
            told(("2026-10", "Europe/Berlin"), ("2026-11", "Asia/Shanghai")).unwrap(),
            "2026-10 in Europe/Berlin ends at 2026-10-31T23:00:00Z, but 2026-11 in Asia/Shanghai begins at \
             2026-10-31T16:00:00Z: entries between count in both months"
        );
        assert_eq!(
            told(("2026-12", "Asia/Shanghai"), ("2027-01", "UTC")).unwrap(),
            "2026-12 in Asia/Shanghai ends at 2026-12-31T16:00:00Z, but 2027-01 in UTC begins at \
             2027-01-01T00:00:00Z: entries between count in neither month"
        );
        // Zones whose months meet, and months that do not follow each other.
        assert_eq!(told(("2026-10", "Europe/Berlin"), ("2026-11", "Europe/Paris")), None);
        assert_eq!(told(("2026-10", "UTC"), ("2026-12", "Asia/Shanghai")), None);
        assert_eq!(told(("2026-11", "UTC"), ("2026-10", "Asia/Shanghai")), None);
    }
}
