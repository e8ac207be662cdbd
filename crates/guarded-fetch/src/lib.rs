//! Getting a picture by URL, and keeping strangers out of the network (contract 5, "The fetch").
//!
//! One fetch: read the URL (`target.rs`), look its host up (`resolve.rs`), judge every address
//! ([`guard`]), connect to an address that was judged and send one GET (`connection.rs`, `tls.rs`);
//! a redirect begins all over. No proxy variable, cookie or earlier fetch has a say in it.
//!
//! A [`Service`] that the operator has named is asked over the same connection, without the guard:
//! no stranger has a say in where it is.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use ipnet::IpNet;
use tokio::time::{Instant, timeout_at};

use crate::bulkhead::{Place, Share, Shares};

pub mod bulkhead;
mod connection;
pub mod guard;
mod refused;
mod resolve;
mod service;
mod target;
mod tls;

use connection::{Answer, Limits};
pub use refused::Refused;
use resolve::Resolver;
pub use service::{Service, ServiceUrl};
pub use target::Target;
use tls::Tls;
pub use url::Host;

/// What a [`Fetcher`] keeps to.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Ports that a URL may name.
    pub ports: Vec<u16>,
    /// Time to connect, to all addresses of a host and with TLS together; anew for each redirect.
    pub connect_timeout: Duration,
    /// Time for the whole fetch: waiting for a place, look-ups, redirects and the body.
    pub timeout: Duration,
    /// Redirects that are followed.
    pub redirects_max: usize,
    /// Bytes of a body.
    pub bytes_max: usize,
    /// Bytes of a URL.
    pub url_bytes_max: usize,
    /// Fetches at once; more wait.
    pub concurrent_max: u32,
    /// Fetches at once for one app, look-ups that hang on after their fetch included; more wait.
    pub concurrent_per_app_max: u32,
    /// Networks that may be fetched from although they are not public. The port rule stays.
    pub allow_networks: Vec<IpNet>,
}

/// A picture of Minitill's own that may be fetched although its address is not public.
#[derive(Debug, Clone)]
pub struct OwnPicture {
    /// The one URL text that means it. No other text does, were it the same address.
    pub url: String,
    /// Where it is fetched from, whatever its host and port say.
    pub address: SocketAddr,
}

/// What was fetched, and the place that its bytes take in memory: others wait for it until this is
/// dropped.
#[derive(Debug)]
pub struct Fetched {
    /// The body.
    pub bytes: Bytes,
    /// To be kept as long as the bytes are.
    pub place: Place,
}

/// Gets pictures by URL, and only from where a stranger may send us.
pub struct Fetcher {
    settings: Settings,
    places: Shares,
    resolver: Resolver,
    tls: Tls,
}

impl Fetcher {
    /// A fetcher that keeps to these settings. Nothing is read or connected to until the first
    /// fetch.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            places: Shares::new(settings.concurrent_max, settings.concurrent_per_app_max),
            resolver: Resolver::system(),
            tls: Tls::default(),
            settings,
        }
    }

    /// Places for fetches that are taken, those of pictures that are still in memory included.
    #[must_use]
    pub fn under_way(&self) -> u64 {
        self.places.taken()
    }

    /// Gets what is at `url`: the body of a 200, whatever it holds, at most `bytes_max` bytes
    /// (contract 5). Dropping the future ends the fetch.
    ///
    /// `app` is whose share of the places it takes. A `url` that is the exact text of `own` is
    /// fetched from `own.address` without guard and port rule, in the first request only: a redirect
    /// is judged like any other URL.
    ///
    /// # Errors
    ///
    /// Every refusal and every failure. Its `Display` is one text for all and may be shown to the
    /// caller, [`Refused::cause`] is for our logs.
    pub async fn get(&self, app: &str, url: &str, own: Option<&OwnPicture>) -> Result<Fetched, Refused> {
        let deadline = Instant::now() + self.settings.timeout;
        let own = own.filter(|own| own.url == url);
        let target = match own {
            Some(_) => Target::parse_on_any_port(url, self.settings.url_bytes_max)?,
            None => Target::parse(url, &self.settings)?,
        };
        let waiting = timeout_at(deadline, self.places.share(app, 1)).await;
        let share = waiting.map_err(|_| Refused::Busy)?;
        // Boxed, or every handler's future would hold the room of a TLS handshake.
        let following = Box::pin(self.follow(target, own.map(|own| own.address), share, deadline));
        timeout_at(deadline, following).await.map_err(|_| Refused::TimedOut)?
    }

    /// Fetches a target and follows its redirects. `own` is the address of the first target, where
    /// it is Minitill's own.
    async fn follow(
        &self,
        first: Target,
        mut own: Option<SocketAddr>,
        share: Share,
        deadline: Instant,
    ) -> Result<Fetched, Refused> {
        let mut target = first;
        let mut redirects_left = self.settings.redirects_max;
        loop {
            let addresses = match own.take() {
                Some(address) => vec![address],
                None => self.judged_addresses(&target, &share).await?,
            };
            // Only now: a look-up that hangs holds none of the places that all share.
            let waiting = timeout_at(deadline, self.places.place(share.clone())).await;
            let place = waiting.map_err(|_| Refused::Busy)?;
            let limits =
                Limits { connect_timeout: self.settings.connect_timeout, bytes_max: self.settings.bytes_max };
            let request = connection::get_request(&target)?;
            let location = match connection::send(&target, &addresses, limits, &self.tls, request).await? {
                Answer::Body(bytes) => return Ok(Fetched { bytes, place }),
                Answer::Redirect(location) => location,
            };
            redirects_left = redirects_left.checked_sub(1).ok_or(Refused::TooManyRedirects)?;
            target = target.follow(&location, &self.settings)?;
        }
    }

    /// The addresses of a target's host, every one of which may be connected to. The connection is
    /// made to these and to no later answer for the same name.
    async fn judged_addresses(&self, target: &Target, share: &Share) -> Result<Vec<SocketAddr>, Refused> {
        let addresses = self.resolver.resolve(target.host(), target.port(), share).await?;
        guard::judge(&addresses, &self.settings.allow_networks)?;
        Ok(addresses)
    }
}

#[cfg(test)]
mod tests;
