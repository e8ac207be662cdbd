//! The description of the public API, as an OpenAPI document and as a page (contract 2.2.7).

use axum::Router;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::{Redirect, Response};
use axum::routing::get;

use crate::http::json::json_response;
use crate::http::refusal::Refusal;
use crate::openapi::viewer::{self, ViewerPage};
use crate::state::AppState;

/// The document and its page, with a link to the page of another API and its name. Without one the page
/// is on the public listener itself and can send requests.
pub fn routes(other: Option<(&'static str, &'static str)>) -> Router<AppState> {
    let document =
        async |State(state): State<AppState>| json_response(StatusCode::OK, &super::document(&state.config));
    Router::new()
        .route("/openapi.json", get(document))
        .route("/docs", get(async move |State(state): State<AppState>| page(&state, other)))
        .merge(viewer::files())
}

/// The same on the public listener, where its first address leads to the page.
pub(super) fn own_routes() -> Router<AppState> {
    let routes = routes(None).route("/", get(async || Redirect::to("/docs")));
    routes.method_not_allowed_fallback(async |method: Method| Refusal::wrong_method(&["GET"], &method))
}

fn page(state: &AppState, other: Option<(&'static str, &'static str)>) -> Response {
    let elsewhere = format!(
        "This page cannot send requests: the public API is at <code>{}</code>, another origin, and answers no page of this \
         one (CORS). Copy a sample to a terminal instead.",
        state.config.public.base_url()
    );
    viewer::response(&ViewerPage {
        title: "Minitill: the public API",
        document: "openapi.json",
        files: "docs/",
        other,
        sends: other.is_none(),
        signs: other.is_none(),
        note: if other.is_none() { viewer::SENDS_IN_EARNEST } else { &elsewhere },
        places: &[],
    })
}
