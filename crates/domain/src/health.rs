//! Health of the till over time (contract 16.1 and 16.2): what each instance saw in a minute, and the verdict in words.

mod points;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

pub use points::{ChartSpan, HealthPoint, HealthPoints};

/// An instance that has told nothing for so long is silent.
pub const SILENT_AFTER: Duration = Duration::from_mins(3);
/// An instance is forgotten by the verdict after so long.
pub const FORGOTTEN_AFTER: Duration = Duration::from_hours(1);
/// Answers of a minute below which shares and quantiles say little.
const ANSWERS_MIN: i64 = 20;
/// The p99 of exchanges from which on the till is slow.
const SLOW_MS: f64 = 1000.0;

/// What one instance saw in one minute.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own, stored by its name")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HealthMinute {
    /// Beginning of the minute.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub at: OffsetDateTime,
    /// The instance: its host and port.
    pub instance: String,
    /// Exchanges that succeeded.
    pub succeeded: i64,
    /// Refusals of exchanges by the number of their code.
    pub refused: BTreeMap<u32, i64>,
    /// Half of the exchanges took at most so many milliseconds. `None` without any.
    pub p50_ms: Option<f64>,
    /// 99 of 100 exchanges took at most so many milliseconds.
    pub p99_ms: Option<f64>,
    /// Exchanges that waited at the end of the minute.
    pub queue: i64,
    /// How many may wait.
    pub queue_max: i64,
    /// Whether the database answered at each look.
    pub database_up: bool,
    /// The longest round trip to the database in milliseconds.
    pub round_trip_ms: f64,
    /// Whether the disk had room for new pictures.
    pub takes_uploads: bool,
    /// Receivers that failed.
    pub receivers_failing: i64,
    /// Whether the instance said that it stops.
    pub stopped: bool,
    /// Whether it is the first minute since the start of the instance.
    #[serde(default)]
    pub started: bool,
    /// Open connections of the public listener. `None` in minutes of versions that did not tell.
    #[serde(default)]
    pub connections: Option<i64>,
    /// Connections to the database that were in use. `None` in minutes of versions that did not tell.
    #[serde(default)]
    pub database_connections: Option<i64>,
}

crate::word_enum! {
    /// What can be wrong.
    pub enum HealthProblem {
        /// The database did not answer.
        DatabaseAway = "database_away",
        /// Exchanges ended without a decision: 10000500, a hundredth or more.
        Failing = "failing",
        /// Half of the exchanges that may wait were waiting.
        Overloaded = "overloaded",
        /// 99 of 100 exchanges took longer than a second.
        Slow = "slow",
        /// The disk had no room for new pictures.
        UploadsRefused = "uploads_refused",
        /// An instance tells nothing any more, and did not say that it stops.
        Silent = "silent",
        /// A receiver did not take what was sent.
        ReceiversFailing = "receivers_failing",
    }
}

crate::word_enum! {
    /// How bad a problem is (contract 16.2.1), the worst first.
    pub enum HealthLevel {
        /// Payments fail.
        Down = "down",
        /// Payments are taken, and something of the till is not as it should be.
        Degraded = "degraded",
        /// The till is well, and something around it is not.
        Notice = "notice",
    }
}

impl HealthProblem {
    /// How bad it is.
    #[must_use]
    pub const fn level(self) -> HealthLevel {
        match self {
            Self::DatabaseAway | Self::Failing => HealthLevel::Down,
            Self::Overloaded | Self::Slow | Self::UploadsRefused | Self::Silent => HealthLevel::Degraded,
            Self::ReceiversFailing => HealthLevel::Notice,
        }
    }
}

impl HealthMinute {
    /// Exchanges that were answered.
    #[must_use]
    pub fn answers(&self) -> i64 {
        self.succeeded + self.refused.values().sum::<i64>()
    }

    /// The faults in this minute.
    #[must_use]
    pub fn problems(&self) -> BTreeSet<HealthProblem> {
        let answers = self.answers();
        let failed = self.refused.get(&10_000_500).copied().unwrap_or_default();
        let mut problems = BTreeSet::new();
        let mut note = |problem, is_there| {
            if is_there {
                problems.insert(problem);
            }
        };
        note(HealthProblem::DatabaseAway, !self.database_up);
        note(HealthProblem::Failing, failed > 0 && failed * 100 >= answers);
        note(HealthProblem::Overloaded, self.queue_max > 0 && self.queue * 2 >= self.queue_max);
        note(HealthProblem::Slow, answers >= ANSWERS_MIN && self.p99_ms.is_some_and(|p99| p99 > SLOW_MS));
        note(HealthProblem::UploadsRefused, !self.takes_uploads);
        note(HealthProblem::ReceiversFailing, self.receivers_failing > 0);
        problems
    }
}

/// A problem of the present.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PresentProblem {
    /// What is wrong.
    pub problem: HealthProblem,
    /// The beginning of the first minute of it, without a minute between that was well.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub since: OffsetDateTime,
    /// How many instances see it.
    pub instances: usize,
}

/// How the till is now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Verdict {
    /// What is wrong, the worst first.
    pub problems: Vec<PresentProblem>,
    /// How many instances there are, the silent ones too.
    pub instances: usize,
}

impl Verdict {
    /// Whether nothing is worse than a notice (contract 16.2.3).
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.problems.iter().all(|present| present.problem.level() == HealthLevel::Notice)
    }

    /// The verdict at `now` on these minutes, in any order.
    #[must_use]
    pub fn of(minutes: &[HealthMinute], now: OffsetDateTime) -> Self {
        let mut by_instance: BTreeMap<&str, BTreeMap<OffsetDateTime, &HealthMinute>> = BTreeMap::new();
        for minute in minutes.iter().filter(|minute| minute.at > now - FORGOTTEN_AFTER && minute.at <= now) {
            by_instance.entry(&minute.instance).or_default().insert(minute.at, minute);
        }
        by_instance.retain(|_, told| told.values().next_back().is_some_and(|last| !last.stopped));
        let mut present: BTreeMap<HealthProblem, (OffsetDateTime, usize)> = BTreeMap::new();
        for told in by_instance.values() {
            let Some(last) = told.values().next_back() else { continue };
            // A minute is told when it is over.
            if last.at + Duration::from_mins(1) + SILENT_AFTER < now {
                note(&mut present, HealthProblem::Silent, last.at + Duration::from_mins(1));
                continue;
            }
            for problem in last.problems() {
                let before = told.values().rev().take_while(|minute| minute.problems().contains(&problem));
                let since = before.last().map_or(last.at, |minute| minute.at);
                note(&mut present, problem, since);
            }
        }
        let problems = present
            .into_iter()
            .map(|(problem, (since, instances))| PresentProblem { problem, since, instances })
            .collect();
        Self { problems, instances: by_instance.len() }
    }
}

fn note(
    present: &mut BTreeMap<HealthProblem, (OffsetDateTime, usize)>,
    problem: HealthProblem,
    since: OffsetDateTime,
) {
    let known = present.entry(problem).or_insert((since, 0));
    known.0 = known.0.min(since);
    known.1 += 1;
}

/// A span of the past on a strip: the worst that any instance saw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HealthSpan {
    /// Its beginning.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub at: OffsetDateTime,
    /// Minutes that instances reported.
    pub told: i64,
    /// The faults, and in how many of them each was.
    pub problems: BTreeMap<HealthProblem, i64>,
    /// How many of them were how bad. A minute counts once, by its worst problem.
    pub levels: BTreeMap<HealthLevel, i64>,
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    const NOW: OffsetDateTime = datetime!(2026-11-24 03:10:30 UTC);

    fn minute(instance: &str, ago: u64) -> HealthMinute {
        HealthMinute {
            at: datetime!(2026-11-24 03:10 UTC) - Duration::from_mins(ago),
            instance: instance.to_owned(),
            succeeded: 100,
            refused: BTreeMap::new(),
            p50_ms: Some(3.0),
            p99_ms: Some(20.0),
            queue: 0,
            queue_max: 10_000,
            database_up: true,
            round_trip_ms: 0.5,
            takes_uploads: true,
            receivers_failing: 0,
            stopped: false,
            started: false,
            connections: Some(12),
            database_connections: Some(3),
        }
    }

    #[test]
    fn a_minute_tells_what_was_wrong() {
        let well = minute("a", 1);
        let problems = |change: fn(&mut HealthMinute)| {
            let mut minute = well.clone();
            change(&mut minute);
            minute.problems().into_iter().collect::<Vec<_>>()
        };
        assert_eq!(problems(|_| {}), []);
        assert_eq!(problems(|minute| minute.database_up = false), [HealthProblem::DatabaseAway]);
        assert_eq!(problems(|minute| minute.queue = 5000), [HealthProblem::Overloaded]);
        assert_eq!(problems(|minute| minute.queue = 4999), []);
        assert_eq!(problems(|minute| minute.p99_ms = Some(1000.1)), [HealthProblem::Slow]);
        assert_eq!(
            problems(|minute| {
                minute.succeeded = 19;
                minute.p99_ms = Some(5000.0);
            }),
            [],
            "a few slow ones"
        );
        assert_eq!(problems(|minute| minute.takes_uploads = false), [HealthProblem::UploadsRefused]);
        assert_eq!(problems(|minute| minute.receivers_failing = 1), [HealthProblem::ReceiversFailing]);
        let failed = |minute: &mut HealthMinute| minute.refused = [(10_000_500, 2)].into();
        assert_eq!(problems(failed), [HealthProblem::Failing], "2 of 102");
        assert_eq!(
            problems(|minute| minute.refused = [(10_000_601, 50)].into()),
            [],
            "players without coins"
        );
    }

    #[test]
    fn a_failing_receiver_leaves_the_till_healthy() {
        let levels: Vec<_> = HealthProblem::ALL.iter().map(|problem| problem.level()).collect();
        assert!(levels.is_sorted(), "the worst first: {levels:?}");
        let failing = HealthMinute { receivers_failing: 1, ..minute("a", 1) };
        let verdict = Verdict::of(std::slice::from_ref(&failing), NOW);
        assert_eq!((verdict.is_healthy(), verdict.problems.len()), (true, 1));
        let verdict = Verdict::of(&[HealthMinute { takes_uploads: false, ..failing }], NOW);
        assert_eq!((verdict.is_healthy(), verdict.problems.len()), (false, 2));
        assert_eq!(verdict.problems[0].problem, HealthProblem::UploadsRefused);
    }

    #[test]
    fn a_problem_has_its_beginning_and_its_instances() {
        let mut minutes: Vec<_> = (1..30).flat_map(|ago| [minute("a", ago), minute("b", ago)]).collect();
        assert_eq!(Verdict::of(&minutes, NOW), Verdict { problems: vec![], instances: 2 });
        for minute in &mut minutes {
            let is_bad = minute.instance == "a" && minute.at >= datetime!(2026-11-24 03:02 UTC)
                || minute.instance == "b" && minute.at >= datetime!(2026-11-24 03:04 UTC)
                || minute.at == datetime!(2026-11-24 02:50 UTC);
            minute.database_up = !is_bad;
        }
        let verdict = Verdict::of(&minutes, NOW);
        let problem = PresentProblem {
            problem: HealthProblem::DatabaseAway,
            since: datetime!(2026-11-24 03:02 UTC),
            instances: 2,
        };
        assert_eq!(verdict, Verdict { problems: vec![problem], instances: 2 });
    }

    #[test]
    fn an_instance_that_tells_nothing_is_silent_unless_it_said_so() {
        let silent: Vec<_> = (6..9).map(|ago| minute("a", ago)).chain([minute("b", 1)]).collect();
        let verdict = Verdict::of(&silent, NOW);
        assert_eq!((verdict.instances, verdict.problems.len()), (2, 1));
        assert_eq!(verdict.problems[0].problem, HealthProblem::Silent);
        assert_eq!(verdict.problems[0].since, datetime!(2026-11-24 03:05 UTC));
        let mut stopped = silent.clone();
        stopped[0].stopped = true;
        assert_eq!(Verdict::of(&stopped, NOW), Verdict { problems: vec![], instances: 1 });
        assert_eq!(Verdict::of(&silent, NOW + FORGOTTEN_AFTER), Verdict { problems: vec![], instances: 0 });
        // A moment ago it told the minute before.
        assert_eq!(Verdict::of(&[minute("a", 3)], NOW).problems, []);
    }
}
