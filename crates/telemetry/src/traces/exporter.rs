//! Sends spans to the collector, some at a time, and drops what it does not take.

use std::time::Duration;

use guarded_fetch::{Service, ServiceUrl};
use hyper::HeaderMap;
use hyper::header::{self, HeaderValue};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use super::{Span, otlp};
use crate::metrics::TraceMetrics;
use crate::random_bytes;

/// How long spans are gathered before they are sent.
const GATHER_FOR: Duration = Duration::from_secs(1);
/// Requests whose spans are sent together.
const REQUESTS_MAX: usize = 1024;
/// How long the collector may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of its answer, which says little.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// What the exporter is handed.
#[derive(Debug)]
pub(super) enum Message {
    /// The spans of a request.
    Spans(Vec<Span>),
    /// Somebody waits until all before this is sent.
    Flush(oneshot::Sender<()>),
}

pub(super) struct Exporter {
    service: Service,
    metrics: TraceMetrics,
    /// Tells this process from others; a random one for each start.
    instance: String,
    is_away: bool,
}

impl Exporter {
    pub(super) fn new(collector: ServiceUrl, metrics: TraceMetrics) -> Self {
        let service = Service::new(collector, TIMEOUT, ANSWER_BYTES_MAX);
        Self { service, metrics, instance: hex::encode(random_bytes::<8>()), is_away: false }
    }

    /// Sends what comes until nothing can come any more.
    pub(super) async fn run(mut self, mut messages: mpsc::Receiver<Message>) {
        while let Some(first) = messages.recv().await {
            let (mut spans, mut requests, mut waiting) = (Vec::new(), 0, None);
            let gather_until = Instant::now() + GATHER_FOR;
            let mut next = Some(first);
            while let Some(message) = next {
                match message {
                    Message::Spans(of_request) => {
                        spans.extend(of_request);
                        requests += 1;
                    }
                    Message::Flush(done) => {
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
                self.send(&spans, requests).await;
            }
            if let Some(done) = waiting {
                // Whoever asked may have gone.
                let _ = done.send(());
            }
        }
    }

    /// Sends spans once: the next ones are on their way, and those of now are worth less than memory.
    async fn send(&mut self, spans: &[Span], requests: usize) {
        let content_type = HeaderValue::from_static("application/x-protobuf");
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, content_type)]);
        match self.service.post(headers, otlp::request(&self.instance, spans).into()).await {
            Ok(_) => {
                self.metrics.sent(requests);
                if std::mem::replace(&mut self.is_away, false) {
                    tracing::info!("the collector of traces takes them again");
                }
            }
            Err(refused) => {
                self.metrics.dropped(requests);
                // Once, not every second.
                if !std::mem::replace(&mut self.is_away, true) {
                    tracing::warn!(
                        cause = refused.cause(),
                        "the collector of traces takes none; they are dropped"
                    );
                }
            }
        }
    }
}
