//! Health of the till over time (contract 16.3): the verdict and the strip of the overview, and the page of one hour.

use std::collections::BTreeMap;
use std::time::Duration;

use askama::Template;
use axum::routing::get;
use domain::health::{
    ChartSpan, HealthLevel, HealthMinute, HealthProblem, HealthSpan, PresentProblem, Verdict,
};
use domain::text;
use domain::text::Text;
use time::OffsetDateTime;

use super::health_charts::{HealthCharts, charts, newest_end, read_span};
use super::i18n::{Moment as _, local, parse_moment, said};
use super::page::{Page, Section, Shown as _, render_search};
use super::refusal_link::{address_of_code, is_listed};
use super::request::{Answer, ConsoleRequest, address};
use super::route::{ConsoleRoute, routes};
use crate::health::{CELL, HealthHistory, STRIP, first_cell};

pub(super) const PATH: &str = "/console/health";

pub(super) const ROUTES: &[ConsoleRoute] = routes! { page(PATH) => get(page); };

/// The size of a cell of the strip, and the height of the strip, in units of the drawing.
const CELL_WIDTH: u32 = 6;
const HEIGHT: u32 = 36;
/// The height of a part of a cell at least: a single minute can be seen.
const PART_HEIGHT_MIN: u32 = 4;
/// What a cell of full height stands for at least, so that an hour that has just begun is not full of its first minutes.
const MINUTES_OF_CELL: i64 = 60;

/// What a problem is called in a sentence and on a tag.
fn called(problem: HealthProblem) -> Text {
    match problem {
        HealthProblem::DatabaseAway => text!("database away"),
        HealthProblem::Failing => text!("exchanges fail"),
        HealthProblem::Overloaded => text!("queue half full"),
        HealthProblem::Slow => text!("exchanges slow"),
        HealthProblem::UploadsRefused => text!("no room for pictures"),
        HealthProblem::ReceiversFailing => text!("receivers fail"),
        HealthProblem::Silent => text!("an instance is silent"),
    }
}

fn called_on_page(problem: HealthProblem) -> String {
    said(&called(problem))
}

fn called_level(level: HealthLevel) -> Text {
    match level {
        HealthLevel::Down => text!("Down"),
        HealthLevel::Degraded => text!("Degraded"),
        HealthLevel::Notice => text!("Notice"),
    }
}

/// The class of tags and cells of a level.
const fn class(level: HealthLevel) -> &'static str {
    match level {
        HealthLevel::Down => "bad",
        HealthLevel::Degraded => "wait",
        HealthLevel::Notice => "note",
    }
}

/// The verdict in words.
pub(super) struct Sentences {
    pub(super) is_healthy: bool,
    pub(super) instances: usize,
    /// The levels with problems, the worst first.
    pub(super) levels: Vec<LevelSentences>,
}

/// The problems of one level, one sentence for each.
pub(super) struct LevelSentences {
    pub(super) class: &'static str,
    pub(super) name: String,
    pub(super) problems: Vec<String>,
}

/// The words of a verdict. `None` before the first minute.
pub(super) fn sentences(verdict: &Verdict) -> Option<Sentences> {
    let Verdict { problems, instances } = verdict;
    let sentence = |of: &PresentProblem| {
        let PresentProblem { problem, since, instances: seen_by } = of;
        let since = local(*since);
        // To the minute: that is what is known.
        let since = since.rsplit_once(':').map_or(since.as_str(), |(minute, _)| minute).to_owned();
        said(&text!(
            "since {since}: {problem}, {seen_by} of {instances} instances",
            since,
            problem = called(*problem),
            seen_by = seen_by.to_string(),
            instances = instances.to_string()
        ))
    };
    let levels = problems.chunk_by(|one, next| one.problem.level() == next.problem.level());
    let levels = levels.filter_map(|problems| {
        let level = problems.first()?.problem.level();
        Some(LevelSentences {
            class: class(level),
            name: said(&called_level(level)),
            problems: problems.iter().map(sentence).collect(),
        })
    });
    (*instances > 0).then(|| Sentences {
        is_healthy: verdict.is_healthy(),
        instances: *instances,
        levels: levels.collect(),
    })
}

/// A cell of the strip.
pub(super) struct Cell {
    pub(super) x: u32,
    /// Whether any instance reported its hour.
    pub(super) is_told: bool,
    /// What is drawn over it, from the foot up.
    pub(super) parts: Vec<CellPart>,
    /// What it says to the mouse and to screen readers.
    pub(super) words: String,
    pub(super) address: String,
}

/// The minutes of one level in a cell.
pub(super) struct CellPart {
    pub(super) class: &'static str,
    pub(super) y: u32,
    pub(super) height: u32,
}

/// The parts of a cell: how bad how many of its minutes were, the worst at the foot.
fn parts(span: &HealthSpan) -> Vec<CellPart> {
    let full = span.told.max(MINUTES_OF_CELL);
    let mut y = HEIGHT;
    let parts = span.levels.iter().map(|(level, minutes)| {
        let height = u32::try_from(minutes * i64::from(HEIGHT) / full).unwrap_or(HEIGHT);
        let height = height.max(PART_HEIGHT_MIN).min(y);
        y -= height;
        CellPart { class: class(*level), y, height }
    });
    parts.collect()
}

/// The strip of the last days, one cell an hour.
pub(super) struct Strip {
    pub(super) cells: Vec<Cell>,
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) cell_width: u32,
    pub(super) since: OffsetDateTime,
}

pub(super) fn strip(known: &HealthHistory, now: OffsetDateTime) -> Strip {
    let told: BTreeMap<OffsetDateTime, &HealthSpan> =
        known.cells.iter().map(|cell| (cell.at, cell)).collect();
    let begin = first_cell(now);
    let count = u32::try_from(STRIP.as_secs() / CELL.as_secs()).unwrap_or_default();
    let cells = (0..count).map(|index| {
        let at = begin + CELL * index;
        let span = told.get(&at);
        let words = match span {
            None => said(&text!("nothing is known")),
            Some(span) if span.problems.is_empty() => said(&text!("healthy")),
            Some(span) => in_words(&span.problems),
        };
        Cell {
            x: index * CELL_WIDTH,
            is_told: span.is_some(),
            parts: span.map(|span| parts(span)).unwrap_or_default(),
            words: format!("{}: {words}", local(at)),
            address: address(
                PATH,
                &domain::fields::Fields::default(),
                &[("at", &domain::moment::rfc3339(at))],
            ),
        }
    });
    Strip {
        cells: cells.collect(),
        width: count * CELL_WIDTH,
        height: HEIGHT,
        cell_width: CELL_WIDTH - 1,
        since: begin,
    }
}

/// What was wrong in a span, with the minutes of it.
pub(crate) fn in_words(problems: &BTreeMap<HealthProblem, i64>) -> String {
    let parts = problems.iter().map(|(problem, minutes)| with_minutes(*problem, *minutes));
    parts.collect::<Vec<_>>().join("; ")
}

fn with_minutes(problem: HealthProblem, minutes: i64) -> String {
    said(&text!("{problem}, {minutes} min", problem = called(problem), minutes = minutes.to_string()))
}

#[derive(Template)]
#[template(path = "health.html")]
struct HealthPage<'a> {
    page: Page<'a>,
    verdict: Option<Sentences>,
    strip: Strip,
    charts: HealthCharts,
    earlier: String,
    later: Option<String>,
    /// Minute by minute, of an hour alone.
    minutes: Vec<HealthMinute>,
    /// What was wrong in that time, with the minutes of it. Empty when all was well.
    wrong: BTreeMap<HealthProblem, i64>,
}

/// Charts of a length of time, and each minute of an hour, newest first. It begins with the hour of the moment `at`, or
/// ends now.
async fn page(request: ConsoleRequest) -> Answer {
    let state = &request.state;
    let now = request.now();
    let mut filters = request.filters();
    let span = read_span(&mut filters);
    let begin = match filters.read("at", parse_moment) {
        Some(at) => {
            // A chart has a length of time before it, too.
            let at = at.clamp(OffsetDateTime::UNIX_EPOCH, now);
            OffsetDateTime::from_unix_timestamp(at.unix_timestamp().div_euclid(3600) * 3600).unwrap_or(at)
        }
        None => newest_end(span, now) - span.length(),
    };
    let end = begin + span.length();
    let known = state.health.known();
    let charts = charts(&request, span, begin).await;
    let mut minutes = Vec::new();
    if span == ChartSpan::Hour {
        let read = tokio::time::timeout(super::super::READY_TIMEOUT, state.store.health(begin, end)).await;
        let is_within = |minute: &&HealthMinute| minute.at >= begin && minute.at < end;
        let remembered = || known.minutes.iter().filter(is_within).cloned().collect();
        minutes = read.ok().and_then(Result::ok).unwrap_or_else(remembered);
        minutes.sort_by(|one, other| (other.at, &one.instance).cmp(&(one.at, &other.instance)));
    }
    let mut problems = BTreeMap::new();
    for (problem, minutes) in charts.points.iter().flat_map(|point| &point.problems) {
        *problems.entry(*problem).or_default() += minutes;
    }
    let there = |at: OffsetDateTime| request.address(&[("at", &domain::moment::rfc3339(at))]);
    let wrong = filters.wrong;
    render_search(
        &HealthPage {
            verdict: sentences(&state.health.verdict(now)),
            strip: strip(&known, now),
            earlier: there(begin - span.length()),
            later: (end < now).then(|| there(end)),
            wrong: problems,
            minutes,
            charts,
            page: request.page(Section::OVERVIEW, "Health").marking(&wrong),
        },
        &wrong,
    )
}

/// Exchanges a second in a minute.
fn per_second(minute: &HealthMinute) -> String {
    let answers = u32::try_from(minute.answers()).unwrap_or(u32::MAX);
    figure(Some(f64::from(answers) / Duration::from_mins(1).as_secs_f64()))
}

/// A measured value, where there is one.
pub(crate) fn figure(value: Option<f64>) -> String {
    value.map_or_else(|| "\u{2013}".to_owned(), |value| format!("{value:.1}"))
}

/// A count, where there is one.
pub(crate) fn count(count: Option<i64>) -> String {
    count.map_or_else(|| "\u{2013}".to_owned(), |count| count.shown())
}

/// Codes, each with how often it came.
fn refusals(minute: &HealthMinute) -> Vec<(i64, String)> {
    let codes = minute.refused.iter();
    codes.map(|(code, count)| (i64::from(*code), format!("{code} \u{d7} {}", count.shown()))).collect()
}

/// The end of the minute of which an instance told at its beginning.
fn end_of(minute: &HealthMinute) -> OffsetDateTime {
    minute.at + Duration::from_mins(1)
}
