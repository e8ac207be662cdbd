//! A parsed URL. It is parsed once, and all checks use the parser's result, never the text.

use std::cell::Cell;

use hyper::Uri;
use hyper::http::HeaderValue;
use hyper::http::uri::PathAndQuery;
use rustls::pki_types::ServerName;
use url::{Host, Position, SyntaxViolation, Url};

use super::FetchSettings;
use super::error::FetchError;

/// A URL whose text is allowed. Its addresses are not checked yet.
#[derive(Debug, Clone)]
pub struct Target {
    url: Url,
    /// Every spelling of an address (decimal, octal, hexadecimal, full-width) is an address here.
    host: Host,
    port: u16,
}

impl Target {
    /// Parses a stranger's URL: http or https, no user info, a port of `settings.ports`, at most
    /// `settings.url_bytes_max` bytes.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn parse(text: &str, settings: &FetchSettings) -> Result<Self, FetchError> {
        Self::read(text, None, settings.url_bytes_max)?.on_allowed_port(settings)
    }

    /// Parses a URL that no stranger chose. It may have any port.
    pub(super) fn parse_on_any_port(text: &str, bytes_max: usize) -> Result<Self, FetchError> {
        Self::read(text, None, bytes_max)
    }

    /// Parses the `Location` of a redirect, as strictly as a stranger's URL. It may be relative to
    /// this target. A redirect from https to http is refused.
    ///
    /// # Errors
    /// Why it cannot be followed.
    pub fn follow(&self, location: &[u8], settings: &FetchSettings) -> Result<Self, FetchError> {
        let location = std::str::from_utf8(location).map_err(|_| FetchError::Location)?;
        let next = Self::read(location, Some(&self.url), settings.url_bytes_max)?;
        if self.is_https() && !next.is_https() {
            return Err(FetchError::Downgrade);
        }
        next.on_allowed_port(settings)
    }

    fn read(text: &str, base: Option<&Url>, bytes_max: usize) -> Result<Self, FetchError> {
        if text.len() > bytes_max {
            return Err(FetchError::UrlTooLong);
        }
        // The parser drops an empty user (`http://@host/`) without a trace in its result. But it
        // reports it on its way, as it does every other user info.
        let user_info = Cell::new(false);
        let note = |violation: SyntaxViolation| {
            if violation == SyntaxViolation::EmbeddedCredentials {
                user_info.set(true);
            }
        };
        let options = Url::options().base_url(base).syntax_violation_callback(Some(&note));
        let url = options.parse(text).map_err(|_| FetchError::Url)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(FetchError::Scheme);
        }
        if user_info.get() {
            return Err(FetchError::UserInfo);
        }
        // A short relative redirect can still make a long URL.
        if base.is_some() && url.as_str().len() > bytes_max {
            return Err(FetchError::UrlTooLong);
        }
        let host = url.host().ok_or(FetchError::Url)?.to_owned();
        // No name has an empty part, and an address with dots behind it is none of the parser's.
        if let Host::Domain(name) = &host
            && name.strip_suffix('.').unwrap_or(name).split('.').any(str::is_empty)
        {
            return Err(FetchError::Url);
        }
        let port = url.port_or_known_default().ok_or(FetchError::Url)?;
        Ok(Self { url, host, port })
    }

    fn on_allowed_port(self, settings: &FetchSettings) -> Result<Self, FetchError> {
        if settings.ports.contains(&self.port) { Ok(self) } else { Err(FetchError::Port) }
    }

    /// The host: an address if the URL has an address in any spelling, else a name.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The port. Without one in the URL it is the scheme's own.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether to speak TLS.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// The URL for a client that takes an absolute one.
    pub(super) fn uri(&self) -> Result<Uri, FetchError> {
        let parts = self.url[..Position::AfterQuery].parse();
        parts.map_err(|_| FetchError::Url)
    }

    /// The `Host` header: the port only where it is not the scheme's own (RFC 9110, 7.2).
    pub(super) fn host_header(&self) -> Result<HeaderValue, FetchError> {
        let text = match self.url.port() {
            Some(port) => format!("{}:{port}", self.host),
            None => self.host.to_string(),
        };
        HeaderValue::try_from(text).map_err(|_| FetchError::Url)
    }

    /// Path and query for the request line. A fragment is never sent.
    pub(super) fn path_and_query(&self) -> Result<PathAndQuery, FetchError> {
        let text = &self.url[Position::BeforePath..Position::AfterQuery];
        PathAndQuery::try_from(text).map_err(|_| FetchError::Url)
    }

    /// The name that the certificate must have. TLS omits the closing dot of a name (RFC 6066, 3).
    /// An address is matched as an address and not sent.
    pub(super) fn server_name(&self) -> Result<ServerName<'static>, FetchError> {
        match &self.host {
            Host::Domain(name) => {
                let name = name.strip_suffix('.').unwrap_or(name);
                ServerName::try_from(name.to_owned()).map_err(|_| FetchError::Url)
            }
            Host::Ipv4(address) => Ok(ServerName::from(std::net::IpAddr::V4(*address))),
            Host::Ipv6(address) => Ok(ServerName::from(std::net::IpAddr::V6(*address))),
        }
    }
}

#[cfg(test)]
mod tests;
