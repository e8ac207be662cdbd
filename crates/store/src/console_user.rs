//! Users of the console (contract 8.6). A change and its line in the operator's log are one
//! transaction. The change ends the sessions of its user.

mod session;

use domain::console_user::{ConsoleUserName, Role};
use domain::operator::Operator;
use serde::Serialize;
use serde_json::{Value, json};
use sqlx::PgConnection;
use time::OffsetDateTime;

use super::operator_log::{Action, LogLine, record};
use super::{Store, StoreError, Work};
use crate::secrets::PasswordHash;

pub use session::SignInAttempt;

/// A user of the console, without the password.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConsoleUser {
    /// The name to sign in with.
    pub name: String,
    /// `viewer` or `admin`.
    pub role: String,
    /// Sign-in attempts since the last success.
    pub failed_attempts: i32,
    /// End of the lock, while the name is locked.
    #[serde(with = "time::serde::rfc3339::option")]
    pub locked_until: Option<OffsetDateTime>,
    /// Number of open sessions.
    pub sessions: i64,
    /// When the user was added.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
}

/// A change of a user: who changes whom, and the new value.
struct UserUpdate<T> {
    operator: Operator,
    name: ConsoleUserName,
    to: T,
}

impl<T> UserUpdate<T> {
    fn new(operator: &Operator, name: &ConsoleUserName, to: T) -> Self {
        Self { operator: operator.clone(), name: name.clone(), to }
    }

    async fn record(
        &self,
        connection: &mut PgConnection,
        action: Action,
        before: Option<Value>,
        after: Option<Value>,
    ) -> Result<(), StoreError> {
        let line = LogLine::new(&self.operator, action, self.name.as_str());
        record(connection, LogLine { before, after, ..line }).await
    }
}

impl Store {
    /// All users by name.
    pub async fn console_users(&self) -> Result<Vec<ConsoleUser>, StoreError> {
        Ok(sqlx::query_as!(
            ConsoleUser,
            r#"SELECT name, role, failed_attempts, created_at,
                      CASE WHEN locked_until > now() THEN locked_until END AS locked_until,
                      (SELECT count(*) FROM console_sessions
                       WHERE console_sessions.name = console_users.name
                         AND console_sessions.created_at > now() - make_interval(secs => $1)
                         AND used_at > now() - make_interval(secs => $2)) AS "sessions!"
               FROM console_users ORDER BY name"#,
            session::LIFETIME_SECONDS,
            session::IDLE_SECONDS_MAX
        )
        .fetch_all(&self.pool)
        .await?)
    }

    /// Adds a user. `false` when the name is used already.
    pub async fn add_console_user(
        &self,
        operator: &Operator,
        name: &ConsoleUserName,
        role: Role,
        password: PasswordHash,
    ) -> Result<bool, StoreError> {
        let update = UserUpdate::new(operator, name, (role, password));
        self.transaction(update, |connection, update| {
            Box::pin(async move {
                let (role, password) = &update.to;
                let made = sqlx::query!(
                    "INSERT INTO console_users (name, role, password) VALUES ($1, $2, $3)
                     ON CONFLICT DO NOTHING",
                    update.name.as_str(),
                    role.as_str(),
                    password.as_str()
                )
                .execute(&mut *connection)
                .await?
                .rows_affected()
                    == 1;
                if made {
                    let after = json!({ "role": role });
                    update.record(connection, Action::ConsoleUserAdd, None, Some(after)).await?;
                }
                Ok(made)
            })
        })
        .await
    }

    /// Sets the password of a user, unlocks the name and ends every session. `false` when there is
    /// no such user.
    pub async fn set_console_password(
        &self,
        operator: &Operator,
        name: &ConsoleUserName,
        password: PasswordHash,
    ) -> Result<bool, StoreError> {
        self.update_console_user(UserUpdate::new(operator, name, password), |connection, update, _| {
            Box::pin(async move {
                sqlx::query!(
                    "UPDATE console_users SET password = $2, failed_attempts = 0, locked_until = NULL
                     WHERE name = $1",
                    update.name.as_str(),
                    update.to.as_str()
                )
                .execute(&mut *connection)
                .await?;
                session::end_all(connection, &update.name).await?;
                update.record(connection, Action::ConsoleUserSetPassword, None, None).await
            })
        })
        .await
    }

    /// Sets the role of a user and ends every session. `false` when there is no such user.
    pub async fn set_console_role(
        &self,
        operator: &Operator,
        name: &ConsoleUserName,
        role: Role,
    ) -> Result<bool, StoreError> {
        self.update_console_user(UserUpdate::new(operator, name, role), |connection, update, user| {
            Box::pin(async move {
                if user.role == update.to.as_str() {
                    return Ok(());
                }
                sqlx::query!(
                    "UPDATE console_users SET role = $2 WHERE name = $1",
                    update.name.as_str(),
                    update.to.as_str()
                )
                .execute(&mut *connection)
                .await?;
                session::end_all(connection, &update.name).await?;
                let (before, after) = (json!({ "role": user.role }), json!({ "role": update.to }));
                update.record(connection, Action::ConsoleUserSetRole, Some(before), Some(after)).await
            })
        })
        .await
    }

    /// Unlocks a user and resets the failed attempts. `false` when there is no such user.
    pub async fn unlock_console_user(
        &self,
        operator: &Operator,
        name: &ConsoleUserName,
    ) -> Result<bool, StoreError> {
        self.update_console_user(UserUpdate::new(operator, name, ()), |connection, update, user| {
            Box::pin(async move {
                if user.failed_attempts == 0 {
                    return Ok(());
                }
                sqlx::query!(
                    "UPDATE console_users SET failed_attempts = 0, locked_until = NULL WHERE name = $1",
                    update.name.as_str()
                )
                .execute(&mut *connection)
                .await?;
                let before = json!({ "failed_attempts": user.failed_attempts });
                let after = json!({ "failed_attempts": 0 });
                update.record(connection, Action::ConsoleUserUnlock, Some(before), Some(after)).await
            })
        })
        .await
    }

    /// Removes a user and ends every session. `false` when there is no such user.
    pub async fn remove_console_user(
        &self,
        operator: &Operator,
        name: &ConsoleUserName,
    ) -> Result<bool, StoreError> {
        self.update_console_user(UserUpdate::new(operator, name, ()), |connection, update, user| {
            Box::pin(async move {
                sqlx::query!("DELETE FROM console_users WHERE name = $1", update.name.as_str())
                    .execute(&mut *connection)
                    .await?;
                session::end_all(connection, &update.name).await?;
                let before = json!({ "role": user.role });
                update.record(connection, Action::ConsoleUserRemove, Some(before), None).await
            })
        })
        .await
    }

    /// Changes a user in one transaction that locks the user's row. A sign-in waits for that lock.
    /// `false` when there is no such user.
    async fn update_console_user<T: Send + Sync + 'static>(
        &self,
        update: UserUpdate<T>,
        write: for<'c> fn(&'c mut PgConnection, &'c UserUpdate<T>, LockedUser) -> Work<'c, (), StoreError>,
    ) -> Result<bool, StoreError> {
        self.transaction(update, move |connection, update| {
            Box::pin(async move {
                let user = sqlx::query_as!(
                    LockedUser,
                    "SELECT role, failed_attempts FROM console_users WHERE name = $1 FOR UPDATE",
                    update.name.as_str()
                )
                .fetch_optional(&mut *connection)
                .await?;
                let Some(user) = user else { return Ok(false) };
                write(connection, update, user).await?;
                Ok(true)
            })
        })
        .await
    }
}

/// The locked row of a user.
struct LockedUser {
    role: String,
    failed_attempts: i32,
}
