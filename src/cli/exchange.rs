//! `minitill exchange ...` finds and shows exchanges.

use anyhow::{Result, anyhow};
use clap::Subcommand;
use domain::ids::{AppId, BizNo};
use store::Store;

use super::Context;
use super::app::require_app_of;

#[derive(Debug, Subcommand)]
pub(super) enum ExchangeCommand {
    /// List the exchanges and credits that have a number, of one app or of all
    List {
        /// `biz_no` of an exchange, or ref of a credit
        number: String,
        /// Only of this app
        #[arg(long, value_name = "APP_ID")]
        app: Option<AppId>,
        /// List at most this many
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: u32,
    },
    /// Show an exchange: who paid how much for what, what a retry gets, and how the number was refused
    Show {
        /// Id of the app
        app_id: AppId,
        /// Number of the exchange
        biz_no: BizNo,
    },
}

pub(super) async fn run(context: &Context, store: &Store, command: ExchangeCommand) -> Result<()> {
    let (app_id, biz_no) = match command {
        ExchangeCommand::List { number, app, limit } => {
            let columns = "app_id kind reference open_id text free_change charge_change at";
            let found = store.find_reference(app.as_ref(), &number, limit).await?;
            require_app_of(store, &found, app.as_ref()).await?;
            return context.output.list(
                "exchanges",
                &found,
                columns,
                "No exchange and no credit has this number.",
            );
        }
        ExchangeCommand::Show { app_id, biz_no } => (app_id, biz_no),
    };
    let Some(number) = store.number(&app_id, &biz_no, true).await? else {
        // A top-up has no exchange, and its order was signed well.
        let of_topup = if store.placed_topup_order(&app_id, &biz_no).await?.is_some() {
            format!("; {biz_no} is an order of a top-up")
        } else {
            String::new()
        };
        return Err(anyhow!(
            "the app {app_id} has no exchange {biz_no}, and refused none in the last 30 days; a request without a \
             right signature leaves no trace but in the server log{of_topup}"
        ));
    };
    context.output.show(&number)
}
