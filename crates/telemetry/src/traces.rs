//! OpenTelemetry traces: a span for each request, and inside it spans for the database work of an
//! exchange and for a fetch. There are none unless the settings name a collector.
//!
//! A span holds constant names, numbers and the id of the request. It never holds a token, key,
//! signature, player, address or body. All spans of a request go to the exporter together, after the
//! answer. Nobody waits for the exporter: it drops and counts what the collector does not accept in
//! time. Without a collector, the only cost is a look at a task-local value.

mod context;
mod exporter;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use opentelemetry::trace::{SpanContext, SpanId, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_http::HttpClient;
use opentelemetry_sdk::trace::{IdGenerator as _, RandomIdGenerator, SpanData, SpanEvents, SpanLinks};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::metrics::TraceMetrics;

pub use context::TraceParent;
use exporter::{Exporter, ExporterMessage};
pub use opentelemetry::Value;
pub use opentelemetry::trace::SpanKind;

/// Requests whose spans may wait for the exporter. The spans of further requests are dropped.
const QUEUE_MAX: usize = 4096;
/// How long [`Tracer::flush`] waits.
const FLUSH_WITHIN: Duration = Duration::from_secs(1);
/// The name of the service and of the instrumentation.
const NAME: &str = "minitill";

tokio::task_local! {
    /// The trace of the request that a task works for.
    static CURRENT: Trace;
}

/// A collector of traces.
#[derive(Debug)]
pub struct Collector<C> {
    /// The client that sends the requests. It bounds the size of an answer.
    pub client: C,
    /// The full address.
    pub endpoint: String,
    /// Headers of each request, such as `Authorization`.
    pub headers: HashMap<String, String>,
}

/// The trace of a request under way. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Trace(Arc<BegunTrace>);

#[derive(Debug)]
struct BegunTrace {
    trace_id: TraceId,
    id: SpanId,
    parent: Option<SpanId>,
    started: Instant,
    started_at: SystemTime,
    /// Spans inside the request that have ended.
    within: Mutex<Vec<SpanData>>,
}

/// The trace of the request that this task works for. There is none outside a request, and none
/// without a collector.
#[must_use]
pub fn current() -> Option<Trace> {
    CURRENT.try_with(Clone::clone).ok()
}

/// A number as the value of an attribute.
#[must_use]
pub fn number(number: usize) -> Value {
    Value::I64(i64::try_from(number).unwrap_or(i64::MAX))
}

impl Trace {
    /// Its id, as 32 hexadecimal digits. A collector finds the trace by it.
    #[must_use]
    pub fn id(&self) -> String {
        self.0.trace_id.to_string()
    }

    /// Runs `work` so that [`current`] is this trace in it.
    pub fn scope<F: Future>(&self, work: F) -> impl Future<Output = F::Output> + use<F> {
        CURRENT.scope(self.clone(), work)
    }

    /// Adds a span inside the request. After the request's answer it adds nothing.
    pub fn add(
        &self,
        name: &'static str,
        kind: SpanKind,
        (started, ended): (Instant, Instant),
        attributes: Vec<(&'static str, Value)>,
    ) {
        let span = SpanData {
            span_context: self.context(RandomIdGenerator::default().new_span_id()),
            parent_span_id: self.0.id,
            parent_span_is_remote: false,
            ..self.span(name.into(), kind, (started, ended), attributes)
        };
        self.0.within.lock().unwrap_or_else(PoisonError::into_inner).push(span);
    }

    /// The span of the request itself, with these ends and attributes.
    fn span(
        &self,
        name: Cow<'static, str>,
        span_kind: SpanKind,
        (started, ended): (Instant, Instant),
        attributes: Vec<(&'static str, Value)>,
    ) -> SpanData {
        let scope = InstrumentationScope::builder(NAME).with_version(env!("CARGO_PKG_VERSION"));
        SpanData {
            span_context: self.context(self.0.id),
            parent_span_id: self.0.parent.unwrap_or(SpanId::INVALID),
            parent_span_is_remote: self.0.parent.is_some(),
            span_kind,
            name,
            start_time: self.time(started),
            end_time: self.time(ended),
            attributes: attributes.into_iter().map(|(name, value)| KeyValue::new(name, value)).collect(),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: scope.build(),
        }
    }

    fn context(&self, id: SpanId) -> SpanContext {
        SpanContext::new(self.0.trace_id, id, TraceFlags::SAMPLED, false, TraceState::NONE)
    }

    fn time(&self, at: Instant) -> SystemTime {
        self.0.started_at + at.saturating_duration_since(self.0.started)
    }
}

/// The facts of a request that was answered.
#[derive(Debug, Clone, Copy)]
pub struct Answered<'a> {
    /// Its method, if it is one of HTTP's own.
    pub method: &'static str,
    /// The path in the route table. A path that is not there has none.
    pub route: Option<&'static str>,
    /// The endpoint's name, as in metrics.
    pub endpoint: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// The number in the answer's body; 1 is success.
    pub code: u32,
    /// The id that the log has, too.
    pub request_id: &'a str,
}

/// Starts traces and hands their spans to the exporter.
#[derive(Debug)]
pub struct Tracer {
    queue: mpsc::Sender<ExporterMessage>,
    metrics: TraceMetrics,
}

impl Tracer {
    /// Starts an exporter to this collector. It runs as long as the runtime lives.
    ///
    /// # Errors
    /// The endpoint is not a URI.
    pub fn start<C: HttpClient + 'static>(
        collector: Collector<C>,
        metrics: TraceMetrics,
    ) -> Result<Self, opentelemetry_otlp::ExporterBuildError> {
        let (queue, messages) = mpsc::channel(QUEUE_MAX);
        tokio::spawn(Exporter::new(collector, metrics.clone())?.run(messages));
        Ok(Self { queue, metrics })
    }

    /// Begins the trace of a request that arrived at `started`, which is `now_millis` of Unix time. It
    /// belongs to the caller's trace, or else is new. There is none if the caller does not record
    /// its own.
    #[must_use]
    pub fn begin(&self, caller: Option<TraceParent>, started: Instant, now_millis: i64) -> Option<Trace> {
        if caller.is_some_and(|caller| !caller.sampled) {
            return None;
        }
        let ids = RandomIdGenerator::default();
        let since_epoch = Duration::from_millis(u64::try_from(now_millis).unwrap_or(0));
        Some(Trace(Arc::new(BegunTrace {
            trace_id: caller
                .map_or_else(|| ids.new_trace_id(), |caller| TraceId::from_bytes(caller.trace_id)),
            id: ids.new_span_id(),
            parent: caller.map(|caller| SpanId::from_bytes(caller.span_id)),
            started,
            started_at: SystemTime::UNIX_EPOCH + since_epoch,
            within: Mutex::default(),
        })))
    }

    /// Ends the trace of a request that was answered. Its spans go to the exporter, or are dropped if
    /// too many wait.
    pub fn end(&self, trace: &Trace, answered: Answered<'_>) {
        let Answered { method, route, endpoint, status, code, request_id } = answered;
        let mut attributes = vec![
            ("http.request.method", method.into()),
            ("http.response.status_code", i64::from(status).into()),
            ("minitill.endpoint", endpoint.into()),
            ("minitill.code", i64::from(code).into()),
            ("minitill.request_id", request_id.to_owned().into()),
        ];
        attributes.extend(route.map(|route| ("http.route", route.into())));
        let name = route.map_or(Cow::Borrowed(method), |route| format!("{method} {route}").into());
        let mut request = trace.span(name, SpanKind::Server, (trace.0.started, Instant::now()), attributes);
        if status >= 500 {
            request.status = Status::error("");
        }
        let mut spans = std::mem::take(&mut *trace.0.within.lock().unwrap_or_else(PoisonError::into_inner));
        spans.push(request);
        if self.queue.try_send(ExporterMessage::Spans(spans)).is_err() {
            self.metrics.dropped(1);
        }
    }

    /// Waits until all earlier spans have been sent or dropped, one second at most.
    pub async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        let flushing = async {
            if self.queue.send(ExporterMessage::Flush(done)).await.is_ok() {
                let _ = flushed.await;
            }
        };
        let _ = tokio::time::timeout(FLUSH_WITHIN, flushing).await;
    }
}

#[cfg(test)]
mod tests;
