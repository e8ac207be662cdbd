//! Operators publish packages and register points of interest and payment pre-orders. A change and
//! its line in the operator's log are one transaction.

use domain::ids::{AppId, OrderNo, PackageVersion, PagePath, PoiId};
use domain::operator::Operator;
use serde_json::json;
use sqlx::PgConnection;

use super::update::AppUpdate;
use crate::operator_log::{Action, LogLine, record};
use crate::{Store, StoreError};

impl Store {
    /// Publishes a package. Its pages are the accepted order paths from now on. `false` when there
    /// is no such app.
    pub async fn publish(
        &self,
        operator: &Operator,
        app_id: &AppId,
        version: &PackageVersion,
        pages: &[PagePath],
    ) -> Result<bool, StoreError> {
        let pages: Vec<String> = pages.iter().map(|page| page.as_str().to_owned()).collect();
        let update = AppUpdate::new(operator, app_id, (version.clone(), pages));
        let done = self.update_app(update, |connection, update, _| {
            Box::pin(async move {
                let (version, pages) = &update.to;
                let latest = sqlx::query!(
                    "SELECT version, pages FROM packages WHERE app_id = $1
                     ORDER BY published_at DESC, version DESC LIMIT 1",
                    update.app_id.as_str()
                )
                .fetch_optional(&mut *connection)
                .await?;
                sqlx::query!(
                    "INSERT INTO packages (app_id, version, pages, published_at)
                     VALUES ($1, $2, $3, clock_timestamp()) ON CONFLICT (app_id, version)
                     DO UPDATE SET pages = excluded.pages, published_at = excluded.published_at",
                    update.app_id.as_str(),
                    version.as_str(),
                    pages
                )
                .execute(&mut *connection)
                .await?;
                let line = LogLine {
                    subject: version.as_str(),
                    before: latest.map(|latest| json!({ "version": latest.version, "pages": latest.pages })),
                    after: Some(json!({ "version": version.as_str(), "pages": pages })),
                    ..update.line(Action::AppPublish)
                };
                record(connection, line).await
            })
        });
        Ok(done.await?.is_some())
    }

    /// Registers points of interest. It accepts known ones. `false` when there is no such app.
    pub async fn add_pois(
        &self,
        operator: &Operator,
        app_id: &AppId,
        poi_ids: &[PoiId],
    ) -> Result<bool, StoreError> {
        let poi_ids: Vec<String> = poi_ids.iter().map(ToString::to_string).collect();
        let done = self.update_app(AppUpdate::new(operator, app_id, poi_ids), |connection, update, _| {
            Box::pin(async move {
                let added = sqlx::query_scalar!(
                    "INSERT INTO pois (app_id, poi_id) SELECT $1, unnest($2::text[])
                     ON CONFLICT DO NOTHING RETURNING poi_id",
                    update.app_id.as_str(),
                    &update.to
                )
                .fetch_all(&mut *connection)
                .await?;
                record_added(connection, update, Action::AppAddPois, "poi_ids", &added).await
            })
        });
        Ok(done.await?.is_some())
    }

    /// Registers payment pre-orders. It accepts known ones. `false` when there is no such app.
    pub async fn add_preorders(
        &self,
        operator: &Operator,
        app_id: &AppId,
        numbers: &[OrderNo],
    ) -> Result<bool, StoreError> {
        let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
        let done = self.update_app(AppUpdate::new(operator, app_id, numbers), |connection, update, _| {
            Box::pin(async move {
                let added = sqlx::query_scalar!(
                    "INSERT INTO preorders (app_id, out_order_no) SELECT $1, unnest($2::text[])
                     ON CONFLICT DO NOTHING RETURNING out_order_no",
                    update.app_id.as_str(),
                    &update.to
                )
                .fetch_all(&mut *connection)
                .await?;
                record_added(connection, update, Action::AppAddPreorders, "out_order_nos", &added).await
            })
        });
        Ok(done.await?.is_some())
    }
}

/// Records the new items under this name. It writes no line when all were known.
async fn record_added<T>(
    connection: &mut PgConnection,
    update: &AppUpdate<T>,
    action: Action,
    name: &str,
    added: &[String],
) -> Result<(), StoreError> {
    if added.is_empty() {
        return Ok(());
    }
    let after = Some(json!({ name: added }));
    record(connection, LogLine { after, ..update.line(action) }).await
}
