//! Tells whether the master key at hand is the one this database was encrypted with.

use super::{Store, StoreError};
use crate::secrets::Keyring;

/// The master key does not fit, in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MasterKeyRefused {
    /// Another key encrypted what is in the database.
    #[error("the master key does not fit this database: its apps were encrypted with another one")]
    DoesNotFit,
    /// The store could not be asked.
    #[error(transparent)]
    Store(#[from] StoreError),
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

    /// Takes the key into use: checks it against the database, or leaves its mark where no app
    /// exists yet (contract 9).
    ///
    /// # Errors
    /// The key does not fit, or the database is away.
    pub async fn unlock(&self, keyring: &Keyring) -> Result<(), MasterKeyRefused> {
        let value = keyring.check_value();
        sqlx::query!("INSERT INTO master_key_check (id, value) VALUES (1, $1) ON CONFLICT DO NOTHING", value)
            .execute(&self.pool)
            .await
            .map_err(StoreError::from)?;
        let stored = sqlx::query_scalar!("SELECT value FROM master_key_check WHERE id = 1")
            .fetch_one(&self.pool)
            .await
            .map_err(StoreError::from)?;
        if !keyring.fits(&stored) {
            if self.has_apps().await? {
                return Err(MasterKeyRefused::DoesNotFit);
            }
            sqlx::query!("UPDATE master_key_check SET value = $1 WHERE id = 1", value)
                .execute(&self.pool)
                .await
                .map_err(StoreError::from)?;
        }
        self.directory.set_keyring(keyring.clone());
        Ok(())
    }
}
