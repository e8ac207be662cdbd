//! The master keys and the database: which one encrypts, whether those at hand fit, and rotation.
//!
//! `master_key_check` says which keys the database uses. Row 1 is the key that encrypts: whoever
//! encrypts reads it in the same transaction. Rows above 1 are former keys that some secrets may
//! still be under while a rotation is under way. A process that lacks one of them does not start.

use std::sync::Arc;

use serde_json::json;
use sqlx::PgConnection;

use super::operator_log::{Action, Line, record};
use super::{Store, StoreError};
use crate::domain::ids::AppId;
use crate::domain::operator::Operator;
use crate::secrets::{Keyring, MasterKey};

/// Apps whose secrets are encrypted anew in one transaction.
const APPS_AT_ONCE: i64 = 64;

/// The master key does not fit, in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MasterKeyRefused {
    /// Another key encrypted what is in the database.
    #[error("the master key does not fit this database: its apps were encrypted with another one")]
    DoesNotFit,
    /// Some secrets are still under a key that is not at hand.
    #[error(
        "a rotation of the master key is not finished: the former key is needed beside the new one \
         until `minitill master-key rotate` has ended"
    )]
    FormerKeyMissing,
    /// The store could not be asked.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Which keys a database uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MasterKeyState {
    /// Id of the key that encrypts.
    pub encrypts: String,
    /// Whether a rotation was begun and has not ended.
    pub unfinished: bool,
}

impl Store {
    /// Whether any app exists: its secrets could not be read with a new master key.
    ///
    /// # Errors
    /// The database is away.
    pub async fn has_apps(&self) -> Result<bool, StoreError> {
        Ok(sqlx::query_scalar!(r#"SELECT EXISTS (SELECT 1 FROM apps) AS "there!""#)
            .fetch_one(&self.pool)
            .await?)
    }

    /// Takes the keys into use: checks them against the database, or leaves the mark of the first
    /// one where no app exists yet (contract 9).
    ///
    /// # Errors
    /// The keys do not fit, or the database is away.
    pub async fn unlock(&self, keyring: &Keyring) -> Result<(), MasterKeyRefused> {
        let value = keyring.first().check_value();
        sqlx::query!("INSERT INTO master_key_check (id, value) VALUES (1, $1) ON CONFLICT DO NOTHING", value)
            .execute(&self.pool)
            .await
            .map_err(StoreError::from)?;
        let stored = sqlx::query_scalar!("SELECT value FROM master_key_check ORDER BY id")
            .fetch_all(&self.pool)
            .await
            .map_err(StoreError::from)?;
        let fits = |value: &Vec<u8>| keyring.fitting(value).is_some();
        if !stored.iter().all(fits) {
            if self.has_apps().await? {
                let current_fits = stored.first().is_some_and(fits);
                return Err(if current_fits {
                    MasterKeyRefused::FormerKeyMissing
                } else {
                    MasterKeyRefused::DoesNotFit
                });
            }
            self.replace_checks(value).await?;
        }
        self.directory.set_keyring(keyring.clone());
        Ok(())
    }

    async fn replace_checks(&self, value: Vec<u8>) -> Result<(), StoreError> {
        self.transaction(move |connection| {
            let value = value.clone();
            Box::pin(async move {
                sqlx::query!("DELETE FROM master_key_check WHERE id > 1").execute(&mut *connection).await?;
                sqlx::query!("UPDATE master_key_check SET value = $1 WHERE id = 1", value)
                    .execute(connection)
                    .await?;
                Ok(())
            })
        })
        .await
    }

    /// The master keys at hand.
    ///
    /// # Errors
    /// The store was not unlocked.
    pub fn keyring(&self) -> Result<Arc<Keyring>, StoreError> {
        self.directory.keyring()
    }

    /// The key that encrypts. It stays that until the end of the transaction: a rotation waits.
    pub(super) async fn encrypting_key(
        &self,
        connection: &mut PgConnection,
    ) -> Result<MasterKey, StoreError> {
        let value = sqlx::query_scalar!("SELECT value FROM master_key_check WHERE id = 1 FOR SHARE")
            .fetch_one(connection)
            .await?;
        let keyring = self.directory.keyring()?;
        if let Some(key) = keyring.fitting(&value) {
            return Ok(key.clone());
        }
        let newer = self.reread_keyring(&keyring).await?;
        newer.fitting(&value).cloned().ok_or_else(|| {
            StoreError::Internal("the master key was rotated, and the new one is not at hand here".to_owned())
        })
    }

    /// The keys as the file holds them now: a rotation elsewhere may have added one.
    pub(super) async fn reread_keyring(&self, known: &Keyring) -> Result<Arc<Keyring>, StoreError> {
        let Some(path) = known.file().map(std::path::Path::to_owned) else {
            return self.directory.keyring();
        };
        let read = tokio::task::spawn_blocking(move || Keyring::read(&path)).await;
        match read {
            Ok(Ok(Some(keyring))) => {
                self.directory.set_keyring(keyring);
                self.directory.keyring()
            }
            Ok(Ok(None)) => Err(StoreError::Internal("the master key file is gone".to_owned())),
            Ok(Err(error)) => Err(StoreError::Internal(error.to_string())),
            Err(fault) => Err(StoreError::Internal(format!("reading the master key file: {fault}"))),
        }
    }

    /// Which keys the database uses.
    ///
    /// # Errors
    /// The database is away, or the key that encrypts is not at hand.
    pub async fn master_key_state(&self) -> Result<MasterKeyState, StoreError> {
        let stored = sqlx::query_scalar!("SELECT value FROM master_key_check ORDER BY id")
            .fetch_all(&self.pool)
            .await?;
        let keyring = self.directory.keyring()?;
        let current = stored.first().and_then(|value| keyring.fitting(value));
        let current = current.ok_or_else(|| StoreError::damaged("master_key_check"))?;
        Ok(MasterKeyState { encrypts: current.id().to_owned(), unfinished: stored.len() > 1 })
    }

    /// Makes the first key at hand the one that encrypts, and encrypts every secret anew with it.
    /// Interrupted anywhere, it is to be repeated; until then both keys are needed and all secrets
    /// can be read. Gives how many secrets were encrypted anew by this call.
    ///
    /// # Errors
    /// The database is away; a secret opens with no key at hand; another rotation came between.
    pub async fn rotate_master_key(&self, operator: &Operator) -> Result<u64, StoreError> {
        let to = self.directory.keyring()?.first().clone();
        self.begin_rotation(operator, &to).await?;
        let secrets = self.encrypt_all_anew(&to).await?;
        self.end_rotation(operator, &to, secrets).await?;
        Ok(secrets)
    }

    /// From here on everything new is encrypted with `to`, and who has not both keys does not start.
    async fn begin_rotation(&self, operator: &Operator, to: &MasterKey) -> Result<(), StoreError> {
        let keyring = self.directory.keyring()?;
        let change = Arc::new((operator.clone(), to.clone(), keyring));
        self.transaction(move |connection| {
            let change = Arc::clone(&change);
            Box::pin(async move {
                let (operator, to, keyring) = &*change;
                let current =
                    sqlx::query_scalar!("SELECT value FROM master_key_check WHERE id = 1 FOR UPDATE")
                        .fetch_one(&mut *connection)
                        .await?;
                if to.fits(&current) {
                    return Ok(());
                }
                let from = keyring.fitting(&current);
                let from = from.ok_or_else(|| StoreError::damaged("master_key_check"))?;
                sqlx::query!(
                    "INSERT INTO master_key_check (id, value) SELECT max(id) + 1, $1 FROM master_key_check",
                    current
                )
                .execute(&mut *connection)
                .await?;
                sqlx::query!("UPDATE master_key_check SET value = $1 WHERE id = 1", to.check_value())
                    .execute(&mut *connection)
                    .await?;
                let line = Line {
                    before: Some(json!({ "key": from.id() })),
                    after: Some(json!({ "key": to.id() })),
                    ..key_line(operator, Action::MasterKeyRotate, to)
                };
                record(connection, line).await
            })
        })
        .await
    }

    /// Encrypts what is under another key, a few apps in each transaction.
    async fn encrypt_all_anew(&self, to: &MasterKey) -> Result<u64, StoreError> {
        let (mut behind, mut secrets) = (String::new(), 0);
        loop {
            let (store, to, after) = (self.clone(), to.clone(), behind.clone());
            let step = self
                .transaction(move |connection| {
                    let (store, to, after) = (store.clone(), to.clone(), after.clone());
                    Box::pin(async move { store.encrypt_some_anew(connection, &to, &after).await })
                })
                .await?;
            secrets += step.secrets;
            match step.last_app {
                Some(last) => behind = last,
                None => return Ok(secrets),
            }
        }
    }

    async fn encrypt_some_anew(
        &self,
        connection: &mut PgConnection,
        to: &MasterKey,
        behind: &str,
    ) -> Result<Step, StoreError> {
        require_current(self.encrypting_key(connection).await?, to)?;
        let keyring = self.directory.keyring()?;
        // Locked, so that no key or secret of these apps is replaced meanwhile.
        let apps = sqlx::query!(
            "SELECT app_id, app_secret FROM apps WHERE app_id > $1 ORDER BY app_id LIMIT $2 FOR UPDATE",
            behind,
            APPS_AT_ONCE
        )
        .fetch_all(&mut *connection)
        .await?;
        let app_ids: Vec<String> = apps.iter().map(|app| app.app_id.clone()).collect();
        let mut secrets = 0;
        for app in apps {
            if let Some(sealed) = anew(&keyring, to, &app.app_id, &app.app_secret)? {
                sqlx::query!("UPDATE apps SET app_secret = $2 WHERE app_id = $1", app.app_id, sealed)
                    .execute(&mut *connection)
                    .await?;
                secrets += 1;
            }
        }
        let keys = sqlx::query!(
            "SELECT app_id, generation, pay_key FROM pay_keys WHERE app_id = ANY ($1)",
            &app_ids
        )
        .fetch_all(&mut *connection)
        .await?;
        for key in keys {
            if let Some(sealed) = anew(&keyring, to, &key.app_id, &key.pay_key)? {
                sqlx::query!(
                    "UPDATE pay_keys SET pay_key = $3 WHERE app_id = $1 AND generation = $2",
                    key.app_id,
                    key.generation,
                    sealed
                )
                .execute(&mut *connection)
                .await?;
                secrets += 1;
            }
        }
        Ok(Step { secrets, last_app: app_ids.last().cloned() })
    }

    /// Nothing is under a former key any more: from here on the new one is enough.
    async fn end_rotation(
        &self,
        operator: &Operator,
        to: &MasterKey,
        secrets: u64,
    ) -> Result<(), StoreError> {
        let (store, change) = (self.clone(), Arc::new((operator.clone(), to.clone())));
        self.transaction(move |connection| {
            let (store, change) = (store.clone(), Arc::clone(&change));
            Box::pin(async move {
                let (operator, to) = &*change;
                require_current(store.encrypting_key(connection).await?, to)?;
                let ended = sqlx::query!("DELETE FROM master_key_check WHERE id > 1")
                    .execute(&mut *connection)
                    .await?;
                if ended.rows_affected() == 0 && secrets == 0 {
                    return Ok(());
                }
                let after = Some(json!({ "secrets": secrets }));
                record(connection, Line { after, ..key_line(operator, Action::MasterKeyRotated, to) }).await
            })
        })
        .await
    }
}

/// What one transaction of a rotation has done.
struct Step {
    secrets: u64,
    /// `None` when there was no app any more.
    last_app: Option<String>,
}

fn require_current(current: MasterKey, to: &MasterKey) -> Result<(), StoreError> {
    if current.id() == to.id() {
        return Ok(());
    }
    let current = current.id();
    Err(StoreError::Internal(format!("another rotation, to the key {current}, came between")))
}

/// The secret encrypted with `to`; `None` when it is already.
fn anew(
    keyring: &Keyring,
    to: &MasterKey,
    app_id: &str,
    sealed: &[u8],
) -> Result<Option<Vec<u8>>, StoreError> {
    let app_id = AppId::parse(app_id).map_err(|_| StoreError::damaged("apps.app_id"))?;
    if to.open(&app_id, sealed).is_ok() {
        return Ok(None);
    }
    let secret = keyring.open(&app_id, sealed).map_err(|wrong| {
        StoreError::Internal(format!(
            "the app {app_id}: {wrong}; nothing is lost, the former keys stay needed"
        ))
    })?;
    Ok(Some(to.seal(&app_id, &secret)))
}

fn key_line<'a>(operator: &'a Operator, action: Action, key: &'a MasterKey) -> Line<'a> {
    Line { operator, action, app_id: None, subject: key.id(), before: None, after: None, note: "" }
}
