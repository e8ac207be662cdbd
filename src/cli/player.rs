//! `minitill player`: all that the till holds about a player as a zip (contract 13.6), and the erasure of a player (contract
//! 13.7).

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

use anyhow::{Error, Result, ensure};
use clap::Subcommand;
use domain::ids::{AppId, OpenId};
use serde_json::json;
use store::{ExportError, Store};
use zip::ZipWriter;

use super::new_file::NewFile;
use super::output::ignore_gone_reader;
use super::{Context, not_done};

#[derive(Debug, Subcommand)]
pub(super) enum PlayerCommand {
    /// Write all that the till holds about a player as a zip of JSON and CSV, for a request about personal data
    Export {
        /// Id of the app
        app_id: AppId,
        /// Open id of the player
        open_id: OpenId,
        /// Write to this new file instead of standard output; it appears when it is complete
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Erase a player, for a request about personal data: a pseudonym takes the place of the open id
    Erase {
        /// Id of the app
        app_id: AppId,
        /// Open id of the player
        open_id: OpenId,
    },
}

pub(super) async fn run(context: &Context, store: &Store, command: PlayerCommand) -> Result<()> {
    match command {
        PlayerCommand::Export { app_id, open_id, out } => export(context, store, app_id, open_id, out).await,
        PlayerCommand::Erase { app_id, open_id } => erase(context, store, &app_id, &open_id).await,
    }
}

async fn erase(context: &Context, store: &Store, app_id: &AppId, open_id: &OpenId) -> Result<()> {
    let erased = store.erase_player(&context.operator, app_id, open_id).await.map_err(not_done)?;
    let mut lines = vec![format!("The player is now {}.", erased.pseudonym)];
    let rows = erased.rows.iter().filter(|(_, count)| **count > 0);
    lines.extend(rows.map(|(kind, count)| format!("{kind:<17} {count}")));
    if !erased.archive_files.is_empty() {
        lines.push("These archives still have the player (docs/operators.md):".to_owned());
        lines.extend(erased.archive_files.iter().cloned());
    }
    if !erased.left.is_empty() {
        lines.push("The open id is left in:".to_owned());
        let left = erased.left.iter();
        lines.extend(left.map(|left| format!("{}: {} rows, {}", left.column, left.rows, left.why)));
    }
    context.output.print(&erased, lines.join("\n"))
}

async fn export(
    context: &Context,
    store: &Store,
    app_id: AppId,
    open_id: OpenId,
    out: Option<PathBuf>,
) -> Result<()> {
    let (is_json, operator) = (context.output.is_json, &context.operator);
    let Some(path) = out else {
        ensure!(!is_json, "the export is a zip: with --json, write it with --out FILE");
        ensure!(!io::stdout().is_terminal(), "the export is a zip: write it with --out FILE");
        // What compresses is large.
        let out = ZipWriter::new_stream(io::stdout());
        return match Box::pin(store.export_player(operator, &app_id, &open_id, out)).await {
            Err(ExportError::Output(error)) => ignore_gone_reader(Err(error)),
            Err(error) => Err(failed(error)),
            Ok(_) => Ok(()),
        };
    };
    let file = NewFile::create(&path)?;
    file.refuse_to_replace()?;
    let rows = Box::pin(store.export_player(operator, &app_id, &open_id, ZipWriter::new(&file.file))).await;
    let rows = rows.map_err(|error| match error {
        ExportError::Output(error) => file.failed(&error),
        other @ ExportError::Operation(_) => failed(other),
    })?;
    file.finish_without_replacing()?;
    let total: u64 = rows.values().sum();
    context.output.print(&json!({ "file": path, "rows": rows }), format!("{}: {total} rows", path.display()))
}

fn failed(error: ExportError) -> Error {
    match error {
        ExportError::Operation(error) => not_done(error),
        ExportError::Output(error) => error.into(),
    }
}
