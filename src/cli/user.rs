//! `minitill user add`.

use clap::Subcommand;
use domain::ids::{AppId, OpenId};
use serde_json::json;
use store::Store;

use super::app::{known, texts};
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
    known(store.add_users(&context.operator, &app_id, &open_ids).await?, &app_id)?;
    context.output.print(&json!({ "app_id": app_id.as_str(), "open_ids": texts(&open_ids) }), || {
        format!("{app_id}: {} players are known", open_ids.len())
    })
}
