//! Operators create apps, suspend them, and set their settings and limits. A change and its line in the
//! operator's log are one transaction. A change that has no effect writes no line (contract 8.5.2).

use domain::app::{AppChange, AppLimits, AppLimitsChange, AppSettings};
use domain::app_command::NewAppSecrets;
use domain::ids::AppId;
use domain::operator::Operator;
use serde_json::json;
use sqlx::PgConnection;

use super::columns::{AppColumns, write_columns};
use super::keys::insert_pay_key;
use super::update::AppUpdate;
use crate::operator_log::{Action, LogLine, answer, record, record_with_answer};
use crate::secrets::random_key_text;
use crate::{Store, StoreError};

impl Store {
    /// Creates an app with new secrets. `None` when the id is used already.
    pub async fn create_app(
        &self,
        operator: &Operator,
        app_id: &AppId,
        settings: AppSettings,
    ) -> Result<Option<NewAppSecrets>, StoreError> {
        let secrets = NewAppSecrets {
            app_id: app_id.clone(),
            app_secret: random_key_text(),
            pay_key: random_key_text(),
        };
        let update = AppUpdate::new(operator, app_id, (self.clone(), settings, secrets.clone()));
        let made = self
            .transaction(update, |connection, update| {
                Box::pin(async move {
                    let ((store, settings, secrets), app_id) = (&update.to, &update.app_id);
                    let key = store.encrypting_key(connection).await?;
                    if !insert_app(connection, app_id, &key.seal(app_id, &secrets.app_secret)).await? {
                        return Ok(false);
                    }
                    let columns = AppColumns { settings: settings.clone(), ..AppColumns::default() };
                    write_columns(connection, app_id, &columns).await?;
                    insert_pay_key(connection, app_id, 1, &key.seal(app_id, &secrets.pay_key)).await?;
                    let line = LogLine { after: Some(json!(settings)), ..update.line(Action::AppCreate) };
                    let answer = answer([
                        ("app_id", app_id.as_str().into()),
                        ("app_secret", secrets.app_secret.as_str().into()),
                        ("pay_key", secrets.pay_key.as_str().into()),
                    ]);
                    record_with_answer(connection, line, answer).await?;
                    Ok(true)
                })
            })
            .await;
        made.map(|made: bool| made.then_some(secrets))
    }

    /// Changes settings of an app. Other instances follow within two seconds (contract 9.9.2). `false`
    /// when there is no such app.
    pub async fn change_settings(
        &self,
        operator: &Operator,
        app_id: &AppId,
        change: AppChange,
    ) -> Result<bool, StoreError> {
        let done = self.update_app(AppUpdate::new(operator, app_id, change), |connection, update, app| {
            Box::pin(async move {
                let before = app.columns;
                let settings = before.settings.changed(&update.to);
                if settings == before.settings {
                    return Ok(());
                }
                let (from, to) = (json!(before.settings), json!(settings));
                write_columns(connection, &update.app_id, &AppColumns { settings, ..before }).await?;
                let line = LogLine { before: Some(from), after: Some(to), ..update.line(Action::AppChange) };
                record(connection, line).await
            })
        });
        Ok(done.await?.is_some())
    }

    /// Changes limits of an app and returns all that apply then. `None` when there is no such app.
    pub async fn set_limits(
        &self,
        operator: &Operator,
        app_id: &AppId,
        limits: impl Into<AppLimitsChange>,
    ) -> Result<Option<AppLimits>, StoreError> {
        self.update_app(AppUpdate::new(operator, app_id, limits.into()), |connection, update, app| {
            Box::pin(async move {
                let before = app.columns;
                let limits = before.limits.changed(&update.to);
                if limits != before.limits {
                    let (from, to) = (json!(before.limits), json!(limits));
                    let columns = AppColumns { limits: limits.clone(), ..before };
                    write_columns(connection, &update.app_id, &columns).await?;
                    let line =
                        LogLine { before: Some(from), after: Some(to), ..update.line(Action::AppLimit) };
                    record(connection, line).await?;
                }
                Ok(limits)
            })
        })
        .await
    }

    /// Suspends or resumes an app. `false` when there is no such app.
    pub async fn set_suspended(
        &self,
        operator: &Operator,
        app_id: &AppId,
        suspended: bool,
    ) -> Result<bool, StoreError> {
        let update = AppUpdate::new(operator, app_id, suspended);
        let done = self.update_app(update, |connection, update, app| {
            Box::pin(async move {
                if app.is_suspended() == update.to {
                    return Ok(());
                }
                sqlx::query!(
                    "UPDATE apps SET suspended_at = CASE WHEN $2 THEN now() END WHERE app_id = $1",
                    update.app_id.as_str(),
                    update.to
                )
                .execute(&mut *connection)
                .await?;
                let action = if update.to { Action::AppSuspend } else { Action::AppResume };
                let (before, after) =
                    (json!({ "suspended": app.is_suspended() }), json!({ "suspended": update.to }));
                let line = LogLine { before: Some(before), after: Some(after), ..update.line(action) };
                record(connection, line).await
            })
        });
        Ok(done.await?.is_some())
    }
}

/// Returns `false` when the id is used already.
async fn insert_app(
    connection: &mut PgConnection,
    app_id: &AppId,
    sealed_secret: &[u8],
) -> Result<bool, StoreError> {
    let made = sqlx::query!(
        "INSERT INTO apps (app_id, app_secret) VALUES ($1, $2) ON CONFLICT DO NOTHING",
        app_id.as_str(),
        sealed_secret
    );
    Ok(made.execute(connection).await?.rows_affected() == 1)
}
