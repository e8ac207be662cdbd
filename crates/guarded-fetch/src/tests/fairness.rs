//! A holder whose fetches hang delays itself and not the others (`concurrent_per_holder_max`).

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::*;

/// Fetches of one holder that are started at once.
const MANY: usize = 100;

fn shared(settings: FetchSettings) -> FetchSettings {
    FetchSettings { concurrent_max: 4, concurrent_per_holder_max: 2, ..settings }
}

/// Starts many fetches of one holder.
fn flood(fetcher: &Arc<Fetcher>, app: &'static str, url: &str) -> JoinSet<Option<FetchError>> {
    let mut under_way = JoinSet::new();
    for _ in 0..MANY {
        let (fetcher, url) = (Arc::clone(fetcher), url.to_owned());
        under_way.spawn(async move { fetcher.get(app, &url, None).await.err() });
    }
    under_way
}

/// Rule: origins that hang take the permits of their holder alone. Its other fetches wait and are
/// refused when their time is over. The fetches of other holders do not wait.
#[tokio::test]
async fn hanging_origins_delay_their_own_holder_alone() {
    let hanging = Origin::always(Reply::raw(b"").then_hang()).await;
    let fast = Origin::always(Reply::ok(b"picture")).await;
    let fetcher = Arc::new(Fetcher::new(shared(settings(&[&hanging, &fast]))));
    let mut waiting = flood(&fetcher, "a1", &hanging.url("/"));
    until(|| hanging.connections() == 2).await;
    let found = ending(fetcher.get("a2", &fast.url("/"), None)).await.map(|fetched| fetched.bytes);
    assert_eq!(found, Ok(body(b"picture")));
    assert!(waiting.try_join_next().is_none(), "the other holder waited for none of these");
    assert_eq!(hanging.connections(), 2, "the limit of the holder");
    let hasty = Arc::new(Fetcher::new(shared(hasty(&[&hanging]))));
    // A waiting fetch gets a permit, if any, at the very moment at which its time is over.
    for cause in ending(flood(&hasty, "a1", &hanging.url("/")).join_all()).await {
        assert!(matches!(cause, Some(FetchError::Busy | FetchError::TimedOut)), "{cause:?}");
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

/// Rule: a look-up cannot be cancelled. It holds its holder's permit until it ends, also after its
/// fetch is over, so no holder has more look-ups hanging than its limit. It holds no permit of the
/// shared limit, so look-ups of many holders may hang while others are served.
#[tokio::test]
async fn hanging_look_ups_delay_their_own_holders_alone() {
    let origin = Origin::always(Reply::ok(b"picture")).await;
    let (started, release) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let fetcher = asking(shared(settings(&[&origin])), partly_hanging(&started, &release));
    let fetcher = Arc::new(fetcher);
    let port = origin.address.port();
    let (hanging, good) = (format!("http://hang.example:{port}/"), format!("http://good.example:{port}/"));
    let apps = ["a1", "a2", "a3", "a4", "a5"];
    let mut floods = apps.map(|app| flood(&fetcher, app, &hanging));
    // Each holder has its limit, in all more than the shared limit.
    until(|| started.load(Ordering::SeqCst) == 10).await;
    assert!(ending(fetcher.get("b1", &good, None)).await.is_ok());
    for flood in &mut floods {
        assert!(flood.try_join_next().is_none(), "the other holder waited for none of these");
        flood.shutdown().await;
    }
    let mut next = Box::pin(fetcher.get("a1", &good, None));
    assert!(is_waiting(&mut next).await, "its look-ups still hang");
    assert_eq!(started.load(Ordering::SeqCst), 10);
    release.notify_waiters();
    assert!(ending(next).await.is_ok(), "a look-up that ended returns its permit");
}

/// Rule: a fetched body holds its permit until it is dropped, so that it counts while it waits for
/// its use.
#[tokio::test]
async fn a_fetched_body_keeps_its_permit() {
    let origin = Origin::always(Reply::ok(b"picture")).await;
    let one = Fetcher::new(FetchSettings { concurrent_max: 1, ..settings(&[&origin]) });
    let url = origin.url("/");
    let held = one.get("a1", &url, None).await.unwrap();
    let mut next = Box::pin(one.get("a2", &url, None));
    assert!(is_waiting(&mut next).await);
    drop(held);
    assert!(ending(next).await.is_ok());
}
