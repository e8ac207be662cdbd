//! Access tokens (contract 6): only their hash is stored.

use std::time::Duration;

use super::{Store, StoreError};
use crate::domain::ids::AppId;
use crate::secrets::{random_token, token_hash};

/// How long an expired token is remembered, so that its owner is told that it expired.
const EXPIRED_TOKENS_KEPT_DAYS: i32 = 7;

impl Store {
    /// Issues a token that lives for `lifetime` and gives it with its end in Unix milliseconds;
    /// `None` when there is no such app.
    ///
    /// # Errors
    /// The database is away.
    pub async fn issue_token(
        &self,
        app_id: &AppId,
        lifetime: Duration,
    ) -> Result<Option<(String, i64)>, StoreError> {
        let token = random_token();
        let lifetime_millis = i64::try_from(lifetime.as_millis()).unwrap_or(i64::MAX);
        let expires_at = self.clock.unix_millis().saturating_add(lifetime_millis);
        let hash = token_hash(&token);
        let issued = sqlx::query!(
            "INSERT INTO access_tokens (app_id, token_hash, expires_at)
             SELECT app_id, $2, to_timestamp($3::bigint / 1000.0) FROM apps WHERE app_id = $1",
            app_id.as_str(),
            hash.as_slice(),
            expires_at
        )
        .execute(&self.pool)
        .await?;
        Ok((issued.rows_affected() == 1).then_some((token, expires_at)))
    }

    /// Forgets tokens that expired a week ago.
    ///
    /// # Errors
    /// The database is away.
    pub async fn forget_expired_tokens(&self) -> Result<u64, StoreError> {
        let gone = sqlx::query!(
            "DELETE FROM access_tokens WHERE expires_at < now() - make_interval(days => $1)",
            EXPIRED_TOKENS_KEPT_DAYS
        )
        .execute(&self.pool)
        .await?;
        Ok(gone.rows_affected())
    }
}
