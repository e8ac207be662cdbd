//! The arguments of `minitill app ...`.

use clap::{Args, Subcommand, ValueEnum};
use domain::app::Category;
use domain::ids::{AppId, AppName, OrderNo, PackageVersion, PagePath, PoiId};

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum AppCommand {
    /// Create an app; its secrets are shown once
    Create(CreateArguments),
    /// Change what an app is like, within five seconds; what is left out stays as it is
    Change(ChangeArguments),
    /// List all apps
    List,
    /// Show one app
    Show {
        /// The app
        app_id: AppId,
    },
    /// Refuse every request of an app, within five seconds
    Suspend {
        /// The app
        app_id: AppId,
    },
    /// Let a suspended app go on
    Resume {
        /// The app
        app_id: AppId,
    },
    /// Make a new pay key, shown once; the one before it stays valid, the one before that is retired
    RotatePayKey {
        /// The app
        app_id: AppId,
    },
    /// Make a new app secret, shown once; the old one ends at once
    RotateSecret {
        /// The app
        app_id: AppId,
    },
    /// Publish a package: its pages are the legal order paths from now on
    Publish(PublishArguments),
    /// Give an app rate limits of its own; one left out takes the setting
    Limit(LimitArguments),
    /// Register points of interest
    #[command(subcommand)]
    Poi(PoiCommand),
    /// Register payment pre-orders
    #[command(subcommand)]
    Preorder(PreorderCommand),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct CreateArguments {
    /// Id of the new app: 1 to 64 of 0-9A-Za-z_-
    pub(super) app_id: AppId,
    /// Name, for people
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(super) name: AppName,
    /// What the app sells
    #[arg(long, value_enum, default_value = "general")]
    pub(super) category: CategoryArgument,
    /// Permission scope; may be repeated
    #[arg(long = "scope", value_name = "SCOPE", value_enum)]
    pub(super) scopes: Vec<Scope>,
    /// Tell the app why its signature does not match
    #[arg(long)]
    pub(super) sandbox: bool,
    /// Refuse reports of payments that were not registered as pre-orders
    #[arg(long)]
    pub(super) preorder_check: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ChangeArguments {
    /// The app
    pub(super) app_id: AppId,
    /// Name, for people
    #[arg(long)]
    pub(super) name: Option<AppName>,
    /// What the app sells
    #[arg(long, value_enum)]
    pub(super) category: Option<CategoryArgument>,
    /// Permission scopes, in the place of those it has; may be repeated
    #[arg(long = "scope", value_name = "SCOPE", value_enum)]
    pub(super) scopes: Vec<Scope>,
    /// Take all permission scopes away
    #[arg(long, conflicts_with = "scopes")]
    pub(super) no_scopes: bool,
    /// Tell the app why its signature does not match, or no longer
    #[arg(long, value_name = "true|false")]
    pub(super) sandbox: Option<bool>,
    /// Refuse reports of payments that were not registered as pre-orders, or no longer
    #[arg(long, value_name = "true|false")]
    pub(super) preorder_check: Option<bool>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(in crate::cli) enum CategoryArgument {
    General,
    LocalLife,
}

impl From<CategoryArgument> for Category {
    fn from(argument: CategoryArgument) -> Self {
        match argument {
            CategoryArgument::General => Self::General,
            CategoryArgument::LocalLife => Self::LocalLife,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(in crate::cli) enum Scope {
    /// Guaranteed payment: may report orders
    Epay,
}

/// Scopes as the store has them.
pub(super) fn scope_names(scopes: &[Scope]) -> Vec<String> {
    let names = scopes.iter().map(|scope| match scope {
        Scope::Epay => "epay".to_owned(),
    });
    names.collect()
}

#[derive(Debug, Args)]
pub(in crate::cli) struct PublishArguments {
    /// The app
    pub(super) app_id: AppId,
    /// Version of the package
    #[arg(long)]
    pub(super) version: PackageVersion,
    /// Path of a page; repeat it for each page
    #[arg(long = "path", required = true, value_parser = parse_page)]
    pub(super) paths: Vec<PagePath>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct LimitArguments {
    /// The app
    pub(super) app_id: AppId,
    /// Exchanges a second, 0 for no limit
    #[arg(long, value_name = "N")]
    pub(super) exchanges_per_second: Option<u32>,
    /// Order reports a second, 0 for no limit
    #[arg(long, value_name = "N")]
    pub(super) reports_per_second: Option<u32>,
    /// Image uploads a second, 0 for no limit
    #[arg(long, value_name = "N")]
    pub(super) uploads_per_second: Option<u32>,
    /// Token requests a second, 0 for no limit
    #[arg(long, value_name = "N")]
    pub(super) tokens_per_second: Option<u32>,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum PoiCommand {
    /// Register points of interest; known ones are fine
    Add {
        /// The app
        app_id: AppId,
        /// Their ids
        #[arg(required = true)]
        poi_ids: Vec<PoiId>,
    },
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum PreorderCommand {
    /// Register payment pre-orders; known ones are fine
    Add {
        /// The app
        app_id: AppId,
        /// Their numbers
        #[arg(required = true)]
        out_order_nos: Vec<OrderNo>,
    },
}

fn parse_page(text: &str) -> Result<PagePath, String> {
    PagePath::parse(text).map_err(|expected| format!("expected {}", expected.0))
}
