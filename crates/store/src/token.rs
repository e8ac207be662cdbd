//! Access tokens (contract 6.4). Only the hash of a token is stored.

use std::time::Duration;

use domain::ids::AppId;
use domain::moment::rfc3339_of_millis;
use domain::operation::app::{AppReport, IssuedToken, RevokedTokens, unknown_token};
use domain::operation::unknown_app;
use domain::secret::Secret;
use serde::Serialize;
use serde_json::json;
use sqlx::PgConnection;
use time::OffsetDateTime;

use crate::app::{AppUpdate, app_exists};
use crate::error::{OperationError, Result};
use crate::operator_log::OperatorAction;
use crate::paging::LISTED_MAX;
use crate::removal::remove_piece;
use crate::secrets::{random_token, token_hash};
use crate::store::Store;

/// How long an expired token is stored. Until then its owner gets the code for an expired token.
const EXPIRED_TOKENS_KEPT_DAYS: i32 = 7;

/// An access token without the token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct TokenSummary {
    /// The start of its hash, as in the operator's log.
    pub token: String,
    /// When it was issued.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub issued_at: OffsetDateTime,
    /// When it expires.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub expires_at: OffsetDateTime,
}

impl Store {
    /// Issues a token to an app that has sent its secret. Returns the token and its end in Unix
    /// milliseconds; `None` when there is no such app. For operators see [`Store::carry_out`].
    pub async fn issue_token(&self, app_id: &AppId, lifetime: Duration) -> Result<Option<(String, i64)>> {
        self.transaction((self.clone(), app_id.clone()), move |connection, (store, app_id)| {
            Box::pin(store.insert_token(connection, app_id, lifetime))
        })
        .await
    }

    /// Stores the hash of a new token, and removes the oldest live ones past the limit. `None` when
    /// there is no such app.
    async fn insert_token(
        &self,
        connection: &mut PgConnection,
        app_id: &AppId,
        lifetime: Duration,
    ) -> Result<Option<(String, i64)>> {
        // One token of an app after the other: the next statement sees those of before.
        let known =
            sqlx::query!("SELECT 1 AS one FROM apps WHERE app_id = $1 FOR NO KEY UPDATE", app_id.as_str());
        if known.fetch_optional(&mut *connection).await?.is_none() {
            return Ok(None);
        }
        let lifetime_millis = i64::try_from(lifetime.as_millis()).unwrap_or(i64::MAX);
        let expires_at = self.clock.unix_millis().saturating_add(lifetime_millis);
        let token = random_token();
        let hash = token_hash(&token);
        sqlx::query!(
            "WITH issued AS (
                 INSERT INTO access_tokens (app_id, token_hash, issued_at, expires_at)
                 VALUES ($1, $2, clock_timestamp(), to_timestamp($3::bigint / 1000.0))
             ), past AS (
                 SELECT token_hash FROM access_tokens WHERE app_id = $1 AND expires_at > now()
                 ORDER BY issued_at DESC, token_hash OFFSET $4
             )
             DELETE FROM access_tokens WHERE app_id = $1 AND token_hash IN (SELECT token_hash FROM past)",
            app_id.as_str(),
            hash.as_slice(),
            expires_at,
            i64::from(self.settings.tokens_per_app.get()) - 1
        )
        .execute(connection)
        .await?;
        Ok(Some((token, expires_at)))
    }

    /// Deletes a piece of the tokens that expired a week ago.
    pub async fn forget_expired_tokens(&self) -> Result<u64> {
        Ok(remove_piece!(
            self,
            "access_tokens",
            "expires_at < now() - make_interval(days => $2)",
            EXPIRED_TOKENS_KEPT_DAYS
        ))
    }

    /// The tokens of an app that have not expired, newest first, 1,000 at most.
    pub async fn tokens(&self, app_id: &AppId) -> Result<Vec<TokenSummary>> {
        let rows = sqlx::query!(
            "SELECT token_hash, issued_at, expires_at FROM access_tokens WHERE app_id = $1 AND expires_at > now()
             ORDER BY issued_at DESC, token_hash LIMIT $2",
            app_id.as_str(),
            LISTED_MAX
        );
        let tokens = rows.fetch_all(&self.pool).await?.into_iter().map(|row| TokenSummary {
            token: fingerprint(&row.token_hash),
            issued_at: row.issued_at,
            expires_at: row.expires_at,
        });
        Ok(tokens.collect())
    }
}

impl AppUpdate {
    /// Issues a token for an operator.
    pub(super) async fn issue_token(
        &self,
        connection: &mut PgConnection,
        lifetime: Duration,
    ) -> Result<AppReport, OperationError> {
        let issued = self.store.insert_token(&mut *connection, &self.app_id, lifetime).await?;
        let (access_token, expires_at) = issued.ok_or_else(|| unknown_app(&self.app_id))?;
        let subject = fingerprint(&token_hash(&access_token));
        let (app_id, expires_at) = (self.app_id.clone(), rfc3339_of_millis(expires_at));
        let report = AppReport::Token(IssuedToken { app_id, access_token, expires_at });
        let after = json!({ "lifetime": humantime::format_duration(lifetime).to_string() });
        self.line(OperatorAction::TokenIssue)
            .on(&subject)
            .after(after)
            .answer(&report)
            .record(connection)
            .await?;
        Ok(report)
    }

    /// Ends one token of the app, which may be given by its [`TokenSummary::token`], or all. Other instances follow within two seconds (contract 9.9.2).
    pub(super) async fn revoke_tokens(
        &self,
        connection: &mut PgConnection,
        only: Option<&Secret>,
    ) -> Result<AppReport, OperationError> {
        if !app_exists(&mut *connection, &self.app_id).await? {
            return Err(unknown_app(&self.app_id).into());
        }
        let only = only.map(|token| {
            fingerprinted(token.expose()).unwrap_or_else(|| token_hash(token.expose()).to_vec())
        });
        let revoked = sqlx::query!(
            "DELETE FROM access_tokens
             WHERE app_id = $1 AND ($2::bytea IS NULL OR substr(token_hash, 1, length($2)) = $2)",
            self.app_id.as_str(),
            only.as_deref()
        )
        .execute(&mut *connection)
        .await?
        .rows_affected();
        if only.is_some() && revoked == 0 {
            return Err(unknown_token(&self.app_id).into());
        }
        let report = AppReport::Revoked(RevokedTokens { app_id: self.app_id.clone(), revoked });
        if revoked > 0 {
            let subject = only.as_ref().map_or_else(|| self.app_id.to_string(), |hash| fingerprint(hash));
            let line =
                self.line(OperatorAction::TokenRevoke).on(&subject).after(json!({ "revoked": revoked }));
            line.answer(&report).record(connection).await?;
        }
        Ok(report)
    }
}

/// The name of a token in the operator's log: the first 16 digits of its hash.
fn fingerprint(hash: &[u8]) -> String {
    hex::encode(&hash[..8])
}

/// The start of a hash, if a text is such a name. A token is longer.
fn fingerprinted(text: &str) -> Option<Vec<u8>> {
    hex::decode(text).ok().filter(|bytes| bytes.len() == 8)
}
