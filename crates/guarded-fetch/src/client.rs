//! Pooled HTTP/1.1 clients. The one for services that the operator configured has no address guard. Such a service may
//! be inside the network, and no stranger chooses its URL. The one for URLs that strangers choose has the guard.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::http::Extensions;
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::client::legacy::{self, Client};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::time::{Instant, timeout, timeout_at};
use tower::service_fn;
use tower::util::BoxCloneSyncService;

use super::FetchSettings;
use super::connection::{self, HEADER_LINES_MAX, OriginStream, READ_BUFFER_BYTES_MAX};
use super::error::FetchError;
use super::guard;
use super::resolve::Resolver;
use super::target::Target;
use super::tls::Tls;
use crate::bulkhead::Bulkhead;

/// Bytes of a service's URL.
const URL_BYTES_MAX: usize = 2048;
/// Time to connect, with all addresses and TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the pool keeps an idle connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);
/// Look-ups of one host under way at once. A look-up that hangs cannot be cancelled. When all hang,
/// requests time out until the system gives up.
const LOOK_UPS_PER_HOST_MAX: u32 = 4;

/// The body of a request to a service.
pub type ServiceBody = UnsyncBoxBody<Bytes, Box<dyn Error + Send + Sync>>;

/// The URL of a service. It is never printed, because its path or query may be secret.
#[derive(Clone)]
pub struct ServiceUrl {
    uri: Uri,
    host: HeaderValue,
}

impl ServiceUrl {
    /// Parses an absolute http or https URL with a host and without a user, on any port, of at most
    /// 2,048 bytes.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn parse(text: &str) -> Result<Self, FetchError> {
        Self::of(&Target::parse_on_any_port(text, URL_BYTES_MAX)?)
    }

    fn of(target: &Target) -> Result<Self, FetchError> {
        Ok(Self { uri: target.uri()?, host: target.host_header()? })
    }

    /// A POST to it.
    fn post(&self, headers: HeaderMap, body: Bytes) -> Request<Bytes> {
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        request.headers_mut().insert(header::HOST, self.host.clone());
        request.headers_mut().extend(headers);
        request
    }

    /// The URL, to be sent and not printed.
    #[must_use]
    pub fn uri(&self) -> &Uri {
        &self.uri
    }
}

impl fmt::Debug for ServiceUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ServiceUrl(..)")
    }
}

/// A URL to which a [`GuardedClient`] sends. Its addresses are judged when the client connects.
#[derive(Clone, Debug)]
pub struct GuardedUrl(ServiceUrl);

/// Sends requests over a pool of connections for each host. It follows no redirects and uses no
/// proxy. TLS trusts the machine's certificate store. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ServiceClient(Client<Connector, ServiceBody>);

/// Opens the connections of the pool.
type Connector = BoxCloneSyncService<Uri, PooledStream, FetchError>;

type PooledStream = TokioIo<Box<dyn OriginStream>>;

/// A client with an empty pool. It reads no file and opens no connection before the first request.
impl Default for ServiceClient {
    fn default() -> Self {
        Self::with(Resolver::system(), Tls::default())
    }
}

impl ServiceClient {
    /// A client that takes every TLS certificate, so anybody may be the one who answers. It is for
    /// a question without a secret, to a server whose certificate names other addresses than the
    /// one that is asked.
    #[must_use]
    pub fn unverified() -> Self {
        Self::with(Resolver::system(), Tls::unverified())
    }

    pub(super) fn with(resolver: Resolver, tls: Tls) -> Self {
        Self(pooled(resolver, tls, None))
    }

    /// Sends `body` with these headers and gives the body of a 200, at most `bytes_max` bytes.
    /// `time` bounds the call, from the look-up of the name to the last byte of the answer. A
    /// request whose pooled connection turns out to be closed is sent once more, so a service may
    /// see it twice.
    ///
    /// # Errors
    /// Every failure; [`FetchError::cause`] names it.
    pub async fn post(
        &self,
        url: &ServiceUrl,
        headers: HeaderMap,
        body: Bytes,
        time: Duration,
        bytes_max: usize,
    ) -> Result<Bytes, FetchError> {
        // Boxed, because the future holds the state of a TLS handshake.
        let sending = Box::pin(self.send(url.post(headers, body), bytes_max));
        let response = timeout(time, sending).await.map_err(|_| FetchError::TimedOut)??;
        if response.status() == StatusCode::OK { Ok(response.into_body()) } else { Err(FetchError::Status) }
    }

    /// Sends a request and reads the answer: its status, its headers and the body of a 200, at most
    /// `bytes_max` bytes. The body of any other status is left out. The caller bounds the time. A
    /// request may be sent twice, as in [`post`](Self::post).
    ///
    /// # Errors
    /// There is no whole answer.
    pub async fn send(
        &self,
        request: Request<Bytes>,
        bytes_max: usize,
    ) -> Result<Response<Bytes>, FetchError> {
        let response = send_twice(&self.0, request).await?;
        if response.status() != StatusCode::OK {
            return Ok(response.map(|_| Bytes::new()));
        }
        let (parts, body) = response.into_parts();
        let body = connection::read_body(&parts.headers, body, bytes_max).await?;
        Ok(Response::from_parts(parts, body))
    }

    /// Sends a request once and gives the answer with its body unread. The caller bounds time and
    /// size.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn stream(&self, request: Request<ServiceBody>) -> Result<Response<Incoming>, FetchError> {
        self.0.request(request).await.map(used).map_err(|error| error_of(&error))
    }
}

/// Sends requests to URLs that strangers choose, over a pool of connections for each host. It connects
/// only to addresses that the [`guard`] has checked, follows no redirects and uses no proxy. TLS trusts
/// the machine's certificate store. Cheap to clone.
#[derive(Clone, Debug)]
pub struct GuardedClient {
    client: Client<Connector, ServiceBody>,
    settings: Arc<FetchSettings>,
}

/// The answer of a [`GuardedClient`].
#[derive(Debug)]
pub struct GuardedAnswer {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// The beginning of its body, as it came.
    pub body: Bytes,
}

impl GuardedClient {
    /// A client with an empty pool. Of the settings it uses `ports`, `connect_timeout`,
    /// `url_bytes_max` and `allow_networks`.
    #[must_use]
    pub fn new(settings: FetchSettings) -> Self {
        Self::with(settings, Resolver::system(), Tls::default())
    }

    pub(super) fn with(settings: FetchSettings, resolver: Resolver, tls: Tls) -> Self {
        let settings = Arc::new(settings);
        let client = pooled(resolver, tls, Some(Arc::clone(&settings)));
        Self { client, settings }
    }

    /// Parses a stranger's URL.
    ///
    /// # Errors
    /// Why nothing is sent to it.
    pub fn url(&self, text: &str) -> Result<GuardedUrl, FetchError> {
        ServiceUrl::of(&Target::parse(text, &self.settings)?).map(GuardedUrl)
    }

    /// Sends `body` with these headers. Gives the answer, whatever its status, with the first
    /// `bytes_max` bytes of its body that came in time. `time` bounds the call. A request whose
    /// pooled connection turns out to be closed is sent once more, so a server may see it twice.
    ///
    /// # Errors
    /// There is no answer; [`FetchError::cause`] says why.
    pub async fn post(
        &self,
        url: &GuardedUrl,
        headers: HeaderMap,
        body: Bytes,
        time: Duration,
        bytes_max: usize,
    ) -> Result<GuardedAnswer, FetchError> {
        let deadline = Instant::now() + time;
        // Boxed, because the future holds the state of a TLS handshake.
        let sending = Box::pin(send_twice(&self.client, url.0.post(headers, body)));
        let response = timeout_at(deadline, sending).await.map_err(|_| FetchError::TimedOut)??;
        let (parts, body) = response.into_parts();
        let body = connection::read_beginning(body, bytes_max, deadline).await;
        Ok(GuardedAnswer { status: parts.status, headers: parts.headers, body })
    }
}

/// A client with an empty pool. With `guarded` it connects as these settings allow.
fn pooled(
    resolver: Resolver,
    tls: Tls,
    guarded: Option<Arc<FetchSettings>>,
) -> Client<Connector, ServiceBody> {
    let look_ups = Bulkhead::new(u32::MAX, LOOK_UPS_PER_HOST_MAX);
    let network = Arc::new(Network { resolver, look_ups, tls, guarded });
    let connector = Connector::new(service_fn(move |uri: Uri| {
        let network = Arc::clone(&network);
        async move { network.connect(&uri).await }
    }));
    let mut builder = Client::builder(TokioExecutor::new());
    builder.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE_TIMEOUT);
    builder.http1_max_headers(HEADER_LINES_MAX).http1_max_buf_size(READ_BUFFER_BYTES_MAX);
    // As the fetch of a picture reads them. A receiver that writes them is the operator's own.
    builder.http1_allow_spaces_after_header_name_in_responses(true);
    builder.http1_allow_obsolete_multiline_headers_in_responses(true);
    builder.build(connector)
}

/// Sends a request, and once more when its pooled connection turns out to be closed.
async fn send_twice(
    client: &Client<Connector, ServiceBody>,
    request: Request<Bytes>,
) -> Result<Response<Incoming>, FetchError> {
    let attempt = |request: Request<Bytes>| {
        client.request(request.map(|body| Full::new(body).map_err(|never| match never {}).boxed_unsync()))
    };
    let response = match attempt(request.clone()).await {
        Err(error) if was_used(&error) => attempt(request).await,
        first => first,
    };
    response.map(used).map_err(|error| error_of(&error))
}

/// Marks a connection that has carried an answer. A service may close such a connection at any time,
/// so a failure on it says nothing about the service.
#[derive(Debug, Clone, Default)]
struct Used(Arc<AtomicBool>);

fn used(response: Response<Incoming>) -> Response<Incoming> {
    if let Some(Used(used)) = response.extensions().get() {
        used.store(true, Ordering::Relaxed);
    }
    response
}

fn was_used(error: &legacy::Error) -> bool {
    let mut extensions = Extensions::new();
    if let Some(connection) = error.connect_info() {
        connection.get_extras(&mut extensions);
    }
    extensions.get().is_some_and(|Used(used)| used.load(Ordering::Relaxed))
}

fn error_of(error: &legacy::Error) -> FetchError {
    let source = error.source();
    let own = source.and_then(|source| source.downcast_ref::<FetchError>());
    let http = || source.and_then(|source| source.downcast_ref::<hyper::Error>()).map(connection::failure);
    own.copied().or_else(http).unwrap_or(FetchError::Broken)
}

impl Connection for Box<dyn OriginStream> {
    fn connected(&self) -> Connected {
        Connected::new().extra(Used::default())
    }
}

struct Network {
    resolver: Resolver,
    look_ups: Bulkhead,
    tls: Tls,
    /// The settings of the guard, where there is one.
    guarded: Option<Arc<FetchSettings>>,
}

impl Network {
    async fn connect(&self, uri: &Uri) -> Result<PooledStream, FetchError> {
        let text = uri.to_string();
        let target = match &self.guarded {
            None => Target::parse_on_any_port(&text, URL_BYTES_MAX)?,
            Some(settings) => Target::parse(&text, settings)?,
        };
        let look_up = self.look_ups.holder_permit(&target.host().to_string(), 1).await;
        let addresses = self.resolver.resolve(target.host(), target.port(), &look_up).await?;
        drop(look_up);
        let mut time = CONNECT_TIMEOUT;
        if let Some(settings) = &self.guarded {
            guard::judge(&addresses, &guard::own_addresses()?, &settings.allow_networks)?;
            time = settings.connect_timeout;
        }
        let stream = connection::open(&target, &addresses, time, &self.tls).await?;
        Ok(TokioIo::new(stream))
    }
}
