//! Requests of Minitill to other servers: their `User-Agent`, and the exporter of traces over the
//! pooled client.

use async_trait::async_trait;
use bytes::Bytes;
use domain::secret::Secret;
use guarded_fetch::ServiceClient;
use hyper::{Request, Response};
use opentelemetry_http::{HttpClient, HttpError};
use telemetry::metrics::TraceMetrics;
use telemetry::traces::{Collector, Tracer};

use crate::config;

/// The `User-Agent` header of requests to other servers.
pub(crate) const USER_AGENT: &str = concat!("minitill/", env!("CARGO_PKG_VERSION"));
/// Bytes of the collector's answer, which is nearly empty.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Starts the exporter of the settings; `None` if the settings name no collector. To be called within a runtime.
pub(crate) fn start_tracer(
    settings: &config::Tracing,
    client: ServiceClient,
    metrics: TraceMetrics,
) -> Option<Tracer> {
    let header = |(name, value): (&String, &Secret)| (name.clone(), value.expose().to_owned());
    let collector = Collector {
        client: CollectorClient(client),
        endpoint: settings.otlp_endpoint.as_ref()?.uri().to_string(),
        headers: settings.otlp_headers.iter().map(header).collect(),
    };
    let started = Tracer::start(collector, metrics);
    started.inspect_err(|error| tracing::error!(%error, "traces cannot be sent")).ok()
}

/// The pooled client, as the exporter wants it.
#[derive(Debug)]
struct CollectorClient(ServiceClient);

#[async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        self.0.send(request, ANSWER_BYTES_MAX).await.map_err(|error| error.cause().into())
    }
}
