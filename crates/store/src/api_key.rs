//! API keys of the admin API (contract 8.7). Only the hash of a key is stored.

use domain::ids::ApiKeyName;
use domain::key_uses::KeyKind;
use domain::operator::Operator;
use domain::rights::Rights;
use serde::Serialize;
use time::OffsetDateTime;

use super::console_user::{rights_shown, stored_rights_shown};
use super::operator_log::{Action, LogLine};
use crate::secrets::{random_api_key, token_hash};
use crate::{Result, Store, StoreError};

/// The API key of a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// Its name.
    pub name: ApiKeyName,
    /// What it may do.
    pub rights: Rights,
    /// True when an operator has revoked it.
    pub is_revoked: bool,
}

/// An API key for operators.
#[derive(Debug, Clone, Serialize)]
pub struct ApiKeySummary {
    /// Its name.
    pub name: String,
    /// `viewer`, `support`, `finance`, `developer` or `admin`.
    pub role: String,
    /// The apps that it sees, by their ids. Empty: all apps.
    pub apps: Vec<String>,
    /// Database time.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// When it was last used, to the minute.
    #[serde(with = "time::serde::rfc3339::option")]
    pub last_used_at: Option<OffsetDateTime>,
    /// How often it was used in the last 24 hours, to the hour, on all instances.
    pub uses_last_day: i64,
    /// Time of the revocation.
    #[serde(with = "time::serde::rfc3339::option")]
    pub revoked_at: Option<OffsetDateTime>,
}

/// The result of a revocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RevokeOutcome {
    /// Every instance refuses the key from now on.
    Revoked,
    /// The key was revoked before.
    WasRevoked,
    /// There is no key with this name.
    Unknown,
}

impl Store {
    /// Makes a key and returns its text, which cannot be shown again. `None` when the name is used
    /// already, also by a revoked key.
    pub async fn create_api_key(
        &self,
        operator: &Operator,
        name: &ApiKeyName,
        rights: impl Into<Rights>,
    ) -> Result<Option<String>> {
        let key = random_api_key();
        let context = (operator.clone(), name.clone(), rights.into(), token_hash(&key));
        let made = self.transaction(context, move |connection, (operator, name, rights, hash)| {
            Box::pin(async move {
                let made = sqlx::query!(
                    "INSERT INTO api_keys (name, role, apps, key_sha256) VALUES ($1, $2, $3, $4)
                     ON CONFLICT DO NOTHING",
                    name.as_str(),
                    rights.role.as_str(),
                    rights.apps.listed(),
                    hash.as_slice()
                );
                if made.execute(&mut *connection).await?.rows_affected() == 0 {
                    return Ok(false);
                }
                let line = LogLine::new(operator, Action::ApiKeyCreate, name.as_str());
                line.after(rights_shown(rights)).record(connection).await?;
                Ok::<_, StoreError>(true)
            })
        });
        Ok(made.await?.then_some(key))
    }

    /// Revokes a key. Keys are not cached, so every instance refuses it at once.
    pub async fn revoke_api_key(&self, operator: &Operator, name: &ApiKeyName) -> Result<RevokeOutcome> {
        self.transaction((operator.clone(), name.clone()), move |connection, (operator, name)| {
            Box::pin(async move {
                let revoked = sqlx::query!(
                    "UPDATE api_keys SET revoked_at = now() WHERE name = $1 AND revoked_at IS NULL
                     RETURNING role, apps",
                    name.as_str()
                );
                let Some(revoked) = revoked.fetch_optional(&mut *connection).await? else {
                    let known = sqlx::query_scalar!("SELECT 1 FROM api_keys WHERE name = $1", name.as_str());
                    let known = known.fetch_optional(connection).await?;
                    return Ok(known.map_or(RevokeOutcome::Unknown, |_| RevokeOutcome::WasRevoked));
                };
                let line = LogLine::new(operator, Action::ApiKeyRevoke, name.as_str());
                line.before(stored_rights_shown(&revoked.role, &revoked.apps)).record(connection).await?;
                Ok(RevokeOutcome::Revoked)
            })
        })
        .await
    }

    /// All keys by name, revoked ones included.
    pub async fn api_keys(&self) -> Result<Vec<ApiKeySummary>> {
        Ok(sqlx::query_as!(
            ApiKeySummary,
            r#"SELECT name, role, apps, created_at, revoked_at, last_used_at AS "last_used_at?",
                      coalesce(uses, 0) AS "uses_last_day!"
               FROM api_keys LEFT JOIN LATERAL (
                   SELECT max(last_used_at) AS last_used_at,
                          (sum(uses) FILTER (WHERE hour > now() - interval '24 hours'))::bigint AS uses
                   FROM key_uses WHERE app_id = '' AND kind = 'api_key' AND key = name) AS used ON true
               ORDER BY name"#
        )
        .fetch_all(&self.pool)
        .await?)
    }

    /// The key with this hash. `None` when there is none. It counts the use of a valid one.
    pub async fn api_key(&self, hash: &[u8; 32]) -> Result<Option<ApiKey>> {
        let row = sqlx::query!(
            r#"SELECT name, role, apps, revoked_at IS NOT NULL AS "is_revoked!" FROM api_keys WHERE key_sha256 = $1"#,
            hash.as_slice()
        );
        let Some(row) = row.fetch_optional(&self.pool).await? else { return Ok(None) };
        if !row.is_revoked {
            self.key_uses.of(None, KeyKind::ApiKey, &row.name).add(1);
        }
        Ok(Some(ApiKey {
            name: ApiKeyName::parse(&row.name).map_err(|_| StoreError::damaged("api_keys.name"))?,
            rights: Rights::stored(&row.role, &row.apps).map_err(|_| StoreError::damaged("api_keys.role"))?,
            is_revoked: row.is_revoked,
        }))
    }
}
