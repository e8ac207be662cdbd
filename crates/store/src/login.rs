//! Logins (contract 11.3). An operator issues a login code, and its one use registers the player. Only
//! the hash of a code is stored.

use domain::app::App;
use domain::ids::{AppId, OpenId, UnionId};
use domain::login::{LOGIN_CODE_LIFETIME, Player};
use domain::moment::rfc3339;
use domain::operation::app::{AppReport, IssuedLoginCode};
use domain::operation::unknown_app;
use serde_json::json;
use sqlx::PgConnection;

use crate::app::AppUpdate;
use crate::error::{OperationError, Result, StoreError};
use crate::operator_log::OperatorAction;
use crate::removal::remove_piece;
use crate::secrets::{random_token, token_hash};
use crate::store::Store;
use crate::wallet::make_known;

impl Store {
    /// The player of a login code of this app, who is known from now on. The code is used up in the same
    /// transaction; that of a sandbox player never is. `None` for any other text.
    pub async fn log_in(&self, app: &App, js_code: &str) -> Result<Option<Player>> {
        let of_sandbox = app.settings.sandbox.then(|| Player::of_sandbox(js_code)).flatten();
        let context = (app.id.clone(), of_sandbox, token_hash(js_code));
        self.transaction(context, |connection, (app_id, of_sandbox, code_hash)| {
            Box::pin(async move {
                let player = match of_sandbox {
                    Some(player) => Some(player.clone()),
                    None => use_up(connection, app_id, code_hash).await?,
                };
                if let Some(player) = &player {
                    make_known(connection, app_id, &player.open_id).await?;
                }
                Ok(player)
            })
        })
        .await
    }

    /// Deletes a piece of the login codes that expired. They are answered as codes that never were.
    pub async fn forget_expired_login_codes(&self) -> Result<u64> {
        Ok(remove_piece!(self, "login_codes", "expires_at <= now()"))
    }
}

/// Deletes a valid code and returns its player. Of two transactions at once one gets the player: the
/// other waits for it, and finds no row.
async fn use_up(connection: &mut PgConnection, app_id: &AppId, code_hash: &[u8]) -> Result<Option<Player>> {
    let used = sqlx::query!(
        "DELETE FROM login_codes WHERE app_id = $1 AND code_hash = $2 AND expires_at > now()
         RETURNING open_id, union_id",
        app_id.as_str(),
        code_hash
    );
    let Some(row) = used.fetch_optional(connection).await? else { return Ok(None) };
    let open_id = OpenId::parse(&row.open_id);
    let union_id = row.union_id.as_deref().map(UnionId::parse).transpose();
    match (open_id, union_id) {
        (Ok(open_id), Ok(union_id)) => Ok(Some(Player { open_id, union_id })),
        (_, _) => Err(StoreError::damaged("login_codes")),
    }
}

impl AppUpdate {
    /// Issues a login code. The line in the operator's log has the player and not the code.
    pub(super) async fn issue_login_code(
        &self,
        connection: &mut PgConnection,
        player: &Player,
    ) -> Result<AppReport, OperationError> {
        let Player { open_id, union_id } = player;
        let js_code = random_token();
        let code_hash = token_hash(&js_code);
        let issued = sqlx::query_scalar!(
            "INSERT INTO login_codes (app_id, code_hash, open_id, union_id, expires_at)
             SELECT app_id, $2, $3, $4, now() + make_interval(secs => $5) FROM apps WHERE app_id = $1
             RETURNING expires_at",
            self.app_id.as_str(),
            code_hash.as_slice(),
            open_id.as_str(),
            union_id.as_ref().map(UnionId::as_str),
            LOGIN_CODE_LIFETIME.as_secs_f64()
        );
        let issued = issued.fetch_optional(&mut *connection).await?;
        let expires_at = rfc3339(issued.ok_or_else(|| unknown_app(&self.app_id))?);
        let after = json!({ "union_id": union_id });
        let app_id = self.app_id.clone();
        let report = AppReport::LoginCode(IssuedLoginCode { app_id, js_code, expires_at });
        let line = self.line(OperatorAction::LoginCodeIssue).on(open_id.as_str()).after(after);
        line.answer(&report).record(connection).await?;
        Ok(report)
    }
}
