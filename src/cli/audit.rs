//! `minitill audit` checks every wallet against its ledger.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use store::{AppTotals, AuditOptions, AuditReport, Store};

use super::output::{complain, rfc3339, table};
use super::{Context, Failure};

#[derive(Debug, Args)]
pub(super) struct AuditArguments {
    /// Check only what came after this checkpoint, and that the wallets and entries of the checkpoint remain
    #[arg(long, value_name = "FILE")]
    since: Option<PathBuf>,
    /// Write a signed checkpoint for the next audit, if nothing differs
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
}

pub(super) async fn run(
    context: &Context,
    store: &Store,
    arguments: AuditArguments,
) -> Result<ExitCode, Failure> {
    let AuditArguments { since, checkpoint } = arguments;
    // The bar appears only on a terminal.
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {human_pos}/{human_len} rows, {eta} left") {
        bar.set_style(style);
    }
    let shown = bar.clone();
    let progress = Box::new(move |read, expected| {
        shown.set_length(expected);
        shown.set_position(read);
    });
    let audited = store.audit(AuditOptions { since, checkpoint }, progress).await;
    bar.finish_and_clear();
    let report = audited.map_err(|error| Failure::new(error.to_string()))?;
    context.output.print(&report, || describe(&report))?;
    if let Some(reason) = &report.not_noted {
        complain(&format!(
            "the result of this audit was not stored, so the metrics do not have it: {reason}"
        ));
    }
    Ok(if report.clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn describe(report: &AuditReport) -> String {
    let since = report.since.map_or_else(String::new, |since| format!(" since {}", rfc3339(since)));
    let counts = format!(
        "{} wallets, {} ledger entries, {} exchanges, {} credits{since}",
        report.wallets, report.entries, report.exchanges, report.credits
    );
    let totals = totals(report);
    if report.clean {
        return format!("{totals}\nClean: {counts} checked, no differences.");
    }
    let rows = report.findings.iter().map(|finding| {
        let check = serde_json::to_value(finding.check).unwrap_or_default();
        vec![
            check.as_str().unwrap_or_default().to_owned(),
            finding.app_id.clone(),
            finding.subject.clone(),
            finding.detail.clone(),
        ]
    });
    format!(
        "{totals}\n{}\n{} differences in {counts}. The table has the first differences of each check.",
        table(&["check", "app_id", "open_id, biz_no or ref", "difference"], rows),
        report.differences
    )
}

/// Sums of credits, deductions and balances, for each app and in total.
fn totals(report: &AuditReport) -> String {
    let row = |name: &str, app: &AppTotals| {
        let sums = &app.sums;
        let currency = |name: &str, credited: i128, deducted: i128, balance: i128| {
            [name.to_owned(), credited.to_string(), deducted.to_string(), balance.to_string()]
        };
        let free = currency("gifted", sums.free_credited, sums.free_deducted, app.free_balance);
        let charge = currency("charged", sums.charge_credited, sums.charge_deducted, app.charge_balance);
        [free, charge].map(|cells| [&[name.to_owned(), app.wallets.to_string()], &cells[..]].concat())
    };
    let apps = report.apps.iter().flat_map(|(app_id, app)| row(app_id, app));
    let rows = apps.chain(row("total", &report.all));
    table(&["app_id", "wallets", "currency", "credited", "deducted", "balance"], rows)
}
