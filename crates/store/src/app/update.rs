//! The transaction of a change of an app. It locks the app's row, so changes of one app take turns.

use domain::app::AppLimits;
use domain::ids::AppId;
use domain::operator::Operator;
use sqlx::PgConnection;

use super::columns::limits_of_columns;
use crate::operator_log::{Action, LogLine};
use crate::{Store, StoreError, Work};

/// A change of an app: who changes what, and the new value.
pub(super) struct AppUpdate<T> {
    operator: Operator,
    pub(super) app_id: AppId,
    pub(super) to: T,
}

/// The locked row of an app.
pub(super) struct LockedApp {
    pub(super) suspended: bool,
    pub(super) limits: AppLimits,
}

impl<T> AppUpdate<T> {
    pub(super) fn new(operator: &Operator, app_id: &AppId, to: T) -> Self {
        Self { operator: operator.clone(), app_id: app_id.clone(), to }
    }

    /// A line about the app, without the states before and after.
    pub(super) fn line(&self, action: Action) -> LogLine<'_> {
        LogLine { app_id: Some(&self.app_id), ..LogLine::new(&self.operator, action, self.app_id.as_str()) }
    }
}

impl Store {
    /// Changes an app in one transaction. Returns `false` when there is no such app.
    pub(super) async fn update_app<T: Send + Sync + 'static>(
        &self,
        update: AppUpdate<T>,
        write: for<'c> fn(&'c mut PgConnection, &'c AppUpdate<T>, LockedApp) -> Work<'c, (), StoreError>,
    ) -> Result<bool, StoreError> {
        Ok(self.update_app_with_result(update, write).await?.is_some())
    }

    /// Changes an app in one transaction and returns the result. `None` when there is no such app.
    pub(super) async fn update_app_with_result<T: Send + Sync + 'static, R: Send + 'static>(
        &self,
        update: AppUpdate<T>,
        write: for<'c> fn(&'c mut PgConnection, &'c AppUpdate<T>, LockedApp) -> Work<'c, R, StoreError>,
    ) -> Result<Option<R>, StoreError> {
        self.transaction(update, move |connection, update| {
            Box::pin(async move {
                let Some(app) = lock_app(connection, &update.app_id).await? else { return Ok(None) };
                write(connection, update, app).await.map(Some)
            })
        })
        .await
    }
}

async fn lock_app(connection: &mut PgConnection, app_id: &AppId) -> Result<Option<LockedApp>, StoreError> {
    let row = sqlx::query!(
        r#"SELECT suspended_at IS NOT NULL AS "suspended!", exchanges_per_second, reports_per_second,
                  uploads_per_second, tokens_per_second
           FROM apps WHERE app_id = $1 FOR UPDATE"#,
        app_id.as_str()
    )
    .fetch_optional(connection)
    .await?;
    row.map(|row| Ok(LockedApp { suspended: row.suspended, limits: limits_of_columns!(row) })).transpose()
}
