//! Errors of a fetch, with the causes that a caller may tell apart.

use std::fmt;

/// Why a request was refused or failed.
///
/// [`FetchError::cause`] is for your own logs and metrics. The text of `Display` is the same for
/// every cause and may be shown to a stranger: it says nothing about the network. Neither holds the
/// URL, the host or an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FetchError {
    /// It is not an absolute URL with a host.
    Url,
    /// It is longer than `url_bytes_max`.
    UrlTooLong,
    /// Its scheme is neither http nor https.
    Scheme,
    /// It has a user or a password, even an empty one.
    UserInfo,
    /// Its port is not among `ports`.
    Port,
    /// No permit was free until the time was over.
    Busy,
    /// The look-up of the host's name found nothing.
    NameNotFound,
    /// One of the host's addresses is neither public nor allowed.
    AddressNotPublic,
    /// No address accepted the connection.
    ConnectFailed,
    /// Connecting, TLS included, took longer than `connect_timeout`.
    ConnectTimedOut,
    /// This machine's certificate store is empty or unreadable, so no https can be trusted.
    NoCertificateStore,
    /// The TLS handshake failed, or the certificate is not trusted.
    Tls,
    /// The connection closed too early, or the answer is not HTTP.
    Broken,
    /// The header of the answer is too large.
    HeaderTooLarge,
    /// The answer's status is neither 200 nor a redirect that is followed.
    Status,
    /// A redirect without one readable `Location`.
    Location,
    /// A redirect from https to http.
    Downgrade,
    /// More redirects than `redirects_max`.
    TooManyRedirects,
    /// The answer's body is encoded (gzip and the like).
    Encoded,
    /// The body, or its announced length, is longer than `bytes_max`.
    TooLarge,
    /// The whole request took longer than `timeout`.
    TimedOut,
}

impl FetchError {
    /// The cause as a short, stable name, for logs and metrics. Never show it to a stranger.
    #[must_use]
    pub const fn cause(self) -> &'static str {
        match self {
            Self::Url => "url_unreadable",
            Self::UrlTooLong => "url_too_long",
            Self::Scheme => "scheme_not_allowed",
            Self::UserInfo => "user_info_in_url",
            Self::Port => "port_not_allowed",
            Self::Busy => "too_many_fetches",
            Self::NameNotFound => "name_not_found",
            Self::AddressNotPublic => "address_not_public",
            Self::ConnectFailed => "connect_failed",
            Self::ConnectTimedOut => "connect_timed_out",
            Self::NoCertificateStore => "no_certificate_store",
            Self::Tls => "tls_failed",
            Self::Broken => "connection_broken",
            Self::HeaderTooLarge => "header_too_large",
            Self::Status => "status_not_200",
            Self::Location => "redirect_without_location",
            Self::Downgrade => "redirect_from_https_to_http",
            Self::TooManyRedirects => "too_many_redirects",
            Self::Encoded => "body_encoded",
            Self::TooLarge => "body_too_large",
            Self::TimedOut => "fetch_timed_out",
        }
    }
}

/// One text for all causes.
impl fmt::Display for FetchError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the URL cannot be fetched: expected a public http or https address")
    }
}

impl std::error::Error for FetchError {}
