//! Access tokens (contract 6). Only the hash of a token is stored.

use std::time::Duration;

use domain::ids::AppId;
use domain::moment::rfc3339_of_millis;
use domain::operator::Operator;
use serde_json::json;
use sqlx::PgExecutor;

use super::operator_log::{Action, LogLine, answer, record_with_answer};
use super::{Store, StoreError};
use crate::secrets::{random_token, token_hash};

/// How long an expired token is stored. Until then its owner gets the code for an expired token.
const EXPIRED_TOKENS_KEPT_DAYS: i32 = 7;

impl Store {
    /// Issues a token to an app that has sent its secret. Returns the token and its end in Unix
    /// milliseconds; `None` when there is no such app. For operators see [`Store::hand_out_token`].
    pub async fn issue_token(
        &self,
        app_id: &AppId,
        lifetime: Duration,
    ) -> Result<Option<(String, i64)>, StoreError> {
        let (token, expires_at) = self.fresh_token(lifetime);
        let issued = insert_token(&self.pool, app_id, &token_hash(&token), expires_at).await?;
        Ok(issued.then_some((token, expires_at)))
    }

    /// Issues a token for an operator, and writes a line in the operator's log.
    pub async fn hand_out_token(
        &self,
        operator: &Operator,
        app_id: &AppId,
        lifetime: Duration,
    ) -> Result<Option<(String, i64)>, StoreError> {
        let (token, expires_at) = self.fresh_token(lifetime);
        let lifetime = humantime::format_duration(lifetime).to_string();
        let context = (operator.clone(), app_id.clone(), token.clone(), lifetime);
        let issued = self
            .transaction(context, move |connection, (operator, app_id, token, lifetime)| {
                Box::pin(async move {
                    let hash = token_hash(token);
                    if !insert_token(&mut *connection, app_id, &hash, expires_at).await? {
                        return Ok(false);
                    }
                    let subject = fingerprint(&hash);
                    let line = LogLine {
                        app_id: Some(app_id),
                        after: Some(json!({ "lifetime": lifetime })),
                        ..LogLine::new(operator, Action::TokenIssue, &subject)
                    };
                    let answer = answer([
                        ("app_id", app_id.as_str().into()),
                        ("access_token", token.as_str().into()),
                        ("expires_at", rfc3339_of_millis(expires_at).into()),
                    ]);
                    record_with_answer(connection, line, answer).await?;
                    Ok(true)
                })
            })
            .await;
        issued.map(|issued: bool| issued.then_some((token, expires_at)))
    }

    /// Ends one token of an app, given by its hash, or all. Other instances follow within two seconds
    /// (contract 9.9.2). Returns the number of tokens.
    pub async fn revoke_tokens(
        &self,
        operator: &Operator,
        app_id: &AppId,
        only: Option<[u8; 32]>,
    ) -> Result<u64, StoreError> {
        let context = (operator.clone(), app_id.clone(), only);
        self.transaction(context, move |connection, (operator, app_id, only)| {
            Box::pin(async move {
                let gone = sqlx::query!(
                    "DELETE FROM access_tokens WHERE app_id = $1 AND ($2::bytea IS NULL OR token_hash = $2)",
                    app_id.as_str(),
                    only.as_ref().map(<[u8; 32]>::as_slice)
                )
                .execute(&mut *connection)
                .await?
                .rows_affected();
                if gone > 0 {
                    let subject = only.as_ref().map_or_else(|| app_id.to_string(), fingerprint);
                    let line = LogLine {
                        app_id: Some(app_id),
                        after: Some(json!({ "revoked": gone })),
                        ..LogLine::new(operator, Action::TokenRevoke, &subject)
                    };
                    let answer = answer([("app_id", app_id.as_str().into()), ("revoked", gone.into())]);
                    record_with_answer(connection, line, answer).await?;
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

    /// Deletes tokens that expired a week ago.
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

/// Stores the hash of a token. `false` when there is no such app.
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

/// The name of a token in the operator's log: the first 16 digits of its hash.
fn fingerprint(hash: &[u8; 32]) -> String {
    hex::encode(&hash[..8])
}
