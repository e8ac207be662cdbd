//! What one app leaves hanging holds up that app and not the others (`fetch.concurrent_per_app_max`).

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::*;

/// Fetches of one app that are started at once.
const MANY: usize = 100;

fn shared(settings: Settings) -> Settings {
    Settings { concurrent_max: 4, concurrent_per_app_max: 2, ..settings }
}

/// Starts many fetches of one app and lets them get as far as they do.
async fn flood(fetcher: &Arc<Fetcher>, app: &'static str, url: &str) -> JoinSet<Option<Refused>> {
    let mut under_way = JoinSet::new();
    for _ in 0..MANY {
        let (fetcher, url) = (Arc::clone(fetcher), url.to_owned());
        under_way.spawn(async move { fetcher.get(app, &url, None).await.err() });
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    under_way
}

/// Rule: origins that hang take an app's own share of the places; what comes beyond it waits and is
/// refused when its time is over; others are served meanwhile, at once.
#[tokio::test]
async fn hanging_origins_hold_up_their_own_app_alone() {
    let hanging = Origin::always(Reply::raw(b"").then_hang()).await;
    let fast = Origin::always(Reply::ok(b"picture")).await;
    let fetcher = Arc::new(Fetcher::new(shared(hasty(&[&hanging, &fast]))));
    let flood = flood(&fetcher, "a1", &hanging.url("/")).await;
    assert_eq!(hanging.connections(), 2, "the share of the app");
    let started = Instant::now();
    let found = fetcher.get("a2", &fast.url("/"), None).await.map(|fetched| fetched.bytes);
    assert_eq!(found, Ok(body(b"picture")));
    assert!(started.elapsed() < SHORT / 2, "did not wait: {:?}", started.elapsed());
    // Those that wait get a place, if any, in the very moment in which their time is over.
    for cause in ending(flood.join_all()).await {
        assert!(matches!(cause, Some(Refused::Busy | Refused::TimedOut)), "{cause:?}");
    }
}

/// Look-ups of names that begin with `hang`, which end only when they are let, and of others.
fn partly_hanging(started: &Arc<AtomicUsize>, release: &Arc<Notify>) -> LookUp {
    let (started, release) = (Arc::clone(started), Arc::clone(release));
    Arc::new(move |name, port| {
        let (started, release) = (Arc::clone(&started), Arc::clone(&release));
        Box::pin(async move {
            if name.starts_with("hang") {
                started.fetch_add(1, Ordering::SeqCst);
                release.notified().await;
            }
            Ok(vec![SocketAddr::from(([127, 0, 0, 1], port))])
        })
    })
}

/// Rule: a look-up cannot be taken back. It holds its app's share until it ends, also after its
/// fetch is over, so no app has more of them hanging than its share; and it holds none of the places
/// that all share, so any number of apps may have theirs hanging while others are served.
#[tokio::test]
async fn hanging_look_ups_hold_up_their_own_apps_alone() {
    let origin = Origin::always(Reply::ok(b"picture")).await;
    let (started, release) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let fetcher = asking(shared(hasty(&[&origin])), partly_hanging(&started, &release));
    let fetcher = Arc::new(fetcher);
    let port = origin.address.port();
    let (hanging, good) = (format!("http://hang.example:{port}/"), format!("http://good.example:{port}/"));
    let mut floods = Vec::new();
    for app in ["a1", "a2", "a3", "a4", "a5"] {
        floods.push(flood(&fetcher, app, &hanging).await);
    }
    assert_eq!(started.load(Ordering::SeqCst), 10, "each app its share, in all more than there are places");
    let asked = Instant::now();
    assert!(fetcher.get("b1", &good, None).await.is_ok());
    assert!(asked.elapsed() < SHORT / 2, "did not wait: {:?}", asked.elapsed());
    for flood in floods {
        assert!(ending(flood.join_all()).await.iter().all(Option::is_some));
    }
    let found = fetcher.get("a1", &good, None).await.map(|fetched| fetched.bytes);
    assert_eq!(found, Err(Refused::Busy), "its look-ups still hang");
    assert_eq!(started.load(Ordering::SeqCst), 10);
    release.notify_waiters();
    assert!(
        ending(fetcher.get("a1", &good, None)).await.is_ok(),
        "a look-up that ended gives its share back"
    );
}

/// Rule: a fetched body holds its place until it is dropped, so that waiting to be judged it is
/// counted too.
#[tokio::test]
async fn a_fetched_body_keeps_its_place() {
    let origin = Origin::always(Reply::ok(b"picture")).await;
    let one = Fetcher::new(Settings { concurrent_max: 1, ..hasty(&[&origin]) });
    let held = one.get("a1", &origin.url("/"), None).await.unwrap();
    let next = one.get("a2", &origin.url("/"), None).await.map(|fetched| fetched.bytes);
    assert_eq!(next, Err(Refused::Busy));
    drop(held);
    assert!(one.get("a2", &origin.url("/"), None).await.is_ok());
}
