//! Places in the queue of requests. While other apps wait, one app has at most half of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::ids::AppId;

/// An app that waits alone leaves one place in this many to the others.
const LEFT_TO_OTHERS: usize = 8;

/// The places. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct QueueSlots {
    max: usize,
    taken: Arc<Mutex<TakenSlots>>,
}

#[derive(Debug, Default)]
struct TakenSlots {
    count: usize,
    by_app: HashMap<AppId, usize>,
}

/// A place of one request, until it is dropped.
#[derive(Debug)]
pub(super) struct QueueSlot {
    queue: QueueSlots,
    app_id: AppId,
}

impl QueueSlots {
    /// Nothing waits. At most `max` requests may.
    pub(super) fn new(max: usize) -> Self {
        Self { max, taken: Arc::default() }
    }

    /// Takes a place for a request of this app; `None` when there is none for it (contract 9.5.1).
    pub(super) fn take(&self, app_id: &AppId) -> Option<QueueSlot> {
        let mut taken = self.lock();
        let of_app = taken.by_app.get(app_id).copied().unwrap_or(0);
        let is_alone = of_app == taken.count;
        let most = if is_alone { self.max - self.max / LEFT_TO_OTHERS } else { self.max.div_ceil(2) };
        if taken.count >= self.max || of_app >= most {
            return None;
        }
        taken.count += 1;
        *taken.by_app.entry(app_id.clone()).or_default() += 1;
        Some(QueueSlot { queue: self.clone(), app_id: app_id.clone() })
    }

    /// How many places are free.
    pub(super) fn free(&self) -> usize {
        self.max - self.lock().count
    }

    fn lock(&self) -> MutexGuard<'_, TakenSlots> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueSlot {
    /// The app that has the place.
    pub(super) fn app_id(&self) -> &AppId {
        &self.app_id
    }
}

impl Drop for QueueSlot {
    fn drop(&mut self) {
        let mut taken = self.queue.lock();
        taken.count -= 1;
        if let Some(of_app) = taken.by_app.get_mut(&self.app_id) {
            *of_app -= 1;
            if *of_app == 0 {
                taken.by_app.remove(&self.app_id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract 9.5.1.
    #[test]
    fn one_app_has_at_most_half_of_the_queue_while_another_waits() {
        let queue = QueueSlots::new(16);
        let [busy, other] = ["busy", "other"].map(|id| AppId::parse(id).unwrap());
        let fill = |app: &AppId| std::iter::from_fn(|| queue.take(app)).collect::<Vec<_>>();
        let mut of_busy = fill(&busy);
        assert_eq!((of_busy.len(), queue.free()), (14, 2), "alone it leaves room for the others");
        let of_other = fill(&other);
        assert_eq!((of_other.len(), queue.free()), (2, 0));
        of_busy.truncate(7);
        assert_eq!(fill(&busy).len(), 1, "half, and no more");
        drop(of_other);
        assert_eq!(fill(&busy).len(), 7, "alone again");
        assert_eq!(QueueSlots::new(1).take(&busy).map(|place| place.queue.free()), Some(0));
    }
}
