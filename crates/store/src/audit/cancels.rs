//! Checks the cancels: together they never exceed their exchange, and each gives back what the rule says. And the
//! closed numbers: none of them has changed a purse.

use domain::audit::{Cancel, CancelsCheck, Check, Findings};
use domain::wallet::{Paid, PayPriority};
use futures_util::TryStreamExt as _;
use sqlx::PgConnection;

use super::AuditError;

/// Checks the cancels of all exchanges, and the closed numbers.
pub(super) async fn check_all(
    connection: &mut PgConnection,
    findings: &mut Findings,
) -> Result<(), AuditError> {
    check(&mut *connection, None, findings).await?;
    let mut rows = sqlx::query!(
        r#"SELECT coalesce(a.app_id, 'app ' || e.app_no) AS "app_id!", e.reference AS "reference!", e.kind AS "kind!" FROM ledger_entries e
           LEFT JOIN apps a ON a.app_no = e.app_no
           WHERE (e.seq IS NULL OR e.kind IN ('closed', 'topup_order'))
               AND (CASE e.kind WHEN 'topup_order' THEN 'closed' ELSE e.kind END, e.seq IS NULL, e.chain_hash IS NULL,
               e.of_biz_no IS NULL, e.free_change, e.charge_change, e.free_balance, e.charge_balance)
               IS DISTINCT FROM ('closed', true, true, true, 0, 0, 0, 0)"#
    )
    .fetch(connection);
    while let Some(row) = rows.try_next().await? {
        findings.add(Check::Closed, &row.app_id, &row.reference, || {
            format!(
                "kind {}: expected a closed number or an order of a top-up, which has no sequence number and changes nothing",
                row.kind
            )
        });
    }
    Ok(())
}

/// Checks the cancels of these exchanges, by number of the app and `biz_no`.
pub(super) async fn check_some(
    connection: &mut PgConnection,
    exchanges: impl Iterator<Item = (i32, String)>,
    findings: &mut Findings,
) -> Result<(), AuditError> {
    let exchanges: (Vec<i32>, Vec<String>) = exchanges.unzip();
    if exchanges.0.is_empty() { Ok(()) } else { check(connection, Some(exchanges), findings).await }
}

async fn check(
    connection: &mut PgConnection,
    exchanges: Option<(Vec<i32>, Vec<String>)>,
    findings: &mut Findings,
) -> Result<(), AuditError> {
    let (app_nos, biz_nos) = exchanges.unzip();
    let mut rows = sqlx::query!(
        r#"SELECT coalesce(a.app_id, 'app ' || c.app_no) AS "app_id!", c.of_biz_no AS "of_biz_no!",
               c.reference AS "reference!", c.wallet_no AS "wallet_no!", c.seq, c.free_change AS "free_change!",
               c.charge_change AS "charge_change!", c.remaining,
               x.wallet_no AS "exchange_wallet_no?", x.seq AS "exchange_seq?", x.kind AS "exchange_kind?",
               x.pay_priority AS "pay_priority?", x.free_change AS "exchange_free?", x.charge_change AS "exchange_charge?"
           FROM numbers c
           LEFT JOIN numbers x ON x.app_no = c.app_no AND x.reference = c.of_biz_no
           LEFT JOIN apps a ON a.app_no = c.app_no
           WHERE c.of_biz_no IS NOT NULL AND ($1::integer[] IS NULL OR (c.app_no, c.of_biz_no) IN (
               SELECT * FROM unnest($1::integer[], $2::text[])))
           ORDER BY c.app_no, c.of_biz_no, c.remaining DESC, c.seq"#,
        app_nos.as_deref(),
        biz_nos.as_deref()
    )
    .fetch(connection);
    let mut current: Option<CancelsCheck> = None;
    while let Some(row) = rows.try_next().await? {
        let paid = || -> Option<(i64, i64, Paid)> {
            let pay_priority = PayPriority::from_code(row.pay_priority?)?;
            let (free, charge) = (row.exchange_free?.checked_neg()?, row.exchange_charge?.checked_neg()?);
            let is_exchange = row.exchange_kind.as_deref() == Some("exchange");
            let paid = Paid { free, charge, pay_priority };
            is_exchange.then_some((row.exchange_wallet_no?, row.exchange_seq?, paid))
        };
        let check = match current.take() {
            Some(check) if check.is_of(&row.app_id, &row.of_biz_no) => check,
            Some(_) | None => CancelsCheck::new(&row.app_id, &row.of_biz_no, paid()),
        };
        let cancel = Cancel {
            reference: &row.reference,
            wallet_no: row.wallet_no,
            seq: row.seq,
            free_change: row.free_change,
            charge_change: row.charge_change,
            remaining: row.remaining,
        };
        current.insert(check).cancel(cancel, findings);
    }
    Ok(())
}
