//! `minitill user ...` registers players and shows them.

use anyhow::Result;
use clap::Subcommand;
use domain::ids::{AppId, OpenId};
use domain::operation::app::AppCommand;
use store::{PlayerFilter, Store};

use super::Context;
use super::app::{carry_out, require_app};
use super::wallet::unknown_wallet;

#[derive(Debug, Subcommand)]
pub(super) enum AppUserCommand {
    /// Register players, each with an empty wallet; it is safe to register one again
    Add {
        /// Id of the app
        app_id: AppId,
        /// Open ids of the players
        #[arg(required = true, value_parser = OpenId::of_new_player)]
        open_ids: Vec<OpenId>,
    },
    /// List players with both balances, in the order of their open ids
    List {
        /// Id of the app
        app_id: AppId,
        /// Only players whose open id begins with this text
        #[arg(long, value_name = "TEXT")]
        begins: Option<OpenId>,
        /// List at most this many players
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: u32,
    },
    /// Show a player with both balances
    Show {
        /// Id of the app
        app_id: AppId,
        /// Open id of the player
        open_id: OpenId,
    },
}

pub(super) async fn run(context: &Context, store: &Store, command: AppUserCommand) -> Result<()> {
    match command {
        AppUserCommand::Add { app_id, open_ids } => {
            carry_out(context, store, &app_id, AppCommand::AddUsers(open_ids)).await
        }
        AppUserCommand::List { app_id, begins, limit } => {
            require_app(store, &app_id).await?;
            let filter = PlayerFilter { app_id: Some(app_id), open_id: begins, ..PlayerFilter::default() };
            let players = store.find_players(&filter, None, limit).await?.items;
            let columns = "open_id free_balance charge_balance entries";
            context.output.list("users", &players, columns, "No player matches.")
        }
        AppUserCommand::Show { app_id, open_id } => {
            let wallet = store.wallet(&app_id, &open_id).await?;
            context.output.show(&wallet.ok_or_else(|| unknown_wallet(&app_id, &open_id))?)
        }
    }
}
