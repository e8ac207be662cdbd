//! Debt of wallets: coins that refunds owe and that were spent. The next top-up settles it (contract 19.5).

use std::collections::HashSet;

use domain::ids::{AppId, AppNo, OpenId, WalletNo};
use domain::topup::{CoinPair, PaymentKey};
use domain::wallet::{Balances, Change, WalletOutcome, WalletRequest};
use sqlx::{PgConnection, PgExecutor};

use crate::engine::Engine;
use crate::error::{Result, StoreError};
use crate::event::tell_of_debt;
use crate::store::Store;
use crate::wallet_writer::change;

impl Store {
    /// What a wallet owes.
    pub async fn debt(&self, app_no: AppNo, wallet_no: WalletNo) -> Result<CoinPair> {
        debt_of(&self.pool, app_no.0, wallet_no.0).await
    }

    /// What a player owes. Nothing for a player whom the app does not know.
    pub async fn debt_of_player(&self, app_id: &AppId, open_id: &OpenId) -> Result<CoinPair> {
        let Some((app_no, wallet_no)) = self.wallet_key(app_id, open_id).await? else {
            return Ok(CoinPair::default());
        };
        debt_of(&self.pool, app_no, wallet_no).await
    }
}

/// What a wallet owes. No sum is above 64 bits: each is held to what payments have credited.
pub(super) async fn debt_of(executor: impl PgExecutor<'_>, app_no: i32, wallet_no: i64) -> Result<CoinPair> {
    let debt = sqlx::query!(
        r#"SELECT coalesce(sum(free_owed), 0)::bigint AS "free!", coalesce(sum(charge_owed), 0)::bigint AS "charge!"
           FROM topup_refunds WHERE app_no = $1 AND wallet_no = $2 AND (free_owed > 0 OR charge_owed > 0)"#,
        app_no,
        wallet_no
    );
    let debt = debt.fetch_one(executor).await?;
    Ok(CoinPair { free: debt.free, charge: debt.charge })
}

/// Those of these wallets that owe something.
pub(super) async fn in_debt(
    connection: &mut PgConnection,
    app_no: i32,
    wallets: &[i64],
) -> Result<HashSet<i64>> {
    let owing = sqlx::query_scalar!(
        r#"SELECT DISTINCT wallet_no AS "wallet_no!" FROM topup_refunds
           WHERE app_no = $1 AND wallet_no = ANY ($2) AND (free_owed > 0 OR charge_owed > 0)"#,
        app_no,
        wallets
    );
    Ok(owing.fetch_all(connection).await?.into_iter().collect())
}

/// Settles debt of a wallet, oldest first, with what a top-up has just brought. The wallet is locked by the credit. Gives
/// both purses after it. `None` where nothing is owed, or nothing of a kind that the top-up has.
pub(super) async fn settle_debt(
    connection: &mut PgConnection,
    engine: Engine,
    (app_id, app_no): (&AppId, i32),
    key: &PaymentKey,
    (wallet_no, open_id, brought): (i64, &OpenId, CoinPair),
) -> Result<Option<Balances>> {
    let debt = debt_of(&mut *connection, app_no, wallet_no).await?;
    let settled = CoinPair { free: debt.free.min(brought.free), charge: debt.charge.min(brought.charge) };
    if settled == CoinPair::default() {
        return Ok(None);
    }
    let request = WalletRequest::of_payment(open_id.clone(), key.settlement(), Change::Settlement(settled));
    let mut changed = change(connection, engine, app_no, std::slice::from_ref(&request)).await?;
    let Some((WalletOutcome::Done(receipt), Some(entry))) = changed.outcomes.pop() else {
        return Err(StoreError::Internal("a settlement that the ledger did not take".to_owned()));
    };
    lower(connection, app_no, wallet_no, settled).await?;
    let left = CoinPair { free: debt.free - settled.free, charge: debt.charge - settled.charge };
    let written = sqlx::query!(
        "INSERT INTO topup_settlements (app_no, wallet_no, seq, free_settled, charge_settled, wallet_free_debt,
             wallet_charge_debt, settled_at, provider, provider_order_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        app_no,
        wallet_no,
        entry.seq,
        settled.free,
        settled.charge,
        left.free,
        left.charge,
        changed.at,
        key.provider.as_str(),
        key.provider_order_id.as_str()
    );
    written.execute(&mut *connection).await?;
    tell_of_debt(connection, app_id.as_str(), (entry.wallet_no, entry.seq), changed.at).await?;
    Ok(Some(receipt.balances))
}

/// Lowers what the refunds of a wallet still owe, oldest first.
async fn lower(connection: &mut PgConnection, app_no: i32, wallet_no: i64, settled: CoinPair) -> Result<()> {
    sqlx::query!(
        "UPDATE topup_refunds r SET free_owed = r.free_owed - least(r.free_owed, greatest($3 - d.free_before, 0)),
             charge_owed = r.charge_owed - least(r.charge_owed, greatest($4 - d.charge_before, 0))
         FROM (
             SELECT seq, (sum(free_owed) OVER older - free_owed)::bigint AS free_before,
                 (sum(charge_owed) OVER older - charge_owed)::bigint AS charge_before
             FROM topup_refunds
             WHERE app_no = $1 AND wallet_no = $2 AND (free_owed > 0 OR charge_owed > 0)
             WINDOW older AS (ORDER BY seq)) d
         WHERE r.app_no = $1 AND r.wallet_no = $2 AND r.seq = d.seq",
        app_no,
        wallet_no,
        settled.free,
        settled.charge
    )
    .execute(connection)
    .await?;
    Ok(())
}
