//! Names the differences between ledger, operator's log and wallets. Its statements join whole tables, so
//! they run only when there is a difference.

use domain::audit::{Check, Findings};
use futures_util::TryStreamExt as _;
use sqlx::PgConnection;

use super::AuditError;
use crate::operator_log::OperatorAction;

/// Names differences between operators' entries and their lines in the operator's log. Returns whether there are any.
pub(super) async fn operator_lines(
    connection: &mut PgConnection,
    findings: &mut Findings,
) -> Result<bool, AuditError> {
    let before = findings.count();
    // A second line of the same entry has no entry. Numbers are compared as texts, because a damaged
    // state may hold any JSON.
    let actions = OperatorAction::OF_ENTRIES.map(|action| action.as_str().to_owned());
    let mut rows = sqlx::query!(
        r#"SELECT coalesce(e.app_id, l.app_id) AS "app_id!", e.open_id AS "open_id?", e.seq AS "seq?",
               coalesce(e.reference, l.reference) AS reference, l.seq AS "line?"
           FROM (SELECT p.app_id, p.open_id, substr(n.reference, 2) AS reference, n.seq, n.free_change,
                   n.charge_change, n.free_balance, n.charge_balance
               FROM numbers n JOIN players p ON p.app_no = n.app_no AND p.wallet_no = n.wallet_no
               WHERE n.reference LIKE '!%' AND n.seq IS NOT NULL) AS e
           FULL JOIN (SELECT *, row_number() OVER (PARTITION BY app_id, reference ORDER BY seq) AS copy FROM (
                   SELECT app_id, seq, subject AS open_id, after->>'ref' AS reference,
                       before->>'free_balance' AS free_before, before->>'charge_balance' AS charge_before,
                       after->>'free_balance' AS free, after->>'charge_balance' AS charge
                   FROM operator_log WHERE action = ANY ($1)
                   UNION ALL
                   SELECT m.app_id, m.seq, c->>0, c->>1, c->>2, c->>3, c->>4, c->>5
                   FROM operator_log m, json_array_elements(
                       CASE WHEN json_typeof(m.credits) = 'array' THEN m.credits END) AS c WHERE m.action = $2) AS told) AS l
               ON l.app_id = e.app_id AND l.open_id = e.open_id AND l.reference = e.reference AND l.copy = 1
               AND l.free_before = (e.free_balance::numeric - e.free_change)::text
               AND l.charge_before = (e.charge_balance::numeric - e.charge_change)::text
               AND l.free = e.free_balance::text AND l.charge = e.charge_balance::text
           WHERE e.app_id IS NULL OR l.app_id IS NULL"#,
        &actions,
        OperatorAction::WalletCredits.as_str()
    )
    .fetch(connection);
    while let Some(row) = rows.try_next().await? {
        let reference = shown(row.reference);
        if let (Some(open_id), Some(seq)) = (row.open_id, row.seq) {
            findings.add(Check::EntryWithoutLine, &row.app_id, &open_id, || {
                format!("entry {seq}: {reference} has no line in the operator log")
            });
        } else {
            findings.add(Check::LineWithoutEntry, &row.app_id, &reference, || {
                format!("line {} of the operator log: the ledger has no such entry", shown(row.line))
            });
        }
    }
    Ok(findings.count() > before)
}

/// Names wallets that are not empty and have no entries.
pub(super) async fn wallets_without_entries(
    connection: &mut PgConnection,
    findings: &mut Findings,
) -> Result<(), AuditError> {
    let mut rows = sqlx::query!(
        r#"SELECT w.app_id AS "app_id!", w.open_id AS "open_id!", w.free_balance AS "free_balance!",
               w.charge_balance AS "charge_balance!", w.entry_count AS "entry_count!" FROM players w
           WHERE ((w.free_balance, w.charge_balance, w.entry_count) <> (0, 0, 0)
                  OR w.chain_hash <> decode(repeat('00', 32), 'hex'))
             AND NOT EXISTS (
                 SELECT 1 FROM ledger_entries e WHERE e.app_no = w.app_no AND e.wallet_no = w.wallet_no AND e.seq IS NOT NULL)
             AND NOT EXISTS (
                 SELECT 1 FROM archived_standings s
                 WHERE s.app_no = w.app_no AND s.wallet_no = w.wallet_no
                   AND (s.seq, s.free_balance, s.charge_balance, s.chain_hash)
                       = (w.entry_count, w.free_balance, w.charge_balance, w.chain_hash))"#
    )
    .fetch(connection);
    while let Some(row) = rows.try_next().await? {
        findings.add(Check::NoEntries, &row.app_id, &row.open_id, || {
            format!(
                "the wallet holds free {}, charge {} after {} entries; there is none",
                row.free_balance, row.charge_balance, row.entry_count
            )
        });
    }
    Ok(())
}

/// Adds a finding about a difference that no row could be named for. Then the key of a table is damaged.
pub(super) fn unnamed(table: &str, findings: &mut Findings) {
    findings.add(Check::Count, "", table, || {
        "they are not those of the ledger, and a join finds no difference: check the indexes".to_owned()
    });
}

fn shown(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "?".to_owned(), |value| value.to_string())
}
