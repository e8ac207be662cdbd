//! The audit from a checkpoint. One session streams all wallets beside the lines of the checkpoint,
//! both in the order of their keys. The other session fetches the new entries of wallets that have
//! grown, with their records.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use domain::audit::{Check, Findings, WalletAfterEntry, WalletCheck, WalletRow};
use domain::ledger::{ChainHash, EXCHANGE, LedgerEntry, REF_MARK, REFUND_MARKS, TOPUP_MARK, micros};
use domain::record_set::RecordSet;
use futures_util::TryStreamExt as _;
use sqlx::{Executor as _, PgConnection};

use super::checkpoint::{Checkpoint, CheckpointWallet, WALLETS};
use super::copy_reader::Copied;
use super::log::{self, LogContents};
use super::{
    AppTotals, AuditError, AuditOutcome, Meter, Snapshot, cancels, details, items, refunds, states, topups,
};
use crate::secrets::random_bytes;

/// How many wallets are fetched at a time.
const WALLETS_AT_ONCE: usize = 2000;

/// A wallet with new entries.
struct Grown {
    app_id: String,
    open_id: String,
    /// Numbers of app and wallet.
    numbers: (i32, i64),
    from: WalletAfterEntry,
    /// Its newest state in an archive.
    archived: Option<WalletAfterEntry>,
    row: WalletRow,
}

/// The state of the audit.
struct SinceAudit {
    findings: Findings,
    apps: BTreeMap<String, AppTotals>,
    entries: u64,
    /// Sum of `entry_count` of all wallets.
    entry_counts: i128,
    /// The operators' entries that the operator's log must tell of.
    told: RecordSet,
    /// Exchanges with new cancels, by number of the app and `biz_no`.
    cancelled: BTreeSet<(i32, String)>,
    /// New entries of top-ups, by number of the app and reference.
    topups: Vec<(i32, String)>,
    /// The same of refunds and settlements.
    refunds: Vec<(i32, String)>,
}

/// Audits everything after the checkpoint.
pub(super) async fn audit(
    snapshot: &mut Snapshot,
    mut before: Checkpoint,
) -> Result<AuditOutcome, AuditError> {
    let empty = RecordSet::new(&random_bytes());
    let mut progress = SinceAudit::new(empty.clone());
    let Snapshot { first, second, meter, .. } = snapshot;
    // The planner must use the keys, whatever the sizes of the tables.
    let by_keys =
        "SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off";
    second.execute(sqlx::raw_sql(by_keys)).await?;
    let mut line = before.next()?;
    let mut grown = Vec::new();
    let mut wallets = Copied::of(first, WALLETS).await?;
    while let Some(mut row) = wallets.next().await? {
        let (app_id, open_id, mut of_wallet) = (row.text()?, row.text()?, row);
        let row = of_wallet.wallet()?;
        let numbers = (of_wallet.small_number()?, of_wallet.number()?);
        let archived = of_wallet.standing_if_any()?;
        let from = progress.standing((app_id, numbers.1), &mut line, &mut before)?;
        if archived.is_some_and(|archived| archived.seq > from.seq) {
            let cause = "entries after this checkpoint are in an archive: run an audit without --since";
            return Err(AuditError::Checkpoint(cause.to_owned()));
        }
        progress.count(app_id, &row);
        if progress.has_grown(app_id, open_id, from, &row) {
            grown.push(Grown {
                app_id: app_id.to_owned(),
                open_id: open_id.to_owned(),
                numbers,
                from,
                archived,
                row,
            });
        }
        if grown.len() == WALLETS_AT_ONCE {
            progress.check(second, std::mem::take(&mut grown), meter).await?;
        }
    }
    drop(wallets);
    while let Some(known) = line {
        progress.gone(&known);
        line = before.next()?;
    }
    progress.check(second, grown, meter).await?;
    progress.check_cancels(second).await?;
    let new_topups = std::mem::take(&mut progress.topups);
    topups::check_since(second, before.at, new_topups, &mut progress.findings).await?;
    let new_refunds = std::mem::take(&mut progress.refunds);
    refunds::check_since(second, new_refunds, &mut progress.findings).await?;
    let log = log::read(second, before.log_head, empty, meter).await?;
    second
        .execute(sqlx::raw_sql("RESET enable_seqscan; RESET enable_hashjoin; RESET enable_mergejoin"))
        .await?;
    states::compare(second, &mut progress.findings).await?;
    let entries = progress.compare_counts(second, &log).await?;
    let checked = progress.entries;
    let SinceAudit { mut findings, apps, told, .. } = progress;
    if !told.is_same(&log.entries) {
        details::operator_lines(second, &mut findings).await?;
    }
    let LogContents { lines: log_lines, head: log_head, findings: of_log, .. } = log;
    findings.merge(of_log);
    Ok(AuditOutcome {
        since: Some(before.at),
        findings,
        apps,
        checked,
        archived: 0,
        entries,
        log_lines,
        log_head,
    })
}

impl SinceAudit {
    fn new(told: RecordSet) -> Self {
        Self {
            findings: Findings::default(),
            apps: BTreeMap::new(),
            entries: 0,
            entry_counts: 0,
            told,
            cancelled: BTreeSet::new(),
            topups: Vec::new(),
            refunds: Vec::new(),
        }
    }

    fn count(&mut self, app_id: &str, row: &WalletRow) {
        let app = self.apps.entry(app_id.to_owned()).or_default();
        app.wallets += 1;
        app.free_balance += i128::from(row.free_balance);
        app.charge_balance += i128::from(row.charge_balance);
        self.entry_counts += i128::from(row.entry_count);
    }

    /// The state of a wallet in the checkpoint, whose next line is `line`. Reports the wallets before it, which are gone.
    fn standing(
        &mut self,
        wallet: (&str, i64),
        line: &mut Option<CheckpointWallet>,
        checkpoint: &mut Checkpoint,
    ) -> Result<WalletAfterEntry, AuditError> {
        while let Some(known) = line.take() {
            match (known.app_id.as_str(), known.wallet_no).cmp(&wallet) {
                Ordering::Less => {
                    self.gone(&known);
                    *line = checkpoint.next()?;
                }
                Ordering::Equal => {
                    *line = checkpoint.next()?;
                    return Ok(known.standing);
                }
                Ordering::Greater => {
                    *line = Some(known);
                    break;
                }
            }
        }
        Ok(WalletAfterEntry::EMPTY)
    }

    fn gone(&mut self, known: &CheckpointWallet) {
        let subject = format!("wallet {}", known.wallet_no);
        self.findings.add(Check::Checkpoint, &known.app_id, &subject, || {
            format!("the wallet is gone; it had {} entries", known.standing.seq)
        });
    }

    /// True when a wallet has new entries. A wallet without new entries must be unchanged.
    fn has_grown(&mut self, app_id: &str, open_id: &str, from: WalletAfterEntry, row: &WalletRow) -> bool {
        if row.entry_count > from.seq {
            return true;
        }
        let same_balances =
            (row.free_balance, row.charge_balance) == (from.free_balance, from.charge_balance);
        let same_hash = row.chain_hash == Some(from.chain_hash);
        if row.entry_count != from.seq || !same_balances || !same_hash {
            self.findings.add(Check::Checkpoint, app_id, open_id, || {
                let hash = if same_hash { "" } else { ", with another hash" };
                format!(
                    "the wallet holds free {}, charge {} after {} entries{hash}; \
                     the checkpoint has free {}, charge {} after {}",
                    row.free_balance,
                    row.charge_balance,
                    row.entry_count,
                    from.free_balance,
                    from.charge_balance,
                    from.seq
                )
            });
        }
        false
    }

    /// Checks the entries of these wallets, from the entry of the checkpoint on.
    async fn check(
        &mut self,
        connection: &mut PgConnection,
        grown: Vec<Grown>,
        meter: &Meter,
    ) -> Result<(), AuditError> {
        let app_nos: Vec<i32> = grown.iter().map(|wallet| wallet.numbers.0).collect();
        let wallet_nos: Vec<i64> = grown.iter().map(|wallet| wallet.numbers.1).collect();
        let seqs: Vec<i64> = grown.iter().map(|wallet| wallet.from.seq).collect();
        let mut rows = sqlx::query!(
            r#"SELECT k.place AS "place!", e.app_no, e.wallet_no, e.seq AS "seq!", e.kind, e.reference, e.of_biz_no,
                   e.remaining, e.item_id, e.pay_priority, e.free_change, e.charge_change, e.free_balance, e.charge_balance, e.at,
                   e.chain_hash, i.item_id IS NULL AS "is_without_item!"
               FROM unnest($1::integer[], $2::bigint[], $3::bigint[])
                   WITH ORDINALITY AS k (app_no, wallet_no, seq, place)
               JOIN ledger_entries e ON e.app_no = k.app_no AND e.wallet_no = k.wallet_no AND e.seq >= k.seq
               LEFT JOIN items i ON i.app_no = e.app_no AND i.item_id = e.item_id
               ORDER BY k.place, e.seq"#,
            &app_nos,
            &wallet_nos,
            &seqs
        )
        .fetch(connection);
        let mut wallets = grown.into_iter().zip(1_i64..);
        let mut current: Option<(GrownCheck, i64)> = None;
        while let Some(row) = rows.try_next().await? {
            let mut check = loop {
                match current.take() {
                    Some((check, place)) if place == row.place => break check,
                    before => self.end(before.map(|(check, _)| check)),
                }
                current = wallets.next().map(|(wallet, place)| (GrownCheck::new(wallet), place));
                if current.is_none() {
                    return Ok(());
                }
            };
            let entry = LedgerEntry {
                app_no: row.app_no,
                wallet_no: row.wallet_no,
                seq: row.seq,
                kind: &row.kind,
                reference: &row.reference,
                of_biz_no: row.of_biz_no.as_deref(),
                remaining: row.remaining,
                item_id: row.item_id.and_then(|id| id.try_into().ok()),
                pay_priority: row.pay_priority,
                free_change: row.free_change,
                charge_change: row.charge_change,
                free_balance: row.free_balance,
                charge_balance: row.charge_balance,
                at: micros(row.at),
            };
            let stored = row.chain_hash.and_then(|hash| hash.try_into().ok());
            if row.seq == check.wallet.from.seq {
                check.meets_checkpoint = check.wallet.is_as_it_was(&entry, stored);
            } else {
                self.entry(&mut check, &entry, stored, row.is_without_item);
                meter.row(self.entries);
            }
            current = Some((check, row.place));
        }
        self.end(current.map(|(check, _)| check));
        for (wallet, _) in wallets {
            self.end(Some(GrownCheck::new(wallet)));
        }
        Ok(())
    }

    /// Checks the cancels of each exchange that has new ones.
    async fn check_cancels(&mut self, connection: &mut PgConnection) -> Result<(), AuditError> {
        let cancelled = std::mem::take(&mut self.cancelled);
        cancels::check_some(connection, cancelled.into_iter(), &mut self.findings).await
    }

    /// Checks a new entry.
    fn entry(
        &mut self,
        grown: &mut GrownCheck,
        entry: &LedgerEntry<'_>,
        stored: Option<ChainHash>,
        is_without_item: bool,
    ) {
        grown.check.entry(entry, stored, &mut self.findings);
        if entry.reference.starts_with(REF_MARK) {
            self.told.add(&log::told(entry, &grown.check));
        }
        if entry.reference.starts_with(TOPUP_MARK) {
            self.topups.push((entry.app_no, entry.reference.to_owned()));
        }
        if entry.reference.starts_with(REFUND_MARKS) {
            self.refunds.push((entry.app_no, entry.reference.to_owned()));
        }
        if entry.kind == EXCHANGE && is_without_item {
            let Grown { app_id, open_id, .. } = &grown.wallet;
            items::report_missing(app_id, open_id, entry.seq, entry.reference, &mut self.findings);
        }
        if let Some(of) = entry.of_biz_no {
            self.cancelled.insert((entry.app_no, of.to_owned()));
        }
        self.entries += 1;
    }

    fn end(&mut self, check: Option<GrownCheck>) {
        let Some(GrownCheck { wallet, check, meets_checkpoint }) = check else { return };
        if !meets_checkpoint {
            self.findings.add(Check::Checkpoint, &wallet.app_id, &wallet.open_id, || {
                format!("entry {} is not what the checkpoint has", wallet.from.seq)
            });
        }
        let sums = check.end(&mut self.findings);
        self.apps.entry(wallet.app_id).or_default().changes.merge(&sums);
    }

    /// Compares the numbers of rows with the wallets and the operator's log. Returns that of all entries.
    async fn compare_counts(
        &mut self,
        connection: &mut PgConnection,
        log: &LogContents,
    ) -> Result<u64, AuditError> {
        let row = sqlx::query!(
            r#"SELECT (SELECT count(*) FROM ledger_entries WHERE seq IS NOT NULL) AS "entries!",
                   (SELECT coalesce(sum(seq), 0)::bigint FROM archived_standings) AS "archived!",
                   (SELECT count(*) FROM operator_log) AS "log_lines!""#
        )
        .fetch_one(connection)
        .await?;
        let entries = row.entries + row.archived;
        let expected = [
            ("ledger_entries", entries, self.entry_counts),
            ("operator_log", row.log_lines, i128::from(log.head.seq)),
        ];
        for (table, is, should_be) in expected {
            if i128::from(is) != should_be {
                self.findings.add(Check::Count, "", table, || format!("{is} rows, expected {should_be}"));
            }
        }
        Ok(u64::try_from(entries).unwrap_or_default())
    }
}

/// The check of a wallet with new entries.
struct GrownCheck {
    wallet: Grown,
    check: WalletCheck,
    /// True when the entry of the checkpoint was found unchanged.
    meets_checkpoint: bool,
}

impl GrownCheck {
    fn new(wallet: Grown) -> Self {
        let check = WalletCheck::new(
            (&wallet.app_id, &wallet.open_id),
            wallet.numbers,
            wallet.from,
            Some(wallet.row),
        );
        let meets_checkpoint = wallet.from.seq == 0 || wallet.archived == Some(wallet.from);
        Self { wallet, check, meets_checkpoint }
    }
}

impl Grown {
    /// True when the entry has the hash and the balances of the checkpoint.
    fn is_as_it_was(&self, entry: &LedgerEntry<'_>, stored: Option<ChainHash>) -> bool {
        stored == Some(self.from.chain_hash)
            && (entry.free_balance, entry.charge_balance)
                == (self.from.free_balance, self.from.charge_balance)
    }
}
