//! An app: a game or a mini-program whose servers call Minitill (contract 3 to 6), as the request path
//! and as operators see it.

use std::time::Duration;

use serde::Serialize;
use time::OffsetDateTime;

pub use crate::app_settings::{
    AppChange, AppLimits, AppLimitsChange, AppSettings, Category, Scope, ScopeSteps,
};

use crate::ids::{AppId, AppNo, PagePath};
use crate::key_uses::LiveKey;
use crate::secret::Secret;
use crate::signature::PayKey;

/// How long an access token is valid (contract 6.4.1).
pub const TOKEN_LIFETIME: Duration = Duration::from_hours(48);
/// How many pay keys of an app are valid, and how many app secrets (contract 8.2.2).
pub const LIVE_KEYS: usize = 2;

/// An app.
#[derive(Debug, Clone)]
pub struct App {
    /// Its id.
    pub id: AppId,
    /// Its number.
    pub no: AppNo,
    /// The value that the operator set.
    pub settings: AppSettings,
    /// Whether the operator has suspended it.
    pub suspended: bool,
    /// Its own limits.
    pub limits: AppLimits,
    /// Keys that sign its exchanges now, newest first.
    pub live_pay_keys: Vec<LiveKey<PayKey>>,
    /// Keys that rotations have retired.
    pub retired_pay_keys: Vec<PayKey>,
    /// Its secrets for token requests and logins, newest first.
    pub app_secrets: Vec<LiveKey<Secret>>,
    /// Pages of its latest published package.
    pub pages: Vec<String>,
}

impl App {
    /// An app of general goods with this id and the number 1, without scopes, keys, limits and pages.
    #[must_use]
    pub fn new(id: AppId) -> Self {
        Self {
            id,
            no: AppNo(1),
            settings: AppSettings::default(),
            suspended: false,
            limits: AppLimits::default(),
            live_pay_keys: Vec::new(),
            retired_pay_keys: Vec::new(),
            app_secrets: Vec::new(),
            pages: Vec::new(),
        }
    }

    /// Whether an order may have any path: that of a sandbox app which has published no package (contract 4.4.12).
    #[must_use]
    pub fn takes_any_path(&self) -> bool {
        self.settings.sandbox && self.pages.is_empty()
    }

    /// Whether an order path, with or without its query string, is a page of the latest package.
    #[must_use]
    pub fn publishes(&self, order_path: &str) -> bool {
        self.takes_any_path()
            || PagePath::parse(order_path)
                .is_ok_and(|path| self.pages.iter().any(|page| page == path.as_str()))
    }

    /// Whether the app holds a permission scope.
    #[must_use]
    pub fn holds(&self, scope: Scope) -> bool {
        self.settings.scopes.contains(&scope)
    }
}

/// An app as operators see it. It has no secret.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
#[schemars(rename = "App")]
pub struct AppSummary {
    /// Its id.
    pub app_id: AppId,
    /// The value that the operator set.
    #[serde(flatten)]
    pub settings: AppSettings,
    /// Whether it is suspended.
    pub suspended: bool,
    /// Its own limits.
    pub limits: AppLimits,
    /// Version of the latest published package.
    pub package_version: Option<String>,
    /// Pages of that package.
    pub pages: Vec<String>,
    /// When it was made.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub created_at: OffsetDateTime,
}
