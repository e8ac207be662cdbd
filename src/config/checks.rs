//! Checks of settings whose values are each of their type (contract 9.2.8 to 9.2.10).

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use tracing_subscriber::filter::{LevelFilter, Targets};

use super::Config;

/// The shortest and the longest time after which lists of the console load themselves again.
const REFRESH_MIN: Duration = Duration::from_secs(5);
const REFRESH_MAX: Duration = Duration::from_hours(24);

impl Config {
    /// Zero has a meaning in `console.refresh`, `console.reauth_after`, `image.cache_max_age`, `http.drain_timeout` and
    /// `http.keep_alive_timeout`. In others it would refuse everything, or be no limit at all.
    pub(super) fn check_durations(&self) -> Result<()> {
        let Self { http, database, exchange, image_judge, fetch, .. } = self;
        // PostgreSQL counts milliseconds, and reads none of them as no limit.
        let shortest = Duration::from_millis(1);
        for (name, value, least) in [
            ("http.body_timeout", http.body_timeout, shortest),
            ("http.write_timeout", http.write_timeout, shortest),
            ("database.acquire_timeout", database.acquire_timeout, shortest),
            ("database.statement_timeout", database.statement_timeout, shortest),
            ("exchange.deadline", exchange.deadline, shortest),
            ("topup.order_ttl", self.topup.order_ttl, Duration::from_secs(1)),
            ("image_judge.timeout", image_judge.timeout, shortest),
            ("fetch.connect_timeout", fetch.connect_timeout, shortest),
            ("fetch.timeout", fetch.timeout, shortest),
        ] {
            let (shown, got) = (humantime::format_duration(least), humantime::format_duration(value));
            ensure!(value >= least, "{name}: expected {shown} or more, got {got}");
        }
        let hour = Duration::from_hours(1);
        ensure!(self.notify.keep >= hour, "notify.keep: expected 1h or more");
        ensure!(self.image.unused_ttl >= hour, "image.unused_ttl: expected 1h or more");
        let refresh = self.console.refresh;
        ensure!(
            refresh.is_zero() || (REFRESH_MIN..=REFRESH_MAX).contains(&refresh),
            "console.refresh: expected 0s, or 5s to 1d, got {refresh:?}"
        );
        Ok(())
    }

    /// Names that no request can have, and a token that none can send.
    pub(super) fn check_ops(&self) -> Result<()> {
        for host in &self.ops.hosts {
            ensure!(
                is_host(host),
                "ops.hosts: expected names such as till.internal, without scheme, port and path, got {host:?}"
            );
        }
        let token = self.ops.metrics_token.expose();
        ensure!(token.trim() == token, "ops.metrics_token: expected no blank or line end around it");
        Ok(())
    }
}

/// Whether a `Host` header can name this, without its port.
fn is_host(text: &str) -> bool {
    let literal = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_name = !text.is_empty() && !text.ends_with('.') && text.bytes().all(is_name_byte);
    is_name || literal.parse::<IpAddr>().is_ok()
}

/// The events that a filter of the log names: levels, and levels of targets, with commas between them. An empty one names
/// errors alone.
///
/// # Errors
/// A part that is neither. A word alone would be a target of its own, and silence the rest.
pub fn log_targets(filter: &str) -> Result<Targets> {
    if filter.trim().is_empty() {
        return Ok(Targets::new().with_default(LevelFilter::ERROR));
    }
    let parts: Vec<&str> = filter.split(',').map(str::trim).collect();
    for part in &parts {
        let is_level = !part.is_empty() && part.parse::<LevelFilter>().is_ok();
        ensure!(
            is_level || part.split_once('=').is_some_and(|(target, _)| !target.is_empty()),
            "log.filter: expected a level (off, error, warn, info, debug or trace) or target=level, got {part:?}"
        );
    }
    parts.join(",").parse::<Targets>().map_err(|error| anyhow!("log.filter: {error}"))
}
