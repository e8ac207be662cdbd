//! The exporter against a collector that answers what a test tells it to.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use opentelemetry_http::{Bytes, HttpError, Request, Response};

use super::*;

/// A collector that answers these statuses, one after the other, and the last one for ever.
#[derive(Debug, Clone)]
struct Scripted {
    statuses: &'static [u16],
    requests: Arc<AtomicUsize>,
}

#[async_trait::async_trait]
impl HttpClient for Scripted {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        assert_eq!(request.uri(), "http://collector.example/v1/traces?k=v");
        assert_eq!(request.headers()["content-type"], "application/x-protobuf");
        assert_eq!(request.headers()["authorization"], "Bearer key");
        let number = self.requests.fetch_add(1, Ordering::SeqCst);
        match self.statuses[number.min(self.statuses.len() - 1)] {
            0 => Err("connect_failed".into()),
            status => Ok(Response::builder().status(status).body(Bytes::new())?),
        }
    }
}

/// Ends one trace. Gives the requests to the collector, and the traces that were sent and dropped.
async fn end_one(statuses: &'static [u16]) -> (usize, f64, f64) {
    let client = Scripted { statuses, requests: Arc::default() };
    let collector = Collector {
        client: client.clone(),
        endpoint: "http://collector.example/v1/traces?k=v".to_owned(),
        headers: HashMap::from([("authorization".to_owned(), "Bearer key".to_owned())]),
    };
    let registry = prometheus::Registry::new();
    let metrics = TraceMetrics::new(&registry);
    let tracer = Tracer::start(collector, metrics).unwrap();
    let trace = tracer.begin(None, Instant::now(), 0).unwrap();
    let answered =
        Answered { method: "GET", route: None, endpoint: "unknown", status: 200, code: 1, request_id: "r" };
    tracer.end(&trace, answered);
    // Not `flush`, which ends after a second: a test waits for the decision.
    let (done, flushed) = oneshot::channel();
    tracer.queue.send(ExporterMessage::Flush(done)).await.unwrap();
    flushed.await.unwrap();
    let families = registry.gather();
    let counted = |outcome: &str| {
        let mut series = families[0].get_metric().iter();
        let found = series.find(|series| series.get_label()[0].value() == outcome).unwrap();
        found.get_counter().get_value()
    };
    (client.requests.load(Ordering::SeqCst), counted("sent"), counted("dropped"))
}

/// Rule: a failure that may pass is tried again.
#[tokio::test]
async fn a_failure_that_may_pass_is_tried_again() {
    assert_eq!(end_one(&[200]).await, (1, 1.0, 0.0));
    assert_eq!(end_one(&[503, 200]).await, (2, 1.0, 0.0));
    assert_eq!(end_one(&[0, 0, 200]).await, (3, 1.0, 0.0));
}

/// Rule: spans that the collector does not accept are dropped and counted.
#[tokio::test]
async fn spans_that_are_not_accepted_are_dropped_and_counted() {
    assert_eq!(end_one(&[401]).await, (1, 0.0, 1.0));
    assert_eq!(end_one(&[0]).await, (4, 0.0, 1.0));
}
