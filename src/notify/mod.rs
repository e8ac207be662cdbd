//! Notifications (contract 12): events are sent to the receivers of their apps.
//!
//! Every instance gives numbers to events of the outbox and looks for receivers that have something to be sent. It takes
//! the lease of such a receiver and sends to it in a task of its own (`delivery.rs`) until nothing is left.

mod delivery;
mod message;
mod sender;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use domain::ids::AppId;
use domain::receiver::ReceiverId;
use store::Store;
use store::secrets::random_bytes;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, sleep_until};

use crate::config;
use crate::metrics::NotifyMetrics;

use delivery::Delivery;

pub use sender::{Sender, Tried};

/// How often events get their numbers, and their receivers are looked for, while something happens.
const TICK: Duration = Duration::from_millis(50);
/// How often this is done while nothing seems to happen: another process may have made a change.
const IDLE_TICK: Duration = Duration::from_secs(1);
/// Receivers that one instance sends to at once.
const RECEIVERS_MAX: usize = 256;

/// What sending shares.
#[derive(Clone)]
struct Shared {
    store: Store,
    sender: Sender,
    settings: config::Notify,
    metrics: NotifyMetrics,
    /// Distinguishes this instance.
    lease: [u8; 16],
}

/// Sends notifications until `stop`. Then it waits for the tries under way.
pub async fn run(
    store: Store,
    sender: Sender,
    settings: config::Notify,
    metrics: NotifyMetrics,
    mut stop: watch::Receiver<bool>,
) {
    let shared = Arc::new(Shared { store, sender, settings, metrics, lease: random_bytes() });
    let (head, heads) = watch::channel(0);
    let mut deliveries: JoinSet<(AppId, ReceiverId)> = JoinSet::new();
    let mut active: HashSet<(AppId, ReceiverId)> = HashSet::new();
    let mut idle = tokio::time::interval(IDLE_TICK);
    idle.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !*stop.borrow() {
        let next = Instant::now() + TICK;
        let outcome = turn(&shared, &head, deliveries.len()).await;
        let was_away = outcome.is_err();
        match outcome {
            Ok(leased) => {
                for receiver in leased {
                    let key = (receiver.app_id.clone(), receiver.id.clone());
                    active.insert(key.clone());
                    let delivery = Delivery::new(Arc::clone(&shared), receiver, heads.clone(), stop.clone());
                    deliveries.spawn(async move {
                        delivery.run().await;
                        key
                    });
                }
            }
            Err(error) => tracing::debug!(%error, "notifications wait for the database"),
        }
        while let Some(ended) = deliveries.try_join_next() {
            match ended {
                Ok(key) => drop(active.remove(&key)),
                Err(error) => {
                    tracing::error!(%error, "the task of a receiver ended; its lease ends by itself")
                }
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

/// Gives numbers to events, tells their head, and leases receivers.
async fn turn(
    shared: &Shared,
    head: &watch::Sender<i64>,
    deliveries: usize,
) -> store::Result<Vec<store::LeasedReceiver>> {
    let store = &shared.store;
    if store.has_unnumbered_events().await? {
        store.number_events().await?;
    }
    let last_no = store.event_head().await?.last_no;
    head.send_if_modified(|known| std::mem::replace(known, last_no) != last_no);
    let free = u32::try_from(RECEIVERS_MAX.saturating_sub(deliveries)).unwrap_or_default();
    if free == 0 {
        return Ok(Vec::new());
    }
    store.lease_receivers(&shared.lease, free).await
}
