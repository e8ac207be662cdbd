//! The overview.

use domain::console_user::Role;

use crate::game::Game;
use crate::support::{Request, TestTill};

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
    let reading = minitill::metrics::Reading {
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
    till.send(Request::get("/nowhere")).await;
    let page = viewer.get("/console").await.body;
    let row = |code: &str, meaning: &str, count: &str| {
        format!(
            "<td data-label=\"Code\">{code}</td><td data-label=\"Meaning\">{meaning}</td><td data-label=\"Count\" class=\"number\">{count}</td>"
        )
    };
    assert!(page.contains(&row("1", "success", "2")), "{page}");
    assert!(page.contains("<td data-label=\"Code\">10000601</td>"), "{page}");
    assert!(page.contains("aria-label=\"Exchange queue in the last hour. Highest 3.0."), "{page}");
    assert!(page.contains("<polyline class=\"\" points=\""));
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
