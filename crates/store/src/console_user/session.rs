//! Sign-in and sessions of the console. All times are the database's, so that all instances agree.

use std::net::IpAddr;
use std::time::Duration;

use domain::console_user::{ConsoleUserName, PasswordHash};
use domain::rights::Rights;
use sqlx::PgConnection;
use time::OffsetDateTime;

use crate::error::{Result, StoreError};
use crate::store::Store;

/// After this many failed attempts in a row an address has to wait with that name.
const FAILED_ATTEMPTS_MAX: i32 = 10;
/// How long an address has to wait.
const LOCKED_SECONDS: f64 = 15.0 * 60.0;
/// How long an attempt counts.
const ATTEMPTS_KEPT_SECONDS: f64 = 24.0 * 3600.0;
/// A session ends this long after its start.
pub(super) const LIFETIME_SECONDS: f64 = 12.0 * 3600.0;
/// A session ends this long after its last use.
pub(super) const IDLE_SECONDS_MAX: f64 = 30.0 * 60.0;
/// Hexadecimal digits of the hash of a session's token by which people name the session.
const ID_DIGITS: i32 = 16;
/// The use of a session is written at most once in this time.
const USE_NOTED_EVERY_SECONDS: f64 = 60.0;

/// A sign-in attempt whose password is to be verified.
#[derive(Debug, Clone)]
pub struct SignInAttempt {
    /// Hash of the right password.
    pub password: PasswordHash,
    /// True when the address has to wait unless this attempt succeeds.
    pub is_last: bool,
}

/// An open session.
#[derive(Debug, Clone)]
pub struct ConsoleSession {
    /// The start of its token's hash.
    pub id: String,
    /// Address of the browser at the sign-in.
    pub address: String,
    /// When the user signed in.
    pub created_at: OffsetDateTime,
    /// When it was last used, to the minute.
    pub used_at: OffsetDateTime,
}

impl ConsoleSession {
    /// The id of the session with this token hash.
    #[must_use]
    pub fn id_of(token_hash: &[u8; 32]) -> String {
        hex::encode(&token_hash[..ID_DIGITS as usize / 2])
    }
}

/// The user of a session.
#[derive(Debug, Clone)]
pub struct SessionUser {
    /// The name.
    pub name: ConsoleUserName,
    /// What the user may do.
    pub rights: Rights,
    /// Whether a sign-in needs a code too.
    pub has_second_factor: bool,
    /// Whether the user has a password, and no OpenID Connect provider signs the user in.
    pub has_password: bool,
    /// Time since the user last typed the password, or proved to the provider who they are.
    pub proved: Duration,
    /// Number of changes that wait for a second person.
    pub requests: i64,
}

/// A session that begins.
#[derive(Debug, Clone, Copy)]
pub struct NewSession {
    /// Hash of its token.
    pub token_hash: [u8; 32],
    /// Address of the browser, as attempts are counted.
    pub client: IpAddr,
    /// The session that it takes the place of, by the hash of its token.
    pub instead_of: Option<[u8; 32]>,
}

impl Store {
    /// Counts an attempt of an address with a name before its password is verified. So attempts at the
    /// same time get ten tries together. `None` when there is no such user with a password, or the address has to
    /// wait.
    pub async fn attempt_sign_in(
        &self,
        name: &ConsoleUserName,
        client: IpAddr,
    ) -> Result<Option<SignInAttempt>> {
        let row = sqlx::query!(
            r#"INSERT INTO console_attempts AS known (name, address, failed_attempts)
               SELECT name, $2, 1 FROM console_users WHERE name = $1 AND oidc_issuer IS NULL
               ON CONFLICT (name, address) DO UPDATE SET
                   failed_attempts = CASE WHEN known.locked_until IS NULL THEN known.failed_attempts + 1 ELSE 1 END,
                   locked_until = CASE WHEN known.locked_until IS NULL AND known.failed_attempts + 1 >= $3
                       THEN now() + make_interval(secs => $4) END,
                   attempted_at = now()
               WHERE coalesce(known.locked_until <= now(), true)
               RETURNING failed_attempts, (SELECT password FROM console_users WHERE name = $1) AS "password!""#,
            name.as_str(),
            client.to_string(),
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

    /// Deletes the attempts of an address with a name, whose password was right.
    pub async fn forget_sign_in_attempts(&self, name: &ConsoleUserName, client: IpAddr) -> Result<()> {
        let gone = sqlx::query!(
            "DELETE FROM console_attempts WHERE name = $1 AND address = $2",
            name.as_str(),
            client.to_string()
        );
        gone.execute(&self.pool).await?;
        Ok(())
    }

    /// Deletes attempts of an address that has not tried for a day.
    pub async fn forget_old_console_attempts(&self) -> Result<u64> {
        let gone = sqlx::query!(
            "DELETE FROM console_attempts WHERE attempted_at <= now() - make_interval(secs => $1)",
            ATTEMPTS_KEPT_SECONDS
        );
        Ok(gone.execute(&self.pool).await?.rows_affected())
    }

    /// Starts a session after the password was verified. `false` when the user was removed or got another password
    /// meanwhile.
    pub async fn begin_console_session(
        &self,
        name: &ConsoleUserName,
        password: &PasswordHash,
        begun: NewSession,
    ) -> Result<bool> {
        // The lock waits for a change of the user under way, and then compares the password once more.
        let begun = sqlx::query!(
            "WITH known AS (SELECT name FROM console_users WHERE name = $1 AND password = $2 FOR SHARE),
                  ended AS (DELETE FROM console_sessions USING known WHERE token_sha256 = $5)
             INSERT INTO console_sessions (token_sha256, name, address) SELECT $3, name, $4 FROM known",
            name.as_str(),
            password.as_str(),
            begun.token_hash.as_slice(),
            begun.client.to_string(),
            begun.instead_of.as_ref().map(<[u8; 32]>::as_slice)
        );
        Ok(begun.execute(&self.pool).await?.rows_affected() == 1)
    }

    /// The user of a session. The token is given by its hash. `None` when there is no such session, or
    /// it has ended. With `is_use` it records the use of the session.
    pub async fn console_session(&self, token_hash: [u8; 32], is_use: bool) -> Result<Option<SessionUser>> {
        let row = sqlx::query!(
            r#"SELECT s.name, u.role, u.apps, extract(epoch FROM now() - s.proved_at)::float8 AS "proved!", u.totp_secret IS NOT NULL AS "has_second_factor!",
                      u.oidc_issuer IS NULL AS "has_password!", s.used_at < now() - make_interval(secs => $4) AS "is_due!",
                      (SELECT count(*) FROM console_requests r WHERE r.state = 'waiting' AND r.asked_at > now() - interval '7 days'
                          AND (u.apps = '{}' OR r.app_id = ANY (u.apps))) AS "requests!"
               FROM console_sessions AS s JOIN console_users AS u ON u.name = s.name
               WHERE s.token_sha256 = $1 AND s.created_at > now() - make_interval(secs => $2)
                 AND s.used_at > now() - make_interval(secs => $3)"#,
            token_hash.as_slice(),
            LIFETIME_SECONDS,
            IDLE_SECONDS_MAX,
            USE_NOTED_EVERY_SECONDS
        );
        let Some(row) = row.fetch_optional(&self.pool).await? else { return Ok(None) };
        if is_use && row.is_due {
            sqlx::query!(
                "UPDATE console_sessions SET used_at = now() WHERE token_sha256 = $1",
                token_hash.as_slice()
            )
            .execute(&self.pool)
            .await?;
        }
        let name =
            ConsoleUserName::parse(&row.name).map_err(|_| StoreError::damaged("console_users.name"))?;
        let rights = Rights::stored(&row.role, &row.apps);
        let rights = rights.map_err(|_| StoreError::damaged("console_users.role"))?;
        let proved = Duration::try_from_secs_f64(row.proved).unwrap_or_default();
        let (has_second_factor, has_password) = (row.has_second_factor, row.has_password);
        let requests = row.requests;
        Ok(Some(SessionUser { name, rights, has_second_factor, has_password, proved, requests }))
    }

    /// Ends the session with this token hash.
    pub async fn end_console_session(&self, token_hash: [u8; 32]) -> Result<()> {
        sqlx::query!("DELETE FROM console_sessions WHERE token_sha256 = $1", token_hash.as_slice())
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// The open sessions of a user, newest first.
    pub async fn console_sessions(&self, name: &ConsoleUserName) -> Result<Vec<ConsoleSession>> {
        Ok(sqlx::query_as!(
            ConsoleSession,
            r#"SELECT left(encode(token_sha256, 'hex'), $4) AS "id!", address, created_at, used_at
               FROM console_sessions WHERE name = $1 AND created_at > now() - make_interval(secs => $2)
                   AND used_at > now() - make_interval(secs => $3)
               ORDER BY created_at DESC LIMIT 1000"#,
            name.as_str(),
            LIFETIME_SECONDS,
            IDLE_SECONDS_MAX,
            ID_DIGITS
        )
        .fetch_all(&self.pool)
        .await?)
    }

    /// Notes that the user of a session has typed the password again.
    pub async fn prove_console_session(&self, token_hash: [u8; 32]) -> Result<()> {
        sqlx::query!(
            "UPDATE console_sessions SET proved_at = now() WHERE token_sha256 = $1",
            token_hash.as_slice()
        )
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

/// Ends every session of a user but for the one with this token hash. The user's row must be locked.
pub(super) async fn end_all(
    connection: &mut PgConnection,
    name: &ConsoleUserName,
    but_for: Option<&[u8; 32]>,
) -> Result<()> {
    sqlx::query!(
        "DELETE FROM console_sessions WHERE name = $1 AND token_sha256 IS DISTINCT FROM $2",
        name.as_str(),
        but_for.map(<[u8; 32]>::as_slice)
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Ends the session of a user with this id. `false` when there is none.
pub(super) async fn end_one(connection: &mut PgConnection, name: &ConsoleUserName, id: &str) -> Result<bool> {
    let ended = sqlx::query!(
        "DELETE FROM console_sessions WHERE name = $1 AND left(encode(token_sha256, 'hex'), $2) = $3",
        name.as_str(),
        ID_DIGITS,
        id
    );
    Ok(ended.execute(connection).await?.rows_affected() > 0)
}

/// Forgets the attempts of all addresses with this name, and returns their number.
pub(super) async fn forget_attempts(connection: &mut PgConnection, name: &ConsoleUserName) -> Result<i64> {
    let gone = sqlx::query_scalar!(
        r#"WITH gone AS (DELETE FROM console_attempts WHERE name = $1 RETURNING failed_attempts)
           SELECT coalesce(sum(failed_attempts), 0) AS "failed!" FROM gone"#,
        name.as_str()
    );
    Ok(gone.fetch_one(connection).await?)
}
