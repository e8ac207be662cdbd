//! A bulkhead: permits that many holders share, with a limit for all of them and a limit for each.
//! A holder whose work hangs uses up its own permits and not everyone's.
//!
//! Permits that are held for long are shared in turns: as many are asked back as others wait for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep_until};

/// Above this many holders, those that hold nothing and wait for nothing are forgotten.
const IDLE_HOLDERS_MAX: usize = 1024;
/// How long a permit is kept while others wait, and its holder waits for somebody slow: at one time, and in all.
const PATIENCE: Duration = Duration::from_secs(1);
const PATIENCE_IN_ALL: Duration = Duration::from_mins(1);

/// A limit on what is in use at once, by all holders and by each. The caller chooses the unit.
#[derive(Debug)]
pub struct Bulkhead {
    shared: Limit,
    permits_max: u32,
    per_holder_max: u32,
    by_holder: Mutex<HashMap<String, Arc<Limit>>>,
}

/// Permits of one holder's own limit. They return when the last clone is dropped.
#[derive(Debug, Clone)]
pub struct HolderPermit {
    permits: Arc<OwnedSemaphorePermit>,
    limit: Arc<Limit>,
}

/// Permits of the shared limit and of the holder's own. They return when this is dropped.
#[derive(Debug)]
pub struct Permit {
    /// Of the shared limit and of the holder's own. Before the permits: it tells of their return before they do.
    recalls: [Recall; 2],
    /// How long its holder has waited for somebody slow.
    waited: Duration,
    _holder: HolderPermit,
    _shared: OwnedSemaphorePermit,
}

/// The permit was asked back, because others wait for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AskedBack;

/// The permits of all holders, or of one.
#[derive(Debug)]
struct Limit {
    permits: Arc<Semaphore>,
    waits: watch::Sender<Waits>,
}

/// The tasks that wait for permits of a limit, and the number of permits that were asked back for them.
#[derive(Debug, Clone, Copy, Default)]
struct Waits {
    waiting: u32,
    /// Permits that were asked back and are still held.
    asked_back: u32,
    /// Permits that have returned for those who wait, and who do not know it yet.
    returned: u32,
}

impl Bulkhead {
    /// A bulkhead of `permits_max` permits, of which each holder may have `per_holder_max`.
    #[must_use]
    pub fn new(permits_max: u32, per_holder_max: u32) -> Self {
        Self {
            shared: Limit::new(permits_max),
            permits_max,
            per_holder_max: per_holder_max.min(permits_max),
            by_holder: Mutex::default(),
        }
    }

    /// A bulkhead of places, of which each holder may have half, rounded up.
    #[must_use]
    pub fn halved(places: u32) -> Self {
        Self::new(places, places.div_ceil(2))
    }

    /// The permits that are in use.
    #[must_use]
    pub fn in_use(&self) -> u64 {
        let free = u32::try_from(self.shared.permits.available_permits()).unwrap_or(u32::MAX);
        self.permits_max.saturating_sub(free).into()
    }

    /// All permits, in use or free.
    #[must_use]
    pub fn permits_max(&self) -> u64 {
        self.permits_max.into()
    }

    /// How many wait for permits.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        let own: u64 = self.limits().values().map(|limit| limit.waiting()).sum();
        self.shared.waiting() + own
    }

    /// Tells how many wait elsewhere for what [`Self::try_acquire`] takes for them.
    pub fn wait_elsewhere(&self, waiting: u32) {
        self.shared.waits.send_modify(|waits| (waits.waiting, waits.returned) = (waiting, 0));
    }

    /// Waits for permits of both limits, first of the holder's own, then of the shared one.
    pub async fn acquire(&self, holder: &str, amount: u32) -> Permit {
        self.permit(self.holder_permit(holder, amount).await).await
    }

    /// A permit of both limits, if one is free.
    #[must_use]
    pub fn try_acquire(&self, holder: &str) -> Option<Permit> {
        let limit = self.limit_of(holder);
        let permits = Arc::new(Arc::clone(&limit.permits).try_acquire_owned().ok()?);
        let shared = Arc::clone(&self.shared.permits).try_acquire_owned().ok()?;
        Some(self.permit_of(HolderPermit { permits, limit }, shared))
    }

    /// Waits for permits of the holder's own limit, at most all of it. The shared limit is untouched.
    pub async fn holder_permit(&self, holder: &str, amount: u32) -> HolderPermit {
        let limit = self.limit_of(holder);
        let permits = Arc::new(limit.acquire(amount.min(self.per_holder_max)).await);
        HolderPermit { permits, limit }
    }

    /// Waits for as many permits of the shared limit as the holder has here.
    pub async fn permit(&self, holder: HolderPermit) -> Permit {
        let amount = u32::try_from(holder.permits.num_permits()).unwrap_or(u32::MAX);
        let shared = self.shared.acquire(amount).await;
        self.permit_of(holder, shared)
    }

    fn permit_of(&self, holder: HolderPermit, shared: OwnedSemaphorePermit) -> Permit {
        let recalls = [self.shared.recall(), holder.limit.recall()];
        Permit { recalls, waited: Duration::ZERO, _holder: holder, _shared: shared }
    }

    fn limit_of(&self, holder: &str) -> Arc<Limit> {
        let mut by_holder = self.limits();
        if by_holder.len() >= IDLE_HOLDERS_MAX && !by_holder.contains_key(holder) {
            // Whoever holds a permit or waits for one has a clone.
            by_holder.retain(|_, limit| Arc::strong_count(limit) > 1);
        }
        let limit = by_holder.entry(holder.to_owned());
        Arc::clone(limit.or_insert_with(|| Arc::new(Limit::new(self.per_holder_max))))
    }

    fn limits(&self) -> MutexGuard<'_, HashMap<String, Arc<Limit>>> {
        self.by_holder.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit {
    /// Whether it must be given back, because others wait. As many are asked back as others wait.
    pub fn is_asked_back(&mut self) -> bool {
        self.recalls.iter_mut().any(Recall::is_asked_back)
    }

    /// Runs `peer`, which waits for somebody who may be slow. While others wait for a permit, it is ended after a second, or
    /// when this permit was kept waiting for a minute in all.
    ///
    /// # Errors
    /// It was ended. The permit is to be dropped.
    pub async fn wait_for<T>(&mut self, peer: impl Future<Output = T>) -> Result<T, AskedBack> {
        self.wait_within(PATIENCE, PATIENCE_IN_ALL, peer).await
    }

    async fn wait_within<T>(
        &mut self,
        at_once: Duration,
        in_all: Duration,
        peer: impl Future<Output = T>,
    ) -> Result<T, AskedBack> {
        let begun = Instant::now();
        let patience = at_once.min(in_all.saturating_sub(self.waited));
        let [shared, own] = &mut self.recalls;
        let ended = async {
            sleep_until(begun + patience).await;
            tokio::select! {
                () = shared.asked_back() => {}
                () = own.asked_back() => {}
            }
        };
        let outcome = tokio::select! {
            biased;
            done = peer => Ok(done),
            () = ended => Err(AskedBack),
        };
        self.waited += begun.elapsed();
        outcome
    }
}

impl Limit {
    fn new(permits: u32) -> Self {
        let permits = usize::try_from(permits).unwrap_or(Semaphore::MAX_PERMITS);
        Self { permits: Arc::new(Semaphore::new(permits)), waits: watch::Sender::default() }
    }

    fn waiting(&self) -> u64 {
        self.waits.borrow().waiting.into()
    }

    /// Waits for permits, and counts as one who waits meanwhile.
    async fn acquire(&self, amount: u32) -> OwnedSemaphorePermit {
        let acquire = || Arc::clone(&self.permits).try_acquire_many_owned(amount);
        if let Ok(permits) = acquire() {
            return permits;
        }
        self.waits.send_modify(|waits| waits.waiting += 1);
        let mut wait = Wait { waits: self.waits.clone(), is_served: false };
        let permits = Arc::clone(&self.permits).acquire_many_owned(amount).await;
        wait.is_served = true;
        permits.expect("nobody closes the semaphore")
    }

    fn recall(&self) -> Recall {
        Recall { waits: self.waits.clone(), is_asked_back: false }
    }
}

/// One who waits.
struct Wait {
    waits: watch::Sender<Waits>,
    is_served: bool,
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.waits.send_modify(|waits| {
            waits.waiting -= 1;
            waits.returned = waits.returned.saturating_sub(self.is_served.into()).min(waits.waiting);
        });
    }
}

/// What asks a permit of a limit back.
#[derive(Debug)]
struct Recall {
    waits: watch::Sender<Waits>,
    is_asked_back: bool,
}

impl Recall {
    fn is_asked_back(&mut self) -> bool {
        self.waits.send_if_modified(|waits| {
            if !self.is_asked_back && waits.waiting > waits.asked_back + waits.returned {
                waits.asked_back += 1;
                self.is_asked_back = true;
            }
            false
        });
        self.is_asked_back
    }

    async fn asked_back(&mut self) {
        let mut news = self.waits.subscribe();
        while !self.is_asked_back() {
            // The sender is in `self`.
            let _ = news.changed().await;
        }
    }
}

impl Drop for Recall {
    fn drop(&mut self) {
        self.waits.send_if_modified(|waits| {
            waits.asked_back -= u32::from(self.is_asked_back);
            waits.returned = (waits.returned + 1).min(waits.waiting);
            false
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const MOMENT: Duration = Duration::from_millis(20);

    async fn permit(bulkhead: &Bulkhead, holder: &str, amount: u32) -> Option<Permit> {
        timeout(MOMENT, bulkhead.acquire(holder, amount)).await.ok()
    }

    /// Rule: one holder gets its own limit and no more; all holders together get the shared limit.
    #[tokio::test]
    async fn nobody_exceeds_its_own_limit_and_all_do_not_exceed_the_shared_one() {
        let bulkhead = Bulkhead::new(5, 2);
        let of_a = [permit(&bulkhead, "a", 1).await.unwrap(), permit(&bulkhead, "a", 1).await.unwrap()];
        assert!(permit(&bulkhead, "a", 1).await.is_none(), "over its own limit");
        let of_b = permit(&bulkhead, "b", 2).await.unwrap();
        let of_c = permit(&bulkhead, "c", 1).await.unwrap();
        assert_eq!((bulkhead.in_use(), bulkhead.permits_max()), (5, 5));
        assert!(permit(&bulkhead, "d", 1).await.is_none(), "over the shared limit");
        drop(of_c);
        assert!(permit(&bulkhead, "d", 2).await.is_none(), "over the rest of the shared limit");
        drop((of_a, of_b));
        assert!(permit(&bulkhead, "a", 2).await.is_some(), "permits return");
    }

    /// Rule: waiting for a holder's own limit takes no permit of the shared limit.
    #[tokio::test]
    async fn a_queue_of_one_holder_does_not_delay_others() {
        let bulkhead = Arc::new(Bulkhead::new(3, 1));
        let held = permit(&bulkhead, "a", 1).await.unwrap();
        let mut waiting = tokio::task::JoinSet::new();
        for _ in 0..10 {
            let bulkhead = Arc::clone(&bulkhead);
            waiting.spawn(async move { permit(&bulkhead, "a", 1).await.is_none() });
        }
        tokio::task::yield_now().await;
        assert!(permit(&bulkhead, "b", 1).await.is_some());
        assert!(waiting.join_all().await.into_iter().all(|gave_up| gave_up));
        drop(held);
    }

    /// Rule: strangers who come once fill no memory, and a holder who has permits keeps its limit.
    #[tokio::test]
    async fn holders_that_hold_nothing_are_forgotten() {
        let bulkhead = Bulkhead::new(5, 1);
        let held = permit(&bulkhead, "a", 1).await.unwrap();
        for stranger in 0..3 * IDLE_HOLDERS_MAX {
            assert!(permit(&bulkhead, &stranger.to_string(), 1).await.is_some());
        }
        assert!(bulkhead.by_holder.lock().unwrap().len() <= IDLE_HOLDERS_MAX);
        assert!(permit(&bulkhead, "a", 1).await.is_none(), "over its own limit");
        drop(held);
        assert!(permit(&bulkhead, "a", 1).await.is_some());
    }

    /// Rule: nobody waits for permits that can never be free.
    #[tokio::test]
    async fn an_amount_over_the_limit_is_the_limit() {
        let bulkhead = Bulkhead::new(2, 9);
        let all = permit(&bulkhead, "a", 100).await.unwrap();
        assert!(permit(&bulkhead, "b", 1).await.is_none());
        drop(all);
        assert!(permit(&bulkhead, "b", 1).await.is_some());
    }

    /// Rule: as many permits are asked back as others wait for: of all holders, or of one that has all of its own.
    #[tokio::test]
    async fn as_many_are_asked_back_as_others_wait() {
        let bulkhead = Arc::new(Bulkhead::halved(3));
        let mut held = ["a", "a", "b"].map(|holder| bulkhead.try_acquire(holder));
        assert!(bulkhead.try_acquire("b").is_none(), "all are taken");
        let mut asked = || held.each_mut().map(|one| one.as_mut().is_some_and(Permit::is_asked_back));
        let wait = |holder: &'static str| {
            let bulkhead = Arc::clone(&bulkhead);
            tokio::spawn(async move { bulkhead.acquire(holder, 1).await })
        };
        let begun = tokio::task::yield_now;
        assert_eq!(asked(), [false, false, false]);
        let own = wait("a");
        begun().await;
        assert_eq!((bulkhead.waiting(), asked()), (1, [true, false, false]), "it has half of the places");
        let (first, second) = (wait("c"), wait("d"));
        begun().await;
        assert_eq!((bulkhead.waiting(), asked()), (3, [true, true, false]), "the first serves two of them");
        // Whoever gives up waiting needs none back.
        second.abort();
        assert!(second.await.is_err());
        assert_eq!(bulkhead.waiting(), 2);
        drop(held);
        drop((own.await.unwrap(), first.await.unwrap()));
        assert_eq!((bulkhead.waiting(), bulkhead.in_use()), (0, 0));
        let mut last = bulkhead.try_acquire("a").unwrap();
        assert!(!last.is_asked_back(), "nobody waits");
    }

    /// Rule: a permit that is returned serves who waits; no other is asked back meanwhile.
    #[tokio::test]
    async fn what_returns_is_asked_back_of_nobody_else() {
        let bulkhead = Arc::new(Bulkhead::new(2, 1));
        let (one, mut other) = (bulkhead.try_acquire("a").unwrap(), bulkhead.try_acquire("b").unwrap());
        let waiting = bulkhead.acquire("c", 1);
        let mut waiting = std::pin::pin!(waiting);
        assert!(timeout(Duration::ZERO, waiting.as_mut()).await.is_err());
        drop(one);
        assert!(!other.is_asked_back());
        let served = waiting.await;
        assert!(!other.is_asked_back());
        assert_eq!(bulkhead.waiting(), 0);
        drop(served);
        bulkhead.wait_elsewhere(1);
        assert!(other.is_asked_back());
    }

    /// Rule: a holder that waits for somebody slow gives its permit up when others wait. It does so after a while at
    /// one time, and after a longer while in all.
    #[tokio::test]
    async fn who_waits_for_somebody_slow_gives_up_its_permit_to_others() {
        const HOUR: Duration = Duration::from_hours(1);
        let bulkhead = Bulkhead::new(1, 1);
        let mut permit = bulkhead.try_acquire("a").unwrap();
        let alone = permit.wait_within(Duration::ZERO, Duration::ZERO, tokio::time::sleep(MOMENT)).await;
        assert_eq!(alone, Ok(()), "nobody else waits");
        bulkhead.wait_elsewhere(1);
        let patient = permit.wait_within(HOUR, HOUR, tokio::time::sleep(MOMENT)).await;
        assert_eq!(patient, Ok(()), "it is not over");
        let endless = std::future::pending::<()>;
        assert_eq!(permit.wait_within(HOUR, MOMENT, endless()).await, Err(AskedBack), "it has waited before");
        drop(permit);
        bulkhead.wait_elsewhere(1);
        let mut permit = bulkhead.try_acquire("a").unwrap();
        assert_eq!(permit.wait_within(MOMENT, HOUR, endless()).await, Err(AskedBack), "at one time");
    }
}
