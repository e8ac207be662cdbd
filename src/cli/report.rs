//! `minitill report ...`: what an app has sold.

mod revenue;

use anyhow::Result;
use clap::Subcommand;
use store::Store;

use super::Context;

#[derive(Debug, Subcommand)]
pub(super) enum ReportCommand {
    /// Show what exchanges have taken and what cancels have given back, in sums
    Revenue(revenue::RevenueArguments),
}

pub(super) async fn run(context: &Context, store: &Store, command: ReportCommand) -> Result<()> {
    match command {
        ReportCommand::Revenue(arguments) => revenue::run(context, store, arguments).await,
    }
}
