//! Presets of a filter by time: links for today, yesterday, the last days and months, by the clock of the page's
//! time zone.

use domain::period::{Preset, TimeSpan, TimeZone};
use time::OffsetDateTime;

use super::i18n::{word, zone};
use super::request::ConsoleRequest;
use super::times::name;

/// The links of a page whose filter has the fields `from` and `to`.
pub(super) struct Presets(pub(super) Vec<RangeLink>);

/// One link.
pub(super) struct RangeLink {
    /// What it is called, in the language of the page.
    pub(super) name: String,
    /// The first page of the same search, with this range.
    pub(super) address: String,
    /// Whether the page shows this range.
    pub(super) is_chosen: bool,
}

impl Presets {
    /// The links of this page. What else was typed stays.
    pub(super) fn of(request: &ConsoleRequest) -> Self {
        let now = request.now();
        let presets = Preset::ALL.into_iter().map(|period| {
            // As a field for date and time has them.
            let [from, to] = days_of(period, &zone(), now).map(|day| format!("{day}T00:00"));
            let is_chosen = request.text("from") == from && request.text("to") == to;
            let address = request.address(&[("from", &from), ("to", &to), ("after", "")]);
            RangeLink { name: word(name(Some(period))), address, is_chosen }
        });
        Self(presets.collect())
    }
}

/// The first day of a period, and the day after its last one.
fn days_of(period: Preset, zone: &TimeZone, now: OffsetDateTime) -> [String; 2] {
    let TimeSpan { since, until } = period.span(zone, now);
    [since, until].map(|limit| zone.day_of(limit).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_whole_days_and_end_before_the_next_one() {
        let shown = |day: &str| {
            let now = domain::moment::parse(day).unwrap();
            Preset::ALL.map(|period| {
                let [first, end] = days_of(period, &TimeZone::UTC, now);
                format!("{}: {first} to {end}", name(Some(period)))
            })
        };
        let leap_day = [
            "Today: 2028-02-29 to 2028-03-01",
            "Yesterday: 2028-02-28 to 2028-02-29",
            "Last 7 days: 2028-02-23 to 2028-03-01",
            "Last 30 days: 2028-01-31 to 2028-03-01",
            "This month: 2028-02-01 to 2028-03-01",
            "Last month: 2028-01-01 to 2028-02-01",
        ];
        assert_eq!(shown("2028-02-29"), leap_day);
        let new_year = shown("2027-01-01");
        assert_eq!(new_year[1], "Yesterday: 2026-12-31 to 2027-01-01");
        assert_eq!(
            new_year[4..],
            ["This month: 2027-01-01 to 2027-02-01", "Last month: 2026-12-01 to 2027-01-01"]
        );
    }
}
