//! The order center as a player sees it: the orders of one player of one app, in four tabs.

use askama::Template;
use axum::routing::get;
use domain::ids::{AppId, OpenId};
use domain::order_center::Tab;
use domain::text;
use store::{OrderCursor, OrderFilter, StoredOrder};

use super::error::ConsoleError;
use super::i18n::said;
use super::orders::{millis_time, status_class, status_words, web_link};
use super::page::{Page, Section, render, render_search};
use super::request::{Answer, ConsoleRequest};
use super::route::{ConsoleRoute, routes};

/// Orders on a page. The number is small because each order has a picture.
const ORDERS: u32 = 20;

pub(super) const ROUTES: &[ConsoleRoute] =
    routes! { page("/console/orders/center").of_own_apps() => get(center); };

#[derive(Template)]
#[template(path = "order_center.html")]
struct CenterPage<'a> {
    page: Page<'a>,
    /// `None` until the user chooses a player.
    tab: Option<Tab>,
    orders: Vec<StoredOrder>,
    next: Option<String>,
    request: &'a ConsoleRequest,
}

async fn center(request: ConsoleRequest) -> Answer {
    let (app, player) = (request.text("app_id"), request.text("open_id"));
    let mut filters = request.filters();
    let wanted = filters.read("app_id", AppId::parse).zip(filters.read("open_id", OpenId::parse));
    let wrong = filters.wrong;
    let page = Page { title: said(&text!("Order center")), ..request.search_page(Section::ORDERS).await? };
    let Some((app_id, open_id)) = wanted else {
        let page = page.marking(&wrong);
        let template = CenterPage { page, tab: None, orders: Vec::new(), next: None, request: &request };
        return render_search(&template, &wrong);
    };
    let tab = request.fields.optional("tab", Tab::parse)?.unwrap_or_default();
    if !request.state.store.is_known(&app_id, &open_id).await? {
        return Err(ConsoleError::not_found(text!("The app {app} has no player {player}.", app, player)));
    }
    let filter = OrderFilter {
        apps: request.apps().clone(),
        app_id: Some(app_id),
        open_id: Some(open_id),
        statuses: tab.statuses().to_vec(),
        after: request.fields.optional("after", OrderCursor::parse)?,
        ..OrderFilter::default()
    };
    let found = request.state.store.orders(&filter, ORDERS).await?;
    let next = request.next(found.next);
    render(&CenterPage { page, tab: Some(tab), orders: found.items, next, request: &request })
}
