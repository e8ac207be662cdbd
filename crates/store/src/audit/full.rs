//! The full audit. One session streams the ledger in the order of its key, each entry with its
//! wallet's row. The other session reads the operator's log, adds up the wallets and checks the items.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::audit::{Check, Findings, KindSums, Standing, Sums, WalletCheck};
use domain::ledger::REF_MARK;
use domain::operator_log::LogHead;
use domain::record_set::RecordSet;
use sqlx::PgConnection;

use super::copied::{Copied, ENTRY_COLUMNS};
use super::log::{self, Log};
use super::{AppTotals, AuditError, AuditOutcome, Meter, Snapshot, cancels, items, naming};
use crate::secrets::random_bytes;
use crate::{Result, StoreError};

/// What the ledger contains.
struct Ledger {
    findings: Findings,
    apps: BTreeMap<String, Sums>,
    /// Number of wallets with entries.
    wallets: u64,
    entries: u64,
    /// The operators' entries that the operator's log must tell of.
    told: RecordSet,
}

/// What wallets and operator's log contain.
struct Surroundings {
    findings: Findings,
    apps: BTreeMap<String, AppTotals>,
    /// Number of wallets that are not empty.
    wallets: u64,
    log: Log,
}

/// Audits everything.
pub(super) async fn audit(snapshot: &mut Snapshot) -> Result<AuditOutcome, AuditError> {
    let empty = RecordSet::new(&random_bytes());
    let (ledger, around) = tokio::try_join!(
        read_ledger(&mut snapshot.first, empty.clone(), &snapshot.meter),
        read_surroundings(&mut snapshot.second, empty, &snapshot.meter),
    )?;
    let (mut findings, log) = (ledger.findings, around.log);
    findings.merge(around.findings);
    findings.merge(log.findings);
    let mut apps = around.apps;
    for (app_id, sums) in &ledger.apps {
        apps.entry(app_id.clone()).or_default().changes = sums.clone();
    }
    compare_sums(&apps, &mut findings);
    let first = &mut snapshot.first;
    if !ledger.told.is_same(&log.entries) {
        naming::operator_lines(first, &mut findings).await?;
    }
    if ledger.wallets != around.wallets {
        naming::wallets_without_entries(first, &mut findings).await?;
    }
    let (entries, log_lines, log_head) = (ledger.entries, log.lines, log.head);
    Ok(AuditOutcome { since: None, findings, apps, checked: entries, entries, log_lines, log_head })
}

/// Compares the sums of each app: all changes together are what its wallets hold.
fn compare_sums(apps: &BTreeMap<String, AppTotals>, findings: &mut Findings) {
    for (app_id, AppTotals { free_balance, charge_balance, changes, .. }) in apps {
        let KindSums { free_change: free, charge_change: charge, .. } = changes.total();
        if (free, charge) != (*free_balance, *charge_balance) {
            findings.add(Check::Sums, app_id, "all wallets", || {
                format!(
                    "they hold free {free_balance}, charge {charge_balance}; \
                     the changes of its ledger are free {free}, charge {charge}"
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
    let mut ledger =
        Ledger { findings: Findings::default(), apps: BTreeMap::new(), wallets: 0, entries: 0, told: empty };
    let mut current: Option<WalletCheck> = None;
    // The entries of a wallet are together, and in their order.
    let select = format!(
        "SELECT {ENTRY_COLUMNS}, coalesce(a.app_id, 'app ' || e.app_no),
             coalesce(w.open_id, 'wallet ' || e.wallet_no),
             w.entry_count, w.free_balance, w.charge_balance, w.chain_hash
         FROM ledger_entries e
         LEFT JOIN wallets w ON w.app_no = e.app_no AND w.wallet_no = e.wallet_no
         LEFT JOIN apps a ON a.app_no = e.app_no
         WHERE e.seq IS NOT NULL ORDER BY e.app_no, e.wallet_no, e.seq"
    );
    let mut rows = Copied::of(connection, &select).await?;
    while let Some(mut row) = rows.next().await? {
        let (entry, stored) = row.entry()?;
        let names = (row.text()?, row.text()?);
        let mut check = match current.take() {
            Some(check) if check.is_of(&entry) => check,
            before => {
                ledger.end(before);
                let wallet = row.wallet_if_any()?;
                ledger.wallets += u64::from(wallet.is_some_and(|wallet| !wallet.is_empty()));
                WalletCheck::new(names, (entry.app_no, entry.wallet_no), Standing::EMPTY, wallet)
            }
        };
        check.entry(&entry, stored, &mut ledger.findings);
        if entry.reference.starts_with(REF_MARK) {
            ledger.told.add(&log::told(&entry, &check));
        }
        current = Some(check);
        ledger.entries += 1;
        meter.row(ledger.entries);
    }
    ledger.end(current);
    Ok(ledger)
}

impl Ledger {
    fn end(&mut self, check: Option<WalletCheck>) {
        let Some(check) = check else { return };
        let app = check.app_id().to_owned();
        let sums = check.end(&mut self.findings);
        self.apps.entry(app).or_default().merge(&sums);
    }
}

async fn read_surroundings(
    connection: &mut PgConnection,
    empty: RecordSet,
    meter: &Arc<Meter>,
) -> Result<Surroundings, AuditError> {
    let log = log::read(connection, LogHead::START, empty, meter).await?;
    let findings = Findings::default();
    let mut around = Surroundings { findings, apps: BTreeMap::new(), wallets: 0, log };
    add_up_wallets(connection, &mut around).await?;
    items::check_all(connection, &mut around.findings).await?;
    cancels::check_all(connection, &mut around.findings).await?;
    Ok(around)
}

async fn add_up_wallets(connection: &mut PgConnection, around: &mut Surroundings) -> Result<(), AuditError> {
    let apps = sqlx::query!(
        r#"SELECT app_id AS "app_id!", count(*) AS "wallets!", sum(free_balance)::text AS "free!", sum(charge_balance)::text AS "charge!",
               count(*) FILTER (WHERE (free_balance, charge_balance, entry_count) <> (0, 0, 0)
                   OR chain_hash <> decode(repeat('00', 32), 'hex')) AS "with_entries!"
           FROM players GROUP BY app_id"#
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
            changes: Sums::default(),
        };
        around.wallets += count(app.with_entries);
        around.apps.insert(app.app_id, totals);
    }
    Ok(())
}
