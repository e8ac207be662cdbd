//! The master keys of a database: which key encrypts, whether the loaded keys fit, and rotation.
//!
//! The table `master_key_check` shows which keys the database uses. Row 1 is the key that encrypts.
//! Each transaction that encrypts reads that row. Higher rows are former keys that some secrets
//! still need during a rotation. A process that lacks one of these keys does not start.

mod rotation;

use std::sync::Arc;

use sqlx::PgConnection;

use crate::error::{Result, StoreError};
use crate::secrets::{Keyring, MasterKey};
use crate::store::Store;

/// The reason why a master key was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MasterKeyRefused {
    /// Another key encrypted what is in the database.
    #[error("the master key does not fit this database: its apps were encrypted with another one")]
    DoesNotFit,
    /// Some secrets need a former key that is not loaded.
    #[error(
        "a rotation of the master key is not finished: the former key is needed beside the new one \
         until `minitill master-key rotate` has ended"
    )]
    FormerKeyMissing,
    /// The store has failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The keys that a database uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MasterKeyState {
    /// Id of the key that encrypts.
    pub encrypts: String,
    /// True while a rotation is unfinished.
    pub unfinished: bool,
}

impl Store {
    /// True when an app exists. Its secrets could not be read with a new master key.
    pub async fn has_apps(&self) -> Result<bool> {
        Ok(sqlx::query_scalar!(r#"SELECT EXISTS (SELECT 1 FROM apps) AS "there!""#)
            .fetch_one(&self.pool)
            .await?)
    }

    /// Compares the keys with the database and loads them. A database without apps takes over the
    /// first key (contract 9.4.6). When they do not fit, it reads their file again: a rotation may have
    /// just added a key.
    pub async fn unlock(&self, keyring: &Keyring) -> Result<(), MasterKeyRefused> {
        match self.unlock_with(keyring).await {
            Err(refused @ (MasterKeyRefused::DoesNotFit | MasterKeyRefused::FormerKeyMissing)) => {
                match read_again(keyring).await? {
                    Some(newer) => self.unlock_with(&newer).await,
                    None => Err(refused),
                }
            }
            done => done,
        }
    }

    async fn unlock_with(&self, keyring: &Keyring) -> Result<(), MasterKeyRefused> {
        let value = keyring.first().check_value();
        let mut stored = self.stored_checks().await?;
        // It writes only then, because an audit needs no right to write (contract 9.4.7).
        if stored.is_empty() {
            sqlx::query!(
                "INSERT INTO master_key_check (id, value) VALUES (1, $1) ON CONFLICT DO NOTHING",
                value
            )
            .execute(&self.pool)
            .await
            .map_err(StoreError::from)?;
            stored = self.stored_checks().await?;
        }
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
        self.app_cache.set_keyring(keyring.clone());
        Ok(())
    }

    async fn stored_checks(&self) -> Result<Vec<Vec<u8>>> {
        let stored = sqlx::query_scalar!("SELECT value FROM master_key_check ORDER BY id");
        Ok(stored.fetch_all(&self.pool).await?)
    }

    async fn replace_checks(&self, value: Vec<u8>) -> Result<()> {
        sqlx::query!(
            "WITH gone AS (DELETE FROM master_key_check WHERE id > 1)
             UPDATE master_key_check SET value = $1 WHERE id = 1",
            value
        )
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// The loaded master keys.
    ///
    /// # Errors
    /// No keys were loaded.
    pub fn keyring(&self) -> Result<Arc<Keyring>> {
        self.app_cache.keyring()
    }

    /// The key that encrypts. A rotation waits until the transaction ends.
    pub(super) async fn encrypting_key(&self, connection: &mut PgConnection) -> Result<MasterKey> {
        let value = sqlx::query_scalar!("SELECT value FROM master_key_check WHERE id = 1 FOR SHARE")
            .fetch_one(connection)
            .await?;
        let keyring = self.app_cache.keyring()?;
        if let Some(key) = keyring.fitting(&value) {
            return Ok(key.clone());
        }
        let newer = self.reread_keyring(&keyring).await?;
        newer.fitting(&value).cloned().ok_or_else(|| {
            StoreError::Internal("the master key was rotated, and the new one is not at hand here".to_owned())
        })
    }

    /// Reads the key file again. A rotation elsewhere may have added a key.
    pub(super) async fn reread_keyring(&self, known: &Keyring) -> Result<Arc<Keyring>> {
        if let Some(newer) = read_again(known).await? {
            self.app_cache.set_keyring(newer);
        }
        self.app_cache.keyring()
    }

    /// The keys that the database uses.
    ///
    /// # Errors
    /// The key that encrypts is not loaded.
    pub async fn master_key_state(&self) -> Result<MasterKeyState> {
        let (stored, keyring) = (self.stored_checks().await?, self.app_cache.keyring()?);
        let current = stored.first().and_then(|value| keyring.fitting(value));
        let current = current.ok_or_else(|| StoreError::damaged("master_key_check"))?;
        Ok(MasterKeyState { encrypts: current.id().to_owned(), unfinished: stored.len() > 1 })
    }
}

/// The keys that the file of these keys holds now. `None` for keys of the setting, which have no file.
async fn read_again(known: &Keyring) -> Result<Option<Keyring>> {
    let Some(path) = known.file().map(std::path::Path::to_owned) else { return Ok(None) };
    match tokio::task::spawn_blocking(move || Keyring::read(&path)).await {
        Ok(Ok(Some(keyring))) => Ok(Some(keyring)),
        Ok(Ok(None)) => Err(StoreError::Internal("the master key file is gone".to_owned())),
        Ok(Err(error)) => Err(StoreError::Internal(error.to_string())),
        Err(fault) => Err(StoreError::Internal(format!("reading the master key file: {fault}"))),
    }
}
