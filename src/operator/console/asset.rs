//! The style sheet of the console, and the icon of the browser tab.

use std::sync::LazyLock;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::routing::get;
use sha2::{Digest as _, Sha256};

use super::route::{Access, Route};

const STYLE: &str = include_str!("style.css");
const ICON: &str = include_str!("icon.svg");

pub(super) const ROUTES: &[Route] = &[
    Route {
        method: "GET",
        path: "/console/style.css",
        access: Access::Anyone,
        handler: || get(async |headers: HeaderMap| asset(&headers, STYLE, "text/css; charset=utf-8")),
    },
    Route {
        method: "GET",
        path: "/console/icon.svg",
        access: Access::Anyone,
        handler: || get(async |headers: HeaderMap| asset(&headers, ICON, "image/svg+xml")),
    },
];

/// The query of the addresses, a hash of the content: new content gets a new address.
pub(super) fn version() -> &'static str {
    static VERSION: LazyLock<String> =
        LazyLock::new(|| hex::encode(&Sha256::digest([STYLE, ICON].concat())[..8]));
    &VERSION
}

fn asset(headers: &HeaderMap, text: &'static str, media_type: &'static str) -> Response {
    let tag = format!("\"{}\"", version());
    let is_known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut response = Response::new(if is_known { Body::empty() } else { Body::from(text) });
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    response
}
