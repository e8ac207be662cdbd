//! Settings: the compiled-in defaults, then a file of the operator's, then environment variables
//! (contract 9). Unknown settings are refused by name; secrets are not printed.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Deserializer, de};

use crate::domain::image::PictureStore;
use crate::error::ErrorStatus;
use crate::fetch::ServiceUrl;
use crate::image_judge::WhenUnavailable;

mod pictures;

pub use pictures::S3;

/// The documented defaults, which are the defaults.
const DEFAULTS: &str = include_str!("../config/default.toml");
/// The shortest key that the judge of pictures is asked with.
const JUDGE_SECRET_BYTES_MIN: usize = 16;
/// What a setting's environment variable begins with.
const VARIABLE_PREFIX: &str = "MINITILL_";

/// Every setting. `config/default.toml` says what each one means.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    missing_docs,
    reason = "each setting is documented where its default stands, in config/default.toml"
)]
pub struct Config {
    pub public: Public,
    pub ops: Operators,
    pub http: Http,
    pub database: Database,
    pub secrets: Secrets,
    pub exchange: Exchange,
    pub order: Order,
    pub image: Image,
    pub image_judge: ImageJudge,
    pub s3: S3,
    pub fetch: Fetch,
    pub limits: Limits,
    pub log: Log,
}

/// `[public]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    missing_docs,
    reason = "each setting is documented where its default stands, in config/default.toml"
)]
pub struct Public {
    pub listen: SocketAddr,
    pub tls_certificate: PathBuf,
    pub tls_key: PathBuf,
    pub trusted_proxies: Vec<IpNet>,
}

/// `[ops]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    missing_docs,
    reason = "each setting is documented where its default stands, in config/default.toml"
)]
pub struct Operators {
    pub listen: SocketAddr,
    pub tls_certificate: PathBuf,
    pub tls_key: PathBuf,
}

impl Public {
    /// The listener as this machine reaches it.
    #[must_use]
    pub fn base_url(&self) -> String {
        base_url(self.listen, &self.tls_certificate)
    }
}

impl Operators {
    /// The listener's address as this machine reaches it.
    #[must_use]
    pub fn reachable(&self) -> SocketAddr {
        reachable(self.listen)
    }

    /// The listener as this machine reaches it.
    #[must_use]
    pub fn base_url(&self) -> String {
        base_url(self.listen, &self.tls_certificate)
    }
}

fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

fn base_url(listen: SocketAddr, tls_certificate: &Path) -> String {
    let scheme = if tls_certificate.as_os_str().is_empty() { "http" } else { "https" };
    format!("{scheme}://{}", reachable(listen))
}

/// `[http]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    missing_docs,
    reason = "each setting is documented where its default stands, in config/default.toml"
)]
pub struct Http {
    pub error_status: ErrorStatus,
    pub header_bytes_max: usize,
    #[serde(deserialize_with = "duration")]
    pub header_timeout: Duration,
    #[serde(deserialize_with = "duration")]
    pub body_timeout: Duration,
    pub body_bytes_max: usize,
    #[serde(deserialize_with = "duration")]
    pub keep_alive_timeout: Duration,
    #[serde(deserialize_with = "duration")]
    pub write_timeout: Duration,
    pub connections_max: usize,
    #[serde(deserialize_with = "duration")]
    pub drain_timeout: Duration,
}

/// `[database]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    missing_docs,
    reason = "each setting is documented where its default stands, in config/default.toml"
)]
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
#[expect(
    missing_docs,
    reason = "each setting is documented where its default stands, in config/default.toml"
)]
pub struct Secrets {
    pub master_key: Secret,
    pub master_key_file: PathBuf,
}

/// `[exchange]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    missing_docs,
    reason = "each setting is documented where its default stands, in config/default.toml"
)]
pub struct Exchange {
    #[serde(deserialize_with = "pay_priority")]
    pub pay_priority_default: crate::domain::exchange::PayPriority,
    #[serde(deserialize_with = "duration")]
    pub ts_ahead_max: Duration,
    #[serde(deserialize_with = "duration")]
    pub ts_behind_max: Duration,
    pub writers: usize,
    pub queue_max: usize,
    #[serde(deserialize_with = "duration")]
    pub deadline: Duration,
}

/// `[order]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    missing_docs,
    reason = "each setting is documented where its default stands, in config/default.toml"
)]
pub struct Order {
    #[serde(deserialize_with = "duration")]
    pub clock_skew_max: Duration,
}

/// `[image]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    missing_docs,
    reason = "each setting is documented where its default stands, in config/default.toml"
)]
pub struct Image {
    pub decodes_max: usize,
    pub memory_bytes_max: u32,
    pub memory_per_app_bytes_max: u32,
    pub store: PictureStore,
    pub folder: PathBuf,
    #[serde(deserialize_with = "duration")]
    pub store_timeout: Duration,
}

/// `[image_judge]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    missing_docs,
    reason = "each setting is documented where its default stands, in config/default.toml"
)]
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
#[expect(
    missing_docs,
    reason = "each setting is documented where its default stands, in config/default.toml"
)]
pub struct Fetch {
    pub ports: Vec<u16>,
    #[serde(deserialize_with = "duration")]
    pub connect_timeout: Duration,
    #[serde(deserialize_with = "duration")]
    pub timeout: Duration,
    pub redirects_max: usize,
    pub concurrent_max: u32,
    pub concurrent_per_app_max: u32,
    pub allow_networks: Vec<IpNet>,
}

/// `[limits]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    missing_docs,
    reason = "each setting is documented where its default stands, in config/default.toml"
)]
pub struct Limits {
    pub exchanges_per_second: u32,
    pub reports_per_second: u32,
    pub uploads_per_second: u32,
    pub tokens_per_second: u32,
}

/// `[log]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    missing_docs,
    reason = "each setting is documented where its default stands, in config/default.toml"
)]
pub struct Log {
    pub format: LogFormat,
    pub filter: String,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines.
    Json,
}

/// A setting that is never printed. Empty means not set.
#[derive(Clone, Default, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// The text, or `None` when it is not set.
    #[must_use]
    pub fn get(&self) -> Option<&str> {
        (!self.0.is_empty()).then_some(self.0.as_str())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "unset" } else { "set" })
    }
}

/// A setting that cannot be used, in words that name it.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The operator's file cannot be read.
    #[error("cannot read the settings file {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A setting is unknown or has a value that does not fit.
    #[error("{0}")]
    Setting(String),
}

impl Config {
    /// Reads the settings: defaults, `file`, then `variables` (those of the process, in `main`).
    ///
    /// # Errors
    /// A file that cannot be read; an unknown setting; a value that does not fit. The text names it.
    pub fn load(
        file: Option<&Path>,
        variables: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        let mut settings: toml::Table = toml::from_str(DEFAULTS)
            .map_err(|error| ConfigError::Setting(format!("the default settings: {error}")))?;
        if let Some(path) = file {
            let text = std::fs::read_to_string(path)
                .map_err(|source| ConfigError::File { path: path.to_owned(), source })?;
            let own: toml::Table = toml::from_str(&text)
                .map_err(|error| ConfigError::Setting(file_fault(path, &text, &error)))?;
            for (section, values) in own {
                merge_section(&mut settings, &section, values)
                    .map_err(|problem| ConfigError::Setting(format!("{}: {problem}", path.display())))?;
            }
        }
        let mut variables: Vec<_> = variables.collect();
        // DATABASE_URL first, so that the setting's own variable wins over it.
        variables.sort_by_key(|(name, _)| name.starts_with(VARIABLE_PREFIX));
        for (name, value) in variables {
            apply_variable(&mut settings, &name, value).map_err(ConfigError::Setting)?;
        }
        let config: Self =
            settings.try_into().map_err(|error| ConfigError::Setting(setting_fault(&error)))?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), ConfigError> {
        let at_least = |name: &str, value: usize, least: usize| {
            if value >= least {
                Ok(())
            } else {
                Err(ConfigError::Setting(format!("{name}: expected {least} or more, got {value}")))
            }
        };
        let pair = |section: &str, certificate: &Path, key: &Path| {
            if certificate.as_os_str().is_empty() == key.as_os_str().is_empty() {
                Ok(())
            } else {
                let names = format!("{section}.tls_certificate and {section}.tls_key");
                Err(ConfigError::Setting(format!("{names}: expected both or none")))
            }
        };
        pair("public", &self.public.tls_certificate, &self.public.tls_key)?;
        pair("ops", &self.ops.tls_certificate, &self.ops.tls_key)?;
        at_least("http.header_bytes_max", self.http.header_bytes_max, 8192)?;
        at_least("http.body_bytes_max", self.http.body_bytes_max, 1024)?;
        at_least("http.connections_max", self.http.connections_max, 1)?;
        at_least("database.connections", self.database.connections as usize, 1)?;
        at_least("exchange.writers", self.exchange.writers, 1)?;
        at_least("exchange.queue_max", self.exchange.queue_max, 1)?;
        let picture = crate::domain::image::BYTES_MAX;
        at_least("image.memory_bytes_max", self.image.memory_bytes_max as usize, picture)?;
        at_least("image.memory_per_app_bytes_max", self.image.memory_per_app_bytes_max as usize, picture)?;
        at_least("fetch.concurrent_max", self.fetch.concurrent_max as usize, 1)?;
        at_least("fetch.concurrent_per_app_max", self.fetch.concurrent_per_app_max as usize, 1)?;
        let judge = &self.image_judge;
        at_least("image_judge.concurrent_max", judge.concurrent_max as usize, 1)?;
        at_least("image_judge.concurrent_per_app_max", judge.concurrent_per_app_max as usize, 1)?;
        let secret_bytes = judge.secret.get().map_or(0, str::len);
        if judge.url.is_some() && secret_bytes < JUDGE_SECRET_BYTES_MIN {
            return Err(ConfigError::Setting(format!(
                "image_judge.secret: expected {JUDGE_SECRET_BYTES_MIN} bytes or more beside image_judge.url"
            )));
        }
        self.check_pictures().map_err(ConfigError::Setting)
    }
}

fn merge_section(settings: &mut toml::Table, section: &str, values: toml::Value) -> Result<(), String> {
    let Some(known) = settings.get_mut(section).and_then(toml::Value::as_table_mut) else {
        return Err(format!("unknown section [{section}]"));
    };
    let toml::Value::Table(values) = values else {
        return Err(format!("{section} is a section: write [{section}]"));
    };
    for (key, value) in values {
        if known.insert(key.clone(), value).is_none() {
            return Err(format!("unknown setting {section}.{key}"));
        }
    }
    Ok(())
}

/// A variable takes the type of the default that it overrides. Variables without two
/// underscores are left alone: container platforms make some that begin with our name.
fn apply_variable(settings: &mut toml::Table, name: &str, value: String) -> Result<(), String> {
    let path =
        if name == "DATABASE_URL" { Some("DATABASE__URL") } else { name.strip_prefix(VARIABLE_PREFIX) };
    let Some((section, key)) = path.and_then(|path| path.split_once("__")) else { return Ok(()) };
    let (section, key) = (section.to_ascii_lowercase(), key.to_ascii_lowercase());
    let known = settings.get_mut(&section).and_then(|section| section.get_mut(&key));
    let Some(setting) = known else {
        return Err(format!("unknown setting {section}.{key} (variable {name})"));
    };
    let misfit = |expected: &str| format!("{section}.{key} (variable {name}): expected {expected}");
    *setting = match setting {
        toml::Value::Integer(_) => {
            value.parse().map(toml::Value::Integer).map_err(|_| misfit("an integer"))?
        }
        toml::Value::Boolean(_) => {
            value.parse().map(toml::Value::Boolean).map_err(|_| misfit("true or false"))?
        }
        toml::Value::Array(_) => toml::Value::Array(
            value.split(',').map(str::trim).filter(|item| !item.is_empty()).map(list_item).collect(),
        ),
        toml::Value::String(_) | toml::Value::Float(_) | toml::Value::Datetime(_) | toml::Value::Table(_) => {
            toml::Value::String(value)
        }
    };
    Ok(())
}

fn list_item(text: &str) -> toml::Value {
    text.parse().map_or_else(|_| toml::Value::String(text.to_owned()), toml::Value::Integer)
}

/// Where a file is at fault and why. Not the line itself, as the parser would show it: it may hold a secret.
fn file_fault(path: &Path, text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    format!("{}, line {line}: {}", path.display(), error.message())
}

fn setting_fault(error: &toml::de::Error) -> String {
    let text = error.to_string();
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    humantime::parse_duration(&text).map_err(|_| {
        de::Error::custom(format!("expected a duration such as \"5s\" or \"48h\", got {text:?}"))
    })
}

/// Nothing of the text is repeated: it may hold a secret.
fn service_url<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ServiceUrl>, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.is_empty() {
        return Ok(None);
    }
    ServiceUrl::parse(&text).map(Some).map_err(|_| {
        de::Error::custom("expected an absolute http or https URL with a host and without a user")
    })
}

fn pay_priority<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<crate::domain::exchange::PayPriority, D::Error> {
    let code = i64::deserialize(deserializer)?;
    crate::domain::exchange::PayPriority::parse(&code.to_string())
        .map_err(|_| de::Error::custom(format!("expected 0 or 1, got {code}")))
}

#[cfg(test)]
mod tests;
