//! Writes a ledger entry of a locked wallet, with its hash.

use domain::exchange::Balances;
use domain::ids::{AppId, OpenId};
use domain::ledger::{ChainHash, LedgerEntry};
use sqlx::PgConnection;
use time::OffsetDateTime;

use crate::{Result, StoreError};

/// The locked row of a wallet.
pub(super) struct LockedWallet {
    pub(super) app_no: i32,
    pub(super) wallet_no: i64,
    pub(super) balances: Balances,
    pub(super) entry_count: i64,
    /// Hash of its last entry.
    pub(super) chain_hash: ChainHash,
    /// Database time.
    pub(super) at: OffsetDateTime,
}

/// Locks a wallet until the transaction ends, and reads it.
pub(super) async fn lock_wallet(
    connection: &mut PgConnection,
    app_id: &AppId,
    open_id: &OpenId,
) -> Result<Option<LockedWallet>> {
    let row = sqlx::query!(
        r#"SELECT app_no, wallet_no, free_balance, charge_balance, entry_count, chain_hash,
                  clock_timestamp() AS "at!"
           FROM wallets WHERE app_no = (SELECT app_no FROM apps WHERE app_id = $1) AND open_id = $2 FOR UPDATE"#,
        app_id.as_str(),
        open_id.as_str()
    );
    let Some(row) = row.fetch_optional(connection).await? else { return Ok(None) };
    let balances =
        Balances::new(row.free_balance, row.charge_balance).map_err(|_| StoreError::damaged("wallets"))?;
    let chain_hash = ChainHash::try_from(row.chain_hash).map_err(|_| StoreError::damaged("wallets"))?;
    let (app_no, wallet_no, entry_count, at) = (row.app_no, row.wallet_no, row.entry_count, row.at);
    Ok(Some(LockedWallet { app_no, wallet_no, balances, entry_count, chain_hash, at }))
}

/// Writes a ledger entry and the new balances. The wallet must be locked.
pub(super) async fn write_entry(
    connection: &mut PgConnection,
    wallet: &LockedWallet,
    entry: &LedgerEntry<'_>,
    remark: &str,
) -> Result<()> {
    let chain_hash = entry.chain_hash(&wallet.chain_hash);
    let entered = sqlx::query!(
        "INSERT INTO ledger_entries (app_no, wallet_no, seq, kind, reference, free_change, charge_change,
                free_balance, charge_balance, at, chain_hash, remark)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT (app_no, reference) DO NOTHING",
        entry.app_no,
        entry.wallet_no,
        entry.seq,
        entry.kind,
        entry.reference,
        entry.free_change,
        entry.charge_change,
        entry.free_balance,
        entry.charge_balance,
        wallet.at,
        chain_hash.as_slice(),
        remark
    )
    .execute(&mut *connection)
    .await?;
    // Another transaction has just used the reference for another wallet, so the change is tried again.
    if entered.rows_affected() == 0 {
        return Err(StoreError::Again);
    }
    let updated = sqlx::query!(
        "UPDATE wallets SET free_balance = $3, charge_balance = $4, entry_count = $5, chain_hash = $6
         WHERE app_no = $1 AND wallet_no = $2 AND entry_count = $5::bigint - 1",
        entry.app_no,
        entry.wallet_no,
        entry.free_balance,
        entry.charge_balance,
        entry.seq,
        chain_hash.as_slice()
    )
    .execute(connection)
    .await?;
    if updated.rows_affected() != 1 {
        return Err(StoreError::Internal("a locked wallet changed under its lock".to_owned()));
    }
    Ok(())
}
