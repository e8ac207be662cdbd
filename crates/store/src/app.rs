//! Apps with their keys, packages, points of interest and pre-orders.

mod activity;
mod change;
mod columns;
mod command;
mod detail;
mod keys;
mod offer;

use domain::app::AppSummary;
use domain::ids::AppId;
use domain::rights::Apps;
use sqlx::PgExecutor;
use sqlx::types::Json;
use time::UtcOffset;

use crate::error::Result;
use crate::store::Store;

pub use activity::AppActivity;
pub(super) use columns::AppRow;
pub(super) use command::AppUpdate;
pub use detail::{AppDetail, AppWithKeys, COUNTED_MAX, Package};
pub use keys::AppKey;

impl Store {
    /// All apps, or only one.
    pub async fn list_apps(&self, only: Option<&AppId>) -> Result<Vec<AppSummary>> {
        select_apps(&self.pool, only, &Apps::ALL, None, u32::MAX).await
    }

    /// At most `limit` of these apps, in the order of their ids, after this id or from the first.
    pub async fn apps_after(
        &self,
        apps: &Apps,
        after: Option<&AppId>,
        limit: u32,
    ) -> Result<Vec<AppSummary>> {
        select_apps(&self.pool, None, apps, after, limit).await
    }

    /// These apps.
    pub async fn apps(&self, apps: &Apps) -> Result<Vec<AppSummary>> {
        select_apps(&self.pool, None, apps, None, u32::MAX).await
    }

    /// The first of these that is no app.
    pub async fn first_unknown_app(&self, apps: &Apps) -> Result<Option<String>> {
        Ok(sqlx::query_scalar!(
            r#"SELECT id AS "id!" FROM unnest($1::text[]) WITH ORDINALITY AS named (id, place)
               WHERE NOT EXISTS (SELECT 1 FROM apps WHERE app_id = id) ORDER BY place LIMIT 1"#,
            apps.listed()
        )
        .fetch_optional(&self.pool)
        .await?)
    }
}

async fn select_apps(
    executor: impl PgExecutor<'_>,
    only: Option<&AppId>,
    apps: &Apps,
    after: Option<&AppId>,
    limit: u32,
) -> Result<Vec<AppSummary>> {
    let rows = sqlx::query!(
        r#"SELECT to_jsonb(apps) - '{app_secret,former_secret}'::text[] AS "app!: Json<AppRow>",
                  latest.version AS "version?", latest.pages AS "pages?"
           FROM apps LEFT JOIN LATERAL (
               SELECT version, pages FROM packages WHERE packages.app_id = apps.app_id
               ORDER BY published_at DESC, version DESC LIMIT 1) AS latest ON true
           WHERE ($1::text IS NULL OR app_id = $1) AND ($2::text IS NULL OR app_id > $2)
               AND ($4::text[] IS NULL OR app_id = ANY ($4))
           ORDER BY app_id LIMIT $3"#,
        only.map(AppId::as_str),
        after.map(AppId::as_str),
        i64::from(limit),
        apps.ids()
    );
    let apps = rows.fetch_all(executor).await?.into_iter().map(|row| {
        let Json(app) = row.app;
        AppSummary {
            suspended: app.is_suspended(),
            app_id: app.app_id,
            settings: app.columns.settings,
            limits: app.columns.limits,
            package_version: row.version,
            pages: row.pages.unwrap_or_default(),
            created_at: app.created_at.to_offset(UtcOffset::UTC),
        }
    });
    Ok(apps.collect())
}

/// True when there is such an app.
pub(super) async fn app_exists(executor: impl PgExecutor<'_>, app_id: &AppId) -> Result<bool> {
    Ok(sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT 1 FROM apps WHERE app_id = $1) AS "there!""#,
        app_id.as_str()
    )
    .fetch_one(executor)
    .await?)
}
