//! A service that the operator has named in the settings. There is no guard here: it may well be
//! inside the network, and nobody else has a say in where it is.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use hyper::{HeaderMap, Method};
use tokio::time::timeout;

use super::connection::{self, Answer, Limits};
use super::refused::Refused;
use super::resolve::Resolver;
use super::target::Target;
use super::tls::Tls;
use crate::bulkhead::Shares;

/// Bytes of a service's URL.
const URL_BYTES_MAX: usize = 2048;
/// Look-ups of its name under way at once. One that hangs cannot be taken back; when all do, asking
/// times out until the system gives them up.
const LOOK_UPS_MAX: u32 = 4;

/// The URL of a service, read once. It is never printed: its path or query may be secret.
#[derive(Clone)]
pub struct ServiceUrl(Target);

impl ServiceUrl {
    /// Takes an absolute http or https URL with a host and without a user, on any port, of at most
    /// 2,048 bytes.
    ///
    /// # Errors
    /// Which of these it is not.
    pub fn parse(text: &str) -> Result<Self, Refused> {
        Target::parse_on_any_port(text, URL_BYTES_MAX).map(Self)
    }
}

impl fmt::Debug for ServiceUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ServiceUrl(..)")
    }
}

/// A service that takes one POST at a time for each connection.
pub struct Service {
    url: ServiceUrl,
    timeout: Duration,
    answer_bytes_max: usize,
    pub(super) resolver: Resolver,
    look_ups: Shares,
    pub(super) tls: Tls,
}

impl Service {
    /// The service at this URL. `timeout` bounds each call, from the look-up of its name to the last
    /// byte of its answer. Nothing is read or connected to until the first call.
    #[must_use]
    pub fn new(url: ServiceUrl, timeout: Duration, answer_bytes_max: usize) -> Self {
        Self {
            url,
            timeout,
            answer_bytes_max,
            resolver: Resolver::system(),
            look_ups: Shares::new(LOOK_UPS_MAX, LOOK_UPS_MAX),
            tls: Tls::default(),
        }
    }

    /// Sends `body` with these headers on a connection of its own and gives the body of a 200, at most
    /// `answer_bytes_max` bytes. Redirects are not followed. TLS trusts the machine's certificate
    /// store. Dropping the future ends the call.
    ///
    /// # Errors
    /// Every failure; [`Refused::cause`] names it.
    pub async fn post(&self, headers: HeaderMap, body: Bytes) -> Result<Bytes, Refused> {
        // Boxed, or every handler's future would hold the room of a TLS handshake.
        let calling = Box::pin(self.call(headers, body));
        timeout(self.timeout, calling).await.map_err(|_| Refused::TimedOut)?
    }

    async fn call(&self, headers: HeaderMap, body: Bytes) -> Result<Bytes, Refused> {
        let target = &self.url.0;
        let mut request = connection::request(target, "application/json", body)?;
        *request.method_mut() = Method::POST;
        request.headers_mut().extend(headers);
        let look_up = self.look_ups.share("", 1).await;
        let addresses = self.resolver.resolve(target.host(), target.port(), &look_up).await?;
        drop(look_up);
        let limits = Limits { connect_timeout: self.timeout, bytes_max: self.answer_bytes_max };
        match connection::send(target, &addresses, limits, &self.tls, request).await? {
            Answer::Body(bytes) => Ok(bytes),
            Answer::Redirect(_) => Err(Refused::Status),
        }
    }
}
