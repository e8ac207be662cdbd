//! Health over time on the console (contract 16.3).

use std::collections::BTreeMap;
use std::time::Duration;

use domain::console_user::Role;
use domain::health::HealthMinute;
use domain::moment::rfc3339;
use time::OffsetDateTime;

use super::accessible::faults;
use super::reading::{content, rows};
use crate::game::Game;
use crate::support::{NOW, TestTill, until};

fn now() -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(NOW / 1000).unwrap()
}

fn minute(instance: &str, ago: u64) -> HealthMinute {
    let begin = OffsetDateTime::from_unix_timestamp((NOW / 60_000) * 60).unwrap();
    HealthMinute {
        at: begin - Duration::from_mins(ago),
        instance: instance.to_owned(),
        succeeded: 119,
        refused: BTreeMap::from([(10_000_601, 1)]),
        p50_ms: Some(3.21),
        p99_ms: Some(20.0),
        queue: 7,
        queue_max: 10_000,
        database_up: true,
        round_trip_ms: 0.5,
        takes_uploads: true,
        receivers_failing: 0,
        stopped: false,
    }
}

async fn learn(till: &TestTill, minutes: &[HealthMinute]) {
    till.store.write_health(minutes).await.unwrap();
    till.till.health.learn(&till.store, NOW).await.unwrap();
}

/// Rules 16.3.1 and 16.3.2: the verdict in words, and a strip whose cells lead to their hour.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_page_opens_with_the_verdict() {
    let till = TestTill::start().await;
    let viewer = till.browser(Role::Viewer).await;
    let page = viewer.get("/console").await;
    assert!(content(&page).contains("Health The verdict comes within a minute."), "{}", content(&page));
    let mut minutes: Vec<_> = (1..10).flat_map(|ago| [minute("a:1", ago), minute("b:1", ago)]).collect();
    learn(&till, &minutes).await;
    let page = viewer.get("/console").await;
    assert!(content(&page).contains("Health Healthy Instances: 2."), "{}", content(&page));
    assert_eq!(faults(&page.body), Vec::<String>::new());
    for minute in &mut minutes {
        minute.database_up = minute.instance != "a:1" || minute.at < now() - Duration::from_mins(4);
    }
    // A bad hour of the day before.
    let night = HealthMinute { takes_uploads: false, ..minute("a:1", 1440) };
    minutes.push(night.clone());
    learn(&till, &minutes).await;
    let page = viewer.get("/console").await;
    let since = rfc3339(minute("a:1", 4).at).replace('T', " ");
    let since = &since[..16];
    let told = format!("Health Down since {since}: database away, 1 of 2 instances");
    assert!(content(&page).contains(&told), "{told}\n{}", content(&page));
    let rects = |class: &str| page.body.matches(&format!("<rect class=\"{class}\"")).count();
    assert_eq!((rects("bad"), rects("wait"), rects("note")), (1, 1, 0), "{}", page.body);
    assert_eq!(rects("none"), 168 - rects("good"));
    let hour = OffsetDateTime::from_unix_timestamp(night.at.unix_timestamp() / 3600 * 3600).unwrap();
    let address = format!("/console/health?at={}", rfc3339(hour).replace(':', "%3A"));
    assert!(page.body.contains(&format!("<a href=\"{address}\" aria-label=\"")), "{address}\n{}", page.body);
    assert!(page.body.contains("no room for pictures, 1 min</title>"), "{}", page.body);
    let page = viewer.get(&address).await;
    let expected = [
        rfc3339(night.at).replace('T', " ").trim_end_matches('Z').to_owned(),
        "a:1".to_owned(),
        "no room for pictures".to_owned(),
        "2.0".to_owned(),
        "3.2".to_owned(),
        "20.0".to_owned(),
        "10000601 × 1".to_owned(),
        "7".to_owned(),
        "0.5".to_owned(),
    ];
    assert_eq!(rows(&page.body), [expected]);
    assert!(
        page.body.contains("<span class=\"tag wait\">no room for pictures, 1 min</span>"),
        "{}",
        page.body
    );
    let present = viewer.get(&format!("/console/health?at={}", rfc3339(minute("a:1", 4).at))).await;
    assert!(present.body.contains("<span class=\"tag bad\">database away, 4 min</span>"), "{}", present.body);
    assert_eq!(faults(&page.body), Vec::<String>::new());
    let page = viewer.get("/console/health?at=soon").await;
    assert_eq!(page.status, 400);
}

/// Rules 16.2.3 and 16.3.2: a failing receiver is a notice, and a cell is as high as its minutes were bad.
#[tokio::test(flavor = "multi_thread")]
async fn a_failing_receiver_is_a_notice() {
    let till = TestTill::start().await;
    let viewer = till.browser(Role::Viewer).await;
    let failing = HealthMinute { receivers_failing: 1, ..minute("a:1", 1) };
    // An hour of the day before: 10 minutes down, 20 degraded, 30 with a notice.
    let begin = OffsetDateTime::from_unix_timestamp(NOW / 3_600_000 * 3600 - 86_400).unwrap();
    let hour = (0..60).map(|number| HealthMinute {
        at: begin + Duration::from_mins(number),
        database_up: number >= 10,
        takes_uploads: number >= 30,
        ..failing.clone()
    });
    learn(&till, &hour.chain([failing.clone()]).collect::<Vec<_>>()).await;
    let page = viewer.get("/console").await;
    let since = rfc3339(failing.at).replace('T', " ");
    let told = format!(
        "Health Healthy Instances: 1. Notice since {}: receivers fail, 1 of 1 instances",
        &since[..16]
    );
    assert!(content(&page).contains(&told), "{told}\n{}", content(&page));
    let x = (168 - 1 - 24) * 6;
    let part = |class: &str, y: u32, height: u32| {
        format!(r#"<rect class="{class}" x="{x}" y="{y}" width="5" height="{height}"></rect>"#)
    };
    let cell = [part("good", 0, 36), part("bad", 30, 6), part("wait", 18, 12), part("note", 0, 18)].concat();
    let words = "database away, 10 min; no room for pictures, 30 min; receivers fail, 60 min";
    assert!(page.body.contains(&format!("{words}</title>{cell}</g></a>")), "{cell}\n{}", page.body);
    assert_eq!(faults(&page.body), Vec::<String>::new());
    let page = viewer.get("/console/health").await;
    assert!(page.body.contains("<span class=\"tag note\">receivers fail, 1 min</span>"), "{}", page.body);
}

/// Rule 16.3.3: the figures of the business come first, in whole hours, against the day before.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_page_has_what_was_taken_today() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 1000).await;
    for (number, amount) in [("b1", 60), ("b2", 30), ("b3", 45), ("b4", 5)] {
        assert_eq!(Game::new(&app, "o1", number, amount).send(&till).await.code(), 1);
    }
    assert_eq!(Game::new(&app, "o1", "b5", 7).send(&till).await.code(), 1);
    let hour = OffsetDateTime::from_unix_timestamp(NOW / 3_600_000 * 3600).unwrap();
    let midnight = hour.replace_time(time::Time::MIDNIGHT);
    for (number, at) in [
        ("b1", midnight),
        ("b2", midnight + Duration::from_mins(30)),
        ("b3", midnight - Duration::from_hours(24)),
        // Of this hour, and of yesterday after this hour.
        ("b4", hour + Duration::from_secs(1)),
        ("b5", hour - Duration::from_hours(24) + Duration::from_secs(1)),
    ] {
        till.execute(&format!(
            "UPDATE ledger_entries SET at = '{}' WHERE reference = '{number}'",
            rfc3339(at)
        ))
        .await;
    }
    till.store.number_events(None).await.unwrap();
    till.store.roll_up_sales().await.unwrap();
    learn(&till, &[]).await;
    let page = content(&till.browser(Role::Viewer).await.get("/console").await);
    let until = rfc3339(hour).replace('T', " ").trim_end_matches('Z').to_owned();
    let told = format!(
        "Coins taken today 90 until {until} , less what was given back Against yesterday at this hour +100.0 % yesterday: 45 \
         Exchanges today 2 +100.0 %, yesterday: 1"
    );
    assert!(page.contains(&told), "{told}\n{page}");
}

/// Rule 16.3.4: while the database is away, the page is there for who was signed in before, and for nobody else.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_page_needs_no_database() {
    let patient = TestTill::start().await;
    let till = TestTill::start_on(patient.database_url.clone(), |config| {
        config.database.acquire_timeout = Duration::from_millis(300);
    })
    .await;
    let known = till.browser_with(patient.browser(Role::Viewer).await.token);
    let stranger = till.browser_with(patient.browser(Role::Admin).await.token);
    patient.store.write_health(&[minute("a:1", 1)]).await.unwrap();
    till.till.health.learn(&patient.store, NOW).await.unwrap();
    until("the session is known", async || known.get("/console").await.status == 200).await;
    let name: String =
        sqlx::query_scalar("SELECT current_database()::text").fetch_one(&till.sql).await.unwrap();
    till.sql.close().await;
    let admin = sqlx::PgPool::connect(&till.database_url.replace(&name, "postgres")).await.unwrap();
    let close = format!(
        "ALTER DATABASE {name} ALLOW_CONNECTIONS false; \
         SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(close)).execute(&admin).await.unwrap();
    let page = known.get("/console").await;
    assert_eq!(page.status, 200, "{}", page.body);
    assert!(content(&page).contains("Health Healthy Instances: 1."), "{}", content(&page));
    let page = known.get("/console/health").await;
    assert_eq!(page.status, 200, "{}", page.body);
    assert!(content(&page).contains("The database does not answer."), "{}", content(&page));
    assert_eq!(rows(&page.body).len(), 1, "the minute that is remembered");
    let healthy = "<p class=\"verdict\"><span class=\"tag good\">healthy</span></p>";
    assert!(page.body.contains(healthy), "{}", page.body);
    for (browser, path) in
        [(&known, "/console/apps"), (&stranger, "/console"), (&stranger, "/console/health")]
    {
        assert_eq!(browser.get(path).await.status, 503, "{path}");
    }
}
