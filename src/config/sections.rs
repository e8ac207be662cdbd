//! The sections of the settings, as they are read.

#![expect(
    missing_docs,
    reason = "each setting is documented where its default stands, in config/default.toml"
)]

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use domain::app::AppLimits;
use domain::event::RetryDelays;
use domain::per_second::PerSecond;
use domain::period::TimeZone;
use domain::picture_store::PictureStore;
use domain::quota::{ImageQuotas, Quota};
use domain::secret::Secret;
use domain::wallet::PayPriority;
use guarded_fetch::ServiceUrl;
use hyper::header::{HeaderName, HeaderValue};
use ipnet::IpNet;
use serde::{Deserialize, Deserializer, de};

use super::branding::{Colour, InstallationName};

/// `[public]` and `[ops]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listener {
    #[serde(deserialize_with = "address")]
    pub listen: SocketAddr,
    pub tls_certificate: PathBuf,
    pub tls_key: PathBuf,
    #[serde(deserialize_with = "networks")]
    pub trusted_proxies: Vec<IpNet>,
    /// Only `[public]` has it: the operator's listener always serves the documents.
    #[serde(default)]
    pub docs: bool,
    /// Only `[ops]` has it: game servers may call the public listener by any name.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Only `[ops]` has it.
    #[serde(default)]
    pub metrics_token: Secret,
}

impl Listener {
    /// The listener's address as this machine reaches it.
    #[must_use]
    pub fn reachable(&self) -> SocketAddr {
        let ip = match self.listen.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        SocketAddr::new(ip, self.listen.port())
    }

    /// The listener's URL as this machine reaches it.
    #[must_use]
    pub fn base_url(&self) -> String {
        self.url_of(self.reachable())
    }

    /// The listener's URL as it was bound, which may be every address of this machine.
    #[must_use]
    pub fn bound_url(&self) -> String {
        self.url_of(self.listen)
    }

    /// Whether the listener has a certificate, and so speaks TLS alone.
    #[must_use]
    pub fn has_tls(&self) -> bool {
        !self.tls_certificate.as_os_str().is_empty()
    }

    fn url_of(&self, address: SocketAddr) -> String {
        let scheme = if self.has_tls() { "https" } else { "http" };
        format!("{scheme}://{address}")
    }
}

/// `[console]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Console {
    pub name: InstallationName,
    pub colour: Colour,
    #[serde(deserialize_with = "duration")]
    pub refresh: Duration,
    #[serde(deserialize_with = "duration")]
    pub reauth_after: Duration,
    pub second_person_above: u64,
    pub support_give_back_max: i64,
    pub time_zone: TimeZone,
    pub totp_required: bool,
}

impl Console {
    /// How many coins one person moves in 24 hours without a second one. `None`: any number.
    #[must_use]
    pub fn alone_max(&self) -> Option<i64> {
        (self.second_person_above > 0).then(|| i64::try_from(self.second_person_above).unwrap_or(i64::MAX))
    }
}

/// `[http]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Http {
    #[serde(deserialize_with = "duration")]
    pub body_timeout: Duration,
    #[serde(deserialize_with = "duration")]
    pub keep_alive_timeout: Duration,
    #[serde(deserialize_with = "duration")]
    pub write_timeout: Duration,
    pub connections_max: usize,
    pub connections_per_address_max: usize,
    #[serde(deserialize_with = "duration")]
    pub drain_timeout: Duration,
}

/// `[database]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Database {
    pub url: Secret,
    pub data_dir: PathBuf,
    pub connections: u32,
    #[serde(deserialize_with = "duration")]
    pub acquire_timeout: Duration,
    #[serde(deserialize_with = "duration")]
    pub statement_timeout: Duration,
}

/// `[secrets]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Secrets {
    pub master_key: Secret,
    pub master_key_file: PathBuf,
}

/// `[exchange]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exchange {
    #[serde(deserialize_with = "pay_priority")]
    pub pay_priority_default: PayPriority,
    pub writers: usize,
    pub queue_max: usize,
    #[serde(deserialize_with = "duration")]
    pub deadline: Duration,
}

/// `[topup]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topup {
    #[serde(deserialize_with = "duration")]
    pub order_ttl: Duration,
}

/// `[image]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Image {
    pub decodes_max: usize,
    pub memory_bytes_max: u32,
    pub memory_per_app_bytes_max: u32,
    pub store: PictureStore,
    pub folder: PathBuf,
    #[serde(deserialize_with = "duration")]
    pub store_timeout: Duration,
    #[serde(deserialize_with = "duration")]
    pub cache_max_age: Duration,
    pub disk_free_min: u64,
    #[serde(deserialize_with = "duration")]
    pub unused_ttl: Duration,
}

/// `[image_judge]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageJudge {
    #[serde(deserialize_with = "service_url")]
    pub url: Option<ServiceUrl>,
    pub secret: Secret,
    #[serde(deserialize_with = "duration")]
    pub timeout: Duration,
    pub when_unavailable: WhenUnavailable,
    pub concurrent_max: u32,
    pub concurrent_per_app_max: u32,
}

/// `[fetch]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fetch {
    pub ports: Vec<u16>,
    #[serde(deserialize_with = "duration")]
    pub connect_timeout: Duration,
    #[serde(deserialize_with = "duration")]
    pub timeout: Duration,
    pub concurrent_max: u32,
    pub concurrent_per_app_max: u32,
    #[serde(deserialize_with = "networks")]
    pub allow_networks: Vec<IpNet>,
}

/// `[notify]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Notify {
    #[serde(deserialize_with = "durations")]
    pub retry_delays: RetryDelays,
    pub parallel_max: NonZeroUsize,
    pub per_second_max: NonZeroU32,
    #[serde(deserialize_with = "duration")]
    pub keep: Duration,
    pub ports: Vec<u16>,
    #[serde(deserialize_with = "networks")]
    pub allow_networks: Vec<IpNet>,
}

/// `[limits]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    pub exchanges_per_second: PerSecond,
    pub reads_per_second: PerSecond,
    pub reports_per_second: PerSecond,
    pub uploads_per_second: PerSecond,
    pub tokens_per_second: PerSecond,
    pub logins_per_second: PerSecond,
    pub image_bytes_per_day: Quota,
    pub image_bytes_max: Quota,
    pub images_per_day: Quota,
    pub images_max: Quota,
    pub tokens_per_app: NonZeroU32,
}

/// `[tracing]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tracing {
    #[serde(deserialize_with = "service_url")]
    pub otlp_endpoint: Option<ServiceUrl>,
    #[serde(deserialize_with = "secret_headers")]
    pub otlp_headers: HashMap<String, Secret>,
}

/// `[log]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    pub format: LogFormat,
    pub filter: String,
}

impl Limits {
    /// The limits as those of an app.
    #[must_use]
    pub fn as_app_limits(&self) -> AppLimits {
        AppLimits {
            exchanges_per_second: Some(self.exchanges_per_second),
            reads_per_second: Some(self.reads_per_second),
            reports_per_second: Some(self.reports_per_second),
            uploads_per_second: Some(self.uploads_per_second),
            tokens_per_second: Some(self.tokens_per_second),
            logins_per_second: Some(self.logins_per_second),
            image_bytes_per_day: Some(self.image_bytes_per_day),
            image_bytes_max: Some(self.image_bytes_max),
            images_per_day: Some(self.images_per_day),
            images_max: Some(self.images_max),
        }
    }

    /// The quotas of an app without its own.
    #[must_use]
    pub fn image_quotas(&self) -> ImageQuotas {
        ImageQuotas {
            bytes_per_day: self.image_bytes_per_day,
            bytes_max: self.image_bytes_max,
            images_per_day: self.images_per_day,
            images_max: self.images_max,
        }
    }
}

domain::word_enum! {
    /// The fate of a picture while no verdict can be had.
    pub enum WhenUnavailable {
        /// It is stored, and the log names it.
        Allow = "allow",
        /// It is not stored, and its sender is asked to try again.
        Block = "block",
    }
}

domain::word_enum! {
    /// The form of log lines.
    pub enum LogFormat {
        /// For people.
        Text = "text",
        /// For machines.
        Json = "json",
    }
}

/// What a listener is bound to.
fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|_| {
        let expected = "expected an IP address and a port, such as 127.0.0.1:8081";
        de::Error::custom(format!("{expected}, got {text:?}"))
    })
}

/// Networks. An address without a prefix length is that address alone.
fn networks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<IpNet>, D::Error> {
    let network = |text: &String| {
        let address = text.parse::<IpAddr>().map(IpNet::from);
        text.parse::<IpNet>().or(address).map_err(|_| {
            let expected = "expected an IP address or a network, such as 10.0.0.0/8";
            de::Error::custom(format!("{expected}, got {text:?}"))
        })
    };
    Vec::<String>::deserialize(deserializer)?.iter().map(network).collect()
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    humantime::parse_duration(&text).map_err(|_| {
        de::Error::custom(format!("expected a duration such as \"5s\" or \"48h\", got {text:?}"))
    })
}

/// How many durations a list has at most.
const DURATIONS_MAX: usize = 100;

fn durations<'de, D: Deserializer<'de>>(deserializer: D) -> Result<RetryDelays, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let durations = texts.iter().map(|text| humantime::parse_duration(text).ok());
    let durations: Option<Vec<Duration>> = durations.collect();
    let durations = durations.filter(|durations| durations.len() <= DURATIONS_MAX);
    durations.map(RetryDelays::new).ok_or_else(|| {
        de::Error::custom(format!(
            "expected a list of {DURATIONS_MAX} durations at most, such as [\"5s\", \"10m\"], got {texts:?}"
        ))
    })
}

/// Nothing of the text is repeated: it may hold a secret.
fn service_url<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ServiceUrl>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let url = (!text.is_empty()).then(|| ServiceUrl::parse(&text)).transpose();
    url.map_err(|_| {
        de::Error::custom("expected an absolute http or https URL with a host and without a user")
    })
}

/// A list of `name=value`. The error does not repeat an item: it may hold a secret.
fn secret_headers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<HashMap<String, Secret>, D::Error> {
    let items = Vec::<toml::Value>::deserialize(deserializer)?;
    let headers = items.iter().map(|item| {
        let (name, value) = item.as_str()?.split_once('=')?;
        let (name, value) = (name.trim(), value.trim());
        HeaderName::from_bytes(name.as_bytes()).ok()?;
        HeaderValue::from_str(value).ok()?;
        Some((name.to_owned(), Secret::new(value.to_owned())))
    });
    headers.collect::<Option<_>>().ok_or_else(|| {
        de::Error::custom("expected a list of HTTP headers such as \"authorization=Bearer ...\"")
    })
}

fn pay_priority<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PayPriority, D::Error> {
    let code = i64::deserialize(deserializer)?;
    PayPriority::parse(&code.to_string())
        .map_err(|_| de::Error::custom(format!("expected 0 or 1, got {code}")))
}
