//! A bulkhead: permits that many holders share, with a limit for all of them and a limit for each.
//! A holder whose work hangs uses up its own permits and not everyone's.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Above this many holders, those that hold nothing and wait for nothing are forgotten.
const IDLE_HOLDERS_MAX: usize = 1024;
/// Why waiting for a permit cannot fail.
const NEVER_CLOSED: &str = "nobody closes the semaphore";

/// A limit on what is in use at once, by all holders and by each. The caller chooses the unit.
#[derive(Debug)]
pub struct Bulkhead {
    shared: Arc<Semaphore>,
    permits_max: u32,
    per_holder_max: u32,
    /// The limit of each holder.
    by_holder: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// Permits of one holder's own limit. They return when the last clone is dropped.
#[derive(Debug, Clone)]
pub struct HolderPermit(Arc<OwnedSemaphorePermit>);

/// Permits of the shared limit and of the holder's own. They return when this is dropped.
#[derive(Debug)]
pub struct Permit {
    _holder: HolderPermit,
    _shared: OwnedSemaphorePermit,
}

impl Bulkhead {
    /// A bulkhead of `permits_max` permits, of which each holder may have `per_holder_max`.
    #[must_use]
    pub fn new(permits_max: u32, per_holder_max: u32) -> Self {
        let semaphore = Semaphore::new(usize::try_from(permits_max).unwrap_or(Semaphore::MAX_PERMITS));
        Self {
            shared: Arc::new(semaphore),
            permits_max,
            per_holder_max: per_holder_max.min(permits_max),
            by_holder: Mutex::default(),
        }
    }

    /// The permits that are in use.
    #[must_use]
    pub fn in_use(&self) -> u64 {
        let free = u32::try_from(self.shared.available_permits()).unwrap_or(u32::MAX);
        self.permits_max.saturating_sub(free).into()
    }

    /// All permits, in use or free.
    #[must_use]
    pub fn permits_max(&self) -> u64 {
        self.permits_max.into()
    }

    /// Waits for permits of both limits, first of the holder's own, then of the shared one.
    pub async fn acquire(&self, holder: &str, amount: u32) -> Permit {
        self.permit(self.holder_permit(holder, amount).await).await
    }

    /// Waits for permits of the holder's own limit, at most all of it. The shared limit is untouched.
    ///
    /// # Panics
    /// Never: nobody closes the semaphore.
    pub async fn holder_permit(&self, holder: &str, amount: u32) -> HolderPermit {
        let own = self.limit_of(holder);
        let permits = own.acquire_many_owned(amount.min(self.per_holder_max)).await.expect(NEVER_CLOSED);
        HolderPermit(Arc::new(permits))
    }

    fn limit_of(&self, holder: &str) -> Arc<Semaphore> {
        let mut by_holder = self.by_holder.lock().unwrap_or_else(PoisonError::into_inner);
        if by_holder.len() >= IDLE_HOLDERS_MAX && !by_holder.contains_key(holder) {
            // Whoever holds a permit or waits for one has a clone.
            by_holder.retain(|_, limit| Arc::strong_count(limit) > 1);
        }
        let limit = by_holder.entry(holder.to_owned());
        Arc::clone(limit.or_insert_with(|| Arc::new(Semaphore::new(self.per_holder_max as usize))))
    }

    /// Waits for as many permits of the shared limit as the holder has here.
    ///
    /// # Panics
    /// Never: nobody closes the semaphore.
    pub async fn permit(&self, holder: HolderPermit) -> Permit {
        let amount = u32::try_from(holder.0.num_permits()).unwrap_or(u32::MAX);
        let shared = Arc::clone(&self.shared).acquire_many_owned(amount).await.expect(NEVER_CLOSED);
        Permit { _holder: holder, _shared: shared }
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
}
