//! Carries out the commands of operators to apps. A command, its line in the operator's log and the
//! answer that is kept for an idempotent request are one transaction.

use domain::ids::AppId;
use domain::operation::app::{AppCommand, AppReport};
use domain::operation::unknown_app;
use domain::operator::Operator;
use sqlx::PgConnection;
use sqlx::types::Json;

use super::columns::AppRow;
use crate::error::{OperationError, Result};
use crate::operator_log::{LogLine, OperatorAction};
use crate::secrets::random_key_text;
use crate::store::Store;

/// The transaction of a command: who changes which app.
pub(crate) struct AppUpdate {
    pub(crate) store: Store,
    pub(crate) operator: Operator,
    pub(crate) app_id: AppId,
}

impl Store {
    /// Carries out a command to an app and reports what was done. The report is also the answer that
    /// is kept for the operator's idempotent request, if it is one.
    ///
    /// # Errors
    /// The command does not fit what is there, or the database is away.
    pub async fn carry_out(
        &self,
        operator: &Operator,
        app_id: &AppId,
        command: AppCommand,
    ) -> Result<AppReport, OperationError> {
        let update = AppUpdate { store: self.clone(), operator: operator.clone(), app_id: app_id.clone() };
        self.transaction((update, command), |connection, (update, command)| {
            Box::pin(update.carry_out(connection, command))
        })
        .await
    }
}

impl AppUpdate {
    async fn carry_out(
        &self,
        connection: &mut PgConnection,
        command: &AppCommand,
    ) -> Result<AppReport, OperationError> {
        match command {
            AppCommand::Create(settings) => {
                self.create(connection, settings, (random_key_text(), random_key_text())).await
            }
            AppCommand::Change(change, scopes) => self.change_settings(connection, change, scopes).await,
            AppCommand::Limit(change) => self.set_limits(connection, change).await,
            AppCommand::Suspend(suspended) => self.set_suspended(connection, *suspended).await,
            AppCommand::RotatePayKey(newest) => self.rotate_pay_key(connection, *newest).await,
            AppCommand::RotateSecret(newest) => self.rotate_secret(connection, *newest).await,
            AppCommand::Publish(version, pages) => self.publish(connection, version, pages).await,
            AppCommand::AddPois(poi_ids) => self.add_pois(connection, poi_ids).await,
            AppCommand::AddPreorders(numbers) => self.add_preorders(connection, numbers).await,
            AppCommand::AddUsers(open_ids) => self.add_users(connection, open_ids).await,
            AppCommand::IssueToken(lifetime) => self.issue_token(connection, *lifetime).await,
            AppCommand::RevokeTokens(token) => self.revoke_tokens(connection, token.as_ref()).await,
            AppCommand::IssueLoginCode(player) => self.issue_login_code(connection, player).await,
        }
    }

    /// Reads the app and locks its row, so changes of one app take turns.
    pub(super) async fn lock(&self, connection: &mut PgConnection) -> Result<AppRow, OperationError> {
        let row = sqlx::query_scalar!(
            r#"SELECT to_jsonb(apps) - '{app_secret,former_secret}'::text[] AS "app!: Json<AppRow>" FROM apps WHERE app_id = $1 FOR UPDATE"#,
            self.app_id.as_str()
        );
        let app = row.fetch_optional(connection).await?;
        app.map(|Json(app)| app).ok_or_else(|| unknown_app(&self.app_id).into())
    }

    /// A line about the app, without the states before and after.
    pub(crate) fn line(&self, action: OperatorAction) -> LogLine<'_> {
        LogLine::new(&self.operator, action, self.app_id.as_str()).of_app(&self.app_id)
    }
}
