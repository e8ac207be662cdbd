//! Users of the operator's console. Each change and its line in the operator's log are one
//! transaction, and ends the sessions of the user it concerns.

mod session;

use std::sync::Arc;

use domain::console_user::{ConsoleUserName, Role};
use domain::operator::Operator;
use serde::Serialize;
use serde_json::{Value, json};
use sqlx::PgConnection;
use time::OffsetDateTime;

use super::operator_log::{Action, Line, record};
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
    /// Attempts to sign in since the last that succeeded.
    pub failed_attempts: i32,
    /// Until when no attempt is taken, where that is later than now.
    #[serde(with = "time::serde::rfc3339::option")]
    pub locked_until: Option<OffsetDateTime>,
    /// Sessions that have not ended.
    pub sessions: i64,
    /// When the user was made.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
}

/// A change of a user that is under way.
struct Change<T> {
    operator: Operator,
    name: ConsoleUserName,
    to: T,
}

impl<T> Change<T> {
    fn new(operator: &Operator, name: &ConsoleUserName, to: T) -> Arc<Self> {
        Arc::new(Self { operator: operator.clone(), name: name.clone(), to })
    }

    async fn record(
        &self,
        connection: &mut PgConnection,
        action: Action,
        before: Option<Value>,
        after: Option<Value>,
    ) -> Result<(), StoreError> {
        let (operator, subject) = (&self.operator, self.name.as_str());
        record(connection, Line { operator, action, app_id: None, subject, before, after, note: "" }).await
    }
}

impl Store {
    /// Every user, by name.
    ///
    /// # Errors
    /// The database is away.
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

    /// Makes a user; `false` when the name is taken.
    ///
    /// # Errors
    /// The database is away.
    pub async fn add_console_user(
        &self,
        operator: &Operator,
        name: &ConsoleUserName,
        role: Role,
        password: PasswordHash,
    ) -> Result<bool, StoreError> {
        let change = Change::new(operator, name, (role, password));
        self.transaction(move |connection| {
            let change = Arc::clone(&change);
            Box::pin(async move {
                let (role, password) = &change.to;
                let made = sqlx::query!(
                    "INSERT INTO console_users (name, role, password) VALUES ($1, $2, $3)
                     ON CONFLICT DO NOTHING",
                    change.name.as_str(),
                    role.as_str(),
                    password.as_str()
                )
                .execute(&mut *connection)
                .await?
                .rows_affected()
                    == 1;
                if made {
                    let after = json!({ "role": role });
                    change.record(connection, Action::ConsoleUserAdd, None, Some(after)).await?;
                }
                Ok(made)
            })
        })
        .await
    }

    /// Gives a user another password, ends the lock there may be and every session; `false` when there
    /// is no such user.
    ///
    /// # Errors
    /// The database is away.
    pub async fn set_console_password(
        &self,
        operator: &Operator,
        name: &ConsoleUserName,
        password: PasswordHash,
    ) -> Result<bool, StoreError> {
        self.change_console_user(Change::new(operator, name, password), |connection, change, _| {
            Box::pin(async move {
                sqlx::query!(
                    "UPDATE console_users SET password = $2, failed_attempts = 0, locked_until = NULL
                     WHERE name = $1",
                    change.name.as_str(),
                    change.to.as_str()
                )
                .execute(&mut *connection)
                .await?;
                session::end_all(connection, &change.name).await?;
                change.record(connection, Action::ConsoleUserSetPassword, None, None).await
            })
        })
        .await
    }

    /// Gives a user another role and ends every session; `false` when there is no such user.
    ///
    /// # Errors
    /// The database is away.
    pub async fn set_console_role(
        &self,
        operator: &Operator,
        name: &ConsoleUserName,
        role: Role,
    ) -> Result<bool, StoreError> {
        self.change_console_user(Change::new(operator, name, role), |connection, change, user| {
            Box::pin(async move {
                if user.role == change.to.as_str() {
                    return Ok(());
                }
                sqlx::query!(
                    "UPDATE console_users SET role = $2 WHERE name = $1",
                    change.name.as_str(),
                    change.to.as_str()
                )
                .execute(&mut *connection)
                .await?;
                session::end_all(connection, &change.name).await?;
                let (before, after) = (json!({ "role": user.role }), json!({ "role": change.to }));
                change.record(connection, Action::ConsoleUserSetRole, Some(before), Some(after)).await
            })
        })
        .await
    }

    /// Ends the lock of a user and forgets failed attempts; `false` when there is no such user.
    ///
    /// # Errors
    /// The database is away.
    pub async fn unlock_console_user(
        &self,
        operator: &Operator,
        name: &ConsoleUserName,
    ) -> Result<bool, StoreError> {
        self.change_console_user(Change::new(operator, name, ()), |connection, change, user| {
            Box::pin(async move {
                if user.failed_attempts == 0 {
                    return Ok(());
                }
                sqlx::query!(
                    "UPDATE console_users SET failed_attempts = 0, locked_until = NULL WHERE name = $1",
                    change.name.as_str()
                )
                .execute(&mut *connection)
                .await?;
                let before = json!({ "failed_attempts": user.failed_attempts });
                let after = json!({ "failed_attempts": 0 });
                change.record(connection, Action::ConsoleUserUnlock, Some(before), Some(after)).await
            })
        })
        .await
    }

    /// Removes a user and ends every session; `false` when there is no such user.
    ///
    /// # Errors
    /// The database is away.
    pub async fn remove_console_user(
        &self,
        operator: &Operator,
        name: &ConsoleUserName,
    ) -> Result<bool, StoreError> {
        self.change_console_user(Change::new(operator, name, ()), |connection, change, user| {
            Box::pin(async move {
                sqlx::query!("DELETE FROM console_users WHERE name = $1", change.name.as_str())
                    .execute(&mut *connection)
                    .await?;
                session::end_all(connection, &change.name).await?;
                let before = json!({ "role": user.role });
                change.record(connection, Action::ConsoleUserRemove, Some(before), None).await
            })
        })
        .await
    }

    /// Runs a change of a user under the lock of its row, in one transaction; `false` when there is no
    /// such user. Whoever signs in meanwhile waits for that lock.
    async fn change_console_user<T: Send + Sync + 'static>(
        &self,
        change: Arc<Change<T>>,
        write: for<'c> fn(&'c mut PgConnection, &'c Change<T>, LockedUser) -> Work<'c, (), StoreError>,
    ) -> Result<bool, StoreError> {
        self.transaction(move |connection| {
            let change = Arc::clone(&change);
            Box::pin(async move {
                let user = sqlx::query_as!(
                    LockedUser,
                    "SELECT role, failed_attempts FROM console_users WHERE name = $1 FOR UPDATE",
                    change.name.as_str()
                )
                .fetch_optional(&mut *connection)
                .await?;
                let Some(user) = user else { return Ok(false) };
                write(connection, &change, user).await?;
                Ok(true)
            })
        })
        .await
    }
}

/// A user as it stands until the end of the transaction.
struct LockedUser {
    role: String,
    failed_attempts: i32,
}
