//! What an app offers: its pages, points of interest and payment pre-orders. Each change and its
//! line in the operator's log are one transaction.

use domain::ids::{AppId, OrderNo, PackageVersion, PagePath, PoiId};
use domain::operator::Operator;
use serde_json::json;
use sqlx::PgConnection;

use super::change::Change;
use crate::operator_log::{Action, Line, record};
use crate::{Store, StoreError};

impl Store {
    /// Publishes a package; its pages are the legal order paths from now on. `false` when there
    /// is no such app.
    ///
    /// # Errors
    /// The database is away.
    pub async fn publish(
        &self,
        operator: &Operator,
        app_id: &AppId,
        version: &PackageVersion,
        pages: &[PagePath],
    ) -> Result<bool, StoreError> {
        let pages: Vec<String> = pages.iter().map(|page| page.as_str().to_owned()).collect();
        self.change_app(Change::new(operator, app_id, (version.clone(), pages)), |connection, change, _| {
            Box::pin(async move {
                let (version, pages) = &change.to;
                let latest = sqlx::query!(
                    "SELECT version, pages FROM packages WHERE app_id = $1
                     ORDER BY published_at DESC, version DESC LIMIT 1",
                    change.app_id.as_str()
                )
                .fetch_optional(&mut *connection)
                .await?;
                sqlx::query!(
                    "INSERT INTO packages (app_id, version, pages, published_at)
                     VALUES ($1, $2, $3, clock_timestamp()) ON CONFLICT (app_id, version)
                     DO UPDATE SET pages = excluded.pages, published_at = excluded.published_at",
                    change.app_id.as_str(),
                    version.as_str(),
                    pages
                )
                .execute(&mut *connection)
                .await?;
                let line = Line {
                    subject: version.as_str(),
                    before: latest.map(|latest| json!({ "version": latest.version, "pages": latest.pages })),
                    after: Some(json!({ "version": version.as_str(), "pages": pages })),
                    ..change.line(Action::AppPublish)
                };
                record(connection, line).await
            })
        })
        .await
    }

    /// Registers points of interest; known ones are fine. `false` when there is no such app.
    ///
    /// # Errors
    /// The database is away.
    pub async fn add_pois(
        &self,
        operator: &Operator,
        app_id: &AppId,
        poi_ids: &[PoiId],
    ) -> Result<bool, StoreError> {
        let poi_ids: Vec<String> = poi_ids.iter().map(ToString::to_string).collect();
        self.change_app(Change::new(operator, app_id, poi_ids), |connection, change, _| {
            Box::pin(async move {
                let added = sqlx::query_scalar!(
                    "INSERT INTO pois (app_id, poi_id) SELECT $1, unnest($2::text[])
                     ON CONFLICT DO NOTHING RETURNING poi_id",
                    change.app_id.as_str(),
                    &change.to
                )
                .fetch_all(&mut *connection)
                .await?;
                record_added(connection, change, Action::AppAddPois, "poi_ids", &added).await
            })
        })
        .await
    }

    /// Registers payment pre-orders; known ones are fine. `false` when there is no such app.
    ///
    /// # Errors
    /// The database is away.
    pub async fn add_preorders(
        &self,
        operator: &Operator,
        app_id: &AppId,
        numbers: &[OrderNo],
    ) -> Result<bool, StoreError> {
        let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
        self.change_app(Change::new(operator, app_id, numbers), |connection, change, _| {
            Box::pin(async move {
                let added = sqlx::query_scalar!(
                    "INSERT INTO preorders (app_id, out_order_no) SELECT $1, unnest($2::text[])
                     ON CONFLICT DO NOTHING RETURNING out_order_no",
                    change.app_id.as_str(),
                    &change.to
                )
                .fetch_all(&mut *connection)
                .await?;
                record_added(connection, change, Action::AppAddPreorders, "out_order_nos", &added).await
            })
        })
        .await
    }
}

/// The line for what was registered now, under this name; none when all of it was known.
async fn record_added<T>(
    connection: &mut PgConnection,
    change: &Change<T>,
    action: Action,
    name: &str,
    added: &[String],
) -> Result<(), StoreError> {
    if added.is_empty() {
        return Ok(());
    }
    let after = Some(json!({ name: added }));
    record(connection, Line { after, ..change.line(action) }).await
}
