//! Reads what events tell of refunds and of debt.

use std::collections::HashMap;

use domain::event::{DebtData, EntryPurses, EventData, RefundData, RefusedRefundData};
use sqlx::PgConnection;

use crate::error::Result;

/// A refund that was carried out, with its payment.
pub(super) struct RefundEventRow {
    no: i64,
    provider: String,
    provider_order_id: String,
    refund_id: String,
    paid_biz_no: Option<String>,
    paid_product_id: String,
    currency: String,
    amount: i64,
    free_debt: i64,
    charge_debt: i64,
}

impl RefundEventRow {
    pub(super) fn data(self, (open_id, seq): (String, i64), purses: EntryPurses) -> RefundData {
        RefundData {
            open_id,
            seq,
            provider: self.provider,
            provider_order_id: self.provider_order_id,
            refund_id: self.refund_id,
            biz_no: self.paid_biz_no,
            product_id: self.paid_product_id,
            currency: self.currency,
            amount: self.amount,
            purses,
            free_debt: self.free_debt,
            charge_debt: self.charge_debt,
        }
    }
}

/// The refunds of ledger entries, by the numbers of their events.
pub(super) async fn read_refunds(
    connection: &mut PgConnection,
    app_no: i32,
    entries: &[(i64, i64, i64)],
) -> Result<HashMap<i64, RefundEventRow>> {
    if entries.is_empty() {
        return Ok(HashMap::new());
    }
    let column = |of: fn(&(i64, i64, i64)) -> i64| entries.iter().map(of).collect::<Vec<_>>();
    let rows = sqlx::query_as!(
        RefundEventRow,
        r#"SELECT k.no AS "no!", r.provider, r.provider_order_id, r.refund_id, p.paid_biz_no,
               p.paid_product_id AS "paid_product_id!", p.currency, r.amount, r.free_debt AS "free_debt!",
               r.charge_debt AS "charge_debt!"
           FROM unnest($2::bigint[], $3::bigint[], $4::bigint[]) AS k (no, wallet_no, seq)
           JOIN topup_refunds r ON r.app_no = $1 AND r.wallet_no = k.wallet_no AND r.seq = k.seq
           JOIN topup_payments p ON p.app_no = $1 AND p.provider = r.provider AND p.provider_order_id = r.provider_order_id"#,
        app_no,
        &column(|entry| entry.0),
        &column(|entry| entry.1),
        &column(|entry| entry.2)
    );
    Ok(rows.fetch_all(connection).await?.into_iter().map(|row| (row.no, row)).collect())
}

/// Refunds that came before their payment and do not fit it.
pub(super) async fn read_refused(
    connection: &mut PgConnection,
    refunds: &[(i64, &str, &str)],
    told: &mut HashMap<i64, EventData>,
) -> Result<()> {
    // Provider and refund have no slash, the provider's id of the payment may.
    let rows = sqlx::query!(
        r#"SELECT k.no AS "no!", r.provider, r.provider_order_id, r.refund_id, r.amount
           FROM unnest($1::bigint[], $2::text[], $3::text[]) AS k (no, app_id, refund)
           JOIN apps a ON a.app_id = k.app_id
           JOIN topup_refunds r ON r.app_no = a.app_no AND r.provider = split_part(k.refund, '/', 1)
               AND r.provider_order_id = substring(k.refund FROM '^[^/]*/(.*)/[^/]*$')
               AND r.refund_id = substring(k.refund FROM '[^/]*$')"#,
        &refunds.iter().map(|refund| refund.0).collect::<Vec<_>>(),
        &refunds.iter().map(|refund| refund.1.to_owned()).collect::<Vec<_>>(),
        &refunds.iter().map(|refund| refund.2.to_owned()).collect::<Vec<_>>()
    );
    for row in rows.fetch_all(connection).await? {
        let data = RefusedRefundData {
            provider: row.provider,
            provider_order_id: row.provider_order_id,
            refund_id: row.refund_id,
            amount: row.amount,
        };
        told.insert(row.no, EventData::RefusedRefund(data));
    }
    Ok(())
}

/// Changes of debt: the refund or the settlement of each, with the wallet's debt right after it.
pub(super) async fn read_debts(
    connection: &mut PgConnection,
    app_id: &str,
    debts: &[(i64, i64, i64)],
    told: &mut HashMap<i64, EventData>,
) -> Result<()> {
    let column = |of: fn(&(i64, i64, i64)) -> i64| debts.iter().map(of).collect::<Vec<_>>();
    let rows = sqlx::query!(
        r#"SELECT k.no AS "no!", w.open_id, e.seq AS "seq!", e.free_change, e.charge_change, e.free_balance, e.charge_balance,
               coalesce(r.wallet_free_debt, s.wallet_free_debt) AS "free_debt!",
               coalesce(r.wallet_charge_debt, s.wallet_charge_debt) AS "charge_debt!"
           FROM apps a CROSS JOIN unnest($2::bigint[], $3::bigint[], $4::bigint[]) AS k (no, wallet_no, seq)
           JOIN ledger_entries e ON e.app_no = a.app_no AND e.wallet_no = k.wallet_no AND e.seq = k.seq
           JOIN wallets w ON w.app_no = a.app_no AND w.wallet_no = k.wallet_no
           LEFT JOIN topup_refunds r ON r.app_no = a.app_no AND r.wallet_no = k.wallet_no AND r.seq = k.seq
           LEFT JOIN topup_settlements s ON s.app_no = a.app_no AND s.wallet_no = k.wallet_no AND s.seq = k.seq
           WHERE a.app_id = $1 AND (r.seq IS NOT NULL OR s.seq IS NOT NULL)"#,
        app_id,
        &column(|debt| debt.0),
        &column(|debt| debt.1),
        &column(|debt| debt.2)
    );
    for row in rows.fetch_all(connection).await? {
        let data = DebtData {
            open_id: row.open_id,
            seq: row.seq,
            purses: EntryPurses {
                free_change: row.free_change,
                charge_change: row.charge_change,
                free_balance: row.free_balance,
                charge_balance: row.charge_balance,
            },
            free_debt: row.free_debt,
            charge_debt: row.charge_debt,
        };
        told.insert(row.no, EventData::Debt(data));
    }
    Ok(())
}
