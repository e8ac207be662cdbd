//! Orders, as developers have reported them.

use domain::fields::{FieldError, parse_integer};
use domain::ids::{AppId, OpenId, OrderNo, ProductCity};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use store::{OrderCursor, OrderEvent, OrderFilter, OrderPayment, StoredOrder};

use super::call::Call;
use super::describe::{ListBody, MOMENT, after, answers, lists};
use super::messages::{example, no_order};
use super::problem::Problem;
use super::routes::routes;
use crate::openapi::{APP_ID, FieldReader, IMG_ID, Input, OPEN_ID};
use crate::state::AppState;

routes! { "Orders":
    /// Show an order
    ///
    /// An order as it is, its payment attempts, and what its reports changed, newest first, 100 at most.
    GET "/apps/{app_id}/orders/{out_biz_order_no}", "getOrder", Read(Read): get -> OrderHistory =>
        answers("shown", "The order.", history_example());
    /// List orders
    ///
    /// Orders of all apps as developers have reported them, by the time they were created, newest first.
    /// With `status=open`, `longer=1d` and `sort=oldest` it lists stuck orders. A page looks through 500,000 orders at most, or
    /// 1,000 of each app, so it may be empty and have a `next`.
    GET "/orders", "listOrders", Read(Read, OwnApps): list -> ListBody<StoredOrder> =>
        lists("A page of orders.", &order_example())
            .query(filter)
            .wrong("status", "expected open or a status code: 1 to 6 or 10 to 15, got \"7\"")
            .refuses([example::no_app()]);
}

/// Reports of an order that are shown with it, the newest. The description of the route says it too.
const ORDER_EVENTS_MAX: u32 = 100;

async fn list(state: &AppState, call: &Call) -> Result<ListBody<StoredOrder>, Problem> {
    let filter = OrderFilter { apps: call.apps().clone(), ..call.read(filter)? };
    let found = state.store.orders(&filter, call.limit()?).await?;
    Ok(ListBody { items: found.items, next: found.next.map(|next| next.to_string()) })
}

fn filter(query: &mut Input<'_>) -> Result<OrderFilter, FieldError> {
    let city = |text: &str| ProductCity::parse(text).map(|city| city.to_string());
    Ok(OrderFilter {
        app_id: query.field("app_id", "Of this app alone.").example(APP_ID).optional(AppId::parse)?,
        number: query
            .field("number", "With this order number or payment number.")
            .optional(OrderNo::parse)?,
        open_id: query.field("open_id", "Of this player.").example(OPEN_ID).optional(OpenId::parse)?,
        statuses: query
            .field("status", "In this status, by its code. `open`: something is still to come.")
            .example("open")
            .demand("pattern", "^(open|[1-6]|1[0-5])$")
            .optional_as::<String, _>(OrderFilter::parse_statuses)?
            .unwrap_or_default(),
        city: query.field("city", "Whose city holds this text.").optional_as::<ProductCity, _>(city)?,
        created_since: millis(
            query.field("created_since", "Created at or after this moment, in milliseconds."),
        )?,
        created_until: millis(query.field("created_until", "Created before this moment, in milliseconds."))?,
        in_status_for: query
            .field("longer", "Whose status has not changed for this long, such as `36h` or `5d`.")
            .optional_as::<String, _>(OrderFilter::parse_wait)?,
        oldest_first: query
            .field("sort", "What comes first: the newest order, or the oldest.")
            .demand("enum", json!(OrderFilter::DIRECTIONS))
            .optional_as::<String, _>(OrderFilter::parse_oldest_first)?
            .unwrap_or_default(),
        after: after(query, OrderCursor::parse)?,
        ..OrderFilter::default()
    })
}

fn millis(field: FieldReader<'_, '_>) -> Result<Option<i64>, FieldError> {
    field.demand("minimum", 0).optional(|text| parse_integer(text, 0, i64::MAX, "milliseconds since 1970"))
}

/// An order with its payments and what its reports have changed.
async fn get(state: &AppState, call: &Call) -> Result<OrderHistory, Problem> {
    call.fields.only(&[])?;
    let (app_id, number) = (call.app_id()?, call.segment("out_biz_order_no", "order", OrderNo::parse)?);
    let order = state.store.order(&app_id, &number).await?.ok_or_else(|| no_order(&app_id, &number))?;
    let payments = state.store.order_payments(&app_id, &number).await?;
    let events = state.store.order_events(&app_id, &number, None, ORDER_EVENTS_MAX).await?;
    Ok(OrderHistory { order, payments, events })
}

/// An order with its payments and what its reports have changed.
#[derive(Serialize, JsonSchema)]
struct OrderHistory {
    order: StoredOrder,
    payments: Vec<OrderPayment>,
    events: Vec<OrderEvent>,
}

/// Order number of the example.
pub(super) const ORDER_NO: &str = "order-000001";
/// Payment number of the examples.
pub(super) const PAYMENT_NO: &str = "pay-000001";
const CREATED: i64 = 1_700_000_000_000;

fn order_example() -> Value {
    json!({
        "app_id": APP_ID, "out_biz_order_no": ORDER_NO, "out_order_no": PAYMENT_NO, "open_id": OPEN_ID,
        "order_create_time": CREATED, "order_status": 2, "goods_kind": null, "order_path": "pages/order/detail?id=1",
        "product_cover_img_id": IMG_ID, "order_backup_url": null, "poi_id": null, "product_id": null,
        "product_catalog_code": null, "product_city": null, "event_count": 1, "created_at": MOMENT,
        "updated_at": MOMENT,
    })
}

fn history_example() -> Value {
    let given = |field: &str, after: Value| json!({ "field": field, "before": null, "after": after });
    let changes = [
        given("open_id", OPEN_ID.into()),
        given("order_create_time", CREATED.into()),
        given("order_path", "pages/order/detail?id=1".into()),
        given("order_status", 2.into()),
        given("out_order_no", PAYMENT_NO.into()),
        given("product_cover_img_id", IMG_ID.into()),
    ];
    let payment = json!({ "out_order_no": PAYMENT_NO, "first_seen_at": MOMENT });
    let event = json!({ "seq": 1, "order_status": 2, "at": MOMENT, "changes": changes });
    json!({ "order": order_example(), "payments": [payment], "events": [event] })
}
