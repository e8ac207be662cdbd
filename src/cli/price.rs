//! `minitill price ...` sets and shows the prices of top-ups (contract 19.1).

use std::path::PathBuf;

use anyhow::{Result, anyhow, bail};
use clap::Subcommand;
use domain::ids::AppId;
use domain::operation::topup::SetPrices;
use store::{Store, prices_of_csv};

use super::output::complain;
use super::{Context, not_done};

#[derive(Debug, Subcommand)]
pub(super) enum PriceCommand {
    /// Replace the prices of an app by those of a CSV file; a wrong file changes nothing
    Set {
        /// App of the prices
        app_id: AppId,
        /// CSV file with the heading `product_id,currency,amount,charge,bonus,name,active`
        file: PathBuf,
    },
    /// List the prices of an app
    List {
        /// App of the prices
        app_id: AppId,
    },
}

pub(super) async fn run(context: &Context, store: &Store, command: PriceCommand) -> Result<()> {
    match command {
        PriceCommand::Set { app_id, file } => {
            let bytes = std::fs::read(&file).map_err(|error| anyhow!("{}: {error}", file.display()))?;
            let prices = match prices_of_csv(&bytes) {
                Ok(prices) => prices,
                Err(wrong) => {
                    for fault in &wrong.named {
                        complain(&format!("{}: {fault}", file.display(), fault = fault.english()));
                    }
                    let more = wrong.count - wrong.named.len();
                    if more > 0 {
                        complain(&format!("{}: {more} more faults are not named", file.display()));
                    }
                    bail!("{}: nothing was changed", file.display());
                }
            };
            let command = SetPrices { prices };
            let list = store.set_prices(&context.operator, &app_id, command).await.map_err(not_done)?;
            let count = list.prices.len();
            let noun = if count == 1 { "product" } else { "products" };
            let text = format!("Version {} of the prices has {count} {noun}.", list.version);
            context.output.print(&list, text)
        }
        PriceCommand::List { app_id } => {
            let list = store.prices(&app_id).await.map_err(not_done)?;
            let columns = "product_id currency amount charge bonus name active";
            context.output.list("prices", &list.prices, columns, "The app has no prices.")
        }
    }
}
