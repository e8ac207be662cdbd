//! `minitill status`: whether the server answers, and what its database holds.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use super::Context;
use super::database::{self, SchemaSetup};
use super::output::{lines, members};
use super::running::{Addresses, ask};

/// Prints the addresses of the running server, else of the settings, the server's readiness, and facts of the
/// database. The exit code is 1 where the server is not ready or the database cannot be opened.
pub(super) async fn run(context: &Context) -> Result<ExitCode> {
    let config = &context.config;
    // The question is what answers now: nothing is waited for.
    let opened = database::open_for_command(context, SchemaSetup::IsThere, Duration::ZERO).await;
    let addresses = match &opened {
        Ok(opened) => Addresses::find(&opened.folder, config).await,
        Err(_) => Addresses::of(config),
    };
    let server = match ask(&format!("{}/readyz", addresses.operator)).await {
        Ok(answer) if answer.status().is_success() => "ready",
        Ok(_) => "not ready",
        Err(why) => why,
    };
    let mut shown = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "public": addresses.public,
        "operator": addresses.operator,
        "server": server,
        "database": if config.database.url.get().is_some() { "database.url" } else { "private" },
    });
    let mut is_fine = server == "ready";
    match opened {
        Ok(opened) => {
            shown["data_folder"] = json!(opened.folder);
            let status = opened.store.status().await;
            opened.close(private_postgres::STOP_WITHIN).await;
            if let (Some(shown), Ok(serde_json::Value::Object(status))) =
                (shown.as_object_mut(), serde_json::to_value(status?))
            {
                shown.extend(status);
            }
        }
        Err(error) => {
            is_fine = false;
            shown["database_error"] = json!(error.to_string());
        }
    }
    // Not each row of the ledger is an entry: closed numbers and orders of top-ups are among them.
    let for_people = members(&shown)?.into_iter().map(|(name, value)| match name.as_str() {
        "entries" => ("ledger_rows".to_owned(), value),
        _ => (name, value),
    });
    context.output.print(&shown, lines(&for_people.collect()))?;
    Ok(if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
