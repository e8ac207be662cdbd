//! API keys of the admin API (contract 8.7). Only the hash of a key is stored.

use domain::console_user::Role;
use domain::ids::ApiKeyName;
use domain::key_uses::KeyKind;
use domain::operation::account::account_needs_second_person;
use domain::operation::key::{
    ApiKeyCommand, ApiKeyReport, NewApiKey, already_revoked, key_taken, unknown_key,
};
use domain::operator::Operator;
use domain::rights::Rights;
use domain::secret::Secret;
use serde::Serialize;
use sqlx::PgConnection;
use time::OffsetDateTime;

use crate::console_user::{rights_shown, stored_rights_shown};
use crate::error::{OperationError, Result, StoreError};
use crate::key_lease::{ApiKey, KeyLeases};
use crate::operator_log::{LogLine, OperatorAction};
use crate::secrets::{random_api_key, token_hash};
use crate::store::Store;

/// An API key for operators.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct ApiKeySummary {
    /// Its name.
    pub name: String,
    /// What it may do.
    #[schemars(with = "Role")]
    pub role: String,
    /// The apps that it sees, by their ids. Empty: all apps.
    pub apps: Vec<String>,
    /// How many coins it moves in 24 hours without a second person. `null`: it shares the limit of its maker.
    pub second_person_above: Option<i64>,
    /// Database time.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub created_at: OffsetDateTime,
    /// When it was last used, to the minute.
    #[serde(with = "time::serde::rfc3339::option")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub last_used_at: Option<OffsetDateTime>,
    /// How often it was used in the last 24 hours, to the hour, on all instances.
    pub uses_last_day: i64,
    /// Time of the revocation.
    #[serde(with = "time::serde::rfc3339::option")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub revoked_at: Option<OffsetDateTime>,
}

impl Store {
    /// Makes or revokes a key for an operator. When a revocation is answered, every instance refuses the key.
    ///
    /// # Errors
    /// The command does not fit the keys that are there, or the database is away.
    pub async fn change_api_keys(
        &self,
        operator: &Operator,
        command: ApiKeyCommand,
    ) -> Result<ApiKeyReport, OperationError> {
        let is_revocation = matches!(command, ApiKeyCommand::Revoke(_));
        let changed = self.transaction((operator.clone(), command), |connection, (operator, command)| {
            Box::pin(async move {
                match command {
                    ApiKeyCommand::Create(key) => create(connection, operator, key).await,
                    ApiKeyCommand::Revoke(name) => revoke(connection, operator, name).await,
                }
            })
        });
        let changed = changed.await;
        if is_revocation {
            // Also of one that was revoked: perhaps a moment ago, by somebody who still waits.
            KeyLeases::have_ended().await;
        }
        changed
    }

    /// All keys by name, revoked ones included.
    pub async fn api_keys(&self) -> Result<Vec<ApiKeySummary>> {
        Ok(sqlx::query_as!(
            ApiKeySummary,
            r#"SELECT name, role, apps, second_person_above, created_at, revoked_at, last_used_at AS "last_used_at?",
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

    /// The key with this hash. `None` when there is none. It counts the use of a valid one. Requests that need the same key
    /// share one look-up, so a crowd with one key waits for no crowd of sessions. Its answer counts for 200 ms.
    pub async fn api_key(&self, hash: &[u8; 32]) -> Result<Option<ApiKey>> {
        let look_up = || {
            let (store, hash) = (self.clone(), *hash);
            async move { store.look_up(store.load_api_key(&hash)).await }
        };
        let found = self.key_leases.get_or(hash, self.look_up_within(), look_up).await?;
        let Some(key) = found else { return Ok(None) };
        if !key.is_revoked {
            self.key_uses.of(None, KeyKind::ApiKey, &key.name).add(1);
        }
        Ok(Some(key))
    }

    async fn load_api_key(&self, hash: &[u8; 32]) -> Result<Option<ApiKey>> {
        let row = sqlx::query!(
            r#"SELECT name, role, apps, second_person_above, revoked_at IS NOT NULL AS "is_revoked!" FROM api_keys
               WHERE key_sha256 = $1"#,
            hash.as_slice()
        );
        let Some(row) = row.fetch_optional(&self.pool).await? else { return Ok(None) };
        let name = ApiKeyName::parse(&row.name).map_err(|_| StoreError::damaged("api_keys.name"))?;
        let rights =
            Rights::stored(&row.role, &row.apps).map_err(|_| StoreError::damaged("api_keys.role"))?;
        Ok(Some(ApiKey { name, rights, alone_max: row.second_person_above, is_revoked: row.is_revoked }))
    }
}

async fn create(
    connection: &mut PgConnection,
    operator: &Operator,
    new: &NewApiKey,
) -> Result<ApiKeyReport, OperationError> {
    if operator.alone_max().is_some() && new.is_made_by_two_people() {
        return Err(account_needs_second_person().into());
    }
    let key = random_api_key();
    insert_key(connection, operator, new, &token_hash(&key)).await?;
    Ok(ApiKeyReport { api_key: Some(Secret::new(key)) })
}

/// Makes the key with this hash.
pub(crate) async fn insert_key(
    connection: &mut PgConnection,
    operator: &Operator,
    NewApiKey { name, rights, alone_max }: &NewApiKey,
    hash: &[u8; 32],
) -> Result<(), OperationError> {
    let made = sqlx::query!(
        "INSERT INTO api_keys (name, role, apps, key_sha256, second_person_above) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT DO NOTHING",
        name.as_str(),
        rights.role.as_str(),
        rights.apps.listed(),
        hash.as_slice(),
        *alone_max
    );
    if made.execute(&mut *connection).await?.rows_affected() == 0 {
        return Err(key_taken(name).into());
    }
    let mut after = rights_shown(rights);
    if let Some(max) = alone_max {
        after["second_person_above"] = (*max).into();
    }
    let line = LogLine::new(operator, OperatorAction::ApiKeyCreate, name.as_str());
    Ok(line.after(after).record(connection).await?)
}

async fn revoke(
    connection: &mut PgConnection,
    operator: &Operator,
    name: &ApiKeyName,
) -> Result<ApiKeyReport, OperationError> {
    let revoked = sqlx::query!(
        "UPDATE api_keys SET revoked_at = now() WHERE name = $1 AND revoked_at IS NULL
         RETURNING role, apps",
        name.as_str()
    );
    let Some(revoked) = revoked.fetch_optional(&mut *connection).await? else {
        let known = sqlx::query_scalar!("SELECT 1 FROM api_keys WHERE name = $1", name.as_str());
        let known = known.fetch_optional(connection).await?;
        return Err(known.map_or_else(|| unknown_key(name), |_| already_revoked(name)).into());
    };
    let line = LogLine::new(operator, OperatorAction::ApiKeyRevoke, name.as_str());
    line.before(stored_rights_shown(&revoked.role, &revoked.apps)).record(connection).await?;
    Ok(ApiKeyReport { api_key: None })
}
