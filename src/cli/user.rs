//! `minitill user add`.

use clap::Subcommand;
use domain::app_command::AppCommand;
use domain::ids::{AppId, OpenId};
use store::Store;

use super::app::carry_out;
use super::{Context, Failure};

#[derive(Debug, Subcommand)]
pub(super) enum UserCommand {
    /// Make players known, each with an empty wallet; known ones are fine
    Add {
        /// The app
        app_id: AppId,
        /// Open ids of the players
        #[arg(required = true)]
        open_ids: Vec<OpenId>,
    },
}

pub(super) async fn run(context: &Context, store: &Store, command: UserCommand) -> Result<(), Failure> {
    let UserCommand::Add { app_id, open_ids } = command;
    carry_out(context, store, &app_id, AppCommand::AddUsers(open_ids)).await
}
