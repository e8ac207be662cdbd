//! HTTP requests to URLs that strangers choose, without server-side request forgery (SSRF), and a
//! pooled HTTP client for services that the operator chooses.
//!
//! [`GuardedClient`] sends to strangers' URLs over kept connections, with the same guard.
//!
//! [`Fetcher::get`] is for a stranger's URL. It parses the URL (`target.rs`), resolves the host
//! (`resolve.rs`) and checks every address ([`guard`]). Then it connects to one of the checked
//! addresses and sends one GET (`connection.rs`, `tls.rs`). A redirect starts again from the
//! parser. A second DNS answer cannot change the address (DNS rebinding). No proxy variable, cookie
//! or earlier request changes a fetch. Two [bulkheads](bulkhead) bound the fetches of one holder
//! and of all holders.
//!
//! [`ServiceClient`] is for a URL from the settings. It has a connection pool and no address guard.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use ipnet::IpNet;
use tokio::time::{Instant, timeout_at};

use crate::bulkhead::{Bulkhead, HolderPermit, Permit};

pub mod bulkhead;
mod client;
mod connection;
mod error;
pub mod guard;
mod resolve;
mod target;
mod tls;

pub use client::{GuardedAnswer, GuardedClient, GuardedUrl, ServiceBody, ServiceClient, ServiceUrl};
use connection::Reply;
pub use error::FetchError;
use resolve::Resolver;
pub use target::Target;
pub use tls::ServerCheck;
use tls::Tls;
pub use url::Host;

/// The limits of a [`Fetcher`] and the headers of its requests.
#[derive(Debug, Clone)]
pub struct FetchSettings {
    /// The `User-Agent` header.
    pub user_agent: &'static str,
    /// The header that says which media types are accepted.
    pub accept: &'static str,
    /// Ports that a URL may name.
    pub ports: Vec<u16>,
    /// Time to connect to a host, with all its addresses and TLS. It starts again at each redirect.
    pub connect_timeout: Duration,
    /// Time for the whole fetch: waiting for permits, look-ups, redirects and the body.
    pub timeout: Duration,
    /// Redirects that are followed.
    pub redirects_max: usize,
    /// Bytes of a body.
    pub bytes_max: usize,
    /// Bytes of a URL.
    pub url_bytes_max: usize,
    /// Fetches at once. More fetches wait.
    pub concurrent_max: u32,
    /// Fetches at once for one holder. A look-up that hangs counts after its fetch, too. More
    /// fetches wait.
    pub concurrent_per_holder_max: u32,
    /// Networks that are allowed although they are not public. The port rule stays.
    pub allow_networks: Vec<IpNet>,
}

/// An exception to the guard: one URL of your own that is fetched from a fixed address.
#[derive(Debug, Clone)]
pub struct TrustedUrl {
    /// The exact text of the URL. Other spellings of the same URL are not trusted.
    pub url: String,
    /// The address to connect to, whatever the URL's host and port say.
    pub address: SocketAddr,
}

/// A fetched body, with the permit for its memory.
#[derive(Debug)]
pub struct Fetched {
    /// The body.
    pub bytes: Bytes,
    /// Keep it as long as the bytes: other fetches wait for it.
    pub permit: Permit,
}

/// Fetches URLs that strangers choose, from public addresses only.
pub struct Fetcher {
    settings: FetchSettings,
    bulkhead: Bulkhead,
    resolver: Resolver,
    tls: Tls,
}

impl Fetcher {
    /// A fetcher with these settings. It reads no file and opens no connection before the first
    /// fetch.
    #[must_use]
    pub fn new(settings: FetchSettings) -> Self {
        Self {
            bulkhead: Bulkhead::new(settings.concurrent_max, settings.concurrent_per_holder_max),
            resolver: Resolver::system(),
            tls: Tls::default(),
            settings,
        }
    }

    /// The fetches that hold a permit. A fetched body that is still in memory counts.
    #[must_use]
    pub fn under_way(&self) -> u64 {
        self.bulkhead.in_use()
    }

    /// Gets the body of a 200 at `url`, at most `bytes_max` bytes. Dropping the future ends the
    /// fetch.
    ///
    /// The fetch takes a permit of `holder`. If `url` is exactly the text of `trusted`, the first
    /// request goes to `trusted.address` without guard and port rule. A redirect is checked like any
    /// other URL.
    ///
    /// # Errors
    ///
    /// Every refusal and every failure. The text of [`FetchError`] is the same for all of them and
    /// may be shown to the stranger. [`FetchError::cause`] is for logs.
    pub async fn get(
        &self,
        holder: &str,
        url: &str,
        trusted: Option<&TrustedUrl>,
    ) -> Result<Fetched, FetchError> {
        let deadline = Instant::now() + self.settings.timeout;
        let trusted = trusted.filter(|trusted| trusted.url == url);
        let target = match trusted {
            Some(_) => Target::parse_on_any_port(url, self.settings.url_bytes_max)?,
            None => Target::parse(url, &self.settings)?,
        };
        let waiting = timeout_at(deadline, self.bulkhead.holder_permit(holder, 1)).await;
        let permit = waiting.map_err(|_| FetchError::Busy)?;
        // Boxed, because the future holds the state of a TLS handshake.
        let following =
            Box::pin(self.follow(target, trusted.map(|trusted| trusted.address), permit, deadline));
        timeout_at(deadline, following).await.map_err(|_| FetchError::TimedOut)?
    }

    /// Fetches a target and follows its redirects. `trusted` is the fixed address of the first
    /// target, if it has one.
    async fn follow(
        &self,
        first: Target,
        mut trusted: Option<SocketAddr>,
        holder: HolderPermit,
        deadline: Instant,
    ) -> Result<Fetched, FetchError> {
        let mut target = first;
        let mut redirects_left = self.settings.redirects_max;
        loop {
            // The connection uses these addresses and no later answer for the same name.
            let addresses = if let Some(address) = trusted.take() {
                vec![address]
            } else {
                let found = self.resolver.resolve(target.host(), target.port(), &holder).await?;
                let own = guard::own_addresses()?;
                guard::judge(&found, &own, &self.settings.allow_networks)?;
                found
            };
            // Only now: a look-up that hangs must not hold a permit of the shared limit.
            let waiting = timeout_at(deadline, self.bulkhead.permit(holder.clone())).await;
            let permit = waiting.map_err(|_| FetchError::Busy)?;
            let location = match connection::get(&target, &addresses, &self.tls, &self.settings).await? {
                Reply::Body(bytes) => return Ok(Fetched { bytes, permit }),
                Reply::Redirect(location) => location,
            };
            redirects_left = redirects_left.checked_sub(1).ok_or(FetchError::TooManyRedirects)?;
            target = target.follow(&location, &self.settings)?;
        }
    }
}

#[cfg(test)]
mod tests;

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
