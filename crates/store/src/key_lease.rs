//! API keys as look-ups find them, and for how long an instance takes them for valid.

use std::time::Duration;

use domain::ids::ApiKeyName;
use domain::rights::Rights;
use tokio::time::Instant;

use crate::error::Result;
use crate::look_up_cache::LookUpCache;

/// How long an instance takes a key for valid after it asked for it.
const KEY_LEASE: Duration = Duration::from_millis(200);
/// How long after its commit a revocation is answered: longer than a lease, because clocks of two machines differ in speed.
const REVOCATION_WAIT: Duration = Duration::from_millis(210);

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
    /// Each with the time when its look-up began.
    keys: LookUpCache<[u8; 32], (Duration, ApiKey)>,
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
        look_up: impl Fn() -> L,
    ) -> Result<Option<ApiKey>>
    where
        L: Future<Output = Result<Option<ApiKey>>> + Send + 'static,
    {
        let arrived = self.started.elapsed();
        loop {
            let begun = self.started.elapsed();
            let find = |_| {
                let look_up = look_up();
                async move { Ok(look_up.await?.map(|key| (begun, key))) }
            };
            match self.keys.get_or(hash, begun, within, find).await? {
                // Another caller's look-up was under way for longer than a lease. The next one begins after this call came.
                Some((begun, _)) if begun + KEY_LEASE <= arrived => {}
                found => return Ok(found.map(|(_, key)| key)),
            }
        }
    }

    /// Forgets all keys.
    pub(crate) fn forget(&self) {
        self.keys.forget();
    }

    /// Waits until no instance takes a key for valid that was revoked before.
    pub(crate) async fn have_ended() {
        tokio::time::sleep(REVOCATION_WAIT).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use domain::console_user::Role;
    use tokio::sync::Semaphore;

    use super::*;

    /// Operators' contract 8.7.11.
    #[tokio::test]
    async fn a_look_up_that_takes_longer_than_a_lease_answers_no_later_call() {
        let (leases, permits) = (KeyLeases::default(), Arc::new(Semaphore::new(0)));
        // It ends a test that hangs.
        let within = Duration::from_mins(1);
        let look_up = |is_revoked| {
            let permits = Arc::clone(&permits);
            move || {
                let permits = Arc::clone(&permits);
                async move {
                    permits.acquire().await.unwrap().forget();
                    let name = ApiKeyName::parse("backend").unwrap();
                    Ok(Some(ApiKey { name, rights: Role::Viewer.into(), alone_max: None, is_revoked }))
                }
            }
        };
        let ask = async |is_revoked| {
            leases.get_or(&[0; 32], within, look_up(is_revoked)).await.unwrap().unwrap().is_revoked
        };
        let later = async {
            tokio::time::sleep(KEY_LEASE).await;
            let release = async { permits.add_permits(2) };
            tokio::join!(ask(true), release).0
        };
        assert_eq!(tokio::join!(ask(false), later), (false, true));
    }
}
