//! An app: a game or a mini-program whose servers call Minitill (contract 3 to 6), with all that
//! deciding about its requests takes.

use std::time::Duration;

use serde::Serialize;

use crate::fields::Expected;
use crate::ids::{AppId, PagePath};
use crate::secret::Secret;
use crate::signature::PayKey;

/// How long an access token is valid (contract 6).
pub const TOKEN_LIFETIME: Duration = Duration::from_hours(48);

/// An app.
#[derive(Debug, Clone)]
pub struct App {
    /// Its id.
    pub id: AppId,
    /// General or local life.
    pub category: Category,
    /// Permission scopes it holds.
    pub scopes: Vec<String>,
    /// Whether its refusals explain why a signature does not match.
    pub sandbox: bool,
    /// Whether its reports must name a registered payment pre-order.
    pub preorder_check: bool,
    /// Whether the operator has suspended it.
    pub suspended: bool,
    /// Its own rate limits.
    pub limits: AppLimits,
    /// Keys that sign its exchanges now, newest first.
    pub live_pay_keys: Vec<PayKey>,
    /// Keys that rotations have retired.
    pub retired_pay_keys: Vec<PayKey>,
    /// Its secret for token requests.
    pub app_secret: Secret,
    /// Pages of its latest published package.
    pub pages: Vec<String>,
}

impl App {
    /// An app of general goods with this id, without scopes, keys, limits and pages.
    #[must_use]
    pub fn new(id: AppId) -> Self {
        Self {
            id,
            category: Category::General,
            scopes: Vec::new(),
            sandbox: false,
            preorder_check: false,
            suspended: false,
            limits: AppLimits::default(),
            live_pay_keys: Vec::new(),
            retired_pay_keys: Vec::new(),
            app_secret: Secret::default(),
            pages: Vec::new(),
        }
    }

    /// Whether an order path, with or without its query string, is a page of the latest package.
    #[must_use]
    pub fn publishes(&self, order_path: &str) -> bool {
        PagePath::parse(order_path).is_ok_and(|path| self.pages.iter().any(|page| page == path.as_str()))
    }

    /// Whether the app holds a permission scope.
    #[must_use]
    pub fn holds(&self, scope: &str) -> bool {
        self.scopes.iter().any(|held| held == scope)
    }
}

/// What an app sells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// Anything else.
    #[default]
    General,
    /// Local life: product id, catalog code and city are required in reports.
    LocalLife,
}

impl Category {
    /// The word in the database and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::General => "general",
            Self::LocalLife => "local_life",
        }
    }

    /// Reads the word.
    ///
    /// # Errors
    /// Any other word.
    pub fn parse(text: &str) -> Result<Self, Expected> {
        match text {
            "general" => Ok(Self::General),
            "local_life" => Ok(Self::LocalLife),
            _ => Err(Expected::new("general or local_life")),
        }
    }
}

/// An app's own limits in requests a second; `None` takes the setting, 0 is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct AppLimits {
    /// Exchanges.
    #[schemars(range(max = i32::MAX))]
    pub exchanges_per_second: Option<u32>,
    /// Order reports.
    #[schemars(range(max = i32::MAX))]
    pub reports_per_second: Option<u32>,
    /// Image uploads, both ways together.
    #[schemars(range(max = i32::MAX))]
    pub uploads_per_second: Option<u32>,
    /// Token requests.
    #[schemars(range(max = i32::MAX))]
    pub tokens_per_second: Option<u32>,
}
