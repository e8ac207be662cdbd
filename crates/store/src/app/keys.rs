//! Rotation of an app's pay keys and app secret.

use domain::ids::AppId;
use domain::operator::Operator;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use sqlx::PgConnection;

use super::update::AppUpdate;
use crate::operator_log::{Action, LogLine, answer, record_with_answer};
use crate::secrets::random_key_text;
use crate::{Store, StoreError};

/// The result of a rotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rotated {
    /// The new secret, shown once.
    To(String),
    /// The same rotation was done before. Nothing changed.
    Already,
    /// There is no such app.
    UnknownApp,
}

impl Rotated {
    /// `made` is `None` for an unknown app, and `false` when nothing changed.
    fn new(made: Option<bool>, secret: String) -> Self {
        match made {
            Some(true) => Self::To(secret),
            Some(false) => Self::Already,
            None => Self::UnknownApp,
        }
    }
}

impl Store {
    /// Makes a new pay key (contract 8.2.2). With `newest`, only if that is still the newest generation:
    /// so a page that is loaded twice does not retire a key that is in use.
    pub async fn rotate_pay_key(
        &self,
        operator: &Operator,
        app_id: &AppId,
        newest: Option<i32>,
    ) -> Result<Rotated, StoreError> {
        let pay_key = random_key_text();
        let update = AppUpdate::new(operator, app_id, (self.clone(), pay_key.clone(), newest));
        let made = self.update_app(update, |connection, update, _| {
            Box::pin(async move {
                let (store, pay_key, newest) = &update.to;
                let key = store.encrypting_key(connection).await?;
                let sealed = key.seal(&update.app_id, pay_key);
                let generation = next_generation(connection, &update.app_id).await?;
                if newest.is_some_and(|newest| newest != generation - 1) {
                    return Ok(false);
                }
                insert_pay_key(connection, &update.app_id, generation, &sealed).await?;
                let line = LogLine {
                    before: Some(json!({ "generation": generation - 1 })),
                    after: Some(json!({ "generation": generation })),
                    ..update.line(Action::AppRotatePayKey)
                };
                record_with_answer(
                    connection,
                    line,
                    answer([("app_id", update.app_id.as_str().into()), ("pay_key", pay_key.as_str().into())]),
                )
                .await?;
                Ok(true)
            })
        });
        Ok(Rotated::new(made.await?, pay_key))
    }

    /// Makes a new app secret (contract 8.2.3). With `present`, only if the app secret still has this
    /// fingerprint ([`AppDetail::secret_fingerprint`](super::AppDetail)).
    pub async fn rotate_secret(
        &self,
        operator: &Operator,
        app_id: &AppId,
        present: Option<&str>,
    ) -> Result<Rotated, StoreError> {
        let app_secret = random_key_text();
        let present = present.map(str::to_owned);
        let update = AppUpdate::new(operator, app_id, (self.clone(), app_secret.clone(), present));
        let made = self.update_app(update, |connection, update, _| {
            Box::pin(async move {
                let (store, app_secret, present) = &update.to;
                let key = store.encrypting_key(connection).await?;
                let former = sqlx::query_scalar!(
                    "SELECT app_secret FROM apps WHERE app_id = $1",
                    update.app_id.as_str()
                );
                let former = secret_fingerprint(&former.fetch_one(&mut *connection).await?);
                if present.as_ref().is_some_and(|present| *present != former) {
                    return Ok(false);
                }
                sqlx::query!(
                    "UPDATE apps SET app_secret = $2 WHERE app_id = $1",
                    update.app_id.as_str(),
                    key.seal(&update.app_id, app_secret)
                )
                .execute(&mut *connection)
                .await?;
                let answer = answer([
                    ("app_id", update.app_id.as_str().into()),
                    ("app_secret", app_secret.as_str().into()),
                ]);
                record_with_answer(connection, update.line(Action::AppRotateSecret), answer).await?;
                Ok(true)
            })
        });
        Ok(Rotated::new(made.await?, app_secret))
    }
}

/// A fingerprint of an app secret, from its encrypted form.
pub(super) fn secret_fingerprint(sealed: &[u8]) -> String {
    hex::encode(&Sha256::digest(sealed)[..8])
}

/// The generation of the next pay key. The app's row must be locked.
async fn next_generation(connection: &mut PgConnection, app_id: &AppId) -> Result<i32, StoreError> {
    Ok(sqlx::query_scalar!(
        r#"SELECT coalesce(max(generation), 0) + 1 AS "next!" FROM pay_keys WHERE app_id = $1"#,
        app_id.as_str()
    )
    .fetch_one(connection)
    .await?)
}

/// Inserts a pay key of an app.
pub(super) async fn insert_pay_key(
    connection: &mut PgConnection,
    app_id: &AppId,
    generation: i32,
    sealed: &[u8],
) -> Result<(), StoreError> {
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
