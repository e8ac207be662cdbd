//! Counts of how often keys have proven who calls (contract 8.2.3), so that a rotation is not blind.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

crate::word_enum! {
    /// What a counted key is.
    pub enum KeyKind {
        /// It signs exchanges.
        PayKey = "pay_key",
        /// It gets access tokens and logs players in.
        AppSecret = "app_secret",
        /// A key of the admin API.
        ApiKey = "api_key",
    }
}

/// How often a key has proven who calls, since the count was last taken. Clones share the count. To count
/// is one atomic addition.
#[derive(Debug, Clone, Default)]
pub struct Uses(Arc<AtomicI64>);

impl Uses {
    /// Adds so many uses.
    pub fn add(&self, uses: i64) {
        self.0.fetch_add(uses, Ordering::Relaxed);
    }

    /// The uses since the last call.
    #[must_use]
    pub fn take(&self) -> i64 {
        self.0.swap(0, Ordering::Relaxed)
    }

    /// Whether there is another clone. Without one, only the caller can add.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

/// A key that is valid now, with the count of its uses.
#[derive(Debug, Clone)]
pub struct LiveKey<K> {
    key: K,
    /// How often it has proven who calls.
    pub uses: Uses,
}

impl<K> LiveKey<K> {
    /// A key whose uses are counted there.
    #[must_use]
    pub fn new(key: K, uses: Uses) -> Self {
        Self { key, uses }
    }
}

/// A key that nobody else counts.
impl<K> From<K> for LiveKey<K> {
    fn from(key: K) -> Self {
        Self::new(key, Uses::default())
    }
}

impl<K> Deref for LiveKey<K> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.key
    }
}
