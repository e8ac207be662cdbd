//! The arguments of `minitill app ...`.

use clap::{Args, Subcommand};
use domain::ids::{AppId, OrderNo, PackageVersion, PagePath, PoiId};

use super::settings::{ChangedSettings, Limits, NewSettings};

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum AppArguments {
    /// Create an app; its secrets are shown once
    Create(CreateArguments),
    /// Change the settings of an app, within five seconds; a setting that is left out stays
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
    /// Resume a suspended app
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
    /// Set all rate limits of an app; one that is left out takes the setting of the server
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
    #[command(flatten)]
    pub(super) settings: NewSettings,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ChangeArguments {
    /// The app
    pub(super) app_id: AppId,
    #[command(flatten)]
    pub(super) change: ChangedSettings,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct PublishArguments {
    /// The app
    pub(super) app_id: AppId,
    /// Version of the package
    #[arg(long)]
    pub(super) version: PackageVersion,
    /// Path of a page; repeat it for each page
    #[arg(long = "path", value_name = "PATH", required = true, value_parser = parse_page)]
    pub(super) pages: Vec<PagePath>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct LimitArguments {
    /// The app
    pub(super) app_id: AppId,
    #[command(flatten)]
    pub(super) limits: Limits,
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
