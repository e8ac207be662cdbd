//! The operator listener: whether the server lives and can serve (contract 9.7). It also serves the descriptions of
//! both APIs, as documents and as pages. One picture of our own is there so that the demonstration can upload by URL
//! without a network. Its console is where operators look things up and change them; its admin API is where their
//! programs do.

pub mod admin;
mod authorization;
mod bill;
pub mod console;
mod docs;
mod download;
mod host;
pub mod oidc;
pub mod operations;
mod player_export;
mod reconcile_upload;
pub(crate) mod workbook;

use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Router, middleware};
use domain::language::Language;
use domain::rights::Apps;
use http_server::TlsIdentity;
use serde_json::json;
use store::Readiness;
use store::secrets::token_hash;
use subtle::ConstantTimeEq as _;

pub use self::authorization::Reach;
use crate::config::DEMO_PICTURE_PATH;
use crate::http::json::json_response;
use crate::http::refusal::Refusal;
use crate::metrics::Gauges;
use crate::state::AppState;

/// The demonstration's picture: a gold coin, 128 by 128 pixels.
pub const DEMO_PICTURE: &[u8] = include_bytes!("demo-cover.png");
/// How long the database has to answer.
const READY_TIMEOUT: Duration = Duration::from_secs(2);

/// Prometheus' text format.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// The operator listener, with the certificate whose names it may be called by.
pub fn operator(state: &AppState, tls: Option<TlsIdentity>) -> Router {
    let state = state.for_operators();
    state.metrics.name_admin_calls(admin::ROUTES.iter().map(|route| route.id));
    let has_tls = tls.is_some();
    let named = middleware::from_fn_with_state((state.clone(), tls), host::check);
    let strict =
        middleware::map_response(move |response| async move { with_strict_transport(has_tls, response) });
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route(DEMO_PICTURE_PATH, get(async || ([(header::CONTENT_TYPE, "image/png")], DEMO_PICTURE)))
        .route("/metrics", get(metrics))
        .merge(console::router(&state))
        .merge(docs::routes())
        .merge(admin::routes())
        .fallback(async || {
            let refusal = Refusal::transport(StatusCode::NOT_FOUND, "path: no such endpoint");
            refusal.render(crate::http::refusal::Envelope::Open, Language::En)
        })
        .layer(named)
        .layer(strict)
        .with_state(state)
}

/// With TLS, tells browsers to come by TLS alone for a year.
fn with_strict_transport(has_tls: bool, mut response: Response) -> Response {
    if has_tls {
        let year = HeaderValue::from_static("max-age=31536000");
        response.headers_mut().insert(header::STRICT_TRANSPORT_SECURITY, year);
    }
    response
}

/// 200 while the process lives.
async fn healthz() -> Response {
    json_response(StatusCode::OK, &json!({ "status": "ok" }))
}

/// 200 when it can serve: the database answers and holds the schema. A shortage of disk stops uploads
/// alone, so it is told and changes no status.
async fn readyz(State(state): State<AppState>) -> Response {
    let reason = match tokio::time::timeout(READY_TIMEOUT, state.store.readiness()).await {
        Ok(Ok(Readiness { reason: None, .. })) => {
            let ready = match state.disk_space.shortage(state.clock.monotonic()).await {
                None => json!({ "status": "ready" }),
                Some(shortage) => json!({ "status": "ready", "uploads_refused": shortage }),
            };
            return json_response(StatusCode::OK, &ready);
        }
        Ok(Ok(Readiness { reason: Some(reason), .. })) => reason,
        Ok(Err(_)) => "the database is not available".to_owned(),
        Err(_) => "the database does not answer".to_owned(),
    };
    json_response(StatusCode::SERVICE_UNAVAILABLE, &json!({ "status": "not ready", "reason": reason }))
}

/// Everything that is counted and measured, for Prometheus. With `ops.metrics_token` only for who has it.
async fn metrics(State(state): State<AppState>, headers: HeaderMap) -> Result<Response, Response> {
    if !may_read_metrics(&state, &headers) {
        let text = "authorization: expected Bearer and the setting ops.metrics_token";
        let refusal = Refusal::transport(StatusCode::UNAUTHORIZED, text);
        let refused = refusal.render(crate::http::refusal::Envelope::Open, Language::En);
        return Err(([(header::WWW_AUTHENTICATE, "Bearer")], refused).into_response());
    }
    let with_apps = state.config.ops.metrics_token.get().is_some();
    let text = state.metrics.text(&read_off(&state).await, with_apps).map_err(|fault| {
        let refusal = Refusal::internal(fault.to_string());
        refusal.render(crate::http::refusal::Envelope::Open, Language::En)
    })?;
    Ok(([(header::CONTENT_TYPE, METRICS_TYPE)], text).into_response())
}

fn may_read_metrics(state: &AppState, headers: &HeaderMap) -> bool {
    let Some(expected) = state.config.ops.metrics_token.get() else { return true };
    let sent =
        headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    sent.is_some_and(|sent| token_hash(sent).ct_eq(&token_hash(expected)).into())
}

/// How things stand now. Asks the database, for two seconds at most.
async fn read_off(state: &AppState) -> Gauges {
    let asked = tokio::time::Instant::now();
    let (database_up, database_probe) =
        match tokio::time::timeout(READY_TIMEOUT, state.store.readiness()).await {
            Ok(Ok(Readiness { reason, took, .. })) => (reason.is_none(), took),
            Ok(Err(_)) | Err(_) => (false, asked.elapsed()),
        };
    let store = &state.store;
    let audits = while_up(database_up, store.last_audits()).await;
    let receivers = while_up(database_up, store.count_receivers()).await;
    let unmatched = while_up(database_up, store.unmatched_payments(&Apps::ALL)).await;
    Gauges {
        receivers: receivers.unwrap_or_default(),
        unmatched_payments: unmatched.and_then(|count| u64::try_from(count).ok()).unwrap_or_default(),
        connections: state.connections.now(),
        connections_refused: state.connections.refused(),
        connections_closed: state.connections.closed_for_room(),
        queue: state.store.exchange_queue(),
        pool: state.store.pool_state(),
        database_up,
        database_probe,
        fetches: state.fetcher.under_way(),
        upload_memory: (state.upload_memory.in_use() * 1024, state.upload_memory.permits_max() * 1024),
        waiting: [
            ("receiver", state.receiver_places.waiting()),
            ("late_answer", state.late_answers.waiting()),
            ("picture", state.picture_work.waiting()),
        ]
        .into_iter()
        .chain(state.store.waiting_for_books())
        .chain(state.operator_places.waiting())
        .collect(),
        instances: state.rate_limits.shares(),
        audits: audits.unwrap_or_default(),
        takes_uploads: state.disk_space.shortage(state.clock.monotonic()).await.is_none(),
    }
}

/// Takes a sample of this moment, for the console's overview.
pub async fn take_sample(state: &AppState) {
    let reading = read_off(state).await;
    state.metrics.keep(state.metrics.sample(state.clock.unix_millis(), reading));
}

/// What the database tells in time. `None` while it is away.
async fn while_up<T>(database_up: bool, asked: impl Future<Output = store::Result<T>>) -> Option<T> {
    if !database_up {
        return None;
    }
    tokio::time::timeout(READY_TIMEOUT, asked).await.ok().and_then(Result::ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_listener_with_tls_tells_browsers_to_stay_with_it() {
        for (has_tls, expected) in [(true, Some("max-age=31536000")), (false, None)] {
            let response = with_strict_transport(has_tls, Response::default());
            let told = response.headers().get(header::STRICT_TRANSPORT_SECURITY);
            assert_eq!(told.map(|value| value.to_str().unwrap()), expected);
        }
    }
}
