//! Compares refunds, settlements and debts with the payments, the ledger and each other (contract 19.5.10). The tables are
//! small beside the ledger, so all of them are read each time.

use domain::audit::{Check, Findings};
use domain::ledger::{REFUND_MARK, SETTLEMENT_MARK};
use domain::record_set::{RecordLine, RecordSet};
use futures_util::TryStreamExt as _;
use sqlx::PgConnection;

use super::AuditError;

/// Adds the refunds that took coins and the settlements to what entries must tell of, and checks both.
pub(super) async fn read(
    connection: &mut PgConnection,
    told: &mut RecordSet,
    findings: &mut Findings,
) -> Result<(), AuditError> {
    add(connection, told).await?;
    check(connection, findings).await
}

/// Compares refunds and settlements with their payments and each other.
async fn check(connection: &mut PgConnection, findings: &mut Findings) -> Result<(), AuditError> {
    check_refunds(connection, findings).await?;
    check_balances(connection, findings).await?;
    check_owed(connection, findings).await?;
    check_settlements(connection, findings).await?;
    check_debts(connection, findings).await
}

async fn add(connection: &mut PgConnection, told: &mut RecordSet) -> Result<(), AuditError> {
    let (refund, settlement) = (REFUND_MARK.to_string(), SETTLEMENT_MARK.to_string());
    let mut rows = sqlx::query!(
        r#"SELECT coalesce(w.app_id, 'app ' || t.app_no) AS "app_id!", coalesce(w.open_id, 'wallet ' || t.wallet_no) AS "open_id!",
               t.number AS "number!", t.free AS "free!", t.charge AS "charge!", t.seq AS "seq!",
               ((extract(epoch FROM t.at) - 946684800) * 1000000)::bigint AS "at!"
           FROM (
               SELECT app_no, wallet_no, seq, -free_taken AS free, -charge_taken AS charge, refunded_at AS at,
                   $1::text || provider || '/' || provider_order_id || '/' || refund_id AS number
               FROM topup_refunds WHERE wallet_no IS NOT NULL
               UNION ALL
               SELECT app_no, wallet_no, seq, -free_settled, -charge_settled, settled_at,
                   $2::text || provider || '/' || provider_order_id
               FROM topup_settlements) t
           LEFT JOIN players w ON w.app_no = t.app_no AND w.wallet_no = t.wallet_no"#,
        refund,
        settlement
    )
    .fetch(connection);
    while let Some(row) = rows.try_next().await? {
        told.add(&RecordLine {
            app_id: &row.app_id,
            number: &row.number,
            open_id: &row.open_id,
            balances: [row.free, row.charge, row.seq, row.at],
        });
    }
    Ok(())
}

/// Each refund is of a payment, of its wallet, and owes its share, in the order of the entries. Together they never
/// exceed the payment, and none waits for what was credited.
async fn check_refunds(connection: &mut PgConnection, findings: &mut Findings) -> Result<(), AuditError> {
    let mut rows = sqlx::query!(
        r#"WITH refunds AS (
               SELECT r.*, p.wallet_no AS paid_to, p.state AS payment, p.amount AS paid, p.charge, p.bonus,
                   sum(r.amount) FILTER (WHERE r.state = 'refunded') OVER (
                       PARTITION BY r.app_no, r.provider, r.provider_order_id) AS in_all,
                   coalesce(sum(r.amount) FILTER (WHERE r.seq IS NOT NULL) OVER (
                       PARTITION BY r.app_no, r.provider, r.provider_order_id ORDER BY r.seq NULLS LAST, r.created_at, r.refund_id
                       ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW), 0) AS until
               FROM topup_refunds r LEFT JOIN topup_payments p USING (app_no, provider, provider_order_id)
           )
           SELECT a.app_id AS "app_id!", r.provider || '/' || r.provider_order_id || '/' || r.refund_id AS "number!",
               CASE WHEN r.state = 'refunded' AND r.payment IS NULL THEN 'there is no payment of it'
                   WHEN r.in_all > r.paid THEN 'the refunds exceed the payment'
                   WHEN r.state = 'waiting' AND r.payment <> 'unmatched' THEN 'it waits for a payment that is ' || r.payment
                   WHEN r.state = 'refunded' AND r.payment = 'unmatched' THEN 'it was carried out before the payment'
                   WHEN r.wallet_no IS DISTINCT FROM r.paid_to AND r.state = 'refunded'
                       THEN 'the wallet is not that of the payment'
                   ELSE 'the coins are not its share of the payment' END AS "what!"
           FROM refunds r JOIN apps a ON a.app_no = r.app_no
           WHERE r.state = 'refunded' AND r.payment IS NULL
               OR r.in_all > r.paid
               OR r.state = 'waiting' AND r.payment <> 'unmatched'
               OR r.state = 'refunded' AND r.payment = 'unmatched'
               OR r.state = 'refunded' AND r.wallet_no IS DISTINCT FROM r.paid_to
               OR r.wallet_no IS NOT NULL AND (r.free_taken + r.free_debt, r.charge_taken + r.charge_debt) IS DISTINCT FROM (
                   div(r.bonus::numeric * r.until, r.paid) - div(r.bonus::numeric * (r.until - r.amount), r.paid),
                   div(r.charge::numeric * r.until, r.paid) - div(r.charge::numeric * (r.until - r.amount), r.paid))
           ORDER BY 1, 2"#
    )
    .fetch(connection);
    while let Some(row) = rows.try_next().await? {
        findings.add(Check::Refund, &row.app_id, &row.number, || row.what);
    }
    Ok(())
}

/// The purses that a refund tells are those of its entry. Archived entries keep no purses.
async fn check_balances(connection: &mut PgConnection, findings: &mut Findings) -> Result<(), AuditError> {
    let mut rows = sqlx::query!(
        r#"SELECT a.app_id AS "app_id!", r.provider || '/' || r.provider_order_id || '/' || r.refund_id AS "number!", r.seq AS "seq!"
           FROM topup_refunds r JOIN apps a ON a.app_no = r.app_no
           JOIN ledger_entries e ON e.app_no = r.app_no AND e.wallet_no = r.wallet_no AND e.seq = r.seq
           WHERE (r.free_balance, r.charge_balance) IS DISTINCT FROM (e.free_balance, e.charge_balance)
           ORDER BY 1, 2"#
    )
    .fetch(connection);
    while let Some(row) = rows.try_next().await? {
        findings.add(Check::Refund, &row.app_id, &row.number, || {
            format!("the purses that it tells are not those of entry {}", row.seq)
        });
    }
    Ok(())
}

/// What refunds still owe is what they left less what was settled, oldest first.
async fn check_owed(connection: &mut PgConnection, findings: &mut Findings) -> Result<(), AuditError> {
    let mut rows = sqlx::query!(
        r#"WITH settled AS (
               SELECT app_no, wallet_no, sum(free_settled) AS free, sum(charge_settled) AS charge FROM topup_settlements
               GROUP BY app_no, wallet_no
           ), debts AS (
               SELECT r.*, coalesce(s.free, 0) AS free_settled, coalesce(s.charge, 0) AS charge_settled,
                   sum(free_debt) OVER older AS free_until, sum(charge_debt) OVER older AS charge_until
               FROM topup_refunds r LEFT JOIN settled s USING (app_no, wallet_no) WHERE wallet_no IS NOT NULL
               WINDOW older AS (PARTITION BY r.app_no, r.wallet_no ORDER BY r.seq)
           )
           SELECT a.app_id AS "app_id!", d.provider || '/' || d.provider_order_id || '/' || d.refund_id AS "number!",
               d.free_owed AS "free!", d.charge_owed AS "charge!"
           FROM debts d JOIN apps a ON a.app_no = d.app_no
           WHERE (d.free_owed, d.charge_owed) IS DISTINCT FROM (
               least(greatest(d.free_until - d.free_settled, 0), d.free_debt),
               least(greatest(d.charge_until - d.charge_settled, 0), d.charge_debt))
           ORDER BY 1, 2"#
    )
    .fetch(connection);
    while let Some(row) = rows.try_next().await? {
        findings.add(Check::Debt, &row.app_id, &row.number, || {
            format!(
                "it owes {} gifted and {} charged coins; the settlements leave others",
                row.free, row.charge
            )
        });
    }
    Ok(())
}

/// Each settlement is of a top-up of its wallet, right behind it, and takes as much as that brought and was owed.
async fn check_settlements(connection: &mut PgConnection, findings: &mut Findings) -> Result<(), AuditError> {
    let mut rows = sqlx::query!(
        r#"SELECT a.app_id AS "app_id!", s.provider || '/' || s.provider_order_id AS "number!", s.seq AS "seq!"
           FROM topup_settlements s JOIN apps a ON a.app_no = s.app_no
           LEFT JOIN topup_payments p ON p.app_no = s.app_no AND p.provider = s.provider
               AND p.provider_order_id = s.provider_order_id
           WHERE (p.wallet_no, p.seq) IS DISTINCT FROM (s.wallet_no, s.seq - 1)
               OR s.free_settled > p.bonus OR s.charge_settled > p.charge
               OR s.free_settled < p.bonus AND s.wallet_free_debt > 0
               OR s.charge_settled < p.charge AND s.wallet_charge_debt > 0
           ORDER BY 1, 2"#
    )
    .fetch(connection);
    while let Some(row) = rows.try_next().await? {
        findings.add(Check::Settlement, &row.app_id, &row.number, || {
            format!("entry {} is not what its top-up had to settle", row.seq)
        });
    }
    Ok(())
}

/// The debt of a wallet after each refund and settlement is the debt before, and what that one added or settled.
async fn check_debts(connection: &mut PgConnection, findings: &mut Findings) -> Result<(), AuditError> {
    let mut rows = sqlx::query!(
        r#"WITH steps AS (
               SELECT app_no, wallet_no, seq, free_debt AS free, charge_debt AS charge, wallet_free_debt, wallet_charge_debt
               FROM topup_refunds WHERE wallet_no IS NOT NULL
               UNION ALL
               SELECT app_no, wallet_no, seq, -free_settled, -charge_settled, wallet_free_debt, wallet_charge_debt
               FROM topup_settlements
           ), sums AS (
               SELECT *, sum(free) OVER before AS free_sum, sum(charge) OVER before AS charge_sum FROM steps
               WINDOW before AS (PARTITION BY app_no, wallet_no ORDER BY seq)
           )
           SELECT a.app_id AS "app_id!", coalesce(w.open_id, 'wallet ' || s.wallet_no) AS "open_id!", s.seq AS "seq!"
           FROM sums s JOIN apps a ON a.app_no = s.app_no
           LEFT JOIN players w ON w.app_no = s.app_no AND w.wallet_no = s.wallet_no
           WHERE (s.free_sum, s.charge_sum) IS DISTINCT FROM (s.wallet_free_debt, s.wallet_charge_debt)
           ORDER BY 1, 2, 3"#
    )
    .fetch(connection);
    while let Some(row) = rows.try_next().await? {
        findings.add(Check::Debt, &row.app_id, &row.open_id, || {
            format!("the debt after entry {} does not follow from what was refunded and settled", row.seq)
        });
    }
    Ok(())
}

/// Selects from `told`: the rows of refunds that took coins and of settlements, as entries of the ledger. `$rest` follows
/// `told`.
macro_rules! of_told {
    ($rest:literal $(, $parameter:expr)*) => {
        sqlx::query!(
            r#"WITH told AS (
                   SELECT app_no, wallet_no, seq, 'refund' AS kind, -free_taken AS free, -charge_taken AS charge,
                       refunded_at AS at, '%' || provider || '/' || provider_order_id || '/' || refund_id AS reference
                   FROM topup_refunds WHERE wallet_no IS NOT NULL
                   UNION ALL
                   SELECT app_no, wallet_no, seq, 'settlement', -free_settled, -charge_settled, settled_at,
                       '&' || provider || '/' || provider_order_id
                   FROM topup_settlements
               ) "# + $rest
            $(, $parameter)*
        )
    };
}

/// Names refunds and settlements without their entries, and entries without their rows. It joins whole tables.
pub(super) async fn name(connection: &mut PgConnection, findings: &mut Findings) -> Result<(), AuditError> {
    let mut rows = of_told!(
        r#"SELECT coalesce(w.app_id, 'app ' || coalesce(e.app_no, t.app_no)) AS "app_id!",
               coalesce(e.kind, t.kind) AS "kind!", substr(coalesce(e.reference, t.reference), 2) AS "number!", e.seq AS "entry?",
               t.reference IS NOT NULL AS "is_told!"
           FROM (SELECT app_no, wallet_no, seq, kind, reference, free_change, charge_change, at FROM numbers
                 WHERE kind IN ('refund', 'settlement')) e
           FULL JOIN told t ON t.app_no = e.app_no AND t.reference = e.reference
           LEFT JOIN players w ON w.app_no = coalesce(e.app_no, t.app_no) AND w.wallet_no = coalesce(e.wallet_no, t.wallet_no)
           WHERE (e.wallet_no, e.seq, e.kind, e.free_change, e.charge_change, e.at)
               IS DISTINCT FROM (t.wallet_no, t.seq, t.kind, t.free, t.charge, t.at)
           ORDER BY 1, 3"#
    )
    .fetch(connection);
    while let Some(row) = rows.try_next().await? {
        let check = if row.kind == "settlement" { Check::Settlement } else { Check::Refund };
        findings.add(check, &row.app_id, &row.number, || match (row.entry, row.is_told) {
            (Some(entry), false) => format!("entry {entry} of the ledger has no row of its own"),
            (None, _) => "the ledger has no entry of it".to_owned(),
            (Some(entry), true) => format!("entry {entry} of the ledger is not what its row tells"),
        });
    }
    Ok(())
}

/// Checks as [`check`] does. Names rows whose entries are not there, and new entries without their rows.
pub(super) async fn check_since(
    connection: &mut PgConnection,
    entries: Vec<(i32, String)>,
    findings: &mut Findings,
) -> Result<(), AuditError> {
    check(connection, findings).await?;
    let (app_nos, references): (Vec<i32>, Vec<String>) = entries.into_iter().unzip();
    let mut rows = of_told!(
        r#", differing AS (
               SELECT t.app_no, t.kind, t.reference FROM told t
               LEFT JOIN numbers e ON e.app_no = t.app_no AND e.reference = t.reference
               WHERE (e.wallet_no, e.seq, e.kind, e.free_change, e.charge_change, e.at)
                   IS DISTINCT FROM (t.wallet_no, t.seq, t.kind, t.free, t.charge, t.at)
               UNION ALL
               SELECT k.app_no, CASE left(k.reference, 1) WHEN '%' THEN 'refund' ELSE 'settlement' END, k.reference
               FROM unnest($1::integer[], $2::text[]) AS k (app_no, reference)
               WHERE NOT EXISTS (SELECT 1 FROM told t WHERE t.app_no = k.app_no AND t.reference = k.reference)
           )
           SELECT a.app_id AS "app_id!", d.kind AS "kind!", substr(d.reference, 2) AS "number!"
           FROM differing d JOIN apps a ON a.app_no = d.app_no ORDER BY 1, 3"#,
        &app_nos,
        &references
    )
    .fetch(connection);
    while let Some(row) = rows.try_next().await? {
        let check = if row.kind == "settlement" { Check::Settlement } else { Check::Refund };
        findings.add(check, &row.app_id, &row.number, || {
            "the ledger and its row do not tell the same".to_owned()
        });
    }
    Ok(())
}
