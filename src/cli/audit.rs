//! `minitill audit`.

use std::process::ExitCode;

use super::output::table;
use super::{Context, Failure};
use crate::store::{AuditReport, Store};

pub(super) async fn run(context: &Context, store: &Store) -> Result<ExitCode, Failure> {
    let report = store.audit().await?;
    context.output.print(&report, || describe(&report))?;
    Ok(if report.clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn describe(report: &AuditReport) -> String {
    let counts = format!(
        "{} wallets, {} ledger entries, {} exchanges",
        report.wallets, report.entries, report.exchanges
    );
    if report.clean {
        return format!("Clean: {counts} checked, nothing differs.");
    }
    let rows = report.findings.iter().map(|finding| {
        vec![
            finding.check.to_owned(),
            finding.app_id.clone(),
            finding.subject.clone(),
            finding.detail.clone(),
        ]
    });
    format!(
        "{}\n{} differences in {counts}; the first of each check are shown.",
        table(&["check", "app_id", "wallet or number", "difference"], rows),
        report.differences
    )
}
