//! Traces for an OpenTelemetry collector, where the settings name one: a span for each request, and
//! within it for the database work of an exchange and for a fetch.
//!
//! A span holds names of ours, numbers and the request's id, as the log does; never a token, key,
//! signature, player, address or body. The spans of a request are handed to the exporter together, when
//! it is answered, and nobody waits for that: what the collector does not take in time is dropped and
//! counted. Without a collector there is no trace, and what is left is a look at an empty place.

mod context;
mod exporter;
mod otlp;

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use guarded_fetch::ServiceUrl;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::metrics::TraceMetrics;
use crate::random_bytes;

pub use context::TraceParent;
use exporter::{Exporter, Message};

/// Requests whose spans may wait for the exporter; those of one more are dropped.
const QUEUE_MAX: usize = 4096;
/// How long [`Tracer::flush`] waits.
const FLUSH_WITHIN: Duration = Duration::from_secs(1);

tokio::task_local! {
    /// The trace of the request that a task works for.
    static CURRENT: Trace;
}

/// What a span is about, in the words of OpenTelemetry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Something inside the program.
    Internal,
    /// A request that came in.
    Server,
    /// A request that went out.
    Client,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A text.
    Text(Cow<'static, str>),
    /// A number.
    Number(i64),
}

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

/// A name and its value.
pub type Attribute = (&'static str, Value);

/// A span that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Span {
    trace_id: [u8; 16],
    id: [u8; 8],
    parent: Option<[u8; 8]>,
    name: Cow<'static, str>,
    kind: Kind,
    started_unix_nanos: u64,
    ended_unix_nanos: u64,
    attributes: Vec<Attribute>,
    /// Whether it is a fault of ours.
    failed: bool,
}

/// The trace of a request under way. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Trace(Arc<Begun>);

#[derive(Debug)]
struct Begun {
    trace_id: [u8; 16],
    id: [u8; 8],
    parent: Option<[u8; 8]>,
    started: Instant,
    started_unix_nanos: u64,
    /// Spans within the request that have ended.
    within: Mutex<Vec<Span>>,
}

/// The trace of the request that this task works for; none where it works for none, and where no
/// collector was named.
#[must_use]
pub fn current() -> Option<Trace> {
    CURRENT.try_with(Clone::clone).ok()
}

impl Trace {
    /// Its id, as 32 hexadecimal digits: what a collector finds it by.
    #[must_use]
    pub fn id(&self) -> String {
        hex::encode(self.0.trace_id)
    }

    /// Runs `work` so that [`current`] is this trace in it.
    pub async fn scope<F: Future>(&self, work: F) -> F::Output {
        CURRENT.scope(self.clone(), work).await
    }

    /// Adds a span within the request. After the request's answer it adds nothing.
    pub fn add(
        &self,
        name: &'static str,
        kind: Kind,
        (started, ended): (Instant, Instant),
        attributes: Vec<Attribute>,
    ) {
        let span = Span {
            trace_id: self.0.trace_id,
            id: random_bytes(),
            parent: Some(self.0.id),
            name: Cow::Borrowed(name),
            kind,
            started_unix_nanos: self.unix_nanos(started),
            ended_unix_nanos: self.unix_nanos(ended),
            attributes,
            failed: false,
        };
        self.0.within.lock().unwrap_or_else(PoisonError::into_inner).push(span);
    }

    fn unix_nanos(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.0.started).as_nanos();
        self.0.started_unix_nanos.saturating_add(u64::try_from(since).unwrap_or(u64::MAX))
    }
}

/// What is told of a request that was answered.
#[derive(Debug, Clone, Copy)]
pub struct Answered<'a> {
    /// Its method, where it is one of HTTP's own.
    pub method: &'static str,
    /// The path in the route table; none for a path that is none.
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

/// The way to the exporter.
#[derive(Debug)]
pub struct Tracer {
    queue: mpsc::Sender<Message>,
    metrics: TraceMetrics,
}

impl Tracer {
    /// Starts an exporter to this collector, for as long as the runtime lives.
    #[must_use]
    pub fn start(collector: ServiceUrl, metrics: TraceMetrics) -> Self {
        let (queue, messages) = mpsc::channel(QUEUE_MAX);
        tokio::spawn(Exporter::new(collector, metrics.clone()).run(messages));
        Self { queue, metrics }
    }

    /// The trace of a request that came at `started`, which is `now_millis` of Unix time: a part of its
    /// caller's where it named one, else a new one. None where the caller keeps no trace itself.
    #[must_use]
    pub fn begin(&self, caller: Option<TraceParent>, started: Instant, now_millis: i64) -> Option<Trace> {
        if caller.is_some_and(|caller| !caller.sampled) {
            return None;
        }
        Some(Trace(Arc::new(Begun {
            trace_id: caller.map_or_else(random_bytes, |caller| caller.trace_id),
            id: random_bytes(),
            parent: caller.map(|caller| caller.span_id),
            started,
            started_unix_nanos: u64::try_from(now_millis).unwrap_or(0).saturating_mul(1_000_000),
            within: Mutex::default(),
        })))
    }

    /// The request was answered: its spans go to the exporter, or are dropped where too many wait.
    pub fn end(&self, trace: &Trace, answered: Answered<'_>) {
        let Answered { method, route, endpoint, status, code, request_id } = answered;
        let mut attributes = vec![
            ("http.request.method", method.into()),
            ("http.response.status_code", Value::Number(status.into())),
            ("minitill.endpoint", endpoint.into()),
            ("minitill.code", Value::Number(code.into())),
            ("minitill.request_id", Value::Text(request_id.to_owned().into())),
        ];
        attributes.extend(route.map(|route| ("http.route", route.into())));
        let request = Span {
            trace_id: trace.0.trace_id,
            id: trace.0.id,
            parent: trace.0.parent,
            name: route.map_or(Cow::Borrowed(method), |route| format!("{method} {route}").into()),
            kind: Kind::Server,
            started_unix_nanos: trace.0.started_unix_nanos,
            ended_unix_nanos: trace.unix_nanos(Instant::now()),
            attributes,
            failed: status >= 500,
        };
        let mut spans = std::mem::take(&mut *trace.0.within.lock().unwrap_or_else(PoisonError::into_inner));
        spans.push(request);
        if self.queue.try_send(Message::Spans(spans)).is_err() {
            self.metrics.dropped(1);
        }
    }

    /// Waits until what was handed over before has been sent or dropped, one second at most.
    pub async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        let flushing = async {
            if self.queue.send(Message::Flush(done)).await.is_ok() {
                let _ = flushed.await;
            }
        };
        let _ = tokio::time::timeout(FLUSH_WITHIN, flushing).await;
    }
}
