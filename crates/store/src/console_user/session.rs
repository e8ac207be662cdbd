//! Sign-in and sessions of the console. All times are the database's, so that all instances agree.

use domain::console_user::{ConsoleUserName, Role};
use sqlx::PgConnection;

use crate::secrets::PasswordHash;
use crate::{Result, Store, StoreError};

/// After this many failed attempts in a row the name is locked.
const FAILED_ATTEMPTS_MAX: i32 = 10;
/// How long a name is locked.
const LOCKED_SECONDS: f64 = 15.0 * 60.0;
/// A session ends this long after its start.
pub(super) const LIFETIME_SECONDS: f64 = 12.0 * 3600.0;
/// A session ends this long after its last use.
pub(super) const IDLE_SECONDS_MAX: f64 = 30.0 * 60.0;
/// The use of a session is written at most once in this time.
const USE_NOTED_EVERY_SECONDS: f64 = 60.0;

/// A sign-in attempt whose password is to be verified.
#[derive(Debug, Clone)]
pub struct SignInAttempt {
    /// Hash of the right password.
    pub password: PasswordHash,
    /// True when the name is locked unless this attempt succeeds.
    pub is_last: bool,
}

impl Store {
    /// Counts a sign-in attempt before its password is verified. So attempts at the same time get
    /// ten tries together. `None` when there is no such user, or the name is locked.
    pub async fn attempt_sign_in(&self, name: &ConsoleUserName) -> Result<Option<SignInAttempt>> {
        let row = sqlx::query!(
            "UPDATE console_users SET
                 failed_attempts = CASE WHEN locked_until IS NULL THEN failed_attempts + 1 ELSE 1 END,
                 locked_until = CASE WHEN locked_until IS NULL AND failed_attempts + 1 >= $2
                     THEN now() + make_interval(secs => $3) END
             WHERE name = $1 AND coalesce(locked_until <= now(), true) RETURNING password, failed_attempts",
            name.as_str(),
            FAILED_ATTEMPTS_MAX,
            LOCKED_SECONDS
        )
        .fetch_optional(&self.pool)
        .await?;
        Ok(row.map(|row| SignInAttempt {
            password: PasswordHash::kept(row.password),
            is_last: row.failed_attempts >= FAILED_ATTEMPTS_MAX,
        }))
    }

    /// Starts a session after the password was verified. The token is given by its hash. `false`
    /// when the user was removed or got another password meanwhile.
    pub async fn begin_console_session(
        &self,
        name: &ConsoleUserName,
        password: &PasswordHash,
        token_hash: [u8; 32],
    ) -> Result<bool> {
        let begun = sqlx::query!(
            "WITH known AS (
                 UPDATE console_users SET failed_attempts = 0, locked_until = NULL
                 WHERE name = $1 AND password = $2 RETURNING name)
             INSERT INTO console_sessions (token_sha256, name) SELECT $3, name FROM known",
            name.as_str(),
            password.as_str(),
            token_hash.as_slice()
        );
        Ok(begun.execute(&self.pool).await?.rows_affected() == 1)
    }

    /// User and role of a session. The token is given by its hash. `None` when there is no such
    /// session, or it has ended. It records the use of the session.
    pub async fn console_session(&self, token_hash: [u8; 32]) -> Result<Option<(ConsoleUserName, Role)>> {
        let row = sqlx::query!(
            r#"SELECT s.name, u.role, s.used_at < now() - make_interval(secs => $4) AS "is_due!"
               FROM console_sessions AS s JOIN console_users AS u ON u.name = s.name
               WHERE s.token_sha256 = $1 AND s.created_at > now() - make_interval(secs => $2)
                 AND s.used_at > now() - make_interval(secs => $3)"#,
            token_hash.as_slice(),
            LIFETIME_SECONDS,
            IDLE_SECONDS_MAX,
            USE_NOTED_EVERY_SECONDS
        );
        let Some(row) = row.fetch_optional(&self.pool).await? else { return Ok(None) };
        if row.is_due {
            sqlx::query!(
                "UPDATE console_sessions SET used_at = now() WHERE token_sha256 = $1",
                token_hash.as_slice()
            )
            .execute(&self.pool)
            .await?;
        }
        let name =
            ConsoleUserName::parse(&row.name).map_err(|_| StoreError::damaged("console_users.name"))?;
        let role = Role::parse(&row.role).map_err(|_| StoreError::damaged("console_users.role"))?;
        Ok(Some((name, role)))
    }

    /// Ends the session with this token hash.
    pub async fn end_console_session(&self, token_hash: [u8; 32]) -> Result<()> {
        sqlx::query!("DELETE FROM console_sessions WHERE token_sha256 = $1", token_hash.as_slice())
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// Deletes sessions that have expired.
    pub async fn forget_ended_console_sessions(&self) -> Result<u64> {
        let gone = sqlx::query!(
            "DELETE FROM console_sessions WHERE created_at <= now() - make_interval(secs => $1)
                OR used_at <= now() - make_interval(secs => $2)",
            LIFETIME_SECONDS,
            IDLE_SECONDS_MAX
        );
        Ok(gone.execute(&self.pool).await?.rows_affected())
    }
}

/// Ends every session of a user. The user's row must be locked.
pub(super) async fn end_all(connection: &mut PgConnection, name: &ConsoleUserName) -> Result<()> {
    sqlx::query!("DELETE FROM console_sessions WHERE name = $1", name.as_str()).execute(connection).await?;
    Ok(())
}
