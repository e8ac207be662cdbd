//! The operator's console: server-rendered HTML pages, without a build step. They need no script; one small file has
//! the keys.
//!
//! A table lists each page with the role that may request it. The guard checks every request against the
//! table before the handler runs, so no page can forget the check. A handler takes a `ConsoleRequest`: the user, and
//! what the user typed. `page` has what all pages share. Each other file is one part of the console: its
//! `ROUTES` (a row of `PARTS`), its handlers, and its templates, which extend `templates/base.html`.

mod account;
mod account_change;
mod api_keys;
mod app_calls;
mod apps;
mod asset;
mod change_notice;
mod closed_link;
mod currency;
mod error;
mod exchange;
mod exchanges;
mod freeze;
mod gifts;
mod guard;
mod health;
mod health_charts;
pub(crate) mod i18n;
mod images;
mod labels;
mod oidc;
mod operator_log;
mod order_center;
mod orders;
mod overview;
mod page;
mod password;
mod personal_data;
mod player;
mod plots;
mod presets;
mod prices;
mod receivers;
mod refusal_link;
mod refused;
mod reports;
mod request;
mod route;
mod search;
mod second_factor;
mod session;
mod shown_once;
mod sign_in;
mod signature_check;
mod times;
mod topups;
mod upload;
mod users;
mod wallet_change;

use std::sync::Arc;

use axum::Extension;
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware;
use axum::response::Redirect;
use axum::routing::get;
use error::ConsoleError;
use guarded_fetch::ServiceClient;
use i18n::View;
use session::SessionMemory;

pub use self::route::{Access, ConsoleRoute};
use crate::operator::oidc::SignInProvider;
use crate::state::AppState;

/// The tables of all parts. A part that is not listed here has no pages.
const PARTS: [&[ConsoleRoute]; 34] = [
    asset::ROUTES,
    sign_in::ROUTES,
    oidc::ROUTES,
    i18n::ROUTES,
    overview::ROUTES,
    health::ROUTES,
    search::ROUTES,
    player::ROUTES,
    freeze::ROUTES,
    personal_data::ROUTES,
    gifts::ROUTES,
    wallet_change::ROUTES,
    wallet_change::requests::ROUTES,
    exchange::ROUTES,
    exchanges::ROUTES,
    reports::ROUTES,
    reports::STATEMENT_ROUTES,
    reports::RECONCILE_ROUTES,
    reports::MONEY_ROUTES,
    topups::ROUTES,
    prices::ROUTES,
    signature_check::ROUTES,
    apps::ROUTES,
    app_calls::ROUTES,
    receivers::ROUTES,
    orders::ROUTES,
    order_center::ROUTES,
    images::ROUTES,
    operator_log::ROUTES,
    users::ROUTES,
    api_keys::ROUTES,
    account::ROUTES,
    account_change::ROUTES,
    second_factor::ROUTES,
];

/// Every address below the console that is no page.
static NOT_FOUND: ConsoleRoute = ConsoleRoute::page("/console/{*rest}", || {
    get(async || ConsoleError::not_found("There is no page at this address."))
})
.of_own_apps();

/// Every page of the console. Tests walk the table: each page needs a session, and a viewer changes nothing.
pub fn routes() -> impl Iterator<Item = &'static ConsoleRoute> {
    PARTS.into_iter().flatten()
}

/// The routes of the console on the operator's listener.
pub(super) fn router(state: &AppState) -> Router<AppState> {
    let mut router = Router::new();
    let provider: oidc::Provider =
        SignInProvider::new(&state.config.oidc, ServiceClient::default(), Arc::clone(&state.clock))
            .map(Arc::new);
    let memory = Arc::new(SessionMemory::default());
    for route in routes().chain([&NOT_FOUND]) {
        let check = middleware::from_fn_with_state((state.clone(), Arc::clone(&memory), route), guard::guard);
        router = router.route(route.path, (route.handler)().route_layer(check));
    }
    router
        .layer(Extension(provider))
        .route("/", get(async || Redirect::to("/console")))
        .route("/console/", get(async || Redirect::to("/console")))
        .method_not_allowed_fallback(async |State(state): State<AppState>, request: Request| {
            let page = async { guard::with_security_headers(ConsoleError::WRONG_METHOD.page(None, false)) };
            View::of(&state, &request).scope(page).await
        })
}
