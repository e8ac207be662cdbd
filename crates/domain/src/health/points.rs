//! Time series of health for charts (contract 16.3.5): minutes of all instances, added up in steps of equal length.

use std::collections::BTreeMap;
use std::time::Duration;

use time::OffsetDateTime;

use super::{HealthMinute, HealthProblem};

crate::word_enum! {
    /// How long a time charts show.
    pub enum ChartSpan {
        /// 60 minutes.
        Hour = "hour",
        /// 24 hours.
        Day = "day",
        /// 7 days.
        Week = "week",
        /// 30 days.
        Month = "month",
    }
}

impl ChartSpan {
    /// The length of the time.
    #[must_use]
    pub const fn length(self) -> Duration {
        match self {
            Self::Hour => Duration::from_hours(1),
            Self::Day => Duration::from_hours(24),
            Self::Week => Duration::from_hours(7 * 24),
            Self::Month => Duration::from_hours(30 * 24),
        }
    }

    /// The time from one point to the next. No chart has more than 180.
    #[must_use]
    pub const fn step(self) -> Duration {
        match self {
            Self::Hour => Duration::from_mins(1),
            Self::Day => Duration::from_mins(10),
            Self::Week => Duration::from_hours(1),
            Self::Month => Duration::from_hours(4),
        }
    }
}

/// The observations of all instances in one step.
#[derive(Debug, Clone, PartialEq)]
pub struct HealthPoint {
    /// Its beginning.
    pub at: OffsetDateTime,
    /// Minutes of it of which some instance told.
    pub minutes: i64,
    /// Exchanges that succeeded.
    pub succeeded: i64,
    /// Refusals of exchanges by the number of their code.
    pub refused: BTreeMap<u32, i64>,
    /// The p50 of its minutes in milliseconds, weighted by their exchanges.
    pub p50_ms: Option<f64>,
    /// The highest p99 of a minute in milliseconds.
    pub p99_ms: Option<f64>,
    /// The most exchanges that waited at the end of a minute, on all instances together.
    pub queue: Option<i64>,
    /// The most open connections at the end of a minute, on all instances together.
    pub connections: Option<i64>,
    /// The most connections to the database that were in use then.
    pub database_connections: Option<i64>,
    /// The longest round trip to the database in milliseconds.
    pub round_trip_ms: Option<f64>,
    /// Whether an instance started in it.
    pub started: bool,
    /// The faults, and in how many minutes of instances each was.
    pub problems: BTreeMap<HealthProblem, i64>,
    /// Exchanges of the minutes that have a p50.
    weight: i64,
}

impl HealthPoint {
    fn new(at: OffsetDateTime) -> Self {
        Self {
            at,
            minutes: 0,
            succeeded: 0,
            refused: BTreeMap::new(),
            p50_ms: None,
            p99_ms: None,
            queue: None,
            connections: None,
            database_connections: None,
            round_trip_ms: None,
            started: false,
            problems: BTreeMap::new(),
            weight: 0,
        }
    }

    /// A count of the step as a rate per second, over the minutes of which somebody told. `None` without such a minute.
    #[must_use]
    pub fn per_second(&self, count: i64) -> Option<f64> {
        (self.minutes > 0).then(|| float(count) / (float(self.minutes) * 60.0))
    }

    /// All refusals together.
    #[must_use]
    pub fn all_refused(&self) -> i64 {
        self.refused.values().sum()
    }

    fn add(&mut self, minute: &HealthMinute) {
        self.succeeded += minute.succeeded;
        for (code, count) in &minute.refused {
            *self.refused.entry(*code).or_default() += count;
        }
        if let Some(p50) = minute.p50_ms {
            // A minute with a quantile has an exchange, though it may have ended with no code of the table.
            let weight = minute.answers().max(1);
            let before = self.p50_ms.unwrap_or_default() * float(self.weight);
            self.weight += weight;
            self.p50_ms = Some((before + p50 * float(weight)) / float(self.weight));
        }
        self.p99_ms = self.p99_ms.max_of(minute.p99_ms);
        self.round_trip_ms = self.round_trip_ms.max_of(minute.database_up.then_some(minute.round_trip_ms));
        self.started |= minute.started;
        for problem in minute.problems() {
            *self.problems.entry(problem).or_default() += 1;
        }
    }
}

/// The greater of two numbers that may be missing.
trait MaxOf {
    fn max_of(self, other: Self) -> Self;
}

impl MaxOf for Option<f64> {
    fn max_of(self, other: Self) -> Self {
        self.into_iter().chain(other).reduce(f64::max)
    }
}

/// Counts of a month are far below what a float holds exactly.
#[expect(clippy::cast_precision_loss, reason = "counts of a month are far below 2 to the 53")]
fn float(count: i64) -> f64 {
    count as f64
}

/// Points of equal steps, into which minutes are added, the oldest first.
#[derive(Debug, Clone)]
pub struct HealthPoints {
    since: OffsetDateTime,
    step: Duration,
    points: Vec<HealthPoint>,
    /// The minute that is added up over the instances: its beginning, queue, connections, and connections to the database.
    minute: Option<(OffsetDateTime, [Option<i64>; 3])>,
}

impl HealthPoints {
    /// Points without a minute, the first at `since`.
    #[must_use]
    pub fn new(since: OffsetDateTime, span: ChartSpan) -> Self {
        let step = span.step();
        let count = u32::try_from(span.length().as_secs() / step.as_secs()).unwrap_or_default();
        let points = (0..count).map(|index| HealthPoint::new(since + step * index)).collect();
        Self { since, step, points, minute: None }
    }

    /// Adds a minute of an instance. Minutes come in the order of time; what lies outside is left out.
    pub fn add(&mut self, minute: &HealthMinute) {
        let Some(index) = self.index(minute.at) else { return };
        let is_new = self.minute.is_none_or(|(at, _)| at != minute.at);
        if is_new {
            self.end_minute();
            self.points[index].minutes += 1;
        }
        self.points[index].add(minute);
        let told = [Some(minute.queue), minute.connections, minute.database_connections];
        let (_, sums) = self.minute.get_or_insert((minute.at, [None; 3]));
        for (sum, told) in sums.iter_mut().zip(told) {
            *sum = sum.map_or(told, |sum| Some(sum + told.unwrap_or_default()));
        }
    }

    /// The points, oldest first.
    #[must_use]
    pub fn finish(mut self) -> Vec<HealthPoint> {
        self.end_minute();
        self.points
    }

    fn index(&self, at: OffsetDateTime) -> Option<usize> {
        let seconds = u64::try_from((at - self.since).whole_seconds()).ok()?;
        usize::try_from(seconds / self.step.as_secs()).ok().filter(|index| *index < self.points.len())
    }

    fn end_minute(&mut self) {
        let Some((at, [queue, connections, database])) = self.minute.take() else { return };
        let Some(index) = self.index(at) else { return };
        let point = &mut self.points[index];
        point.queue = point.queue.max(queue);
        point.connections = point.connections.max(connections);
        point.database_connections = point.database_connections.max(database);
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    const SINCE: OffsetDateTime = datetime!(2026-11-24 03:00 UTC);

    fn minute(instance: &str, minutes: u64) -> HealthMinute {
        HealthMinute {
            at: SINCE + Duration::from_mins(minutes),
            instance: instance.to_owned(),
            succeeded: 60,
            refused: BTreeMap::new(),
            p50_ms: Some(2.0),
            p99_ms: Some(10.0),
            queue: 1,
            queue_max: 10_000,
            database_up: true,
            round_trip_ms: 0.5,
            takes_uploads: true,
            receivers_failing: 0,
            stopped: false,
            started: false,
            connections: Some(5),
            database_connections: None,
        }
    }

    #[test]
    fn a_point_adds_up_minutes_and_instances() {
        let mut points = HealthPoints::new(SINCE, ChartSpan::Day);
        let refused = [(10_000_601, 30), (10_000_500, 30)].into();
        let slow = HealthMinute { p50_ms: Some(8.0), p99_ms: Some(90.0), queue: 7, ..minute("b", 1) };
        let bad = HealthMinute { refused, started: true, database_up: false, round_trip_ms: 9.0, ..slow };
        for told in [minute("a", 0), minute("b", 0), minute("a", 1), bad, minute("a", 20), minute("a", 1440)]
        {
            points.add(&told);
        }
        let points = points.finish();
        assert_eq!((points.len(), points[1].minutes, points[1].queue), (144, 0, None));
        let first = &points[0];
        assert_eq!((first.minutes, first.succeeded, first.all_refused()), (2, 240, 60));
        assert_eq!((first.per_second(240), points[1].per_second(0)), (Some(2.0), None));
        // 3 minutes of 60 exchanges with 2 ms, and one of 120 with 8 ms.
        assert_eq!((first.p50_ms, first.p99_ms, first.round_trip_ms), (Some(4.4), Some(90.0), Some(0.5)));
        assert_eq!((first.queue, first.connections, first.database_connections), (Some(8), Some(10), None));
        assert_eq!((first.started, points[2].started), (true, false));
        assert_eq!(first.problems, [(HealthProblem::DatabaseAway, 1), (HealthProblem::Failing, 1)].into());
        assert_eq!((points[2].minutes, points[2].queue), (1, Some(1)));
    }

    /// Rule 16.3.5: the worst minute of a step counts, whether it comes first or last.
    #[test]
    fn a_point_has_the_worst_minute() {
        for (worst, quiet) in [(0, 1), (1, 0)] {
            let worst = HealthMinute {
                p99_ms: Some(90.0),
                queue: 9,
                connections: Some(50),
                database_connections: Some(6),
                round_trip_ms: 4.0,
                ..minute("a", worst)
            };
            let quiet = HealthMinute { database_connections: Some(2), ..minute("a", quiet) };
            let mut told = [worst, quiet];
            told.sort_by_key(|minute| minute.at);
            let mut points = HealthPoints::new(SINCE, ChartSpan::Day);
            for minute in &told {
                points.add(minute);
            }
            let first = points.finish().swap_remove(0);
            assert_eq!((first.p99_ms, first.round_trip_ms), (Some(90.0), Some(4.0)));
            let counts = (first.queue, first.connections, first.database_connections);
            assert_eq!(counts, (Some(9), Some(50), Some(6)));
        }
    }

    #[test]
    fn no_chart_has_too_many_points() {
        for span in ChartSpan::ALL {
            assert!((60..=180).contains(&HealthPoints::new(SINCE, span).finish().len()), "{span}");
        }
    }
}
