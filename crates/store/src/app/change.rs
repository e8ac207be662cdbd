//! Operators create apps, suspend them, and set their limits. A change and its line in the operator's
//! log are one transaction. A change that has no effect writes no line (contract 8.5.2).

use domain::app::AppLimits;
use domain::ids::AppId;
use domain::operator::Operator;
use serde_json::json;
use sqlx::PgConnection;

use super::keys::insert_pay_key;
use super::update::AppUpdate;
use super::{NewApp, NewAppSecrets};
use crate::operator_log::{Action, LogLine, answer, record, record_with_answer};
use crate::secrets::random_key_text;
use crate::{Store, StoreError};

impl Store {
    /// Creates an app with new secrets. `None` when the id is used already.
    pub async fn create_app(
        &self,
        operator: &Operator,
        app: NewApp,
    ) -> Result<Option<NewAppSecrets>, StoreError> {
        let secrets = NewAppSecrets {
            app_id: app.id.to_string(),
            app_secret: random_key_text(),
            pay_key: random_key_text(),
        };
        let app_id = app.id.clone();
        let update = AppUpdate::new(operator, &app_id, (self.clone(), app, secrets.clone()));
        let made = self
            .transaction(update, |connection, update| {
                Box::pin(async move {
                    let (store, app, secrets) = &update.to;
                    let key = store.encrypting_key(connection).await?;
                    if !insert_app(connection, app, &key.seal(&app.id, &secrets.app_secret)).await? {
                        return Ok(false);
                    }
                    insert_pay_key(connection, &app.id, 1, &key.seal(&app.id, &secrets.pay_key)).await?;
                    let after = json!({
                        "name": app.name, "category": app.category, "scopes": app.scopes,
                        "sandbox": app.sandbox, "preorder_check": app.preorder_check,
                    });
                    let line = LogLine { after: Some(after), ..update.line(Action::AppCreate) };
                    let answer = answer([
                        ("app_id", secrets.app_id.as_str().into()),
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

    /// Suspends or resumes an app. `false` when there is no such app.
    pub async fn set_suspended(
        &self,
        operator: &Operator,
        app_id: &AppId,
        suspended: bool,
    ) -> Result<bool, StoreError> {
        self.update_app(AppUpdate::new(operator, app_id, suspended), |connection, update, app| {
            Box::pin(async move {
                if app.suspended == update.to {
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
                    (json!({ "suspended": app.suspended }), json!({ "suspended": update.to }));
                let line = LogLine { before: Some(before), after: Some(after), ..update.line(action) };
                record(connection, line).await
            })
        })
        .await
    }

    /// Sets all limits of an app. `false` when there is no such app.
    pub async fn set_limits(
        &self,
        operator: &Operator,
        app_id: &AppId,
        limits: AppLimits,
    ) -> Result<bool, StoreError> {
        self.update_app(AppUpdate::new(operator, app_id, limits), |connection, update, app| {
            Box::pin(async move {
                if app.limits == update.to {
                    return Ok(());
                }
                update_limits(connection, &update.app_id, &update.to).await?;
                let (before, after) = (json!(app.limits), json!(update.to));
                let line =
                    LogLine { before: Some(before), after: Some(after), ..update.line(Action::AppLimit) };
                record(connection, line).await
            })
        })
        .await
    }
}

/// Returns `false` when the id is used already.
async fn insert_app(
    connection: &mut PgConnection,
    app: &NewApp,
    sealed_secret: &[u8],
) -> Result<bool, StoreError> {
    let made = sqlx::query!(
        "INSERT INTO apps (app_id, name, category, scopes, sandbox, preorder_check, app_secret)
         VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING",
        app.id.as_str(),
        app.name,
        app.category.as_str(),
        &app.scopes,
        app.sandbox,
        app.preorder_check,
        sealed_secret
    )
    .execute(connection)
    .await?;
    Ok(made.rows_affected() == 1)
}

async fn update_limits(
    connection: &mut PgConnection,
    app_id: &AppId,
    limits: &AppLimits,
) -> Result<(), StoreError> {
    let column = |limit: Option<u32>| limit.map(|limit| i32::try_from(limit).unwrap_or(i32::MAX));
    sqlx::query!(
        "UPDATE apps SET exchanges_per_second = $2, reports_per_second = $3, uploads_per_second = $4,
                tokens_per_second = $5 WHERE app_id = $1",
        app_id.as_str(),
        column(limits.exchanges_per_second),
        column(limits.reports_per_second),
        column(limits.uploads_per_second),
        column(limits.tokens_per_second)
    )
    .execute(connection)
    .await?;
    Ok(())
}
