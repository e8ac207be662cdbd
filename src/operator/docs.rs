//! The descriptions of both APIs, as OpenAPI documents and as pages.

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::routing::get;

use super::admin;
use super::admin::problem::Kind;
use crate::error::json_response;
use crate::openapi::viewer::{self, Page};
use crate::public;
use crate::state::AppState;

/// A page may be cached, and is asked for again when it is shown.
const ASK_AGAIN: HeaderValue = HeaderValue::from_static("no-cache");
/// The same answer for ever.
const FOR_EVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

/// The routes of documents and pages.
pub(super) fn routes() -> Router<AppState> {
    let public_document =
        async |State(state): State<AppState>| json_response(StatusCode::OK, &public::document(&state.config));
    let admin_document =
        async |State(state): State<AppState>| json_response(StatusCode::OK, &admin::document(&state.config));
    let script = async || {
        let mut response = file(viewer::SCRIPT, "text/javascript; charset=utf-8", FOR_EVER);
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        response
    };
    Router::new()
        .route("/openapi.json", get(public_document))
        .route("/admin/openapi.json", get(admin_document))
        .route("/docs", get(public_page))
        .route("/docs/admin", get(admin_page))
        .route(&format!("/docs/viewer-{}.js", viewer::VERSION), get(script))
        .route(
            "/docs/start.js",
            get(async || file(viewer::START, "text/javascript; charset=utf-8", ASK_AGAIN)),
        )
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
    let mut response = file(viewer::page(page), "text/html; charset=utf-8", ASK_AGAIN);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(viewer::POLICY));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

fn file(content: impl Into<Body>, media_type: &'static str, caching: HeaderValue) -> Response {
    let mut response = Response::new(content.into());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::CACHE_CONTROL, caching);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
