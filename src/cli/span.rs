//! The options that all lists with times share (contract 8.1.8).

use anyhow::Result;
use clap::Args;
use domain::clock::{Clock as _, SystemClock};
use domain::moment::{self, GivenMoment};
use domain::operation::books::{empty_span, existing_span};
use domain::period::{Period, TimeSpan, TimeZone};
use time::OffsetDateTime;

use super::output::Output;
use super::{Context, refused};

/// A span of time, for lists and for reports.
#[derive(Debug, Args)]
pub(super) struct WhenArguments {
    /// Of this day, such as 2026-10-31
    #[arg(long, value_name = "DAY", value_parser = Period::day, conflicts_with_all = ["month", "since", "until"])]
    day: Option<Period>,
    /// Of this month, such as 2026-10
    #[arg(long, value_name = "MONTH", value_parser = Period::month, conflicts_with_all = ["since", "until"])]
    month: Option<Period>,
    /// From this moment on: 2026-10-01, 2026-10-01T08:00, a time with an offset, or 36h for 36 hours ago
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    since: Option<GivenMoment>,
    /// Before this moment, in the same formats
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    until: Option<GivenMoment>,
}

impl WhenArguments {
    /// The day or the month, where one was given.
    pub(super) fn period(&self) -> Option<Period> {
        self.day.or(self.month)
    }

    /// The ends of the span in a time zone, each where one was given.
    ///
    /// # Errors
    /// The end is not after the beginning, or the clocks skip the day.
    pub(super) fn ends(&self, zone: &TimeZone) -> Result<[Option<OffsetDateTime>; 2]> {
        if let Some(period) = self.period() {
            let TimeSpan { since, until } = existing_span(period, zone).map_err(refused)?;
            return Ok([Some(since), Some(until)]);
        }
        let ends = [self.since, self.until].map(|end| end.map(|end| zone.moment(end)));
        // Nothing would be in it, and a list without entries reads as if nothing had happened.
        let is_empty = matches!(ends, [Some(since), Some(until)] if since >= until);
        if is_empty {
            return Err(refused(empty_span()));
        }
        Ok(ends)
    }
}

/// What a list is of, and the zone in which it shows times.
#[derive(Debug, Args)]
#[command(next_help_heading = "Period")]
pub(super) struct SpanArguments {
    #[command(flatten)]
    when: WhenArguments,
    /// Time zone of days, months and moments without an offset, and of the times in a table: an IANA name [default: the setting `console.time_zone`]
    #[arg(long, value_name = "ZONE", value_parser = TimeZone::parse)]
    time_zone: Option<TimeZone>,
}

impl SpanArguments {
    /// The ends of the span, each where one was given.
    ///
    /// # Errors
    /// The end is not after the beginning, or the clocks skip the day.
    pub(super) fn ends(&self, context: &Context) -> Result<[Option<OffsetDateTime>; 2]> {
        let zone = self.time_zone.as_ref().unwrap_or(&context.config.console.time_zone);
        self.when.ends(zone)
    }

    /// The output with times in the zone of these options.
    pub(super) fn output(&self, context: &Context) -> Output {
        context.output.in_zone(self.time_zone.clone())
    }
}

/// Reads a moment, or a duration before now.
pub(super) fn parse_moment(text: &str) -> Result<GivenMoment, String> {
    moment_at(text, SystemClock::new().unix_millis())
        .ok_or_else(|| "expected 2026-11-21, 2026-11-21T08:00, 2026-11-21T08:00:00Z or 36h".to_owned())
}

fn moment_at(text: &str, now_millis: i64) -> Option<GivenMoment> {
    match humantime::parse_duration(text) {
        Ok(duration) => {
            let moment = moment::of_millis(now_millis)?.checked_sub(duration.try_into().ok()?);
            moment.map(GivenMoment::Fixed)
        }
        Err(_) => moment::parse_given(text).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract 8.1.8.
    #[test]
    fn a_span_does_not_end_before_it_begins() {
        let of = |since: &str, until: &str| {
            let end = |text: &str| moment_at(text, 1_800_000_000_000);
            let when = WhenArguments { day: None, month: None, since: end(since), until: end(until) };
            when.ends(&TimeZone::UTC)
                .map(|ends| ends.map(|end| end.is_some()))
                .map_err(|error| error.to_string())
        };
        let refused = Err("--until: expected a moment after since".to_owned());
        for (since, until) in [("2026-10-02", "2026-10-01"), ("2026-10-01", "2026-10-01"), ("1h", "2h")] {
            assert_eq!(of(since, until), refused, "{since} to {until}");
        }
        assert_eq!(of("2026-10-01", "2026-10-01T00:00:01"), Ok([true, true]));
        assert_eq!(of("2026-10-01", ""), Ok([true, false]));
    }

    #[test]
    fn a_moment_is_a_date_a_time_or_a_while_ago() {
        let now_millis = 1_800_000_000_000;
        let zone = TimeZone::parse("Asia/Shanghai").unwrap();
        let at = |text: &str| zone.moment(moment_at(text, now_millis).unwrap()).unix_timestamp();
        assert_eq!(at("2027-01-15"), 1_799_971_200 - 8 * 3600);
        assert_eq!(at("2027-01-15T08:00:00Z"), 1_800_000_000);
        assert_eq!(at("2027-01-15T16:00:00"), 1_800_000_000);
        assert_eq!(at("2027-01-15T10:00:00+02:00"), 1_800_000_000);
        assert_eq!(at("1h"), 1_800_000_000 - 3600);
        assert!(parse_moment("yesterday").is_err() && parse_moment("2027-13-01").is_err());
    }
}
