//! Rate limits for each app and endpoint (contract 7). Only authenticated requests count, so a
//! stranger can neither use up an app's share nor fill our memory.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use domain::app::App;
use domain::gcra::Gcra;
use domain::ids::AppId;
use domain::per_second::PerSecond;

use crate::config;

/// What is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Limited {
    /// Exchanges.
    Exchanges,
    /// Order reports.
    Reports,
    /// Image uploads, both ways together.
    Uploads,
    /// Token requests.
    Tokens,
    /// Logins.
    Logins,
}

/// The limits of this process.
#[derive(Debug)]
pub struct RateLimits {
    settings: config::Limits,
    states: Mutex<HashMap<(AppId, Limited), Gcra>>,
}

impl RateLimits {
    /// Nothing used yet.
    #[must_use]
    pub fn new(settings: config::Limits) -> Self {
        Self { settings, states: Mutex::default() }
    }

    /// Counts a request of an app.
    ///
    /// # Errors
    /// How long to wait, when it is one too many.
    pub fn admit(&self, app: &App, limited: Limited, now: Duration) -> Result<(), Duration> {
        let (own, setting) = match limited {
            Limited::Exchanges => (app.limits.exchanges_per_second, self.settings.exchanges_per_second),
            Limited::Reports => (app.limits.reports_per_second, self.settings.reports_per_second),
            Limited::Uploads => (app.limits.uploads_per_second, self.settings.uploads_per_second),
            Limited::Tokens => (app.limits.tokens_per_second, self.settings.tokens_per_second),
            Limited::Logins => (app.limits.logins_per_second, self.settings.logins_per_second),
        };
        let per_second = own.unwrap_or(setting);
        if per_second == PerSecond::UNLIMITED {
            return Ok(());
        }
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.entry((app.id.clone(), limited)).or_default().admit(now, per_second.get())
    }
}
