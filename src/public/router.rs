//! The router of the public listener: the route table, and the layers around it.

mod concurrency_limit;
mod path;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{ConnectInfo, MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, MethodRouter};
use domain::app::App;
use domain::sandbox::SandboxApp;
use domain::text::Text;
use telemetry::traces::{Answered, Trace, TraceParent};
use tower::ServiceBuilder;
use tower_http::catch_panic::CatchPanicLayer;
use tracing::Instrument as _;

use super::auth;
use super::docs;
use super::routes::{Authentication, ROUTES, Route};
use super::sandbox::{self, Spoilt};
use crate::http::client_address::client_address;
use crate::http::refusal::{Code, Envelope, Refusal, panic_text};
use crate::http::refusal_log::Unsuccessful;
use crate::http::request_id::{REQUEST_ID, RequestId, request_id};
use crate::state::AppState;

static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The public listener: the route table, and around it slash collapsing, request ids, the log,
/// and the envelope for whatever refuses.
pub fn public(state: AppState) -> Router {
    with_routes(state, &ROUTES)
}

/// The layers of the public listener around another table: tests bring routes that fail.
pub fn with_routes(state: AppState, table: &[Route]) -> Router {
    let of_clients = concurrency_limit::RequestsUnderWay::behind_proxies(&state.config).map(Arc::new);
    let mut routes = Router::new();
    for of_path in table.chunk_by(|one, other| one.path == other.path) {
        let first = &of_path[0];
        let allowed: Vec<_> = of_path.iter().map(|route| route.method).collect();
        let refuse = move || {
            let allowed = allowed.clone();
            async move { method_not_allowed(&allowed) }
        };
        let merge = |handler: MethodRouter<_>, route: &Route| handler.merge((route.handler)());
        let mut handler = of_path.iter().fold(MethodRouter::new(), merge);
        if of_path.iter().all(|route| route.method != "HEAD") {
            // A GET handler would take HEAD too, and a token would be issued that nobody sees.
            handler = handler.on(MethodFilter::HEAD, refuse.clone());
        }
        handler = handler.fallback(refuse);
        if let Some(limit) = &of_clients {
            handler =
                handler.layer(middleware::from_fn_with_state(Arc::clone(limit), concurrency_limit::limit));
        }
        let handler = handler.layer(
            ServiceBuilder::new()
                .layer(middleware::from_fn_with_state(first.envelope, render))
                .layer(CatchPanicLayer::custom(caught)),
        );
        routes = routes.route(first.path, handler);
    }
    if state.config.public.docs {
        let rendering = middleware::from_fn_with_state(Envelope::Open, render);
        routes = routes.merge(docs::own_routes().layer(rendering));
    }
    let routes = routes
        .fallback(unknown_path)
        .layer(middleware::from_fn_with_state(state.clone(), observe))
        .with_state(state);
    // The path is rewritten before routing, which a layer of the router itself would be too late for.
    Router::new().fallback_service(tower::util::MapRequest::new(routes, path::normalise))
}

/// 404 in the envelope that the other paths beside it have (contract 2.2.2).
async fn unknown_path(uri: Uri) -> Response {
    let path = uri.path();
    let envelope = if path.starts_with("/api/") { Envelope::Exchange } else { Envelope::Open };
    let documents = match path {
        "/" | "/docs" => {
            "; the documents of this API are on the operator listener (setting ops.listen), at /docs"
        }
        _ => "",
    };
    // Nobody is known here, so it is always English.
    let text = Text::same(format_args!("path: no such endpoint: \"{}\"{documents}", path::shown(path)));
    rendered(Refusal::transport(StatusCode::NOT_FOUND, text), envelope)
}

fn method_not_allowed(methods: &[&str]) -> Response {
    let mut response = Refusal::wrong_method(methods).into_response();
    if let Ok(value) = HeaderValue::from_str(&methods.join(", ")) {
        response.headers_mut().insert(axum::http::header::ALLOW, value);
    }
    response
}

/// Puts a refusal into the envelope of its endpoint; what is no refusal passes.
async fn render(State(envelope): State<Envelope>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let Some(refusal) = response.extensions_mut().remove::<Refusal>() else { return response };
    let mut rendered = rendered(refusal, envelope);
    if let Some(allow) = response.headers_mut().remove(axum::http::header::ALLOW) {
        rendered.headers_mut().insert(axum::http::header::ALLOW, allow);
    }
    rendered
}

/// The response of a refusal, with what the log is told of it.
fn rendered(refusal: Refusal, envelope: Envelope) -> Response {
    let mut rendered = refusal.render(envelope, auth::language());
    rendered.extensions_mut().insert(Refused { code: refusal.code, cause: refusal.cause });
    rendered
}

/// What the log is told of a refusal. Not the message: it repeats parts of the request.
#[derive(Clone)]
struct Refused {
    code: Code,
    cause: Option<String>,
}

/// A panic is a bug of ours; the caller is told 500 in the envelope.
#[expect(clippy::needless_pass_by_value, reason = "the layer hands over the box")]
fn caught(panic: Box<dyn std::any::Any + Send + 'static>) -> Response {
    Refusal::internal(format!("panic: {}", panic_text(&*panic))).into_response()
}

/// Gives the request its id, the metrics their numbers and the log its line (contract 9.7). Never a query, a header or a
/// body (contract 2.8).
/// The client's address stands in it where clients are servers, not where players look at pictures.
async fn observe(State(state): State<AppState>, mut request: Request, next: Next) -> Response {
    let request_id = request_id(&request);
    request.extensions_mut().insert(RequestId(request_id.clone()));
    let method = request.method().clone();
    let route = route_of(&request);
    let unknown_path = route.is_none().then(|| path::shown(request.uri().path()));
    let may_be_player = route.is_some_and(|route| route.authentication == Authentication::Path);
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().filter(|_| !may_be_player);
    let client =
        peer.map(|peer| client_address(peer.0, request.headers(), &state.config.public.trusted_proxies));
    let started = tokio::time::Instant::now();
    let caller = trace_parent(&request);
    let tracer = state.tracer.as_ref();
    let trace = tracer.and_then(|tracer| tracer.begin(caller, started, state.clock.unix_millis()));
    let trace_id =
        trace.as_ref().map(Trace::id).or_else(|| caller.map(|caller| hex::encode(caller.trace_id)));
    let span = tracing::info_span!(
        "request",
        request_id = request_id.to_str().unwrap_or_default(),
        trace_id,
        client = client.map(tracing::field::display),
        app_id = tracing::field::Empty
    );
    let answering = auth::with_proven_app(next.run(request)).instrument(span.clone());
    let (mut response, app) = match &trace {
        Some(trace) => trace.scope(answering).await,
        None => answering.await,
    };
    let elapsed = started.elapsed();
    let code = response.extensions().get::<Refused>().map(|refused| refused.code);
    state.metrics.answered(route.map(|route| route.endpoint), code, response.status(), elapsed);
    if let (Some(app), Some(route)) = (&app, route) {
        state.metrics.answered_app(&app.id, route.endpoint, code);
    }
    let endpoint = route.map_or("unknown", |route| route.path);
    span.in_scope(|| log(&state, &method, endpoint, unknown_path.as_deref(), &response, elapsed));
    if let (Some(tracer), Some(trace)) = (tracer, &trace) {
        // Methods that strangers make up stay out of it.
        let known = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"];
        let known = known.into_iter().find(|known| *known == method.as_str());
        let answered = Answered {
            method: known.unwrap_or("_OTHER"),
            route: route.map(|route| route.path),
            endpoint: route.map_or("unknown", |route| route.endpoint.as_str()),
            status: response.status().as_u16(),
            code: code.map_or(1, Code::number),
            request_id: request_id.to_str().unwrap_or_default(),
        };
        tracer.end(trace, answered);
    }
    if let (Some(app), Some(route)) = (app, route) {
        response = spoilt(&state, &app, route, response).await;
    }
    response.headers_mut().insert(REQUEST_ID.clone(), request_id);
    response
}

/// The answer after the fault that a sandbox app asked for, if one happens to it. Log and metrics tell of the answer
/// before it.
async fn spoilt(state: &AppState, app: &App, route: &Route, response: Response) -> Response {
    let Some(app) = SandboxApp::of(app).filter(|_| route.endpoint.has_faults()) else { return response };
    match sandbox::spoil(state, &app, route.endpoint).await {
        Spoilt::Whole => response,
        Spoilt::Lost => sandbox::lost(),
        Spoilt::Refused(refusal) => rendered(refusal, route.envelope),
    }
}

fn log(
    state: &AppState,
    method: &Method,
    endpoint: &'static str,
    path: Option<&str>,
    response: &Response,
    elapsed: std::time::Duration,
) {
    let status = response.status();
    let Some(Refused { code, cause }) = response.extensions().get::<Refused>() else {
        let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        tracing::debug!(%method, endpoint, status = status.as_u16(), elapsed_ms, "answered");
        return;
    };
    let (code, cause) = (Some(code.number()), cause.as_deref().unwrap_or_default());
    state.refusal_log.write(&Unsuccessful {
        method,
        endpoint,
        path,
        status,
        code,
        cause,
        user: None,
        elapsed,
    });
}

/// The route of a request, for metrics and log: paths that strangers make up stay out of both.
fn route_of(request: &Request) -> Option<&'static Route> {
    let path = request.extensions().get::<MatchedPath>()?.as_str();
    ROUTES.iter().find(|route| route.path == path)
}

/// What a W3C `traceparent` says, where one came that is well-formed.
fn trace_parent(request: &Request) -> Option<TraceParent> {
    TraceParent::parse(request.headers().get(&TRACEPARENT)?.to_str().ok()?)
}
