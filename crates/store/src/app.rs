//! Apps, their keys, packages, points of interest and pre-orders: what the operator keeps.

mod change;
mod detail;
mod keys;
mod offer;
mod settings;

use domain::app::{AppLimits, Category};
use domain::ids::AppId;
use serde::Serialize;
use time::OffsetDateTime;

use super::{Store, StoreError};

pub use detail::{AppDetail, COUNTED_MAX, Package, PayKeyGeneration};
pub use keys::Rotated;
pub use settings::AppChange;

/// The limits in the columns of an app.
pub(super) fn limits_of_columns(
    exchanges: Option<i32>,
    reports: Option<i32>,
    uploads: Option<i32>,
    tokens: Option<i32>,
) -> Result<AppLimits, StoreError> {
    let limit = |column: Option<i32>| {
        column.map(u32::try_from).transpose().map_err(|_| StoreError::damaged("apps.*_per_second"))
    };
    Ok(AppLimits {
        exchanges_per_second: limit(exchanges)?,
        reports_per_second: limit(reports)?,
        uploads_per_second: limit(uploads)?,
        tokens_per_second: limit(tokens)?,
    })
}

/// An app to be made.
#[derive(Debug, Clone)]
pub struct NewApp {
    /// Its id.
    pub id: AppId,
    /// For people.
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
#[derive(Debug, Clone, Serialize)]
pub struct NewAppSecrets {
    /// The app.
    pub app_id: String,
    /// For token requests.
    pub app_secret: String,
    /// For signing exchanges.
    pub pay_key: String,
}

/// An app as the operator sees it; no secrets.
#[derive(Debug, Clone, Serialize)]
pub struct AppSummary {
    /// Its id.
    pub app_id: String,
    /// For people.
    pub name: String,
    /// `general` or `local_life`.
    pub category: String,
    /// Permission scopes.
    pub scopes: Vec<String>,
    /// Sandbox mode.
    pub sandbox: bool,
    /// Whether reports must name a registered pre-order.
    pub preorder_check: bool,
    /// Whether it is suspended.
    pub suspended: bool,
    /// Own limits.
    pub limits: AppLimits,
    /// Version of the latest published package.
    pub package_version: Option<String>,
    /// Its pages.
    pub pages: Vec<String>,
    /// When it was created.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
}

impl Store {
    /// Every app, or the one asked for.
    ///
    /// # Errors
    /// The database is away.
    pub async fn list_apps(&self, only: Option<&AppId>) -> Result<Vec<AppSummary>, StoreError> {
        self.select_apps(only, None, u32::MAX).await
    }

    /// The apps whose ids come after this one, or from the first, `limit` at most.
    ///
    /// # Errors
    /// The database is away.
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
                    limits: limits_of_columns(
                        row.exchanges_per_second,
                        row.reports_per_second,
                        row.uploads_per_second,
                        row.tokens_per_second,
                    )?,
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
