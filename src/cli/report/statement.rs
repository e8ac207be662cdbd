//! `minitill report statement` closes a day or a month (contract 13.3).

use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::Args;
use domain::ids::AppId;
use store::Store;

use super::super::{Context, not_done};
use super::{PeriodArguments, ZoneArguments};

#[derive(Debug, Args)]
pub(in super::super) struct StatementArguments {
    /// Id of the app
    app_id: AppId,
    #[command(flatten)]
    period: PeriodArguments,
    #[command(flatten)]
    zone: ZoneArguments,
}

pub(super) async fn run(context: &Context, store: &Store, arguments: StatementArguments) -> Result<ExitCode> {
    let StatementArguments { app_id, period, zone } = arguments;
    let period = period.period().ok_or_else(|| anyhow!("expected --day or --month"))?;
    let statement = store.period_statement(&app_id, period, &zone.time_zone).await.map_err(not_done)?;
    context.output.print(&statement, &statement.document)?;
    Ok(if statement.ties { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
