//! The operator listener: whether the server lives and can serve (contract 9). It also serves
//! one picture of our own, so that the demonstration can upload by URL without a network.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::routing::get;
use serde_json::json;

use crate::config::Config;
use crate::error::{Refusal, json_response};
use crate::till::Till;

/// Path of the demonstration's picture.
const DEMO_PICTURE_PATH: &str = "/demo/cover.png";
/// The demonstration's picture: a gold coin, 128 by 128 pixels.
pub const DEMO_PICTURE: &[u8] = include_bytes!("demo-cover.png");
/// How long the database has to answer.
const READY_TIMEOUT: Duration = Duration::from_secs(2);

/// The operator listener.
pub fn operator(till: Till) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route(DEMO_PICTURE_PATH, get(demo_picture))
        .fallback(async |State(till): State<Till>| {
            let refusal = Refusal::transport(StatusCode::NOT_FOUND, "path: no such endpoint");
            refusal.render(crate::error::Envelope::Open, till.config.http.error_status)
        })
        .with_state(till)
}

/// Where the demonstration's picture is fetched from.
#[must_use]
pub fn demo_picture_url(config: &Config) -> String {
    format!("{}{DEMO_PICTURE_PATH}", config.ops.base_url())
}

/// 200 while the process lives.
async fn healthz() -> Response {
    json_response(StatusCode::OK, &json!({ "status": "ok" }))
}

/// 200 when it can serve: the database answers and holds the schema.
async fn readyz(State(till): State<Till>) -> Response {
    let reason = match tokio::time::timeout(READY_TIMEOUT, till.store.readiness()).await {
        Ok(Ok(None)) => return json_response(StatusCode::OK, &json!({ "status": "ready" })),
        Ok(Ok(Some(reason))) => reason,
        Ok(Err(_)) => "the database is not available".to_owned(),
        Err(_) => "the database does not answer".to_owned(),
    };
    json_response(StatusCode::SERVICE_UNAVAILABLE, &json!({ "status": "not ready", "reason": reason }))
}

async fn demo_picture() -> Response {
    let mut response = Response::new(Body::from(DEMO_PICTURE));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("image/png"));
    response
}
