//! Counts that wait in memory until a background task writes them, for operators. No request waits for them.
//!
//! The memory is bounded: what does not fit is not counted, and the log says how much it was. An app has a share of
//! its own, so a flood of one app leaves room for the others.

mod key_uses;
mod refusals;
mod replays;

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::ids::AppId;

pub(super) use key_uses::KeyUses;
pub(super) use refusals::{RefusalCount, RefusalName, Refusals};
pub use refusals::{RefusedChange, RefusedContent};
pub(super) use replays::Replays;

/// What is counted. Two counts of the same name become one, in any order.
trait Count {
    fn add(&mut self, other: Self);
}

impl Count for i64 {
    fn add(&mut self, other: Self) {
        *self += other;
    }
}

/// The most names between two writes.
#[derive(Debug, Clone, Copy)]
struct NamesMax {
    /// Of all apps together.
    all: usize,
    /// Of one app.
    of_app: usize,
}

/// The counts since the last write, by app and name. It is cheap to clone, and all clones share the counts.
#[derive(Debug, Clone)]
struct Counts<N, C> {
    max: NamesMax,
    waiting: Arc<Mutex<Waiting<N, C>>>,
}

#[derive(Debug)]
struct Waiting<N, C> {
    by_app: HashMap<AppId, HashMap<N, C>>,
    names: usize,
    uncounted: u64,
}

/// What was counted, in the order of app and name, and how often there was no room.
#[derive(Debug)]
pub(super) struct TakenCounts<N, C> {
    pub(super) counts: Vec<(AppId, N, C)>,
    pub(super) uncounted: u64,
}

impl<N: Eq + Hash + Ord, C: Count> Counts<N, C> {
    fn new(max: NamesMax) -> Self {
        let waiting = Waiting { by_app: HashMap::new(), names: 0, uncounted: 0 };
        Self { max, waiting: Arc::new(Mutex::new(waiting)) }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<N, C>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts. It holds the lock for some look-ups.
    fn count(&self, counts: impl IntoIterator<Item = (AppId, N, C)>) {
        let mut waiting = self.lock();
        let waiting = &mut *waiting;
        for (app_id, name, count) in counts {
            let of_app = waiting.by_app.get(&app_id).map_or(0, HashMap::len);
            if let Some(known) = waiting.by_app.get_mut(&app_id).and_then(|of_app| of_app.get_mut(&name)) {
                known.add(count);
            } else if waiting.names < self.max.all && of_app < self.max.of_app {
                waiting.by_app.entry(app_id).or_default().insert(name, count);
                waiting.names += 1;
            } else {
                waiting.uncounted += 1;
            }
        }
    }

    /// Takes what was counted. Every process has the same order, so two that write never wait for each other.
    fn take(&self) -> TakenCounts<N, C> {
        let mut waiting = self.lock();
        let by_app = std::mem::take(&mut waiting.by_app);
        waiting.names = 0;
        let uncounted = std::mem::take(&mut waiting.uncounted);
        drop(waiting);
        let all = by_app.into_iter().flat_map(|(app_id, counts)| {
            counts.into_iter().map(move |(name, count)| (app_id.clone(), name, count))
        });
        let mut counts: Vec<_> = all.collect();
        counts.sort_unstable_by(|one, other| (&one.0, &one.1).cmp(&(&other.0, &other.1)));
        TakenCounts { counts, uncounted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: NamesMax = NamesMax { all: 10, of_app: 6 };

    fn one(app: &str, name: u32) -> (AppId, u32, i64) {
        (AppId::parse(app).unwrap(), name, 1)
    }

    /// Contract 13.1: a flood cannot grow the memory, takes no room from another app, and known names still count.
    #[test]
    fn a_flood_of_names_is_bounded_and_known_names_still_count() {
        let counts = Counts::new(MAX);
        counts.count((0..100).map(|name| one("a", name)));
        counts.count((0..100).map(|name| one("b", name)));
        counts.count([one("a", 0), one("a", 0), one("c", 0)]);
        assert_eq!(counts.lock().by_app.len(), 2, "an app without room takes no memory");
        let TakenCounts { counts: taken, uncounted } = counts.take();
        let of = |app: &str| taken.iter().filter(|(app_id, ..)| app_id.as_str() == app).count();
        assert_eq!((of("a"), of("b"), of("c"), uncounted), (6, 4, 0, 94 + 96 + 1));
        assert_eq!(taken[0], (AppId::parse("a").unwrap(), 0, 3));
        assert!(taken.is_sorted());
        let again = counts.take();
        assert!(again.counts.is_empty() && again.uncounted == 0, "what was taken is not taken again");
        counts.count([one("c", 0)]);
        assert_eq!(counts.take().counts.len(), 1, "there is room again");
    }
}
