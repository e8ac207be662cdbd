//! The overview.

use domain::console_user::Role;
use domain::ids::WebUrl;
use domain::operation::receiver::{NewReceiver, ReceiverCommand};
use domain::receiver::ReceiverFormat;

use super::accessible::faults;
use super::reading::{content, text};
use crate::game::Game;
use crate::support::{Request, TestTill, operator};

#[tokio::test(flavor = "multi_thread")]
async fn the_overview_tells_what_was_answered_and_how_things_stand() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100).await;
    let viewer = till.browser(Role::Viewer).await;
    let first = viewer.get("/console").await;
    assert_eq!(first.status, 200);
    assert!(first.body.contains("<span class=\"tag good\">up</span>"), "{}", first.body);
    assert!(first.body.contains(concat!("<dt>Version</dt><dd>", env!("CARGO_PKG_VERSION"))));
    assert!(
        first.body.contains("<dt>Last full audit</dt><dd>none yet. Run <code>minitill audit</code>"),
        "{}",
        first.body
    );
    let reading = minitill::metrics::Gauges {
        waiting: Vec::new(),
        unmatched_payments: 0,
        receivers: store::ReceiverCounts::default(),
        connections: 0,
        connections_refused: 0,
        connections_closed: 0,
        queue: (3, 10),
        pool: till.store.pool_state(),
        database_up: true,
        database_probe: std::time::Duration::from_millis(2),
        fetches: 0,
        upload_memory: (0, 0),
        takes_uploads: true,
        instances: 1,
        audits: std::sync::Arc::default(),
    };
    let now = domain::clock::Clock::unix_millis(&*till.clock);
    // Two minutes and a half of samples.
    for sample in (1..=15).rev() {
        till.till.metrics.keep(till.till.metrics.sample(now - sample * 10_000, reading.clone()));
    }
    for (number, amount) in [("b1", 60), ("b2", 30), ("b3", 500)] {
        assert_eq!(till.send(Game::new(&app, "o1", number, amount).request()).await.status, 200);
    }
    assert_eq!(Game::new(&app, "o1", "b4", 1).with("sign", "00").send(&till).await.code(), 100_200_114);
    till.send(Request::get("/nowhere")).await;
    let page = viewer.get("/console").await.body;
    let row = |code: &str, meaning: &str, count: &str| {
        format!(
            "<td data-label=\"Code\">{code}</td><td data-label=\"Meaning\">{meaning}</td><td data-label=\"Count\" class=\"number\">{count}</td>"
        )
    };
    assert!(page.contains(&row("1", "success", "2")), "{page}");
    let leads =
        page.contains("?kind=refused&#38;code=10000601&#38;from=") && page.contains("\">10000601</a></td>");
    assert!(leads, "{page}");
    assert!(page.contains("<td data-label=\"Code\">100200114</td>"), "{page}");
    till.assert_audit_clean().await;
    till.clock.advance(std::time::Duration::from_secs(30));
    let page = viewer.get("/console").await.body;
    assert!(page.contains("<dt>Last full audit</dt><dd><span class=\"tag good\">clean</span>"), "{page}");
}

/// Rule: a refusal is counted once, also where two codes have one number.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_counted_once() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    for _ in 0..3 {
        till.send(Game::new(&app, "o1", "b1", 1).with("access_token", "wrong").request()).await;
    }
    let answers = till.till.metrics.exchanges();
    assert_eq!((answers.succeeded, answers.refused()), (0, 3));
    assert_eq!(answers.by_number().collect::<Vec<_>>(), [(100_200_102, 3)]);
    assert!(answers.quantile(0.5).is_some());
}

/// Rule 12.4.13: a receiver that fails or is paused is told on the first page, the oldest trouble first, and five at most.
#[tokio::test(flavor = "multi_thread")]
async fn the_overview_tells_of_receivers_that_fail_or_are_paused() {
    let till = TestTill::start().await;
    for app in ["a1", "a2"] {
        let app = till.app(app).await;
        for number in 0..4 {
            let url = WebUrl::parse(&format!("https://game.example/{number}")).unwrap();
            let new = NewReceiver { url, events: Vec::new(), format: ReceiverFormat::Standard };
            till.store.change_receivers(&operator(), &app.id, ReceiverCommand::Add(new), None).await.unwrap();
        }
    }
    let viewer = till.browser(Role::Viewer).await;
    let warning = "Receivers that fail or are paused";
    assert!(!viewer.get("/console").await.body.contains(warning));
    till.execute(
        "UPDATE receivers SET failing_since = '2026-11-21T08:00Z', last_status = 500, last_error = 'expected 2xx, got 500'
             WHERE app_id = 'a1' AND url LIKE '%/0';
         UPDATE receivers SET paused_at = '2026-11-21T07:00Z', paused_by = 'receiver' WHERE app_id = 'a2' AND url LIKE '%/1'",
    )
    .await;
    let page = viewer.get("/console").await;
    assert_eq!(faults(&page.body), Vec::<String>::new());
    let expected = "Refresh Receivers that fail or are paused https://game.example/1 of the app a2 : Paused by the receiver, \
                    which answered 410, 2026-11-21 07:00:00 https://game.example/0 of the app a1 : Failing since \
                    2026-11-21 08:00:00 (expected 2xx, got 500) Exchanges, last minute";
    assert!(content(&page).contains(expected), "{}", content(&page));
    let id = till.store.troubled_receivers(1).await.unwrap()[0].receiver_id.clone();
    assert!(page.body.contains(&format!("href=\"/console/apps/a2/receivers/{id}\"")));
    till.execute("UPDATE receivers SET paused_at = now(), paused_by = 'operator' WHERE paused_at IS NULL")
        .await;
    let page = text(&viewer.get("/console").await.body);
    assert_eq!(page.matches("of the app").count(), 5, "{page}");
    assert!(page.contains("Others that are not shown here: 3. Exchanges, last minute"), "{page}");
    // What cannot be read is left out.
    till.execute("ALTER TABLE receivers RENAME COLUMN last_error TO unknown").await;
    let page = viewer.get("/console").await;
    assert!(page.status == 200 && !page.body.contains(warning), "{}", page.body);
}
