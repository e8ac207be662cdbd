//! Look-ups that are remembered for a while, and made once for all who ask for the same at once.

use std::collections::HashMap;
use std::future::Future;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::StoreError;

/// How long a look-up is remembered, where nothing else is said.
const REMEMBERED_FOR: Duration = Duration::from_secs(2);
/// How many look-ups are remembered; over that, all are forgotten, which costs only time.
const REMEMBERED_MAX: usize = 100_000;

/// What a look-up found; `None` is not remembered.
type Found<V> = Result<Option<V>, StoreError>;

/// Values by their keys. Cheap to clone; all clones remember the same.
#[derive(Debug)]
pub(super) struct LookUpCache<K, V>(Arc<Mutex<State<K, V>>>);

#[derive(Debug)]
struct State<K, V> {
    /// How long a look-up is remembered.
    lasts: Duration,
    /// Each with the time until which it counts.
    known: HashMap<K, (Duration, V)>,
    /// Look-ups under way.
    sought: HashMap<K, watch::Receiver<Option<Found<V>>>>,
}

impl<K, V> Default for LookUpCache<K, V> {
    fn default() -> Self {
        Self::lasting(REMEMBERED_FOR)
    }
}

impl<K, V> LookUpCache<K, V> {
    /// Remembers each look-up for this long.
    pub(super) fn lasting(lasts: Duration) -> Self {
        Self(Arc::new(Mutex::new(State { lasts, known: HashMap::new(), sought: HashMap::new() })))
    }
}

impl<K, V> LookUpCache<K, V>
where
    K: Eq + Hash + Clone + Send + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// What is remembered at `now` (monotonic), or what `look_up` finds. It runs in a task of its own: who stops
    /// waiting does not end it, and it serves whoever comes later. So a database that has become slow is asked once,
    /// not once by every request that waits.
    ///
    /// # Errors
    /// Those of `look_up`, or it has not ended after `within`.
    pub(super) async fn get_or(
        &self,
        key: K,
        now: Duration,
        within: Duration,
        look_up: impl Future<Output = Found<V>> + Send + 'static,
    ) -> Found<V> {
        let mut sought = {
            let mut state = self.lock();
            if let Some((_, value)) = state.known.get(&key).filter(|(until, _)| now < *until) {
                return Ok(Some(value.clone()));
            }
            match state.sought.get(&key) {
                // One that panicked has no sender any more.
                Some(sought) if sought.has_changed().is_ok() => sought.clone(),
                Some(_) | None => {
                    let (tell, sought) = watch::channel(None);
                    state.sought.insert(key.clone(), sought.clone());
                    let remembered = Self(Arc::clone(&self.0));
                    tokio::spawn(async move {
                        let found = look_up.await;
                        remembered.note(key, now, &found);
                        tell.send_replace(Some(found));
                    });
                    sought
                }
            }
        };
        match tokio::time::timeout(within, sought.wait_for(Option::is_some)).await {
            Ok(Ok(found)) => found.clone().expect("it was waited for"),
            Ok(Err(_)) => Err(StoreError::Internal("a look-up ended without an answer".to_owned())),
            Err(_) => Err(StoreError::Unavailable("a look-up took too long".to_owned())),
        }
    }

    fn note(&self, key: K, now: Duration, found: &Found<V>) {
        let mut state = self.lock();
        state.sought.remove(&key);
        if let Ok(Some(value)) = found {
            if state.known.len() >= REMEMBERED_MAX {
                state.known.clear();
            }
            let until = now + state.lasts;
            state.known.insert(key, (until, value.clone()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<K, V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::sync::Semaphore;
    use tokio::time::sleep;

    use super::*;

    const NOW: Duration = Duration::from_secs(1000);
    const WITHIN: Duration = Duration::from_secs(20);

    /// A look-up that takes `for_millis` and counts itself.
    fn look_up(count: &Arc<AtomicU32>, for_millis: u64) -> impl Future<Output = Found<u32>> + Send + 'static {
        let count = Arc::clone(count);
        async move {
            sleep(Duration::from_millis(for_millis)).await;
            Ok(Some(count.fetch_add(1, Ordering::SeqCst)))
        }
    }

    #[tokio::test]
    async fn all_who_ask_at_once_share_one_look_up_and_it_is_remembered_from_its_beginning() {
        let (remembered, count) = (LookUpCache::default(), Arc::default());
        let ask = |now| remembered.get_or("a", now, WITHIN, look_up(&count, 50));
        let (one, two, three) = tokio::join!(ask(NOW), ask(NOW), ask(NOW + WITHIN));
        assert_eq!((one, two, three), (Ok(Some(0)), Ok(Some(0)), Ok(Some(0))));
        assert_eq!(ask(NOW + Duration::from_millis(1999)).await, Ok(Some(0)));
        assert_eq!(ask(NOW + REMEMBERED_FOR).await, Ok(Some(1)));
    }

    #[tokio::test]
    async fn who_waits_no_longer_does_not_end_the_look_up() {
        let (remembered, count) = (LookUpCache::default(), Arc::default());
        let ask = |within| remembered.get_or("a", NOW, within, look_up(&count, 200));
        let impatient = Duration::from_millis(10);
        assert_eq!(ask(impatient).await, Err(StoreError::Unavailable("a look-up took too long".to_owned())));
        assert!(tokio::time::timeout(impatient, ask(WITHIN)).await.is_err(), "hung up");
        assert_eq!(ask(WITHIN).await, Ok(Some(0)));
        assert_eq!(count.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn what_is_not_there_and_what_failed_is_looked_up_again() {
        let remembered: LookUpCache<&str, u32> = LookUpCache::default();
        let fails = async { Err(StoreError::Again) };
        assert_eq!(remembered.get_or("a", NOW, WITHIN, fails).await, Err(StoreError::Again));
        assert_eq!(remembered.get_or("a", NOW, WITHIN, async { Ok(None) }).await, Ok(None));
        assert_eq!(remembered.get_or("a", NOW, WITHIN, async { Ok(Some(7)) }).await, Ok(Some(7)));
    }

    #[tokio::test]
    async fn a_look_up_that_panicked_holds_up_nobody() {
        let remembered: LookUpCache<&str, u32> = LookUpCache::default();
        let closed = Semaphore::new(0);
        closed.close();
        let panics = async move { panic!("{:?}", closed.acquire().await.is_err()) };
        assert!(matches!(remembered.get_or("a", NOW, WITHIN, panics).await, Err(StoreError::Internal(_))));
        assert_eq!(remembered.get_or("a", NOW, WITHIN, async { Ok(Some(7)) }).await, Ok(Some(7)));
    }
}
