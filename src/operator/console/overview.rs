//! The overview: exchanges, latency, queue and database of this server, now and in the last hour.

mod chart;

use std::time::Duration;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use store::{AuditScope, LastAudit};
use time::OffsetDateTime;

use self::chart::{Chart, Line, chart};
use super::page::{Page, Section, Shown as _, render};
use super::route::Route;
use super::session::SignedIn;
use crate::error::Code;
use crate::metrics::{Answers, Sample};
use crate::operator::read_off;
use crate::state::AppState;

pub(super) const ROUTES: &[Route] = &[Route::page("/console", || get(page))];

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Samples of the last minute.
const NOW_SAMPLES: usize = 6;
/// Samples of the last five minutes.
const RECENT_SAMPLES: usize = 30;

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage<'a> {
    page: Page<'a>,
    now: Sample,
    at: String,
    per_second: String,
    median: String,
    p99: String,
    succeeded: u64,
    refusals: Vec<Refusals>,
    since: String,
    charts: Vec<Chart>,
    uptime: String,
    last_audit: Option<LastAudit>,
}

/// The number of answers with one code.
struct Refusals {
    number: u32,
    meaning: String,
    count: u64,
}

async fn page(State(state): State<AppState>, signed_in: SignedIn) -> Response {
    let reading = read_off(&state).await;
    let now = state.metrics.sample(state.clock.unix_millis(), reading);
    let mut samples = state.metrics.last_hour();
    samples.push(now.clone());
    let in_hour = answered(&samples, samples.len());
    let recent = answered(&samples, RECENT_SAMPLES);
    let refusals = in_hour.by_number().map(|(number, count)| {
        let meanings = Code::ALL.into_iter().filter(|code| code.number() == number).map(|code| code.row().meaning);
        Refusals { number, meaning: meanings.collect::<Vec<_>>().join(", or "), count }
    });
    render(&OverviewPage {
        page: Page::new(&signed_in, Section::Overview, "Overview"),
        at: moment(now.at_millis),
        per_second: per_second(&samples),
        median: time_taken(recent.quantile(0.5)),
        p99: time_taken(recent.quantile(0.99)),
        succeeded: in_hour.succeeded,
        refusals: refusals.collect(),
        since: samples.first().map(|first| moment(first.at_millis)).unwrap_or_default(),
        charts: charts(&samples),
        uptime: uptime(state.metrics.uptime()),
        last_audit: now.reading.audits.iter().find(|audit| audit.scope == AuditScope::Full).copied(),
        now,
    })
}

impl OverviewPage<'_> {
    fn pool_used(&self) -> u32 {
        self.now.reading.pool.size.saturating_sub(self.now.reading.pool.idle)
    }

    fn probe(&self) -> String {
        time_taken(Some(self.now.reading.database_probe.as_secs_f64()))
    }
}

/// The answers during the last `count` samples.
fn answered(samples: &[Sample], count: usize) -> Answers {
    let earlier = &samples[samples.len().saturating_sub(count + 1)..];
    match (earlier.first(), samples.last()) {
        (Some(first), Some(last)) => last.exchanges.since(&first.exchanges),
        (None, _) | (_, None) => Answers::default(),
    }
}

/// Exchanges per second in the last minute.
fn per_second(samples: &[Sample]) -> String {
    let last = &samples[samples.len().saturating_sub(NOW_SAMPLES + 1)..];
    let (Some(first), Some(now)) = (last.first(), last.last()) else { return "0".to_owned() };
    rate(first, now, |answers| answers.succeeded + answers.refused())
        .map_or_else(|| "0".to_owned(), |rate| format!("{rate:.1}"))
}

/// The rate per second between two samples.
fn rate(first: &Sample, last: &Sample, count: impl Fn(&Answers) -> u64) -> Option<f64> {
    let millis =
        u32::try_from(last.at_millis.saturating_sub(first.at_millis)).ok().filter(|millis| *millis > 0)?;
    let count = u32::try_from(count(&last.exchanges.since(&first.exchanges))).unwrap_or(u32::MAX);
    Some(f64::from(count) * 1000.0 / f64::from(millis))
}

fn charts(samples: &[Sample]) -> Vec<Chart> {
    let between = |value: &dyn Fn(&Sample, &Sample) -> Option<f64>| chart::minutes(samples, value);
    let millis = |share: f64| {
        between(&|first, last| Some(last.exchanges.since(&first.exchanges).quantile(share)? * 1000.0))
    };
    let small = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    vec![
        chart(
            "Exchanges per second",
            "",
            vec![
                Line::new("successes", "", between(&|first, last| rate(first, last, |one| one.succeeded))),
                Line::new("refusals", "bad", between(&|first, last| rate(first, last, Answers::refused))),
            ],
        ),
        chart(
            "Exchange latency",
            " ms",
            vec![Line::new("p50", "", millis(0.5)), Line::new("p99", "second", millis(0.99))],
        ),
        chart(
            "Exchange queue",
            "",
            vec![Line::new("waiting", "", between(&|_, last| Some(small(last.reading.queue.0))))],
        ),
        chart(
            "Database round trip",
            " ms",
            vec![Line::new(
                "health check",
                "",
                between(&|_, last| {
                    let answered = last.reading.database_probe.as_secs_f64() * 1000.0;
                    last.reading.database_up.then_some(answered)
                }),
            )],
        ),
        chart(
            "Database connections",
            "",
            vec![Line::new(
                "in use",
                "",
                between(&|_, last| {
                    Some(f64::from(last.reading.pool.size.saturating_sub(last.reading.pool.idle)))
                }),
            )],
        ),
    ]
}

/// A duration in milliseconds, or in seconds from 1 s on.
fn time_taken(seconds: Option<f64>) -> String {
    match seconds {
        None => "\u{2013}".to_owned(),
        Some(seconds) if seconds >= 10.0 => "10 s or more".to_owned(),
        Some(seconds) if seconds >= 1.0 => format!("{seconds:.1} s"),
        Some(seconds) => format!("{:.1} ms", seconds * 1000.0),
    }
}

fn moment(at_millis: i64) -> String {
    let nanos = i128::from(at_millis) * 1_000_000;
    OffsetDateTime::from_unix_timestamp_nanos(nanos).map(|moment| moment.shown()).unwrap_or_default()
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
