//! The details of one app for operators: generations of pay keys, packages, and numbers of registered
//! items. No secrets.

use domain::app::AppSummary;
use domain::ids::AppId;
use domain::moment;
use serde::Serialize;
use time::OffsetDateTime;

use super::LIVE_PAY_KEYS;
use super::keys::secret_fingerprint;
use crate::{Result, Store, StoreError};

/// Counts stop here, because a page needs no exact larger number.
pub const COUNTED_MAX: i64 = 10_000;
/// How many packages are shown, the newest first.
const PACKAGES_MAX: i64 = 20;
/// How many pay keys are shown, the newest first.
const PAY_KEYS_MAX: i64 = 20;
/// How many points of interest are shown.
const POIS_MAX: i64 = 100;

/// An app with its details.
#[derive(Debug, Clone, Serialize)]
pub struct AppDetail {
    /// The app itself.
    #[serde(flatten)]
    pub summary: AppSummary,
    /// Time of the suspension.
    #[serde(with = "time::serde::rfc3339::option")]
    pub suspended_at: Option<OffsetDateTime>,
    /// Its pay keys, newest first, 20 at most.
    pub pay_keys: Vec<PayKeyGeneration>,
    /// Fingerprint of the present app secret.
    #[serde(skip)]
    pub secret_fingerprint: String,
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

/// A generation of a pay key, without the key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PayKeyGeneration {
    /// 1 for the first key. Each rotation adds one.
    pub generation: i32,
    /// True when the key is valid, false when it is retired.
    pub is_live: bool,
    /// When it was made.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
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
    /// One app with its details. `None` when there is no such app.
    pub async fn app_detail(&self, app_id: &AppId) -> Result<Option<AppDetail>> {
        let Some(summary) = self.list_apps(Some(app_id)).await?.pop() else { return Ok(None) };
        let now = moment::of_millis(self.clock.unix_millis())
            .ok_or_else(|| StoreError::Internal("the clock is out of range".to_owned()))?;
        let row = sqlx::query!(
            r#"SELECT suspended_at, app_secret,
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
            secret_fingerprint: secret_fingerprint(&row.app_secret),
            poi_ids: row.poi_ids,
            pois: row.pois,
            preorders: row.preorders,
            valid_tokens: row.valid_tokens,
            pay_keys: self.pay_key_generations(app_id).await?,
            packages: self.packages(app_id).await?,
        }))
    }

    async fn pay_key_generations(&self, app_id: &AppId) -> Result<Vec<PayKeyGeneration>> {
        Ok(sqlx::query_as!(
            PayKeyGeneration,
            r#"SELECT generation, row_number() OVER (ORDER BY generation DESC) <= $3 AS "is_live!", created_at
               FROM pay_keys WHERE app_id = $1 ORDER BY generation DESC LIMIT $2"#,
            app_id.as_str(),
            PAY_KEYS_MAX,
            i64::try_from(LIVE_PAY_KEYS).unwrap_or(i64::MAX)
        )
        .fetch_all(&self.pool)
        .await?)
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
