//! `minitill report check` compares the sums that reports are made of with the ledger (contract 13.2.8).

use std::process::ExitCode;

use anyhow::Result;
use store::Store;

use crate::cli::app::OneApp;
use crate::cli::output::{lines, members};
use crate::cli::{Context, not_done};

/// The exit code is 1 when a sum differs.
pub(super) async fn run(context: &Context, store: &Store, OneApp { app_id }: OneApp) -> Result<ExitCode> {
    let check = store.check_roll_up(&app_id).await.map_err(not_done)?;
    let mut shown = members(&check)?;
    shown.shift_remove("differs");
    let mut text = lines(&shown);
    if !check.ties {
        let columns = "hour product_name zone os count net";
        text = format!(
            "{text}\n\nToo much in the sums:\n{}",
            context.output.object_table(columns, &check.differs)?
        );
    }
    context.output.print(&check, text)?;
    Ok(if check.ties { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
