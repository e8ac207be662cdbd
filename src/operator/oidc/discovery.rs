//! Discovery of an OpenID Connect provider: its addresses and keys. They are asked for when a sign-in needs them, so a
//! provider that is away holds up sign-ins at the provider alone.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::clock::Clock;
use futures_util::future::BoxFuture;
use guarded_fetch::{FetchError, ServiceClient};
use hyper::StatusCode;
use hyper::header::{self, HeaderValue};
use openidconnect::core::CoreProviderMetadata;
use openidconnect::{DiscoveryError, HttpRequest, HttpResponse, IssuerUrl};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::OidcFault;
use crate::http::outgoing::USER_AGENT;

/// Bytes of an answer of the provider.
const ANSWER_BYTES_MAX: usize = 512 * 1024;
/// Time limit of one question to the provider.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the provider's addresses and keys count.
pub(super) const KNOWN_FOR: Duration = Duration::from_hours(1);
/// The provider is asked for its addresses and keys at most once in this time.
pub(super) const ASKED_EVERY: Duration = Duration::from_secs(10);

/// The provider, as it describes itself.
pub(super) struct Discovery {
    pub(super) issuer: IssuerUrl,
    service: ServiceClient,
    clock: Arc<dyn Clock>,
    known: Arc<Mutex<CachedProvider>>,
}

/// Times are those of the monotonic clock.
#[derive(Default)]
struct CachedProvider {
    provider: Option<(Duration, Arc<CoreProviderMetadata>)>,
    asked: Option<Duration>,
}

impl Discovery {
    pub(super) fn new(issuer: IssuerUrl, service: ServiceClient, clock: Arc<dyn Clock>) -> Self {
        Self { issuer, service, clock, known: Arc::default() }
    }

    /// The provider's addresses and keys, at most `age_max` old.
    pub(super) async fn provider(&self, age_max: Duration) -> Result<Arc<CoreProviderMetadata>, OidcFault> {
        let mut known = Arc::clone(&self.known).lock_owned().await;
        let now = self.clock.monotonic();
        if let Some((since, provider)) = &known.provider
            && now.saturating_sub(*since) < age_max
        {
            return Ok(Arc::clone(provider));
        }
        if known.asked.is_some_and(|asked| now.saturating_sub(asked) < ASKED_EVERY) {
            return Err(OidcFault::Unavailable("no_answer_a_moment_ago"));
        }
        known.asked = Some(now);
        let (issuer, ask) = (self.issuer.clone(), self.asker());
        // In a task of its own, which a browser that hangs up does not end.
        let asking = tokio::spawn(async move {
            let found = CoreProviderMetadata::discover_async(issuer, &ask).await;
            let provider = Arc::new(found.map_err(|error| match error {
                DiscoveryError::Request(error) => OidcFault::Unavailable(error.cause()),
                DiscoveryError::Validation(_) => OidcFault::Unavailable("another_issuer"),
                _ => OidcFault::Unavailable("discovery_unreadable"),
            })?);
            known.provider = Some((now, Arc::clone(&provider)));
            Ok(provider)
        });
        asking.await.unwrap_or(Err(OidcFault::Unavailable("discovery_ended")))
    }

    /// The sender of requests to the provider.
    pub(super) fn asker(
        &self,
    ) -> impl Fn(HttpRequest) -> BoxFuture<'static, FetchResult> + Send + Sync + use<> {
        let (service, is_https) = (self.service.clone(), self.is_https());
        move |request| Box::pin(ask(service.clone(), is_https, request))
    }

    /// Whether an address of the provider is as private as the issuer: a provider of https names no other.
    pub(super) fn is_private(&self, scheme: &str) -> bool {
        scheme == "https" || !self.is_https()
    }

    fn is_https(&self) -> bool {
        self.issuer.url().scheme() == "https"
    }
}

/// The outcome of a request to the provider.
type FetchResult = Result<HttpResponse, FetchError>;

async fn ask(service: ServiceClient, is_https: bool, request: HttpRequest) -> FetchResult {
    if is_https && request.uri().scheme_str() != Some("https") {
        return Err(FetchError::Scheme);
    }
    let mut request = request.map(Bytes::from);
    request.headers_mut().insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
    let answer = timeout(ANSWER_TIMEOUT, service.send(request, ANSWER_BYTES_MAX)).await;
    let answer = answer.map_err(|_| FetchError::TimedOut)??;
    if answer.status() == StatusCode::OK { Ok(answer.map(Vec::from)) } else { Err(FetchError::Status) }
}
