//! Rotation of the master key: it encrypts all secrets again under another key, while servers run.

use domain::console_user::ConsoleUserName;
use domain::ids::AppId;
use domain::operator::Operator;
use serde_json::json;
use sqlx::PgConnection;

use crate::error::{Result, StoreError};
use crate::operator_log::{LogLine, OperatorAction};
use crate::secrets::{Keyring, MasterKey};
use crate::store::Store;

/// The number of apps in one transaction.
const APPS_AT_ONCE: i64 = 64;

impl Store {
    /// Makes the first loaded key the one that encrypts, and encrypts every secret again with it.
    /// After an interruption it must be repeated. Until then both keys are needed, and all secrets
    /// can be read. Returns the number of secrets that it encrypted again.
    ///
    /// # Errors
    /// No loaded key opens a secret, or another rotation has begun meanwhile.
    pub async fn rotate_master_key(&self, operator: &Operator) -> Result<u64> {
        let to = self.app_cache.keyring()?.first().clone();
        self.begin_rotation(operator, &to).await?;
        let secrets = self.encrypt_all_again(&to).await? + self.encrypt_users_again(&to).await?;
        self.end_rotation(operator, &to, secrets).await?;
        Ok(secrets)
    }

    /// From here on `to` encrypts, and a process without both keys does not start.
    async fn begin_rotation(&self, operator: &Operator, to: &MasterKey) -> Result<()> {
        let keyring = self.app_cache.keyring()?;
        let context = (operator.clone(), to.clone(), keyring);
        self.transaction(context, move |connection, (operator, to, keyring)| {
            Box::pin(async move {
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
                let line = LogLine::new(operator, OperatorAction::MasterKeyRotate, to.id());
                let line = line.before(json!({ "key": from.id() })).after(json!({ "key": to.id() }));
                line.record(connection).await
            })
        })
        .await
    }

    /// Encrypts all secrets that need another key, some apps in each transaction.
    async fn encrypt_all_again(&self, to: &MasterKey) -> Result<u64> {
        let (mut after, mut secrets) = (String::new(), 0);
        loop {
            let (encrypted, last_app) = self
                .transaction((self.clone(), to.clone(), after), |connection, (store, to, after)| {
                    Box::pin(store.encrypt_some_again(connection, to, after))
                })
                .await?;
            secrets += encrypted;
            match last_app {
                Some(last_app) => after = last_app,
                None => return Ok(secrets),
            }
        }
    }

    /// Returns the number of secrets that it encrypted again, and the last app. `None` after the last.
    async fn encrypt_some_again(
        &self,
        connection: &mut PgConnection,
        to: &MasterKey,
        after: &str,
    ) -> Result<(u64, Option<String>)> {
        require_current(&self.encrypting_key(connection).await?, to)?;
        let keyring = self.app_cache.keyring()?;
        // The lock keeps others from replacing keys and secrets of these apps meanwhile.
        let apps = sqlx::query!(
            "SELECT app_id, former_secret, app_secret FROM apps WHERE app_id > $1 ORDER BY app_id LIMIT $2 FOR UPDATE",
            after,
            APPS_AT_ONCE
        )
        .fetch_all(&mut *connection)
        .await?;
        let app_ids: Vec<String> = apps.iter().map(|app| app.app_id.clone()).collect();
        let mut secrets = 0;
        for app in apps {
            if let Some(sealed) = encrypt_again(&keyring, to, &app.app_id, &app.app_secret)? {
                sqlx::query!("UPDATE apps SET app_secret = $2 WHERE app_id = $1", app.app_id, sealed)
                    .execute(&mut *connection)
                    .await?;
                secrets += 1;
            }
            let Some(former) = app.former_secret else { continue };
            if let Some(sealed) = encrypt_again(&keyring, to, &app.app_id, &former)? {
                sqlx::query!("UPDATE apps SET former_secret = $2 WHERE app_id = $1", app.app_id, sealed)
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
            if let Some(sealed) = encrypt_again(&keyring, to, &key.app_id, &key.pay_key)? {
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
        secrets += encrypt_others_again(connection, &keyring, to, &app_ids).await?;
        Ok((secrets, app_ids.last().cloned()))
    }

    /// Encrypts the second factors of all console users that need another key. Returns their number.
    async fn encrypt_users_again(&self, to: &MasterKey) -> Result<u64> {
        self.transaction((self.clone(), to.clone()), |connection, (store, to)| {
            Box::pin(async move {
                require_current(&store.encrypting_key(connection).await?, to)?;
                let keyring = store.app_cache.keyring()?;
                let users = sqlx::query!(
                    r#"SELECT name, totp_secret AS "sealed!" FROM console_users WHERE totp_secret IS NOT NULL FOR UPDATE"#
                );
                let mut secrets = 0;
                for user in users.fetch_all(&mut *connection).await? {
                    let name = ConsoleUserName::parse(&user.name)
                        .map_err(|_| StoreError::damaged("console_users.name"))?;
                    if to.open_of_user(&name, &user.sealed).is_ok() {
                        continue;
                    }
                    let secret = keyring.open_of_user(&name, &user.sealed).map_err(|wrong| {
                        StoreError::Internal(format!("the second factor of {name}: {wrong}; reset it first"))
                    })?;
                    sqlx::query!(
                        "UPDATE console_users SET totp_secret = $2 WHERE name = $1",
                        user.name,
                        to.seal_of_user(&name, &secret)
                    )
                    .execute(&mut *connection)
                    .await?;
                    secrets += 1;
                }
                Ok(secrets)
            })
        })
        .await
    }

    /// No secret needs a former key any more. From here on the new key is enough.
    async fn end_rotation(&self, operator: &Operator, to: &MasterKey, secrets: u64) -> Result<()> {
        let context = (self.clone(), operator.clone(), to.clone());
        self.transaction(context, move |connection, (store, operator, to)| {
            Box::pin(async move {
                require_current(&store.encrypting_key(connection).await?, to)?;
                let ended = sqlx::query!("DELETE FROM master_key_check WHERE id > 1")
                    .execute(&mut *connection)
                    .await?;
                if ended.rows_affected() == 0 && secrets == 0 {
                    return Ok(());
                }
                let line = LogLine::new(operator, OperatorAction::MasterKeyRotated, to.id());
                line.after(json!({ "secrets": secrets })).record(connection).await
            })
        })
        .await
    }
}

/// Encrypts the secrets of the rows of these apps that need another key: `$find` reads the rows, and `$write` changes one.
macro_rules! encrypt_rows_again {
    ($connection:ident, $keyring:ident, $to:ident, $app_ids:ident, $name:ident, $find:literal, $write:literal) => {{
        let mut secrets = 0;
        for row in sqlx::query!($find, $app_ids).fetch_all(&mut *$connection).await? {
            let again = |sealed: &[u8]| encrypt_again($keyring, $to, &row.app_id, sealed);
            let (secret, former) =
                (again(&row.secret)?, row.former_secret.as_deref().map(again).transpose()?.flatten());
            secrets += [&secret, &former].into_iter().flatten().count() as u64;
            let write = sqlx::query!($write, row.app_id, row.$name, secret, former);
            write.execute(&mut *$connection).await?;
        }
        secrets
    }};
}

/// Encrypts the secrets of the receivers and the payment providers of these apps that need another key. Returns their number.
async fn encrypt_others_again(
    connection: &mut PgConnection,
    keyring: &Keyring,
    to: &MasterKey,
    app_ids: &[String],
) -> Result<u64> {
    let of_receivers: u64 = encrypt_rows_again!(
        connection,
        keyring,
        to,
        app_ids,
        receiver_id,
        "SELECT app_id, receiver_id, secret, former_secret FROM receivers WHERE app_id = ANY ($1) FOR UPDATE",
        "UPDATE receivers SET secret = coalesce($3, secret), former_secret = coalesce($4, former_secret)
             WHERE app_id = $1 AND receiver_id = $2 AND ($3::bytea IS NOT NULL OR $4::bytea IS NOT NULL)"
    );
    let of_providers: u64 = encrypt_rows_again!(
        connection,
        keyring,
        to,
        app_ids,
        provider,
        "SELECT app_id, provider, secret, former_secret FROM topup_providers WHERE app_id = ANY ($1) FOR UPDATE",
        "UPDATE topup_providers SET secret = coalesce($3, secret), former_secret = coalesce($4, former_secret)
             WHERE app_id = $1 AND provider = $2 AND ($3::bytea IS NOT NULL OR $4::bytea IS NOT NULL)"
    );
    Ok(of_receivers + of_providers)
}

fn require_current(current: &MasterKey, to: &MasterKey) -> Result<()> {
    if current.id() == to.id() {
        return Ok(());
    }
    let current = current.id();
    Err(StoreError::Internal(format!("another rotation, to the key {current}, came between")))
}

/// The secret, encrypted with `to`. `None` when it is already.
fn encrypt_again(keyring: &Keyring, to: &MasterKey, app_id: &str, sealed: &[u8]) -> Result<Option<Vec<u8>>> {
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
