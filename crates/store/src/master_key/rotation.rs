//! Replacing the master key: everything is encrypted anew under another one, while servers go on.

use std::sync::Arc;

use domain::ids::AppId;
use domain::operator::Operator;
use serde_json::json;
use sqlx::PgConnection;

use crate::operator_log::{Action, Line, record};
use crate::secrets::{Keyring, MasterKey};
use crate::{Store, StoreError};

/// Apps whose secrets are encrypted anew in one transaction.
const APPS_AT_ONCE: i64 = 64;

impl Store {
    /// Makes the first key at hand the one that encrypts, and encrypts every secret anew with it.
    /// Interrupted anywhere, it is to be repeated; until then both keys are needed and all secrets
    /// can be read. Gives how many secrets were encrypted anew by this call.
    ///
    /// # Errors
    /// The database is away; a secret opens with no key at hand; another rotation came between.
    pub async fn rotate_master_key(&self, operator: &Operator) -> Result<u64, StoreError> {
        let to = self.directory.keyring()?.first().clone();
        self.begin_rotation(operator, &to).await?;
        let secrets = self.encrypt_all_anew(&to).await?;
        self.end_rotation(operator, &to, secrets).await?;
        Ok(secrets)
    }

    /// From here on everything new is encrypted with `to`, and who has not both keys does not start.
    async fn begin_rotation(&self, operator: &Operator, to: &MasterKey) -> Result<(), StoreError> {
        let keyring = self.directory.keyring()?;
        let change = Arc::new((operator.clone(), to.clone(), keyring));
        self.transaction(move |connection| {
            let change = Arc::clone(&change);
            Box::pin(async move {
                let (operator, to, keyring) = &*change;
                let current =
                    sqlx::query_scalar!("SELECT value FROM master_key_check WHERE id = 1 FOR UPDATE")
                        .fetch_one(&mut *connection)
                        .await?;
                if to.fits(&current) {
                    return Ok(());
                }
                let from = keyring.fitting(&current);
                let from = from.ok_or_else(|| StoreError::damaged("master_key_check"))?;
                sqlx::query!(
                    "INSERT INTO master_key_check (id, value) SELECT max(id) + 1, $1 FROM master_key_check",
                    current
                )
                .execute(&mut *connection)
                .await?;
                sqlx::query!("UPDATE master_key_check SET value = $1 WHERE id = 1", to.check_value())
                    .execute(&mut *connection)
                    .await?;
                let line = Line {
                    before: Some(json!({ "key": from.id() })),
                    after: Some(json!({ "key": to.id() })),
                    ..key_line(operator, Action::MasterKeyRotate, to)
                };
                record(connection, line).await
            })
        })
        .await
    }

    /// Encrypts what is under another key, a few apps in each transaction.
    async fn encrypt_all_anew(&self, to: &MasterKey) -> Result<u64, StoreError> {
        let (mut behind, mut secrets) = (String::new(), 0);
        loop {
            let (store, to, after) = (self.clone(), to.clone(), behind.clone());
            let step = self
                .transaction(move |connection| {
                    let (store, to, after) = (store.clone(), to.clone(), after.clone());
                    Box::pin(async move { store.encrypt_some_anew(connection, &to, &after).await })
                })
                .await?;
            secrets += step.secrets;
            match step.last_app {
                Some(last) => behind = last,
                None => return Ok(secrets),
            }
        }
    }

    async fn encrypt_some_anew(
        &self,
        connection: &mut PgConnection,
        to: &MasterKey,
        behind: &str,
    ) -> Result<Step, StoreError> {
        require_current(&self.encrypting_key(connection).await?, to)?;
        let keyring = self.directory.keyring()?;
        // Locked, so that no key or secret of these apps is replaced meanwhile.
        let apps = sqlx::query!(
            "SELECT app_id, app_secret FROM apps WHERE app_id > $1 ORDER BY app_id LIMIT $2 FOR UPDATE",
            behind,
            APPS_AT_ONCE
        )
        .fetch_all(&mut *connection)
        .await?;
        let app_ids: Vec<String> = apps.iter().map(|app| app.app_id.clone()).collect();
        let mut secrets = 0;
        for app in apps {
            if let Some(sealed) = anew(&keyring, to, &app.app_id, &app.app_secret)? {
                sqlx::query!("UPDATE apps SET app_secret = $2 WHERE app_id = $1", app.app_id, sealed)
                    .execute(&mut *connection)
                    .await?;
                secrets += 1;
            }
        }
        let keys = sqlx::query!(
            "SELECT app_id, generation, pay_key FROM pay_keys WHERE app_id = ANY ($1)",
            &app_ids
        )
        .fetch_all(&mut *connection)
        .await?;
        for key in keys {
            if let Some(sealed) = anew(&keyring, to, &key.app_id, &key.pay_key)? {
                sqlx::query!(
                    "UPDATE pay_keys SET pay_key = $3 WHERE app_id = $1 AND generation = $2",
                    key.app_id,
                    key.generation,
                    sealed
                )
                .execute(&mut *connection)
                .await?;
                secrets += 1;
            }
        }
        Ok(Step { secrets, last_app: app_ids.last().cloned() })
    }

    /// Nothing is under a former key any more: from here on the new one is enough.
    async fn end_rotation(
        &self,
        operator: &Operator,
        to: &MasterKey,
        secrets: u64,
    ) -> Result<(), StoreError> {
        let (store, change) = (self.clone(), Arc::new((operator.clone(), to.clone())));
        self.transaction(move |connection| {
            let (store, change) = (store.clone(), Arc::clone(&change));
            Box::pin(async move {
                let (operator, to) = &*change;
                require_current(&store.encrypting_key(connection).await?, to)?;
                let ended = sqlx::query!("DELETE FROM master_key_check WHERE id > 1")
                    .execute(&mut *connection)
                    .await?;
                if ended.rows_affected() == 0 && secrets == 0 {
                    return Ok(());
                }
                let after = Some(json!({ "secrets": secrets }));
                record(connection, Line { after, ..key_line(operator, Action::MasterKeyRotated, to) }).await
            })
        })
        .await
    }
}

/// What one transaction of a rotation has done.
struct Step {
    secrets: u64,
    /// `None` when there was no app any more.
    last_app: Option<String>,
}

fn require_current(current: &MasterKey, to: &MasterKey) -> Result<(), StoreError> {
    if current.id() == to.id() {
        return Ok(());
    }
    let current = current.id();
    Err(StoreError::Internal(format!("another rotation, to the key {current}, came between")))
}

/// The secret encrypted with `to`; `None` when it is already.
fn anew(
    keyring: &Keyring,
    to: &MasterKey,
    app_id: &str,
    sealed: &[u8],
) -> Result<Option<Vec<u8>>, StoreError> {
    let app_id = AppId::parse(app_id).map_err(|_| StoreError::damaged("apps.app_id"))?;
    if to.open(&app_id, sealed).is_ok() {
        return Ok(None);
    }
    let secret = keyring.open(&app_id, sealed).map_err(|wrong| {
        StoreError::Internal(format!(
            "the app {app_id}: {wrong}; nothing is lost, the former keys stay needed"
        ))
    })?;
    Ok(Some(to.seal(&app_id, &secret)))
}

fn key_line<'a>(operator: &'a Operator, action: Action, key: &'a MasterKey) -> Line<'a> {
    Line { operator, action, app_id: None, subject: key.id(), before: None, after: None, note: "" }
}
