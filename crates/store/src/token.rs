//! Access tokens (contract 6): only their hash is stored.

use std::sync::Arc;
use std::time::Duration;

use domain::ids::AppId;
use domain::moment::rfc3339_of_millis;
use domain::operator::Operator;
use serde_json::json;
use sqlx::PgExecutor;

use super::operator_log::{Action, Line, record_and_tell, told};
use super::{Store, StoreError};
use crate::secrets::{random_token, token_hash};

/// How long an expired token is remembered, so that its owner is told that it expired.
const EXPIRED_TOKENS_KEPT_DAYS: i32 = 7;

impl Store {
    /// Issues a token to an app that has shown its secret. It lives for `lifetime`, and is given with
    /// its end in Unix milliseconds; `None` when there is no such app. What an operator asks for goes
    /// through [`Store::hand_out_token`].
    ///
    /// # Errors
    /// The database is away.
    pub async fn issue_token(
        &self,
        app_id: &AppId,
        lifetime: Duration,
    ) -> Result<Option<(String, i64)>, StoreError> {
        let (token, expires_at) = self.fresh_token(lifetime);
        let issued = insert_token(&self.pool, app_id, &token_hash(&token), expires_at).await?;
        Ok(issued.then_some((token, expires_at)))
    }

    /// Issues a token at an operator's wish, else as [`Store::issue_token`].
    ///
    /// # Errors
    /// The database is away.
    pub async fn hand_out_token(
        &self,
        operator: &Operator,
        app_id: &AppId,
        lifetime: Duration,
    ) -> Result<Option<(String, i64)>, StoreError> {
        let (token, expires_at) = self.fresh_token(lifetime);
        let change = Arc::new((operator.clone(), app_id.clone(), token.clone()));
        let lifetime = humantime::format_duration(lifetime).to_string();
        let issued: Result<bool, StoreError> = self
            .transaction(move |connection| {
                let (change, lifetime) = (Arc::clone(&change), lifetime.clone());
                Box::pin(async move {
                    let (operator, app_id, token) = &*change;
                    let hash = token_hash(token);
                    if !insert_token(&mut *connection, app_id, &hash, expires_at).await? {
                        return Ok(false);
                    }
                    let line = Line {
                        operator,
                        action: Action::TokenIssue,
                        app_id: Some(app_id),
                        subject: &fingerprint(&hash),
                        before: None,
                        after: Some(json!({ "lifetime": lifetime })),
                        note: "",
                    };
                    let told = told([
                        ("access_token", token.as_str().into()),
                        ("expires_at", rfc3339_of_millis(expires_at).into()),
                    ]);
                    record_and_tell(connection, line, told).await?;
                    Ok(true)
                })
            })
            .await;
        Ok(issued?.then_some((token, expires_at)))
    }

    /// Ends a token of an app, given by its hash, or all of them; other instances know within the
    /// two seconds that look-ups are remembered. Gives how many there were.
    ///
    /// # Errors
    /// The database is away.
    pub async fn revoke_tokens(
        &self,
        operator: &Operator,
        app_id: &AppId,
        only: Option<[u8; 32]>,
    ) -> Result<u64, StoreError> {
        let change = Arc::new((operator.clone(), app_id.clone(), only));
        self.transaction(move |connection| {
            let change = Arc::clone(&change);
            Box::pin(async move {
                let (operator, app_id, only) = &*change;
                let gone = sqlx::query!(
                    "DELETE FROM access_tokens WHERE app_id = $1 AND ($2::bytea IS NULL OR token_hash = $2)",
                    app_id.as_str(),
                    only.as_ref().map(<[u8; 32]>::as_slice)
                )
                .execute(&mut *connection)
                .await?
                .rows_affected();
                if gone > 0 {
                    let line = Line {
                        operator,
                        action: Action::TokenRevoke,
                        app_id: Some(app_id),
                        subject: &only.as_ref().map_or_else(|| app_id.to_string(), fingerprint),
                        before: None,
                        after: Some(json!({ "revoked": gone })),
                        note: "",
                    };
                    record_and_tell(connection, line, told([("revoked", gone.into())])).await?;
                }
                Ok(gone)
            })
        })
        .await
    }

    fn fresh_token(&self, lifetime: Duration) -> (String, i64) {
        let lifetime_millis = i64::try_from(lifetime.as_millis()).unwrap_or(i64::MAX);
        (random_token(), self.clock.unix_millis().saturating_add(lifetime_millis))
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

/// Stores a token's hash; `false` when there is no such app.
async fn insert_token(
    executor: impl PgExecutor<'_>,
    app_id: &AppId,
    hash: &[u8; 32],
    expires_at: i64,
) -> Result<bool, StoreError> {
    let issued = sqlx::query!(
        "INSERT INTO access_tokens (app_id, token_hash, expires_at)
         SELECT app_id, $2, to_timestamp($3::bigint / 1000.0) FROM apps WHERE app_id = $1",
        app_id.as_str(),
        hash.as_slice(),
        expires_at
    )
    .execute(executor)
    .await?;
    Ok(issued.rows_affected() == 1)
}

/// How the operator's log names a token: the first 16 digits of its hash, from which nobody can
/// make the token.
fn fingerprint(hash: &[u8; 32]) -> String {
    hex::encode(&hash[..8])
}
