//! Orders, as developers have reported them.

use domain::fields::{Expected, parse_integer};
use domain::ids::{AppId, OpenId, OrderNo, ProductCity};
use domain::order::OrderStatus;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use store::{OrderCursor, OrderEvent, OrderFilter, OrderPayment, StoredOrder};

use super::call::Call;
use super::describe::{self, Described, MOMENT, Page, app_in_path, describe, problem, wrong_field};
use super::messages::no_order;
use super::problem::Problem;
use crate::openapi::{APP_ID, Field, IMG_ID, OPEN_ID};
use crate::state::AppState;

/// Reports of an order that are shown with it, the newest.
const ORDER_EVENTS_MAX: u32 = 100;

fn millis(text: &str) -> Result<i64, Expected> {
    parse_integer(text, 0, i64::MAX, "milliseconds since 1970")
}

pub(super) async fn list(state: &AppState, call: &Call) -> Result<Page<StoredOrder>, Problem> {
    let names =
        ["app_id", "number", "open_id", "status", "city", "created_since", "created_until", "limit", "after"];
    let query = call.query(&names)?;
    let status = query.optional("status", OrderStatus::parse)?;
    let filter = OrderFilter {
        app_id: query.optional("app_id", AppId::parse)?,
        number: query.optional("number", OrderNo::parse)?,
        open_id: query.optional("open_id", OpenId::parse)?,
        statuses: status.map(OrderStatus::code).into_iter().collect(),
        city: query.optional("city", ProductCity::parse)?.map(|city| city.to_string()),
        created_since: query.optional("created_since", millis)?,
        created_until: query.optional("created_until", millis)?,
        after: query.optional("after", OrderCursor::parse)?,
    };
    let found = state.store.orders(&filter, call.limit()?).await?;
    Ok(Page { items: found.items, next: found.next.map(|next| next.to_string()) })
}

/// An order with its payments and what its reports have changed.
pub(super) async fn get(state: &AppState, call: &Call) -> Result<OrderHistory, Problem> {
    call.query(&[])?;
    let (app_id, number) = (call.app_id()?, call.segment("out_biz_order_no", "order", OrderNo::parse)?);
    let order = state.store.order(&app_id, &number).await?.ok_or_else(|| no_order(&app_id, &number))?;
    let payments = state.store.order_payments(&app_id, &number).await?;
    let events = state.store.order_events(&app_id, &number, None, ORDER_EVENTS_MAX).await?;
    Ok(OrderHistory { order, payments, events })
}

/// An order with its payments and what its reports have changed.
#[derive(Serialize, JsonSchema)]
pub(super) struct OrderHistory {
    order: StoredOrder,
    payments: Vec<OrderPayment>,
    events: Vec<OrderEvent>,
}

const ORDER_NO: &str = "order-000001";
const PAYMENT_NO: &str = "pay-000001";
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

pub(super) fn describe_list() -> Described<Page<StoredOrder>> {
    let millis = |name, description: &str| Field::optional::<i64>(name, description).demand("minimum", 0);
    describe(
        "List orders",
        "Orders of all apps as developers have reported them, by the time they were made, newest first.",
        ("listed", "A page of orders."),
        json!({ "items": [order_example()], "next": null }),
    )
    .query([
        Field::optional::<AppId>("app_id", "Of this app alone.").example(APP_ID),
        Field::optional::<OrderNo>("number", "With this order number or payment number."),
        Field::optional::<OpenId>("open_id", "Of this player.").example(OPEN_ID),
        Field::optional::<OrderStatus>("status", "In this status.").example(2),
        Field::optional::<ProductCity>("city", "Whose city holds this text."),
        millis("created_since", "Made at or after this moment, in milliseconds."),
        millis("created_until", "Made before this moment, in milliseconds."),
    ])
    .paged()
    .refuses([wrong_field("status", "expected a status code: 1 to 6 or 10 to 15, got \"7\"")])
}

pub(super) fn describe_get() -> Described<OrderHistory> {
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
    let number = OrderNo::parse(ORDER_NO).expect("the example is an order number");
    describe(
        "Show an order",
        format!(
            "An order as it is, its payment attempts, and what its reports changed, newest first, {ORDER_EVENTS_MAX} at most."
        ),
        ("shown", "The order."),
        json!({ "order": order_example(), "payments": [payment], "events": [event] }),
    )
    .path([app_in_path(), Field::required::<OrderNo>("out_biz_order_no", ORDER_NO, "The order number.")])
    .refuses([problem("no_order", "Nobody has reported this order.", no_order(&describe::app_id(), &number))])
}
