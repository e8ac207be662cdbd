//! The SQL of an order report.

use domain::ids::{AppId, PoiId};
use domain::order::OrderReport;
use sqlx::PgConnection;
use sqlx::types::Json;

use super::{OrderUpdate, ReportContext, StoredOrder};
use crate::{Result, StoreError};

/// Locks an order until the transaction ends. Other reports of the order wait.
pub(super) async fn lock_order(
    connection: &mut PgConnection,
    app_id: &AppId,
    report: &OrderReport,
) -> Result<()> {
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
) -> Result<ReportContext> {
    let row = sqlx::query!(
        r#"SELECT EXISTS (SELECT 1 FROM players WHERE app_id = $1 AND open_id = $2) AS "known_open_id!",
                  i.img_id IS NOT NULL AS "known_image!", i.blocked_by IS NOT NULL AS "blocked_image!",
                  coalesce(i.is_reported, false) AS "reported_image!",
                  EXISTS (SELECT 1 FROM pois WHERE app_id = $1 AND poi_id = $4) AS "known_poi!",
                  EXISTS (SELECT 1 FROM preorders WHERE app_id = $1 AND out_order_no = $5) AS "known_preorder!",
                  p.out_biz_order_no AS "payment_of?", to_jsonb(o) AS "order?: Json<StoredOrder>",
                  (e.report ->> 'order_create_time')::bigint AS "reported_create_time?"
           FROM (VALUES (1)) AS always (there)
           LEFT JOIN images i ON i.app_id = $1 AND i.img_id = $3
           LEFT JOIN orders o ON o.app_id = $1 AND o.out_biz_order_no = $6
           LEFT JOIN order_events e ON e.app_id = $1 AND e.out_biz_order_no = $6 AND e.seq = o.event_count
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
    Ok(ReportContext {
        open_id: row.known_open_id,
        image: row.known_image,
        blocked_image: row.blocked_image,
        reported_image: row.reported_image,
        poi: row.known_poi,
        preorder: row.known_preorder,
        payment_of: row.payment_of,
        order: row.order.map(|Json(order)| order),
        reported_create_time: row.reported_create_time,
    })
}

/// Marks the image as one that a report has named, so that no sweep removes it. `false` when a sweep has
/// just removed it.
pub(super) async fn mark_image(
    connection: &mut PgConnection,
    app_id: &AppId,
    report: &OrderReport,
) -> Result<bool> {
    let marked = sqlx::query!(
        "UPDATE images SET is_reported = true WHERE app_id = $1 AND img_id = $2",
        app_id.as_str(),
        report.product_cover_img_id.as_str()
    );
    Ok(marked.execute(connection).await?.rows_affected() == 1)
}

/// Writes an order with its event and a new payment. It takes no effect when the order has changed since
/// the read, and fails with [`StoreError::Again`] when another report has just made the order or claimed
/// the payment. Owner and creation time of an order never change.
pub(super) async fn write(
    connection: &mut PgConnection,
    app_id: &AppId,
    report: &OrderReport,
    update: &OrderUpdate,
) -> Result<bool> {
    // The members of the JSON are columns of the order, and the report of its event.
    let order =
        serde_json::to_value(&update.order).map_err(|error| StoreError::Internal(error.to_string()))?;
    let statement = if update.event_count == 0 {
        sqlx::query!(
            "WITH made AS (
                 INSERT INTO orders (app_id, out_biz_order_no, out_order_no, open_id, order_create_time, order_status,
                        goods_kind, order_path, product_cover_img_id, order_backup_url, poi_id, product_id,
                        product_catalog_code, product_city, event_count)
                 SELECT $1, $2, new.out_order_no, new.open_id, new.order_create_time, new.order_status,
                        new.goods_kind, new.order_path, new.product_cover_img_id, new.order_backup_url, new.poi_id,
                        new.product_id, new.product_catalog_code, new.product_city, 1
                 FROM jsonb_populate_record(NULL::orders, $3) AS new
                 RETURNING app_id, out_biz_order_no, out_order_no, order_status, event_count
             ), claimed AS (
                 INSERT INTO order_payments (app_id, out_order_no, out_biz_order_no)
                 SELECT app_id, out_order_no, out_biz_order_no FROM made WHERE $4::boolean
             )
             INSERT INTO order_events (app_id, out_biz_order_no, seq, order_status, report)
             SELECT app_id, out_biz_order_no, event_count, order_status, $3 FROM made",
            app_id.as_str(),
            report.out_biz_order_no.as_str(),
            order,
            update.claims_payment
        )
    } else {
        sqlx::query!(
            "WITH changed AS (
                 UPDATE orders o SET out_order_no = new.out_order_no, order_status = new.order_status,
                        goods_kind = new.goods_kind, order_path = new.order_path,
                        product_cover_img_id = new.product_cover_img_id, order_backup_url = new.order_backup_url,
                        poi_id = new.poi_id, product_id = new.product_id,
                        product_catalog_code = new.product_catalog_code, product_city = new.product_city,
                        event_count = o.event_count + 1, updated_at = now()
                 FROM jsonb_populate_record(NULL::orders, $3) AS new
                 WHERE o.app_id = $1 AND o.out_biz_order_no = $2 AND o.event_count = $4
                 RETURNING o.app_id, o.out_biz_order_no, o.out_order_no, o.order_status, o.event_count
             ), claimed AS (
                 INSERT INTO order_payments (app_id, out_order_no, out_biz_order_no)
                 SELECT app_id, out_order_no, out_biz_order_no FROM changed WHERE $5::boolean
             )
             INSERT INTO order_events (app_id, out_biz_order_no, seq, order_status, report)
             SELECT app_id, out_biz_order_no, event_count, order_status, $3 FROM changed",
            app_id.as_str(),
            report.out_biz_order_no.as_str(),
            order,
            update.event_count,
            update.claims_payment
        )
    };
    Ok(statement.execute(connection).await.map_err(again_if_taken)?.rows_affected() == 1)
}

/// Another report was first. It has made the order or claimed the payment number.
fn again_if_taken(error: sqlx::Error) -> StoreError {
    let fault = error.as_database_error().filter(|fault| fault.is_unique_violation());
    match fault.and_then(|fault| fault.constraint()) {
        Some("orders_pkey" | "order_payments_pkey" | "order_events_pkey") => StoreError::Again,
        Some(_) | None => error.into(),
    }
}
