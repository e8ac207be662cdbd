//! Orders: the search, and the page of one order with the changes of each report.

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::get;
use domain::fields::Expected;
use domain::ids::{AppId, OpenId, OrderNo};
use domain::moment;
use domain::order::OrderStatus;
use domain::order_center::Standing;
use serde_json::Value;
use store::{OrderCursor, OrderEvent, OrderFilter, OrderPayment, StoredOrder};
use time::OffsetDateTime;

use super::app_field::AppField;
use super::error::ConsoleError;
use super::form::Input;
use super::page::{Page, Section, Shown, render};
use super::route::Route;
use super::session::SignedIn;
use crate::state::AppState;

pub(super) const ROUTES: &[Route] = &[
    Route::page("/console/orders", || get(search)),
    Route::page("/console/apps/{app_id}/orders/{out_biz_order_no}", || get(order)),
];

/// Orders or reports on a page.
const ROWS: u32 = 50;

/// The name of a status code.
fn status_words(code: i16) -> &'static str {
    OrderStatus::from_code(code).map_or("Unknown", OrderStatus::meaning)
}

/// The style class of a status code.
fn status_class(code: i16) -> &'static str {
    match OrderStatus::from_code(code).map(OrderStatus::standing) {
        Some(Standing::Waits) | None => "wait",
        Some(Standing::Good) => "good",
        Some(Standing::Bad) => "bad",
    }
}

/// A time in an order, which the developer reports in milliseconds.
fn millis_shown(unix_millis: i64) -> String {
    moment::of_millis(unix_millis).map_or_else(|| unix_millis.to_string(), |moment| moment.shown())
}

/// The format of an order on a page.
pub(super) trait ShownOrder {
    /// The name of the status.
    fn status(&self) -> &'static str;
    /// The style class of the status.
    fn status_class(&self) -> &'static str;
    /// When the order was created, according to its report.
    fn ordered_at(&self) -> String;
    /// The fallback link, if it is a web address. The text is the address itself, with its host in ASCII, so
    /// that a link cannot imitate another host with similar letters.
    fn web_link(&self) -> Option<String>;
}

impl ShownOrder for StoredOrder {
    fn status(&self) -> &'static str {
        status_words(self.order_status)
    }

    fn status_class(&self) -> &'static str {
        status_class(self.order_status)
    }

    fn ordered_at(&self) -> String {
        millis_shown(self.order_create_time)
    }

    fn web_link(&self) -> Option<String> {
        let url = url::Url::parse(self.order_backup_url.as_deref()?).ok()?;
        matches!(url.scheme(), "http" | "https").then(|| url.into())
    }
}

/// Parses a moment that a user typed, to milliseconds.
fn parse_millis(text: &str) -> Result<i64, Expected> {
    let millis = moment::parse(text)?.unix_timestamp_nanos() / 1_000_000;
    i64::try_from(millis).map_err(|_| Expected::new("a moment within 64 bits of milliseconds"))
}

fn parse_status(text: &str) -> Result<i16, Expected> {
    OrderStatus::parse(text).map(OrderStatus::code)
}

#[derive(Template)]
#[template(path = "orders.html")]
struct SearchPage<'a> {
    page: Page<'a>,
    input: &'a Input,
    app_field: AppField<'a>,
    statuses: Vec<StatusChoice>,
    orders: &'a [StoredOrder],
    next: Option<String>,
}

struct StatusChoice {
    code: String,
    words: &'static str,
    is_chosen: bool,
}

/// Every status, for the search form.
fn status_choices(chosen: &str) -> Vec<StatusChoice> {
    let codes = OrderStatus::CODES.iter().filter_map(|code| i16::try_from(*code).ok());
    let choice = |code: i16| StatusChoice {
        code: code.to_string(),
        words: status_words(code),
        is_chosen: code.to_string() == chosen,
    };
    codes.map(choice).collect()
}

/// The filter of the search form.
fn filter(input: &Input) -> Result<OrderFilter, ConsoleError> {
    Ok(OrderFilter {
        app_id: input.optional("app_id", AppId::parse)?,
        number: input.optional("number", OrderNo::parse)?,
        open_id: input.optional("open_id", OpenId::parse)?,
        statuses: input.optional("status", parse_status)?.into_iter().collect(),
        city: Some(input.text("city")).filter(|city| !city.is_empty()).map(str::to_owned),
        created_since: input.optional("from", parse_millis)?,
        created_until: input.optional("to", parse_millis)?,
        after: input.optional("after", OrderCursor::parse)?,
    })
}

async fn search(
    State(state): State<AppState>,
    signed_in: SignedIn,
    input: Input,
) -> Result<Response, ConsoleError> {
    let found = state.store.orders(&filter(&input)?, ROWS).await?;
    let after = found.next.map(|next| next.to_string());
    let next = after.map(|after| input.address(Section::Orders.path(), &[("after", &after)]));
    Ok(render(&SearchPage {
        page: Page::new(&signed_in, Section::Orders, "Orders"),
        statuses: status_choices(input.text("status")),
        app_field: AppField::new(&state, input.text("app_id")).await?,
        input: &input,
        orders: &found.items,
        next,
    }))
}

#[derive(Template)]
#[template(path = "order.html")]
struct OrderDetailPage<'a> {
    page: Page<'a>,
    order: &'a StoredOrder,
    payments: &'a [OrderPayment],
    events: Vec<EventRow>,
    older: Option<String>,
}

struct EventRow {
    seq: i64,
    at: OffsetDateTime,
    status: &'static str,
    class: &'static str,
    changes: Vec<ChangeRow>,
}

struct ChangeRow {
    field: String,
    before: Option<String>,
    after: String,
}

impl From<OrderEvent> for EventRow {
    fn from(event: OrderEvent) -> Self {
        let (status, class) = (status_words(event.order_status), status_class(event.order_status));
        let is_first = event.seq == 1;
        let changes = event.changes.into_iter().map(|change| ChangeRow {
            before: (!is_first).then(|| value_shown(&change.field, &change.before)),
            after: value_shown(&change.field, &change.after),
            field: change.field,
        });
        Self { seq: event.seq, at: event.at, status, class, changes: changes.collect() }
    }
}

fn value_shown(field: &str, value: &Value) -> String {
    match (field, value) {
        (_, Value::Null) => "none".to_owned(),
        ("order_status", Value::Number(code)) => {
            let words = code.as_i64().and_then(|code| i16::try_from(code).ok()).map(status_words);
            format!("{code} {}", words.unwrap_or("Unknown"))
        }
        ("order_create_time", Value::Number(millis)) => {
            millis.as_i64().map_or_else(|| millis.to_string(), millis_shown)
        }
        (_, Value::String(text)) => text.clone(),
        (_, Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => value.to_string(),
    }
}

async fn order(
    State(state): State<AppState>,
    signed_in: SignedIn,
    Path((app_id, number)): Path<(String, String)>,
    input: Input,
) -> Result<Response, ConsoleError> {
    let unknown = || ConsoleError::NotFound(format!("The app {app_id} has no order {number}."));
    let app = AppId::parse(&app_id).map_err(|_| unknown())?;
    let out_biz_order_no = OrderNo::parse(&number).map_err(|_| unknown())?;
    let order = state.store.order(&app, &out_biz_order_no).await?.ok_or_else(unknown)?;
    let before = input.optional("before", parse_seq)?;
    let events = state.store.order_events(&app, &out_biz_order_no, before, ROWS).await?;
    let oldest = events.last().map_or(1, |event| event.seq);
    let earlier = (oldest > 1).then(|| format!("/console/apps/{app}/orders/{number}?before={oldest}"));
    Ok(render(&OrderDetailPage {
        page: Page::new(&signed_in, Section::Orders, format!("Order {number}")),
        order: &order,
        payments: &state.store.order_payments(&app, &out_biz_order_no).await?,
        events: events.into_iter().map(EventRow::from).collect(),
        older: earlier,
    }))
}

fn parse_seq(text: &str) -> Result<i64, Expected> {
    domain::fields::parse_integer(text, 1, i64::MAX, "the number of a report")
}
