//! Users of the console (contract 8.6). A change and its line in the operator's log are one
//! transaction. The change ends the sessions of its user.

mod provided;
mod second_factor;
mod session;

use domain::console_user::{ConsoleUserName, PasswordHash, Role};
use domain::operation::account::account_needs_second_person;
use domain::operation::user::{
    UserCommand, has_second_factor, last_admin, of_a_provider, password_changed, unknown_session,
    unknown_user, user_taken,
};
use domain::operator::{Operator, OperatorKind};
use domain::rights::Rights;
use serde::Serialize;
use serde_json::{Value, json};
use sqlx::PgConnection;
use time::OffsetDateTime;

use crate::error::{OperationError, Result};
use crate::operator_log::{LogLine, OperatorAction};
use crate::store::Store;

pub use second_factor::CodeAttempt;
pub use session::{ConsoleSession, NewSession, SessionUser, SignInAttempt};

/// A user of the console, without the password.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct ConsoleUser {
    /// The name to sign in with.
    pub name: String,
    /// What the user may do.
    #[schemars(with = "Role")]
    pub role: String,
    /// The apps that the user sees, by their ids. Empty: all apps.
    pub apps: Vec<String>,
    /// Sign-in attempts since the last success, of all addresses.
    pub failed_attempts: i64,
    /// Until when an address has to wait: the last one, of all addresses.
    #[serde(with = "time::serde::rfc3339::option")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub locked_until: Option<OffsetDateTime>,
    /// Whether a sign-in needs a code too.
    pub has_second_factor: bool,
    /// Whether so many codes were wrong that a recovery code alone counts.
    pub needs_recovery_code: bool,
    /// The OpenID Connect provider that signs the user in. `None` for a user with a password.
    pub oidc_issuer: Option<String>,
    /// Number of open sessions.
    pub sessions: i64,
    /// When the user was added.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub created_at: OffsetDateTime,
}

impl Store {
    /// All users by name.
    pub async fn console_users(&self) -> Result<Vec<ConsoleUser>> {
        Ok(sqlx::query_as!(
            ConsoleUser,
            r#"SELECT name, role, apps, created_at, coalesce(failed, 0)::bigint AS "failed_attempts!",
                      totp_secret IS NOT NULL AS "has_second_factor!", wrong_codes >= $3 AS "needs_recovery_code!",
                      oidc_issuer, until AS locked_until,
                      (SELECT count(*) FROM console_sessions
                       WHERE console_sessions.name = console_users.name
                         AND console_sessions.created_at > now() - make_interval(secs => $1)
                         AND used_at > now() - make_interval(secs => $2)) AS "sessions!"
               FROM console_users LEFT JOIN (
                   SELECT name AS user_name, sum(failed_attempts) AS failed,
                          max(locked_until) FILTER (WHERE locked_until > now()) AS until
                   FROM console_attempts GROUP BY name) AS attempts ON user_name = name
               ORDER BY name"#,
            session::LIFETIME_SECONDS,
            session::IDLE_SECONDS_MAX,
            second_factor::WRONG_CODES_MAX
        )
        .fetch_all(&self.pool)
        .await?)
    }

    /// Carries out a command to a user, in one transaction that locks the user's row. A sign-in waits for that lock. A
    /// change of the password or the role ends the user's sessions. From the console it never removes or demotes the last
    /// admin (contract 8.6.4).
    ///
    /// # Errors
    /// The command does not fit the user, or the database is away.
    pub async fn change_console_user(
        &self,
        operator: &Operator,
        name: &ConsoleUserName,
        command: UserCommand,
    ) -> Result<(), OperationError> {
        let context = (self.clone(), operator.clone(), name.clone(), command);
        self.transaction(context, |connection, (store, operator, name, command)| {
            Box::pin(async move {
                let waits = matches!(
                    command,
                    UserCommand::Add(..) | UserCommand::Rights(_) | UserCommand::ResetSecondFactor
                );
                if waits && operator.alone_max().is_some() {
                    return Err(account_needs_second_person().into());
                }
                carry_out(store, connection, operator, name, command).await
            })
        })
        .await
    }
}

/// Carries out a command, whoever had to agree.
pub(crate) async fn carry_out(
    store: &Store,
    connection: &mut PgConnection,
    operator: &Operator,
    name: &ConsoleUserName,
    command: &UserCommand,
) -> Result<(), OperationError> {
    if operator.kind() != OperatorKind::CommandLine {
        keep_admin(connection, name, command).await?;
    }
    if let UserCommand::Add(rights, password) = command {
        return add(connection, operator, name, (rights, password)).await;
    }
    change_user(store, connection, operator, name, command).await
}

async fn add(
    connection: &mut PgConnection,
    operator: &Operator,
    name: &ConsoleUserName,
    (rights, password): (&Rights, &PasswordHash),
) -> Result<(), OperationError> {
    let made = sqlx::query!(
        "INSERT INTO console_users (name, role, apps, password) VALUES ($1, $2, $3, $4)
         ON CONFLICT DO NOTHING",
        name.as_str(),
        rights.role.as_str(),
        rights.apps.listed(),
        password.as_str()
    );
    if made.execute(&mut *connection).await?.rows_affected() == 0 {
        return Err(user_taken(name).into());
    }
    let line = LogLine::new(operator, OperatorAction::ConsoleUserAdd, name.as_str());
    Ok(line.after(rights_shown(rights)).record(connection).await?)
}

/// Refuses to remove or demote the last admin of all apps.
async fn keep_admin(
    connection: &mut PgConnection,
    name: &ConsoleUserName,
    command: &UserCommand,
) -> Result<(), OperationError> {
    let demotes = matches!(command, UserCommand::Rights(rights) if !rights.is_everything());
    if !demotes && !matches!(command, UserCommand::Remove) {
        return Ok(());
    }
    // Whoever changes an admin waits here, in the same order. So two admins cannot remove each other.
    let admins = sqlx::query_scalar!(
        "SELECT name FROM console_users WHERE role = 'admin' AND apps = '{}' ORDER BY name FOR UPDATE"
    );
    let admins = admins.fetch_all(connection).await?;
    if admins == [name.as_str()] { Err(last_admin(name).into()) } else { Ok(()) }
}

async fn change_user(
    store: &Store,
    connection: &mut PgConnection,
    operator: &Operator,
    name: &ConsoleUserName,
    command: &UserCommand,
) -> Result<(), OperationError> {
    let user = sqlx::query!(
        r#"SELECT role, apps, password, totp_secret IS NOT NULL AS "has_second_factor!", oidc_issuer
           FROM console_users WHERE name = $1 FOR UPDATE"#,
        name.as_str()
    );
    let user = user.fetch_optional(&mut *connection).await?.ok_or_else(|| unknown_user(name))?;
    let rights_before = stored_rights_shown(&user.role, &user.apps);
    let line = |action| LogLine::new(operator, action, name.as_str());
    let line = match command {
        UserCommand::Add(..) => return Err(user_taken(name).into()),
        UserCommand::Password(_) | UserCommand::OwnPassword { .. } | UserCommand::SecondFactor(_)
            if user.oidc_issuer.is_some() =>
        {
            return Err(of_a_provider(name).into());
        }
        UserCommand::Password(password) => {
            session::forget_attempts(connection, name).await?;
            session::end_all(connection, name, None).await?;
            set_password(connection, name, password).await?;
            line(OperatorAction::ConsoleUserSetPassword)
        }
        UserCommand::OwnPassword { present, .. } if user.password != present.as_str() => {
            return Err(password_changed(name).into());
        }
        UserCommand::OwnPassword { new, session, .. } => {
            session::end_all(connection, name, Some(session)).await?;
            set_password(connection, name, new).await?;
            line(OperatorAction::ConsoleUserSetPassword)
        }
        UserCommand::SecondFactor(_) if user.has_second_factor => {
            return Err(has_second_factor(name).into());
        }
        UserCommand::SecondFactor(new) => {
            session::end_all(connection, name, Some(&new.session)).await?;
            second_factor::set(store, connection, name, new).await?;
            line(OperatorAction::ConsoleUserSetSecondFactor)
        }
        UserCommand::ResetSecondFactor if !user.has_second_factor => return Ok(()),
        UserCommand::ResetSecondFactor => {
            second_factor::forget(connection, name).await?;
            session::end_all(connection, name, None).await?;
            line(OperatorAction::ConsoleUserResetSecondFactor)
        }
        UserCommand::EndSession(id) => {
            if !session::end_one(connection, name, id).await? {
                return Err(unknown_session(name).into());
            }
            line(OperatorAction::ConsoleUserEndSession).after(json!({ "session": id }))
        }
        UserCommand::Rights(rights) if rights_before == rights_shown(rights) => return Ok(()),
        UserCommand::Rights(rights) => {
            set_rights(connection, name, rights).await?;
            line(OperatorAction::ConsoleUserSetRole).before(rights_before).after(rights_shown(rights))
        }
        UserCommand::Unlock => {
            let failed = session::forget_attempts(connection, name).await?;
            if failed == 0 {
                return Ok(());
            }
            let line = line(OperatorAction::ConsoleUserUnlock).before(json!({ "failed_attempts": failed }));
            line.after(json!({ "failed_attempts": 0 }))
        }
        UserCommand::Remove => {
            remove(connection, name).await?;
            line(OperatorAction::ConsoleUserRemove).before(rights_before)
        }
    };
    Ok(line.record(connection).await?)
}

async fn set_password(
    connection: &mut PgConnection,
    name: &ConsoleUserName,
    password: &PasswordHash,
) -> Result<()> {
    sqlx::query!("UPDATE console_users SET password = $2 WHERE name = $1", name.as_str(), password.as_str())
        .execute(connection)
        .await?;
    Ok(())
}

async fn set_rights(connection: &mut PgConnection, name: &ConsoleUserName, rights: &Rights) -> Result<()> {
    session::end_all(connection, name, None).await?;
    sqlx::query!(
        "UPDATE console_users SET role = $2, apps = $3 WHERE name = $1",
        name.as_str(),
        rights.role.as_str(),
        rights.apps.listed()
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// The rights of a user or an API key, as the operator's log has them: the apps only where they are some.
pub(crate) fn rights_shown(rights: &Rights) -> Value {
    stored_rights_shown(rights.role.as_str(), rights.apps.listed())
}

/// The same of what the database has.
pub(crate) fn stored_rights_shown(role: &str, apps: &[String]) -> Value {
    if apps.is_empty() { json!({ "role": role }) } else { json!({ "role": role, "apps": apps }) }
}

async fn remove(connection: &mut PgConnection, name: &ConsoleUserName) -> Result<()> {
    session::forget_attempts(connection, name).await?;
    session::end_all(connection, name, None).await?;
    second_factor::forget(connection, name).await?;
    sqlx::query!("DELETE FROM console_users WHERE name = $1", name.as_str()).execute(connection).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api_key::ApiKeySummary;

    /// The document of the admin API names each role that an answer may have.
    #[test]
    fn the_roles_of_answers_are_all_roles() {
        let schemas = [schemars::schema_for!(ConsoleUser), schemars::schema_for!(ApiKeySummary)];
        for schema in schemas {
            assert_eq!(schema.to_value()["properties"]["role"]["enum"], json!(Role::WORDS));
        }
    }
}
