//! The HTTP client of the S3 store: the pooled client of services, as `object_store` wants it. It
//! connects straight to the address in the settings, without proxy or redirects.

use std::time::Duration;

use async_trait::async_trait;
use guarded_fetch::{FetchError, ServiceClient};
use http_body_util::BodyExt as _;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector as Connector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use tokio::time::timeout;

/// Sends requests over the pool.
#[derive(Debug, Clone)]
pub(super) struct Https {
    client: ServiceClient,
    /// How long the answer to one try may take.
    try_timeout: Duration,
}

impl Https {
    /// A client whose requests are part of calls that may take `call_timeout`.
    pub(super) fn new(call_timeout: Duration) -> Self {
        // One try that hangs leaves time for another.
        Self { client: ServiceClient::default(), try_timeout: call_timeout / 2 }
    }
}

impl Connector for Https {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Https {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let request = request.map(|body| body.map_err(Into::into).boxed_unsync());
        match timeout(self.try_timeout, self.client.stream(request)).await {
            Ok(Ok(response)) => Ok(response.map(|body| {
                HttpResponseBody::new(body.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error)))
            })),
            Ok(Err(error)) => Err(HttpError::new(kind_of(error), std::io::Error::other(error.cause()))),
            Err(late) => Err(HttpError::new(HttpErrorKind::Timeout, late)),
        }
    }
}

/// Decides whether another try makes sense. All our requests may be repeated, because an object name
/// never gets other contents.
fn kind_of(error: FetchError) -> HttpErrorKind {
    match error {
        FetchError::NameNotFound
        | FetchError::ConnectFailed
        | FetchError::ConnectTimedOut
        | FetchError::NoCertificateStore
        | FetchError::Tls => HttpErrorKind::Connect,
        _ => HttpErrorKind::Request,
    }
}
