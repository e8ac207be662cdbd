//! The SQL of an order report.

use domain::ids::{AppId, PoiId};
use domain::order::{GoodsKind, Order, OrderReport};
use sqlx::PgConnection;

use super::{OrderUpdate, ReportContext};
use crate::StoreError;

/// Locks an order until the transaction ends. Other reports of the order wait.
pub(super) async fn lock_order(
    connection: &mut PgConnection,
    app_id: &AppId,
    report: &OrderReport,
) -> Result<(), StoreError> {
    sqlx::query_scalar!(
        "SELECT event_count FROM orders WHERE app_id = $1 AND out_biz_order_no = $2 FOR UPDATE",
        app_id.as_str(),
        report.out_biz_order_no.as_str()
    )
    .fetch_optional(connection)
    .await?;
    Ok(())
}

/// Reads all rows that a report depends on, from one snapshot.
pub(super) async fn find(
    connection: &mut PgConnection,
    app_id: &AppId,
    report: &OrderReport,
) -> Result<ReportContext, StoreError> {
    let row = sqlx::query!(
        r#"SELECT EXISTS (SELECT 1 FROM wallets WHERE app_id = $1 AND open_id = $2) AS "known_open_id!",
                  i.img_id IS NOT NULL AS "known_image!", i.blocked_by IS NOT NULL AS "blocked_image!",
                  EXISTS (SELECT 1 FROM pois WHERE app_id = $1 AND poi_id = $4) AS "known_poi!",
                  EXISTS (SELECT 1 FROM preorders WHERE app_id = $1 AND out_order_no = $5) AS "known_preorder!",
                  p.out_biz_order_no AS "payment_of?", o.event_count AS "event_count?",
                  o.out_order_no AS "out_order_no?", o.open_id AS "open_id?",
                  o.order_create_time AS "order_create_time?", o.order_status AS "order_status?",
                  o.goods_kind AS "goods_kind?", o.order_path AS "order_path?",
                  o.product_cover_img_id AS "product_cover_img_id?", o.order_backup_url AS "order_backup_url?",
                  o.poi_id AS "poi_id?", o.product_id AS "product_id?",
                  o.product_catalog_code AS "product_catalog_code?", o.product_city AS "product_city?"
           FROM (VALUES (1)) AS always (there)
           LEFT JOIN images i ON i.app_id = $1 AND i.img_id = $3
           LEFT JOIN orders o ON o.app_id = $1 AND o.out_biz_order_no = $6
           LEFT JOIN order_payments p ON p.app_id = $1 AND p.out_order_no = $5"#,
        app_id.as_str(),
        report.open_id.as_str(),
        report.product_cover_img_id.as_str(),
        report.poi_id.as_ref().map(PoiId::as_str),
        report.out_order_no.as_str(),
        report.out_biz_order_no.as_str()
    )
    .fetch_one(connection)
    .await?;
    let goods_kind = row.goods_kind.as_deref().map(GoodsKind::parse).transpose();
    let goods_kind = goods_kind.map_err(|_| StoreError::damaged("orders.goods_kind"))?;
    // Without an order, all its columns are null.
    let order = move || {
        let order = Order {
            out_order_no: row.out_order_no?,
            open_id: row.open_id?,
            order_create_time: row.order_create_time?,
            order_status: row.order_status?,
            goods_kind,
            order_path: row.order_path?,
            product_cover_img_id: row.product_cover_img_id?,
            order_backup_url: row.order_backup_url,
            poi_id: row.poi_id,
            product_id: row.product_id,
            product_catalog_code: row.product_catalog_code,
            product_city: row.product_city,
        };
        Some((order, row.event_count?))
    };
    Ok(ReportContext {
        open_id: row.known_open_id,
        image: row.known_image,
        blocked_image: row.blocked_image,
        poi: row.known_poi,
        preorder: row.known_preorder,
        payment_of: row.payment_of,
        order: order(),
    })
}

/// Writes a new order with its event and a new payment. It fails with [`StoreError::Again`] when
/// another report has just made the order or claimed the payment.
pub(super) async fn insert_order(
    connection: &mut PgConnection,
    app_id: &AppId,
    report: &OrderReport,
    update: &OrderUpdate,
) -> Result<bool, StoreError> {
    let order = &update.order;
    let inserted = sqlx::query!(
        "WITH made AS (
             INSERT INTO orders (app_id, out_biz_order_no, out_order_no, open_id, order_create_time, order_status,
                    goods_kind, order_path, product_cover_img_id, order_backup_url, poi_id, product_id,
                    product_catalog_code, product_city, event_count)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, 1)
             RETURNING app_id, out_biz_order_no, out_order_no, order_status, event_count
         ), claimed AS (
             INSERT INTO order_payments (app_id, out_order_no, out_biz_order_no)
             SELECT app_id, out_order_no, out_biz_order_no FROM made WHERE $15::boolean
         )
         INSERT INTO order_events (app_id, out_biz_order_no, seq, order_status, report)
         SELECT app_id, out_biz_order_no, event_count, order_status, $16::jsonb FROM made",
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
        order.product_city,
        update.claims_payment,
        json(order)?
    )
    .execute(connection)
    .await
    .map_err(again_if_taken)?;
    Ok(inserted.rows_affected() == 1)
}

/// Writes the next state of an order with its event and a new payment. `false` when the order has
/// changed since the read; then it writes nothing. Owner and creation time never change.
pub(super) async fn update_order(
    connection: &mut PgConnection,
    app_id: &AppId,
    report: &OrderReport,
    update: &OrderUpdate,
) -> Result<bool, StoreError> {
    let order = &update.order;
    let updated = sqlx::query!(
        "WITH changed AS (
             UPDATE orders SET out_order_no = $3, order_status = $4, goods_kind = $5, order_path = $6,
                    product_cover_img_id = $7, order_backup_url = $8, poi_id = $9, product_id = $10,
                    product_catalog_code = $11, product_city = $12, event_count = event_count + 1,
                    updated_at = now()
             WHERE app_id = $1 AND out_biz_order_no = $2 AND event_count = $13
             RETURNING app_id, out_biz_order_no, out_order_no, order_status, event_count
         ), claimed AS (
             INSERT INTO order_payments (app_id, out_order_no, out_biz_order_no)
             SELECT app_id, out_order_no, out_biz_order_no FROM changed WHERE $14::boolean
         )
         INSERT INTO order_events (app_id, out_biz_order_no, seq, order_status, report)
         SELECT app_id, out_biz_order_no, event_count, order_status, $15::jsonb FROM changed",
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
        update.event_count,
        update.claims_payment,
        json(order)?
    )
    .execute(connection)
    .await
    .map_err(again_if_taken)?;
    Ok(updated.rows_affected() == 1)
}

/// The JSON of an order for its event.
fn json(order: &Order) -> Result<serde_json::Value, StoreError> {
    serde_json::to_value(order).map_err(|error| StoreError::Internal(error.to_string()))
}

/// Another report was first. It has made the order or claimed the payment number.
fn again_if_taken(error: sqlx::Error) -> StoreError {
    let fault = error.as_database_error().filter(|fault| fault.is_unique_violation());
    match fault.and_then(|fault| fault.constraint()) {
        Some("orders_pkey" | "order_payments_pkey" | "order_events_pkey") => StoreError::Again,
        Some(_) | None => error.into(),
    }
}
