//! The descriptions of both APIs, as OpenAPI documents and as pages.

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;

use super::admin;
use super::admin::problem::Kind;
use crate::error::json_response;
use crate::openapi::viewer::{self, Page};
use crate::public;
use crate::state::AppState;

/// A page may be cached, and is asked for again when it is shown.
const ASK_AGAIN: &str = "no-cache";
/// The same answer for ever.
const FOR_EVER: &str = "public, max-age=31536000, immutable";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

/// The routes of documents and pages.
pub(super) fn routes() -> Router<AppState> {
    let public_document =
        async |State(state): State<AppState>| json_response(StatusCode::OK, &public::document(&state.config));
    let admin_document =
        async |State(state): State<AppState>| json_response(StatusCode::OK, &admin::document(&state.config));
    let script = async || ([(header::CONTENT_ENCODING, "gzip")], file(viewer::SCRIPT, JAVASCRIPT, FOR_EVER));
    Router::new()
        .route("/openapi.json", get(public_document))
        .route("/admin/openapi.json", get(admin_document))
        .route("/docs", get(public_page))
        .route("/docs/admin", get(admin_page))
        .route(&format!("/docs/viewer-{}.js", viewer::VERSION), get(script))
        .route("/docs/start.js", get(async || file(viewer::START, JAVASCRIPT, ASK_AGAIN)))
        .route("/docs/style.css", get(async || file(viewer::STYLE, "text/css; charset=utf-8", ASK_AGAIN)))
}

async fn public_page(State(state): State<AppState>) -> Response {
    let note = format!(
        "This page cannot send requests: the public API is at <code>{}</code>, another origin, and answers no page of this \
         one (CORS). Copy a sample to a terminal instead.",
        state.config.public.base_url()
    );
    html(&Page {
        title: "Minitill: the public API",
        document: "openapi.json",
        files: "docs/",
        other: ("docs/admin", "the admin API"),
        sends: false,
        note: &note,
        places: &[],
    })
}

async fn admin_page() -> Response {
    let kinds = Kind::ALL.map(|kind| {
        let words = format!("<b>{} {}.</b> {}", kind.status().as_u16(), kind.title(), kind.remedy());
        (format!("problem-{}", kind.name()), words.replace('`', ""))
    });
    html(&Page {
        title: "Minitill: the admin API",
        document: "../admin/openapi.json",
        files: "",
        other: ("../docs", "the public API"),
        sends: true,
        note: "<b>Send request</b> calls this server in earnest. The page forgets the API key when it is closed.",
        places: &kinds,
    })
}

fn html(page: &Page<'_>) -> Response {
    let headers =
        [(header::CONTENT_SECURITY_POLICY, viewer::POLICY), (header::REFERRER_POLICY, "no-referrer")];
    (headers, file(viewer::page(page), "text/html; charset=utf-8", ASK_AGAIN)).into_response()
}

fn file(content: impl Into<Body>, media_type: &'static str, caching: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, media_type),
        (header::CACHE_CONTROL, caching),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, content.into()).into_response()
}
