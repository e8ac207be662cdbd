//! API keys as look-ups find them, and for how long an instance takes them for valid.

use std::time::Duration;

use domain::ids::ApiKeyName;
use domain::rights::Rights;
use tokio::time::Instant;

use crate::error::Result;
use crate::look_up_cache::LookUpCache;

/// How long an instance takes a key for valid after it asked for it. A revocation is answered this long after its commit. So
/// when it is answered, every instance refuses the key.
const KEY_LEASE: Duration = Duration::from_millis(200);

/// The API key of a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// Its name.
    pub name: ApiKeyName,
    /// What it may do.
    pub rights: Rights,
    /// How many coins it moves in 24 hours without a second person, where it has a limit of its own.
    pub alone_max: Option<i64>,
    /// True when an operator has revoked it.
    pub is_revoked: bool,
}

/// The keys that this instance has asked for, by hash.
#[derive(Debug)]
pub(crate) struct KeyLeases {
    keys: LookUpCache<[u8; 32], ApiKey>,
    /// Leases are measured by time that nobody sets, and that never stands still.
    started: Instant,
}

impl Default for KeyLeases {
    fn default() -> Self {
        Self { keys: LookUpCache::lasting(KEY_LEASE), started: Instant::now() }
    }
}

impl KeyLeases {
    /// The key with this hash, or the result of `look_up`, for which a caller waits at most `within`.
    pub(crate) async fn get_or<L>(
        &self,
        hash: &[u8; 32],
        within: Duration,
        look_up: impl FnOnce() -> L,
    ) -> Result<Option<ApiKey>>
    where
        L: Future<Output = Result<Option<ApiKey>>> + Send + 'static,
    {
        self.keys.get_or(hash, self.started.elapsed(), within, |_| look_up()).await
    }

    /// Forgets all keys.
    pub(crate) fn forget(&self) {
        self.keys.forget();
    }

    /// Waits until no instance takes a key for valid that was revoked before.
    pub(crate) async fn have_ended() {
        tokio::time::sleep(KEY_LEASE).await;
    }
}
