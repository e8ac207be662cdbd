//! Orders, as developers have reported them.

use domain::fields::{Expected, parse_integer};
use domain::ids::{AppId, OpenId, OrderNo, ProductCity};
use domain::order::OrderStatus;
use serde_json::{Value, json};
use store::{OrderCursor, OrderFilter};

use super::call::Call;
use super::messages::no_order;
use super::problem::Problem;
use crate::state::AppState;

/// Reports of an order that are shown with it, the newest.
pub const ORDER_EVENTS_MAX: u32 = 100;

fn millis(text: &str) -> Result<i64, Expected> {
    parse_integer(text, 0, i64::MAX, "milliseconds since 1970")
}

pub(super) async fn list(state: &AppState, call: &Call) -> Result<Value, Problem> {
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
    Ok(json!({ "items": found.orders, "next": found.next.map(|next| next.to_string()) }))
}

/// An order with its payments and what its reports have changed.
pub(super) async fn get(state: &AppState, call: &Call) -> Result<Value, Problem> {
    call.query(&[])?;
    let (app_id, number) = (call.app_id()?, call.segment("out_biz_order_no", "order", OrderNo::parse)?);
    let order = state.store.order(&app_id, &number).await?.ok_or_else(|| no_order(&app_id, &number))?;
    let payments = state.store.order_payments(&app_id, &number).await?;
    let events = state.store.order_events(&app_id, &number, None, ORDER_EVENTS_MAX).await?;
    Ok(json!({ "order": order, "payments": payments, "events": events }))
}
