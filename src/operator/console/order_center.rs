//! The order center as a player sees it: the orders of one player of one app, in four tabs.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use domain::ids::{AppId, OpenId};
use domain::order_center::Tab;
use store::{OrderCursor, OrderFilter, StoredOrder};

use super::app_field::AppField;
use super::error::ConsoleError;
use super::form::Input;
use super::orders::ShownOrder as _;
use super::page::{Page, Section, render};
use super::route::Route;
use super::session::SignedIn;
use crate::state::AppState;

const PATH: &str = "/console/orders/center";
/// Orders on a page. The number is small because each order has a picture.
const ORDERS: u32 = 20;

pub(super) const ROUTES: &[Route] = &[Route::page(PATH, || get(center))];

#[derive(Template)]
#[template(path = "order_center.html")]
struct CenterPage<'a> {
    page: Page<'a>,
    app_field: AppField<'a>,
    open_id: &'a str,
    /// Empty until the user chooses a player.
    tabs: Vec<TabLink>,
    orders: &'a [StoredOrder],
    next: Option<String>,
}

struct TabLink {
    title: &'static str,
    href: String,
    is_here: bool,
}

async fn center(
    State(state): State<AppState>,
    signed_in: SignedIn,
    input: Input,
) -> Result<Response, ConsoleError> {
    let page = Page::new(&signed_in, Section::Orders, "Order center");
    let (app, player) = (input.text("app_id"), input.text("open_id"));
    let app_field = AppField::new(&state, app).await?.required();
    if app.is_empty() && player.is_empty() {
        return Ok(render(&CenterPage {
            page,
            app_field,
            open_id: player,
            tabs: vec![],
            orders: &[],
            next: None,
        }));
    }
    let tab = input.optional("tab", Tab::parse)?.unwrap_or_default();
    let filter = OrderFilter {
        app_id: Some(input.required("app_id", AppId::parse)?),
        open_id: Some(input.required("open_id", OpenId::parse)?),
        statuses: tab.statuses().to_vec(),
        after: input.optional("after", OrderCursor::parse)?,
        ..OrderFilter::default()
    };
    if let (Some(app_id), Some(open_id)) = (&filter.app_id, &filter.open_id)
        && !state.store.is_known(app_id, open_id).await?
    {
        return Err(ConsoleError::NotFound(format!("The app {app} has no player {player}.")));
    }
    let found = state.store.orders(&filter, ORDERS).await?;
    let of_tab = |tab: Tab, after: &str| input.address(PATH, &[("tab", tab.as_str()), ("after", after)]);
    let tabs = Tab::ALL.map(|other| TabLink {
        title: other.title(),
        href: of_tab(other, ""),
        is_here: other == tab,
    });
    Ok(render(&CenterPage {
        page,
        app_field,
        open_id: player,
        tabs: tabs.into(),
        orders: &found.orders,
        next: found.next.map(|next| of_tab(tab, &next.to_string())),
    }))
}
