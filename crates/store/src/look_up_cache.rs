//! Look-up cache. Concurrent look-ups of one key share one query.

use std::collections::HashMap;
use std::future::Future;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::error::{Result, StoreError};

/// How long an entry is cached by default.
const CACHED_FOR: Duration = Duration::from_secs(2);
/// How long after that an entry may stand in for a look-up that is slow or fails. Together they stay
/// below the 5 seconds of contract 9.9.1.
const STALE_FOR: Duration = Duration::from_millis(2500);
/// A caller waits this part of its time for a look-up before it takes a stale entry.
const STALE_AFTER: u32 = 8;
/// Maximum number of entries. A full cache is cleared, which costs only time.
const CACHED_MAX: usize = 100_000;

/// The result of a look-up. `None` is not cached.
type Lookup<V> = Result<Option<V>>;
/// A look-up that is running: its callers wait here for the result.
type RunningLookUp<V> = watch::Receiver<Option<Lookup<V>>>;

/// Whether a key has been found before. A stranger can make up only keys that never were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyIs {
    Known,
    New,
}

/// Values by their keys. It is cheap to clone, and all clones share the entries.
#[derive(Debug)]
pub(super) struct LookUpCache<K, V>(Arc<Mutex<CacheState<K, V>>>);

#[derive(Debug)]
struct CacheState<K, V> {
    /// How long an entry is cached, and how long it may be stale.
    lasts: Duration,
    stale_for: Duration,
    known: HashMap<K, KnownValue<V>>,
    /// The runtime of look-ups: the threads of payments, which may wait for what an operator has begun.
    runtime: Option<Handle>,
    /// Look-ups that are running. The result of one that is no longer here is not kept.
    sought: HashMap<K, RunningLookUp<V>>,
}

#[derive(Debug)]
struct KnownValue<V> {
    value: V,
    /// The end of its time.
    until: Duration,
}

impl<K, V> Default for LookUpCache<K, V> {
    fn default() -> Self {
        Self::new(CACHED_FOR, STALE_FOR)
    }
}

impl<K, V> LookUpCache<K, V> {
    /// A cache with this time for each entry, and none for stale ones.
    pub(super) fn lasting(lasts: Duration) -> Self {
        Self::new(lasts, Duration::ZERO)
    }

    fn new(lasts: Duration, stale_for: Duration) -> Self {
        let runtime = Handle::try_current().ok();
        let (known, sought) = (HashMap::new(), HashMap::new());
        let state = CacheState { lasts, stale_for, known, runtime, sought };
        Self(Arc::new(Mutex::new(state)))
    }
}

impl<K, V> LookUpCache<K, V>
where
    K: Eq + Hash + Clone + Send + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// The entry that is valid at `now` (monotonic), or the result of `look_up`. The look-up is made on a miss alone: a
    /// hit clones nothing. It runs in a task of its own, which goes on when a caller stops waiting. So a slow database
    /// gets one query, and not one from every request. A caller waits at most `within`. A caller with a stale entry
    /// waits an eighth of that and then takes the entry; it also takes it when a look-up fails.
    pub(super) async fn get_or<L>(
        &self,
        key: &K,
        now: Duration,
        within: Duration,
        look_up: impl FnOnce(KeyIs) -> L,
    ) -> Lookup<V>
    where
        L: Future<Output = Lookup<V>> + Send + 'static,
    {
        let (mut sought, aged) = {
            let mut state = self.lock();
            let known = state.known.get(key);
            if let Some(known) = known.filter(|known| now < known.until) {
                return Ok(Some(known.value.clone()));
            }
            let aged = known.filter(|known| now < known.until + state.stale_for);
            let aged = aged.map(|known| known.value.clone());
            let key_is = if known.is_some() { KeyIs::Known } else { KeyIs::New };
            let sought = match state.sought.get(key) {
                // A look-up that panicked has no sender.
                Some(sought) if sought.has_changed().is_ok() => sought.clone(),
                Some(_) | None => {
                    let (tell, sought) = watch::channel(None);
                    state.sought.insert(key.clone(), sought.clone());
                    let (cache, key, look_up) = (Self(Arc::clone(&self.0)), key.clone(), look_up(key_is));
                    let own = sought.clone();
                    let looking_up = async move {
                        let found = look_up.await;
                        cache.insert(key, now, &own, &found);
                        tell.send_replace(Some(found));
                    };
                    match &state.runtime {
                        Some(runtime) => runtime.spawn(looking_up),
                        None => tokio::spawn(looking_up),
                    };
                    sought
                }
            };
            (sought, aged)
        };
        let within = if aged.is_some() { within / STALE_AFTER } else { within };
        let found = match tokio::time::timeout(within, sought.wait_for(Option::is_some)).await {
            Ok(Ok(found)) => found.clone().expect("it was waited for"),
            Ok(Err(_)) => Err(StoreError::Internal("a look-up ended without an answer".to_owned())),
            Err(_) => Err(StoreError::unavailable("a look-up took too long")),
        };
        found.or_else(|error| aged.map(Some).ok_or(error))
    }

    /// Keeps the result of the look-up `own`, which began at `now`, unless all entries were forgotten since.
    fn insert(&self, key: K, now: Duration, own: &RunningLookUp<V>, found: &Lookup<V>) {
        let mut state = self.lock();
        if !state.sought.get(&key).is_some_and(|sought| sought.same_channel(own)) {
            return;
        }
        state.sought.remove(&key);
        if matches!(found, Ok(None)) {
            state.known.remove(&key);
        }
        if let Ok(Some(value)) = found {
            if state.known.len() >= CACHED_MAX {
                state.known.clear();
            }
            let known = KnownValue { value: value.clone(), until: now + state.lasts };
            state.known.insert(key, known);
        }
    }

    /// Forgets all entries. A look-up under way answers those who wait for it, and nobody after them.
    pub(super) fn forget(&self) {
        let mut state = self.lock();
        state.known.clear();
        state.sought.clear();
    }

    fn lock(&self) -> MutexGuard<'_, CacheState<K, V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::sync::Semaphore;

    use super::*;

    const NOW: Duration = Duration::from_secs(1000);
    /// It ends a test that hangs.
    const WITHIN: Duration = Duration::from_mins(1);

    /// A look-up that waits for its permit and counts itself.
    fn look_up(
        count: &Arc<AtomicU32>,
        permits: &Arc<Semaphore>,
    ) -> impl Future<Output = Lookup<u32>> + Send + 'static {
        let (count, permits) = (Arc::clone(count), Arc::clone(permits));
        async move {
            permits.acquire().await.expect("nobody closes it").forget();
            Ok(Some(count.fetch_add(1, Ordering::SeqCst)))
        }
    }

    #[tokio::test]
    async fn concurrent_callers_share_one_look_up_and_it_is_cached_from_its_start() {
        let (cache, count, permits) = (LookUpCache::default(), Arc::default(), Arc::new(Semaphore::new(0)));
        let ask = |now| cache.get_or(&"a", now, WITHIN, |_| look_up(&count, &permits));
        // All three have asked when there is an answer.
        let permit = async { permits.add_permits(2) };
        let (one, two, three, ()) = tokio::join!(ask(NOW), ask(NOW), ask(NOW + WITHIN), permit);
        assert_eq!((one, two, three), (Ok(Some(0)), Ok(Some(0)), Ok(Some(0))));
        assert_eq!(ask(NOW + Duration::from_millis(1999)).await, Ok(Some(0)));
        assert_eq!(ask(NOW + CACHED_FOR).await, Ok(Some(1)));
    }

    #[tokio::test]
    async fn who_waits_no_longer_does_not_end_the_look_up() {
        let (cache, count, permits) = (LookUpCache::default(), Arc::default(), Arc::new(Semaphore::new(0)));
        let ask = |within| cache.get_or(&"a", NOW, within, |_| look_up(&count, &permits));
        let impatient = Duration::from_millis(10);
        assert_eq!(ask(impatient).await, Err(StoreError::unavailable("a look-up took too long")));
        assert!(tokio::time::timeout(impatient, ask(WITHIN)).await.is_err(), "hung up");
        permits.add_permits(2);
        assert_eq!(ask(WITHIN).await, Ok(Some(0)));
        assert_eq!(count.load(Ordering::SeqCst), 1);
    }

    /// Rule: what a look-up found before all was forgotten answers nobody who asks afterwards.
    #[tokio::test]
    async fn a_look_up_that_began_before_all_was_forgotten_answers_nobody_after() {
        let (cache, count, permits) = (LookUpCache::default(), Arc::default(), Arc::new(Semaphore::new(0)));
        let ask = || cache.get_or(&"a", NOW, WITHIN, |_| look_up(&count, &permits));
        let forget = async {
            cache.forget();
            permits.add_permits(1);
        };
        assert_eq!(tokio::join!(ask(), forget).0, Ok(Some(0)));
        permits.add_permits(1);
        assert_eq!(ask().await, Ok(Some(1)));
    }

    #[tokio::test]
    async fn what_is_not_there_and_what_failed_is_looked_up_again() {
        let cache: LookUpCache<&str, u32> = LookUpCache::default();
        let fails = async { Err(StoreError::Again) };
        assert_eq!(cache.get_or(&"a", NOW, WITHIN, |_| fails).await, Err(StoreError::Again));
        assert_eq!(cache.get_or(&"a", NOW, WITHIN, |_| async { Ok(None) }).await, Ok(None));
        assert_eq!(cache.get_or(&"a", NOW, WITHIN, |_| async { Ok(Some(7)) }).await, Ok(Some(7)));
    }

    #[tokio::test]
    async fn a_look_up_that_panicked_holds_up_nobody() {
        let cache: LookUpCache<&str, u32> = LookUpCache::default();
        let closed = Semaphore::new(0);
        closed.close();
        let panics = async move { panic!("{:?}", closed.acquire().await.is_err()) };
        assert!(matches!(cache.get_or(&"a", NOW, WITHIN, |_| panics).await, Err(StoreError::Internal(_))));
        assert_eq!(cache.get_or(&"a", NOW, WITHIN, |_| async { Ok(Some(7)) }).await, Ok(Some(7)));
    }

    /// Rule (contract 9.9.2): for 2.5 seconds a stale entry stands in for a look-up that is slow or fails. A look-up
    /// that answers in time wins over it, also when it finds nothing.
    #[tokio::test]
    async fn a_stale_entry_stands_in_for_a_slow_database_and_not_for_long() {
        let cache: LookUpCache<&str, u32> = LookUpCache::default();
        let slow = || async { std::future::pending().await };
        let (last, within) = (NOW + CACHED_FOR + STALE_FOR, Duration::from_secs(4));
        assert_eq!(cache.get_or(&"a", NOW, WITHIN, |_| async { Ok(Some(7)) }).await, Ok(Some(7)));
        let stale_at = last.saturating_sub(Duration::from_millis(1));
        assert_eq!(
            cache.get_or(&"a", stale_at, WITHIN, |_| async { Err(StoreError::Again) }).await,
            Ok(Some(7))
        );
        let late = Err(StoreError::unavailable("a look-up took too long"));
        // Who has no stale entry waits longer.
        tokio::select! {
            biased;
            found = cache.get_or(&"b", NOW, within, |_| slow()) => panic!("{found:?}"),
            found = cache.get_or(&"a", stale_at, within, |_| slow()) => assert_eq!(found, Ok(Some(7))),
        }
        assert_eq!(cache.get_or(&"a", last, within / STALE_AFTER, |_| slow()).await, late);
        assert!(CACHED_FOR + STALE_FOR < Duration::from_secs(5), "contract 9.9.1");
    }

    /// Rule: what a look-up no longer finds is gone at once, and a key is known only after it was found.
    #[tokio::test]
    async fn what_was_revoked_is_not_served_stale() {
        let cache: LookUpCache<&str, u32> = LookUpCache::default();
        let later = NOW + CACHED_FOR;
        let ask = |now, expected, found: Lookup<u32>| {
            let look_up = move |key_is| {
                assert_eq!(key_is, expected);
                async move { found }
            };
            cache.get_or(&"a", now, WITHIN, look_up)
        };
        assert_eq!(ask(NOW, KeyIs::New, Ok(None)).await, Ok(None));
        assert_eq!(ask(NOW, KeyIs::New, Ok(Some(7))).await, Ok(Some(7)));
        assert_eq!(ask(later, KeyIs::Known, Ok(None)).await, Ok(None));
        assert_eq!(ask(later, KeyIs::New, Err(StoreError::Again)).await, Err(StoreError::Again));
    }
}
