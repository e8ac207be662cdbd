//! The arguments of `minitill app ...`.

use clap::{Args, Subcommand};
use domain::ids::{AppId, OrderNo, PackageVersion, PagePath, PoiId};

use super::settings::{ChangedSettings, LimitArguments, NewSettings};

#[derive(Debug, Args)]
pub(in crate::cli) struct OneApp {
    /// Id of the app
    pub(in crate::cli) app_id: AppId,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum AppArguments {
    /// Create an app and print its secrets, which are not shown again
    Create {
        /// Id of the new app: 1 to 64 of 0-9A-Za-z_-
        app_id: AppId,
        #[command(flatten)]
        settings: NewSettings,
    },
    /// Change settings of an app on every server within five seconds; settings that you leave out stay as they are
    Change {
        /// Id of the app
        app_id: AppId,
        #[command(flatten)]
        change: ChangedSettings,
    },
    /// List all apps
    List,
    /// Show one app
    Show(OneApp),
    /// Suspend an app: within five seconds every server refuses all its requests
    Suspend(OneApp),
    /// Resume a suspended app
    Resume(OneApp),
    /// Create a new pay key and print it once; the previous key stays valid, older keys are retired
    RotatePayKey(OneApp),
    /// Create a new app secret and print it once; the previous secret stays valid, older ones are retired
    RotateSecret(OneApp),
    /// Publish a package; from now on order reports may name its pages and no others
    Publish {
        /// Id of the app
        app_id: AppId,
        /// Version of the package
        #[arg(long)]
        version: PackageVersion,
        /// Path of a page; repeat this option for each page
        #[arg(long = "path", value_name = "PATH", required = true, value_parser = PagePath::of_package)]
        pages: Vec<PagePath>,
    },
    /// Set all limits of an app, of rates and of pictures; for a limit that you leave out, the server's setting applies
    Limit {
        /// Id of the app
        app_id: AppId,
        #[command(flatten)]
        limits: LimitArguments,
    },
    /// Register points of interest and list them
    #[command(subcommand)]
    Poi(PoiCommand),
    /// Register payment pre-orders and list them
    #[command(subcommand)]
    Preorder(PreorderCommand),
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum PoiCommand {
    /// Register points of interest; it is safe to register one again
    Add {
        /// Id of the app
        app_id: AppId,
        /// Ids of the points of interest
        #[arg(required = true)]
        poi_ids: Vec<PoiId>,
    },
    /// List the points of interest of an app, 1,000 at most
    List(OneApp),
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum PreorderCommand {
    /// Register payment pre-orders; it is safe to register one again
    Add {
        /// Id of the app
        app_id: AppId,
        /// Numbers of the pre-orders
        #[arg(required = true)]
        out_order_nos: Vec<OrderNo>,
    },
    /// List the payment pre-orders of an app, 1,000 at most
    List(OneApp),
}
