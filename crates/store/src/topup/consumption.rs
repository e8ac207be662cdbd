//! Use of the coins of a top-up, derived from the ledger whenever somebody asks (contract 19.6). Nothing of it is stored.

use domain::ids::AppId;
use domain::operation::topup::{payment_not_credited, unknown_payment};
use domain::topup::{Lot, LotExchange, LotUse, PaymentKey, PaymentState};
use futures_util::TryStreamExt as _;
use serde::Serialize;

use super::payment_rows::stored_payment_state;
use crate::app_number::number_of;
use crate::error::{OperationError, StoreError};
use crate::store::Store;

/// What was used of the charged coins of a top-up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "TopupConsumption")]
pub struct ConsumptionReport {
    /// Charged coins that were credited.
    pub charge: i64,
    /// Charged coins of it that exchanges and debits used.
    pub used: i64,
    /// Charged coins of it that are in the purse. Together with `used` it is `charge` less what refunds and settlements took.
    pub unused: i64,
    /// The thousandths of `charge` that were used, rounded down.
    pub used_milli: i64,
    /// What of `used` debits of operators took. The rest was used by exchanges.
    pub debited: i64,
    /// The first 1,000 exchanges that used it, oldest first.
    pub exchanges: Vec<LotExchange>,
}

impl Store {
    /// What was used of a top-up. It streams the deductions of the wallet up to the last one that used it, archived ones too.
    ///
    /// # Errors
    /// There is no such payment, it was not credited, or the database is away.
    pub async fn consumption(
        &self,
        app_id: &AppId,
        key: &PaymentKey,
    ) -> Result<ConsumptionReport, OperationError> {
        let mut session = self.pool.acquire().await.map_err(StoreError::from)?;
        let app_no = number_of(&mut *session, app_id).await?;
        // One statement, so that lots and deductions are of one moment. A sum of a table is made once, and not for each row.
        let mut rows = sqlx::query!(
            r#"SELECT p.state AS "state!", coalesce(p.charge, 0) AS "charge!", (came.coins - went.coins)::text AS "before!", own.taken AS "taken!",
                   u.kind AS "kind?", u.reference AS "reference?", u.coins AS "coins?", u.at AS "at?"
               FROM topup_payments p
               CROSS JOIN LATERAL (
                   SELECT coalesce(sum(n.charge_change), 0) AS coins FROM numbers n
                   WHERE n.app_no = $1 AND n.wallet_no = p.wallet_no AND n.seq < p.seq
                       AND n.kind IN ('topup', 'credit') AND n.kind NOT IN ('exchange', 'cancel', 'closed')) came
               CROSS JOIN LATERAL (
                   SELECT coalesce(sum(r.charge_taken + r.charge_debt - r.charge_owed), 0) AS coins
                   FROM topup_refunds r JOIN topup_payments o
                       ON o.app_no = $1 AND o.provider = r.provider AND o.provider_order_id = r.provider_order_id
                   WHERE r.app_no = $1 AND r.wallet_no = p.wallet_no AND o.seq < p.seq) went
               CROSS JOIN LATERAL (
                   SELECT coalesce(sum(r.charge_taken + r.charge_debt - r.charge_owed), 0)::bigint AS taken FROM topup_refunds r
                   WHERE r.app_no = $1 AND r.provider = p.provider AND r.provider_order_id = p.provider_order_id) own
               LEFT JOIN LATERAL (
                   SELECT n.seq, n.kind, n.reference, n.at, (-n.charge_change - coalesce((
                           SELECT sum(c.charge_change) FROM numbers c
                           WHERE c.app_no = $1 AND c.of_biz_no = n.reference), 0))::bigint AS coins
                   FROM numbers n
                   WHERE n.app_no = $1 AND n.wallet_no = p.wallet_no AND n.kind IN ('exchange', 'debit') AND n.charge_change < 0) u
                   ON true
               WHERE p.app_no = $1 AND p.provider = $2 AND p.provider_order_id = $3
               ORDER BY u.seq"#,
            app_no,
            key.provider.as_str(),
            key.provider_order_id.as_str()
        )
        .fetch(&mut *session);
        let mut lot: Option<(i64, LotUse)> = None;
        while let Some(row) = rows.try_next().await.map_err(StoreError::from)? {
            let state = stored_payment_state(&row.state)?;
            if state != PaymentState::Paid {
                return Err(payment_not_credited(key.as_text(), state).into());
            }
            let of_lot = match &mut lot {
                Some((_, of_lot)) => of_lot,
                none => {
                    let before = row.before.parse().map_err(|_| StoreError::damaged("ledger_entries"))?;
                    let size = row.charge - row.taken;
                    &mut none.insert((row.charge, LotUse::new(Lot { before, size }))).1
                }
            };
            let Some(coins) = row.coins else { continue };
            let is_exchange = row.kind.as_deref() == Some(domain::ledger::EXCHANGE);
            let exchange = row.reference.as_deref().zip(row.at).filter(|_| is_exchange);
            if of_lot.add(coins, exchange).is_break() {
                break;
            }
        }
        let (charge, of_lot) = lot.ok_or_else(|| unknown_payment(app_id, key.as_text()))?;
        Ok(ConsumptionReport {
            charge,
            used: of_lot.used(),
            unused: of_lot.unused(),
            used_milli: of_lot.used_milli(charge),
            debited: of_lot.debited(),
            exchanges: of_lot.exchanges(),
        })
    }
}
