//! The route table of the public listener, every route once, and the layers around it.

mod client_address;

use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, MatchedPath, Request, State};
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use telemetry::traces::{Answered, Trace, TraceParent};
use tower::ServiceBuilder;
use tower_http::catch_panic::CatchPanicLayer;
use tracing::Instrument as _;

use self::client_address::client_address;
use super::{exchange, image, image_upload, login, order_report, token};
use crate::config::Config;
use crate::error::{Code, Envelope, Refusal, panic_text};
use crate::openapi::Operation;
use crate::request_id::{REQUEST_ID, request_id};
use crate::state::AppState;
use domain::endpoint::Endpoint;

/// How a route knows its caller. A test asks each of these for a case of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Authentication {
    /// Token and signature in the form.
    SignedForm,
    /// Token in the query.
    QueryToken,
    /// Token in the query or the body.
    QueryOrBodyToken,
    /// App secret.
    AppSecret,
    /// None: whoever knows the path may see what is there.
    Path,
}

/// One route of the public listener: one method of one path.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    /// Its method.
    pub method: &'static str,
    /// Path, with parameters in braces.
    pub path: &'static str,
    /// Its name in the API's document. It never changes.
    pub id: &'static str,
    /// Its group in the API's document.
    pub tag: &'static str,
    /// How it knows its caller.
    pub authentication: Authentication,
    /// What the metrics count it as.
    pub endpoint: Endpoint,
    /// Names of the answer's fields.
    pub envelope: Envelope,
    /// Makes what answers it.
    pub handler: fn() -> MethodRouter<AppState>,
    /// What the API's document says of it.
    pub describe: fn(&Config) -> Operation<Refusal>,
}

/// A row of the table, written as it reads.
macro_rules! route {
    ($method:ident $path:literal, $id:literal in $tag:literal, $authentication:ident, $endpoint:ident, $envelope:ident,
     $handler:path, $describe:path) => {
        Route {
            method: stringify!($method),
            path: $path,
            id: $id,
            tag: $tag,
            authentication: Authentication::$authentication,
            endpoint: Endpoint::$endpoint,
            envelope: Envelope::$envelope,
            handler: || on(MethodFilter::$method, $handler),
            describe: $describe,
        }
    };
}

/// Every route of the public listener (contract 1: sections 3 to 6 and 11, and nothing else), those of a
/// path together.
#[rustfmt::skip]
pub static ROUTES: [Route; 12] = [
    route!(POST "/api/{payment_segment}/minigame/pay", "exchange" in "Exchange",
        SignedForm, Exchange, Exchange, exchange::exchange, exchange::describe),
    route!(POST "/openapi/mp/developer/order/v1/report", "reportOrder" in "Orders",
        QueryToken, OrderReport, Open, order_report::report, order_report::describe),
    route!(POST "/openapi/mp/developer/file/img/uploadWithFile", "uploadWithFile" in "Images",
        QueryToken, UploadWithFile, Open, image_upload::upload_with_file, image_upload::describe_with_file),
    route!(POST "/openapi/mp/developer/file/img/uploadWithUrl", "uploadWithUrl" in "Images",
        QueryOrBodyToken, UploadWithUrl, Open, image_upload::upload_with_url, image_upload::describe_with_url),
    route!(GET "/oauth2/access_token", "getAccessToken" in "Tokens",
        AppSecret, AccessToken, Open, token::access_token, token::describe_get),
    route!(POST "/oauth2/access_token", "postAccessToken" in "Tokens",
        AppSecret, AccessToken, Open, token::access_token, token::describe_post),
    route!(GET "/game/minigame/jscode2session", "getGameSession" in "Login",
        AppSecret, Login, Open, login::login, login::describe_get),
    route!(POST "/game/minigame/jscode2session", "postGameSession" in "Login",
        AppSecret, Login, Open, login::login, login::describe_post),
    route!(GET "/oauth2/mp/code2session", "getProgramSession" in "Login",
        AppSecret, Login, Open, login::login, login::describe_get),
    route!(POST "/oauth2/mp/code2session", "postProgramSession" in "Login",
        AppSecret, Login, Open, login::login, login::describe_post),
    route!(GET "/img/{img_id}", "getImage" in "Images", Path, Image, Open, image::image, image::describe_get),
    route!(HEAD "/img/{img_id}", "headImage" in "Images", Path, Image, Open, image::image, image::describe_head),
];

static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The public listener: the route table, and around it slash collapsing, request ids, the log,
/// and the envelope for whatever refuses.
pub fn public(state: AppState) -> Router {
    with_routes(state, &ROUTES)
}

/// The layers of the public listener around another table: tests bring routes that fail.
pub fn with_routes(state: AppState, table: &[Route]) -> Router {
    let mut routes = Router::new();
    for of_path in table.chunk_by(|one, other| one.path == other.path) {
        let first = &of_path[0];
        let rendering = (state.clone(), first.envelope);
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
        let handler = handler.fallback(refuse).layer(
            ServiceBuilder::new()
                .layer(middleware::from_fn_with_state(rendering, render))
                .layer(CatchPanicLayer::custom(caught)),
        );
        routes = routes.route(first.path, handler);
    }
    let not_found = (state.clone(), Envelope::Open);
    let routes = routes
        .fallback(async || Refusal::transport(StatusCode::NOT_FOUND, "path: no such endpoint"))
        .layer(middleware::from_fn_with_state(not_found, render))
        .layer(middleware::from_fn_with_state(state.clone(), observe))
        .with_state(state);
    // The path is rewritten before routing, which a layer of the router itself would be too late for.
    Router::new().fallback_service(tower::util::MapRequest::new(routes, collapse_slashes))
}

fn method_not_allowed(methods: &[&str]) -> Response {
    let text = format!("method: expected {}", methods.join(" or "));
    let mut response = Refusal::transport(StatusCode::METHOD_NOT_ALLOWED, text).into_response();
    if let Ok(value) = HeaderValue::from_str(&methods.join(", ")) {
        response.headers_mut().insert(axum::http::header::ALLOW, value);
    }
    response
}

/// Puts a refusal into the envelope of its endpoint; what is no refusal passes.
async fn render(
    State((state, envelope)): State<(AppState, Envelope)>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = next.run(request).await;
    let Some(refusal) = response.extensions_mut().remove::<Refusal>() else { return response };
    let mut rendered = refusal.render(envelope, state.config.http.error_status);
    if let Some(allow) = response.headers_mut().remove(axum::http::header::ALLOW) {
        rendered.headers_mut().insert(axum::http::header::ALLOW, allow);
    }
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

/// Runs of slashes count as one: real clients send them (contract 2.4).
fn collapse_slashes(mut request: Request<Body>) -> Request<Body> {
    let path = request.uri().path();
    if !path.contains("//") {
        return request;
    }
    let mut characters: Vec<char> = path.chars().collect();
    characters.dedup_by(|one, other| (*one, *other) == ('/', '/'));
    let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
    let collapsed = String::from_iter(characters) + &query;
    let mut parts = request.uri().clone().into_parts();
    parts.path_and_query = PathAndQuery::try_from(collapsed).ok();
    if let Ok(uri) = Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
    request
}

/// Gives the request its id, the metrics their numbers and the log its line: `info` for a refusal, `error` for a fault of
/// ours, `debug` for a success. Never the path with its query, a header or a body (contract 2.8).
/// The client's address stands in it where clients are servers, not where players look at pictures.
async fn observe(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let request_id = request_id(&request);
    let method = request.method().clone();
    let route = route_of(&request);
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
    let answering = next.run(request).instrument(span.clone());
    let mut response = match &trace {
        Some(trace) => trace.scope(answering).await,
        None => answering.await,
    };
    let elapsed = started.elapsed();
    let code = response.extensions().get::<Refused>().map(|refused| refused.code);
    state.metrics.answered(route.map(|route| route.endpoint), code, response.status(), elapsed);
    let endpoint = route.map_or("unknown", |route| route.path);
    span.in_scope(|| log(&method, endpoint, &response, elapsed));
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
    response.headers_mut().insert(REQUEST_ID.clone(), request_id);
    response
}

fn log(method: &Method, endpoint: &'static str, response: &Response, elapsed: std::time::Duration) {
    let status = response.status().as_u16();
    let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
    let Some(Refused { code, cause }) = response.extensions().get::<Refused>() else {
        tracing::debug!(%method, endpoint, status, elapsed_ms, "answered");
        return;
    };
    let (code, cause) = (code.number(), cause.as_deref().unwrap_or_default());
    if status >= 500 {
        tracing::error!(%method, endpoint, status, code, cause, elapsed_ms, "failed");
    } else {
        tracing::info!(%method, endpoint, status, code, cause, elapsed_ms, "refused");
    }
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
