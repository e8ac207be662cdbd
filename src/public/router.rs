//! The router of the public listener: the route table, and the layers around it.

mod answering;
mod concurrency_limit;
mod path;

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::handler::Handler as _;
use axum::http::{HeaderMap, HeaderValue, Method, Uri};
use axum::middleware;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, MethodRouter};
use tower::util::MapRequest;

use self::answering::Answering;
use super::called_app;
use super::docs;
use super::image;
use super::routes::{Authentication, ROUTES, Route};
use crate::http::refusal::{Code, Envelope, Refusal};
use crate::state::AppState;

/// The service that answers the requests of the public listener.
pub type Public = MapRequest<Router, fn(Request) -> Request>;

/// The public listener: the route table, and around it slash collapsing, request ids, the log,
/// and the envelope for whatever refuses.
#[must_use]
pub fn public(state: AppState) -> Public {
    with_routes(state, &ROUTES)
}

/// The layers of the public listener around another table: tests bring routes that fail.
pub fn with_routes(state: AppState, table: &[Route]) -> Public {
    let of_clients = concurrency_limit::RequestsUnderWay::behind_proxies(&state.config).map(Arc::new);
    let mut routes = Router::new();
    for of_path in table.chunk_by(|one, other| one.path == other.path) {
        let first = &of_path[0];
        if first.is_of_sandbox_server && state.sandbox_server.is_none() {
            continue;
        }
        let allowed: Vec<_> = of_path.iter().map(|route| route.method).collect();
        let refuse = move |method: Method| {
            let allowed = allowed.clone();
            async move { method_not_allowed(&allowed, &method) }
        };
        let merge = |handler: MethodRouter<_>, route: &Route| handler.merge((route.handler)());
        let mut handler = of_path.iter().fold(MethodRouter::new(), merge);
        if of_path.iter().all(|route| route.method != "HEAD") {
            // A GET handler would take HEAD too, and a token would be issued that nobody sees.
            handler = handler.on(MethodFilter::HEAD, refuse.clone());
        }
        if first.authentication == Authentication::Path {
            let refuse = refuse.clone();
            handler =
                handler.on(MethodFilter::OPTIONS, move |method: Method, headers: HeaderMap| async move {
                    match image::preflight(&headers) {
                        Some(response) => response,
                        None => refuse(method).await,
                    }
                });
        }
        handler = handler.fallback(refuse);
        if let Some(limit) = &of_clients {
            handler =
                handler.layer(middleware::from_fn_with_state(Arc::clone(limit), concurrency_limit::limit));
        }
        let known = ROUTES.iter().find(|route| route.path == first.path);
        let handler = handler.layer(Answering::new(&state, known, first.envelope));
        routes = routes.route(first.path, handler);
    }
    let of_no_route = Answering::new(&state, None, Envelope::Open);
    if state.config.public.docs {
        routes = routes.merge(docs::own_routes().layer(of_no_route.clone()));
    }
    let routes = routes.fallback(unknown_path.layer(of_no_route)).with_state(state);
    // The path is rewritten before routing, which a layer of the router itself would be too late for.
    MapRequest::new(routes, path::normalise)
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
    let mut refused = rendered(Refusal::no_such_endpoint(&path::shown(path), documents), envelope);
    if path == "/img" || path.starts_with("/img/") {
        refused.headers_mut().extend([image::OF_ANY_ORIGIN]);
    }
    refused
}

fn method_not_allowed(methods: &[&str], came: &Method) -> Response {
    let mut response = Refusal::wrong_method(methods, came).into_response();
    if let Ok(value) = HeaderValue::from_str(&methods.join(", ")) {
        response.headers_mut().insert(axum::http::header::ALLOW, value);
    }
    response
}

/// The response of a refusal, with what the log is told of it.
fn rendered(refusal: Refusal, envelope: Envelope) -> Response {
    let mut rendered = refusal.render(envelope, called_app::language());
    rendered.extensions_mut().insert(LoggedRefusal { code: refusal.code, cause: refusal.cause });
    rendered
}

/// What the log is told of a refusal. Not the message: it repeats parts of the request.
#[derive(Clone)]
struct LoggedRefusal {
    code: Code,
    cause: Option<String>,
}
