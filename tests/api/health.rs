//! Health over time (contract 16).

use std::time::Duration;

use domain::health::{ChartSpan, HealthLevel, HealthMinute, HealthPoint, HealthPoints, HealthProblem};
use minitill::health::{CELL, Health};
use minitill::operator::take_sample;
use time::OffsetDateTime;

use crate::game::Game;
use crate::support::{NOW, TestTill};

fn now() -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(NOW / 1000).unwrap()
}

/// Seven samples, ten seconds from one to the next.
async fn pass_a_minute(till: &TestTill) {
    for _ in 0..6 {
        till.clock.advance(Duration::from_secs(10));
        take_sample(&till.till).await;
    }
}

async fn minutes(till: &TestTill) -> Vec<HealthMinute> {
    let day = Duration::from_hours(24);
    till.store.health(now() - day, now() + day).await.unwrap()
}

/// Rules 16.1.1 and 16.1.2: a minute has what was counted and read in it.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_tells_each_minute_what_it_saw() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 2).await;
    take_sample(&till.till).await;
    for biz_no in ["b1", "b2", "b3"] {
        Game::new(&app, "o1", biz_no, 1).send(&till).await;
    }
    pass_a_minute(&till).await;
    till.till.health.tell(&till.store, &till.till.metrics.last_hour(), false).await.unwrap();
    let told = minutes(&till).await;
    let [minute] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!((minute.succeeded, minute.refused.clone()), (2, [(10_000_601, 1)].into()));
    assert_eq!(minute.at.unix_timestamp() % 60, 0);
    assert!(
        minute.database_up && minute.takes_uploads && !minute.stopped && minute.queue_max > 0,
        "{minute:?}"
    );
    assert!(minute.p50_ms.unwrap() > 0.0 && minute.p99_ms >= minute.p50_ms, "{minute:?}");
    assert_eq!(minute.problems().len(), 0);
    assert!(minute.started && minute.connections.unwrap() >= 0, "{minute:?}");
    assert!(minute.database_connections.unwrap() >= 0, "{minute:?}");
    // The next minute counts from this one on. What stops says so in its own row.
    pass_a_minute(&till).await;
    for stopped in [false, true] {
        till.till.health.tell(&till.store, &till.till.metrics.last_hour(), stopped).await.unwrap();
    }
    let told = minutes(&till).await;
    let [_, minute] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!((minute.succeeded, minute.refused.len(), minute.p50_ms), (0, 0, None));
    assert!(minute.stopped && !minute.started);
    assert_eq!(till.till.health.verdict(now() + Duration::from_mins(3)).instances, 0);
}

/// Rule 16.1.3: what cannot be written waits, and the verdict is told from memory.
#[tokio::test(flavor = "multi_thread")]
async fn minutes_wait_for_the_database() {
    let till = TestTill::start().await;
    let other = Health::new(1, domain::period::TimeZone::UTC);
    take_sample(&till.till).await;
    pass_a_minute(&till).await;
    other.tell(&till.store, &till.till.metrics.last_hour(), false).await.unwrap();
    till.execute("ALTER TABLE health_minutes RENAME TO gone").await;
    pass_a_minute(&till).await;
    let samples: Vec<_> = till
        .till
        .metrics
        .last_hour()
        .into_iter()
        .map(|mut sample| {
            sample.reading.database_up = sample.at_millis <= NOW + 60_000;
            sample
        })
        .collect();
    assert!(other.tell(&till.store, &samples, false).await.is_err());
    let at = OffsetDateTime::from_unix_timestamp(NOW / 1000 + 121).unwrap();
    let verdict = other.verdict(at);
    assert_eq!((verdict.instances, verdict.problems[0].problem), (1, HealthProblem::DatabaseAway));
    let known = other.known();
    assert_eq!((known.minutes.len(), known.cells.len()), (2, 1), "the strip is as it was");
    till.execute("ALTER TABLE gone RENAME TO health_minutes").await;
    pass_a_minute(&till).await;
    other.tell(&till.store, &till.till.metrics.last_hour(), false).await.unwrap();
    let told = minutes(&till).await;
    assert_eq!(told.iter().map(|minute| minute.database_up).collect::<Vec<_>>(), [true, false, true]);
}

/// Rule 16.1.3: a minute that is told by two at once, or again while it waits, is written as it was told last.
#[tokio::test(flavor = "multi_thread")]
async fn a_minute_may_be_told_again() {
    let till = TestTill::start().await;
    let other = Health::new(1, domain::period::TimeZone::UTC);
    take_sample(&till.till).await;
    pass_a_minute(&till).await;
    let samples = till.till.metrics.last_hour();
    let written = |stopped| other.tell(&till.store, &samples, stopped);
    till.execute("DELETE FROM health_minutes").await;
    let (one, two) = tokio::join!(written(false), written(false));
    one.and(two).unwrap();
    assert_eq!(minutes(&till).await.len(), 1);
    till.execute("ALTER TABLE health_minutes RENAME TO gone").await;
    written(false).await.unwrap_err();
    till.execute("ALTER TABLE gone RENAME TO health_minutes").await;
    written(true).await.unwrap();
    assert_eq!(minutes(&till).await.iter().map(|minute| minute.stopped).collect::<Vec<_>>(), [true]);
}

/// Rules 16.1.4 and 16.2.2: cells have the minutes of all instances, and old minutes go.
#[tokio::test(flavor = "multi_thread")]
async fn cells_count_what_was_wrong() {
    let till = TestTill::start().await;
    take_sample(&till.till).await;
    pass_a_minute(&till).await;
    till.till.health.tell(&till.store, &till.till.metrics.last_hour(), false).await.unwrap();
    let minute = minutes(&till).await.remove(0);
    let begin = minute.at;
    let at = |instance: &str, minutes: u64, is_well: bool| HealthMinute {
        at: begin + Duration::from_mins(minutes),
        instance: instance.to_owned(),
        database_up: is_well,
        takes_uploads: is_well,
        ..minute.clone()
    };
    let more = [at("b", 0, true), at("b", 1, false), at("c", 1, false), at("c", 60, true)];
    till.store.write_health(&more).await.unwrap();
    let cells = till.store.health_spans(begin, begin + Duration::from_hours(3), CELL).await.unwrap();
    let told: Vec<_> = cells.iter().map(|cell| (cell.at - begin, cell.told)).collect();
    assert_eq!(told, [(Duration::ZERO.try_into().unwrap(), 4), (CELL.try_into().unwrap(), 1)]);
    assert_eq!(
        cells[0].problems,
        [(HealthProblem::DatabaseAway, 2), (HealthProblem::UploadsRefused, 2)].into()
    );
    assert_eq!(cells[0].levels, [(HealthLevel::Down, 2)].into(), "a minute counts once");
    assert_eq!((cells[1].problems.len(), cells[1].levels.len()), (0, 0));
    let shift = "UPDATE health_minutes SET at = at + (now() - '2027-01-15 00:00Z') - make_interval(days => ";
    till.execute(&format!("{shift} CASE instance WHEN 'c' THEN 31 ELSE 2 END)")).await;
    assert_eq!(till.store.forget_old_health().await.unwrap(), 2);
}

/// Rule 16.3.5: the database adds up what the domain does, of minutes with and without each figure.
#[tokio::test(flavor = "multi_thread")]
async fn the_database_adds_up_steps_as_the_domain_does() {
    let till = TestTill::start().await;
    let since = OffsetDateTime::from_unix_timestamp(NOW / 86_400_000 * 86_400).unwrap();
    let mut minutes = Vec::new();
    for number in 0..400_i64 {
        let float = |number: i64| f64::from(i32::try_from(number).unwrap());
        minutes.push(HealthMinute {
            at: since + Duration::from_mins(u64::try_from(number * 7 % 1500 / 2).unwrap()),
            instance: format!("i{}", number % 3),
            succeeded: number * 31 % 97,
            refused: [(10_000_601, number % 4), (10_000_500, number % 11 / 10)]
                .into_iter()
                .filter(|(_, count)| *count > 0)
                .collect(),
            p50_ms: (number % 5 > 0).then(|| float(number % 13) + 0.25),
            p99_ms: (number % 5 > 0).then(|| float(number * 17 % 1200)),
            queue: number % 9,
            queue_max: 16,
            database_up: number % 23 > 0,
            round_trip_ms: float(number % 19) / 8.0,
            takes_uploads: number % 29 > 0,
            receivers_failing: number % 31 / 30,
            stopped: false,
            started: number % 37 == 0,
            connections: (number % 6 > 0).then_some(number % 41),
            database_connections: (number % 7 > 1).then_some(number % 5),
        });
    }
    // A row of one instance and minute is written once.
    minutes.sort_by_key(|minute| (minute.at, minute.instance.clone()));
    minutes.dedup_by_key(|minute| (minute.at, minute.instance.clone()));
    till.store.write_health(&minutes).await.unwrap();
    for span in [ChartSpan::Hour, ChartSpan::Day, ChartSpan::Month] {
        let mut expected = HealthPoints::new(since, span);
        for minute in &minutes {
            expected.add(minute);
        }
        let shown = |points: Vec<HealthPoint>| -> Vec<_> {
            let thousandths = |ms: Option<f64>| ms.map(|ms| format!("{ms:.3}"));
            let shown = points.into_iter().map(|point| {
                let ms = [point.p50_ms, point.p99_ms, point.round_trip_ms].map(thousandths);
                let counts = [point.queue, point.connections, point.database_connections];
                (
                    point.at,
                    point.minutes,
                    point.succeeded,
                    point.refused,
                    ms,
                    counts,
                    point.started,
                    point.problems,
                )
            });
            shown.collect()
        };
        let points = till.store.health_points(since, span).await.unwrap();
        assert_eq!(shown(points), shown(expected.finish()), "{span}");
    }
}
