//! The filter of times that pages share: a period by a word, or times of one's own (contract 8.6.30). In a template
//! `parts::presets` and `parts::own_times` show it.

use domain::fields::FieldError;
use domain::period::{Preset, TimeSpan};
use time::OffsetDateTime;

use super::i18n::{parse_moment, zone};
use super::request::{ConsoleRequest, Filters};

/// What a page is asked for.
pub(super) struct Times {
    /// At or after this time.
    pub(super) since: Option<OffsetDateTime>,
    /// Before this time.
    pub(super) until: Option<OffsetDateTime>,
    /// The time of the request.
    pub(super) now: OffsetDateTime,
    /// What they can be compared with: the period before, of the same length.
    pub(super) before: Option<TimeSpan>,
    /// What leads to the periods that have words.
    pub(super) links: Vec<PresetLink>,
    /// The word that the form keeps.
    pub(super) kept: Option<Preset>,
}

/// A link to a period.
pub(super) struct PresetLink {
    pub(super) name: &'static str,
    pub(super) address: String,
    pub(super) is_current: bool,
}

impl Times {
    /// Reads the fields `from` and `to`, and `period` where neither of them is filled in. Without any of them `default`
    /// counts, or all times.
    pub(super) fn read(request: &ConsoleRequest, filters: &mut Filters<'_>, default: Option<Preset>) -> Self {
        let now = request.now();
        let (from, to) = (filters.read("from", parse_moment), filters.read("to", parse_moment));
        let asked = filters.read("period", Preset::parse);
        let is_own = !request.text("from").is_empty() || !request.text("to").is_empty();
        if from.zip(to).is_some_and(|(from, to)| from >= to) {
            filters.wrong.push(FieldError::malformed(
                "to",
                "a moment after the beginning",
                request.text("to"),
            ));
        }
        let preset = asked.or(default).filter(|_| !is_own);
        let span = preset.map(|preset| preset.span(&zone(), now));
        let (since, until) =
            if is_own { (from, to) } else { (span.map(|span| span.since), span.map(|span| span.until)) };
        let before = match preset {
            Some(preset) => Some(preset.before(&zone(), now)),
            None => since.and_then(|since| before(since, until.unwrap_or(now), now)),
        };
        let words = Preset::ALL.map(Some).into_iter();
        let all = default.is_none().then_some(None);
        let links = all.into_iter().chain(words).map(|word| PresetLink {
            name: name(word),
            address: request.address(&[
                ("period", word.map_or("", Preset::as_str)),
                ("from", ""),
                ("to", ""),
                ("after", ""),
            ]),
            is_current: !is_own && word == preset,
        });
        Self { since, until, now, before, links: links.collect(), kept: asked.filter(|_| !is_own) }
    }
}

/// The time of the same length before a span, up to the same part of it where it has not ended.
fn before(since: OffsetDateTime, until: OffsetDateTime, now: OffsetDateTime) -> Option<TimeSpan> {
    let start = since.checked_sub(until - since)?;
    let passed = until.min(now) - since;
    (passed > time::Duration::ZERO).then(|| TimeSpan { since: start, until: start + passed })
}

/// What a period is called. `None` is all times.
pub(super) fn name(preset: Option<Preset>) -> &'static str {
    match preset {
        None => "All times",
        Some(Preset::Today) => "Today",
        Some(Preset::Yesterday) => "Yesterday",
        Some(Preset::Last7Days) => "Last 7 days",
        Some(Preset::Last30Days) => "Last 30 days",
        Some(Preset::ThisMonth) => "This month",
        Some(Preset::LastMonth) => "Last month",
    }
}

#[cfg(test)]
mod tests {
    use domain::moment;

    use super::*;

    #[test]
    fn own_times_are_compared_with_the_same_length_before() {
        let at = |text: &str| moment::parse(text).unwrap();
        let of = |until: &str, now: &str| {
            before(at("2026-10-20"), at(until), at(now))
                .map(|span| [span.since, span.until].map(moment::plain))
        };
        let span = |until: &str| Some(["2026-10-18 00:00:00", until].map(str::to_owned));
        assert_eq!(of("2026-10-22", "2026-11-01"), span("2026-10-20 00:00:00"));
        assert_eq!(of("2026-10-22", "2026-10-20T06:00"), span("2026-10-18 06:00:00"));
        assert_eq!(of("2026-10-22", "2026-10-19"), None);
    }
}
