//! What a URL says: parsed once, and judged by what the parser read, never by its text.

use std::cell::Cell;

use hyper::http::HeaderValue;
use hyper::http::uri::PathAndQuery;
use rustls::pki_types::ServerName;
use url::{Host, Position, SyntaxViolation, Url};

use super::Settings;
use super::refused::Refused;

/// A URL that may be fetched as far as its text goes; its addresses are not judged yet.
#[derive(Debug, Clone)]
pub struct Target {
    url: Url,
    /// Every spelling of an address (decimal, octal, hexadecimal, full-width) is an address here.
    host: Host,
    port: u16,
}

impl Target {
    /// Reads a URL that a caller gave: http or https, no user info, a port of `settings.ports`, at
    /// most `settings.url_bytes_max` bytes (contract 5).
    ///
    /// # Errors
    /// Which of these it is not.
    pub fn parse(text: &str, settings: &Settings) -> Result<Self, Refused> {
        Self::read(text, None, settings.url_bytes_max)?.on_allowed_port(settings)
    }

    /// Reads a URL that no stranger has named: Minitill's own or the operator's. It may have any port.
    pub(super) fn parse_on_any_port(text: &str, bytes_max: usize) -> Result<Self, Refused> {
        Self::read(text, None, bytes_max)
    }

    /// Reads where a redirect leads, as strictly as a caller's URL. A relative one is read from
    /// this target; https never leads to http.
    ///
    /// # Errors
    /// Why it cannot be followed.
    pub fn follow(&self, location: &[u8], settings: &Settings) -> Result<Self, Refused> {
        let location = std::str::from_utf8(location).map_err(|_| Refused::Location)?;
        let next = Self::read(location, Some(&self.url), settings.url_bytes_max)?;
        if self.is_https() && !next.is_https() {
            return Err(Refused::Downgrade);
        }
        next.on_allowed_port(settings)
    }

    fn read(text: &str, base: Option<&Url>, bytes_max: usize) -> Result<Self, Refused> {
        if text.len() > bytes_max {
            return Err(Refused::UrlTooLong);
        }
        // The parser drops an empty user (`http://@host/`) without a trace in its result, but
        // reports it on its way, as it does every other user info.
        let user_info = Cell::new(false);
        let note = |violation: SyntaxViolation| {
            if violation == SyntaxViolation::EmbeddedCredentials {
                user_info.set(true);
            }
        };
        let options = Url::options().base_url(base).syntax_violation_callback(Some(&note));
        let url = options.parse(text).map_err(|_| Refused::Url)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Refused::Scheme);
        }
        if user_info.get() {
            return Err(Refused::UserInfo);
        }
        // A short relative redirect can still make a long URL.
        if base.is_some() && url.as_str().len() > bytes_max {
            return Err(Refused::UrlTooLong);
        }
        let host = url.host().ok_or(Refused::Url)?.to_owned();
        // No name has an empty part, and an address with dots behind it is none of the parser's.
        if let Host::Domain(name) = &host
            && name.strip_suffix('.').unwrap_or(name).split('.').any(str::is_empty)
        {
            return Err(Refused::Url);
        }
        let port = url.port_or_known_default().ok_or(Refused::Url)?;
        Ok(Self { url, host, port })
    }

    fn on_allowed_port(self, settings: &Settings) -> Result<Self, Refused> {
        if settings.ports.contains(&self.port) { Ok(self) } else { Err(Refused::Port) }
    }

    /// The host, an address wherever it is one.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The port, the scheme's own where the URL names none.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether to speak TLS.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// The `Host` header: the port only where it is not the scheme's own (RFC 9110, 7.2).
    pub(super) fn host_header(&self) -> Result<HeaderValue, Refused> {
        let text = match self.url.port() {
            Some(port) => format!("{}:{port}", self.host),
            None => self.host.to_string(),
        };
        HeaderValue::try_from(text).map_err(|_| Refused::Url)
    }

    /// What stands in the request line: path and query. A fragment is never sent.
    pub(super) fn path_and_query(&self) -> Result<PathAndQuery, Refused> {
        let text = &self.url[Position::BeforePath..Position::AfterQuery];
        PathAndQuery::try_from(text).map_err(|_| Refused::Url)
    }

    /// Whom the certificate must name. A name's closing dot is left out, as TLS has it (RFC 6066,
    /// 3); an address is matched as an address, and not sent.
    pub(super) fn server_name(&self) -> Result<ServerName<'static>, Refused> {
        match &self.host {
            Host::Domain(name) => {
                let name = name.strip_suffix('.').unwrap_or(name);
                ServerName::try_from(name.to_owned()).map_err(|_| Refused::Url)
            }
            Host::Ipv4(address) => Ok(ServerName::from(std::net::IpAddr::V4(*address))),
            Host::Ipv6(address) => Ok(ServerName::from(std::net::IpAddr::V6(*address))),
        }
    }
}

#[cfg(test)]
mod tests;
