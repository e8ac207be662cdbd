//! One order with its payments and the changes by its reports, newest first.

use domain::ids::{AppId, OrderNo};
use serde::Serialize;
use serde_json::Value;
use time::OffsetDateTime;

use super::search::StoredOrder;
use crate::error::Result;
use crate::store::Store;

/// How many payment attempts are listed.
const PAYMENTS_MAX: i64 = 100;

/// A payment attempt of an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct OrderPayment {
    /// Payment pre-order number.
    pub out_order_no: String,
    /// First report that named it, database time.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub first_seen_at: OffsetDateTime,
}

/// A report that changed the order.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct OrderEvent {
    /// 1 for the first report of the order. Each report that changes it adds one.
    pub seq: i64,
    /// Status code after the report.
    #[schemars(with = "domain::order::OrderStatus")]
    pub order_status: i16,
    /// Database time.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub at: OffsetDateTime,
    /// Its changes, in the order of the fields' names. The first report has all its fields.
    pub changes: Vec<OrderChange>,
}

/// A field that a report changed.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct OrderChange {
    /// Its name in the report.
    pub field: String,
    /// Its value before. `null` when it had none.
    pub before: Value,
    /// Its value after.
    pub after: Value,
}

/// The differences between two states of an order.
fn changes(before: Option<&Value>, after: &Value) -> Vec<OrderChange> {
    let value_before = |field: &str| before.and_then(|before| before.get(field)).cloned().unwrap_or_default();
    let fields = after.as_object().into_iter().flatten();
    let changes = fields.map(|(field, after)| OrderChange {
        field: field.clone(),
        before: value_before(field),
        after: after.clone(),
    });
    // A field that a report omits keeps its value, so no field disappears.
    changes.filter(|change| change.before != change.after).collect()
}

impl Store {
    /// The order with this number. `None` when the app has none.
    pub async fn order(&self, app_id: &AppId, out_biz_order_no: &OrderNo) -> Result<Option<StoredOrder>> {
        let key = vec![app_id.to_string(), out_biz_order_no.to_string()];
        Ok(self.orders_by_key(&[key]).await?.pop())
    }

    /// At most 100 payment attempts of an order, oldest first.
    pub async fn order_payments(
        &self,
        app_id: &AppId,
        out_biz_order_no: &OrderNo,
    ) -> Result<Vec<OrderPayment>> {
        // The stored reports lead to the payment attempts by their key. An index by order number
        // would cost every report, for this page alone.
        Ok(sqlx::query_as!(
            OrderPayment,
            "SELECT out_order_no, first_seen_at FROM order_payments
             WHERE app_id = $1 AND out_biz_order_no = $2 AND out_order_no = ANY (ARRAY(
                 SELECT DISTINCT report ->> 'out_order_no' FROM order_events
                 WHERE app_id = $1 AND out_biz_order_no = $2))
             ORDER BY first_seen_at, out_order_no LIMIT $3",
            app_id.as_str(),
            out_biz_order_no.as_str(),
            PAYMENTS_MAX
        )
        .fetch_all(&self.pool)
        .await?)
    }

    /// At most `limit` reports that changed an order, before the event `before`, newest first.
    pub async fn order_events(
        &self,
        app_id: &AppId,
        out_biz_order_no: &OrderNo,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<OrderEvent>> {
        let rows = sqlx::query!(
            r#"SELECT e.seq, e.order_status, e.at, e.report, former.report AS "former?"
               FROM order_events e
               LEFT JOIN order_events former ON former.app_id = e.app_id
                   AND former.out_biz_order_no = e.out_biz_order_no AND former.seq = e.seq - 1
               WHERE e.app_id = $1 AND e.out_biz_order_no = $2 AND e.seq < $3
               ORDER BY e.seq DESC LIMIT $4"#,
            app_id.as_str(),
            out_biz_order_no.as_str(),
            before.unwrap_or(i64::MAX),
            i64::from(limit)
        );
        let events = rows.fetch_all(&self.pool).await?.into_iter().map(|row| OrderEvent {
            seq: row.seq,
            order_status: row.order_status,
            at: row.at,
            changes: changes(row.former.as_ref(), &row.report),
        });
        Ok(events.collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_report_shows_what_it_changed_and_the_first_one_what_it_gave() {
        let told = |before: Option<Value>, after: Value| -> Vec<(String, Value, Value)> {
            let changes = changes(before.as_ref(), &after).into_iter();
            changes.map(|change| (change.field, change.before, change.after)).collect()
        };
        let first = json!({"order_status": 1, "poi_id": null});
        assert_eq!(told(None, first.clone()), [("order_status".to_owned(), Value::Null, json!(1))]);
        let second = json!({"order_status": 2, "poi_id": "p1"});
        let expected = [
            ("order_status".to_owned(), json!(1), json!(2)),
            ("poi_id".to_owned(), Value::Null, json!("p1")),
        ];
        assert_eq!(told(Some(first.clone()), second), expected);
        assert_eq!(told(Some(first.clone()), first), []);
    }
}
