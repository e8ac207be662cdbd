//! Operators create apps, suspend them, and set their settings and limits. A change that has no effect
//! writes no line (contract 8.5.2).

use domain::app::{AppChange, AppLimitsChange, AppSettings, ScopeSteps};
use domain::operation::app::{AppReport, LimitsSet, NewAppSecrets, Suspension, app_taken, no_longer_sandbox};
use domain::operation::unknown_app;
use domain::rights::Apps;
use serde_json::json;
use sqlx::PgConnection;

use super::columns::{AppColumns, write_columns};
use super::command::AppUpdate;
use super::keys::insert_pay_key;
use super::select_apps;
use crate::error::{OperationError, Result, StoreError};
use crate::operator_log::OperatorAction;

impl AppUpdate {
    /// Creates the app with new secrets.
    pub(crate) async fn create(
        &self,
        connection: &mut PgConnection,
        settings: &AppSettings,
        (app_secret, pay_key): (String, String),
    ) -> Result<AppReport, OperationError> {
        let app_id = &self.app_id;
        let key = self.store.encrypting_key(connection).await?;
        let made = sqlx::query!(
            "INSERT INTO apps (app_id, app_no, app_secret)
             SELECT $1, coalesce(max(app_no), 0) + 1, $2 FROM apps ON CONFLICT DO NOTHING",
            app_id.as_str(),
            key.seal(app_id, &app_secret)
        )
        .execute(&mut *connection)
        .await?;
        if made.rows_affected() == 0 {
            let taken = sqlx::query_scalar!("SELECT 1 FROM apps WHERE app_id = $1", app_id.as_str());
            let is_taken = taken.fetch_optional(&mut *connection).await?.is_some();
            // Else another transaction has just taken the number, so the change is tried again.
            return Err(if is_taken { app_taken(&self.app_id).into() } else { StoreError::Again.into() });
        }
        let columns = AppColumns { settings: settings.clone(), ..AppColumns::default() };
        write_columns(connection, app_id, &columns).await?;
        insert_pay_key(connection, app_id, &key.seal(app_id, &pay_key)).await?;
        let report = AppReport::Created(NewAppSecrets { app_id: app_id.clone(), app_secret, pay_key });
        self.line(OperatorAction::AppCreate)
            .after(json!(settings))
            .answer(&report)
            .record(connection)
            .await?;
        Ok(report)
    }

    /// Changes settings of the app. Other instances follow within two seconds (contract 9.9.2).
    pub(super) async fn change_settings(
        &self,
        connection: &mut PgConnection,
        change: &AppChange,
        scopes: &ScopeSteps,
    ) -> Result<AppReport, OperationError> {
        let before = self.lock(connection).await?.columns;
        let settings = before.settings.changed(change).stepped(scopes);
        let is_new = settings != before.settings;
        if settings.sandbox != before.settings.sandbox {
            self.change_sandbox(connection, settings.sandbox).await?;
        }
        let line = self.line(OperatorAction::AppChange).before(json!(before.settings)).after(json!(settings));
        if is_new {
            write_columns(connection, &self.app_id, &AppColumns { settings, ..before }).await?;
        }
        let app = select_apps(&mut *connection, Some(&self.app_id), &Apps::ALL, None, 1).await?.pop();
        let report = AppReport::App(Box::new(app.ok_or_else(|| unknown_app(&self.app_id))?));
        if is_new {
            line.answer(&report).record(connection).await?;
        }
        Ok(report)
    }

    /// Refuses to make a sandbox of an app that has sold something, and ends the faults of the app.
    async fn change_sandbox(
        &self,
        connection: &mut PgConnection,
        becomes_one: bool,
    ) -> Result<(), OperationError> {
        let has_sold = sqlx::query_scalar!(
            r#"SELECT EXISTS (SELECT 1 FROM numbers n JOIN apps a ON a.app_no = n.app_no
                   WHERE a.app_id = $1 AND n.kind = 'exchange') AS "has!""#,
            self.app_id.as_str()
        );
        if becomes_one && has_sold.fetch_one(&mut *connection).await? {
            return Err(no_longer_sandbox(&self.app_id).into());
        }
        sqlx::query!("DELETE FROM sandbox_faults WHERE app_id = $1", self.app_id.as_str())
            .execute(connection)
            .await?;
        Ok(())
    }

    /// Changes limits of the app and reports all that apply then.
    pub(super) async fn set_limits(
        &self,
        connection: &mut PgConnection,
        change: &AppLimitsChange,
    ) -> Result<AppReport, OperationError> {
        let before = self.lock(connection).await?.columns;
        let limits = before.limits.changed(change);
        let report = AppReport::Limits(LimitsSet { app_id: self.app_id.clone(), limits: limits.clone() });
        if limits != before.limits {
            let line = self.line(OperatorAction::AppLimit).before(json!(before.limits)).after(json!(limits));
            write_columns(connection, &self.app_id, &AppColumns { limits, ..before }).await?;
            line.answer(&report).record(connection).await?;
        }
        Ok(report)
    }

    /// Suspends or resumes the app.
    pub(super) async fn set_suspended(
        &self,
        connection: &mut PgConnection,
        suspended: bool,
    ) -> Result<AppReport, OperationError> {
        let app = self.lock(connection).await?;
        let report = AppReport::Suspension(Suspension { app_id: self.app_id.clone(), suspended });
        if app.is_suspended() != suspended {
            sqlx::query!(
                "UPDATE apps SET suspended_at = now() + CASE WHEN $2 THEN interval '0' END WHERE app_id = $1",
                self.app_id.as_str(),
                suspended
            )
            .execute(&mut *connection)
            .await?;
            let action = if suspended { OperatorAction::AppSuspend } else { OperatorAction::AppResume };
            let line = self.line(action).before(json!({ "suspended": app.is_suspended() }));
            line.after(json!({ "suspended": suspended })).answer(&report).record(connection).await?;
        }
        Ok(report)
    }
}
