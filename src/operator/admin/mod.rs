//! The admin API: what the command line can do, as JSON (docs/admin-api.md). Every route stands once in
//! [`ROUTES`], with what it asks of the caller; nothing reaches a handler but through `Call`.

mod apps;
mod books;
mod call;
mod closed_periods;
mod credits;
mod describe;
mod document;
mod events;
mod exchanges;
mod idempotency;
mod images;
mod logins;
mod messages;
mod operator_log;
mod operators;
mod orders;
mod prices;
pub mod problem;
mod receivers;
mod reconcile;
mod refusals;
mod reports;
mod routes;
mod tokens;
mod topup_providers;
mod topup_reports;
mod topups;
mod wallets;

use std::panic::AssertUnwindSafe;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use axum::routing::{MethodRouter, any, on};
use domain::fields::shown;
use domain::topup::{PaymentState, RefundState};
use futures_util::FutureExt as _;
use serde_json::Value;
use tracing::Instrument as _;

use self::call::Call;
use self::describe::ListBody;
use self::idempotency::IdempotentAnswer;
use self::problem::{Problem, ProblemKind};
use self::routes::AdminAnswer;
use crate::http::client_address::ClientAddress;
use crate::http::json::json_response;
use crate::http::refusal::panic_text;
use crate::http::refusal_log::Unsuccessful;
use crate::http::request_id::{REQUEST_ID, request_id};
use crate::state::AppState;

pub use self::call::IDEMPOTENCY_KEY;
pub use self::document::{API_KEY, DescribedRoute, EXAMPLE_REQUEST_ID, calls, document};
pub use self::routes::{AdminRoute, ROUTES, RouteEffect};

/// Tells that another try of the same request has made the change.
pub const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// The routes, for the operator's listener; whatever else is asked for under `/admin` is a problem too.
pub fn routes() -> Router<AppState> {
    let mut router = Router::new();
    for of_path in ROUTES.chunk_by(|one, other| one.path == other.path) {
        let mut methods = MethodRouter::new();
        for route in of_path {
            let answer = move |State(state): State<AppState>, request: Request| answer(route, state, request);
            methods = methods.merge(on(route.filter, answer));
        }
        let refuse = async move |State(state): State<AppState>, request: Request| {
            refuse(&state, &request, method_not_allowed(of_path, request.method()))
        };
        router = router.route(of_path[0].path, methods.fallback(refuse));
    }
    let unknown = async |State(state): State<AppState>, request: Request| {
        refuse(&state, &request, Problem::none("nothing at this path"))
    };
    router.route("/admin", any(unknown)).route("/admin/{*rest}", any(unknown))
}

fn method_not_allowed(of_path: &[AdminRoute], came: &Method) -> Problem {
    let methods = of_path.iter().map(|route| if route.method == "GET" { "GET, HEAD" } else { route.method });
    let allowed = methods.collect::<Vec<_>>().join(", ");
    let value = HeaderValue::from_str(&allowed).unwrap_or(HeaderValue::from_static(""));
    let detail = format!("expected {allowed}, got {}", shown(came.as_str()));
    Problem::new(ProblemKind::MethodNotAllowed, detail).with_header(header::ALLOW, value)
}

/// Answers a request of a route.
async fn answer(route: &'static AdminRoute, state: AppState, request: Request) -> Response {
    let (id, uri, method) = (request_id(&request), request.uri().clone(), request.method().clone());
    let ClientAddress(client) =
        ClientAddress::of(request.extensions(), request.headers(), &state.config.ops.trusted_proxies);
    let span = tracing::info_span!("admin", request_id = id.to_str().unwrap_or_default(), client = %client);
    let started = tokio::time::Instant::now();
    // In a box, a request is not moved through each layer.
    let outcome = guarded(Box::pin(serve(route, &state, request))).instrument(span.clone()).await;
    let reads = matches!(route.access, RouteEffect::Read | RouteEffect::Check | RouteEffect::File);
    let outcome = outcome.map_err(|problem| if reads { problem.of_reading() } else { problem });
    let (endpoint, elapsed) = (route.id, started.elapsed());
    let status = match &outcome {
        Ok(answered) => status_of(route, &answered.answer),
        Err(problem) => problem.kind.status(),
    };
    span.in_scope(|| match &outcome {
        Ok(_) => {
            let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
            tracing::debug!(%method, endpoint, status = status.as_u16(), elapsed_ms, "answered");
        }
        Err(Problem { cause, .. }) => {
            let (method, cause) = (&method, cause.as_deref().unwrap_or_default());
            let (path, code, user) = (None, None, None);
            state.refusal_log.write(&Unsuccessful {
                method,
                endpoint,
                path,
                status,
                code,
                cause,
                user,
                elapsed,
            });
        }
    });
    state.metrics.admin_answered(endpoint, status);
    let mut response = match outcome {
        Ok(answered) => success(route, &uri, answered),
        Err(problem) => problem.into_response(id.to_str().unwrap_or_default()),
    };
    response.headers_mut().insert(REQUEST_ID.clone(), id);
    response
}

async fn serve(route: &AdminRoute, state: &AppState, request: Request) -> Result<IdempotentAnswer, Problem> {
    let call = Call::receive(route, state, request).await?;
    if route.id != FEED && route.id != TAKE_PAYMENT {
        call.take_place(state).await?;
    }
    let outcome = idempotency::carry_out(route, state, &call).await;
    let Some(place) = call.leave_place() else { return outcome };
    match outcome {
        // A file may be made while it is sent.
        Ok(IdempotentAnswer { answer: AdminAnswer::File(file), replayed }) => {
            Ok(IdempotentAnswer { answer: AdminAnswer::File(place.with(file)), replayed })
        }
        outcome => {
            place.give_back();
            outcome
        }
    }
}

/// Answers a request that no route is for.
fn refuse(state: &AppState, request: &Request, problem: Problem) -> Response {
    let id = request_id(request);
    state.metrics.admin_answered("unknown", problem.kind.status());
    let mut response = problem.into_response(id.to_str().unwrap_or_default());
    response.headers_mut().insert(REQUEST_ID.clone(), id);
    response
}

/// A panic is a fault of ours like any other.
async fn guarded<T>(serving: impl Future<Output = Result<T, Problem>>) -> Result<T, Problem> {
    let outcome = AssertUnwindSafe(serving).catch_unwind().await;
    outcome.unwrap_or_else(|panic| Err(Problem::internal(format!("panic: {}", panic_text(&*panic)))))
}

/// The call that waits without a place, and takes one when it must read.
const FEED: &str = "listEvents";
/// The call that waits in the queue of payments, without a place. Its answer tells where an operator must look at it.
const TAKE_PAYMENT: &str = "takePayment";
/// The call that may come before its payment.
const REFUND_TOPUP: &str = "refundTopup";
/// The call that makes something which has an address.
const CREATE_APP: &str = "createApp";

/// Whether an answer with this state has the status 202. Then it was kept: an operator must look at it, or its payment
/// must come.
fn is_accepted(route: &AdminRoute, state: &str) -> bool {
    match route.id {
        TAKE_PAYMENT => PaymentState::parse(state).is_ok_and(PaymentState::is_kept),
        // 202 is for a refund that waits (contract 19.5.8). A refused one has ended, and only a replay tells of it here. A callback
        // answers that with 202, too (contract 19.4.4).
        REFUND_TOPUP => {
            RefundState::parse(state).is_ok_and(|refund| refund.is_kept() && refund != RefundState::Refused)
        }
        _ => false,
    }
}

/// The status of a success.
fn status_of(route: &AdminRoute, answer: &AdminAnswer) -> StatusCode {
    let state = match answer {
        AdminAnswer::Json(body) => body["state"].as_str(),
        AdminAnswer::File(_) => None,
    };
    if state.is_some_and(|state| is_accepted(route, state)) {
        StatusCode::ACCEPTED
    } else if route.id == CREATE_APP {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    }
}

fn success(route: &AdminRoute, uri: &axum::http::Uri, answered: IdempotentAnswer) -> Response {
    let status = status_of(route, &answered.answer);
    let body = match answered.answer {
        AdminAnswer::Json(body) => body,
        AdminAnswer::File(file) => return file,
    };
    let mut response = json_response(status, &body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if answered.replayed {
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
    }
    if let (CREATE_APP, Some(app_id)) = (route.id, body["app_id"].as_str())
        && let Ok(location) = HeaderValue::from_str(&format!("{}/{app_id}", route.path))
    {
        headers.insert(header::LOCATION, location);
    }
    if let Some(next) = body.get("next").and_then(Value::as_str)
        && let Ok(link) = HeaderValue::from_str(&format!("<{}>; rel=\"next\"", page_after(uri, next)))
    {
        headers.insert(header::LINK, link);
    }
    response
}

/// The address of the page after a cursor: the same query with another `after`.
fn page_after(uri: &axum::http::Uri, cursor: &str) -> String {
    let pairs = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(pairs.filter(|(name, _)| name != "after")).append_pair("after", cursor);
    format!("{}?{}", uri.path(), query.finish())
}

/// A page: at most `limit` elements, and where the next one begins if there are more. The store was asked
/// for one more than `limit`.
fn page<T>(mut items: Vec<T>, limit: u32, cursor: impl Fn(&T) -> String) -> ListBody<T> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| more).map(cursor);
    ListBody { items, next }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;
    use crate::config::Config;
    use crate::openapi::Content;

    #[tokio::test]
    async fn a_panic_is_a_problem_that_tells_the_caller_nothing() {
        let problem = guarded::<()>(async { panic!("a secret detail") }).await.unwrap_err();
        assert_eq!(
            (problem.kind, problem.cause.as_deref()),
            (ProblemKind::SystemError, Some("panic: a secret detail"))
        );
        assert!(!format!("{:?}", problem.body("id")).contains("secret"));
    }

    /// Rules 19.3.5 and 19.5.8: the document has each status that a success can have, and each example the status of its
    /// state.
    #[test]
    fn the_document_declares_each_status_of_a_success() {
        let answer = |state: &Value| AdminAnswer::Json(json!({ "state": state }));
        let config = Config::load(None, std::iter::empty()).unwrap();
        for DescribedRoute { route, operation } in calls(&config) {
            let declared: BTreeSet<u16> = operation.successes.iter().map(|success| success.status).collect();
            for success in operation.successes {
                let Content::Json { schema, example } = success.content else { continue };
                assert_eq!(
                    status_of(route, &AdminAnswer::Json(example)),
                    success.status,
                    "{} {}",
                    route.id,
                    success.name
                );
                let told =
                    schema.named.values().filter_map(|of| of["properties"]["state"]["enum"].as_array());
                for state in told.flatten() {
                    let status = status_of(route, &answer(state)).as_u16();
                    assert!(declared.contains(&status), "{} answers {state} with {status}", route.id);
                }
            }
        }
    }

    #[test]
    fn a_page_tells_where_the_next_begins_only_if_there_is_one() {
        let cursor = |number: &u32| number.to_string();
        assert_eq!(json!(page(vec![1, 2, 3], 2, cursor)), json!({ "items": [1, 2], "next": "2" }));
        assert_eq!(json!(page(vec![1, 2], 2, cursor)), json!({ "items": [1, 2], "next": null }));
        assert_eq!(json!(page(Vec::new(), 2, cursor)), json!({ "items": [], "next": null }));
        let uri = "/admin/v1/apps?after=a%26b&limit=2".parse().unwrap();
        assert_eq!(page_after(&uri, "c d"), "/admin/v1/apps?limit=2&after=c+d");
    }
}
