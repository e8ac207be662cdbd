//! Operators publish packages, and register points of interest, payment pre-orders and players. They
//! may register known ones again, and list what is registered.

use domain::ids::{AppId, OpenId, OrderNo, PackageVersion, PagePath, PoiId};
use domain::operation::app::{
    AppReport, KnownPlayers, PublishedPackage, RegisteredPois, RegisteredPreorders,
};
use domain::operation::unknown_app;
use serde_json::json;
use sqlx::PgConnection;

use super::app_exists;
use super::command::AppUpdate;
use crate::error::{OperationError, Result};
use crate::operator_log::OperatorAction;
use crate::paging::LISTED_MAX;
use crate::store::Store;
use crate::wallet_no::random_wallet_no;

impl Store {
    /// The points of interest of an app in the order of their ids, 1,000 at most.
    pub async fn pois(&self, app_id: &AppId) -> Result<Vec<String>> {
        Ok(sqlx::query_scalar!(
            "SELECT poi_id FROM pois WHERE app_id = $1 ORDER BY poi_id LIMIT $2",
            app_id.as_str(),
            LISTED_MAX
        )
        .fetch_all(&self.pool)
        .await?)
    }

    /// The payment pre-orders of an app in the order of their numbers, 1,000 at most.
    pub async fn preorders(&self, app_id: &AppId) -> Result<Vec<String>> {
        Ok(sqlx::query_scalar!(
            "SELECT out_order_no FROM preorders WHERE app_id = $1 ORDER BY out_order_no LIMIT $2",
            app_id.as_str(),
            LISTED_MAX
        )
        .fetch_all(&self.pool)
        .await?)
    }
}

impl AppUpdate {
    /// Publishes a package. Its pages are the accepted order paths from now on. One that equals the latest changes nothing
    /// and writes no line.
    pub(super) async fn publish(
        &self,
        connection: &mut PgConnection,
        version: &PackageVersion,
        pages: &[PagePath],
    ) -> Result<AppReport, OperationError> {
        self.lock(connection).await?;
        let latest = sqlx::query!(
            "SELECT version, pages FROM packages WHERE app_id = $1
             ORDER BY published_at DESC, version DESC LIMIT 1",
            self.app_id.as_str()
        )
        .fetch_optional(&mut *connection)
        .await?;
        let paths: Vec<_> = pages.iter().map(|page| page.as_str().to_owned()).collect();
        let (app_id, pages) = (self.app_id.clone(), pages.to_vec());
        let report = AppReport::Package(PublishedPackage { app_id, pages, version: version.clone() });
        if latest.as_ref().is_some_and(|latest| latest.version == version.as_str() && latest.pages == paths) {
            return Ok(report);
        }
        sqlx::query!(
            "INSERT INTO packages (app_id, version, pages, published_at)
             VALUES ($1, $2, $3, clock_timestamp()) ON CONFLICT (app_id, version)
             DO UPDATE SET pages = excluded.pages, published_at = excluded.published_at",
            self.app_id.as_str(),
            version.as_str(),
            &paths
        )
        .execute(&mut *connection)
        .await?;
        let before = latest.map(|latest| json!({ "version": latest.version, "pages": latest.pages }));
        let after = json!({ "version": version, "pages": paths });
        let line = self.line(OperatorAction::AppPublish).on(version.as_str()).before(before).after(after);
        line.answer(&report).record(connection).await?;
        Ok(report)
    }

    /// Registers points of interest.
    pub(super) async fn add_pois(
        &self,
        connection: &mut PgConnection,
        poi_ids: &[PoiId],
    ) -> Result<AppReport, OperationError> {
        self.lock(connection).await?;
        let added = sqlx::query_scalar!(
            "INSERT INTO pois (app_id, poi_id) SELECT $1, unnest($2::text[])
             ON CONFLICT DO NOTHING RETURNING poi_id",
            self.app_id.as_str(),
            &texts(poi_ids)
        )
        .fetch_all(&mut *connection)
        .await?;
        let (app_id, poi_ids) = (self.app_id.clone(), poi_ids.to_vec());
        let report = AppReport::Pois(RegisteredPois { app_id, poi_ids });
        self.registered(connection, OperatorAction::AppAddPois, "poi_ids", &added, report).await
    }

    /// Registers payment pre-orders.
    pub(super) async fn add_preorders(
        &self,
        connection: &mut PgConnection,
        numbers: &[OrderNo],
    ) -> Result<AppReport, OperationError> {
        self.lock(connection).await?;
        let added = sqlx::query_scalar!(
            "INSERT INTO preorders (app_id, out_order_no) SELECT $1, unnest($2::text[])
             ON CONFLICT DO NOTHING RETURNING out_order_no",
            self.app_id.as_str(),
            &texts(numbers)
        )
        .fetch_all(&mut *connection)
        .await?;
        let (app_id, out_order_nos) = (self.app_id.clone(), numbers.to_vec());
        let report = AppReport::Preorders(RegisteredPreorders { app_id, out_order_nos });
        self.registered(connection, OperatorAction::AppAddPreorders, "out_order_nos", &added, report).await
    }

    /// Adds players with empty wallets.
    pub(super) async fn add_users(
        &self,
        connection: &mut PgConnection,
        open_ids: &[OpenId],
    ) -> Result<AppReport, OperationError> {
        if !app_exists(&mut *connection, &self.app_id).await? {
            return Err(unknown_app(&self.app_id).into());
        }
        let added = sqlx::query_scalar!(
            "INSERT INTO wallets (app_no, open_id, wallet_no)
             SELECT (SELECT app_no FROM apps WHERE app_id = $1), unnest($2::text[]), unnest($3::bigint[])
             ON CONFLICT (app_no, open_id) DO NOTHING RETURNING open_id",
            self.app_id.as_str(),
            &texts(open_ids),
            &open_ids.iter().map(|_| random_wallet_no()).collect::<Vec<_>>()
        )
        .fetch_all(&mut *connection)
        .await?;
        let (app_id, open_ids) = (self.app_id.clone(), open_ids.to_vec());
        let report = AppReport::Players(KnownPlayers { app_id, open_ids });
        self.registered(connection, OperatorAction::UserAdd, "open_ids", &added, report).await
    }

    /// Records the new items under this name. It writes no line when all were known.
    async fn registered(
        &self,
        connection: &mut PgConnection,
        action: OperatorAction,
        name: &str,
        added: &[String],
        report: AppReport,
    ) -> Result<AppReport, OperationError> {
        if !added.is_empty() {
            self.line(action).after(json!({ name: added })).answer(&report).record(connection).await?;
        }
        Ok(report)
    }
}

fn texts(values: &[impl ToString]) -> Vec<String> {
    values.iter().map(ToString::to_string).collect()
}
