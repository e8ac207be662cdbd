//! The income of a wallet (contract 10.6): sums of what ever came in, which has an index of its own. No exchange has an
//! entry there, so the sums cost exchanges nothing.

use domain::ids::AppNo;
use domain::ledger::{micros, unix_millis};
use domain::topup::CoinPair;
use domain::wallet::{Balances, LedgerEnd};

use crate::error::{Result, StoreError};
use crate::store::Store;

/// The income of a wallet up to one of its entries. Operators' debits are taken off, and
/// what refunds and settlements took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Income {
    /// Gifted currency, which may be above 64 bits.
    pub free: i128,
    /// Charged currency, which may be above 64 bits.
    pub charge: i128,
    /// When charged currency first came in, in Unix milliseconds. `None` before.
    pub first_charge_at: Option<i64>,
    /// What the wallet owed right after that entry (contract 19.5).
    pub debt: CoinPair,
}

impl Income {
    /// What exchanges took and cancels have not given back, of a wallet that holds `balances`.
    #[must_use]
    pub fn spent(&self, balances: Balances) -> i128 {
        self.free + self.charge - i128::from(balances.free()) - i128::from(balances.charge())
    }
}

impl Store {
    /// The income of a wallet up to `end`, archived entries included.
    ///
    /// # Errors
    /// The database is away or damaged.
    pub async fn income(&self, app_no: AppNo, end: LedgerEnd) -> Result<Income> {
        let row = sqlx::query!(
            r#"SELECT coalesce(sum(free_change), 0)::text AS "free!",
                      coalesce(sum(charge_change), 0)::text AS "charge!",
                      min(at) FILTER (WHERE charge_change > 0) AS first_charge_at,
                      coalesce(min(d.free), 0) AS "free_debt!", coalesce(min(d.charge), 0) AS "charge_debt!"
               FROM (
                   SELECT seq, at, free_change, charge_change FROM ledger_entries
                   WHERE app_no = $1 AND wallet_no = $2 AND kind NOT IN ('exchange', 'cancel', 'closed')
                   UNION ALL
                   SELECT seq, at, free_change, charge_change FROM archived_entries
                   WHERE app_no = $1 AND wallet_no = $2 AND kind NOT IN ('exchange', 'cancel', 'closed')) e
               LEFT JOIN (
                   SELECT wallet_free_debt AS free, wallet_charge_debt AS charge FROM (
                       (SELECT seq, wallet_free_debt, wallet_charge_debt FROM topup_refunds
                        WHERE app_no = $1 AND wallet_no = $2 AND seq <= $3 ORDER BY seq DESC LIMIT 1)
                       UNION ALL
                       (SELECT seq, wallet_free_debt, wallet_charge_debt FROM topup_settlements
                        WHERE app_no = $1 AND wallet_no = $2 AND seq <= $3 ORDER BY seq DESC LIMIT 1)) newest
                   ORDER BY seq DESC LIMIT 1) d ON true
               WHERE seq <= $3"#,
            app_no.0,
            end.wallet_no.0,
            end.seq
        );
        let row = row.fetch_one(&self.pool).await?;
        let first_charge_at = row.first_charge_at.map(|at| unix_millis(micros(at)));
        let debt = CoinPair { free: row.free_debt, charge: row.charge_debt };
        let sum = |text: &str| text.parse::<i128>().map_err(|_| StoreError::damaged("ledger_entries"));
        Ok(Income { free: sum(&row.free)?, charge: sum(&row.charge)?, first_charge_at, debt })
    }
}
