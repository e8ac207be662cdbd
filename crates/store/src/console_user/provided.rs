//! Users whom an OpenID Connect provider signs in. A row with the provider's issuer and subject is made at the
//! first sign-in. It has no password, and a user with a password is never signed in here.

use std::time::Duration;

use domain::console_user::{ConsoleUserName, ProvidedUser};
use domain::operator::{Operator, OperatorKind};
use serde_json::json;
use sqlx::PgConnection;

use super::session::{NewSession, end_all};
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
}

async fn begin(
    connection: &mut PgConnection,
    user: &ProvidedUser,
    begun: NewSession,
) -> Result<Option<ConsoleUserName>> {
    let made = if find(connection, user).await?.is_none() { add(connection, user).await? } else { false };
    // Once more: another sign-in may have made the user meanwhile.
    let Some((name, role)) = find(connection, user).await? else { return Ok(None) };
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
        let after = json!({ "role": user.role, "oidc_issuer": user.issuer, "oidc_subject": user.subject });
        line.after(after).record(connection).await?;
    } else if has_other_role {
        let line = LogLine::new(&oneself, OperatorAction::ConsoleUserSetRole, subject);
        line.before(json!({ "role": role })).after(json!({ "role": user.role })).record(connection).await?;
    }
    Ok(Some(name))
}

/// Locks the user's row, and gives the name and the role.
async fn find(
    connection: &mut PgConnection,
    user: &ProvidedUser,
) -> Result<Option<(ConsoleUserName, String)>> {
    let found = sqlx::query!(
        "SELECT name, role FROM console_users WHERE oidc_issuer = $1 AND oidc_subject = $2 FOR UPDATE",
        user.issuer,
        user.subject
    );
    let Some(row) = found.fetch_optional(connection).await? else { return Ok(None) };
    let name = ConsoleUserName::parse(&row.name).map_err(|_| StoreError::damaged("console_users.name"))?;
    Ok(Some((name, row.role)))
}

/// Adds the user under the first name that nobody has.
async fn add(connection: &mut PgConnection, user: &ProvidedUser) -> Result<bool> {
    for name in &user.names {
        let made = sqlx::query!(
            "INSERT INTO console_users (name, role, password, oidc_issuer, oidc_subject) VALUES ($1, $2, '', $3, $4)
             ON CONFLICT DO NOTHING",
            name.as_str(),
            user.role.as_str(),
            user.issuer,
            user.subject
        );
        if made.execute(&mut *connection).await?.rows_affected() == 1 {
            return Ok(true);
        }
    }
    Ok(false)
}
