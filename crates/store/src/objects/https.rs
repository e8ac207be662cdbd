//! The HTTP client of S3 requests: HTTP/1.1 over TLS with the machine's own certificates, or over
//! plain TCP. It uses no proxy and follows no redirects.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http_body_util::BodyExt as _;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector as Connector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpResponseBody, HttpService,
};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use tokio::time::timeout;

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long an idle connection is kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);

/// An HTTP client with a pool of connections.
#[derive(Debug, Clone)]
pub(super) struct Https {
    client: Client<HttpsConnector<HttpConnector>, HttpRequestBody>,
    /// How long one attempt may take.
    try_timeout: Duration,
}

impl Https {
    /// A client for calls that may take `call_timeout`.
    pub(super) fn new(call_timeout: Duration) -> Result<Self, String> {
        let mut tcp = HttpConnector::new();
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        tcp.set_nodelay(true);
        tcp.enforce_http(false);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls()?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .build(connector);
        // An attempt that hangs leaves time for another one.
        Ok(Self { client, try_timeout: call_timeout / 2 })
    }
}

fn tls() -> Result<ClientConfig, String> {
    // An empty store trusts no certificate: then https fails, and plain HTTP works.
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| format!("s3: {error}"))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

impl Connector for Https {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Https {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        match timeout(self.try_timeout, self.client.request(request)).await {
            Ok(Ok(response)) => Ok(response.map(|body| {
                HttpResponseBody::new(body.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error)))
            })),
            Ok(Err(error)) => Err(HttpError::new(kind_of(&error), error)),
            Err(late) => Err(HttpError::new(HttpErrorKind::Timeout, late)),
        }
    }
}

/// The kind of an error, which decides about another attempt. Every request may be repeated,
/// because a name is written with one blob only.
fn kind_of(error: &Error) -> HttpErrorKind {
    let is_ours = error
        .source()
        .and_then(|cause| cause.downcast_ref::<hyper::Error>())
        .is_some_and(hyper::Error::is_user);
    if error.is_connect() {
        HttpErrorKind::Connect
    } else if is_ours {
        HttpErrorKind::Unknown
    } else {
        HttpErrorKind::Request
    }
}
