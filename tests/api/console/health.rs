//! Health over time on the console (contract 16.3).

use std::collections::BTreeMap;
use std::time::Duration;

use domain::console_user::Role;
use domain::health::HealthMinute;
use domain::moment::rfc3339;
use serde_json::{Value, json};
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
        started: false,
        connections: Some(12),
        database_connections: Some(3),
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
    assert!(content(&page).contains("Health The verdict appears within a minute."), "{}", content(&page));
    let mut minutes: Vec<_> = (1..10).flat_map(|ago| [minute("a:1", ago), minute("b:1", ago)]).collect();
    learn(&till, &minutes).await;
    let page = viewer.get("/console").await;
    assert!(content(&page).contains("Health Healthy Instances: 2."), "{}", content(&page));
    assert_eq!(faults(&page.body), Vec::<String>::new());
    for minute in &mut minutes {
        minute.database_up = minute.instance != "a:1" || minute.at < now() - Duration::from_mins(4);
    }
    // A bad hour of the day before.
    let refused = BTreeMap::from([(10_000_601, 1), (100_200_114, 2)]);
    let night = HealthMinute { takes_uploads: false, refused, ..minute("a:1", 1440) };
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
        "10000601 × 1 , 100200114 × 2".to_owned(),
        "7".to_owned(),
        "0.5".to_owned(),
    ];
    assert_eq!(rows(&page.body).pop().unwrap(), expected);
    // Nothing is kept of a wrong signature, so there is no list.
    assert!(page.body.contains(">10000601 × 1</a>, 100200114 × 2</span>"), "{}", page.body);
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

/// The values of an attribute of a page, which are JSON.
fn data(page: &str, name: &str) -> Vec<Value> {
    let start = format!(" {name}=\"");
    let values = page.split(&start).skip(1).map(|rest| rest.split('"').next().unwrap());
    values
        .map(|value| serde_json::from_str(&value.replace("&#34;", "\"").replace("&#38;", "&")).unwrap())
        .collect()
}

/// Rules 16.3.5 to 16.3.7: charts of all instances over an hour, a day, a week and 30 days.
#[tokio::test(flavor = "multi_thread")]
async fn charts_show_the_minutes_of_all_instances() {
    let till = TestTill::start().await;
    let viewer = till.browser(Role::Viewer).await;
    let page = viewer.get("/console").await;
    assert_eq!(data(&page.body, "data-plot").len(), 6, "before the first minute, too");
    let slow = HealthMinute {
        refused: [(10_000_601, 60), (10_000_602, 30), (10_000_603, 20), (10_000_500, 10), (10_000_600, 1)]
            .into(),
        p50_ms: Some(4.0),
        p99_ms: Some(2000.0),
        queue: 13,
        started: true,
        ..minute("b:1", 2)
    };
    let noticed = HealthMinute { receivers_failing: 1, ..minute("a:1", 3) };
    learn(&till, &[noticed, minute("a:1", 2), slow.clone(), minute("a:1", 62)]).await;
    let page = viewer.get("/console").await;
    assert_eq!(faults(&page.body), Vec::<String>::new());
    let axis = &data(&page.body, "data-axis")[0];
    let at = slow.at.unix_timestamp();
    assert_eq!((axis["at"].as_array().unwrap().len(), &axis["at"][58]), (60, &json!(at)));
    let end = json!(at + 120);
    assert_eq!((&axis["end"], &axis["step"], &axis["zone"]), (&end, &json!(60), &json!("UTC")));
    // A notice alone is told, and shades nothing.
    assert!(axis["labels"][57].as_str().unwrap().ends_with("receivers fail, 1 min"), "{axis}");
    assert_eq!((&axis["started"], &axis["bad"]), (&json!([at]), &json!([at])));
    let label = rfc3339(slow.at).replace('T', " ")[..16].to_owned();
    let words = format!("{label}, an instance started, exchanges fail, 1 min; exchanges slow, 1 min");
    assert_eq!(axis["labels"][58], words);
    let plots = data(&page.body, "data-plot");
    let values = |point: usize| -> Vec<Vec<Value>> {
        let of = |plot: &Value| {
            plot["series"].as_array().unwrap().iter().map(|line| line["values"][point].clone()).collect()
        };
        plots.iter().map(of).collect()
    };
    // Each of two instances had 119 successes, and one refusal or 121. The hour before has no first minute: no line of it.
    let expected = [
        vec![json!(3.97), json!(2.03)],
        vec![json!(1.02), json!(0.5), json!(0.33), json!(0.18)],
        vec![json!(3.74), json!(2000.0)],
        vec![json!(20.0)],
        vec![json!(24.0), json!(6.0)],
        vec![json!(0.5)],
    ];
    assert_eq!(values(58), expected);
    assert!(values(10).iter().flatten().all(Value::is_null), "a gap where nobody told");
    let links: Vec<&Value> = plots.iter().map(|plot| &plot["link"]).collect();
    let listed = "/console/exchanges?from={from}&to={to}";
    let refused = "/console/exchanges?kind=refused&from={from}&to={to}";
    assert_eq!(links[..3], [&json!(listed), &json!(refused), &Value::Null]);
    let table = rows(&page.body);
    let told = [
        "exchanges fail, 1 min; exchanges slow, 1 min an instance started",
        "4.0",
        "2.0",
        "3.7",
        "2000.0",
        "20",
        "24",
        "6",
        "0.5",
    ];
    assert_eq!(table[0][1..], told);
    // With the whole day before, a thin line shows it, in each chart.
    learn(&till, &[minute("a:1", 2 * 1440 - 10)]).await;
    let page = viewer.get("/console/health?span=day").await;
    let plots = data(&page.body, "data-plot");
    assert_eq!((plots.len(), plots[0]["series"][2]["class"].clone()), (6, json!("before")));
    assert_eq!(plots[0]["series"][2]["values"][0], json!(1.98));
    assert_eq!(plots[3]["link"], "/console/health?at={from}");
    assert_eq!(faults(&page.body), Vec::<String>::new());
}

/// Rule 16.3.5: the longer times, and a word that is none.
#[tokio::test(flavor = "multi_thread")]
async fn charts_have_a_length_of_time() {
    let till = TestTill::start().await;
    let viewer = till.browser(Role::Viewer).await;
    learn(&till, &[minute("a:1", 3)]).await;
    for (span, points) in [("week", 168), ("month", 180)] {
        let page = viewer.get(&format!("/console/health?span={span}")).await;
        assert_eq!(data(&page.body, "data-axis")[0]["at"].as_array().unwrap().len(), points);
        assert!(data(&page.body, "data-plot")[0]["series"][2].is_null(), "no whole period before");
    }
    for path in ["/console?span=year", "/console/health?span=year"] {
        assert_eq!(viewer.get(path).await.status, 400);
    }
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

/// Rule 16.3.3: the figures of the business come first, until now, and their whole hours against the day before. They lead
/// to the report of today.
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
    let reader = till.browser(Role::Finance).await;
    let shown = reader.get("/console").await;
    let report = "<a href=\"/console/reports?period=today\">Coins taken today</a>";
    assert!(shown.body.contains(report), "{}", shown.body);
    let time = |at| rfc3339(at).replace('T', " ").trim_end_matches('Z').to_owned();
    let (at, until) = (time(now()), time(hour));
    let told = format!(
        "Coins taken today 95 until {at} , less what was given back Against yesterday at this hour 2 times \
         90 until {until} , yesterday: 45 Exchanges today 3 2 times 2 until {until} , yesterday: 1"
    );
    assert!(content(&shown).contains(&told), "{told}\n{}", content(&shown));
    // A day whose first sales are of this hour is not one without sales.
    till.execute(&format!(
        "DELETE FROM sales_hours WHERE hour >= '{}' AND hour < '{}'",
        rfc3339(midnight),
        rfc3339(hour)
    ))
    .await;
    learn(&till, &[]).await;
    let page = content(&reader.get("/console").await);
    let told = format!("Against yesterday at this hour \u{2013} 0 until {until} , yesterday: 45");
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
    let remembered = rows(&page.body);
    assert_eq!(remembered.len(), 3, "a point, and behind its heading the minute that is remembered");
    assert_eq!(&remembered[0][1..4], ["healthy", "2.0", "0.0"]);
    assert_eq!(known.get("/console?span=day").await.status, 200);
    let healthy = "<p class=\"verdict\"><span class=\"tag good\">healthy</span></p>";
    assert!(page.body.contains(healthy), "{}", page.body);
    for (browser, path) in
        [(&known, "/console/apps"), (&stranger, "/console"), (&stranger, "/console/health")]
    {
        assert_eq!(browser.get(path).await.status, 503, "{path}");
    }
}
