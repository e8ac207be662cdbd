//! Rotation of an app's pay keys and app secret.

use domain::app_command::{AppRefusal, AppReport, NewAppSecret, NewPayKey};
use domain::ids::AppId;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use sqlx::PgConnection;

use super::command::{AppUpdate, CommandError};
use crate::Result;
use crate::operator_log::Action;
use crate::secrets::random_key_text;

impl AppUpdate {
    /// Makes a new pay key (contract 8.2.2). With `newest`, only if that is still the newest generation:
    /// so a page that is loaded twice does not retire a key that is in use.
    pub(super) async fn rotate_pay_key(
        &self,
        connection: &mut PgConnection,
        newest: Option<i32>,
    ) -> Result<AppReport, CommandError> {
        self.lock(connection).await?;
        let pay_key = random_key_text();
        let sealed = self.store.encrypting_key(connection).await?.seal(&self.app_id, &pay_key);
        let generation = sqlx::query_scalar!(
            r#"SELECT coalesce(max(generation), 0) + 1 AS "next!" FROM pay_keys WHERE app_id = $1"#,
            self.app_id.as_str()
        )
        .fetch_one(&mut *connection)
        .await?;
        if newest.is_some_and(|newest| newest != generation - 1) {
            return Err(self.refused(AppRefusal::KeysChanged));
        }
        insert_pay_key(connection, &self.app_id, generation, &sealed).await?;
        let report = AppReport::PayKey(NewPayKey { app_id: self.app_id.clone(), pay_key });
        let line = self.line(Action::AppRotatePayKey).before(json!({ "generation": generation - 1 }));
        line.after(json!({ "generation": generation })).answer(&report).record(connection).await?;
        Ok(report)
    }

    /// Makes a new app secret (contract 8.2.3). With `present`, only if the app secret still has this
    /// fingerprint ([`AppDetail::secret_fingerprint`](super::AppDetail)).
    pub(super) async fn rotate_secret(
        &self,
        connection: &mut PgConnection,
        present: Option<&str>,
    ) -> Result<AppReport, CommandError> {
        self.lock(connection).await?;
        let app_secret = random_key_text();
        let sealed = self.store.encrypting_key(connection).await?.seal(&self.app_id, &app_secret);
        let former =
            sqlx::query_scalar!("SELECT app_secret FROM apps WHERE app_id = $1", self.app_id.as_str())
                .fetch_one(&mut *connection)
                .await?;
        if present.is_some_and(|present| *present != secret_fingerprint(&former)) {
            return Err(self.refused(AppRefusal::KeysChanged));
        }
        sqlx::query!("UPDATE apps SET app_secret = $2 WHERE app_id = $1", self.app_id.as_str(), sealed)
            .execute(&mut *connection)
            .await?;
        let report = AppReport::AppSecret(NewAppSecret { app_id: self.app_id.clone(), app_secret });
        self.line(Action::AppRotateSecret).answer(&report).record(connection).await?;
        Ok(report)
    }
}

/// A fingerprint of an app secret, from its encrypted form.
pub(super) fn secret_fingerprint(sealed: &[u8]) -> String {
    hex::encode(&Sha256::digest(sealed)[..8])
}

/// Inserts a pay key of an app.
pub(super) async fn insert_pay_key(
    connection: &mut PgConnection,
    app_id: &AppId,
    generation: i32,
    sealed: &[u8],
) -> Result<()> {
    sqlx::query!(
        "INSERT INTO pay_keys (app_id, generation, pay_key) VALUES ($1, $2, $3)",
        app_id.as_str(),
        generation,
        sealed
    )
    .execute(connection)
    .await?;
    Ok(())
}
