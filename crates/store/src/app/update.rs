//! The transaction of a change of an app. It locks the app's row, so changes of one app take turns.

use domain::ids::AppId;
use domain::operator::Operator;
use sqlx::PgConnection;
use sqlx::types::Json;

use super::columns::AppRow;
use crate::operator_log::{Action, LogLine};
use crate::{Store, StoreError, Work};

/// A change of an app: who changes what, and the new value.
pub(super) struct AppUpdate<T> {
    operator: Operator,
    pub(super) app_id: AppId,
    pub(super) to: T,
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
    /// Changes an app in one transaction and returns the result. `None` when there is no such app.
    pub(super) async fn update_app<T: Send + Sync + 'static, R: Send + 'static>(
        &self,
        update: AppUpdate<T>,
        write: for<'c> fn(&'c mut PgConnection, &'c AppUpdate<T>, AppRow) -> Work<'c, R, StoreError>,
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

async fn lock_app(connection: &mut PgConnection, app_id: &AppId) -> Result<Option<AppRow>, StoreError> {
    let row = sqlx::query_scalar!(
        r#"SELECT to_jsonb(apps) - 'app_secret' AS "app!: Json<AppRow>" FROM apps WHERE app_id = $1 FOR UPDATE"#,
        app_id.as_str()
    );
    Ok(row.fetch_optional(connection).await?.map(|Json(app)| app))
}
