//! The details of one app for operators: its keys, packages, and numbers of registered items. No secrets.

use domain::app::AppSummary;
use domain::ids::AppId;
use domain::moment;
use schemars::JsonSchema;
use serde::Serialize;
use time::OffsetDateTime;

use super::keys::AppKey;
use crate::error::{Result, StoreError};
use crate::store::Store;

/// Counts stop here, because a page needs no exact larger number.
pub const COUNTED_MAX: i64 = 10_000;
/// How many packages are shown, the newest first.
const PACKAGES_MAX: i64 = 20;
/// How many points of interest are shown.
const POIS_MAX: i64 = 100;

/// An app with its keys.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct AppWithKeys {
    /// The app itself.
    #[serde(flatten)]
    pub app: AppSummary,
    /// Its pay keys, the newest 20, then its valid app secrets. Newest first.
    pub keys: Vec<AppKey>,
}

/// An app with its details.
#[derive(Debug, Clone, Serialize)]
pub struct AppDetail {
    /// The app itself.
    #[serde(flatten)]
    pub summary: AppSummary,
    /// Time of the suspension.
    #[serde(with = "time::serde::rfc3339::option")]
    pub suspended_at: Option<OffsetDateTime>,
    /// Its keys, as [`AppWithKeys`] has them.
    pub keys: Vec<AppKey>,
    /// Its published packages, newest first, 20 at most.
    pub packages: Vec<Package>,
    /// Its points of interest in the order of their ids, 100 at most.
    pub poi_ids: Vec<String>,
    /// Number of points of interest. A value above [`COUNTED_MAX`] means "more".
    pub pois: i64,
    /// Number of payment pre-orders, with the same limit.
    pub preorders: i64,
    /// Number of valid access tokens, with the same limit.
    pub valid_tokens: i64,
}

/// A published package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Package {
    /// Its version.
    pub version: String,
    /// Its pages.
    pub pages: Vec<String>,
    /// When it was published.
    #[serde(with = "time::serde::rfc3339")]
    pub published_at: OffsetDateTime,
}

impl Store {
    /// One app with its keys. `None` when there is no such app.
    pub async fn app_with_keys(&self, app_id: &AppId) -> Result<Option<AppWithKeys>> {
        let Some(app) = self.list_apps(Some(app_id)).await?.pop() else { return Ok(None) };
        Ok(Some(AppWithKeys { app, keys: self.app_keys(app_id).await? }))
    }

    /// One app with its details. `None` when there is no such app.
    pub async fn app_detail(&self, app_id: &AppId) -> Result<Option<AppDetail>> {
        let Some(summary) = self.list_apps(Some(app_id)).await?.pop() else { return Ok(None) };
        let now = moment::of_millis(self.clock.unix_millis())
            .ok_or_else(|| StoreError::Internal("the clock is out of range".to_owned()))?;
        let row = sqlx::query!(
            r#"SELECT suspended_at,
                      ARRAY(SELECT poi_id FROM pois WHERE app_id = $1 ORDER BY poi_id LIMIT $2) AS "poi_ids!",
                      (SELECT count(*) FROM (
                           SELECT 1 FROM pois WHERE app_id = $1 LIMIT $3) AS found) AS "pois!",
                      (SELECT count(*) FROM (
                           SELECT 1 FROM preorders WHERE app_id = $1 LIMIT $3) AS found) AS "preorders!",
                      (SELECT count(*) FROM (
                           SELECT 1 FROM access_tokens WHERE app_id = $1 AND expires_at > $4
                           LIMIT $3) AS found) AS "valid_tokens!"
               FROM apps WHERE app_id = $1"#,
            app_id.as_str(),
            POIS_MAX,
            COUNTED_MAX + 1,
            now
        );
        let Some(row) = row.fetch_optional(&self.pool).await? else { return Ok(None) };
        Ok(Some(AppDetail {
            summary,
            suspended_at: row.suspended_at,
            poi_ids: row.poi_ids,
            pois: row.pois,
            preorders: row.preorders,
            valid_tokens: row.valid_tokens,
            keys: self.app_keys(app_id).await?,
            packages: self.packages(app_id).await?,
        }))
    }

    async fn packages(&self, app_id: &AppId) -> Result<Vec<Package>> {
        Ok(sqlx::query_as!(
            Package,
            "SELECT version, pages, published_at FROM packages WHERE app_id = $1
             ORDER BY published_at DESC, version DESC LIMIT $2",
            app_id.as_str(),
            PACKAGES_MAX
        )
        .fetch_all(&self.pool)
        .await?)
    }
}
