//! Notifications (contract 12): events are sent to the receivers of their apps.
//!
//! Every instance gives numbers to events of the outbox and looks for receivers that have something to be sent. It
//! takes the lease of such a receiver and sends to it in a task of its own (`delivery.rs`) until nothing is left. It
//! sends what is in its queue (`queue.rs`), as fast as its pace allows (`pace.rs`). What became of tries is kept in a
//! journal until it is written (`journal.rs`).

mod delivery;
mod journal;
mod message;
mod pace;
mod queue;
mod sender;
mod trial;

use std::sync::Arc;
use std::time::Duration;

use guarded_fetch::bulkhead::{Bulkhead, Permit};
use store::Store;
use store::secrets::random_bytes;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, sleep_until};

use crate::config;
use crate::metrics::NotifyMetrics;

use delivery::Delivery;

pub(crate) use journal::TRIES_SHOWN;
pub use sender::{NotificationSender, Tried};
pub use trial::Trial;

/// How often events get their numbers, and their receivers are looked for, while something happens.
const TICK: Duration = Duration::from_millis(50);
/// How often this is done while nothing seems to happen: another process may have made a change.
const IDLE_TICK: Duration = Duration::from_secs(1);
/// The age to which most turns look for events. Every event is there within it, but for one whose transaction was slow.
const RECENT: Duration = Duration::from_secs(10);
/// How often events of any age are looked for.
const ALL_EVERY: Duration = Duration::from_secs(5);
/// Tries that end without a place of their receiver.
const TRIES_WITHOUT_PLACE_MAX: usize = 4_096;

/// The shared state of sending.
#[derive(Clone)]
struct SendingContext {
    store: Store,
    sender: NotificationSender,
    places: Arc<Bulkhead>,
    /// Tries under way whose receivers have given their places to others.
    without_place: Arc<Semaphore>,
    settings: config::Notify,
    metrics: NotifyMetrics,
}

/// Sends notifications until `stop`, and tells `head` the number of the newest event. Each receiver has one of `places`
/// meanwhile. At the end it waits for the tries under way.
pub async fn run(
    store: Store,
    sender: NotificationSender,
    places: Arc<Bulkhead>,
    settings: config::Notify,
    metrics: NotifyMetrics,
    head: watch::Sender<i64>,
    mut stop: watch::Receiver<bool>,
) {
    let without_place = Arc::new(Semaphore::new(TRIES_WITHOUT_PLACE_MAX));
    let shared = Arc::new(SendingContext { store, sender, places, without_place, settings, metrics });
    let mut deliveries: JoinSet<()> = JoinSet::new();
    let mut idle = tokio::time::interval(IDLE_TICK);
    idle.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut all_at = Instant::now();
    while !*stop.borrow() {
        let now = Instant::now();
        let next = now + TICK;
        let within = (now < all_at).then_some(RECENT);
        let outcome = turn(&shared, &head, within).await;
        let was_away = outcome.is_err();
        if !was_away && within.is_none() {
            all_at = now + ALL_EVERY;
        }
        match outcome {
            Ok((lease, leased)) => {
                for (receiver, place) in leased {
                    let (shared, head) = (Arc::clone(&shared), head.subscribe());
                    deliveries
                        .spawn(Delivery::new(shared, (lease, place), receiver, head, stop.clone()).run());
                }
            }
            Err(error) => tracing::debug!(%error, "notifications wait for the database"),
        }
        while let Some(ended) = deliveries.try_join_next() {
            if let Err(error) = ended {
                tracing::error!(%error, "the task of a receiver ended; its lease ends by itself");
            }
        }
        sleep_until(next).await;
        let is_busy = !deliveries.is_empty() && !was_away;
        tokio::select! {
            _ = stop.changed() => {}
            () = shared.store.events_were_made() => {}
            _ = idle.tick() => {}
            () = tokio::time::sleep(TICK * 2), if is_busy => {}
        }
    }
    while deliveries.join_next().await.is_some() {}
}

/// Gives numbers to events, tells their head, leases receivers, and tells how many wait for their places. Each time the
/// lease is another one. So a task of this server that has lost its lease notices it, even if this server has the new
/// one.
async fn turn(
    shared: &SendingContext,
    head: &watch::Sender<i64>,
    within: Option<Duration>,
) -> store::Result<([u8; 16], Vec<(store::LeasedReceiver, Permit)>)> {
    let SendingContext { store, places, .. } = shared;
    if store.has_unnumbered_events(within).await? {
        store.number_events(within).await?;
    }
    let last_no = store.event_head().await?.last_no;
    head.send_if_modified(|known| std::mem::replace(known, last_no) != last_no);
    let free = places.permits_max().saturating_sub(places.in_use());
    let lease = random_bytes();
    let (leased, waiting) =
        store.lease_receivers(&lease, usize::try_from(free).unwrap_or(usize::MAX)).await?;
    places.wait_elsewhere(waiting);
    // No app has as many receivers as it may have places, so all get one.
    let placed = leased.into_iter().filter_map(|receiver| {
        let place = places.try_acquire(receiver.app_id.as_str())?;
        Some((receiver, place))
    });
    Ok((lease, placed.collect()))
}
