//! The full audit. One session streams the ledger in the order of its key, each entry with its
//! wallet's row. The other session reads the operator's log, adds up the wallets and checks the items. On Citus that
//! happens node by node.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use domain::audit::{Check, Findings, KindSums, Sums, WalletAfterEntry, WalletCheck};
use domain::ledger::{REF_MARK, REFUND_MARKS, TOPUP_MARK};
use domain::operator_log::LogHead;
use domain::record_set::RecordSet;
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection as _, PgConnection};

use super::copy_reader::{Copied, ENTRY_COLUMNS};
use super::events::ToldEntries;
use super::items::ErasedItems;
use super::log;
use super::nodes::NodeSnapshot;
use super::{
    AppTotals, AuditError, AuditOutcome, Meter, Snapshot, archived, begin, cancels, details, events, items,
    refunds, states, topups,
};
use crate::books::compare_closed;
use crate::error::{Result, StoreError};
use crate::secrets::random_bytes;

/// How often an audit on Citus looks again for a line of the operator's log or its entry, with pauses of a second.
const LOOKS: u32 = 5;

/// What the ledger contains.
struct Ledger {
    findings: Findings,
    apps: BTreeMap<String, Sums>,
    /// Number of wallets with entries that were not archived.
    wallets: u64,
    entries: u64,
    /// Number of archived entries.
    archived: u64,
    /// The operators' entries that the operator's log must tell of.
    told: RecordSet,
    /// The entries that events must tell of.
    events: ToldEntries,
    /// The entries that payments must tell of.
    topups: RecordSet,
}

/// What is about money besides.
#[derive(Default)]
struct Surroundings {
    findings: Findings,
    apps: BTreeMap<String, AppTotals>,
    /// Number of wallets that are not empty.
    wallets: u64,
    erased: ErasedItems,
    /// The payments that were credited. `None` until the first is added.
    topups: Option<RecordSet>,
}

/// Audits everything.
pub(super) async fn audit(snapshot: &mut Snapshot) -> Result<AuditOutcome, AuditError> {
    let empty = RecordSet::new(&random_bytes());
    let Snapshot { first, second, nodes, meter, .. } = snapshot;
    // The nodes have no snapshot in common, so there an event may be newer than its entry seems, or older.
    let since = if nodes.is_empty() { events::since(second).await? } else { None };
    let mut told_events = ToldEntries::new(empty.clone(), since);
    let mut ledger = Ledger::new(empty.clone(), told_events.clone());
    let mut around = Surroundings {
        erased: items::erased(second).await?,
        topups: Some(empty.clone()),
        ..Surroundings::default()
    };
    let log = if nodes.is_empty() {
        let surroundings = async {
            let log = log::read(&mut *second, LogHead::START, empty, meter).await?;
            states::compare(second, &mut around.findings).await?;
            events::read(second, &mut told_events, &mut around.findings).await?;
            read_surroundings(second, &mut around).await.map(|()| log)
        };
        let books = async {
            read_books(&mut *first, &mut ledger, meter).await?;
            archived::compare_numbers(first, &mut ledger.findings).await?;
            Ok(compare_closed(first, &mut ledger.findings).await?)
        };
        tokio::try_join!(books, surroundings)?.1
    } else {
        for node in &mut *nodes {
            tokio::try_join!(
                read_books(&mut node.first, &mut ledger, meter),
                read_surroundings(&mut node.second, &mut around),
            )?;
        }
        states::compare(second, &mut around.findings).await?;
        compare_closed(second, &mut around.findings).await?;
        log::read(second, LogHead::START, empty, meter).await?
    };
    let mut findings = ledger.findings;
    if around.topups.is_none_or(|topups| !ledger.topups.is_same(&topups)) {
        name_topups(first, nodes, &mut findings).await?;
    }
    findings.merge(around.findings);
    findings.merge(log.findings);
    let mut apps = around.apps;
    for (app_id, sums) in &ledger.apps {
        apps.entry(app_id.clone()).or_default().changes = sums.clone();
    }
    compare_sums(&apps, &mut findings);
    events::compare(second, (&ledger.events, &told_events), &mut findings).await?;
    if !ledger.told.is_same(&log.entries) {
        if !nodes.is_empty() {
            name_lasting(&snapshot.coordinator, &mut findings).await?;
        } else if !details::operator_lines(first, &mut findings).await? {
            details::unnamed("operator_log", &mut findings);
        }
    }
    if ledger.wallets != around.wallets {
        name_wallets(first, nodes, &mut findings).await?;
    }
    Ok(AuditOutcome {
        since: None,
        findings,
        apps,
        checked: ledger.entries,
        archived: ledger.archived,
        entries: ledger.entries + ledger.archived,
        log_lines: log.lines,
        log_head: log.head,
    })
}

/// Names wallets without entries.
async fn name_wallets(
    first: &mut PgConnection,
    nodes: &mut [NodeSnapshot],
    findings: &mut Findings,
) -> Result<(), AuditError> {
    if nodes.is_empty() {
        details::wallets_without_entries(first, findings).await?;
    }
    for node in nodes {
        details::wallets_without_entries(&mut node.first, findings).await?;
    }
    Ok(())
}

/// Names payments, refunds and settlements without their entries, and entries without them.
async fn name_topups(
    first: &mut PgConnection,
    nodes: &mut [NodeSnapshot],
    findings: &mut Findings,
) -> Result<(), AuditError> {
    if nodes.is_empty() {
        topups::name(first, findings).await?;
        return refunds::name(first, findings).await;
    }
    for node in nodes {
        topups::name(&mut node.first, findings).await?;
        refunds::name(&mut node.first, findings).await?;
    }
    Ok(())
}

/// Names differences between ledger and operator's log that last. The nodes have no snapshot in common, so an entry may
/// be newer than its line seems, or older.
async fn name_lasting(coordinator: &PgConnectOptions, findings: &mut Findings) -> Result<(), AuditError> {
    let mut found = Findings::default();
    for look in 0..LOOKS {
        if look > 0 {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let mut session = begin(coordinator, "").await?;
        found = Findings::default();
        let differs = details::operator_lines(&mut session, &mut found).await?;
        let _ = session.close().await;
        if !differs {
            return Ok(());
        }
    }
    findings.merge(found);
    Ok(())
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

async fn read_books(
    connection: &mut PgConnection,
    ledger: &mut Ledger,
    meter: &Arc<Meter>,
) -> Result<(), AuditError> {
    read_ledger(connection, ledger, meter).await?;
    let archived = archived::check(connection, &mut ledger.told, &mut ledger.findings).await?;
    topups::add_archived(connection, &mut ledger.topups).await?;
    for (app_id, sums) in archived {
        ledger.archived += sums.total().entries;
        ledger.apps.entry(app_id).or_default().merge(&sums);
    }
    Ok(())
}

async fn read_ledger(
    connection: &mut PgConnection,
    ledger: &mut Ledger,
    meter: &Arc<Meter>,
) -> Result<(), AuditError> {
    let mut current: Option<WalletCheck> = None;
    // The entries of a wallet are together, and in their order.
    let select = format!(
        "SELECT {ENTRY_COLUMNS}, coalesce(a.app_id, 'app ' || e.app_no),
             coalesce(w.open_id, 'wallet ' || e.wallet_no),
             s.seq, s.free_balance, s.charge_balance, s.chain_hash,
             w.entry_count, w.free_balance, w.charge_balance, w.chain_hash
         FROM ledger_entries e
         LEFT JOIN wallets w ON w.app_no = e.app_no AND w.wallet_no = e.wallet_no
         LEFT JOIN archived_standings s ON s.app_no = e.app_no AND s.wallet_no = e.wallet_no
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
                let from = row.standing_if_any()?.unwrap_or(WalletAfterEntry::EMPTY);
                let wallet = row.wallet_if_any()?;
                ledger.wallets += u64::from(wallet.is_some_and(|wallet| !wallet.is_empty()));
                WalletCheck::new(names, (entry.app_no, entry.wallet_no), from, wallet)
            }
        };
        check.entry(&entry, stored, &mut ledger.findings);
        ledger.events.add(check.app_id(), &entry);
        if entry.reference.starts_with(REF_MARK) {
            ledger.told.add(&log::told(&entry, &check));
        }
        if entry.reference.starts_with(TOPUP_MARK) || entry.reference.starts_with(REFUND_MARKS) {
            ledger.topups.add(&topups::entry_line(&entry, &check));
        }
        current = Some(check);
        ledger.entries += 1;
        meter.row(ledger.entries);
    }
    ledger.end(current);
    Ok(())
}

impl Ledger {
    fn new(told: RecordSet, events: ToldEntries) -> Self {
        Self {
            findings: Findings::default(),
            apps: BTreeMap::new(),
            wallets: 0,
            entries: 0,
            archived: 0,
            topups: told.clone(),
            told,
            events,
        }
    }

    fn end(&mut self, check: Option<WalletCheck>) {
        let Some(check) = check else { return };
        let app = check.app_id().to_owned();
        let sums = check.end(&mut self.findings);
        self.apps.entry(app).or_default().merge(&sums);
    }
}

async fn read_surroundings(
    connection: &mut PgConnection,
    around: &mut Surroundings,
) -> Result<(), AuditError> {
    add_up_wallets(connection, around).await?;
    items::check_all(connection, &around.erased, &mut around.findings).await?;
    if let Some(topups) = &mut around.topups {
        topups::read(connection, topups, &mut around.findings).await?;
        refunds::read(connection, topups, &mut around.findings).await?;
    }
    cancels::check_all(connection, &mut around.findings).await
}

async fn add_up_wallets(connection: &mut PgConnection, around: &mut Surroundings) -> Result<(), AuditError> {
    let apps = sqlx::query!(
        r#"SELECT app_id AS "app_id!", count(*) AS "wallets!", sum(free_balance)::text AS "free!", sum(charge_balance)::text AS "charge!",
               count(*) FILTER (WHERE NOT is_archived AND ((free_balance, charge_balance, entry_count) <> (0, 0, 0)
                   OR chain_hash <> decode(repeat('00', 32), 'hex'))) AS "with_entries!"
           FROM (SELECT p.*, s.seq IS NOT NULL AND (s.seq, s.free_balance, s.charge_balance, s.chain_hash)
                       = (p.entry_count, p.free_balance, p.charge_balance, p.chain_hash) AS is_archived
               FROM players p LEFT JOIN archived_standings s ON s.app_no = p.app_no AND s.wallet_no = p.wallet_no) p
           GROUP BY app_id"#
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
