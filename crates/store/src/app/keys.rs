//! Rotation of an app's pay keys and app secrets, and what operators see of them (contract 8.2.2 and 8.2.3).

use domain::app::LIVE_KEYS;
use domain::ids::AppId;
use domain::operation::app::{AppReport, NewAppSecret, NewPayKey, keys_changed};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use sqlx::PgConnection;
use time::OffsetDateTime;

use super::command::AppUpdate;
use crate::error::{OperationError, Result};
use crate::operator_log::OperatorAction;
use crate::secrets::random_key_text;
use crate::store::Store;

/// How many pay keys are shown, the newest first.
const PAY_KEYS_MAX: i64 = 20;

/// A pay key or an app secret, without the key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AppKey {
    /// `pay_key` or `app_secret`.
    #[schemars(extend("enum" = ["pay_key", "app_secret"]))]
    pub kind: String,
    /// 1 for the first of its kind. Each rotation adds one.
    pub generation: i32,
    /// False when a rotation has retired it.
    pub valid: bool,
    /// When it was made.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub created_at: OffsetDateTime,
    /// When it last proved who calls, to the minute. Null before the first time.
    #[serde(with = "time::serde::rfc3339::option")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub last_used_at: Option<OffsetDateTime>,
    /// How often it did in the last 24 hours, to the hour, on all instances.
    pub uses_last_day: i64,
}

impl Store {
    /// The pay keys of an app, the newest 20, then its valid app secrets. Newest first.
    pub async fn app_keys(&self, app_id: &AppId) -> Result<Vec<AppKey>> {
        Ok(sqlx::query_as!(
            AppKey,
            r#"SELECT kind AS "kind!", generation AS "generation!", valid AS "valid!", created_at AS "created_at!",
                      last_used_at, coalesce(uses, 0) AS "uses_last_day!"
               FROM (
                   (SELECT 'pay_key' AS kind, generation, row_number() OVER (ORDER BY generation DESC) <= $2 AS valid,
                           created_at FROM pay_keys WHERE app_id = $1 ORDER BY generation DESC LIMIT $3)
                   UNION ALL
                   SELECT 'app_secret', secret_generation, true, secret_created_at FROM apps WHERE app_id = $1
                   UNION ALL
                   SELECT 'app_secret', secret_generation - 1, true, former_secret_created_at
                   FROM apps WHERE app_id = $1 AND former_secret IS NOT NULL
               ) AS made
               LEFT JOIN LATERAL (
                   SELECT max(last_used_at) AS last_used_at,
                          (sum(uses) FILTER (WHERE hour > now() - interval '24 hours'))::bigint AS uses
                   FROM key_uses
                   WHERE app_id = $1 AND key_uses.kind = made.kind AND key = generation::text) AS used ON true
               ORDER BY kind DESC, generation DESC"#,
            app_id.as_str(),
            i64::try_from(LIVE_KEYS).unwrap_or(i64::MAX),
            PAY_KEYS_MAX
        )
        .fetch_all(&self.pool)
        .await?)
    }
}

impl AppUpdate {
    /// Makes a new pay key. With `newest`, only if that is still the newest generation. So a page that is
    /// loaded twice does not retire a key that is in use.
    pub(super) async fn rotate_pay_key(
        &self,
        connection: &mut PgConnection,
        newest: Option<i32>,
    ) -> Result<AppReport, OperationError> {
        self.lock(connection).await?;
        let pay_key = random_key_text();
        let sealed = self.store.encrypting_key(connection).await?.seal(&self.app_id, &pay_key);
        let generation = insert_pay_key(connection, &self.app_id, &sealed).await?;
        let report = AppReport::PayKey(NewPayKey { app_id: self.app_id.clone(), pay_key });
        self.rotated(connection, OperatorAction::AppRotatePayKey, (newest, generation), report).await
    }

    /// Makes a new app secret, as [`Self::rotate_pay_key`] makes a key.
    pub(super) async fn rotate_secret(
        &self,
        connection: &mut PgConnection,
        newest: Option<i32>,
    ) -> Result<AppReport, OperationError> {
        self.lock(connection).await?;
        let app_secret = random_key_text();
        let sealed = self.store.encrypting_key(connection).await?.seal(&self.app_id, &app_secret);
        let generation = sqlx::query_scalar!(
            "UPDATE apps SET former_secret = app_secret, former_secret_created_at = secret_created_at,
                 app_secret = $2, secret_created_at = now(), secret_generation = secret_generation + 1
             WHERE app_id = $1 RETURNING secret_generation",
            self.app_id.as_str(),
            sealed
        )
        .fetch_one(&mut *connection)
        .await?;
        let report = AppReport::AppSecret(NewAppSecret { app_id: self.app_id.clone(), app_secret });
        self.rotated(connection, OperatorAction::AppRotateSecret, (newest, generation), report).await
    }

    /// Logs a rotation, or refuses it when another one came before.
    async fn rotated(
        &self,
        connection: &mut PgConnection,
        action: OperatorAction,
        (seen, generation): (Option<i32>, i32),
        report: AppReport,
    ) -> Result<AppReport, OperationError> {
        if seen.is_some_and(|seen| seen != generation - 1) {
            return Err(keys_changed(&self.app_id).into());
        }
        let line = self.line(action).before(json!({ "generation": generation - 1 }));
        line.after(json!({ "generation": generation })).answer(&report).record(connection).await?;
        Ok(report)
    }
}

/// Inserts the next pay key of an app, and returns its generation.
pub(super) async fn insert_pay_key(
    connection: &mut PgConnection,
    app_id: &AppId,
    sealed: &[u8],
) -> Result<i32> {
    Ok(sqlx::query_scalar!(
        "INSERT INTO pay_keys (app_id, generation, pay_key)
         SELECT $1, coalesce(max(generation), 0) + 1, $2 FROM pay_keys WHERE app_id = $1 RETURNING generation",
        app_id.as_str(),
        sealed
    )
    .fetch_one(connection)
    .await?)
}
