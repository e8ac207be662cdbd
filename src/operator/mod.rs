//! The operator listener: whether the server lives and can serve (contract 9). It also serves
//! one picture of our own, so that the demonstration can upload by URL without a network, and the
//! descriptions of both APIs, as documents and as pages. Its console is where operators look things up
//! and change them; its admin API is where their programs do.

pub mod admin;
pub mod console;

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::routing::get;
use serde_json::json;

use crate::config::DEMO_PICTURE_PATH;
use crate::error::{Refusal, json_response};
use crate::metrics::{Reading, SAMPLE_INTERVAL};
use crate::openapi;
use crate::state::AppState;

/// The demonstration's picture: a gold coin, 128 by 128 pixels.
pub const DEMO_PICTURE: &[u8] = include_bytes!("demo-cover.png");
/// How long the database has to answer.
const READY_TIMEOUT: Duration = Duration::from_secs(2);

/// Prometheus' text format.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// The page needs its style sheet and nothing else; no script ever runs on it.
const PAGE_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

/// The operator listener.
pub fn operator(state: AppState) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route(DEMO_PICTURE_PATH, get(demo_picture))
        .route("/metrics", get(metrics))
        .route("/openapi.json", get(openapi_document))
        .route("/docs", get(openapi_page))
        .route("/docs/style.css", get(openapi_style))
        .merge(console::router(&state))
        .route("/admin/openapi.json", get(admin_document))
        .route("/docs/admin", get(admin_page))
        .merge(admin::routes())
        .fallback(async |State(state): State<AppState>| {
            let refusal = Refusal::transport(StatusCode::NOT_FOUND, "path: no such endpoint");
            refusal.render(crate::error::Envelope::Open, state.config.http.error_status)
        })
        .with_state(state)
}

/// 200 while the process lives.
async fn healthz() -> Response {
    json_response(StatusCode::OK, &json!({ "status": "ok" }))
}

/// 200 when it can serve: the database answers and holds the schema.
async fn readyz(State(state): State<AppState>) -> Response {
    let reason = match tokio::time::timeout(READY_TIMEOUT, state.store.readiness()).await {
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

/// Everything that is counted and measured, for Prometheus.
async fn metrics(State(state): State<AppState>) -> Result<Response, Response> {
    let text = state.metrics.text(&read_off(&state).await).map_err(|fault| {
        let refusal = Refusal::internal(fault.to_string());
        refusal.render(crate::error::Envelope::Open, state.config.http.error_status)
    })?;
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(METRICS_TYPE));
    Ok(response)
}

/// How things stand now. Asks the database, for two seconds at most.
async fn read_off(state: &AppState) -> Reading {
    let asked = tokio::time::Instant::now();
    let readiness = tokio::time::timeout(READY_TIMEOUT, state.store.readiness()).await;
    let (database_up, database_probe) = (matches!(readiness, Ok(Ok(None))), asked.elapsed());
    let audits = if database_up {
        tokio::time::timeout(READY_TIMEOUT, state.store.last_audits()).await.ok().and_then(Result::ok)
    } else {
        None
    };
    Reading {
        connections: state.connections.now(),
        queue: state.store.exchange_queue(),
        pool: state.store.pool_state(),
        database_up,
        database_probe,
        fetches: state.fetcher.under_way(),
        upload_memory: (state.upload_memory.in_use() * 1024, state.upload_memory.permits_max() * 1024),
        audits: audits.unwrap_or_default(),
    }
}

/// Takes a sample every ten seconds, for the console's overview. It never ends by itself.
pub async fn keep_sampling(state: AppState) {
    let mut interval = tokio::time::interval(SAMPLE_INTERVAL);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        let reading = read_off(&state).await;
        state.metrics.keep(state.metrics.sample(state.clock.unix_millis(), reading));
    }
}

/// The OpenAPI document, as this server's settings make it.
async fn openapi_document(State(state): State<AppState>) -> Response {
    json_response(StatusCode::OK, &openapi::document(&state.config))
}

/// The OpenAPI document of the admin API.
async fn admin_document(State(state): State<AppState>) -> Response {
    json_response(StatusCode::OK, &openapi::admin::document(&state.config))
}

/// The same as a page.
async fn openapi_page(State(state): State<AppState>) -> Response {
    html(openapi::page::page(&state.config))
}

async fn admin_page(State(state): State<AppState>) -> Response {
    html(openapi::admin::page(&state.config))
}

fn html(page: String) -> Response {
    let mut response = Response::new(Body::from(page));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(header::CONTENT_SECURITY_POLICY, PAGE_POLICY);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

async fn openapi_style() -> Response {
    let mut response = Response::new(Body::from(openapi::page::STYLE));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/css; charset=utf-8"));
    response
}
