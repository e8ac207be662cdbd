//! Settings: the compiled-in defaults, then a file of the operator's, then environment variables
//! (contract 9.2). Unknown settings are refused by name; secrets are not printed.

mod branding;
mod checks;
mod oidc;
mod picture_stores;
pub mod private_files;
mod sections;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Error, Result, anyhow, bail, ensure};
use domain::body::BodyKind;
use serde::Deserialize;

pub use branding::{Colour, InstallationName};
pub use checks::log_targets;
pub use oidc::{OIDC_CALLBACK_PATH, Oidc};
pub use picture_stores::S3;
pub use sections::{
    Console, Database, Exchange, Fetch, Http, Image, ImageJudge, Limits, Listener, Log, LogFormat, Notify,
    Secrets, Topup, Tracing, WhenUnavailable,
};

/// The documented defaults, which are the defaults.
const DEFAULTS: &str = include_str!("../config/default.toml");
/// The shortest key that the judge of pictures is asked with.
const JUDGE_SECRET_BYTES_MIN: usize = 16;
/// The prefix of a setting's environment variable.
const VARIABLE_PREFIX: &str = "MINITILL_";

/// The suffix of a variable that names a file with the value.
const FILE_SUFFIX: &str = "_file";
/// The settings that are secrets.
const SECRETS: [(&str, &str); 7] = [
    ("ops", "metrics_token"),
    ("oidc", "client_secret"),
    ("database", "url"),
    ("secrets", "master_key"),
    ("s3", "secret_access_key"),
    ("image_judge", "secret"),
    ("tracing", "otlp_headers"),
];

/// The file or variable of each setting that is no default, by `section.key`.
type SettingOrigins = BTreeMap<String, String>;

/// Path of the demonstration's picture on the operator's listener.
pub const DEMO_PICTURE_PATH: &str = "/demo/cover.png";

/// Every setting. `config/default.toml` says what each one means.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    missing_docs,
    reason = "each setting is documented where its default stands, in config/default.toml"
)]
pub struct Config {
    pub public: Listener,
    pub ops: Listener,
    pub console: Console,
    pub oidc: Oidc,
    pub http: Http,
    pub database: Database,
    pub secrets: Secrets,
    pub exchange: Exchange,
    pub topup: Topup,
    pub image: Image,
    pub image_judge: ImageJudge,
    pub s3: S3,
    pub fetch: Fetch,
    pub notify: Notify,
    pub limits: Limits,
    pub tracing: Tracing,
    pub log: Log,
    /// The files that secrets of these settings were read from.
    #[serde(skip)]
    pub secret_files: Vec<PathBuf>,
}

impl Config {
    /// Reads the settings: defaults, `file`, then `variables` (those of the process, in `main`).
    ///
    /// # Errors
    /// A file that cannot be read; an unknown setting; a value that does not fit. The text names it.
    pub fn load(file: Option<&Path>, variables: impl Iterator<Item = (String, String)>) -> Result<Self> {
        let mut settings: toml::Table =
            toml::from_str(DEFAULTS).map_err(|error| anyhow!("the default settings: {error}"))?;
        let (mut secret_files, mut origins) = (Vec::new(), SettingOrigins::new());
        if let Some(path) = file
            && apply_file(&mut settings, &mut origins, path)?
        {
            secret_files.push(path.to_owned());
        }
        let file_names_database = names_database(&settings);
        let mut variables: Vec<_> = variables.collect();
        // DATABASE_URL first, so that the setting's own variable wins over it.
        variables.sort_by_key(|(name, _)| name.starts_with(VARIABLE_PREFIX));
        for (name, value) in variables {
            secret_files.extend(apply_variable(&mut settings, &mut origins, &name, value)?);
        }
        // An empty private till would start in the place of the file's database.
        if file_names_database && !names_database(&settings) {
            let empty = origins.get("database.url").map_or("", String::as_str);
            bail!("database.url ({empty}) is empty, but the settings file has a URL: remove one of them");
        }
        let config: Self = settings.try_into().map_err(|error| setting_fault(&error, &origins))?;
        let config = Self { secret_files, ..config };
        config.check()?;
        Ok(config)
    }

    /// The URL of the demonstration's picture on the operator's listener.
    #[must_use]
    pub fn demo_picture_url(&self) -> String {
        format!("{}{DEMO_PICTURE_PATH}", self.ops.base_url())
    }

    fn check(&self) -> Result<()> {
        for (section, Listener { tls_certificate, tls_key, .. }) in
            [("public", &self.public), ("ops", &self.ops)]
        {
            ensure!(
                tls_certificate.as_os_str().is_empty() == tls_key.as_os_str().is_empty(),
                "{section}.tls_certificate and {section}.tls_key: expected both or none"
            );
        }
        let (public, ops) = (&self.public, &self.ops);
        for (name, is_set) in [
            ("public.hosts", !public.hosts.is_empty()),
            ("public.metrics_token", public.metrics_token.get().is_some()),
            ("ops.docs", ops.docs),
        ] {
            ensure!(!is_set, "{name}: this listener has no such setting");
        }
        let Self { http, exchange, image, fetch, image_judge: judge, .. } = self;
        for (name, value, least) in [
            ("http.connections_max", http.connections_max, 1),
            ("http.connections_per_address_max", http.connections_per_address_max, 1),
            ("database.connections", self.database.connections as usize, 1),
            ("exchange.writers", exchange.writers, 1),
            ("exchange.queue_max", exchange.queue_max, 1),
            ("image.memory_bytes_max", image.memory_bytes_max as usize, pictures::BYTES_MAX),
            ("image.memory_per_app_bytes_max", image.memory_per_app_bytes_max as usize, pictures::BYTES_MAX),
            ("fetch.concurrent_max", fetch.concurrent_max as usize, 1),
            ("fetch.concurrent_per_app_max", fetch.concurrent_per_app_max as usize, 1),
            ("image_judge.concurrent_max", judge.concurrent_max as usize, 1),
            ("image_judge.concurrent_per_app_max", judge.concurrent_per_app_max as usize, 1),
        ] {
            ensure!(value >= least, "{name}: expected {least} or more, got {value}");
        }
        ensure!(
            judge.url.is_none() || judge.secret.expose().len() >= JUDGE_SECRET_BYTES_MIN,
            "image_judge.secret: expected {JUDGE_SECRET_BYTES_MIN} bytes or more beside image_judge.url"
        );
        log_targets(&self.log.filter)?;
        self.check_durations()?;
        self.check_ops()?;
        self.check_oidc()?;
        self.check_pictures()
    }
}

/// Applies the settings of a file, and returns whether one is a secret.
fn apply_file(settings: &mut toml::Table, origins: &mut SettingOrigins, path: &Path) -> Result<bool> {
    let shown = path.display();
    let text = read_text(path).map_err(|error| anyhow!("cannot read the settings file {shown}: {error}"))?;
    let own: toml::Table = toml::from_str(&text).map_err(|error| file_fault(path, &text, &error))?;
    let is_there =
        |(section, key): &(&str, &str)| own.get(*section).is_some_and(|own| own.get(key).is_some());
    let has_secret = SECRETS.iter().any(is_there);
    for (section, values) in own {
        for key in values.as_table().into_iter().flat_map(toml::Table::keys) {
            origins.insert(format!("{section}.{key}"), format!("file {shown}"));
        }
        merge_section(settings, &section, values).map_err(|problem| anyhow!("{shown}: {problem}"))?;
    }
    Ok(has_secret)
}

fn names_database(settings: &toml::Table) -> bool {
    let url = settings.get("database").and_then(|database| database.get("url"));
    url.and_then(toml::Value::as_str).is_some_and(|url| !url.is_empty())
}

fn merge_section(settings: &mut toml::Table, section: &str, values: toml::Value) -> Result<()> {
    let known = settings.get_mut(section).and_then(toml::Value::as_table_mut);
    let known = known.with_context(|| format!("unknown section [{section}]"))?;
    let toml::Value::Table(values) = values else { bail!("{section} is a section: write [{section}]") };
    for (key, value) in values {
        ensure!(known.insert(key.clone(), value).is_some(), "unknown setting {section}.{key}");
    }
    Ok(())
}

/// A variable takes the type of the default that it overrides. With `_FILE` behind the name of a text it names a
/// file that holds the text; that is returned. Variables without two underscores are left alone: container
/// platforms make some that begin with our name.
fn apply_variable(
    settings: &mut toml::Table,
    origins: &mut SettingOrigins,
    name: &str,
    value: String,
) -> Result<Option<PathBuf>> {
    let path = match name {
        "DATABASE_URL" => Some("DATABASE__URL"),
        "DATABASE_URL_FILE" => Some("DATABASE__URL_FILE"),
        _ => name.strip_prefix(VARIABLE_PREFIX),
    };
    let Some((section, key)) = path.and_then(|path| path.split_once("__")) else { return Ok(None) };
    let (section, key) = (section.to_ascii_lowercase(), key.to_ascii_lowercase());
    let known = settings.get_mut(&section).and_then(toml::Value::as_table_mut);
    if let Some(section_of) = &known
        && !section_of.contains_key(&key)
        && let Some(text) = key.strip_suffix(FILE_SUFFIX)
        && section_of.get(text).is_some_and(toml::Value::is_str)
    {
        let file = PathBuf::from(value);
        let held = std::fs::read_to_string(&file).map_err(|error| {
            anyhow!("{section}.{text} (variable {name}): cannot read {}: {error}", file.display())
        })?;
        let held = held.trim_matches(['\r', '\n', '\u{feff}']).to_owned();
        settings[&section][text] = toml::Value::String(held);
        origins.insert(format!("{section}.{text}"), format!("variable {name}"));
        return Ok(Some(file));
    }
    let known = known.and_then(|section| section.get_mut(&key));
    let setting = known.with_context(|| format!("unknown setting {section}.{key} (variable {name})"))?;
    let misfit = |expected: &str| anyhow!("{section}.{key} (variable {name}): expected {expected}");
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
    origins.insert(format!("{section}.{key}"), format!("variable {name}"));
    Ok(None)
}

fn list_item(text: &str) -> toml::Value {
    text.parse().map_or_else(|_| toml::Value::String(text.to_owned()), toml::Value::Integer)
}

/// The text of a file that people write. What it is instead is named: an editor may save it in UTF-16.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    let bytes = std::fs::read(path)?;
    match BodyKind::of(&bytes) {
        BodyKind::Utf16 => bail!("it is text in UTF-16: save it in UTF-8"),
        BodyKind::Gzip => bail!("it is gzip data: save it as text in UTF-8"),
        _ => String::from_utf8(bytes).map_err(|_| anyhow!("stream did not contain valid UTF-8")),
    }
}

/// The place of a fault in a file, and its reason. Not the line itself, as the parser would show it: it may hold a secret.
pub(crate) fn file_fault(path: &Path, text: &str, error: &toml::de::Error) -> Error {
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    anyhow!("{}, line {line}: {}", path.display(), error.message())
}

/// The fault, its setting, and the source of the setting.
fn setting_fault(error: &toml::de::Error, origins: &SettingOrigins) -> Error {
    let text = error.to_string();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let text = lines.collect::<Vec<_>>().join(" ");
    let setting = text.rsplit_once("in `").and_then(|(_, setting)| setting.strip_suffix('`'));
    match setting.and_then(|setting| origins.get(setting)) {
        Some(origin) => anyhow!("{text} ({origin})"),
        None => Error::msg(text),
    }
}

#[cfg(test)]
mod tests;
