//! `minitill login-code issue`.

use anyhow::Result;
use clap::Subcommand;
use domain::ids::{AppId, OpenId, UnionId};
use domain::login::Player;
use domain::operation::app::AppCommand;
use store::Store;

use super::Context;
use super::app::carry_out;

#[derive(Debug, Subcommand)]
pub(super) enum LoginCodeCommand {
    /// Issue a code with which the app's server logs a player in: once, within five minutes
    Issue {
        /// Id of the app
        app_id: AppId,
        /// Open id of the player, who may be unknown yet
        #[arg(value_parser = OpenId::of_new_player)]
        open_id: OpenId,
        /// Id of the person across apps; the login answers it
        #[arg(long, value_name = "U")]
        union_id: Option<UnionId>,
    },
}

pub(super) async fn run(context: &Context, store: &Store, command: LoginCodeCommand) -> Result<()> {
    let LoginCodeCommand::Issue { app_id, open_id, union_id } = command;
    let command = AppCommand::IssueLoginCode(Player { open_id, union_id });
    carry_out(context, store, &app_id, command).await
}
