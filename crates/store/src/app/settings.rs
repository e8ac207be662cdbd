//! Operators change the settings of an app.

use domain::app::Category;
use domain::ids::{AppId, AppName};
use domain::operator::Operator;
use serde_json::json;

use super::update::AppUpdate;
use crate::operator_log::{Action, LogLine, record};
use crate::{Store, StoreError};

/// The settings to change. `None` keeps the present value.
#[derive(Debug, Clone, Default)]
pub struct AppChange {
    /// Name for people.
    pub name: Option<AppName>,
    /// General or local life.
    pub category: Option<Category>,
    /// All its permission scopes.
    pub scopes: Option<Vec<String>>,
    /// Sandbox mode.
    pub sandbox: Option<bool>,
    /// Whether reports must name a registered pre-order.
    pub preorder_check: Option<bool>,
}

impl Store {
    /// Changes settings of an app. Other instances follow within two seconds (contract 9.9.2).
    /// `false` when there is no such app.
    pub async fn change_settings(
        &self,
        operator: &Operator,
        app_id: &AppId,
        change: AppChange,
    ) -> Result<bool, StoreError> {
        self.update_app(AppUpdate::new(operator, app_id, change), |connection, update, _| {
            Box::pin(async move {
                let to = &update.to;
                let row = sqlx::query!(
                    r#"UPDATE apps SET name = coalesce($2, apps.name), category = coalesce($3, apps.category),
                              scopes = coalesce($4, apps.scopes), sandbox = coalesce($5, apps.sandbox),
                              preorder_check = coalesce($6, apps.preorder_check)
                       FROM (SELECT * FROM apps WHERE app_id = $1) AS former
                       WHERE apps.app_id = $1
                       RETURNING jsonb_build_object('name', former.name, 'category', former.category,
                                     'scopes', former.scopes, 'sandbox', former.sandbox,
                                     'preorder_check', former.preorder_check) AS "before!",
                                 jsonb_build_object('name', apps.name, 'category', apps.category,
                                     'scopes', apps.scopes, 'sandbox', apps.sandbox,
                                     'preorder_check', apps.preorder_check) AS "after!""#,
                    update.app_id.as_str(),
                    to.name.as_ref().map(AppName::as_str),
                    to.category.map(Category::as_str),
                    to.scopes.as_deref(),
                    to.sandbox,
                    to.preorder_check
                )
                .fetch_one(&mut *connection)
                .await?;
                if row.before == row.after {
                    return Ok(());
                }
                let (before, after) = (json!(row.before), json!(row.after));
                let line =
                    LogLine { before: Some(before), after: Some(after), ..update.line(Action::AppChange) };
                record(connection, line).await
            })
        })
        .await
    }
}
