//! Apps with their keys, packages, points of interest and pre-orders.

mod change;
mod columns;
mod detail;
mod keys;
mod offer;
mod settings;
mod update;

use domain::app::{AppLimits, Category};
use domain::ids::AppId;
use serde::Serialize;
use time::OffsetDateTime;

use super::{Store, StoreError};

pub(super) use columns::limits_of_columns;
pub use detail::{AppDetail, COUNTED_MAX, Package, PayKeyGeneration};
pub use keys::Rotated;
pub use settings::AppChange;

/// A new app.
#[derive(Debug, Clone)]
pub struct NewApp {
    /// Its id.
    pub id: AppId,
    /// Name for people.
    pub name: String,
    /// General or local life.
    pub category: Category,
    /// Permission scopes.
    pub scopes: Vec<String>,
    /// Sandbox mode.
    pub sandbox: bool,
    /// Whether reports must name a registered pre-order.
    pub preorder_check: bool,
}

/// The secrets of a new app, shown once.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct NewAppSecrets {
    /// The app.
    #[schemars(with = "AppId")]
    pub app_id: String,
    /// For token requests.
    pub app_secret: String,
    /// For signing exchanges.
    pub pay_key: String,
}

/// An app for operators, without secrets.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
#[schemars(rename = "App")]
pub struct AppSummary {
    /// Its id.
    #[schemars(with = "AppId")]
    pub app_id: String,
    /// Name for people.
    pub name: String,
    /// `general` or `local_life`.
    #[schemars(with = "Category")]
    pub category: String,
    /// Permission scopes.
    pub scopes: Vec<String>,
    /// Sandbox mode.
    pub sandbox: bool,
    /// Whether reports must name a registered pre-order.
    pub preorder_check: bool,
    /// Whether it is suspended.
    pub suspended: bool,
    /// Its limits.
    pub limits: AppLimits,
    /// Version of the latest published package.
    pub package_version: Option<String>,
    /// Its pages.
    pub pages: Vec<String>,
    /// When it was created.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub created_at: OffsetDateTime,
}

impl Store {
    /// All apps, or only one.
    pub async fn list_apps(&self, only: Option<&AppId>) -> Result<Vec<AppSummary>, StoreError> {
        self.select_apps(only, None, u32::MAX).await
    }

    /// At most `limit` apps, in the order of their ids, after this id or from the first.
    pub async fn apps_after(&self, after: Option<&AppId>, limit: u32) -> Result<Vec<AppSummary>, StoreError> {
        self.select_apps(None, after, limit).await
    }

    async fn select_apps(
        &self,
        only: Option<&AppId>,
        after: Option<&AppId>,
        limit: u32,
    ) -> Result<Vec<AppSummary>, StoreError> {
        let rows = sqlx::query!(
            r#"SELECT app_id, name, category, scopes, sandbox, preorder_check,
                      suspended_at IS NOT NULL AS "suspended!", created_at,
                      exchanges_per_second, reports_per_second, uploads_per_second, tokens_per_second,
                      latest.version AS "version?", latest.pages AS "pages?"
               FROM apps LEFT JOIN LATERAL (
                   SELECT version, pages FROM packages WHERE packages.app_id = apps.app_id
                   ORDER BY published_at DESC, version DESC LIMIT 1) AS latest ON true
               WHERE ($1::text IS NULL OR app_id = $1) AND ($2::text IS NULL OR app_id > $2)
               ORDER BY app_id LIMIT $3"#,
            only.map(AppId::as_str),
            after.map(AppId::as_str),
            i64::from(limit)
        )
        .fetch_all(&self.pool)
        .await?;
        rows.into_iter()
            .map(|row| {
                Ok(AppSummary {
                    app_id: row.app_id,
                    name: row.name,
                    category: row.category,
                    scopes: row.scopes,
                    sandbox: row.sandbox,
                    preorder_check: row.preorder_check,
                    suspended: row.suspended,
                    limits: limits_of_columns!(row),
                    package_version: row.version,
                    pages: row.pages.unwrap_or_default(),
                    created_at: row.created_at,
                })
            })
            .collect()
    }

    pub(super) async fn app_exists(&self, app_id: &AppId) -> Result<bool, StoreError> {
        Ok(sqlx::query_scalar!(
            r#"SELECT EXISTS (SELECT 1 FROM apps WHERE app_id = $1) AS "there!""#,
            app_id.as_str()
        )
        .fetch_one(&self.pool)
        .await?)
    }
}
