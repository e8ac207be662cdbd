//! Search of orders for operators and players, newest first.
//!
//! A cursor is an order, and not a number of rows. The sort key of an order never changes. So
//! orders that arrive meanwhile do not shift pages.

use std::fmt;

use domain::fields::Expected;
use domain::ids::{AppId, OpenId, OrderNo};
use serde::Serialize;
use time::OffsetDateTime;

use crate::paging::cut_to_page;
use crate::{Store, StoreError};

/// The present state of an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "Order")]
pub struct StoredOrder {
    /// The app.
    #[schemars(with = "AppId")]
    pub app_id: String,
    /// Order number that the player sees.
    #[schemars(with = "OrderNo")]
    pub out_biz_order_no: String,
    /// Payment pre-order number of the last report.
    #[schemars(with = "OrderNo")]
    pub out_order_no: String,
    /// The player.
    #[schemars(with = "OpenId")]
    pub open_id: String,
    /// Time of the order in Unix milliseconds, as reported.
    pub order_create_time: i64,
    /// Status code of contract 4.3.
    #[schemars(with = "domain::order::OrderStatus")]
    pub order_status: i16,
    /// `virtual` or `physical`, after a status that decides it.
    pub goods_kind: Option<String>,
    /// In-app path, as reported.
    pub order_path: String,
    /// Cover image.
    pub product_cover_img_id: String,
    /// Fallback web link, as reported.
    pub order_backup_url: Option<String>,
    /// Point of interest.
    pub poi_id: Option<String>,
    /// Product id.
    pub product_id: Option<String>,
    /// Product category code.
    pub product_catalog_code: Option<i64>,
    /// City of the product.
    pub product_city: Option<String>,
    /// Number of reports that changed the order.
    pub event_count: i64,
    /// Database time of the first report.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub created_at: OffsetDateTime,
    /// Database time of the last report that changed the order.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub updated_at: OffsetDateTime,
}

/// A filter of orders. The default lets all orders through.
#[derive(Debug, Clone, Default)]
pub struct OrderFilter {
    /// Only of this app.
    pub app_id: Option<AppId>,
    /// With this order number, or with this payment number in one of its reports.
    pub number: Option<OrderNo>,
    /// Only of this player.
    pub open_id: Option<OpenId>,
    /// With one of these status codes (contract 4.3). Empty lets all through.
    pub statuses: Vec<i16>,
    /// With this text in the city.
    pub city: Option<String>,
    /// Made at or after this time, in Unix milliseconds.
    pub created_since: Option<i64>,
    /// Made before this time, in Unix milliseconds.
    pub created_until: Option<i64>,
    /// After this order of an earlier page.
    pub after: Option<OrderCursor>,
}

/// A position in a list of orders, newest first. Its text form can be part of a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderCursor {
    order_create_time: i64,
    app_id: AppId,
    out_biz_order_no: OrderNo,
}

impl OrderCursor {
    /// Parses the text form.
    pub fn parse(text: &str) -> Result<Self, Expected> {
        let mut parts = text.splitn(3, '.');
        let mut part = || parts.next().unwrap_or_default();
        let place = (part().parse().ok(), AppId::parse(part()).ok(), OrderNo::parse(part()).ok());
        match place {
            (Some(order_create_time), Some(app_id), Some(out_biz_order_no)) => {
                Ok(Self { order_create_time, app_id, out_biz_order_no })
            }
            _ => Err(Expected::new("the place of an order in a list, as an earlier page gave it")),
        }
    }

    fn of(order: &StoredOrder) -> Result<Self, StoreError> {
        let damaged = StoreError::damaged;
        Ok(Self {
            order_create_time: order.order_create_time,
            app_id: AppId::parse(&order.app_id).map_err(|_| damaged("orders.app_id"))?,
            out_biz_order_no: OrderNo::parse(&order.out_biz_order_no)
                .map_err(|_| damaged("orders.out_biz_order_no"))?,
        })
    }
}

impl fmt::Display for OrderCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Neither an app id nor an order number contains a point.
        write!(f, "{}.{}.{}", self.order_create_time, self.app_id, self.out_biz_order_no)
    }
}

/// A page of orders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderPage {
    /// Newest first.
    pub orders: Vec<StoredOrder>,
    /// The cursor of the next page, or `None`.
    pub next: Option<OrderCursor>,
}

/// The query for the keys of orders. `$found_by` decides which index it uses. It reads each app
/// separately, so that all indexes start with the app. Of each app it reads at most one page.
macro_rules! order_keys {
    ($found_by:tt, $filter:expr, $key:expr, $limit:expr) => {{
        let (filter, place) = ($filter, CreationRange::of($filter));
        sqlx::query_scalar!(
            r#"SELECT ARRAY[f.app_id, f.out_biz_order_no] AS "key!"
               FROM apps a CROSS JOIN LATERAL (
                   SELECT o.app_id, o.out_biz_order_no, o.order_create_time
                   FROM orders o WHERE o.app_id = a.app_id AND "#
                + $found_by
                + r#" AND o.order_create_time BETWEEN $4 AND $5
                      AND ($6::text IS NULL OR o.open_id = $6)
                      AND (cardinality($7::smallint[]) = 0 OR o.order_status = ANY ($7))
                      AND ($8::text IS NULL OR strpos(o.product_city, $8) > 0)
                      AND ($9::text IS NULL
                           OR (o.order_create_time, o.app_id, o.out_biz_order_no) < ($10, $9, $11))
                   ORDER BY o.order_create_time DESC, o.out_biz_order_no DESC LIMIT $3) AS f
               WHERE $1::text IS NULL OR a.app_id = $1
               ORDER BY f.order_create_time DESC, f.app_id DESC, f.out_biz_order_no DESC LIMIT $3"#,
            filter.app_id.as_ref().map(AppId::as_str),
            $key,
            $limit,
            place.since,
            place.until,
            filter.open_id.as_ref().map(OpenId::as_str),
            &filter.statuses,
            filter.city.as_deref(),
            filter.after.as_ref().map(|after| after.app_id.as_str()),
            filter.after.as_ref().map(|after| after.order_create_time),
            filter.after.as_ref().map(|after| after.out_biz_order_no.as_str()),
        )
        // The best plan depends on the filters, so the query is planned each time.
        .persistent(false)
    }};
}

/// The range of creation times of a page, both ends included. The cursor limits it, too, so that
/// the index leads there.
struct CreationRange {
    since: i64,
    until: i64,
}

impl CreationRange {
    fn of(filter: &OrderFilter) -> Self {
        let until = filter.created_until.map_or(i64::MAX, |until| until.saturating_sub(1));
        let after = filter.after.as_ref().map_or(i64::MAX, |after| after.order_create_time);
        Self { since: filter.created_since.unwrap_or(i64::MIN), until: until.min(after) }
    }
}

impl Store {
    /// At most `limit` orders that match `filter`, newest first by their creation time.
    pub async fn orders(&self, filter: &OrderFilter, limit: u32) -> Result<OrderPage, StoreError> {
        // One more row shows whether there is another page.
        let wanted = i64::from(limit) + 1;
        let keys: Vec<Vec<String>> = if let Some(number) = &filter.number {
            order_keys!(
                "o.out_biz_order_no = ANY (ARRAY(
                     SELECT $2::text UNION ALL SELECT p.out_biz_order_no FROM order_payments p
                     WHERE p.app_id = a.app_id AND p.out_order_no = $2))",
                filter,
                number.as_str(),
                wanted
            )
            .fetch_all(&self.pool)
            .await?
        } else if let Some(open_id) = &filter.open_id {
            order_keys!("o.open_id = $2", filter, open_id.as_str(), wanted).fetch_all(&self.pool).await?
        } else {
            order_keys!("$2::text IS NULL", filter, None::<&str>, wanted).fetch_all(&self.pool).await?
        };
        let mut orders = self.orders_by_key(&keys).await?;
        let has_more = cut_to_page(&mut orders, limit);
        let next = orders.last().filter(|_| has_more).map(OrderCursor::of).transpose()?;
        Ok(OrderPage { orders, next })
    }

    /// The orders with these keys, newest first.
    pub(super) async fn orders_by_key(&self, keys: &[Vec<String>]) -> Result<Vec<StoredOrder>, StoreError> {
        let part = |place: usize| keys.iter().filter_map(|key| key.get(place).cloned()).collect::<Vec<_>>();
        Ok(sqlx::query_as!(
            StoredOrder,
            "SELECT o.app_id, o.out_biz_order_no, o.out_order_no, o.open_id, o.order_create_time, o.order_status,
                    o.goods_kind, o.order_path, o.product_cover_img_id, o.order_backup_url, o.poi_id, o.product_id,
                    o.product_catalog_code, o.product_city, o.event_count, o.created_at, o.updated_at
             FROM unnest($1::text[], $2::text[]) AS k (app_id, out_biz_order_no)
             JOIN orders o ON o.app_id = k.app_id AND o.out_biz_order_no = k.out_biz_order_no
             ORDER BY o.order_create_time DESC, o.app_id DESC, o.out_biz_order_no DESC",
            &part(0),
            &part(1)
        )
        .fetch_all(&self.pool)
        .await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_a_list_reads_back_and_nothing_else_does() {
        for text in ["1700000000000.a-1_b.order*1", "-5.a.123456"] {
            assert_eq!(OrderCursor::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "1", "1.a", "1.a.1", "x.a.123456", "1.a b.123456", "1.a.123456.7", "1..123456"] {
            assert!(OrderCursor::parse(text).is_err(), "{text}");
        }
    }
}
