//! `minitill archive` moves closed periods of the ledgers to files, and back.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use domain::ids::AppId;
use domain::moment;
use serde::Serialize;
use serde_json::json;
use store::{Archive, ArchiveProgress, Store};
use time::OffsetDateTime;

use super::Context;
use super::database::Opened;
use super::output::{complain_at_length, progress_bar};

/// The columns of a table of archives.
const COLUMNS: &str = "app_id archive_no rows file";
/// The folder in the data folder where archives are written by default.
const FOLDER: &str = "archives";

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub(super) struct ArchiveArguments {
    #[command(flatten)]
    write: WriteArguments,
    #[command(subcommand)]
    command: Option<ArchiveCommand>,
}

#[derive(Debug, Args)]
struct WriteArguments {
    /// Move the entries before this month or day, in UTC; at least 72 hours ago
    #[arg(long, value_name = "T", value_parser = moment::parse)]
    before: Option<OffsetDateTime>,
    /// Write the files into this folder [default: `archives` in the data folder]
    #[arg(long, value_name = "DIR", requires = "before")]
    to: Option<PathBuf>,
    /// Only entries of this app
    #[arg(long, value_name = "APP_ID", requires = "before")]
    app: Option<AppId>,
    /// Then return the space of the ledger to the disk; all exchanges wait meanwhile
    #[arg(long)]
    compact: bool,
}

#[derive(Debug, Subcommand)]
enum ArchiveCommand {
    /// List the archives
    List {
        /// Only of this app
        #[arg(long, value_name = "APP_ID")]
        app: Option<AppId>,
    },
    /// Check files of archives: checksums, hash chains and balances
    Verify {
        /// Files of archives
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Move the entries of a file back to the ledger; the file must be the newest archive of its app
    Restore {
        /// File of an archive
        file: PathBuf,
    },
}

impl ArchiveArguments {
    /// Whether exchanges must wait for the command.
    pub(super) fn stops_exchanges(&self) -> bool {
        self.write.compact
    }
}

pub(super) async fn run(context: &Context, opened: &Opened, arguments: ArchiveArguments) -> Result<()> {
    let store = &opened.store;
    match arguments.command {
        None => write(context, opened, arguments.write).await,
        Some(ArchiveCommand::List { app }) => {
            let archives = store.archives(app.as_ref()).await?;
            let columns = "app_id archive_no before rows state file";
            let text = match archives.as_slice() {
                [] => "Nothing is archived.".to_owned(),
                archives => table(context, columns, archives)?,
            };
            context.output.print(&json!({ "archives": archives }), text)
        }
        Some(ArchiveCommand::Verify { files }) => verify(context, store, files).await,
        Some(ArchiveCommand::Restore { file }) => {
            let archive = with_progress(async |progress| {
                store.restore_archive(&context.operator, &file, progress).await
            })
            .await?;
            let text = format!(
                "{} rows of {} are in the ledger again. The file is no longer needed.",
                archive.entries, archive.app_id
            );
            context.output.print(&archive, text)
        }
    }
}

async fn write(context: &Context, opened: &Opened, arguments: WriteArguments) -> Result<()> {
    let WriteArguments { before, to, app, compact } = arguments;
    let folder = to.unwrap_or_else(|| opened.folder.join(FOLDER));
    let mut archives: Vec<Archive> = Vec::new();
    if let Some(before) = before {
        for app_id in opened.store.archivable_apps(app.as_ref(), before).await? {
            let write = async |progress: &ArchiveProgress| {
                opened.store.archive(&context.operator, &app_id, before, &folder, progress).await
            };
            let written = with_progress(write).await;
            if written.is_err() && !archives.is_empty() {
                complain_at_length(&format!(
                    "written before the failure:\n{}",
                    table(context, COLUMNS, &archives)?
                ));
            }
            archives.extend(written?);
        }
    } else if !compact {
        bail!("--before is missing; an example is --before 2026-01");
    }
    if compact {
        opened.store.compact_ledger().await?;
    }
    let text = match (archives.as_slice(), compact) {
        ([], true) => "The space of the ledger is compact.".to_owned(),
        ([], false) => "No entry is that old.".to_owned(),
        (written, _) => {
            let table = table(context, COLUMNS, written)?;
            let space = if compact {
                ""
            } else {
                "\nNew entries use their space. To return it to the disk, run: minitill archive --compact"
            };
            format!("{table}\nKeep these files. A restore needs them.{space}")
        }
    };
    context.output.print(&json!({ "archives": archives, "compacted": compact }), text)
}

async fn verify(context: &Context, store: &Store, files: Vec<PathBuf>) -> Result<()> {
    let mut verified = Vec::new();
    for file in files {
        verified.push(store.verify_archive(&file).await?);
    }
    let text = format!("{}\nThese files are complete and correct.", table(context, COLUMNS, &verified)?);
    context.output.print(&json!({ "verified": verified }), text)
}

/// A table of archives. What the JSON calls entries is told as rows: orders of top-ups and closed numbers are among them,
/// and are no ledger entries.
fn table<Row: Serialize>(context: &Context, columns: &str, archives: &[Row]) -> serde_json::Result<String> {
    let mut rows = archives.iter().map(serde_json::to_value).collect::<Result<Vec<_>, _>>()?;
    for row in &mut rows {
        row["rows"] = row["entries"].take();
    }
    context.output.object_table(columns, &rows)
}

/// Runs a command that reports how many rows it has moved.
async fn with_progress<T, E: Into<anyhow::Error>>(
    command: impl AsyncFnOnce(&ArchiveProgress) -> Result<T, E>,
) -> Result<T> {
    let bar = progress_bar(0, "rows");
    let shown = bar.clone();
    let progress: ArchiveProgress = Box::new(move |moved, expected| {
        shown.set_length(expected);
        shown.set_position(moved);
    });
    let outcome = command(&progress).await;
    bar.finish_and_clear();
    outcome.map_err(Into::into)
}
