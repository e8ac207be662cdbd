//! Search of orders for operators and players, newest or oldest first.
//!
//! A cursor is an order, and not a number of rows. The sort key of an order never changes. So
//! orders that arrive meanwhile do not shift pages.
//!
//! No index has city, status or waiting time. So a page examines a limited number of orders, and the next one goes on
//! from there (contract 8.6.27).

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use domain::fields::Expected;
use domain::ids::{AppId, OpenId, OrderNo};
use domain::order::{Order, OrderStatus};
use domain::order_center;
use domain::rights::Apps;
use serde::{Deserialize, Serialize};
use sqlx::types::Json;
use time::OffsetDateTime;

use crate::error::{Result, StoreError};
use crate::paging::ListPage;
use crate::store::Store;

/// The present state of an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "Order")]
pub struct StoredOrder {
    /// The app.
    pub app_id: AppId,
    /// Order number that the player sees.
    pub out_biz_order_no: OrderNo,
    /// Its state.
    #[serde(flatten)]
    pub order: Order,
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

impl Deref for StoredOrder {
    type Target = Order;

    fn deref(&self) -> &Order {
        &self.order
    }
}

/// Longest time in a status that can be asked for: a hundred years.
const WAIT_MAX: Duration = Duration::from_hours(100 * 365 * 24);

/// How many orders a page examines at most, of all apps together.
const LOOKED_THROUGH_MAX: i64 = 500_000;
/// How many orders of each app a page examines at least, however many apps there are.
const LOOKED_THROUGH_MIN: i64 = 1_000;

/// A filter of orders. The default lets all orders through.
#[derive(Debug, Clone, Default)]
pub struct OrderFilter {
    /// Only of this app.
    pub app_id: Option<AppId>,
    /// Only of these apps.
    pub apps: Apps,
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
    /// In their present status for at least this time, by the database's clock. Reports that changed something else
    /// do not count.
    pub in_status_for: Option<Duration>,
    /// Oldest first instead of newest first.
    pub oldest_first: bool,
    /// After this order of an earlier page.
    pub after: Option<OrderCursor>,
}

/// The words of a filter, the same in the console, the admin API and the command line (contract 8.6.27).
impl OrderFilter {
    /// The word for every status after which something is still to come.
    pub const OPEN: &str = "open";
    /// The directions of a list, by the age of orders. The first is the default.
    pub const DIRECTIONS: [&str; 2] = ["newest", "oldest"];

    /// Parses a status code, or the word for all open statuses.
    ///
    /// # Errors
    /// Any other text.
    pub fn parse_statuses(text: &str) -> Result<Vec<i16>, Expected> {
        if text == Self::OPEN {
            return Ok(order_center::OPEN.to_vec());
        }
        let status = OrderStatus::parse(text).map(|status| vec![status.code()]);
        status.map_err(|_| Expected::new("open or a status code: 1 to 6 or 10 to 15"))
    }

    /// Parses how long the status of an order has not changed.
    ///
    /// # Errors
    /// No duration, or more than a hundred years.
    pub fn parse_wait(text: &str) -> Result<Duration, Expected> {
        let read = humantime::parse_duration(text).ok().filter(|wait| *wait <= WAIT_MAX);
        read.ok_or_else(|| Expected::new("a duration such as 36h or 5d, at most 36500d"))
    }

    /// Parses a direction. True: the oldest order is the first.
    ///
    /// # Errors
    /// Any other text.
    pub fn parse_oldest_first(text: &str) -> Result<bool, Expected> {
        match text {
            "newest" => Ok(false),
            "oldest" => Ok(true),
            _ => Err(Expected::one_of(&Self::DIRECTIONS)),
        }
    }
}

/// A position in a list of orders, newest or oldest first. Its text form can be part of a URL.
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

    /// The position of an order of this app. `None` for what is no order.
    pub(crate) fn of_app(app_id: &AppId, order_create_time: &str, out_biz_order_no: &str) -> Option<Self> {
        let (time, number) = (order_create_time.parse().ok()?, OrderNo::parse(out_biz_order_no).ok()?);
        Some(Self { order_create_time: time, app_id: app_id.clone(), out_biz_order_no: number })
    }

    fn of(order: &StoredOrder) -> Self {
        let (app_id, out_biz_order_no) = (order.app_id.clone(), order.out_biz_order_no.clone());
        Self { order_create_time: order.order_create_time, app_id, out_biz_order_no }
    }
}

impl fmt::Display for OrderCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Neither an app id nor an order number contains a point.
        write!(f, "{}.{}.{}", self.order_create_time, self.app_id, self.out_biz_order_no)
    }
}

/// An order that matches, or the last one of its app that a page has examined.
#[derive(Deserialize)]
struct ExaminedOrder {
    app_id: String,
    out_biz_order_no: String,
    order_create_time: i64,
    /// Whether it matches the filter.
    is_match: bool,
    /// Whether it is the last that a page may examine of its app. There may be later ones.
    is_last: bool,
}

impl ExaminedOrder {
    fn place(&self) -> Result<OrderCursor> {
        let place = format!("{}.{}.{}", self.order_create_time, self.app_id, self.out_biz_order_no);
        OrderCursor::parse(&place).map_err(|_| StoreError::damaged("orders"))
    }
}

/// The query for the keys of orders. `$found_by` decides which index it uses. It reads each app
/// separately, so that all indexes start with the app. Of each app it reads at most one page, and examines at most
/// `$examined` orders.
macro_rules! order_keys {
    ($store:expr, $found_by:tt, $filter:expr, $key:expr, $limit:expr, $examined:expr) => {
        if $filter.oldest_first {
            order_keys!($found_by, "ASC", ">", $filter, $key, $limit, $examined)
                .fetch_all(&$store.pool)
                .await?
        } else {
            order_keys!($found_by, "DESC", "<", $filter, $key, $limit, $examined)
                .fetch_all(&$store.pool)
                .await?
        }
    };
    ($found_by:tt, $direction:tt, $beyond:tt, $filter:expr, $key:expr, $limit:expr, $examined:expr) => {{
        let (filter, place) = ($filter, CreationRange::of($filter));
        sqlx::query_scalar!(
            r#"SELECT json_build_object('app_id', f.app_id, 'out_biz_order_no', f.out_biz_order_no,
                   'order_create_time', f.order_create_time, 'is_match', f.is_match, 'is_last', f.is_last)
                   AS "order!: Json<ExaminedOrder>"
               FROM apps a CROSS JOIN LATERAL (
                   SELECT o.app_id, o.out_biz_order_no, o.order_create_time, m.is_match, o.place = $14 AS is_last
                   FROM (
                       SELECT o.*, row_number() OVER (ORDER BY o.order_create_time "#
                + $direction
                + ", o.out_biz_order_no "
                + $direction
                + r#") AS place
                       FROM orders o WHERE o.app_id = a.app_id AND "#
                + $found_by
                + r#" AND o.order_create_time BETWEEN $4 AND $5
                          AND ($6::text IS NULL OR o.open_id = $6)
                          AND ($9::text IS NULL
                               OR (o.order_create_time, o.app_id, o.out_biz_order_no) "#
                + $beyond
                + r#" ($10, $9, $11))
                       ORDER BY o.order_create_time "#
                + $direction
                + ", o.out_biz_order_no "
                + $direction
                + r#" LIMIT $14) AS o
                   CROSS JOIN LATERAL (SELECT coalesce(
                       (cardinality($7::smallint[]) = 0 OR o.order_status = ANY ($7))
                       AND ($8::text IS NULL OR strpos(o.product_city, $8) > 0)
                       AND ($12::float8 IS NULL
                           OR (o.created_at <= now() - make_interval(secs => $12)
                               AND (o.updated_at <= now() - make_interval(secs => $12)
                                    OR (SELECT e.order_status FROM order_events e
                                        WHERE e.app_id = o.app_id AND e.out_biz_order_no = o.out_biz_order_no
                                          AND e.at <= now() - make_interval(secs => $12)
                                        ORDER BY e.seq DESC LIMIT 1) = o.order_status
                                       AND NOT EXISTS (
                                           SELECT FROM order_events e
                                           WHERE e.app_id = o.app_id AND e.out_biz_order_no = o.out_biz_order_no
                                             AND e.at > now() - make_interval(secs => $12)
                                             AND e.order_status <> o.order_status)))), false) AS is_match) AS m
                   WHERE m.is_match OR o.place = $14
                   ORDER BY o.order_create_time "#
                + $direction
                + ", o.out_biz_order_no "
                + $direction
                + r#" LIMIT $3) AS f
               WHERE ($1::text IS NULL OR a.app_id = $1) AND ($13::text[] IS NULL OR a.app_id = ANY ($13))
               ORDER BY f.order_create_time "#
                + $direction
                + ", f.app_id "
                + $direction
                + ", f.out_biz_order_no "
                + $direction
                + " LIMIT $3",
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
            filter.in_status_for.map(|time| time.as_secs_f64()),
            filter.apps.ids(),
            $examined,
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
        let since = filter.created_since.unwrap_or(i64::MIN);
        match filter.after.as_ref().map(|after| after.order_create_time) {
            Some(after) if filter.oldest_first => Self { since: since.max(after), until },
            Some(after) => Self { since, until: until.min(after) },
            None => Self { since, until },
        }
    }
}

impl Store {
    /// At most `limit` orders that match `filter`, by their creation time. A page that has examined as many orders as it
    /// may can have few items and a `next`.
    pub async fn orders(
        &self,
        filter: &OrderFilter,
        limit: u32,
    ) -> Result<ListPage<StoredOrder, OrderCursor>> {
        // One more row shows whether there is another page.
        let wanted = i64::from(limit) + 1;
        let examined = self.examined_of_each(filter).await?;
        let mut found: Vec<Json<ExaminedOrder>> = if let Some(number) = &filter.number {
            order_keys!(
                self,
                "o.out_biz_order_no = ANY (ARRAY(
                     SELECT $2::text UNION ALL SELECT p.out_biz_order_no FROM order_payments p
                     WHERE p.app_id = a.app_id AND p.out_order_no = $2))",
                filter,
                number.as_str(),
                wanted,
                examined
            )
        } else if let Some(open_id) = &filter.open_id {
            order_keys!(self, "o.open_id = $2", filter, open_id.as_str(), wanted, examined)
        } else {
            order_keys!(self, "$2::text IS NULL", filter, None::<&str>, wanted, examined)
        };
        let mut through = None;
        if let Some(last) = found.iter().position(|order| order.is_last) {
            // Beyond it there may be orders that match and were not examined.
            found.truncate(last + 1);
            through = found.last().map(|order| order.place()).transpose()?;
        }
        let matching = found.into_iter().map(|Json(order)| order).filter(|order| order.is_match);
        let keys: Vec<_> = matching.map(|order| vec![order.app_id, order.out_biz_order_no]).collect();
        let mut orders = self.orders_by_key(&keys).await?;
        if filter.oldest_first {
            orders.reverse();
        }
        let page = ListPage::cut(orders, limit, OrderCursor::of);
        Ok(ListPage { next: page.next.or(through), ..page })
    }

    /// How many orders of each app a page examines. Those without orders take no share.
    async fn examined_of_each(&self, filter: &OrderFilter) -> Result<i64> {
        let apps = sqlx::query_scalar!(
            r#"SELECT count(*) AS "apps!" FROM apps a
               WHERE ($1::text IS NULL OR a.app_id = $1) AND ($2::text[] IS NULL OR a.app_id = ANY ($2))
                   AND EXISTS (SELECT FROM orders o WHERE o.app_id = a.app_id)"#,
            filter.app_id.as_ref().map(AppId::as_str),
            filter.apps.ids()
        );
        let apps = apps.fetch_one(&self.pool).await?;
        Ok((LOOKED_THROUGH_MAX / apps.max(1)).max(LOOKED_THROUGH_MIN))
    }

    /// The orders with these keys, newest first.
    pub(super) async fn orders_by_key(&self, keys: &[Vec<String>]) -> Result<Vec<StoredOrder>> {
        let part = |place: usize| keys.iter().filter_map(|key| key.get(place).cloned()).collect::<Vec<_>>();
        let orders = sqlx::query_scalar!(
            r#"SELECT to_jsonb(o) AS "order!: Json<StoredOrder>"
               FROM unnest($1::text[], $2::text[]) AS k (app_id, out_biz_order_no)
               JOIN orders o ON o.app_id = k.app_id AND o.out_biz_order_no = k.out_biz_order_no
               ORDER BY o.order_create_time DESC, o.app_id DESC, o.out_biz_order_no DESC"#,
            &part(0),
            &part(1)
        );
        Ok(orders.fetch_all(&self.pool).await?.into_iter().map(|Json(order)| order).collect())
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
