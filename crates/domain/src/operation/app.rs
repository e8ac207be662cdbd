//! Commands of operators to an app (contract 8.2): settings and limits, keys and tokens, what it offers, and who plays.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use super::Subject;
use crate::app::{AppSummary, TOKEN_LIFETIME};
use crate::app_settings::{AppChange, AppLimits, AppLimitsChange, AppSettings, ScopeSteps};
use crate::fields::{Expected, FieldError, Fields, parse_integer};
use crate::ids::{AppId, OpenId, OrderNo, PackageVersion, PagePath, PoiId, UnionId};
use crate::login::Player;
use crate::secret::Secret;
use crate::text;

/// The longest lifetime of a token that the admin API issues, in seconds: a year.
pub const TTL_SECONDS_MAX: i64 = 366 * 86_400;
/// The longest access token that is looked up, in bytes.
pub const TOKEN_BYTES_MAX: usize = 1024;

crate::word_enum! {
    /// A command to an app. The word is that of the operator log.
    pub enum AppAction {
        /// Make the app.
        Create = "app.create",
        /// Change its settings.
        Change = "app.change",
        /// Set its rate limits.
        Limit = "app.limit",
        /// Refuse its requests.
        Suspend = "app.suspend",
        /// Accept them again.
        Resume = "app.resume",
        /// Make a new pay key.
        RotatePayKey = "app.rotate_pay_key",
        /// Make a new app secret.
        RotateSecret = "app.rotate_secret",
        /// Publish a package.
        Publish = "app.publish",
        /// Register points of interest.
        AddPois = "app.poi.add",
        /// Register payment pre-orders.
        AddPreorders = "app.preorder.add",
        /// Register players.
        AddUsers = "user.add",
        /// Issue an access token.
        IssueToken = "token.issue",
        /// Revoke access tokens.
        RevokeTokens = "token.revoke",
        /// Issue a login code.
        IssueLoginCode = "login_code.issue",
    }
}

/// A command to an app, every part of it checked.
#[derive(Debug, Clone)]
pub enum AppCommand {
    /// Make the app.
    Create(AppSettings),
    /// Change its settings, then add and take away scopes.
    Change(AppChange, ScopeSteps),
    /// Change its rate limits.
    Limit(AppLimitsChange),
    /// Refuse its requests (`true`), or accept them again.
    Suspend(bool),
    /// Make a new pay key: while this generation is the newest, where one is given.
    RotatePayKey(Option<i32>),
    /// Make a new app secret: while this generation is the newest, where one is given.
    RotateSecret(Option<i32>),
    /// Publish a package.
    Publish(PackageVersion, Vec<PagePath>),
    /// Register points of interest.
    AddPois(Vec<PoiId>),
    /// Register payment pre-orders.
    AddPreorders(Vec<OrderNo>),
    /// Register players.
    AddUsers(Vec<OpenId>),
    /// Issue an access token with this lifetime.
    IssueToken(Duration),
    /// Revoke this access token, or all.
    RevokeTokens(Option<Secret>),
    /// Issue a code that logs this player in.
    IssueLoginCode(Player),
}

impl AppAction {
    /// The names of the fields that a command of this action has.
    #[must_use]
    pub fn fields(self) -> Vec<&'static str> {
        let names: &[&str] = match self {
            Self::Create => &AppSettings::NAMES,
            Self::Change => return [&AppSettings::NAMES[..], &ScopeSteps::NAMES].concat(),
            Self::Limit => &AppLimits::NAMES,
            Self::Suspend | Self::Resume => &["reason"],
            Self::RotatePayKey | Self::RotateSecret => &[],
            Self::Publish => &["version", "pages"],
            Self::AddPois => &["poi_ids"],
            Self::AddPreorders => &["out_order_nos"],
            Self::AddUsers => &["open_ids"],
            Self::IssueToken => &["ttl_seconds"],
            Self::RevokeTokens => &["access_token", "all"],
            Self::IssueLoginCode => &["open_id", "union_id"],
        };
        names.to_vec()
    }
}

impl AppCommand {
    /// Reads the fields of a command. A form carries in `seen` what its page showed of the keys, so
    /// that a page that is sent twice rotates once.
    ///
    /// # Errors
    /// The first field that is absent or not acceptable.
    pub fn read(action: AppAction, fields: &Fields) -> Result<Self, FieldError> {
        Ok(match action {
            AppAction::Create => Self::Create(AppSettings::default().changed(&AppChange::read(fields)?)),
            AppAction::Change => Self::Change(AppChange::read(fields)?, ScopeSteps::read(fields)?),
            AppAction::Limit => {
                let change = AppLimitsChange::read(fields)?;
                // A page may be older than a limit; any other caller names every limit that it keeps.
                let all = |change| AppLimits::default().changed(&change).into();
                Self::Limit(if fields.is_form() { change } else { all(change) })
            }
            AppAction::Suspend => Self::Suspend(true),
            AppAction::Resume => Self::Suspend(false),
            AppAction::RotatePayKey => Self::RotatePayKey(read_seen(fields)?),
            AppAction::RotateSecret => Self::RotateSecret(read_seen(fields)?),
            AppAction::Publish => Self::Publish(
                fields.required("version", PackageVersion::parse)?,
                fields.required_list("pages", PagePath::of_package)?,
            ),
            AppAction::AddPois => Self::AddPois(fields.required_list("poi_ids", PoiId::parse)?),
            AppAction::AddPreorders => {
                Self::AddPreorders(fields.required_list("out_order_nos", OrderNo::parse)?)
            }
            AppAction::AddUsers => Self::AddUsers(fields.required_list("open_ids", OpenId::of_new_player)?),
            AppAction::IssueToken => {
                let seconds = fields.number("ttl_seconds", parse_lifetime)?.after(None);
                Self::IssueToken(seconds.unwrap_or(TOKEN_LIFETIME))
            }
            AppAction::RevokeTokens => Self::RevokeTokens(read_revocation(fields)?),
            AppAction::IssueLoginCode => Self::IssueLoginCode(Player {
                open_id: fields.required("open_id", OpenId::of_new_player)?,
                union_id: fields.optional("union_id", UnionId::parse)?,
            }),
        })
    }
}

/// The newest key that the page of a form showed.
fn read_seen(fields: &Fields) -> Result<Option<i32>, FieldError> {
    fields.is_form().then(|| fields.required("seen", parse_generation)).transpose()
}

fn parse_generation(text: &str) -> Result<i32, Expected> {
    const EXPECTED: &str = "the number of a key";
    let generation = parse_integer(text, 0, i64::from(i32::MAX), EXPECTED)?;
    i32::try_from(generation).map_err(|_| Expected::new(EXPECTED))
}

/// Accepts a lifetime of a token within the limits of the admin API.
///
/// # Errors
/// It is shorter than a second or longer than 366 days.
pub fn check_lifetime(lifetime: Duration) -> Result<Duration, Expected> {
    let longest = Duration::from_secs(TTL_SECONDS_MAX.unsigned_abs());
    let fits = (Duration::from_secs(1)..=longest).contains(&lifetime);
    fits.then_some(lifetime).ok_or(Expected::new("a lifetime from 1s to 366d"))
}

fn parse_lifetime(text: &str) -> Result<Duration, Expected> {
    const EXPECTED: &str = "an integer from 1 to 31622400";
    let seconds = parse_integer(text, 1, TTL_SECONDS_MAX, EXPECTED)?;
    u64::try_from(seconds).map(Duration::from_secs).map_err(|_| Expected::new(EXPECTED))
}

fn read_revocation(fields: &Fields) -> Result<Option<Secret>, FieldError> {
    let token = fields.optional("access_token", |text| {
        let fits = (1..=TOKEN_BYTES_MAX).contains(&text.len()) && !text.contains('\0');
        if fits { Ok(Secret::new(text.trim().to_owned())) } else { Err(Expected::new("an access token")) }
    })?;
    match (token, fields.flag("all")?) {
        (Some(token), None) => Ok(Some(token)),
        (None, Some(true)) => Ok(None),
        (_, _) => Err(FieldError::malformed("access_token", "either access_token or \"all\": true", "")),
    }
}

/// Declares what commands report: one type for each, with the app's id, and [`AppReport`] of them all.
macro_rules! reports {
    ($($(#[$doc:meta])* $variant:ident($report:ident) { $($(#[$field_doc:meta])* $field:ident: $type:ty),+ })+) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Serialize, JsonSchema)]
            pub struct $report {
                /// The app.
                pub app_id: AppId,
                $($(#[$field_doc])* pub $field: $type,)+
            }

            impl TryFrom<AppReport> for $report {
                type Error = AppReport;

                fn try_from(report: AppReport) -> Result<Self, AppReport> {
                    if let AppReport::$variant(report) = report { Ok(report) } else { Err(report) }
                }
            }
        )+

        /// The result of a command, the same for command line, admin API and console.
        #[derive(Debug, Clone, Serialize)]
        #[serde(untagged)]
        pub enum AppReport {
            /// The app as it is now.
            App(Box<AppSummary>),
            $($(#[$doc])* $variant($report),)+
        }
    };
}

reports! {
    /// The secrets of a new app, shown once.
    Created(NewAppSecrets) {
        /// For token requests.
        app_secret: String,
        /// For signing exchanges.
        pay_key: String
    }
    /// The rate limits of an app that hold now.
    Limits(LimitsSet) {
        /// All of them.
        limits: AppLimits
    }
    /// Whether an app is suspended now.
    Suspension(Suspension) {
        /// Whether it is.
        suspended: bool
    }
    /// A new pay key, shown once.
    PayKey(NewPayKey) {
        /// The key.
        pay_key: String
    }
    /// A new app secret, shown once.
    AppSecret(NewAppSecret) {
        /// The secret.
        app_secret: String
    }
    /// The package that is published now.
    Package(PublishedPackage) {
        /// Its pages.
        pages: Vec<PagePath>,
        /// Its version.
        version: PackageVersion
    }
    /// Points of interest that are registered now.
    Pois(RegisteredPois) {
        /// Their ids.
        poi_ids: Vec<PoiId>
    }
    /// Payment pre-orders that are registered now.
    Preorders(RegisteredPreorders) {
        /// Their numbers.
        out_order_nos: Vec<OrderNo>
    }
    /// Players that are known now.
    Players(KnownPlayers) {
        /// Their ids.
        open_ids: Vec<OpenId>
    }
    /// An access token, shown once.
    Token(IssuedToken) {
        /// The token.
        #[schemars(regex(pattern = "^[0-9a-f]{64}$"))]
        access_token: String,
        /// When it expires.
        #[schemars(extend("format" = "date-time"))]
        expires_at: String
    }
    /// How many tokens were revoked.
    Revoked(RevokedTokens) {
        /// How many.
        revoked: u64
    }
    /// A code for one login, shown once.
    LoginCode(IssuedLoginCode) {
        /// The code.
        #[schemars(regex(pattern = "^[0-9a-f]{64}$"))]
        js_code: String,
        /// When it expires.
        #[schemars(extend("format" = "date-time"))]
        expires_at: String
    }
}

impl TryFrom<AppReport> for AppSummary {
    type Error = AppReport;

    fn try_from(report: AppReport) -> Result<Self, AppReport> {
        if let AppReport::App(app) = report { Ok(*app) } else { Err(report) }
    }
}

refusals! {
    /// There is an app with this id.
    app_taken(app_id): Conflict, text!("there is an app {app_id} already", app_id);
    /// The app has sold something, so it is no place for tests.
    no_longer_sandbox(app_id): Conflict,
        text!("the app {app_id} has exchanges, so it cannot become a sandbox; make another app for tests", app_id);
    /// The keys have changed since the form was shown: it was sent before, or somebody else changed them.
    keys_changed(app_id): Conflict,
        text!("the keys of the app {app_id} have changed since this form was shown", app_id);
    /// The app has no such token.
    unknown_token(app_id): Unknown(Subject::Token) of app_id,
        text!("there is no such token of the app {app_id}", app_id);
}
