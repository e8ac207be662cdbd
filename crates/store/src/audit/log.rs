//! Reads the operator's log for the audit, in the order of its chain.

use domain::audit::{Findings, WalletCheck};
use domain::ledger::{LedgerEntry, without_ref_mark};
use domain::operator_log::{ChainedLine, LogCheck, LogHead};
use domain::record_set::{RecordLine, RecordSet};
use serde::Deserialize;
use sqlx::PgConnection;

use super::copy_reader::{Copied, CopyRow};
use super::{AuditError, Meter};
use crate::error::Result;
use crate::operator_log::{ListedCredit, OperatorAction};

pub(super) const LINES: &str = "\
SELECT seq, app_id, at, id, operator_kind, operator, action, subject, before::text, after::text, note,
    credits::text, state::text, salt, content_hash, chain_hash
FROM operator_log";

/// What the log contains.
pub(super) struct LogContents {
    pub(super) findings: Findings,
    /// Number of lines that were checked.
    pub(super) lines: u64,
    /// The ledger entries that these lines tell of.
    pub(super) entries: RecordSet,
    pub(super) head: LogHead,
}

/// Checks the lines after `from`.
pub(super) async fn read(
    connection: &mut PgConnection,
    from: LogHead,
    empty: RecordSet,
    meter: &Meter,
) -> Result<LogContents, AuditError> {
    let head = sqlx::query!("SELECT seq, chain_hash FROM operator_log_head")
        .fetch_optional(&mut *connection)
        .await?
        .map(|row| LogHead { seq: row.seq, chain_hash: row.chain_hash.try_into().unwrap_or_default() });
    let mut log = LogContents {
        findings: Findings::default(),
        lines: 0,
        entries: empty,
        head: head.unwrap_or(LogHead::START),
    };
    let mut check = LogCheck::new(from);
    // A full audit also sees lines with a number that no line can have.
    let after = if from == LogHead::START { String::new() } else { format!("WHERE seq >= {}", from.seq) };
    let mut rows = Copied::of(connection, &format!("{LINES} {after} ORDER BY seq, at, id")).await?;
    while let Some(mut row) = rows.next().await? {
        let line = read_line(&mut row)?;
        if check.line(&line, row.hash()?, &mut log.findings) {
            log.lines += 1;
            meter.row(log.lines);
            log.take(&line);
        }
    }
    check.end(head, &mut log.findings);
    Ok(log)
}

impl LogContents {
    /// Adds the ledger entries that a line tells of.
    fn take(&mut self, line: &ChainedLine<'_>) {
        if line.action == OperatorAction::WalletCredits.as_str() {
            let credits =
                line.credits.and_then(|text| serde_json::from_str::<Vec<ListedCredit<'_>>>(text).ok());
            for ListedCredit(open_id, number, free_before, charge_before, free, charge) in
                credits.unwrap_or_default()
            {
                let balances = [free_before, charge_before, free, charge];
                let (open_id, number) = (&open_id, &number);
                self.entries.add(&RecordLine { app_id: line.app_id, number, open_id, balances });
            }
            return;
        }
        if !OperatorAction::OF_ENTRIES.map(OperatorAction::as_str).contains(&line.action) {
            return;
        }
        let state = |text: Option<&str>| -> LoggedWallet {
            text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
        };
        let (before, after) = (state(line.before), state(line.after));
        self.entries.add(&RecordLine {
            app_id: line.app_id,
            number: &after.reference,
            open_id: line.subject,
            balances: [before.free_balance, before.charge_balance, after.free_balance, after.charge_balance],
        });
    }
}

/// The state of a wallet in a line.
#[derive(Default, Deserialize)]
struct LoggedWallet {
    free_balance: i64,
    charge_balance: i64,
    #[serde(default, rename = "ref")]
    reference: String,
}

/// What the line of an operator's entry must tell.
pub(super) fn told<'a>(entry: &LedgerEntry<'a>, wallet: &'a WalletCheck) -> RecordLine<'a> {
    RecordLine {
        app_id: wallet.app_id(),
        number: without_ref_mark(entry.reference),
        open_id: wallet.open_id(),
        balances: [
            entry.free_balance.wrapping_sub(entry.free_change),
            entry.charge_balance.wrapping_sub(entry.charge_change),
            entry.free_balance,
            entry.charge_balance,
        ],
    }
}

pub(super) fn read_line<'a>(row: &mut CopyRow<'a>) -> Result<ChainedLine<'a>> {
    Ok(ChainedLine {
        seq: row.number()?,
        app_id: row.text()?,
        at: row.number()?,
        id: row.number()?,
        operator_kind: row.text()?,
        operator: row.text()?,
        action: row.text()?,
        subject: row.text()?,
        before: row.text_if_any()?,
        after: row.text_if_any()?,
        note: row.text()?,
        credits: row.text_if_any()?,
        state: row.text_if_any()?,
        salt: row.bytes_if_any()?,
        content_hash: row.bytes()?,
    })
}
