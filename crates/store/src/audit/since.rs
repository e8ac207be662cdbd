//! The audit from a checkpoint. One session streams all wallets beside the lines of the checkpoint,
//! both in the order of their keys. The other session fetches the new entries of wallets that have
//! grown, with their records.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use domain::audit::{Check, Findings, Standing, WalletCheck, WalletRow};
use domain::ledger::{CREDIT, ChainHash, EXCHANGE, LedgerEntry, micros};
use domain::record_set::RecordSet;
use futures_util::TryStreamExt as _;
use sqlx::{Executor as _, PgConnection};

use super::checkpoint::{Checkpoint, CheckpointWallet, RowCounts, WALLETS};
use super::copied::Copied;
use super::log::{self, Log};
use super::{AppTotals, AuditError, AuditOutcome, Meter, Snapshot, naming};
use crate::secrets::random_bytes;

/// How many wallets are fetched at a time.
const WALLETS_AT_ONCE: usize = 2000;

/// A wallet with new entries.
struct Grown {
    app_id: String,
    open_id: String,
    from: Standing,
    row: WalletRow,
}

/// The state of the audit.
struct SinceAudit {
    findings: Findings,
    apps: BTreeMap<String, AppTotals>,
    entries: u64,
    /// Sum of `entry_count` of all wallets.
    entry_counts: i128,
    /// The credits that the operator's log must tell of.
    told: RecordSet,
}

/// Audits everything after the checkpoint.
pub(super) async fn audit(
    snapshot: &mut Snapshot,
    mut before: Checkpoint,
) -> Result<AuditOutcome, AuditError> {
    let empty = RecordSet::new(&random_bytes());
    let mut progress = SinceAudit {
        findings: Findings::default(),
        apps: BTreeMap::new(),
        entries: 0,
        entry_counts: 0,
        told: empty.clone(),
    };
    let Snapshot { first, second, meter, .. } = snapshot;
    // The planner must use the keys, whatever the sizes of the tables.
    let by_keys =
        "SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off";
    second.execute(sqlx::raw_sql(by_keys)).await?;
    let mut line = before.next()?;
    let mut grown = Vec::new();
    let mut wallets = Copied::of(first, WALLETS).await?;
    while let Some(mut row) = wallets.next().await? {
        let (app_id, open_id, row) = (row.text()?, row.text()?, row.wallet()?);
        let from = loop {
            match line.take() {
                Some(known) => {
                    match (known.app_id.as_str(), known.open_id.as_str()).cmp(&(app_id, open_id)) {
                        Ordering::Less => {
                            progress.gone(&known);
                            line = before.next()?;
                        }
                        Ordering::Equal => {
                            line = before.next()?;
                            break known.standing;
                        }
                        Ordering::Greater => {
                            line = Some(known);
                            break Standing::EMPTY;
                        }
                    }
                }
                None => break Standing::EMPTY,
            }
        };
        progress.count(app_id, &row);
        if progress.has_grown(app_id, open_id, from, &row) {
            grown.push(Grown { app_id: app_id.to_owned(), open_id: open_id.to_owned(), from, row });
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
    let log = log::read(second, before.log_head, empty, meter).await?;
    second
        .execute(sqlx::raw_sql("RESET enable_seqscan; RESET enable_hashjoin; RESET enable_mergejoin"))
        .await?;
    let counts = progress.compare_counts(second, before.counts, &log).await?;
    let checked = progress.checked();
    let SinceAudit { mut findings, apps, told, .. } = progress;
    if !told.is_same(&log.credits) {
        naming::credit_lines(second, &mut findings).await?;
    }
    let Log { lines: log_lines, head: log_head, findings: of_log, .. } = log;
    findings.merge(of_log);
    Ok(AuditOutcome { since: Some(before.at), findings, apps, checked, counts, log_lines, log_head })
}

impl SinceAudit {
    fn count(&mut self, app_id: &str, row: &WalletRow) {
        let app = self.apps.entry(app_id.to_owned()).or_default();
        app.wallets += 1;
        app.free_balance += i128::from(row.free_balance);
        app.charge_balance += i128::from(row.charge_balance);
        self.entry_counts += i128::from(row.entry_count);
    }

    fn gone(&mut self, known: &CheckpointWallet) {
        self.findings.add(Check::Checkpoint, &known.app_id, &known.open_id, || {
            format!("the wallet is gone; it had {} entries", known.standing.seq)
        });
    }

    /// True when a wallet has new entries. A wallet without new entries must be unchanged.
    fn has_grown(&mut self, app_id: &str, open_id: &str, from: Standing, row: &WalletRow) -> bool {
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
        let app_ids: Vec<String> = grown.iter().map(|wallet| wallet.app_id.clone()).collect();
        let open_ids: Vec<String> = grown.iter().map(|wallet| wallet.open_id.clone()).collect();
        let seqs: Vec<i64> = grown.iter().map(|wallet| wallet.from.seq).collect();
        let mut rows = sqlx::query!(
            r#"SELECT k.place AS "place!", e.seq, e.kind, e.reference, e.free_change, e.charge_change,
                   e.free_balance, e.charge_balance, e.at, e.chain_hash AS "chain_hash?",
                   x.amount AS "amount?", coalesce(x.created_at, c.created_at) AS "recorded_at?"
               FROM unnest($1::text[], $2::text[], $3::bigint[]) WITH ORDINALITY AS k (app_id, open_id, seq, place)
               JOIN ledger_entries e ON e.app_id = k.app_id AND e.open_id = k.open_id AND e.seq >= k.seq
               LEFT JOIN exchanges x ON e.kind = 'exchange' AND x.app_id = e.app_id AND x.biz_no = e.reference
                   AND x.open_id = e.open_id AND x.seq = e.seq
               LEFT JOIN credits c ON e.kind = 'credit' AND c.app_id = e.app_id AND c.ref = e.reference
                   AND c.open_id = e.open_id AND c.seq = e.seq
               ORDER BY k.place, e.seq"#,
            &app_ids,
            &open_ids,
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
            let (app_id, open_id) = (check.wallet.app_id.clone(), check.wallet.open_id.clone());
            let entry = LedgerEntry {
                app_id: &app_id,
                open_id: &open_id,
                seq: row.seq,
                kind: &row.kind,
                reference: &row.reference,
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
                check.check.entry(&entry, stored, &mut self.findings);
                self.check_record(&entry, row.amount, row.recorded_at.map(micros));
                self.entries += 1;
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

    fn check_record(&mut self, entry: &LedgerEntry<'_>, amount: Option<i64>, recorded_at: Option<i64>) {
        if entry.kind == CREDIT {
            self.told.add(&log::told(entry));
        }
        let is_exchange = entry.kind == EXCHANGE;
        let missing = if is_exchange { Check::DeductionWithoutRecord } else { Check::EntryWithoutCredit };
        let Some(recorded_at) = recorded_at else {
            self.findings.add(missing, entry.app_id, entry.open_id, || {
                format!("entry {}: {} {} has no record", entry.seq, entry.kind, entry.reference)
            });
            return;
        };
        let taken = -(i128::from(entry.free_change) + i128::from(entry.charge_change));
        let same_amount = !is_exchange || amount.is_some_and(|amount| i128::from(amount) == taken);
        if !same_amount || recorded_at != entry.at {
            let check = if is_exchange { Check::Record } else { Check::CreditWithoutEntry };
            self.findings.add(check, entry.app_id, entry.reference, || {
                format!("entry {} of wallet {} has another amount or time", entry.seq, entry.open_id)
            });
        }
    }

    fn end(&mut self, check: Option<GrownCheck>) {
        let Some(GrownCheck { wallet, check, meets_checkpoint }) = check else { return };
        if !meets_checkpoint {
            self.findings.add(Check::Checkpoint, &wallet.app_id, &wallet.open_id, || {
                format!("entry {} is not what the checkpoint has", wallet.from.seq)
            });
        }
        let sums = check.end(&mut self.findings);
        self.apps.entry(wallet.app_id).or_default().sums.merge(&sums);
    }

    /// Numbers of the rows that were checked.
    fn checked(&self) -> RowCounts {
        RowCounts {
            entries: self.entries,
            exchanges: self.apps.values().map(|app| app.sums.exchanges).sum(),
            credits: self.apps.values().map(|app| app.sums.credits).sum(),
        }
    }

    /// Compares the numbers of rows with the checkpoint and the entries that were checked now.
    async fn compare_counts(
        &mut self,
        connection: &mut PgConnection,
        before: RowCounts,
        log: &Log,
    ) -> Result<RowCounts, AuditError> {
        let row = sqlx::query!(
            r#"SELECT (SELECT count(*) FROM ledger_entries) AS "entries!", (SELECT count(*) FROM exchanges) AS "exchanges!",
                   (SELECT count(*) FROM credits) AS "credits!", (SELECT count(*) FROM operator_log) AS "log_lines!""#
        )
        .fetch_one(connection)
        .await?;
        let checked = self.checked();
        let expected = [
            ("ledger_entries", row.entries, self.entry_counts),
            ("exchanges", row.exchanges, i128::from(before.exchanges + checked.exchanges)),
            ("credits", row.credits, i128::from(before.credits + checked.credits)),
            ("operator_log", row.log_lines, i128::from(log.head.seq)),
        ];
        for (table, is, should_be) in expected {
            if i128::from(is) != should_be {
                self.findings.add(Check::Count, "", table, || format!("{is} rows, expected {should_be}"));
            }
        }
        let [entries, exchanges, credits, _] =
            expected.map(|(_, rows, _)| u64::try_from(rows).unwrap_or_default());
        Ok(RowCounts { entries, exchanges, credits })
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
        let check = WalletCheck::new(&wallet.app_id, &wallet.open_id, wallet.from, Some(wallet.row));
        let meets_checkpoint = wallet.from.seq == 0;
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
