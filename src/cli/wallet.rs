//! `minitill wallet ...` credits wallets and shows them.

mod import;

use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use domain::ids::{AppId, CreditRef, OpenId};
use futures_util::TryStreamExt as _;
use serde_json::json;
use store::{Credit, CreditOutcome, LedgerLine, Store};

use super::output::{ignore_gone_reader, lines, rfc3339};
use super::{Context, Failure};

#[derive(Debug, Subcommand)]
pub(super) enum WalletCommand {
    /// Credit a wallet once for each ref; if there is no such wallet, create it
    Credit(CreditArguments),
    /// Credit many wallets from a CSV file; it is safe to run the same import again
    Import {
        /// App of the wallet
        app_id: AppId,
        /// CSV file with the heading `open_id,free,charge,ref`
        file: PathBuf,
    },
    /// Show both balances of a wallet
    Show {
        /// App of the wallet
        app_id: AppId,
        /// Player of the wallet
        open_id: OpenId,
    },
    /// Print the whole ledger of a wallet, oldest entry first
    Statement {
        /// App of the wallet
        app_id: AppId,
        /// Player of the wallet
        open_id: OpenId,
        /// Output format
        #[arg(long, value_enum, default_value = "table")]
        format: StatementFormat,
    },
}

#[derive(Debug, Args)]
pub(super) struct CreditArguments {
    /// App of the wallet
    app_id: AppId,
    /// Player of the wallet
    open_id: OpenId,
    /// Gifted currency to add
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(i64).range(0..))]
    free: i64,
    /// Charged currency to add
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(i64).range(0..))]
    charge: i64,
    /// Your reference; one reference is credited only once
    #[arg(long = "ref", value_name = "REF")]
    reference: CreditRef,
    /// Note for people, for example the reason
    #[arg(long, default_value = "", hide_default_value = true)]
    note: String,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum StatementFormat {
    /// Table for people
    Table,
    /// Comma-separated values with a heading
    Csv,
    /// One JSON object per line
    Jsonl,
}

pub(super) async fn run(context: &Context, store: &Store, command: WalletCommand) -> Result<(), Failure> {
    match command {
        WalletCommand::Credit(arguments) => credit(context, store, arguments).await,
        WalletCommand::Import { app_id, file } => import::run(context, store, &app_id, &file).await,
        WalletCommand::Show { app_id, open_id } => {
            let wallet = store.wallet(&app_id, &open_id).await?;
            let wallet = wallet.ok_or_else(|| unknown_wallet(&app_id, &open_id))?;
            context.output.print(&wallet, || {
                lines(&[
                    ("app_id", wallet.app_id.clone()),
                    ("open_id", wallet.open_id.clone()),
                    ("free_balance", wallet.free_balance.to_string()),
                    ("charge_balance", wallet.charge_balance.to_string()),
                    ("entries", wallet.entries.to_string()),
                ])
            })
        }
        WalletCommand::Statement { app_id, open_id, format } => {
            if !store.is_known(&app_id, &open_id).await? {
                return Err(unknown_wallet(&app_id, &open_id));
            }
            let mut out = io::BufWriter::new(io::stdout().lock());
            if context.output.is_json() {
                statement_object(store, &app_id, &open_id, &mut out).await
            } else {
                statement(store, &app_id, &open_id, format, &mut out).await
            }
        }
    }
}

fn unknown_wallet(app_id: &AppId, open_id: &OpenId) -> Failure {
    Failure(format!("the app {app_id} has no player {open_id}"))
}

async fn credit(context: &Context, store: &Store, arguments: CreditArguments) -> Result<(), Failure> {
    let CreditArguments { app_id, open_id, free, charge, reference, note } = arguments;
    let reference_text = reference.to_string();
    let outcome =
        store.credit(&context.operator, &app_id, Credit { open_id, free, charge, reference, note }).await?;
    let (balances, replayed) = done(&outcome, &app_id, &reference_text)?;
    context.output.print(
        &json!({
            "ref": reference_text,
            "free_balance": balances.free(),
            "charge_balance": balances.charge(),
            "replayed": replayed,
        }),
        || {
            let note =
                if replayed { "yes: this ref was already credited, nothing was changed" } else { "no" };
            lines(&[
                ("ref", reference_text.clone()),
                ("free_balance", balances.free().to_string()),
                ("charge_balance", balances.charge().to_string()),
                ("replayed", note.to_owned()),
            ])
        },
    )
}

fn done(
    outcome: &CreditOutcome,
    app_id: &AppId,
    reference: &str,
) -> Result<(domain::exchange::Balances, bool), Failure> {
    match outcome {
        CreditOutcome::Done { balances, replayed } => Ok((*balances, *replayed)),
        CreditOutcome::RefConflict => {
            Err(Failure(format!("ref {reference} was used for another player or with other amounts")))
        }
        CreditOutcome::OutOfRange => {
            Err(Failure(format!("ref {reference}: a balance would be more than 9223372036854775807")))
        }
        CreditOutcome::UnknownApp => Err(Failure::unknown_app(app_id)),
    }
}

async fn statement(
    store: &Store,
    app_id: &AppId,
    open_id: &OpenId,
    format: StatementFormat,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let mut entries = Box::pin(store.statement(app_id, open_id));
    let heading = match format {
        StatementFormat::Table => format!(
            "{:>6}  {:<8}  {:<32}  {:>15}  {:>15}  {:>15}  {:>15}  {}\n",
            "seq",
            "kind",
            "biz_no or ref",
            "free_change",
            "charge_change",
            "free_balance",
            "charge_balance",
            "at"
        ),
        StatementFormat::Csv => LedgerLine::CSV_HEADING.to_owned(),
        StatementFormat::Jsonl => String::new(),
    };
    let mut written = out.write_all(heading.as_bytes());
    while written.is_ok() {
        let Some(entry) = entries.try_next().await? else { break };
        written = out.write_all(statement_line(&entry, format)?.as_bytes());
    }
    ignore_gone_reader(written.and_then(|()| out.flush()))
}

fn statement_line(entry: &LedgerLine, format: StatementFormat) -> Result<String, Failure> {
    Ok(match format {
        StatementFormat::Table => format!(
            "{:>6}  {:<8}  {:<32}  {:>+15}  {:>+15}  {:>15}  {:>15}  {}\n",
            entry.seq,
            entry.kind,
            entry.number(),
            entry.free_change,
            entry.charge_change,
            entry.free_balance,
            entry.charge_balance,
            rfc3339(entry.at)
        ),
        StatementFormat::Csv => entry.csv()?,
        StatementFormat::Jsonl => {
            format!("{}\n", serde_json::to_string(entry).map_err(|error| Failure(error.to_string()))?)
        }
    })
}

/// Writes one JSON object, entry by entry, so that a long ledger needs little memory.
async fn statement_object(
    store: &Store,
    app_id: &AppId,
    open_id: &OpenId,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let mut entries = Box::pin(store.statement(app_id, open_id));
    let mut written =
        out.write_all(format!(r#"{{"app_id":"{app_id}","open_id":"{open_id}","entries":["#).as_bytes());
    let mut separator = "";
    while written.is_ok() {
        let Some(entry) = entries.try_next().await? else { break };
        let json = serde_json::to_string(&entry).map_err(|error| Failure(error.to_string()))?;
        written = write!(out, "{separator}{json}");
        separator = ",";
    }
    ignore_gone_reader(written.and_then(|()| out.write_all(b"]}\n")).and_then(|()| out.flush()))
}
