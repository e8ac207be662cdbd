//! The second factor of a user: the secret of time-based codes (RFC 6238), encrypted as pay keys are, and
//! the recovery codes. Each code works once, on all instances together.

use std::cmp::Ordering;

use domain::console_user::ConsoleUserName;
use domain::operation::user::NewSecondFactor;
use sqlx::PgConnection;

use crate::error::{Result, StoreError};
use crate::store::Store;

/// After this many wrong codes of an authenticator only a recovery code counts. Whoever tries codes has the password.
pub(super) const WRONG_CODES_MAX: i32 = 20;

/// The codes that count at an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeAttempt {
    /// A code of the authenticator, and a recovery code.
    Counts,
    /// The same. If it is wrong, a recovery code alone counts from now on.
    IsLast,
    /// A recovery code alone.
    RecoveryAlone,
}

impl Store {
    /// The secret of a user's second factor, in base32. `None` for a user without.
    pub async fn second_factor(&self, name: &ConsoleUserName) -> Result<Option<String>> {
        let sealed =
            sqlx::query_scalar!("SELECT totp_secret FROM console_users WHERE name = $1", name.as_str());
        let Some(sealed) = sealed.fetch_optional(&self.pool).await?.flatten() else { return Ok(None) };
        let known = self.app_cache.keyring()?;
        let secret = match known.open_of_user(name, &sealed) {
            Ok(secret) => Ok(secret),
            Err(_) => self.reread_keyring(&known).await?.open_of_user(name, &sealed),
        };
        secret
            .map(Some)
            .map_err(|wrong| StoreError::Internal(format!("the second factor of {name}: {wrong}")))
    }

    /// Counts a code of a user before it is verified, so codes at the same time count together. Whether the code of an
    /// authenticator may count.
    pub async fn attempt_code(&self, name: &ConsoleUserName) -> Result<CodeAttempt> {
        let counted = sqlx::query_scalar!(
            "UPDATE console_users SET wrong_codes = least(wrong_codes, $2) + 1 WHERE name = $1 RETURNING wrong_codes",
            name.as_str(),
            WRONG_CODES_MAX
        );
        let counted = counted.fetch_optional(&self.pool).await?.unwrap_or_default();
        Ok(match counted.cmp(&WRONG_CODES_MAX) {
            Ordering::Less => CodeAttempt::Counts,
            Ordering::Equal => CodeAttempt::IsLast,
            Ordering::Greater => CodeAttempt::RecoveryAlone,
        })
    }

    /// Forgets the wrong codes of a user after a right one.
    pub async fn forget_wrong_codes(&self, name: &ConsoleUserName) -> Result<()> {
        sqlx::query!("UPDATE console_users SET wrong_codes = 0 WHERE name = $1", name.as_str())
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// Uses up the code of a step. `false` when a code of this step or a later one was used before.
    pub async fn use_second_factor_step(&self, name: &ConsoleUserName, step: u64) -> Result<bool> {
        let used = sqlx::query!(
            "UPDATE console_users SET totp_step = $2 WHERE name = $1 AND totp_step < $2",
            name.as_str(),
            i64::try_from(step).unwrap_or(i64::MAX)
        );
        Ok(used.execute(&self.pool).await?.rows_affected() == 1)
    }

    /// Uses up a recovery code. `false` when there is no such code, or no longer.
    pub async fn use_recovery_code(&self, name: &ConsoleUserName, hash: [u8; 32]) -> Result<bool> {
        let used = sqlx::query!(
            "DELETE FROM console_recovery_codes WHERE name = $1 AND code_sha256 = $2",
            name.as_str(),
            hash.as_slice()
        );
        Ok(used.execute(&self.pool).await?.rows_affected() == 1)
    }
}

/// Sets the second factor of a user who has none. The user's row must be locked.
pub(super) async fn set(
    store: &Store,
    connection: &mut PgConnection,
    name: &ConsoleUserName,
    new: &NewSecondFactor,
) -> Result<()> {
    let key = store.encrypting_key(connection).await?;
    sqlx::query!(
        "UPDATE console_users SET totp_secret = $2, totp_step = $3, wrong_codes = 0 WHERE name = $1",
        name.as_str(),
        key.seal_of_user(name, new.secret.expose()),
        i64::try_from(new.step).unwrap_or(i64::MAX)
    )
    .execute(&mut *connection)
    .await?;
    let codes: Vec<Vec<u8>> = new.recovery_codes.iter().map(|code| code.to_vec()).collect();
    sqlx::query!(
        "INSERT INTO console_recovery_codes (name, code_sha256) SELECT $1, unnest($2::bytea[])",
        name.as_str(),
        &codes
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Forgets the second factor of a user. The user's row must be locked.
pub(super) async fn forget(connection: &mut PgConnection, name: &ConsoleUserName) -> Result<()> {
    sqlx::query!(
        "UPDATE console_users SET totp_secret = NULL, totp_step = 0, wrong_codes = 0 WHERE name = $1",
        name.as_str()
    )
    .execute(&mut *connection)
    .await?;
    sqlx::query!("DELETE FROM console_recovery_codes WHERE name = $1", name.as_str())
        .execute(connection)
        .await?;
    Ok(())
}
