//! Charts of health over time (contract 16.3.5 and 16.3.6), of all instances, from the minutes that they reported.
//! They show rate, refusals by code, latency, queue, connections and database.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::fields::Fields;
use domain::health::{ChartSpan, HealthLevel, HealthPoint, HealthPoints};
use domain::text;
use domain::text::Text;
use store::StoreError;
use time::OffsetDateTime;
use tokio::time::timeout;

use super::health::{PATH, in_words};
use super::i18n::said;
use super::overview::meaning;
use super::plots::{Plot, PlotAxis, PlotPoint, PlotSeries, label, of_point};
use super::request::{ConsoleRequest, Filters, address};
use crate::health::HealthHistory;
use crate::state::AppState;

/// How long the database may take for a month of minutes, of several instances on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);
/// Codes that have a line of their own. The others share one.
const CODES_MAX: usize = 3;
/// Colours of their lines, the most frequent first.
const CLASSES: [&str; CODES_MAX] = ["bad", "second", "good"];

/// The charts of a page.
pub(super) struct HealthCharts {
    pub(super) span: ChartSpan,
    pub(super) since: OffsetDateTime,
    pub(super) until: OffsetDateTime,
    pub(super) spans: Vec<SpanLink>,
    pub(super) axis: PlotAxis,
    pub(super) plots: Vec<Plot>,
    /// The points of which somebody told, newest first.
    pub(super) points: Vec<HealthPoint>,
    /// Whether a thin line shows the time before.
    pub(super) has_before: bool,
    /// Whether they are those that this instance remembers, because the database did not answer.
    pub(super) is_from_memory: bool,
}

/// A link to another length of time.
pub(super) struct SpanLink {
    pub(super) name: &'static str,
    pub(super) address: String,
    pub(super) is_current: bool,
}

/// Reads the field `span`. An hour without it.
pub(super) fn read_span(filters: &mut Filters<'_>) -> ChartSpan {
    filters.read("span", ChartSpan::parse).unwrap_or(ChartSpan::Hour)
}

/// What a length of time is called on its link.
const fn name(span: ChartSpan) -> &'static str {
    match span {
        ChartSpan::Hour => "1 hour",
        ChartSpan::Day => "1 day",
        ChartSpan::Week => "1 week",
        ChartSpan::Month => "30 days",
    }
}

/// The end of the last step of a span that begins before `now`.
pub(super) fn newest_end(span: ChartSpan, now: OffsetDateTime) -> OffsetDateTime {
    let step = i64::try_from(span.step().as_secs()).unwrap_or(i64::MAX);
    let begin = now.unix_timestamp().div_euclid(step) * step;
    // The minute under way is not told yet.
    let end = if span == ChartSpan::Hour { begin } else { begin + step };
    OffsetDateTime::from_unix_timestamp(end).unwrap_or(now)
}

/// The charts of the time from `since` on. While the database is away, those of the minutes that this instance remembers.
pub(super) async fn charts(request: &ConsoleRequest, span: ChartSpan, since: OffsetDateTime) -> HealthCharts {
    let state = &request.state;
    let until = since + span.length();
    let reading = async {
        let before = state.store.health_points(since - span.length(), span).await?;
        Ok::<_, StoreError>((before, state.store.health_points(since, span).await?))
    };
    let read = timeout(patience(state, span), reading).await.ok().and_then(Result::ok);
    let is_read = read.is_some();
    let (before, points) =
        read.unwrap_or_else(|| (Vec::new(), remembered(&state.health.known(), span, since)));
    // Only a whole period compares.
    let before = if before.first().is_some_and(|point| point.minutes > 0) { before } else { Vec::new() };
    HealthCharts {
        span,
        since,
        until,
        spans: links(request),
        axis: PlotAxis::new(points.iter().map(axis_point).collect(), until, span.step()),
        plots: plots(&points, &before, span),
        has_before: !before.is_empty(),
        is_from_memory: !is_read,
        points: points.into_iter().rev().filter(|point| point.minutes > 0).collect(),
    }
}

/// While the database is away, nobody waits for it.
fn patience(state: &AppState, span: ChartSpan) -> Duration {
    let is_away = state.metrics.last_hour().last().is_some_and(|sample| !sample.reading.database_up);
    if is_away || span == ChartSpan::Hour { super::super::READY_TIMEOUT } else { PATIENCE }
}

fn remembered(known: &HealthHistory, span: ChartSpan, since: OffsetDateTime) -> Vec<HealthPoint> {
    let mut minutes: Vec<_> = known.minutes.iter().collect();
    minutes.sort_by_key(|minute| minute.at);
    let mut points = HealthPoints::new(since, span);
    for minute in minutes {
        points.add(minute);
    }
    points.finish()
}

fn links(request: &ConsoleRequest) -> Vec<SpanLink> {
    let asked = request.text("span");
    let link = |span: ChartSpan| SpanLink {
        name: name(span),
        address: request.address(&[("span", span.as_str()), ("at", "")]),
        is_current: asked == span.as_str() || (asked.is_empty() && span == ChartSpan::Hour),
    };
    ChartSpan::ALL.into_iter().map(link).collect()
}

fn axis_point(point: &HealthPoint) -> PlotPoint {
    let mut words = vec![label(point.at)];
    if point.started {
        words.push(said(&text!("an instance started")));
    }
    if !point.problems.is_empty() {
        words.push(in_words(&point.problems));
    }
    PlotPoint {
        at: point.at,
        label: words.join(", "),
        has_values: point.minutes > 0,
        started: point.started,
        bad: point.problems.keys().any(|problem| problem.level() != HealthLevel::Notice),
    }
}

/// The codes that came most often, and the sum of each.
fn frequent(points: &[HealthPoint]) -> Vec<u32> {
    let mut sums: BTreeMap<u32, i64> = BTreeMap::new();
    for (code, count) in points.iter().flat_map(|point| &point.refused) {
        *sums.entry(*code).or_default() += count;
    }
    let mut codes: Vec<_> = sums.into_iter().collect();
    codes.sort_by_key(|(code, count)| (std::cmp::Reverse(*count), *code));
    codes.into_iter().map(|(code, _)| code).collect()
}

fn refusals(points: &[HealthPoint]) -> Vec<PlotSeries> {
    let codes = frequent(points);
    let (own, others) = codes.split_at(codes.len().min(CODES_MAX));
    let of = |codes: &[u32], point: &HealthPoint| {
        point.per_second(codes.iter().filter_map(|code| point.refused.get(code)).sum())
    };
    let line = |name: String, class, codes: &[u32]| {
        PlotSeries::new(name, class, points.iter().map(|point| of(codes, point)))
    };
    let mut lines: Vec<_> = own
        .iter()
        .zip(CLASSES)
        .map(|(code, class)| line(format!("{code} {}", meaning(*code)), class, &[*code]))
        .collect();
    if !others.is_empty() {
        lines.push(line(said(&text!("other codes")), "other", others));
    }
    if lines.is_empty() {
        lines.push(line(said(&text!("refusals")), "bad", &[]));
    }
    lines
}

type PointValue = fn(&HealthPoint) -> Option<f64>;

#[expect(clippy::cast_precision_loss, reason = "a queue and connections are far below 2 to the 53")]
fn float(count: Option<i64>) -> Option<f64> {
    count.map(|count| count as f64)
}

fn plots(points: &[HealthPoint], before: &[HealthPoint], span: ChartSpan) -> Vec<Plot> {
    let hour = match span {
        ChartSpan::Hour => None,
        _ => Some(format!("{PATH}?at={{from}}")),
    };
    let exchanges = |kind| {
        let fields = [("kind", kind)];
        Some(of_point(&address("/console/exchanges", &Fields::default(), &fields)))
    };
    let line =
        |name: Text, class, value: PointValue| PlotSeries::new(said(&name), class, points.iter().map(value));
    let plot = |title: Text, unit, mut series: Vec<PlotSeries>, main: PointValue, link: Option<String>| {
        if !before.is_empty() {
            series.push(PlotSeries::new(said(&text!("before")), "before", before.iter().map(main)));
        }
        Plot { title: said(&title), unit, series, link, bars: false }
    };
    let rate: PointValue = |point| point.per_second(point.succeeded);
    let refused: PointValue = |point| point.per_second(point.all_refused());
    let p99: PointValue = |point| point.p99_ms;
    let queue: PointValue = |point| float(point.queue);
    let open: PointValue = |point| float(point.connections);
    let round_trip: PointValue = |point| point.round_trip_ms;
    vec![
        plot(
            text!("Exchanges per second"),
            "",
            vec![line(text!("successes"), "", rate), line(text!("refusals"), "bad", refused)],
            rate,
            exchanges(""),
        ),
        plot(text!("Refusals per second, by code"), "", refusals(points), refused, exchanges("refused")),
        plot(
            text!("Exchange latency"),
            "ms",
            vec![
                line(text!("p50"), "", |point| point.p50_ms),
                line(text!("p99, worst minute"), "second", p99),
            ],
            p99,
            hour.clone(),
        ),
        plot(text!("Exchange queue"), "", vec![line(text!("waiting"), "", queue)], queue, hour.clone()),
        plot(
            text!("Connections"),
            "",
            vec![
                line(text!("public listener"), "", open),
                line(text!("database, in use"), "second", |point| float(point.database_connections)),
            ],
            open,
            hour.clone(),
        ),
        plot(
            text!("Database round trip"),
            "ms",
            vec![line(text!("longest"), "", round_trip)],
            round_trip,
            hour,
        ),
    ]
}
