//! Uses of keys, each counted by the key itself.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use domain::ids::AppId;
use domain::key_uses::{KeyKind, Uses};

/// The app of a key (empty for an API key), its kind, and its generation or name.
pub(crate) type KeyName = (String, KeyKind, String);

/// The counts of this process. It is cheap to clone, and all clones share the counts. A stranger cannot make
/// it grow: only keys that were looked up are in it, and one that nobody holds is forgotten.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeyUses(Arc<Mutex<HashMap<KeyName, Uses>>>);

impl KeyUses {
    /// The count of a key.
    pub(crate) fn of(&self, app_id: Option<&AppId>, kind: KeyKind, key: &impl ToString) -> Uses {
        let name = (app_id.map_or("", AppId::as_str).to_owned(), kind, key.to_string());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(name).or_default().clone()
    }

    /// What was counted since the last call, in the order of the names: so two processes that write never
    /// wait for each other.
    pub(crate) fn take(&self) -> Vec<(KeyName, Uses, i64)> {
        let mut taken = Vec::new();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|name, uses| {
            // In this order, because only who holds a count can add to it.
            let (is_held, count) = (uses.is_shared(), uses.take());
            if count > 0 {
                taken.push((name.clone(), uses.clone(), count));
            }
            is_held || count > 0
        });
        taken.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rule 8.2.3: no use is lost or told twice, and a key that nobody holds is forgotten.
    #[test]
    fn every_use_is_taken_once() {
        let counts = KeyUses::default();
        let app_id = AppId::parse("a1").unwrap();
        let key = |generation: i32| counts.of(Some(&app_id), KeyKind::PayKey, &generation);
        let (held, same) = (key(2), key(2));
        held.add(1);
        same.add(2);
        key(1).add(4);
        let told = |taken: Vec<(KeyName, Uses, i64)>| -> Vec<(String, i64)> {
            taken.into_iter().map(|((_, _, key), _, count)| (key, count)).collect()
        };
        assert_eq!(told(counts.take()), [("1".to_owned(), 4), ("2".to_owned(), 3)]);
        assert_eq!(told(counts.take()), []);
        assert_eq!(counts.0.lock().unwrap().len(), 1, "nobody holds the first key");
        held.add(5);
        drop((held, same));
        assert_eq!(told(counts.take()), [("2".to_owned(), 5)]);
        counts.take();
        assert!(counts.0.lock().unwrap().is_empty());
    }
}
