//! Users whom an OpenID Connect provider signs in. A row with the provider's issuer and subject is made at the
//! first sign-in. It has no password, and a user with a password is never signed in here. One who was removed comes back with
//! the name and the apps of before.

use std::time::Duration;

use domain::console_user::{ConsoleUserName, ProvidedIdentity, ProvidedUser};
use domain::operator::{Operator, OperatorKind};
use serde_json::json;
use sqlx::PgConnection;
use sqlx::types::Json;

use super::session::{NewSession, end_all};
use super::stored_rights_shown;
use crate::error::{Result, StoreError};
use crate::operator_log::{LogLine, OperatorAction};
use crate::store::Store;

/// How long ago a user proved who they are, where the provider does not say: too long for every setting.
const UNPROVED_SECONDS: f64 = 1e9;

impl Store {
    /// Starts a session of a user whom the provider has signed in, and gives the user's name. It makes the user
    /// at the first sign-in, and gives the role that the provider says. Another role ends the user's other
    /// sessions. `None` when every name is another user's.
    pub async fn begin_provided_session(
        &self,
        user: ProvidedUser,
        begun: NewSession,
    ) -> Result<Option<ConsoleUserName>> {
        self.transaction((user, begun), |connection, (user, begun)| Box::pin(begin(connection, user, *begun)))
            .await
    }

    /// Notes that the user of a session has just proved to the provider who they are. `false` when the session
    /// is another user's, or the user has another role now, or the provider does not say when.
    pub async fn prove_provided_session(&self, user: &ProvidedUser, token_hash: [u8; 32]) -> Result<bool> {
        let Some(authenticated) = user.authenticated else { return Ok(false) };
        let proved = sqlx::query!(
            "UPDATE console_sessions SET proved_at = now() - make_interval(secs => $5) FROM console_users
             WHERE token_sha256 = $1 AND console_users.name = console_sessions.name
               AND oidc_issuer = $2 AND oidc_subject = $3 AND role = $4",
            token_hash.as_slice(),
            user.issuer,
            user.subject,
            user.role.as_str(),
            authenticated.as_secs_f64()
        );
        Ok(proved.execute(&self.pool).await?.rows_affected() == 1)
    }

    /// Ends the sessions of a user whom the provider gives no role any more. There may be no such user.
    pub async fn end_provided_sessions(&self, identity: &ProvidedIdentity) -> Result<()> {
        self.transaction(identity.clone(), |connection, identity| Box::pin(end(connection, identity))).await
    }
}

async fn end(connection: &mut PgConnection, identity: &ProvidedIdentity) -> Result<()> {
    let known = sqlx::query_scalar!(
        "SELECT name FROM console_users WHERE oidc_issuer = $1 AND oidc_subject = $2 FOR UPDATE",
        identity.issuer,
        identity.subject
    );
    let Some(name) = known.fetch_optional(&mut *connection).await? else { return Ok(()) };
    let ended = sqlx::query!("DELETE FROM console_sessions WHERE name = $1", name);
    let sessions = ended.execute(&mut *connection).await?.rows_affected();
    if sessions == 0 {
        return Ok(());
    }
    let oneself = Operator::new(OperatorKind::Console, &name);
    let oneself = oneself.map_err(|_| StoreError::damaged("console_users.name"))?;
    let line = LogLine::new(&oneself, OperatorAction::ConsoleUserEndSession, &name);
    line.after(json!({ "sessions": sessions })).record(connection).await
}

async fn begin(
    connection: &mut PgConnection,
    user: &ProvidedUser,
    begun: NewSession,
) -> Result<Option<ConsoleUserName>> {
    let made = if find(connection, user).await?.is_none() { add(connection, user).await? } else { false };
    // Once more: another sign-in may have made the user meanwhile.
    let Some((name, role, apps)) = find(connection, user).await? else { return Ok(None) };
    let (has_other_role, subject) = (role != user.role.as_str(), name.as_str());
    if has_other_role {
        end_all(connection, &name, None).await?;
        sqlx::query!("UPDATE console_users SET role = $2 WHERE name = $1", subject, user.role.as_str())
            .execute(&mut *connection)
            .await?;
    }
    sqlx::query!(
        "WITH ended AS (DELETE FROM console_sessions WHERE token_sha256 = $4)
         INSERT INTO console_sessions (token_sha256, name, address, proved_at)
         VALUES ($1, $2, $3, now() - make_interval(secs => $5))",
        begun.token_hash.as_slice(),
        subject,
        begun.client.to_string(),
        begun.instead_of.as_ref().map(<[u8; 32]>::as_slice),
        user.authenticated.as_ref().map_or(UNPROVED_SECONDS, Duration::as_secs_f64)
    )
    .execute(&mut *connection)
    .await?;
    let oneself = Operator::new(OperatorKind::Console, subject);
    let oneself = oneself.map_err(|_| StoreError::damaged("console_users.name"))?;
    if made {
        let line = LogLine::new(&oneself, OperatorAction::ConsoleUserAdd, subject);
        let mut after = stored_rights_shown(&role, &apps);
        after["oidc_issuer"] = user.issuer.as_str().into();
        after["oidc_subject"] = user.subject.as_str().into();
        line.after(after).record(connection).await?;
    } else if has_other_role {
        let line = LogLine::new(&oneself, OperatorAction::ConsoleUserSetRole, subject);
        line.before(json!({ "role": role })).after(json!({ "role": user.role })).record(connection).await?;
    }
    Ok(Some(name))
}

/// Locks the user's row, and gives the name, the role and the apps.
async fn find(
    connection: &mut PgConnection,
    user: &ProvidedUser,
) -> Result<Option<(ConsoleUserName, String, Vec<String>)>> {
    let found = sqlx::query!(
        "SELECT name, role, apps FROM console_users WHERE oidc_issuer = $1 AND oidc_subject = $2 FOR UPDATE",
        user.issuer,
        user.subject
    );
    let Some(row) = found.fetch_optional(connection).await? else { return Ok(None) };
    let name = ConsoleUserName::parse(&row.name).map_err(|_| StoreError::damaged("console_users.name"))?;
    Ok(Some((name, row.role, row.apps)))
}

/// Adds the user with the name and the apps of before, so that the limits of a person go on (contract 8.6.37 and 8.6.40).
/// Without such a name, or where another user has it, it takes the first name that nobody has.
async fn add(connection: &mut PgConnection, user: &ProvidedUser) -> Result<bool> {
    let told = last_told(connection, user).await?;
    let apps = told.as_ref().map(|(_, apps)| apps.as_slice()).unwrap_or_default();
    let names: Vec<&ConsoleUserName> = told.iter().map(|(name, _)| name).chain(&user.names).collect();
    for name in names {
        let made = sqlx::query!(
            "INSERT INTO console_users (name, role, apps, password, oidc_issuer, oidc_subject)
             VALUES ($1, $2, $3, '', $4, $5) ON CONFLICT DO NOTHING",
            name.as_str(),
            user.role.as_str(),
            apps,
            user.issuer,
            user.subject
        );
        if made.execute(&mut *connection).await?.rows_affected() == 1 {
            // From here on the row keeps other sign-ins of the identity out. Before, one may have come, got other apps and
            // gone since the log was read.
            let is_still_told = last_told(connection, user).await? == told;
            return if is_still_told { Ok(true) } else { Err(StoreError::Again) };
        }
    }
    Ok(false)
}

/// The name and the apps that the identity had last: each line that adds a user or sets rights tells both. `None` for one
/// that was never here. The index `operator_log_accounts` has these lines.
async fn last_told(
    connection: &mut PgConnection,
    user: &ProvidedUser,
) -> Result<Option<(ConsoleUserName, Vec<String>)>> {
    let told = sqlx::query!(
        r#"SELECT subject, coalesce(coalesce(state, after) -> 'apps', '[]') AS "apps!: Json<Vec<String>>"
           FROM operator_log
           WHERE action IN ('console_user.add', 'console_user.set_role')
               -- Lines of older versions have no state.
               AND coalesce(state, after) ->> 'oidc_issuer' = $1 AND coalesce(state, after) ->> 'oidc_subject' = $2
           ORDER BY seq DESC LIMIT 1"#,
        user.issuer,
        user.subject
    );
    let Some(line) = told.fetch_optional(connection).await? else { return Ok(None) };
    let name =
        ConsoleUserName::parse(&line.subject).map_err(|_| StoreError::damaged("operator_log.subject"))?;
    Ok(Some((name, line.apps.0)))
}
