//! Look-up cache of apps and access tokens (contract 9.9). A look-up seldom costs a round trip, and
//! an operator's change acts within seconds on every instance.

use std::sync::Arc;
use std::time::Duration;

use domain::app::{App, LIVE_KEYS};
use domain::caller::{SignatureFinding, SignatureVerdict, TokenState};
use domain::ids::{AppId, AppNo};
use domain::key_uses::{KeyKind, LiveKey};
use domain::secret::Secret;
use domain::signature::PayKey;
use sqlx::types::Json;

use crate::app::AppRow;
use crate::error::{Result, StoreError};
use crate::look_up_cache::KeyIs;
use crate::secrets::{Keyring, WrongKey};
use crate::store::Store;

/// A look-up may take this much longer than the wait for a connection.
const STATEMENT_MARGIN: Duration = Duration::from_millis(500);
/// Number of pay keys that are loaded, retired ones for the diagnosis included.
const RETIRED_PAY_KEYS: i64 = 8;
/// How many keys of other apps a diagnosis tries.
const PAY_KEYS_OF_OTHERS_MAX: i64 = 200;

impl Store {
    /// The app with this id. `None` when there is no such app.
    pub async fn find_app(&self, app_id: &AppId) -> Result<Option<Arc<App>>> {
        let look_up = |key_is| {
            let (store, id) = (self.clone(), app_id.clone());
            async move { Ok(store.look_up(store.load_app(key_is, &id)).await?.map(Arc::new)) }
        };
        self.app_cache.apps.get_or(app_id, self.clock.monotonic(), self.look_up_within(), look_up).await
    }

    /// Tries the live pay keys of the newest other apps on a signature that nothing else explains, at most 200. A game
    /// server may have signed with the key of another app. It takes a session of strangers, because payments must not
    /// wait for it, and its keys are tried apart from the threads that answer them.
    pub async fn try_keys_of_others(&self, mut finding: SignatureFinding) -> Result<SignatureFinding> {
        if finding.verdict != SignatureVerdict::Differs(None) {
            return Ok(finding);
        }
        let sealed = self.look_up(self.pay_keys_of_others(&finding.app_id)).await?;
        let keyring = self.app_cache.keyring()?;
        let trying = tokio::task::spawn_blocking(move || {
            // A key that this keyring cannot open does not help the diagnosis.
            let open = sealed.iter().filter_map(|(app_id, sealed)| keyring.open(app_id, sealed).ok());
            finding.try_keys_of_others(&open.map(PayKey::new).collect::<Vec<_>>());
            finding
        });
        trying.await.map_err(|fault| StoreError::Internal(format!("a diagnosis ended: {fault}")))
    }

    /// Live pay keys of the newest other apps, encrypted.
    async fn pay_keys_of_others(&self, app_id: &AppId) -> Result<Vec<(AppId, Vec<u8>)>> {
        let rows = sqlx::query!(
            "SELECT app_id, pay_key FROM pay_keys k WHERE app_id <> $1 AND generation > (
                 SELECT max(generation) FROM pay_keys newer WHERE newer.app_id = k.app_id) - $2
             ORDER BY created_at DESC LIMIT $3",
            app_id.as_str(),
            i32::try_from(LIVE_KEYS).unwrap_or(i32::MAX),
            PAY_KEYS_OF_OTHERS_MAX
        );
        let rows = rows.fetch_all(&mut *self.guest_pool.session().await?).await?.into_iter();
        Ok(rows.filter_map(|row| Some((AppId::parse(&row.app_id).ok()?, row.pay_key))).collect())
    }

    /// The time limit of a look-up. It is shorter than that of a statement, for a table that is
    /// locked.
    pub(super) fn look_up_within(&self) -> Duration {
        self.settings.acquire_timeout + STATEMENT_MARGIN
    }

    /// The state of a token of this app. The token is given by its hash.
    pub async fn token_state(&self, app_id: &AppId, token_hash: [u8; 32]) -> Result<TokenState> {
        let look_up = |key_is| {
            let (store, id) = (self.clone(), app_id.clone());
            async move { store.look_up(store.load_token_expiry(key_is, &id, &token_hash)).await }
        };
        let key = (app_id.clone(), token_hash);
        let found = self
            .app_cache
            .tokens
            .get_or(&key, self.clock.monotonic(), self.look_up_within(), look_up)
            .await?;
        let Some(expiry) = found else { return Ok(TokenState::Unknown) };
        Ok(if self.clock.unix_millis() < expiry { TokenState::Valid } else { TokenState::Expired })
    }

    async fn load_token_expiry(
        &self,
        key_is: KeyIs,
        app_id: &AppId,
        token_hash: &[u8],
    ) -> Result<Option<i64>> {
        let expiry = sqlx::query_scalar!(
            r#"SELECT (extract(epoch FROM expires_at) * 1000)::bigint AS "millis!"
               FROM access_tokens WHERE app_id = $1 AND token_hash = $2"#,
            app_id.as_str(),
            token_hash
        );
        // Payments may wait for a look-up that an operator began, so it never takes a session of operators. What
        // strangers make up was never found, so it takes no session of others.
        Ok(match key_is {
            KeyIs::Known => expiry.fetch_optional(&self.public_pool).await?,
            KeyIs::New => expiry.fetch_optional(&mut *self.guest_pool.session().await?).await?,
        })
    }

    async fn load_app(&self, key_is: KeyIs, app_id: &AppId) -> Result<Option<App>> {
        let row = sqlx::query!(
            r#"SELECT to_jsonb(apps) - '{app_secret,former_secret}'::text[] AS "app!: Json<AppRow>", app_secret, former_secret,
                      app_no, secret_generation,
                      (SELECT pages FROM packages WHERE packages.app_id = apps.app_id
                       ORDER BY published_at DESC, version DESC LIMIT 1) AS pages,
                      ARRAY(SELECT pay_key FROM pay_keys WHERE pay_keys.app_id = apps.app_id
                            ORDER BY generation DESC LIMIT $2) AS "pay_keys!",
                      (SELECT max(generation) FROM pay_keys WHERE pay_keys.app_id = apps.app_id) AS pay_key_generation
               FROM apps WHERE app_id = $1"#,
            app_id.as_str(),
            RETIRED_PAY_KEYS
        );
        let row = match key_is {
            KeyIs::Known => row.fetch_optional(&self.public_pool).await?,
            KeyIs::New => row.fetch_optional(&mut *self.guest_pool.session().await?).await?,
        };
        let Some(row) = row else { return Ok(None) };
        let Json(app) = row.app;
        let app_secrets: Vec<_> = [row.app_secret].into_iter().chain(row.former_secret).collect();
        let app_secrets = self.open_secrets(app_id, &app_secrets).await?.into_iter().map(Secret::new);
        let mut pay_keys = self.open_secrets(app_id, &row.pay_keys).await?.into_iter().map(PayKey::new);
        let live_pay_keys = pay_keys.by_ref().take(LIVE_KEYS);
        let newest_pay_key = row.pay_key_generation.unwrap_or_default();
        Ok(Some(App {
            id: app_id.clone(),
            no: AppNo(row.app_no),
            suspended: app.is_suspended(),
            settings: app.columns.settings,
            limits: app.columns.limits,
            live_pay_keys: self.counted(app_id, KeyKind::PayKey, newest_pay_key, live_pay_keys),
            retired_pay_keys: pay_keys.collect(),
            app_secrets: self.counted(app_id, KeyKind::AppSecret, row.secret_generation, app_secrets),
            pages: row.pages.unwrap_or_default(),
        }))
    }

    /// Valid keys of an app, newest first, with the counts of their uses. Generations have no gap.
    fn counted<K>(
        &self,
        app_id: &AppId,
        kind: KeyKind,
        newest: i32,
        keys: impl Iterator<Item = K>,
    ) -> Vec<LiveKey<K>> {
        let uses = (0..).map(|age| self.key_uses.of(Some(app_id), kind, &(newest - age)));
        keys.zip(uses).map(|(key, uses)| LiveKey::new(key, uses)).collect()
    }

    /// Decrypts secrets of an app. When a key is missing, it reads the key file again: a
    /// rotation may have just added the key.
    pub(super) async fn open_secrets(&self, app_id: &AppId, sealed: &[Vec<u8>]) -> Result<Vec<String>> {
        let open = |keyring: &Keyring| -> Result<Vec<String>, WrongKey> {
            sealed.iter().map(|sealed| keyring.open(app_id, sealed)).collect()
        };
        let keyring = self.app_cache.keyring()?;
        if let Ok(opened) = open(&keyring) {
            return Ok(opened);
        }
        let newer = self.reread_keyring(&keyring).await?;
        open(&newer).map_err(|wrong| StoreError::Internal(wrong.to_string()))
    }
}
