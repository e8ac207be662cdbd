//! The full audit. One session streams the ledger in the order of its key, each entry with its
//! wallet's row. The other session streams the records in any order and adds up the wallets.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::audit::{Check, Findings, Standing, Sums, WalletCheck};
use domain::ledger::{CREDIT, ChainHash, EXCHANGE, LedgerEntry};
use domain::operator_log::LogHead;
use domain::record_set::{RecordLine, RecordSet};
use sqlx::PgConnection;

use super::checkpoint::RowCounts;
use super::copied::{Copied, Row};
use super::log::{self, Log};
use super::{AppTotals, AuditError, AuditOutcome, Meter, Snapshot, naming};
use crate::secrets::random_bytes;
use crate::{Result, StoreError};

/// Reads the ledger in the order of its key. The collation does not matter: the entries of a wallet
/// only have to be together.
const LEDGER: &str = "\
SELECT e.app_id, e.open_id, e.seq, e.kind, e.reference, e.free_change, e.charge_change, e.free_balance,
    e.charge_balance, e.at, e.chain_hash,
    w.entry_count, w.free_balance, w.charge_balance, w.chain_hash
FROM ledger_entries e LEFT JOIN wallets w ON w.app_id = e.app_id AND w.open_id = e.open_id
ORDER BY e.app_id, e.open_id, e.seq";

const EXCHANGES: &str = "SELECT app_id, biz_no, open_id, seq, created_at, amount FROM exchanges";
const CREDITS: &str = "SELECT app_id, ref, open_id, seq, created_at, 0::bigint FROM credits";

/// What the ledger contains.
struct Ledger {
    findings: Findings,
    apps: BTreeMap<String, Sums>,
    /// Number of wallets with entries.
    wallets: u64,
    entries: u64,
    exchanges: RecordSet,
    credits: RecordSet,
    /// The credits that the operator's log must tell of.
    told: RecordSet,
}

/// What wallets and records contain.
struct Records {
    apps: BTreeMap<String, AppTotals>,
    /// Number of wallets that are not empty.
    wallets: u64,
    exchanges: RecordSet,
    credits: RecordSet,
    log: Log,
}

/// Audits everything.
pub(super) async fn audit(snapshot: &mut Snapshot) -> Result<AuditOutcome, AuditError> {
    let empty = RecordSet::new(&random_bytes());
    let (ledger, records) = tokio::try_join!(
        read_ledger(&mut snapshot.first, empty.clone(), &snapshot.meter),
        read_records(&mut snapshot.second, empty.clone(), &snapshot.meter),
    )?;
    let (mut findings, log) = (ledger.findings, records.log);
    findings.merge(log.findings);
    let mut apps = records.apps;
    for (app_id, sums) in &ledger.apps {
        apps.entry(app_id.clone()).or_default().sums = *sums;
    }
    compare_sums(&apps, &mut findings);
    let first = &mut snapshot.first;
    if !ledger.exchanges.is_same(&records.exchanges) {
        naming::exchanges(first, &mut findings).await?;
    }
    if !ledger.credits.is_same(&records.credits) {
        naming::credits(first, &mut findings).await?;
    }
    if !ledger.told.is_same(&log.credits) {
        naming::credit_lines(first, &mut findings).await?;
    }
    if ledger.wallets != records.wallets {
        naming::wallets_without_entries(first, &mut findings).await?;
    }
    let counts = RowCounts {
        entries: ledger.entries,
        exchanges: records.exchanges.count(),
        credits: records.credits.count(),
    };
    let (log_lines, log_head) = (log.lines, log.head);
    Ok(AuditOutcome { since: None, findings, apps, checked: counts, counts, log_lines, log_head })
}

/// Compares the sums of each app: credits less deductions are what its wallets hold.
fn compare_sums(apps: &BTreeMap<String, AppTotals>, findings: &mut Findings) {
    for (app_id, AppTotals { free_balance, charge_balance, sums, .. }) in apps {
        let free = sums.free_credited - sums.free_deducted;
        let charge = sums.charge_credited - sums.charge_deducted;
        if (free, charge) != (*free_balance, *charge_balance) {
            findings.add(Check::Sums, app_id, "all wallets", || {
                format!(
                    "they hold free {free_balance}, charge {charge_balance}; \
                     credits less deductions are free {free}, charge {charge}"
                )
            });
        }
    }
}

async fn read_ledger(
    connection: &mut PgConnection,
    empty: RecordSet,
    meter: &Arc<Meter>,
) -> Result<Ledger, AuditError> {
    let mut ledger = Ledger {
        findings: Findings::default(),
        apps: BTreeMap::new(),
        wallets: 0,
        entries: 0,
        exchanges: empty.clone(),
        credits: empty.clone(),
        told: empty,
    };
    let mut current: Option<WalletCheck> = None;
    let mut rows = Copied::of(connection, LEDGER).await?;
    while let Some(mut row) = rows.next().await? {
        let (entry, stored) = read_entry(&mut row)?;
        let mut check = match current.take() {
            Some(check) if check.is_of(entry.app_id, entry.open_id) => check,
            before => {
                ledger.end(before);
                let wallet = row.wallet_if_any()?;
                ledger.wallets += u64::from(wallet.is_some_and(|wallet| !wallet.is_empty()));
                WalletCheck::new(entry.app_id, entry.open_id, Standing::EMPTY, wallet)
            }
        };
        check.entry(&entry, stored, &mut ledger.findings);
        current = Some(check);
        ledger.take(&entry);
        meter.row(ledger.entries);
    }
    ledger.end(current);
    Ok(ledger)
}

impl Ledger {
    /// Adds the record that an entry must have.
    fn take(&mut self, entry: &LedgerEntry<'_>) {
        self.entries += 1;
        let record = RecordLine {
            app_id: entry.app_id,
            number: entry.reference,
            open_id: entry.open_id,
            seq: entry.seq,
            at: entry.at,
            ..RecordLine::default()
        };
        match entry.kind {
            CREDIT => {
                self.credits.add(&record);
                self.told.add(&log::told(entry));
            }
            EXCHANGE => {
                let amount = -(i128::from(entry.free_change) + i128::from(entry.charge_change));
                self.exchanges.add(&RecordLine { amount, ..record });
            }
            // Such an entry has no record. The check of its wallet has reported it.
            _ => {}
        }
    }

    fn end(&mut self, check: Option<WalletCheck>) {
        let Some(check) = check else { return };
        let app = check.app_id().to_owned();
        let sums = check.end(&mut self.findings);
        self.apps.entry(app).or_default().merge(&sums);
    }
}

fn read_entry<'a>(row: &mut Row<'a>) -> Result<(LedgerEntry<'a>, Option<ChainHash>)> {
    let entry = LedgerEntry {
        app_id: row.text()?,
        open_id: row.text()?,
        seq: row.number()?,
        kind: row.text()?,
        reference: row.text()?,
        free_change: row.number()?,
        charge_change: row.number()?,
        free_balance: row.number()?,
        charge_balance: row.number()?,
        at: row.number()?,
    };
    Ok((entry, row.hash()?))
}

async fn read_records(
    connection: &mut PgConnection,
    empty: RecordSet,
    meter: &Arc<Meter>,
) -> Result<Records, AuditError> {
    let log = log::read(connection, LogHead::START, empty.clone(), meter).await?;
    let mut records =
        Records { apps: BTreeMap::new(), wallets: 0, exchanges: empty.clone(), credits: empty, log };
    add_up_wallets(connection, &mut records).await?;
    for (select, set) in [(EXCHANGES, &mut records.exchanges), (CREDITS, &mut records.credits)] {
        let mut rows = Copied::of(&mut *connection, select).await?;
        while let Some(mut row) = rows.next().await? {
            set.add(&read_record(&mut row)?);
            meter.row(set.count());
        }
    }
    Ok(records)
}

fn read_record<'a>(row: &mut Row<'a>) -> Result<RecordLine<'a>> {
    Ok(RecordLine {
        app_id: row.text()?,
        number: row.text()?,
        open_id: row.text()?,
        seq: row.number()?,
        at: row.number()?,
        amount: row.number()?.into(),
        ..RecordLine::default()
    })
}

async fn add_up_wallets(connection: &mut PgConnection, records: &mut Records) -> Result<(), AuditError> {
    let apps = sqlx::query!(
        r#"SELECT app_id, count(*) AS "wallets!", sum(free_balance)::text AS "free!", sum(charge_balance)::text AS "charge!",
               count(*) FILTER (WHERE (free_balance, charge_balance, entry_count) <> (0, 0, 0)
                   OR chain_hash <> decode(repeat('00', 32), 'hex')) AS "with_entries!"
           FROM wallets GROUP BY app_id"#
    )
    .fetch_all(connection)
    .await?;
    for app in apps {
        let sum = |text: &str| text.parse::<i128>().map_err(|_| StoreError::damaged("wallets"));
        let count = |number: i64| u64::try_from(number).unwrap_or_default();
        let totals = AppTotals {
            wallets: count(app.wallets),
            free_balance: sum(&app.free)?,
            charge_balance: sum(&app.charge)?,
            sums: Sums::default(),
        };
        records.wallets += count(app.with_entries);
        records.apps.insert(app.app_id, totals);
    }
    Ok(())
}
