//! Orders as the document tells them.

use domain::ids::{AppId, OpenId, OrderNo, PRODUCT_CITY_CHARS_MAX};
use domain::order::OrderStatus;

use super::apps::{MOMENT, app_in_path};
use super::problems::{example, wrong_field};
use super::{
    Said, answers, list_of, moment, operation, page_of, paging, record, text, text_or_null, whole_number,
};
use crate::openapi::json::{Json, object};
use crate::openapi::operation::{APP_ID, Field, IMG_ID, OPEN_ID, Place, integer, pattern, text as text_of};
use crate::operator::admin::{ORDER_EVENTS_MAX, messages};

const ORDER_NO: &str = "order-000001";
const PAYMENT_NO: &str = "pay-000001";
const CREATED: i64 = 1_700_000_000_000;

fn order() -> Json {
    record(vec![
        ("app_id", pattern(AppId::PATTERN)),
        ("out_biz_order_no", pattern(OrderNo::PATTERN)),
        ("out_order_no", pattern(OrderNo::PATTERN)),
        ("open_id", pattern(OpenId::PATTERN)),
        ("order_create_time", whole_number()),
        ("order_status", status()),
        ("goods_kind", text_or_null()),
        ("order_path", text()),
        ("product_cover_img_id", text()),
        ("order_backup_url", text_or_null()),
        ("poi_id", text_or_null()),
        ("product_id", text_or_null()),
        ("product_catalog_code", object! { "type": vec!["integer", "null"] }),
        ("product_city", text_or_null()),
        ("event_count", whole_number()),
        ("created_at", moment()),
        ("updated_at", moment()),
    ])
}

fn status() -> Json {
    object! { "type": "integer", "enum": OrderStatus::CODES.to_vec() }
}

fn order_example() -> Json {
    object! {
        "app_id": APP_ID,
        "created_at": MOMENT,
        "event_count": 1,
        "goods_kind": Json::Null,
        "open_id": OPEN_ID,
        "order_backup_url": Json::Null,
        "order_create_time": CREATED,
        "order_path": "pages/order/detail?id=1",
        "order_status": 2,
        "out_biz_order_no": ORDER_NO,
        "out_order_no": PAYMENT_NO,
        "poi_id": Json::Null,
        "product_catalog_code": Json::Null,
        "product_city": Json::Null,
        "product_cover_img_id": IMG_ID,
        "product_id": Json::Null,
        "updated_at": MOMENT,
    }
}

pub(super) fn list() -> Said {
    let millis = || integer(0, i64::MAX);
    let mut parameters = vec![
        Field::optional("app_id", pattern(AppId::PATTERN), "Of this app alone.")
            .example(APP_ID)
            .at(Place::Query),
        Field::optional("number", pattern(OrderNo::PATTERN), "With this order number or payment number.")
            .at(Place::Query),
        Field::optional("open_id", pattern(OpenId::PATTERN), "Of this player.")
            .example(OPEN_ID)
            .at(Place::Query),
        Field::optional("status", status(), "In this status.").example(2).at(Place::Query),
        Field::optional("city", text_of(1, PRODUCT_CITY_CHARS_MAX), "Whose city holds this text.")
            .at(Place::Query),
        Field::optional("created_since", millis(), "Made at or after this moment, in milliseconds.")
            .at(Place::Query),
        Field::optional("created_until", millis(), "Made before this moment, in milliseconds.")
            .at(Place::Query),
    ];
    parameters.extend(paging());
    let example = object! { "items": vec![order_example()], "next": Json::Null };
    let operation = operation(
        "List orders",
        "Orders of all apps as developers have reported them, by the time they were made, newest first.",
        answers("listed", "A page of orders.", page_of(order()), example),
    );
    let wrong = wrong_field("status", "expected a status code: 1 to 6 or 10 to 15, got \"7\"");
    Said { operation: operation.with_parameters(parameters), problems: vec![wrong] }
}

pub(super) fn get() -> Said {
    let payment = record(vec![("out_order_no", text()), ("first_seen_at", moment())]);
    let change = object! { "type": "object", "required": vec!["field", "before", "after"] };
    let event = record(vec![
        ("seq", whole_number()),
        ("order_status", status()),
        ("at", moment()),
        ("changes", list_of(change)),
    ]);
    let schema = record(vec![("order", order()), ("payments", list_of(payment)), ("events", list_of(event))]);
    let given = |field: &str, after: Json| object! { "after": after, "before": Json::Null, "field": field };
    let changes = vec![
        given("open_id", Json::from(OPEN_ID)),
        given("order_create_time", Json::from(CREATED)),
        given("order_path", Json::from("pages/order/detail?id=1")),
        given("order_status", Json::from(2)),
        given("out_order_no", Json::from(PAYMENT_NO)),
        given("product_cover_img_id", Json::from(IMG_ID)),
    ];
    let event = object! { "at": MOMENT, "changes": changes, "order_status": 2, "seq": 1 };
    let payment = object! { "first_seen_at": MOMENT, "out_order_no": PAYMENT_NO };
    let example_of = object! { "events": vec![event], "order": order_example(), "payments": vec![payment] };
    let number =
        Field::required("out_biz_order_no", pattern(OrderNo::PATTERN), ORDER_NO, "The order number.");
    let operation = operation(
        "Show an order",
        format!(
            "An order as it stands, its payment attempts, and what its reports changed, newest first, {ORDER_EVENTS_MAX} at most."
        ),
        answers("shown", "The order.", schema, example_of),
    );
    let ids = (AppId::parse(APP_ID), OrderNo::parse(ORDER_NO));
    let (Ok(app_id), Ok(order_no)) = ids else { panic!("the order of the examples has a number") };
    let unknown =
        example("no_order", "Nobody has reported this order.", messages::no_order(&app_id, &order_no));
    let operation = operation.with_parameters(vec![app_in_path(), number.at(Place::Path)]);
    Said { operation, problems: vec![unknown] }
}
