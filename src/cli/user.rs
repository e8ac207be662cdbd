//! `minitill user add`.

use anyhow::Result;
use clap::Subcommand;
use domain::app_command::AppCommand;
use domain::ids::{AppId, OpenId};
use store::Store;

use super::Context;
use super::app::carry_out;

#[derive(Debug, Subcommand)]
pub(super) enum UserCommand {
    /// Register players, each with an empty wallet; it is safe to register one again
    Add {
        /// Id of the app
        app_id: AppId,
        /// Open ids of the players
        #[arg(required = true)]
        open_ids: Vec<OpenId>,
    },
}

pub(super) async fn run(context: &Context, store: &Store, command: UserCommand) -> Result<()> {
    let UserCommand::Add { app_id, open_ids } = command;
    carry_out(context, store, &app_id, AppCommand::AddUsers(open_ids)).await
}
