//! Orders: the search, and the page of one order with the changes of each report.

use askama::Template;
use axum::extract::Path;
use axum::routing::get;
use domain::fields::{Expected, Fields, parse_integer};
use domain::ids::{AppId, OpenId, OrderNo};
use domain::moment;
use domain::order::OrderStatus;
use domain::order_center::Standing;
use domain::text;
use domain::text::Text;
use serde_json::Value;
use store::{OrderCursor, OrderEvent, OrderFilter, OrderPayment, StoredOrder};

use super::error::ConsoleError;
use super::i18n::{Markup, Moment as _, id, parse_moment, said};
use super::page::{Page, Section, Shown, render, render_search};
use super::presets::Presets;
use super::request::{Answer, ConsoleRequest, address};
use super::route::{ConsoleRoute, routes};

pub(super) const ROUTES: &[ConsoleRoute] = routes! {
    page("/console/orders").of_own_apps() => get(search);
    page("/console/apps/{app_id}/orders/{out_biz_order_no}") => get(order);
};

/// Reports on a page, and orders where nobody chooses another number.
const ROWS: u32 = 50;
/// How many orders a page may have.
const ROWS_OFFERED: [&str; 3] = ["50", "100", "200"];
/// What "in this status for longer than" offers. Any other duration can be typed.
const WAITS_OFFERED: [&str; 3] = ["1h", "1d", "3d"];
/// Orders of which something is still to come and to which nothing has come for a day, the oldest first.
const STUCK: [(&str, &str); 3] = [("status", OrderFilter::OPEN), ("longer", "1d"), ("sort", "oldest")];

/// The name of a status code.
pub(super) fn status_words(code: i16) -> &'static str {
    OrderStatus::from_code(code).map_or("Unknown", OrderStatus::meaning)
}

/// The style class of a status code.
pub(super) fn status_class(code: i16) -> &'static str {
    OrderStatus::from_code(code).map_or(Standing::Waits, OrderStatus::standing).as_str()
}

/// A time in an order, which the developer reports in milliseconds.
pub(super) fn millis_shown(unix_millis: i64) -> String {
    moment::of_millis(unix_millis).map_or_else(|| unix_millis.to_string(), |moment| moment.shown())
}

/// The same as an element of a page.
pub(super) fn millis_time(unix_millis: i64) -> Markup {
    moment::of_millis(unix_millis).map_or_else(|| id(unix_millis), |moment| moment.when())
}

/// The fallback link of an order, if it is a web address. The text is the address itself, with its host in
/// ASCII, so that a link cannot imitate another host with similar letters.
pub(super) fn web_link(order: &StoredOrder) -> Option<String> {
    let url = url::Url::parse(order.order_backup_url.as_deref()?).ok()?;
    matches!(url.scheme(), "http" | "https").then(|| url.into())
}

/// Parses a moment that a user typed, to milliseconds.
fn parse_millis(text: &str) -> Result<i64, Expected> {
    let millis = parse_moment(text)?.unix_timestamp_nanos() / 1_000_000;
    i64::try_from(millis).map_err(|_| Expected::new("a moment within 64 bits of milliseconds"))
}

fn parse_rows(text: &str) -> Result<u32, Expected> {
    let offered = ROWS_OFFERED.contains(&text).then(|| text.parse().ok()).flatten();
    offered.ok_or_else(|| Expected::one_of(&ROWS_OFFERED))
}

#[derive(Template)]
#[template(path = "orders.html")]
struct OrderSearchPage<'a> {
    page: Page<'a>,
    orders: Vec<StoredOrder>,
    next: Option<String>,
    /// Whether not all orders were searched for this page.
    is_cut: bool,
    presets: Presets,
    /// Whether this is the page of stuck orders.
    is_stuck: bool,
    oldest_first: bool,
}

/// The address of the page of stuck orders.
pub(super) fn stuck_path() -> String {
    address(Section::ORDERS.path, &Fields::default(), &STUCK)
}

/// Whether an order has a city.
fn any_city(orders: &[StoredOrder]) -> bool {
    orders.iter().any(|order| order.product_city.is_some())
}

/// Every status, for the search form.
fn statuses() -> impl Iterator<Item = i16> {
    OrderStatus::CODES.into_iter().filter_map(|code| i16::try_from(code).ok())
}

async fn search(request: ConsoleRequest) -> Answer {
    let mut filters = request.filters();
    let filter = OrderFilter {
        apps: request.apps().clone(),
        app_id: filters.read("app_id", AppId::parse),
        number: filters.read("number", OrderNo::parse),
        open_id: filters.read("open_id", OpenId::parse),
        statuses: filters.read("status", OrderFilter::parse_statuses).unwrap_or_default(),
        city: request.filled("city"),
        created_since: filters.read("from", parse_millis),
        created_until: filters.read("to", parse_millis),
        in_status_for: filters.read("longer", OrderFilter::parse_wait),
        oldest_first: filters.read("sort", OrderFilter::parse_oldest_first).unwrap_or_default(),
        after: request.fields.optional("after", OrderCursor::parse)?,
    };
    let rows = filters.read("rows", parse_rows).unwrap_or(ROWS);
    let wrong = filters.wrong;
    let (mut orders, mut next) = (Vec::new(), None);
    if wrong.is_empty() {
        let found = request.state.store.orders(&filter, rows).await?;
        (orders, next) = (found.items, request.next(found.next));
    }
    let page = request.search_page(Section::ORDERS).await?.marking(&wrong);
    let presets = Presets::of(&request);
    let is_stuck = STUCK.iter().all(|(name, value)| request.text(name) == *value);
    let oldest_first = filter.oldest_first;
    let is_cut = next.is_some() && u32::try_from(orders.len()).is_ok_and(|shown| shown < rows);
    render_search(&OrderSearchPage { page, orders, next, is_cut, presets, is_stuck, oldest_first }, &wrong)
}

#[derive(Template)]
#[template(path = "order.html")]
struct OrderDetailPage<'a> {
    page: Page<'a>,
    order: &'a StoredOrder,
    payments: Vec<OrderPayment>,
    events: &'a [OrderEvent],
    older: Option<String>,
}

fn value_shown(field: &str, value: &Value) -> String {
    match (field, value) {
        (_, Value::Null) => said(&text!("none")),
        ("order_status", Value::Number(code)) => {
            let words = code.as_i64().and_then(|code| i16::try_from(code).ok()).map(status_words);
            format!("{code} {}", said(&Text::new(words.unwrap_or("Unknown"))))
        }
        ("order_create_time", Value::Number(millis)) => {
            millis.as_i64().map_or_else(|| millis.to_string(), millis_shown)
        }
        (_, Value::String(text)) => text.clone(),
        (_, Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => value.to_string(),
    }
}

async fn order(Path((app_id, number)): Path<(String, String)>, request: ConsoleRequest) -> Answer {
    let unknown =
        || ConsoleError::not_found(text!("The app {app_id} has no order {number}.", app_id, number));
    let app = AppId::parse(&app_id).map_err(|_| unknown())?;
    let out_biz_order_no = OrderNo::parse(&number).map_err(|_| unknown())?;
    let store = &request.state.store;
    let order = store.order(&app, &out_biz_order_no).await?.ok_or_else(unknown)?;
    let parse_seq = |text: &str| parse_integer(text, 1, i64::MAX, "the number of a report");
    let before = request.fields.optional("before", parse_seq)?;
    let events = store.order_events(&app, &out_biz_order_no, before, ROWS).await?;
    let oldest = events.last().map_or(1, |event| event.seq);
    render(&OrderDetailPage {
        page: request.page(Section::ORDERS, text!("Order {number}", number)),
        order: &order,
        payments: store.order_payments(&app, &out_biz_order_no).await?,
        events: &events,
        older: (oldest > 1).then(|| format!("/console/apps/{app}/orders/{number}?before={oldest}")),
    })
}
