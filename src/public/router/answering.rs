//! The layer around every handler: request id, trace, log, metrics, panics and the envelope of a refusal.
//! One layer with one future, because it runs for every request.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody as _};
use axum::extract::Request;
use axum::http::header::ALLOW;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use domain::endpoint::Endpoint;
use domain::sandbox::SandboxApp;
use futures_util::FutureExt as _;
use http_server::Peer;
use telemetry::traces::{Answered, Trace, TraceParent};
use tokio::sync::OwnedRwLockReadGuard;
use tokio::time::Instant;
use tower::{Layer, Service};
use tracing::{Instrument as _, Span};

use super::{LoggedRefusal, path, rendered};
use crate::http::body::refuse_coding;
use crate::http::client_address::client_address;
use crate::http::refusal::{Code, Envelope, Refusal, panic_text};
use crate::http::refusal_log::{Unsuccessful, known_method, shown_method};
use crate::http::request_id::{REQUEST_ID, RequestId, request_id};
use crate::http::request_log::{ANSWER_BYTES_MAX, LoggedRequest, masked_answer};
use crate::public::called_app::{Called, SandboxCall};
use crate::public::fault::{self, Spoilt};
use crate::public::routes::{Authentication, Route};
use crate::public::{called_app, image};
use crate::state::AppState;

static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The layer of one path. Paths that strangers make up have no route, and stay out of metrics and log.
#[derive(Clone)]
pub(super) struct Answering {
    state: AppState,
    route: Option<&'static Route>,
    envelope: Envelope,
}

impl Answering {
    pub(super) fn new(state: &AppState, route: Option<&'static Route>, envelope: Envelope) -> Self {
        Self { state: state.clone(), route, envelope }
    }
}

impl<Inner> Layer<Inner> for Answering {
    type Service = Around<Inner>;

    fn layer(&self, inner: Inner) -> Around<Inner> {
        Around { inner, answering: self.clone() }
    }
}

/// A handler with [`Answering`] around it.
#[derive(Clone)]
pub(super) struct Around<Inner> {
    inner: Inner,
    answering: Answering,
}

impl<Inner> Service<Request> for Around<Inner>
where
    Inner: Service<Request, Response = Response, Error = Infallible>,
    Inner::Future: Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        let begun = self.answering.begin(&mut request);
        let readable = refuse_coding(&request);
        // It runs nothing of ours before it is polled, so a panic comes out of the future.
        let handling = AssertUnwindSafe(self.inner.call(request)).catch_unwind();
        let answering = self.answering.clone();
        Box::pin(async move {
            let handled = async {
                let _under_way = answering.begin_call().await;
                if let Err(refusal) = readable {
                    return answering.enveloped(refusal.into_response());
                }
                let response = handling.await.unwrap_or_else(|panic| Ok(caught(&*panic)));
                answering.enveloped(response.unwrap_or_else(|never| match never {}))
            };
            let endpoint = answering.route.map(|route| route.endpoint);
            let handled = called_app::with_called_app(endpoint, handled).instrument(begun.span.clone());
            let (response, called) = match &begun.trace {
                // The futures that few requests need are in boxes.
                Some(trace) => Box::pin(trace.scope(handled)).await,
                None => handled.await,
            };
            let mut response = answering.told(&begun, response, called).await;
            if answering.route.is_some_and(|route| route.authentication == Authentication::Path) {
                response.headers_mut().extend([image::OF_ANY_ORIGIN]);
            }
            response.headers_mut().insert(REQUEST_ID.clone(), begun.request_id);
            Ok(response)
        })
    }
}

/// The known facts of a request before it is answered.
struct BegunRequest {
    request_id: HeaderValue,
    method: Method,
    /// The path, where no route has it.
    unknown_path: Option<String>,
    started: Instant,
    trace: Option<Trace>,
    span: Span,
    /// Of a sandbox app's late answer.
    peer: Option<Peer>,
}

impl Answering {
    /// Gives the request its id, its span and its trace. The client's address stands in the log where clients are servers,
    /// not where players look at pictures.
    fn begin(&self, request: &mut Request) -> BegunRequest {
        let Self { state, route, .. } = self;
        let request_id = request_id(request);
        request.extensions_mut().insert(RequestId(request_id.clone()));
        let unknown_path = route.is_none().then(|| path::shown(request.uri().path()));
        let may_be_player = route.is_some_and(|route| route.authentication == Authentication::Path);
        let peer = request.extensions().get::<Peer>().cloned();
        let known = peer.as_ref().filter(|_| !may_be_player).map(Peer::address);
        let client =
            known.map(|peer| client_address(peer, request.headers(), &state.config.public.trusted_proxies));
        let started = Instant::now();
        let caller = trace_parent(request);
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
        let method = request.method().clone();
        BegunRequest { request_id, method, unknown_path, started, trace, span, peer }
    }

    /// On a sandbox server a call is under way until the result is dropped, unless it stops the others itself.
    async fn begin_call(&self) -> Option<OwnedRwLockReadGuard<()>> {
        let sandbox = self.state.sandbox_server.as_ref()?;
        let stops_others = self.route.is_some_and(|route| route.is_of_sandbox_server);
        if stops_others { None } else { Some(sandbox.begin_call().await) }
    }

    /// Puts a refusal into the envelope of its endpoint; what is no refusal passes.
    fn enveloped(&self, mut response: Response) -> Response {
        let Some(mut refusal) = response.extensions_mut().remove::<Refusal>() else { return response };
        if self.route.is_some_and(|route| route.endpoint == Endpoint::Callback) {
            // A payment provider takes 2xx for delivered, and does not repeat.
            refusal.transport.get_or_insert(StatusCode::UNPROCESSABLE_ENTITY);
        }
        let mut rendered = rendered(refusal, self.envelope);
        if let Some(allow) = response.headers_mut().remove(ALLOW) {
            rendered.headers_mut().insert(ALLOW, allow);
        }
        rendered
    }

    /// Tells metrics, log (contract 9.7) and trace of the answer. Never a query, a header or a body (contract 2.8). Then
    /// comes the fault that a sandbox app asked for.
    async fn told(&self, begun: &BegunRequest, response: Response, called: Called) -> Response {
        let Self { state, route, .. } = self;
        let elapsed = begun.started.elapsed();
        let code = response.extensions().get::<LoggedRefusal>().map(|refused| refused.code);
        state.metrics.answered(route.map(|route| route.endpoint), code, response.status(), elapsed);
        let app = called.app.as_deref().zip(*route);
        if let Some((app, route)) = app {
            state.metrics.answered_app(&app.id, route.endpoint, code);
        }
        begun.span.in_scope(|| self.log(begun, &response, elapsed));
        if let (Some(tracer), Some(trace)) = (&state.tracer, &begun.trace) {
            let answered = Answered {
                // This name is that of OpenTelemetry.
                method: known_method(&begun.method).unwrap_or("_OTHER"),
                route: route.map(|route| route.path),
                endpoint: route.map_or("unknown", |route| route.endpoint.as_str()),
                status: response.status().as_u16(),
                code: code.map_or(1, Code::number),
                request_id: begun.request_id.to_str().unwrap_or_default(),
            };
            tracer.end(trace, answered);
        }
        let logged = called.logged.zip(*route).filter(|(_, route)| !route.is_request_log());
        // Only a sandbox app has one: the answer of any other goes on as it is.
        let (response, logged) = match logged {
            Some((call, route)) => {
                let (response, logged) = Box::pin(self.logged(begun, response, (&call, route), code)).await;
                (response, Some((call.app_id, logged)))
            }
            None => (response, None),
        };
        let sandbox = app.and_then(|(app, route)| SandboxApp::of(app).zip(Some(route)));
        let (response, is_spoilt) = match sandbox.filter(|(_, route)| route.endpoint.has_faults()) {
            Some((app, route)) => Box::pin(spoilt(state, &app, route, (response, begun.peer.as_ref()))).await,
            None => (response, false),
        };
        if let Some((app_id, logged)) = logged {
            let fault = logged.fault || is_spoilt;
            state.request_log.add(&app_id, LoggedRequest { fault, ..logged });
        }
        response
    }

    /// The line of a sandbox app's call in its log (contract 18.3), and the answer, of which the line has a copy.
    async fn logged(
        &self,
        begun: &BegunRequest,
        response: Response,
        (call, route): (&SandboxCall, &Route),
        code: Option<Code>,
    ) -> (Response, LoggedRequest) {
        let (head, body) = response.into_parts();
        let is_short = body.size_hint().upper().is_some_and(|bytes| bytes <= ANSWER_BYTES_MAX as u64);
        let (body, answer) = if is_short {
            let bytes = axum::body::to_bytes(body, ANSWER_BYTES_MAX).await.unwrap_or_default();
            let answer = masked_answer(&bytes);
            (Body::from(bytes), answer)
        } else {
            (body, serde_json::Value::Null)
        };
        let response = Response::from_parts(head, body);
        let logged = LoggedRequest {
            at: self.state.now(),
            endpoint: route.endpoint.as_str(),
            fields: call.fields.iter().cloned().collect(),
            status: response.status().as_u16(),
            answer,
            code: code.map_or(1, Code::number),
            request_id: begun.request_id.to_str().unwrap_or_default().to_owned(),
            milliseconds: u64::try_from(begun.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            fault: call.is_refused_by_fault,
        };
        (response, logged)
    }

    fn log(&self, begun: &BegunRequest, response: &Response, elapsed: std::time::Duration) {
        let (method, status) = (&begun.method, response.status());
        let endpoint = self.route.map_or("unknown", |route| route.path);
        let Some(LoggedRefusal { code, cause }) = response.extensions().get::<LoggedRefusal>() else {
            let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
            let method = shown_method(method);
            tracing::debug!(method, endpoint, status = status.as_u16(), elapsed_ms, "answered");
            return;
        };
        let (code, cause) = (Some(code.number()), cause.as_deref().unwrap_or_default());
        let path = begun.unknown_path.as_deref();
        self.state.refusal_log.write(&Unsuccessful {
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
}

/// A panic is a bug of ours; the caller is told 500 in the envelope.
fn caught(panic: &(dyn std::any::Any + Send)) -> Response {
    Refusal::internal(format!("panic: {}", panic_text(panic))).into_response()
}

/// The answer after the fault that a sandbox app asked for, if one happens to it. Log and metrics tell of the answer
/// before it.
async fn spoilt(
    state: &AppState,
    app: &SandboxApp,
    route: &Route,
    (response, peer): (Response, Option<&Peer>),
) -> (Response, bool) {
    match fault::spoil(state, app, route.endpoint, peer).await {
        Spoilt::Not => (response, false),
        Spoilt::Late => (response, true),
        Spoilt::Lost => (fault::lost(), true),
        Spoilt::Refused(refusal) => (rendered(refusal, route.envelope), true),
    }
}

/// The content of a W3C `traceparent`, where one came that is well-formed.
fn trace_parent(request: &Request) -> Option<TraceParent> {
    TraceParent::parse(request.headers().get(&TRACEPARENT)?.to_str().ok()?)
}
