//! Checks what stays of archived entries: of each wallet it adds up to the state that the ledger goes on from. Their
//! files have the rest (`minitill archive verify`).

use std::collections::BTreeMap;

use domain::audit::{Check, Findings, KindSums, Sums};
use domain::ledger::ReferenceKind;
use domain::record_set::{RecordLine, RecordSet};
use futures_util::TryStreamExt as _;
use sqlx::PgConnection;

use super::AuditError;
use crate::error::StoreError;

/// Checks all archived entries and returns their sums by app. Adds the operators' entries to `told`.
pub(super) async fn check(
    connection: &mut PgConnection,
    told: &mut RecordSet,
    findings: &mut Findings,
) -> Result<BTreeMap<String, Sums>, AuditError> {
    compare_wallets(connection, findings).await?;
    add_operators(connection, told).await?;
    add_up(connection).await
}

/// Compares the numbers of all archived entries with those that were archived. A number that is gone or has another name
/// could take effect again. On Citus nothing is archived.
pub(super) async fn compare_numbers(
    connection: &mut PgConnection,
    findings: &mut Findings,
) -> Result<(), AuditError> {
    let mut rows = sqlx::query!(
        r#"SELECT a.app_id AS "app_id!", n.archive_no AS "archive_no?"
           FROM apps a
           LEFT JOIN LATERAL (
               SELECT archive_no, state, digest FROM archives WHERE app_id = a.app_id ORDER BY archive_no DESC LIMIT 1
           ) n ON true
           LEFT JOIN archived_digests d ON d.app_no = a.app_no
           WHERE n.state IS NULL AND d.digest IS NOT NULL
               OR n.state = 'kept' AND n.digest IS DISTINCT FROM coalesce(d.digest, 0)
           ORDER BY a.app_id"#
    )
    .fetch(connection);
    while let Some(row) = rows.try_next().await? {
        findings.add(Check::Archive, &row.app_id, "all numbers", || match row.archive_no {
            Some(_) => "they are not those that were archived; minitill archive verify names one".to_owned(),
            None => "there is no archive".to_owned(),
        });
    }
    Ok(())
}

async fn compare_wallets(connection: &mut PgConnection, findings: &mut Findings) -> Result<(), AuditError> {
    let mut rows = sqlx::query!(
        r#"SELECT coalesce(p.app_id, 'app ' || d.app_no) AS "app_id!",
               coalesce(p.open_id, 'wallet ' || d.wallet_no) AS "open_id!",
               coalesce(d.entries, 0) AS "entries!", coalesce(d.free, 0)::text AS "free!",
               coalesce(d.charge, 0)::text AS "charge!", d.seq, d.free_balance, d.charge_balance
           FROM (SELECT * FROM (
                   SELECT app_no, wallet_no, count(seq) AS entries, max(seq) AS last, sum(free_change) AS free,
                       sum(charge_change) AS charge
                   FROM archived_entries
                   WHERE (kind IN ('closed', 'topup_order'), seq IS NULL, free_change, charge_change) <> (true, true, 0, 0)
                   GROUP BY app_no, wallet_no) e
               FULL JOIN archived_standings s USING (app_no, wallet_no)
               WHERE (e.entries, e.last, e.free, e.charge)
                   IS DISTINCT FROM (s.seq, s.seq, s.free_balance, s.charge_balance)) d
           LEFT JOIN players p ON p.app_no = d.app_no AND p.wallet_no = d.wallet_no
           ORDER BY 1, 2"#
    )
    .fetch(connection);
    while let Some(row) = rows.try_next().await? {
        findings.add(Check::Archive, &row.app_id, &row.open_id, || {
            let kept = row.seq.zip(row.free_balance).zip(row.charge_balance).map_or_else(
                || "no state is kept".to_owned(),
                |((seq, free), charge)| format!("kept are free {free}, charge {charge} after {seq}"),
            );
            format!(
                "{} archived entries add up to free {}, charge {}; {kept}",
                row.entries, row.free, row.charge
            )
        });
    }
    Ok(())
}

async fn add_operators(connection: &mut PgConnection, told: &mut RecordSet) -> Result<(), AuditError> {
    let mut rows = sqlx::query!(
        r#"SELECT p.app_id AS "app_id!", p.open_id AS "open_id!", substr(e.reference, 2) AS "number!", e.free_change,
               e.charge_change, coalesce(e.free_balance, 0) AS "free_balance!",
               coalesce(e.charge_balance, 0) AS "charge_balance!"
           FROM archived_entries e JOIN players p ON p.app_no = e.app_no AND p.wallet_no = e.wallet_no
           WHERE e.reference LIKE '!%' AND e.seq IS NOT NULL"#
    )
    .fetch(connection);
    while let Some(row) = rows.try_next().await? {
        told.add(&RecordLine {
            app_id: &row.app_id,
            number: &row.number,
            open_id: &row.open_id,
            balances: [
                row.free_balance.wrapping_sub(row.free_change),
                row.charge_balance.wrapping_sub(row.charge_change),
                row.free_balance,
                row.charge_balance,
            ],
        });
    }
    Ok(())
}

async fn add_up(connection: &mut PgConnection) -> Result<BTreeMap<String, Sums>, AuditError> {
    let rows = sqlx::query!(
        r#"SELECT coalesce(a.app_id, 'app ' || e.app_no) AS "app_id!", e.kind AS "kind!", count(*) AS "entries!",
               sum(e.free_change)::text AS "free!", sum(e.charge_change)::text AS "charge!"
           FROM archived_entries e LEFT JOIN apps a ON a.app_no = e.app_no
           WHERE e.seq IS NOT NULL GROUP BY 1, 2"#
    )
    .fetch_all(connection)
    .await?;
    let damaged = || StoreError::damaged("archived_entries");
    let mut apps: BTreeMap<String, Sums> = BTreeMap::new();
    for row in rows {
        let kind = ReferenceKind::parse(&row.kind).unwrap_or(ReferenceKind::Exchange);
        let sums = KindSums {
            entries: u64::try_from(row.entries).unwrap_or_default(),
            free_change: row.free.parse().map_err(|_| damaged())?,
            charge_change: row.charge.parse().map_err(|_| damaged())?,
        };
        apps.entry(row.app_id).or_default().add_kind(kind, &sums);
    }
    Ok(apps)
}
