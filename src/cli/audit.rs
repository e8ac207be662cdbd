//! `minitill audit` checks every wallet against its ledger.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use domain::audit::{KindSums, Sums};
use domain::ledger::ReferenceKind;
use domain::moment::rfc3339;
use store::{AppTotals, AuditOptions, AuditReport, Store};

use super::Context;
use super::output::{Output, complain, progress_bar};

#[derive(Debug, Args)]
pub(super) struct AuditArguments {
    /// Check only what came after this checkpoint, and that the wallets and entries of the checkpoint remain
    #[arg(long, value_name = "FILE")]
    since: Option<PathBuf>,
    /// Write a signed checkpoint for the next audit, if nothing differs
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
}

pub(super) async fn run(context: &Context, store: &Store, arguments: AuditArguments) -> Result<ExitCode> {
    let AuditArguments { since, checkpoint } = arguments;
    let bar = progress_bar(0, "rows");
    let shown = bar.clone();
    let progress = Box::new(move |read, expected| {
        shown.set_length(expected);
        shown.set_position(read);
    });
    let audited = store.audit(AuditOptions { since, checkpoint }, progress).await;
    bar.finish_and_clear();
    let report = audited?;
    context.output.print(&report, describe(&context.output, &report)?)?;
    if let Some(reason) = &report.not_noted {
        complain(&format!(
            "the result of this audit was not stored, so the metrics do not have it: {reason}"
        ));
    }
    Ok(if report.clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn describe(output: &Output, report: &AuditReport) -> Result<String> {
    let since = report.since.map_or_else(String::new, |since| format!(" since {}", rfc3339(since)));
    let counts = format!(
        "{} wallets, {} ledger entries ({}), {} operator log lines{since}",
        report.wallets,
        report.entries,
        kinds(&report.all.changes),
        report.operator_log_lines
    );
    let archived = match report.archived_entries {
        0 => String::new(),
        archived => format!(" The sums of {archived} archived entries are right, too."),
    };
    let totals = totals(output, report);
    if report.clean {
        return Ok(format!("{totals}\nClean: {counts} checked, no differences.{archived}"));
    }
    let findings = output.object_table("check app_id subject detail", &report.findings)?;
    Ok(format!(
        "{totals}\n{findings}\n{} differences in {counts}. The table has the first differences of each check.",
        report.differences
    ))
}

/// The number of entries of each kind: `3 exchange, 2 credit`.
fn kinds(changes: &Sums) -> String {
    let kinds = changes.kinds().map(|(kind, sums)| format!("{} {kind}", sums.entries));
    let kinds = kinds.collect::<Vec<_>>().join(", ");
    if kinds.is_empty() { "none".to_owned() } else { kinds }
}

/// The changes of each kind and the balances, for each app and in total.
fn totals(output: &Output, report: &AuditReport) -> String {
    let kinds: Vec<ReferenceKind> = report.all.changes.kinds().map(|(kind, _)| kind).collect();
    let row = |name: &str, app: &AppTotals| {
        let currency = |currency: &str, change: fn(KindSums) -> i128, balance: i128| {
            let changes = kinds.iter().map(|kind| change(app.changes.of(*kind)).to_string());
            let start = [name.to_owned(), app.wallets.to_string(), currency.to_owned()];
            start.into_iter().chain(changes).chain([balance.to_string()]).collect::<Vec<_>>()
        };
        let free = currency("gifted", |sums| sums.free_change, app.free_balance);
        let charge = currency("charged", |sums| sums.charge_change, app.charge_balance);
        [free, charge]
    };
    let apps = report.apps.iter().flat_map(|(app_id, app)| row(app_id, app));
    let rows = apps.chain(row("total", &report.all));
    let heads = kinds.iter().map(|kind| kind.as_str());
    let heads: Vec<&str> =
        ["app_id", "wallets", "currency"].into_iter().chain(heads).chain(["balance"]).collect();
    output.table(&heads, rows)
}
