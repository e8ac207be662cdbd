//! Orders, their payments and their events (contract 4).

use std::sync::Arc;

use sqlx::PgConnection;

use super::{AsStoreError, Store, StoreError};
use crate::auth::Authenticated;
use crate::domain::ids::{AppId, PoiId};
use crate::domain::order::{GoodsKind, Order, OrderReport, ReportConflict};

/// What became of a report. Only `Done` has written anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReportOutcome {
    /// The order stands as reported.
    Done,
    /// The app has no wallet for this open id.
    UnknownOpenId,
    /// The app has no such image.
    UnknownImage,
    /// The point of interest is not registered for the app.
    UnknownPoi,
    /// The app asks for pre-orders, and this payment number is none.
    UnknownPreorder,
    /// The payment number belongs to another order of the app.
    PaymentOfAnotherOrder,
    /// The report does not fit the order that is there.
    Conflict(ReportConflict),
}

/// Why a report's transaction is rolled back.
enum ReportError {
    Refused(ReportOutcome),
    Store(StoreError),
}

impl From<StoreError> for ReportError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<sqlx::Error> for ReportError {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

impl AsStoreError for ReportError {
    fn is_again(&self) -> bool {
        matches!(self, Self::Store(StoreError::Again))
    }
}

impl Store {
    /// Makes or updates the order that a report is about, and keeps the event when it changes
    /// something. `preorder_check` asks for a registered payment pre-order.
    ///
    /// # Errors
    /// The database is away.
    pub async fn report(
        &self,
        report: Authenticated<OrderReport>,
        preorder_check: bool,
    ) -> Result<ReportOutcome, StoreError> {
        let report = Arc::new(report);
        let outcome = self
            .transaction(move |connection| {
                let report = Arc::clone(&report);
                Box::pin(async move {
                    let (app_id, report) = (report.app_id(), report.value());
                    check_references(connection, app_id, report, preorder_check).await?;
                    write_report(connection, app_id, report).await
                })
            })
            .await;
        match outcome {
            Ok(()) => Ok(ReportOutcome::Done),
            Err(ReportError::Refused(outcome)) => Ok(outcome),
            Err(ReportError::Store(error)) => Err(error),
        }
    }
}

/// What a report names must be there.
async fn check_references(
    connection: &mut PgConnection,
    app_id: &AppId,
    report: &OrderReport,
    preorder_check: bool,
) -> Result<(), ReportError> {
    let known = sqlx::query!(
        r#"SELECT EXISTS (SELECT 1 FROM wallets WHERE app_id = $1 AND open_id = $2) AS "open_id!",
                  EXISTS (SELECT 1 FROM images WHERE app_id = $1 AND img_id = $3) AS "image!",
                  EXISTS (SELECT 1 FROM pois WHERE app_id = $1 AND poi_id = $4) AS "poi!",
                  EXISTS (SELECT 1 FROM preorders WHERE app_id = $1 AND out_order_no = $5) AS "preorder!""#,
        app_id.as_str(),
        report.open_id.as_str(),
        report.product_cover_img_id.as_str(),
        report.poi_id.as_ref().map(PoiId::as_str),
        report.out_order_no.as_str()
    )
    .fetch_one(connection)
    .await?;
    let refused = if !known.open_id {
        ReportOutcome::UnknownOpenId
    } else if !known.image {
        ReportOutcome::UnknownImage
    } else if report.poi_id.is_some() && !known.poi {
        ReportOutcome::UnknownPoi
    } else if preorder_check && !known.preorder {
        ReportOutcome::UnknownPreorder
    } else {
        return Ok(());
    };
    Err(ReportError::Refused(refused))
}

async fn write_report(
    connection: &mut PgConnection,
    app_id: &AppId,
    report: &OrderReport,
) -> Result<(), ReportError> {
    let existing = lock_order(connection, app_id, report).await?;
    let order = Order::after(existing.as_ref().map(|(order, _)| order), report)
        .map_err(|conflict| ReportError::Refused(ReportOutcome::Conflict(conflict)))?;
    claim_payment(connection, app_id, report).await?;
    let seq = match existing {
        Some((before, _)) if before == order => return Ok(()),
        Some((_, event_count)) => event_count + 1,
        None => 1,
    };
    let written = if seq == 1 {
        insert_order(connection, app_id, report, &order).await?
    } else {
        update_order(connection, app_id, report, &order, seq).await?
    };
    if !written {
        // Another transaction has just made the order: look again.
        return Err(StoreError::Again.into());
    }
    let json = serde_json::to_value(&order).map_err(|error| StoreError::Internal(error.to_string()))?;
    sqlx::query!(
        "INSERT INTO order_events (app_id, out_biz_order_no, seq, order_status, report) VALUES ($1, $2, $3, $4, $5)",
        app_id.as_str(),
        report.out_biz_order_no.as_str(),
        seq,
        order.order_status,
        json
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// The order as it stands with its number of events, locked until the end of the transaction.
async fn lock_order(
    connection: &mut PgConnection,
    app_id: &AppId,
    report: &OrderReport,
) -> Result<Option<(Order, i64)>, StoreError> {
    let row = sqlx::query!(
        "SELECT out_order_no, open_id, order_create_time, order_status, goods_kind, order_path,
                product_cover_img_id, order_backup_url, poi_id, product_id, product_catalog_code, product_city,
                event_count
         FROM orders WHERE app_id = $1 AND out_biz_order_no = $2 FOR UPDATE",
        app_id.as_str(),
        report.out_biz_order_no.as_str()
    )
    .fetch_optional(connection)
    .await?;
    row.map(|row| {
        let goods_kind = row.goods_kind.as_deref().map(GoodsKind::parse).transpose();
        let order = Order {
            out_order_no: row.out_order_no,
            open_id: row.open_id,
            order_create_time: row.order_create_time,
            order_status: row.order_status,
            goods_kind: goods_kind.map_err(|_| StoreError::damaged("orders.goods_kind"))?,
            order_path: row.order_path,
            product_cover_img_id: row.product_cover_img_id,
            order_backup_url: row.order_backup_url,
            poi_id: row.poi_id,
            product_id: row.product_id,
            product_catalog_code: row.product_catalog_code,
            product_city: row.product_city,
        };
        Ok((order, row.event_count))
    })
    .transpose()
}

/// A payment number belongs to the order that named it first.
async fn claim_payment(
    connection: &mut PgConnection,
    app_id: &AppId,
    report: &OrderReport,
) -> Result<(), ReportError> {
    sqlx::query!(
        "INSERT INTO order_payments (app_id, out_order_no, out_biz_order_no) VALUES ($1, $2, $3)
         ON CONFLICT DO NOTHING",
        app_id.as_str(),
        report.out_order_no.as_str(),
        report.out_biz_order_no.as_str()
    )
    .execute(&mut *connection)
    .await?;
    let owner = sqlx::query_scalar!(
        "SELECT out_biz_order_no FROM order_payments WHERE app_id = $1 AND out_order_no = $2",
        app_id.as_str(),
        report.out_order_no.as_str()
    )
    .fetch_one(connection)
    .await?;
    if owner == report.out_biz_order_no.as_str() {
        Ok(())
    } else {
        Err(ReportError::Refused(ReportOutcome::PaymentOfAnotherOrder))
    }
}

async fn insert_order(
    connection: &mut PgConnection,
    app_id: &AppId,
    report: &OrderReport,
    order: &Order,
) -> Result<bool, StoreError> {
    let inserted = sqlx::query!(
        "INSERT INTO orders (app_id, out_biz_order_no, out_order_no, open_id, order_create_time, order_status,
                goods_kind, order_path, product_cover_img_id, order_backup_url, poi_id, product_id,
                product_catalog_code, product_city, event_count)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, 1) ON CONFLICT DO NOTHING",
        app_id.as_str(),
        report.out_biz_order_no.as_str(),
        order.out_order_no,
        order.open_id,
        order.order_create_time,
        order.order_status,
        order.goods_kind.map(GoodsKind::as_str),
        order.order_path,
        order.product_cover_img_id,
        order.order_backup_url,
        order.poi_id,
        order.product_id,
        order.product_catalog_code,
        order.product_city
    )
    .execute(connection)
    .await?;
    Ok(inserted.rows_affected() == 1)
}

/// Owner and creation time are left out: they do not change.
async fn update_order(
    connection: &mut PgConnection,
    app_id: &AppId,
    report: &OrderReport,
    order: &Order,
    seq: i64,
) -> Result<bool, StoreError> {
    let updated = sqlx::query!(
        "UPDATE orders SET out_order_no = $3, order_status = $4, goods_kind = $5, order_path = $6,
                product_cover_img_id = $7, order_backup_url = $8, poi_id = $9, product_id = $10,
                product_catalog_code = $11, product_city = $12, event_count = $13, updated_at = now()
         WHERE app_id = $1 AND out_biz_order_no = $2 AND event_count = $13::bigint - 1",
        app_id.as_str(),
        report.out_biz_order_no.as_str(),
        order.out_order_no,
        order.order_status,
        order.goods_kind.map(GoodsKind::as_str),
        order.order_path,
        order.product_cover_img_id,
        order.order_backup_url,
        order.poi_id,
        order.product_id,
        order.product_catalog_code,
        order.product_city,
        seq
    )
    .execute(connection)
    .await?;
    Ok(updated.rows_affected() == 1)
}
