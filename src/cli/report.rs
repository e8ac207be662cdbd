//! `minitill report ...`: what an app has sold.

mod check;
mod revenue;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;
use store::Store;

use super::Context;

#[derive(Debug, Subcommand)]
pub(super) enum ReportCommand {
    /// Show what exchanges have taken and what cancels have given back, in sums
    Revenue(revenue::RevenueArguments),
    /// Compare the sums of which reports are made with the ledger; exit code 1 if anything differs
    Check(check::CheckArguments),
}

pub(super) async fn run(context: &Context, store: &Store, command: ReportCommand) -> Result<ExitCode> {
    match command {
        ReportCommand::Revenue(arguments) => revenue::run(context, store, arguments).await,
        ReportCommand::Check(arguments) => return check::run(context, store, arguments).await,
    }
    .map(|()| ExitCode::SUCCESS)
}
