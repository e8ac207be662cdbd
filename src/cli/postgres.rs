//! `minitill postgres upgrade` brings the private PostgreSQL to a newer major version (contract 9.1.9).

use std::path::PathBuf;

use anyhow::{Result, anyhow, ensure};
use clap::Subcommand;
use private_postgres::{ClusterError, ProcessRole};
use serde_json::json;

use super::{Context, database};

#[derive(Debug, Subcommand)]
pub(super) enum PostgresCommand {
    /// Bring the data to the newest PostgreSQL on this machine, or to that whose folder `PG_BIN` names
    ///
    /// The server must be stopped. The disk needs room for a copy of the data. The old data stays in the
    /// data folder until you remove it.
    Upgrade {
        /// The folder of the programs of the version that the data has now [default: where packages keep them]
        #[arg(long, value_name = "DIR")]
        old_bin: Option<PathBuf>,
    },
}

/// Carries out a command.
pub(super) async fn run(context: &Context, command: PostgresCommand) -> Result<()> {
    let PostgresCommand::Upgrade { old_bin } = command;
    let database = &context.config.database;
    ensure!(
        database.url.get().is_none(),
        "`minitill postgres upgrade` is for the private PostgreSQL, and database.url names another one: upgrade \
         that as its documentation describes"
    );
    let old_bin = old_bin.map(std::path::absolute).transpose()?;
    let options = database::cluster_options(database.data_dir.clone(), ProcessRole::Command);
    let upgrading =
        tokio::task::spawn_blocking(move || private_postgres::upgrade(&options, old_bin.as_deref()));
    let upgraded = upgrading.await.map_err(|fault| anyhow!("upgrading the private PostgreSQL: {fault}"))?;
    let upgraded = upgraded.map_err(|error| match error {
        // Another data folder is no way out here.
        ClusterError::ServerRuns { .. } => error.into(),
        error => database::explain(&error),
    })?;
    let (from, to) = (upgraded.from, upgraded.to);
    let text = match &upgraded.kept {
        None => format!("The data has PostgreSQL {to} already. Nothing was changed."),
        Some(kept) => format!(
            "The data has PostgreSQL {to} now. Run `minitill audit`, and then remove the data of PostgreSQL {from}: {}",
            kept.display()
        ),
    };
    context.output.print(&json!({ "from": from, "to": to, "kept": upgraded.kept }), text)
}
