//! Presets of a filter by time: links for today, yesterday, the last days and months, by the clock of the page's
//! time zone.

use domain::text::Text;
use time::{Date, Duration, OffsetDateTime};

use super::visit::Visit;
use super::words::{day_of, said};

/// The links of a page whose filter has the fields `from` and `to`.
pub(super) struct Presets(pub(super) Vec<Preset>);

/// One link.
pub(super) struct Preset {
    /// What it is called, in the language of the page.
    pub(super) name: String,
    /// The first page of the same search, with this range.
    pub(super) address: String,
    /// Whether the page shows this range.
    pub(super) is_chosen: bool,
}

impl Presets {
    /// The links of this page. What else was typed stays.
    pub(super) fn of(visit: &Visit, now: OffsetDateTime) -> Self {
        let presets = ranges(day_of(now)).into_iter().map(|(name, first, end)| {
            // As a field for date and time has them.
            let (from, to) = (format!("{first}T00:00"), format!("{end}T00:00"));
            let is_chosen = visit.text("from") == from && visit.text("to") == to;
            let address = visit.address(&[("from", &from), ("to", &to), ("after", "")]);
            Preset { name: said(&Text::new(name)), address, is_chosen }
        });
        Self(presets.collect())
    }
}

/// Each range of days: its name, its first day, and the day after its last one.
fn ranges(today: Date) -> [(&'static str, Date, Date); 6] {
    let days = |number: i64| today.saturating_add(Duration::days(number));
    let month = today.replace_day(1).unwrap_or(today);
    // 31 days after the first of a month lies in the next one, and a day before it in the one before.
    let first_of = |day: Date| day.replace_day(1).unwrap_or(day);
    let next = first_of(month.saturating_add(Duration::days(31)));
    let last = first_of(month.saturating_sub(Duration::days(1)));
    [
        ("Today", today, days(1)),
        ("Yesterday", days(-1), today),
        ("Last 7 days", days(-6), days(1)),
        ("Last 30 days", days(-29), days(1)),
        ("This month", month, next),
        ("Last month", last, month),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_whole_days_and_end_before_the_next_one() {
        let shown = |day: Date| ranges(day).map(|(name, first, end)| format!("{name}: {first} to {end}"));
        let leap_day = [
            "Today: 2028-02-29 to 2028-03-01",
            "Yesterday: 2028-02-28 to 2028-02-29",
            "Last 7 days: 2028-02-23 to 2028-03-01",
            "Last 30 days: 2028-01-31 to 2028-03-01",
            "This month: 2028-02-01 to 2028-03-01",
            "Last month: 2028-01-01 to 2028-02-01",
        ];
        assert_eq!(shown(time::macros::date!(2028 - 02 - 29)), leap_day);
        let new_year = shown(time::macros::date!(2027 - 01 - 01));
        assert_eq!(new_year[1], "Yesterday: 2026-12-31 to 2027-01-01");
        assert_eq!(
            new_year[4..],
            ["This month: 2027-01-01 to 2027-02-01", "Last month: 2026-12-01 to 2027-01-01"]
        );
    }
}
