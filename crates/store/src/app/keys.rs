//! New pay keys and app secrets in the place of those that an app has.

use domain::ids::AppId;
use domain::operator::Operator;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use sqlx::PgConnection;

use super::change::Change;
use crate::operator_log::{Action, Line, record_and_tell, told};
use crate::secrets::random_key_text;
use crate::{Store, StoreError};

/// What became of a rotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rotated {
    /// The new secret, shown once.
    To(String),
    /// Somebody was first with this very rotation; nothing was done.
    Already,
    /// There is no such app.
    UnknownApp,
}

impl Rotated {
    /// `made` is whether it was rotated, where there is an app.
    fn new(made: Option<bool>, secret: String) -> Self {
        match made {
            Some(true) => Self::To(secret),
            Some(false) => Self::Already,
            None => Self::UnknownApp,
        }
    }

    fn into_secret(self) -> Option<String> {
        match self {
            Self::To(secret) => Some(secret),
            Self::Already | Self::UnknownApp => None,
        }
    }
}

impl Store {
    /// Makes a new pay key. The one before it stays valid, older ones are retired. `None` when
    /// there is no such app.
    ///
    /// # Errors
    /// The database is away.
    pub async fn rotate_pay_key(
        &self,
        operator: &Operator,
        app_id: &AppId,
    ) -> Result<Option<String>, StoreError> {
        Ok(self.rotate_pay_key_after(operator, app_id, None).await?.into_secret())
    }

    /// The same, but only while `newest` is the newest generation: whoever asks twice for one rotation, as
    /// a page that is loaded again does, does not retire a key that is still in use.
    ///
    /// # Errors
    /// The database is away.
    pub async fn rotate_pay_key_after(
        &self,
        operator: &Operator,
        app_id: &AppId,
        newest: Option<i32>,
    ) -> Result<Rotated, StoreError> {
        let pay_key = random_key_text();
        let change = Change::new(operator, app_id, (self.clone(), pay_key.clone(), newest));
        // The app's row is locked, so that two rotations at once make two generations.
        let made = self.change_app_to(change, |connection, change, _| {
            Box::pin(async move {
                let (store, pay_key, newest) = &change.to;
                let key = store.encrypting_key(connection).await?;
                let sealed = key.seal(&change.app_id, pay_key);
                let generation = next_generation(connection, &change.app_id).await?;
                if newest.is_some_and(|newest| newest != generation - 1) {
                    return Ok(false);
                }
                insert_pay_key(connection, &change.app_id, generation, &sealed).await?;
                let line = Line {
                    before: Some(json!({ "generation": generation - 1 })),
                    after: Some(json!({ "generation": generation })),
                    ..change.line(Action::AppRotatePayKey)
                };
                record_and_tell(connection, line, told([("pay_key", pay_key.as_str().into())])).await?;
                Ok(true)
            })
        });
        Ok(Rotated::new(made.await?, pay_key))
    }

    /// Makes a new app secret; the old one ends at once. `None` when there is no such app.
    ///
    /// # Errors
    /// The database is away.
    pub async fn rotate_secret(
        &self,
        operator: &Operator,
        app_id: &AppId,
    ) -> Result<Option<String>, StoreError> {
        Ok(self.rotate_secret_after(operator, app_id, None).await?.into_secret())
    }

    /// The same, but only while the app secret is the one with the mark `present`
    /// ([`AppDetail::secret_mark`](super::AppDetail)).
    ///
    /// # Errors
    /// The database is away.
    pub async fn rotate_secret_after(
        &self,
        operator: &Operator,
        app_id: &AppId,
        present: Option<&str>,
    ) -> Result<Rotated, StoreError> {
        let app_secret = random_key_text();
        let present = present.map(str::to_owned);
        let change = Change::new(operator, app_id, (self.clone(), app_secret.clone(), present));
        let made = self.change_app_to(change, |connection, change, _| {
            Box::pin(async move {
                let (store, app_secret, present) = &change.to;
                let key = store.encrypting_key(connection).await?;
                let former = sqlx::query_scalar!(
                    "SELECT app_secret FROM apps WHERE app_id = $1",
                    change.app_id.as_str()
                );
                let former = secret_mark(&former.fetch_one(&mut *connection).await?);
                if present.as_ref().is_some_and(|present| *present != former) {
                    return Ok(false);
                }
                sqlx::query!(
                    "UPDATE apps SET app_secret = $2 WHERE app_id = $1",
                    change.app_id.as_str(),
                    key.seal(&change.app_id, app_secret)
                )
                .execute(&mut *connection)
                .await?;
                let told = told([("app_secret", app_secret.as_str().into())]);
                record_and_tell(connection, change.line(Action::AppRotateSecret), told).await?;
                Ok(true)
            })
        });
        Ok(Rotated::new(made.await?, app_secret))
    }
}

/// Tells one app secret from the next, as it is encrypted, without telling anything of it.
pub(super) fn secret_mark(sealed: &[u8]) -> String {
    hex::encode(&Sha256::digest(sealed)[..8])
}

/// The generation of the next pay key of an app, whose row must be locked.
async fn next_generation(connection: &mut PgConnection, app_id: &AppId) -> Result<i32, StoreError> {
    Ok(sqlx::query_scalar!(
        r#"SELECT coalesce(max(generation), 0) + 1 AS "next!" FROM pay_keys WHERE app_id = $1"#,
        app_id.as_str()
    )
    .fetch_one(connection)
    .await?)
}

/// Writes a pay key of an app.
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
