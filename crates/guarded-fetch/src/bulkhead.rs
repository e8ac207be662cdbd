//! A bounded whole that many share, none of them more than its part: places for fetches, bytes of
//! pictures in memory. What one app leaves hanging uses up that app's share and not everyone's.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Why waiting for a permit cannot fail.
const NEVER_CLOSED: &str = "nobody closes the semaphore";

/// A whole and the shares in it. Amounts are in whatever unit its owner counts.
#[derive(Debug)]
pub struct Shares {
    whole: Arc<Semaphore>,
    whole_max: u32,
    share_max: u32,
    /// One for each app that ever came; only authenticated ones do.
    by_holder: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// A part of one holder's share; given back when its last clone is dropped.
#[derive(Debug, Clone)]
pub struct Share(Arc<OwnedSemaphorePermit>);

/// A part of the whole together with the holder's share in it.
#[derive(Debug)]
pub struct Place {
    _share: Share,
    _room: OwnedSemaphorePermit,
}

impl Shares {
    /// A whole of `whole_max`, of which each holder may have `share_max`.
    #[must_use]
    pub fn new(whole_max: u32, share_max: u32) -> Self {
        let semaphore = Semaphore::new(usize::try_from(whole_max).unwrap_or(Semaphore::MAX_PERMITS));
        Self {
            whole: Arc::new(semaphore),
            whole_max,
            share_max: share_max.min(whole_max),
            by_holder: Mutex::default(),
        }
    }

    /// How much of the whole is taken.
    #[must_use]
    pub fn taken(&self) -> u64 {
        let free = u32::try_from(self.whole.available_permits()).unwrap_or(u32::MAX);
        self.whole_max.saturating_sub(free).into()
    }

    /// The whole.
    #[must_use]
    pub fn whole(&self) -> u64 {
        self.whole_max.into()
    }

    /// Waits, as long as the caller lets it, until this much of the holder's own share is free: at
    /// most all of it. Nothing of the whole is taken yet.
    ///
    /// # Panics
    /// Never: nobody closes the semaphore.
    pub async fn share(&self, holder: &str, amount: u32) -> Share {
        let share = Arc::clone(
            self.by_holder
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .entry(holder.to_owned())
                .or_insert_with(|| Arc::new(Semaphore::new(self.share_max as usize))),
        );
        let permit = share.acquire_many_owned(amount.min(self.share_max)).await.expect(NEVER_CLOSED);
        Share(Arc::new(permit))
    }

    /// Waits until as much of the whole is free as this share stands for.
    ///
    /// # Panics
    /// Never: nobody closes the semaphore.
    pub async fn place(&self, share: Share) -> Place {
        let amount = u32::try_from(share.0.num_permits()).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.whole).acquire_many_owned(amount).await.expect(NEVER_CLOSED);
        Place { _share: share, _room: room }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const MOMENT: Duration = Duration::from_millis(20);

    async fn place(shares: &Shares, holder: &str, amount: u32) -> Option<Place> {
        let waiting = async { shares.place(shares.share(holder, amount).await).await };
        timeout(MOMENT, waiting).await.ok()
    }

    /// Rule: one holder gets its share and no more, others get theirs, and all together the whole.
    #[tokio::test]
    async fn nobody_takes_more_than_a_share_and_all_no_more_than_the_whole() {
        let shares = Shares::new(5, 2);
        let of_a = [place(&shares, "a", 1).await.unwrap(), place(&shares, "a", 1).await.unwrap()];
        assert!(place(&shares, "a", 1).await.is_none(), "over its share");
        let of_b = place(&shares, "b", 2).await.unwrap();
        let of_c = place(&shares, "c", 1).await.unwrap();
        assert!(place(&shares, "d", 1).await.is_none(), "over the whole");
        drop(of_c);
        assert!(place(&shares, "d", 2).await.is_none(), "over what is left of the whole");
        drop((of_a, of_b));
        assert!(place(&shares, "a", 2).await.is_some(), "what was given back is there again");
    }

    /// Rule: waiting for one's own share takes nothing of the whole.
    #[tokio::test]
    async fn a_queue_at_one_share_does_not_hold_up_others() {
        let shares = Arc::new(Shares::new(3, 1));
        let held = place(&shares, "a", 1).await.unwrap();
        let mut waiting = tokio::task::JoinSet::new();
        for _ in 0..10 {
            let shares = Arc::clone(&shares);
            waiting.spawn(async move { place(&shares, "a", 1).await.is_none() });
        }
        tokio::task::yield_now().await;
        assert!(place(&shares, "b", 1).await.is_some());
        assert!(waiting.join_all().await.into_iter().all(|gave_up| gave_up));
        drop(held);
    }

    /// Rule: nobody waits for what can never be free.
    #[tokio::test]
    async fn more_than_a_share_is_all_of_the_share() {
        let shares = Shares::new(2, 9);
        let all = place(&shares, "a", 100).await.unwrap();
        assert!(place(&shares, "b", 1).await.is_none());
        drop(all);
        assert!(place(&shares, "b", 1).await.is_some());
    }
}
