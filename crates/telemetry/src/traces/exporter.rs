//! The exporter: sends spans to the collector in batches, and drops what it does not accept.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{ExporterBuildError, Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{IdGenerator as _, RandomIdGenerator, SpanData, SpanExporter as _};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use super::{Collector, NAME};
use crate::metrics::TraceMetrics;

/// How long spans are gathered before they are sent.
const GATHER_FOR: Duration = Duration::from_secs(1);
/// Requests whose spans are sent together.
const REQUESTS_MAX: usize = 1024;
/// How long one batch may take, with the library's retries.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A message to the exporter.
#[derive(Debug)]
pub(super) enum ExporterMessage {
    /// The spans of a request.
    Spans(Vec<SpanData>),
    /// Answered when all earlier spans have been sent or dropped.
    Flush(oneshot::Sender<()>),
}

pub(super) struct Exporter {
    spans: SpanExporter,
    last_fault: Arc<Mutex<Option<String>>>,
    metrics: TraceMetrics,
    is_away: bool,
}

impl Exporter {
    pub(super) fn new<C: HttpClient + 'static>(
        collector: Collector<C>,
        metrics: TraceMetrics,
    ) -> Result<Self, ExporterBuildError> {
        let last_fault = Arc::default();
        let client = Watched { client: collector.client, last_fault: Arc::clone(&last_fault) };
        let mut exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_endpoint(collector.endpoint)
            .with_headers(collector.headers)
            .with_protocol(Protocol::HttpBinary)
            .with_timeout(TIMEOUT)
            .build()?;
        // The instance tells this process from others; it is new at each start.
        let instance = RandomIdGenerator::default().new_span_id().to_string();
        exporter.set_resource(
            &Resource::builder_empty()
                .with_attributes([
                    KeyValue::new("service.name", NAME),
                    KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
                    KeyValue::new("service.instance.id", instance),
                ])
                .build(),
        );
        Ok(Self { spans: exporter, last_fault, metrics, is_away: false })
    }

    /// Sends spans until the channel closes.
    pub(super) async fn run(mut self, mut messages: mpsc::Receiver<ExporterMessage>) {
        while let Some(first) = messages.recv().await {
            let (mut spans, mut requests, mut waiting) = (Vec::new(), 0, None);
            let gather_until = Instant::now() + GATHER_FOR;
            let mut next = Some(first);
            while let Some(message) = next {
                match message {
                    ExporterMessage::Spans(of_request) => {
                        spans.extend(of_request);
                        requests += 1;
                    }
                    ExporterMessage::Flush(done) => {
                        waiting = Some(done);
                        break;
                    }
                }
                if requests == REQUESTS_MAX {
                    break;
                }
                next = timeout_at(gather_until, messages.recv()).await.ok().flatten();
            }
            if requests > 0 {
                self.send(spans, requests).await;
            }
            if let Some(done) = waiting {
                // The caller may have stopped waiting.
                let _ = done.send(());
            }
        }
    }

    /// Sends one batch, or drops it.
    async fn send(&mut self, spans: Vec<SpanData>, requests: usize) {
        let cause = match timeout(TIMEOUT, self.spans.export(spans)).await {
            Ok(Ok(())) => {
                self.metrics.sent(requests);
                if std::mem::replace(&mut self.is_away, false) {
                    tracing::info!("the collector of traces accepts them again");
                }
                return;
            }
            Ok(Err(error)) => {
                let last_fault = self.last_fault.lock().unwrap_or_else(PoisonError::into_inner).take();
                last_fault.unwrap_or_else(|| error.to_string())
            }
            Err(late) => late.to_string(),
        };
        self.metrics.dropped(requests);
        // Once, not every second.
        if !std::mem::replace(&mut self.is_away, true) {
            tracing::warn!(cause, "the collector of traces accepts none; they are dropped");
        }
    }
}

/// Keeps the cause of the last failure: the library says "network error" for all of them.
#[derive(Debug)]
struct Watched<C> {
    client: C,
    last_fault: Arc<Mutex<Option<String>>>,
}

#[async_trait::async_trait]
impl<C: HttpClient> HttpClient for Watched<C> {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answer = self.client.send_bytes(request).await;
        let fault = answer.as_ref().err().map(ToString::to_string);
        *self.last_fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
        answer
    }
}
