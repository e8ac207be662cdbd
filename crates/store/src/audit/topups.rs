//! Compares the payments of top-ups with the ledger: each payment that was credited has its entry, and each entry of a top-up
//! has its payment. And with what was ordered: player, product, currency, amount and coins are those of the order, or of a
//! price that the app had.

use std::time::Duration;

use domain::audit::{Check, Findings, WalletCheck};
use domain::ledger::{LedgerEntry, TOPUP_MARK};
use domain::record_set::{RecordLine, RecordSet};
use futures_util::TryStreamExt as _;
use sqlx::PgConnection;
use time::OffsetDateTime;

use super::AuditError;

/// The line of an entry in the set that is compared with the payments, the refunds and the settlements. The latter two keep
/// their marks.
pub(super) fn entry_line<'a>(entry: &LedgerEntry<'a>, check: &'a WalletCheck) -> RecordLine<'a> {
    RecordLine {
        app_id: check.app_id(),
        number: entry.reference.strip_prefix(TOPUP_MARK).unwrap_or(entry.reference),
        open_id: check.open_id(),
        balances: [entry.free_change, entry.charge_change, entry.seq, entry.at],
    }
}

/// Adds the archived entries of top-ups, refunds and settlements.
pub(super) async fn add_archived(
    connection: &mut PgConnection,
    entries: &mut RecordSet,
) -> Result<(), AuditError> {
    let mut rows = sqlx::query!(
        r#"SELECT p.app_id AS "app_id!", p.open_id AS "open_id!", CASE e.kind WHEN 'topup' THEN substr(e.reference, 2) ELSE e.reference END AS "number!", e.free_change,
               e.charge_change, coalesce(e.seq, 0) AS "seq!",
               ((extract(epoch FROM e.at) - 946684800) * 1000000)::bigint AS "at!"
           FROM archived_entries e JOIN players p ON p.app_no = e.app_no AND p.wallet_no = e.wallet_no
           WHERE e.kind IN ('topup', 'refund', 'settlement')"#
    )
    .fetch(connection);
    while let Some(row) = rows.try_next().await? {
        entries.add(&RecordLine {
            app_id: &row.app_id,
            number: &row.number,
            open_id: &row.open_id,
            balances: [row.free_change, row.charge_change, row.seq, row.at],
        });
    }
    Ok(())
}

/// Adds the payments that were credited, and compares each with what was ordered.
pub(super) async fn read(
    connection: &mut PgConnection,
    payments: &mut RecordSet,
    findings: &mut Findings,
) -> Result<(), AuditError> {
    let mut rows = sqlx::query!(
        r#"SELECT coalesce(w.app_id, 'app ' || p.app_no) AS "app_id!",
               coalesce(w.open_id, 'wallet ' || p.wallet_no) AS "open_id!",
               p.provider || '/' || p.provider_order_id AS "number!", coalesce(p.bonus, 0) AS "bonus!",
               coalesce(p.charge, 0) AS "charge!", coalesce(p.seq, 0) AS "seq!",
               ((extract(epoch FROM p.credited_at) - 946684800) * 1000000)::bigint AS "at!",
               CASE WHEN p.paid_biz_no IS NULL THEN EXISTS (
                       SELECT 1 FROM topup_prices l WHERE l.app_no = p.app_no AND l.product_id = p.paid_product_id
                           AND (l.charge, l.bonus) = (p.charge, p.bonus)
                           AND (p.reason IS NOT NULL OR (l.currency, l.amount) = (p.currency, p.amount)))
                   ELSE EXISTS (
                       SELECT 1 FROM numbers n JOIN items i ON i.app_no = n.app_no AND i.item_id = n.item_id
                       WHERE n.app_no = p.app_no AND n.reference = p.paid_biz_no AND n.kind = 'topup_order'
                           AND n.wallet_no = p.wallet_no AND i.product_name = p.paid_product_id
                           AND i.product_info LIKE format(
                               '{"amount":%s,"bonus":%s,"charge":%s,"currency":"%s","ttl":%%',
                               CASE WHEN p.reason IS NULL THEN p.amount::text ELSE '%' END, p.bonus, p.charge,
                               CASE WHEN p.reason IS NULL THEN p.currency ELSE '%' END)) END AS "fits!"
           FROM topup_payments p LEFT JOIN players w ON w.app_no = p.app_no AND w.wallet_no = p.wallet_no
           WHERE p.state = 'paid'"#
    )
    .fetch(connection);
    while let Some(row) = rows.try_next().await? {
        payments.add(&RecordLine {
            app_id: &row.app_id,
            number: &row.number,
            open_id: &row.open_id,
            balances: [row.bonus, row.charge, row.seq, row.at],
        });
        if !row.fits {
            findings.add(Check::Topup, &row.app_id, &row.number, || {
                format!(
                    "{} charged and {} gifted coins: no order and no price of the app has them",
                    row.charge, row.bonus
                )
            });
        }
    }
    Ok(())
}

/// Names payments without their entries, and entries without their payments. It joins whole tables.
pub(super) async fn name(connection: &mut PgConnection, findings: &mut Findings) -> Result<(), AuditError> {
    let mut rows = sqlx::query!(
        r#"SELECT coalesce(w.app_id, 'app ' || coalesce(e.app_no, p.app_no)) AS "app_id!",
               coalesce(substr(e.reference, 2), p.number) AS "number!", e.seq AS "entry?", p.number IS NOT NULL AS "is_told!"
           FROM (SELECT app_no, wallet_no, seq, reference, free_change, charge_change, at FROM numbers WHERE kind = 'topup') e
           FULL JOIN (SELECT app_no, wallet_no, seq, provider || '/' || provider_order_id AS number, bonus, charge, credited_at
               FROM topup_payments WHERE state = 'paid') p ON p.app_no = e.app_no AND e.reference = '$' || p.number
           LEFT JOIN players w ON w.app_no = coalesce(e.app_no, p.app_no) AND w.wallet_no = coalesce(e.wallet_no, p.wallet_no)
           WHERE (e.wallet_no, e.seq, e.free_change, e.charge_change, e.at)
               IS DISTINCT FROM (p.wallet_no, p.seq, p.bonus, p.charge, p.credited_at)
           ORDER BY 1, 2"#
    )
    .fetch(connection);
    while let Some(row) = rows.try_next().await? {
        findings.add(Check::Topup, &row.app_id, &row.number, || match (row.entry, row.is_told) {
            (Some(entry), false) => format!("entry {entry} of the ledger has no payment"),
            (None, _) => "the ledger has no entry of this payment".to_owned(),
            (Some(entry), true) => format!("entry {entry} of the ledger is not what the payment tells"),
        });
    }
    Ok(())
}

/// What the times of two sessions may differ by, and how long a transaction may take.
const OVERLAP: Duration = Duration::from_mins(5);

/// Names payments since a checkpoint without their entries, and new entries without their payments.
pub(super) async fn check_since(
    connection: &mut PgConnection,
    since: OffsetDateTime,
    entries: Vec<(i32, String)>,
    findings: &mut Findings,
) -> Result<(), AuditError> {
    let (app_nos, references): (Vec<i32>, Vec<String>) = entries.into_iter().unzip();
    let without_payment = sqlx::query!(
        r#"SELECT w.app_id AS "app_id!", substr(e.reference, 2) AS "number!", e.seq AS "seq!"
           FROM unnest($1::integer[], $2::text[]) AS k (app_no, reference)
           JOIN ledger_entries e ON e.app_no = k.app_no AND e.reference = k.reference
           JOIN players w ON w.app_no = e.app_no AND w.wallet_no = e.wallet_no
           LEFT JOIN topup_payments p ON p.app_no = e.app_no AND p.provider = split_part(substr(e.reference, 2), '/', 1)
               AND p.provider_order_id = substr(e.reference, strpos(e.reference, '/') + 1)
           WHERE (e.wallet_no, e.seq, e.free_change, e.charge_change, e.at)
               IS DISTINCT FROM (p.wallet_no, p.seq, p.bonus, p.charge, p.credited_at)"#,
        &app_nos,
        &references
    );
    for row in without_payment.fetch_all(&mut *connection).await? {
        findings.add(Check::Topup, &row.app_id, &row.number, || {
            format!("entry {} of the ledger has no payment that tells the same", row.seq)
        });
    }
    let without_entry = sqlx::query!(
        r#"SELECT a.app_id AS "app_id!", p.provider || '/' || p.provider_order_id AS "number!"
           FROM topup_payments p JOIN apps a ON a.app_no = p.app_no
           WHERE p.state = 'paid' AND p.credited_at >= $1 AND NOT EXISTS (
               SELECT 1 FROM numbers n WHERE n.app_no = p.app_no
                   AND n.reference = '$' || p.provider || '/' || p.provider_order_id AND n.kind = 'topup')"#,
        since - OVERLAP
    );
    for row in without_entry.fetch_all(connection).await? {
        findings.add(Check::Topup, &row.app_id, &row.number, || {
            "the ledger has no entry of this payment".to_owned()
        });
    }
    Ok(())
}
