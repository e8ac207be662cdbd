//! `minitill exchange show`.

use anyhow::{Result, anyhow};
use clap::Subcommand;
use domain::ids::{AppId, BizNo};
use store::Store;

use super::Context;

#[derive(Debug, Subcommand)]
pub(super) enum ExchangeCommand {
    /// Show an exchange: who paid how much for what, and what a retry gets
    Show {
        /// Id of the app
        app_id: AppId,
        /// Number of the exchange
        biz_no: BizNo,
    },
}

pub(super) async fn run(context: &Context, store: &Store, command: ExchangeCommand) -> Result<()> {
    let ExchangeCommand::Show { app_id, biz_no } = command;
    let exchange = store.exchange(&app_id, &biz_no, true).await?;
    let none = || {
        anyhow!(
            "the app {app_id} has no exchange {biz_no}; a refused exchange stores nothing, see the server log"
        )
    };
    context.output.show(&exchange.ok_or_else(none)?)
}
