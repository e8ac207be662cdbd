//! The overview: health and charts of all servers; exchanges, latency, queue and database of this one, now.

use std::time::Duration;

use askama::Template;
use axum::routing::get;
use domain::audit::{AuditScope, LastAudit};
use domain::health::ChartSpan;
use domain::moment;
use domain::receiver::Receiver;
use domain::text;
use domain::text::Text;
use store::ClosedPeriod;
use time::OffsetDateTime;

use super::closed_link::closed_path;
use super::health::{Sentences, Strip, sentences, strip};
use super::health_charts::{HealthCharts, charts, newest_end, read_span};
use super::i18n::{Moment as _, said};
use super::orders::{millis_time, stuck_path};
use super::page::{LoadsAgain, Page, Section, Shown as _, render_search};
use super::receivers::{failure, receiver_path};
use super::refusal_link::{address_of_code, is_listed};
use super::request::{Answer, ConsoleRequest};
use super::route::{ConsoleRoute, routes};
use crate::health::Business;
use crate::http::refusal::Code;
use crate::metrics::{AnswerCounts, Sample};
use crate::operator::{READY_TIMEOUT, read_off};

pub(super) const ROUTES: &[ConsoleRoute] = routes! { page("/console") => get(page); };

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Samples of the last minute.
const NOW_SAMPLES: usize = 6;
/// Samples of the last five minutes.
const RECENT_SAMPLES: usize = 30;
/// Closed periods that differ, on the page.
const DIFFERING: u32 = 5;
/// Receivers that fail or are paused, on the page.
const TROUBLED: u32 = 5;

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage<'a> {
    page: Page<'a>,
    now: &'a Sample,
    verdict: Option<Sentences>,
    strip: Strip,
    business: Option<&'a Business>,
    /// Closed periods whose statements differ now, as their last comparisons found.
    differing: &'a [ClosedPeriod],
    /// Receivers that fail or are paused.
    troubled: &'a [Receiver],
    /// How many more there are.
    more_troubled: u64,
    /// Exchanges per second in the last minute.
    per_second: f64,
    /// The answers of the last five minutes.
    recent: AnswerCounts,
    /// The answers of the last hour.
    in_hour: AnswerCounts,
    since: OffsetDateTime,
    charts: HealthCharts,
    uptime: String,
    last_audit: Option<&'a LastAudit>,
}

async fn page(request: ConsoleRequest) -> Answer {
    let state = &request.state;
    let now = state.metrics.sample(state.clock.unix_millis(), read_off(state).await);
    let mut samples = state.metrics.last_hour();
    samples.push(now.clone());
    let per_second = between(&samples, NOW_SAMPLES)
        .and_then(|(first, last)| rate(first, last, |answers| answers.succeeded + answers.refused()));
    let troubled = while_up(&now, state.store.troubled_receivers(TROUBLED)).await;
    let differing = while_up(&now, state.store.differing_periods(DIFFERING)).await;
    let counts = now.reading.receivers;
    let (known, at) = (state.health.known(), moment::of_millis(now.at_millis));
    let at = at.unwrap_or(time::OffsetDateTime::UNIX_EPOCH);
    let mut filters = request.filters();
    let span = read_span(&mut filters);
    let charts = charts(&request, span, newest_end(span, at) - span.length()).await;
    let wrong = filters.wrong;
    let loads_again = if span == ChartSpan::Hour { LoadsAgain::Regularly } else { LoadsAgain::Never };
    let page = Page { loads_again, ..request.page(Section::OVERVIEW, "Overview") };
    let shown = OverviewPage {
        page: page.marking(&wrong),
        verdict: sentences(&state.health.verdict(at)),
        strip: strip(&known, at),
        business: known.business.as_ref(),
        more_troubled: (counts.paused + counts.failing).saturating_sub(troubled.len() as u64),
        differing: &differing,
        troubled: &troubled,
        per_second: per_second.unwrap_or_default(),
        recent: answered(&samples, RECENT_SAMPLES),
        in_hour: answered(&samples, samples.len()),
        since: moment::of_millis(samples.first().unwrap_or(&now).at_millis)
            .unwrap_or(OffsetDateTime::UNIX_EPOCH),
        charts,
        uptime: uptime(state.metrics.uptime()),
        last_audit: now.reading.audits.iter().find(|audit| audit.scope == AuditScope::Full),
        now: &now,
    };
    render_search(&shown, &wrong)
}

/// What the database has of trouble. Nothing while it is away: the page tells that already.
async fn while_up<T>(now: &Sample, found: impl Future<Output = store::Result<Vec<T>>>) -> Vec<T> {
    if !now.reading.database_up {
        return Vec::new();
    }
    let found = tokio::time::timeout(READY_TIMEOUT, found).await;
    found.ok().and_then(Result::ok).unwrap_or_default()
}

/// What the codes of this number mean.
pub(super) fn meaning(number: u32) -> String {
    let codes = Code::ALL.into_iter().filter(|code| code.number() == number);
    let meanings = codes.map(|code| Text::new(code.row().meaning));
    let both = meanings.reduce(|one, other| text!("{one}, or {other}", one, other));
    both.map(|text| said(&text)).unwrap_or_default()
}

/// The newest sample, and the one that is `count` samples older or else the oldest.
fn between(samples: &[Sample], count: usize) -> Option<(&Sample, &Sample)> {
    Some((samples.get(samples.len().saturating_sub(count + 1))?, samples.last()?))
}

/// The answers during the last `count` samples.
fn answered(samples: &[Sample], count: usize) -> AnswerCounts {
    let ends = between(samples, count);
    ends.map(|(first, last)| last.exchanges.since(&first.exchanges)).unwrap_or_default()
}

/// The rate per second between two samples.
fn rate(first: &Sample, last: &Sample, count: impl Fn(&AnswerCounts) -> u64) -> Option<f64> {
    let millis =
        u32::try_from(last.at_millis.saturating_sub(first.at_millis)).ok().filter(|millis| *millis > 0)?;
    let count = u32::try_from(count(&last.exchanges.since(&first.exchanges))).unwrap_or(u32::MAX);
    Some(f64::from(count) * 1000.0 / f64::from(millis))
}

/// The coins and the exchanges of whole hours against those of yesterday. Where today has sold in this hour alone there is
/// nothing to compare, and not a day without sales.
fn against_yesterday(business: &Business) -> [String; 2] {
    let Business { today, whole_hours, yesterday, .. } = business;
    if whole_hours.exchanges == 0 && today.exchanges > 0 {
        return ["\u{2013}".to_owned(), "\u{2013}".to_owned()];
    }
    [compared(whole_hours.coins, yesterday.coins), compared(whole_hours.exchanges, yesterday.exchanges)]
}

/// The difference from one figure to another: in per cent, or how many times as much it is.
fn compared(now: i64, before: i64) -> String {
    if before <= 0 {
        return "\u{2013}".to_owned();
    }
    if let Some(times) = times(now.into(), before.into()) {
        return said(&text!("{times} times", times));
    }
    let per_mille = (i128::from(now) - i128::from(before)) * 1000 / i128::from(before);
    let sign = if per_mille < 0 { "\u{2212}" } else { "+" };
    format!("{sign}{}.{} %", per_mille.unsigned_abs() / 10, per_mille.unsigned_abs() % 10)
}

/// How many times as much a number is as another, such as 2.5 or 13. `None` where it is less than twice as much.
pub(super) fn times(now: i128, before: i128) -> Option<String> {
    if before <= 0 || now < before.saturating_mul(2) {
        return None;
    }
    let tenths = (now.saturating_mul(10) + before / 2) / before;
    let whole = i64::try_from((tenths + 5) / 10).unwrap_or(i64::MAX).shown();
    Some(if tenths < 100 && tenths % 10 != 0 { format!("{}.{}", tenths / 10, tenths % 10) } else { whole })
}

/// A duration in milliseconds, or in seconds from 1 s on.
fn time_taken(seconds: Option<f64>) -> String {
    match seconds {
        None => "\u{2013}".to_owned(),
        Some(seconds) if seconds >= 10.0 => said(&text!("10 s or more")),
        Some(seconds) if seconds >= 1.0 => format!("{seconds:.1} s"),
        Some(seconds) => format!("{:.1} ms", seconds * 1000.0),
    }
}

/// A duration in its two largest units.
fn uptime(elapsed: Duration) -> String {
    let text = humantime::format_duration(Duration::from_secs(elapsed.as_secs())).to_string();
    text.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_the_unit_that_reads_well() {
        assert_eq!(time_taken(Some(0.0123)), "12.3 ms");
        assert_eq!(time_taken(Some(2.5)), "2.5 s");
        assert_eq!(time_taken(Some(10.0)), "10 s or more");
        assert_eq!(time_taken(None), "\u{2013}");
        assert_eq!(uptime(Duration::from_millis(93_784_123)), "1day 2h");
        assert_eq!(uptime(Duration::from_millis(12)), "0s");
    }
}
