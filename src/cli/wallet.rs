//! `minitill wallet ...` credits wallets and shows them.

mod import;

use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::{Args, Subcommand};
use domain::ids::{AppId, BizNo, CreditRef, OpenId, Reason};
use domain::moment;
use domain::moment::{plain, rfc3339};
use domain::operation::freeze::FreezeCommand;
use domain::operation::wallet::{
    Credit, Debit, GiveBack, WalletCommand, check_registered, credit_amount, unknown_player,
};
use domain::period::TimeZone;
use domain::wallet::{Amount, check_credit};
use futures_util::{Stream, TryStreamExt as _};
use store::{
    ArchivedPart, BillSums, LedgerFilter, LedgerRow, STATEMENT_HEADING, Store, StoreError, statement_line,
};
use time::OffsetDateTime;

use super::new_file::NewFile;
use super::output::{complain, ignore_gone_reader, terminal_width};
use super::report::{FormatArguments, PeriodArguments, ReportFormat, give, to_out, told};
use super::table::tab_separated;
use super::{Context, not_done, refused};

#[derive(Debug, Subcommand)]
pub(super) enum WalletArguments {
    /// Credit a player's wallet once for each ref
    Credit {
        /// App of the wallet
        app_id: AppId,
        /// Player of the wallet
        open_id: OpenId,
        /// Gifted currency to add
        #[arg(long, default_value_t = 0, value_parser = credit_amount)]
        free: i64,
        /// Charged currency to add
        #[arg(long, default_value_t = 0, value_parser = credit_amount)]
        charge: i64,
        /// Your reference; one reference is credited only once
        #[arg(long = "ref", value_name = "REF")]
        reference: CreditRef,
        /// Note for people, for example the reason
        #[arg(long, default_value = "", hide_default_value = true)]
        note: String,
        #[command(flatten)]
        unknown: UnknownPlayers,
    },
    /// Take from a player's wallet once for each ref, never below zero
    Debit {
        /// App of the wallet
        app_id: AppId,
        /// Player of the wallet
        open_id: OpenId,
        /// Gifted currency to take
        #[arg(long, default_value_t = 0, value_parser = credit_amount)]
        free: i64,
        /// Charged currency to take
        #[arg(long, default_value_t = 0, value_parser = credit_amount)]
        charge: i64,
        /// Your reference; credits, debits and cancels share the references of an app
        #[arg(long = "ref", value_name = "REF")]
        reference: CreditRef,
        /// Note for people, for example the reason
        #[arg(long, default_value = "", hide_default_value = true)]
        note: String,
    },
    /// Give back an exchange or a part of it, once for each ref
    Cancel {
        /// App of the exchange
        app_id: AppId,
        /// Order number of the exchange
        biz_no: BizNo,
        /// How much to give back; what was taken last is given back first
        #[arg(long, value_parser = Amount::parse)]
        amount: Amount,
        /// Your reference; credits, debits and cancels share the references of an app
        #[arg(long = "ref", value_name = "REF")]
        reference: CreditRef,
        /// Note for people, for example the reason
        #[arg(long, default_value = "", hide_default_value = true)]
        note: String,
    },
    /// Credit many wallets from a CSV file; it is safe to run the same import again
    Import(import::ImportArguments),
    /// Freeze a player's wallet: within a second every server refuses what a game asks of its purses
    Freeze {
        /// App of the wallet
        app_id: AppId,
        /// Player of the wallet
        open_id: OpenId,
        /// Reason, for the operator's log; the game never sees it
        #[arg(long)]
        reason: Reason,
        /// Time when the freeze ends by itself, such as 2026-11-21T08:00; without it `wallet thaw` ends it
        #[arg(long, value_name = "TIME", value_parser = moment::parse)]
        until: Option<OffsetDateTime>,
    },
    /// End the freeze of a player's wallet
    Thaw {
        /// App of the wallet
        app_id: AppId,
        /// Player of the wallet
        open_id: OpenId,
        /// Reason, for the operator's log
        #[arg(long)]
        reason: Option<Reason>,
    },
    /// Show both balances of a wallet
    Show {
        /// App of the wallet
        app_id: AppId,
        /// Player of the wallet
        open_id: OpenId,
    },
    /// Print the ledger of a wallet, oldest entry first
    Statement {
        /// App of the wallet
        app_id: AppId,
        /// Player of the wallet
        open_id: OpenId,
        #[command(flatten)]
        period: PeriodArguments,
        #[command(flatten)]
        format: FormatArguments,
    },
}

#[derive(Debug, Args)]
pub(super) struct UnknownPlayers {
    /// Register a player whom the app does not know yet; without it such a credit is refused
    #[arg(long)]
    create: bool,
}

pub(super) async fn run(context: &Context, store: &Store, arguments: WalletArguments) -> Result<ExitCode> {
    match arguments {
        WalletArguments::Credit { app_id, open_id, free, charge, reference, note, unknown } => {
            check_coins(free, charge)?;
            check_registered(&open_id, unknown.create).map_err(|fault| anyhow!("{fault}"))?;
            let credit = Credit { open_id, free, charge, reference, note, create: unknown.create };
            change(context, store, &app_id, credit).await
        }
        WalletArguments::Debit { app_id, open_id, free, charge, reference, note } => {
            check_coins(free, charge)?;
            change(context, store, &app_id, Debit { open_id, free, charge, reference, note }).await
        }
        WalletArguments::Cancel { app_id, biz_no, amount, reference, note } => {
            change(context, store, &app_id, GiveBack { biz_no, amount, reference, note }).await
        }
        WalletArguments::Import(import) => return import::run(context, store, &import).await,
        WalletArguments::Freeze { app_id, open_id, reason, until } => {
            let command = FreezeCommand::Freeze { reason, until };
            set_freeze(context, store, (&app_id, &open_id), command).await
        }
        WalletArguments::Thaw { app_id, open_id, reason } => {
            set_freeze(context, store, (&app_id, &open_id), FreezeCommand::Thaw { reason }).await
        }
        WalletArguments::Show { app_id, open_id } => {
            let wallet = store.wallet(&app_id, &open_id).await?;
            context.output.show(&wallet.ok_or_else(|| unknown_wallet(&app_id, &open_id))?)
        }
        WalletArguments::Statement { app_id, open_id, period, format } => {
            if !store.is_known(&app_id, &open_id).await? {
                return Err(unknown_wallet(&app_id, &open_id));
            }
            if let Some(ArchivedPart { entries, file, .. }) = store.archived_part(&app_id, &open_id).await? {
                complain(&format!(
                    "the ledger up to entry {entries} is archived, so it is not in this statement; \
                     the newest file is {file}"
                ));
            }
            statement(context, store, (&app_id, &open_id), (&period, &format)).await
        }
    }
    .map(|()| ExitCode::SUCCESS)
}

/// The app does not know the player.
pub(super) fn unknown_wallet(app_id: &AppId, open_id: &OpenId) -> anyhow::Error {
    refused(unknown_player(app_id, open_id))
}

fn check_coins(free: i64, charge: i64) -> Result<()> {
    check_credit(free, charge).map_err(|expected| anyhow!("--free and --charge: {expected}, got 0 and 0"))
}

/// Changes a wallet, and prints what was done.
async fn change(
    context: &Context,
    store: &Store,
    app_id: &AppId,
    command: impl Into<WalletCommand>,
) -> Result<()> {
    let report = store.change_wallet(&context.operator, app_id, command).await.map_err(not_done)?;
    context.output.show(&report)
}

/// Freezes a wallet or thaws it, and prints how it is now.
async fn set_freeze(
    context: &Context,
    store: &Store,
    (app_id, open_id): (&AppId, &OpenId),
    command: FreezeCommand,
) -> Result<()> {
    let report = store.freeze_wallet(&context.operator, app_id, open_id, command).await.map_err(not_done)?;
    let text = match (report.frozen, &report.until) {
        (false, _) => format!("The wallet of {open_id} is not frozen."),
        (true, None) => format!("The wallet of {open_id} is frozen until `minitill wallet thaw` ends it."),
        (true, Some(until)) => format!("The wallet of {open_id} is frozen until {until}."),
    };
    context.output.print(&report, text)
}

/// Writes the ledger of a wallet.
async fn statement(
    context: &Context,
    store: &Store,
    (app_id, open_id): (&AppId, &OpenId),
    (period, format): (&PeriodArguments, &FormatArguments),
) -> Result<()> {
    let [since, until] = period.ends()?;
    let filter = LedgerFilter { since, until, ..LedgerFilter::default() };
    let asked = format.format(context, ReportFormat::Table)?;
    if asked == ReportFormat::Xlsx {
        let make = || async {
            store.wallet_workbook(app_id, open_id, filter, period.style()).await.map_err(not_done)
        };
        return give(context, format, make).await;
    }
    let entries = store.statement(app_id, open_id, filter);
    let file = format.out.as_deref().map(NewFile::create).transpose()?;
    let out = io::BufWriter::new(to_out(file.as_ref())?);
    let written =
        write_statement(Box::pin(entries), (app_id, open_id), (asked, &period.time_zone), out).await?;
    let Some(file) = file else { return ignore_gone_reader(written.map(|_| ())) };
    let sums = written.map_err(|error| file.failed(&error))?;
    file.finish()?;
    let (object, words) = told(format.out.as_deref().unwrap_or(Path::new("")), &sums);
    context.output.print(&object, words)
}

/// Writes the ledger entry by entry, so that a long ledger needs little memory. The outer error is that of the store, the
/// inner one that of `out`.
async fn write_statement(
    mut entries: impl Stream<Item = Result<LedgerRow, StoreError>> + Unpin,
    (app_id, open_id): (&AppId, &OpenId),
    (format, zone): (ReportFormat, &TimeZone),
    mut out: impl Write,
) -> Result<io::Result<BillSums>> {
    let is_terminal = terminal_width().is_some();
    let shown = if is_terminal { table_row } else { tab_row };
    let (heading, end) = match format {
        ReportFormat::Table if is_terminal => {
            let at = format!("AT ({})", zone.as_str());
            let [names @ .., _] = TABLE_HEADING.map(|name| name.replace('_', " ").to_uppercase());
            let [seq, kind, number, free_change, charge_change, free, charge] = &names;
            (shown([seq, kind, number, free_change, charge_change, free, charge, &at]), "")
        }
        ReportFormat::Table => (shown(TABLE_HEADING.each_ref().map(|name| name as &dyn Display)), ""),
        ReportFormat::Csv => (STATEMENT_HEADING.to_owned(), ""),
        ReportFormat::Json => (format!(r#"{{"app_id":"{app_id}","open_id":"{open_id}","entries":["#), "]}\n"),
        ReportFormat::Jsonl | ReportFormat::Xlsx => (String::new(), ""),
    };
    let mut sums = BillSums::default();
    let mut written = out.write_all(heading.as_bytes());
    let mut separator = "";
    while written.is_ok() {
        let Some(row) = entries.try_next().await? else { break };
        let entry = &row.line;
        let line = match format {
            ReportFormat::Table => shown([
                &entry.seq,
                &entry.kind,
                &entry.number(),
                &entry.free_change,
                &entry.charge_change,
                &entry.free_balance,
                &entry.charge_balance,
                &if is_terminal { plain(zone.clock(entry.at).assume_utc()) } else { rfc3339(entry.at) },
            ]),
            ReportFormat::Csv => statement_line(&row)?,
            ReportFormat::Json => format!("{separator}{}", serde_json::to_string(entry)?),
            ReportFormat::Jsonl | ReportFormat::Xlsx => serde_json::to_string(entry)? + "\n",
        };
        written = out.write_all(line.as_bytes());
        separator = ",";
        sums.entries += 1;
        sums.free_change += i128::from(entry.free_change);
        sums.charge_change += i128::from(entry.charge_change);
    }
    Ok(written.and_then(|()| out.write_all(end.as_bytes())).and_then(|()| out.flush()).map(|()| sums))
}

const TABLE_HEADING: [&str; 8] =
    ["seq", "kind", "biz_no or ref", "free_change", "charge_change", "free_balance", "charge_balance", "at"];

/// A line for programs, or its heading.
fn tab_row(cells: [&dyn Display; 8]) -> String {
    tab_separated(&cells.map(ToString::to_string)) + "\n"
}

/// A line of the table, or its heading.
fn table_row([seq, kind, number, free_change, charge_change, free, charge, at]: [&dyn Display; 8]) -> String {
    format!(
        "{seq:>6}  {kind:<8}  {number:<32}  {free_change:>+15}  {charge_change:>+15}  {free:>15}  {charge:>15}  {at}\n"
    )
}
