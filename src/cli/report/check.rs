//! `minitill report check` compares the sums that reports are made of with the ledger (contract 13.2.8).

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use domain::ids::AppId;
use store::Store;

use crate::cli::output::{lines, members};
use crate::cli::{Context, not_done};

#[derive(Debug, Args)]
pub(in crate::cli) struct CheckArguments {
    /// Id of the app
    app_id: AppId,
}

/// The exit code is 1 when a sum differs.
pub(super) async fn run(context: &Context, store: &Store, arguments: CheckArguments) -> Result<ExitCode> {
    let CheckArguments { app_id } = arguments;
    let check = store.check_roll_up(&app_id).await.map_err(not_done)?;
    let mut shown = members(&check)?;
    shown.shift_remove("differs");
    let mut text = lines(&shown);
    if !check.ties {
        let columns = ["hour", "product_name", "zone", "os", "count", "net"];
        text = format!(
            "{text}\n\nToo much in the sums:\n{}",
            context.output.object_table(&columns, &check.differs)?
        );
    }
    context.output.print(&check, text)?;
    Ok(if check.ties { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
