//! The operator's console: pages made here, without a script, a build step or anything from elsewhere.
//!
//! Every page stands in a table of routes with who may ask for it; `session::guard` holds each request
//! to that before its handler runs, so a page cannot forget it. `page` is what all pages share, `form`
//! what all changes do, and each other file is one part of the console: its `ROUTES`, a row in `PARTS`,
//! its handlers, and its templates, which extend `base.html`.

mod app_field;
mod apps;
mod asset;
mod clinic;
mod credit;
mod exchange;
mod form;
mod images;
mod operator_log;
mod order_center;
mod orders;
mod overview;
mod page;
mod player;
mod session;
mod sign_in;
mod users;

use axum::Router;
use axum::middleware;
use axum::response::Redirect;
use axum::routing::{MethodRouter, get};
use page::ConsoleError;

use crate::state::AppState;

/// Who may ask for a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Anybody: signing in, and what pages look like.
    Anyone,
    /// Whoever has signed in. Nothing behind it changes anything but their own session.
    Viewer,
    /// Admins.
    Admin,
}

/// A page, or what a form of one is sent to.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    /// `GET` (which includes HEAD) or `POST`.
    pub method: &'static str,
    /// Path, with parameters in braces.
    pub path: &'static str,
    /// Who may ask for it.
    pub access: Access,
    /// Makes what answers it.
    pub handler: fn() -> MethodRouter<AppState>,
}

impl Route {
    /// A page that whoever has signed in may see.
    const fn page(path: &'static str, handler: fn() -> MethodRouter<AppState>) -> Self {
        Self { method: "GET", path, access: Access::Viewer, handler }
    }

    /// A page for admins alone: a form that leads to a change.
    const fn admin_page(path: &'static str, handler: fn() -> MethodRouter<AppState>) -> Self {
        Self { method: "GET", path, access: Access::Admin, handler }
    }

    /// A change, which only admins make.
    const fn change(path: &'static str, handler: fn() -> MethodRouter<AppState>) -> Self {
        Self { method: "POST", path, access: Access::Admin, handler }
    }
}

/// The tables of all parts: a part whose table is not here has no pages.
const PARTS: [&[Route]; 13] = [
    asset::ROUTES,
    sign_in::ROUTES,
    overview::ROUTES,
    player::ROUTES,
    credit::ROUTES,
    exchange::ROUTES,
    clinic::ROUTES,
    apps::ROUTES,
    orders::ROUTES,
    order_center::ROUTES,
    images::ROUTES,
    operator_log::ROUTES,
    users::ROUTES,
];

/// Every page of the console. Tests walk it: each refuses strangers, and a viewer can change nothing.
pub fn routes() -> impl Iterator<Item = &'static Route> {
    PARTS.into_iter().flatten()
}

/// The console, for the operator's listener.
pub(super) fn router(state: &AppState) -> Router<AppState> {
    let mut router = Router::new();
    for route in routes() {
        let guard = middleware::from_fn_with_state((state.clone(), route.access), session::guard);
        router = router.route(route.path, (route.handler)().route_layer(guard));
    }
    let guard = middleware::from_fn_with_state((state.clone(), Access::Viewer), session::guard);
    let nothing = async || ConsoleError::NotFound("There is no page at this address.".to_owned());
    router
        .route("/console/{*rest}", get(nothing).route_layer(guard))
        .route("/", get(async || Redirect::to("/console")))
        .route("/console/", get(async || Redirect::to("/console")))
        .method_not_allowed_fallback(async || session::with_security_headers(page::wrong_method()))
}
