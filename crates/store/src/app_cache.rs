//! Caches of the apps and tokens that were looked up, and the keyring that opens the secrets of apps.

use std::sync::{Arc, PoisonError, RwLock};

use domain::app::App;
use domain::ids::AppId;
use domain::topup::{CallbackProvider, PaymentProvider};

use crate::error::{Result, StoreError};
use crate::look_up_cache::LookUpCache;
use crate::secrets::Keyring;

/// The keyring and the caches.
#[derive(Debug, Default)]
pub(super) struct AppCache {
    keyring: RwLock<Option<Arc<Keyring>>>,
    pub(super) apps: LookUpCache<AppId, Arc<App>>,
    /// App and hash of a token, with its end in Unix milliseconds.
    pub(super) tokens: LookUpCache<(AppId, [u8; 32]), i64>,
    pub(super) providers: LookUpCache<(AppId, PaymentProvider), Arc<CallbackProvider>>,
}

impl AppCache {
    pub(super) fn set_keyring(&self, keyring: Keyring) {
        *self.keyring.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(keyring));
    }

    pub(super) fn keyring(&self) -> Result<Arc<Keyring>> {
        let keyring = self.keyring.read().unwrap_or_else(PoisonError::into_inner).clone();
        keyring.ok_or_else(|| StoreError::Internal("the master key was not loaded".to_owned()))
    }
}
