//! Rate limits for each app and endpoint (contract 7.2). Only authenticated requests count, so a
//! stranger can neither use up an app's share nor fill our memory.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use domain::app::App;
use domain::endpoint::Endpoint;
use domain::gcra::Gcra;
use domain::ids::AppId;
use domain::per_second::PerSecond;
use domain::text;
use domain::text::Text;

use crate::config;

/// The subject of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Limited {
    /// Exchanges, presents and cancels together.
    Exchanges,
    /// Balances and queries together.
    Reads,
    /// Order reports, and the calls of the test world together.
    Reports,
    /// Image uploads, both ways together.
    Uploads,
    /// Token requests.
    Tokens,
    /// Logins.
    Logins,
    /// Callbacks of payment providers: as many as exchanges, and apart from them.
    Callbacks,
}

impl Limited {
    /// What the calls of an endpoint count as; `None` for those of players and payment providers.
    #[must_use]
    pub fn of(endpoint: Endpoint) -> Option<Self> {
        match endpoint {
            Endpoint::Exchange | Endpoint::Present | Endpoint::Cancel | Endpoint::Topup => {
                Some(Self::Exchanges)
            }
            Endpoint::Balance | Endpoint::Query => Some(Self::Reads),
            Endpoint::OrderReport | Endpoint::Sandbox => Some(Self::Reports),
            Endpoint::UploadWithFile | Endpoint::UploadWithUrl => Some(Self::Uploads),
            Endpoint::AccessToken => Some(Self::Tokens),
            Endpoint::Login => Some(Self::Logins),
            Endpoint::Image | Endpoint::Callback => None,
        }
    }
}

/// A request that was one too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitExceeded {
    /// What there were too many of.
    pub limited: Limited,
    /// How many of them a second are admitted.
    pub per_second: u32,
    /// When the next one is.
    pub wait: Duration,
}

impl LimitExceeded {
    /// The limit, and for tokens the remedy.
    #[must_use]
    pub fn text(&self) -> Text {
        let max = self.per_second;
        let what = match self.limited {
            Limited::Exchanges => text!("exchanges"),
            Limited::Reads => text!("balances and queries"),
            Limited::Reports => text!("order reports"),
            Limited::Uploads => text!("uploads"),
            Limited::Tokens => {
                return text!(
                    "rate limit: expected at most {max} token requests a second of this app; keep the token: it lives for 48 hours",
                    max
                );
            }
            Limited::Logins => text!("logins"),
            Limited::Callbacks => text!("callbacks"),
        };
        text!(
            "rate limit: expected at most {max} {what} a second of this app; wait as Retry-After says",
            max,
            what
        )
    }
}

/// The limits, of which this instance has an equal share (contract 7.2.6).
#[derive(Debug)]
pub struct RateLimits {
    settings: config::Limits,
    states: Mutex<HashMap<(AppId, Limited), Gcra>>,
    /// How many instances share the limits.
    shares: AtomicU32,
    /// How many instances were counted last.
    counted: AtomicU32,
}

impl RateLimits {
    /// Nothing used yet.
    #[must_use]
    pub fn new(settings: config::Limits) -> Self {
        Self { settings, states: Mutex::default(), shares: AtomicU32::new(1), counted: AtomicU32::new(1) }
    }

    /// Shares the limits among as many instances as were counted (at least 1). A lower number must be counted
    /// twice in a row. After a fail-over of the database, the first instance to come back sees none of the others.
    pub fn share_among(&self, counted: u32) {
        let before = self.counted.swap(counted, Ordering::Relaxed);
        self.shares.store(before.max(counted), Ordering::Relaxed);
    }

    /// Forgets what was admitted.
    pub fn forget(&self) {
        self.states.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// How many instances share the limits.
    #[must_use]
    pub fn shares(&self) -> u32 {
        self.shares.load(Ordering::Relaxed)
    }

    /// Counts a request of an app.
    ///
    /// # Errors
    /// It is one too many.
    pub fn admit(&self, app: &App, limited: Limited, now: Duration) -> Result<(), LimitExceeded> {
        let (own, setting) = match limited {
            Limited::Exchanges | Limited::Callbacks => {
                (app.limits.exchanges_per_second, self.settings.exchanges_per_second)
            }
            Limited::Reads => (app.limits.reads_per_second, self.settings.reads_per_second),
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
        let state = states.entry((app.id.clone(), limited)).or_default();
        let exceeded = |wait| LimitExceeded { limited, per_second: per_second.get(), wait };
        state.admit(now, per_second.get(), self.shares()).map_err(exceeded)
    }
}
