//! `minitill report ...` makes reports of an app (contract 13).

mod bill;
mod check;
mod revenue;
mod statement;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use domain::period::{Period, TimeSpan, TimeZone};
use store::Store;

use super::Context;

#[derive(Debug, Subcommand)]
pub(super) enum ReportCommand {
    /// Close a day or a month: opening and closing balances of all purses, and what came in and went out;
    /// exit code 1 if it does not tie to the ledger
    Statement(statement::StatementArguments),
    /// Write each ledger entry of a day or a month as a line of CSV, with the sums at the end
    Bill(bill::BillArguments),
    /// Show what exchanges have taken and what cancels have given back, in sums
    Revenue(revenue::RevenueArguments),
    /// Compare the sums of which reports are made with the ledger; exit code 1 if anything differs
    Check(check::CheckArguments),
}

/// A day or a month.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct PeriodArguments {
    /// Of this day, such as 2026-10-31
    #[arg(long, value_name = "DAY", value_parser = parse_day)]
    day: Option<Period>,
    /// Of this month, such as 2026-10
    #[arg(long, value_name = "MONTH", value_parser = parse_month)]
    month: Option<Period>,
}

impl PeriodArguments {
    pub(super) fn period(&self) -> Option<Period> {
        self.day.or(self.month)
    }
}

/// The time zone in which a day or a month has its limits.
#[derive(Debug, Args)]
pub(super) struct ZoneArguments {
    /// Time zone of the day or month: an IANA name, such as Asia/Shanghai
    #[arg(long, value_name = "ZONE", default_value = "UTC", value_parser = parse_zone)]
    pub(super) time_zone: TimeZone,
}

impl ZoneArguments {
    pub(super) fn span(&self, period: Period) -> TimeSpan {
        period.span(&self.time_zone)
    }
}

pub(super) fn parse_day(text: &str) -> Result<Period, String> {
    Period::day(text).map_err(|expected| expected.to_string())
}

pub(super) fn parse_month(text: &str) -> Result<Period, String> {
    Period::month(text).map_err(|expected| expected.to_string())
}

pub(super) fn parse_zone(text: &str) -> Result<TimeZone, String> {
    TimeZone::parse(text).map_err(|expected| expected.to_string())
}

pub(super) async fn run(context: &Context, store: &Store, command: ReportCommand) -> Result<ExitCode> {
    match command {
        ReportCommand::Statement(arguments) => statement::run(context, store, arguments).await,
        ReportCommand::Bill(arguments) => {
            bill::run(context, store, arguments).await.map(|()| ExitCode::SUCCESS)
        }
        ReportCommand::Revenue(arguments) => {
            revenue::run(context, store, arguments).await.map(|()| ExitCode::SUCCESS)
        }
        ReportCommand::Check(arguments) => check::run(context, store, arguments).await,
    }
}
