//! The style sheet of the console, and the icon of the browser tab.

use std::sync::LazyLock;

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use sha2::{Digest as _, Sha256};

use super::route::Route;

const STYLE: &str = include_str!("style.css");
const ICON: &str = include_str!("icon.svg");

pub(super) const ROUTES: &[Route] = &[
    Route::anyone("GET", "/console/style.css", || get(style)),
    Route::anyone("GET", "/console/icon.svg", || get(icon)),
];

async fn style(headers: HeaderMap) -> Response {
    asset(&headers, STYLE, "text/css; charset=utf-8")
}

async fn icon(headers: HeaderMap) -> Response {
    asset(&headers, ICON, "image/svg+xml")
}

/// The query of the addresses, a hash of the content: new content gets a new address.
pub(super) fn version() -> &'static str {
    static VERSION: LazyLock<String> =
        LazyLock::new(|| hex::encode(&Sha256::digest([STYLE, ICON].concat())[..8]));
    &VERSION
}

fn asset(headers: &HeaderMap, text: &'static str, media_type: &'static str) -> Response {
    let tag = format!("\"{}\"", version());
    let is_known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let (status, body) = if is_known { (StatusCode::NOT_MODIFIED, "") } else { (StatusCode::OK, text) };
    let caching = "public, max-age=31536000, immutable";
    let headers =
        [(header::CONTENT_TYPE, media_type), (header::CACHE_CONTROL, caching), (header::ETAG, tag.as_str())];
    (status, headers, body).into_response()
}
