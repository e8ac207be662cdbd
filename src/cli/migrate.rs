//! `minitill migrate` migrates the database to the schema of this program.

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::json;
use store::Engine;

use super::Context;
use super::database::Opened;

/// Arguments of `minitill migrate`.
#[derive(Debug, Args)]
pub(super) struct MigrateArguments {
    /// Place of the tables: all on one node, or the money distributed over nodes by app. By default it is distributed
    /// where the database has the extension citus
    #[arg(long, value_enum)]
    engine: Option<EngineArgument>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum EngineArgument {
    Postgres,
    Citus,
}

impl MigrateArguments {
    /// The engine, if one was named.
    pub(super) fn engine(&self) -> Option<Engine> {
        self.engine.map(|engine| match engine {
            EngineArgument::Postgres => Engine::Postgres,
            EngineArgument::Citus => Engine::Citus,
        })
    }
}

/// Reports the result: opening the store has already applied the migrations.
pub(super) async fn run(context: &Context, opened: &Opened) -> Result<()> {
    let pending = opened.store.pending_migrations().await?.unwrap_or_default();
    let distributed = &opened.distributed;
    let moved = if distributed.is_empty() {
        String::new()
    } else {
        format!("\nThese tables are distributed by Citus now: {}.", distributed.join(", "))
    };
    let text = format!("The database has the schema of this program.{moved}");
    context.output.print(&json!({ "pending": pending, "distributed": distributed }), &text)
}
