//! The order center as a player sees it: the orders of one player of one app, in four tabs.

use askama::Template;
use axum::routing::get;
use domain::app::AppSummary;
use domain::ids::{AppId, OpenId};
use domain::order_center::Tab;
use store::{OrderCursor, OrderFilter, StoredOrder};

use super::error::ConsoleError;
use super::orders::{millis_shown, status_class, status_words, web_link};
use super::page::{Page, Section, render};
use super::route::Route;
use super::visit::{Answer, Visit, address};

const PATH: &str = "/console/orders/center";
/// Orders on a page. The number is small because each order has a picture.
const ORDERS: u32 = 20;

pub(super) const ROUTES: &[Route] = &[Route::page(PATH, || get(center))];

#[derive(Template)]
#[template(path = "order_center.html")]
struct CenterPage<'a> {
    page: Page<'a>,
    apps: Vec<AppSummary>,
    /// `None` until the user chooses a player.
    tab: Option<Tab>,
    orders: Vec<StoredOrder>,
    next: Option<String>,
    visit: &'a Visit,
}

impl CenterPage<'_> {
    fn address(&self, tab: Tab) -> String {
        address(PATH, &self.visit.fields, &[("tab", tab.as_str()), ("after", "")])
    }
}

async fn center(visit: Visit) -> Answer {
    let page = visit.page(Section::ORDERS, "Order center");
    let apps = visit.state.store.list_apps(None).await?;
    let (app, player) = (visit.text("app_id"), visit.text("open_id"));
    if app.is_empty() && player.is_empty() {
        return render(&CenterPage { page, apps, tab: None, orders: Vec::new(), next: None, visit: &visit });
    }
    let tab = visit.fields.optional("tab", Tab::parse)?.unwrap_or_default();
    let app_id = visit.fields.required("app_id", AppId::parse)?;
    let open_id = visit.fields.required("open_id", OpenId::parse)?;
    if !visit.state.store.is_known(&app_id, &open_id).await? {
        return Err(ConsoleError::not_found(format!("The app {app} has no player {player}.")));
    }
    let filter = OrderFilter {
        app_id: Some(app_id),
        open_id: Some(open_id),
        statuses: tab.statuses().to_vec(),
        after: visit.fields.optional("after", OrderCursor::parse)?,
        ..OrderFilter::default()
    };
    let found = visit.state.store.orders(&filter, ORDERS).await?;
    let next = visit.next(found.next);
    render(&CenterPage { page, apps, tab: Some(tab), orders: found.orders, next, visit: &visit })
}
