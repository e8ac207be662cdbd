//! `minitill report ...` makes reports of an app (contract 13).

mod bill;
mod bill_text;
mod check;
mod close;
mod options;
mod revenue;
mod statement;
mod topups;
mod unused;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;
use store::Store;

pub(super) use self::bill::give;
pub(super) use self::bill_text::{number, told};
pub(super) use self::options::{FormatArguments, PeriodArguments, ReportFormat, to_out};
use super::Context;
use super::app::OneApp;

#[derive(Debug, Subcommand)]
pub(super) enum ReportCommand {
    /// Show the statement of a day or a month: opening and closing balances of all purses, and what came in and went out;
    /// exit code 1 if it does not tie to the ledger
    Statement(statement::StatementArguments),
    /// Close the books of a month: record the user, the time and the SHA-256 of its statement; a second close changes nothing
    Close(close::CloseArguments),
    /// List the months whose books were closed, and whether their statements would differ now
    Closed(OneApp),
    /// Write each ledger entry of a period, with the sums at the end; CSV unless another format is asked for
    Bill(bill::BillArguments),
    /// Show what exchanges have taken and what cancels have given back, in sums
    Revenue(revenue::RevenueArguments),
    /// Show the income from payments: money, fees, refunds and coins
    Topups(topups::TopupsArguments),
    /// Show the unused charged coins by the price of a coin
    Unused(unused::UnusedArguments),
    /// Compare the sums of which reports are made with the ledger; exit code 1 if anything differs
    Check(OneApp),
}

pub(super) async fn run(context: &Context, store: &Store, command: ReportCommand) -> Result<ExitCode> {
    match command {
        ReportCommand::Statement(arguments) => return statement::run(context, store, arguments).await,
        ReportCommand::Close(arguments) => close::close(context, store, arguments).await,
        ReportCommand::Closed(of) => close::list(context, store, of).await,
        ReportCommand::Bill(arguments) => bill::run(context, store, arguments).await,
        ReportCommand::Revenue(arguments) => revenue::run(context, store, arguments).await,
        ReportCommand::Topups(arguments) => topups::run(context, store, arguments).await,
        ReportCommand::Unused(arguments) => unused::run(context, store, arguments).await,
        ReportCommand::Check(of) => return check::run(context, store, of).await,
    }
    .map(|()| ExitCode::SUCCESS)
}
