//! Reads the rows that PostgreSQL returns for a batch.

use domain::exchange::Balances;
use domain::ids::{ItemId, WalletNo};
use domain::ledger::ChainHash;
use tokio_postgres::Row;

use super::batch::{Batch, IdempotencyRecord, RecordedContent, WalletState};
use super::fault::SessionFault;
use super::known::{Known, damaged};

/// The position of a row's key in the batch.
fn position(row: &Row) -> Option<usize> {
    // WITH ORDINALITY counts from 1.
    usize::try_from(row.try_get::<_, i64>(0).ok()?.checked_sub(1)?).ok()
}

/// From the rows of [`super::statements::PreparedStatements::read`], one for each exchange.
pub(super) fn known(batch: &Batch<'_>, rows: &[Row]) -> Result<Known, SessionFault> {
    let mut known = Known::nothing(batch);
    for row in rows {
        let position = position(row).filter(|position| *position < batch.exchanges.len());
        let position = position.ok_or_else(|| damaged("wallets"))?;
        if row.try_get::<_, Option<i64>>(1).map_err(|_| damaged("wallets"))?.is_some() {
            let wallet = wallet(row).ok_or_else(|| damaged("wallets"))?;
            known.wallets[batch.wallets.position_of[position]] = wallet;
        }
        if row.try_get::<_, Option<&str>>(6).map_err(|_| damaged("ledger_entries"))?.is_some() {
            let record = record(row, 6).ok_or_else(|| damaged("ledger_entries"))?;
            known.records[batch.biz_nos.position_of[position]] = Some(record);
        }
        known.at = row.try_get(15).map_err(|_| damaged("wallets"))?;
    }
    Ok(known)
}

/// From the rows of [`super::statements::PreparedStatements::lock`].
pub(super) fn wallets(rows: &[Row]) -> Result<Vec<(usize, WalletState)>, SessionFault> {
    rows.iter().map(|row| position(row).zip(wallet(row)).ok_or_else(|| damaged("wallets"))).collect()
}

/// From the rows of [`super::statements::PreparedStatements::present`].
pub(super) fn positions(rows: &[Row]) -> Result<Vec<usize>, SessionFault> {
    rows.iter().map(|row| position(row).ok_or_else(|| damaged("wallets"))).collect()
}

/// From the rows of [`super::statements::PreparedStatements::records`].
pub(super) fn records(rows: &[Row]) -> Result<Vec<(usize, IdempotencyRecord)>, SessionFault> {
    rows.iter()
        .map(|row| position(row).zip(record(row, 1)).ok_or_else(|| damaged("ledger_entries")))
        .collect()
}

/// The wallet in the columns after the position.
fn wallet(row: &Row) -> Option<WalletState> {
    let wallet_no = WalletNo(row.try_get(1).ok()?);
    let balances = Balances::new(row.try_get(2).ok()?, row.try_get(3).ok()?).ok()?;
    let chain_hash = ChainHash::try_from(row.try_get::<_, &[u8]>(5).ok()?).ok()?;
    Some(WalletState::Open { wallet_no, balances, entry_count: row.try_get(4).ok()?, chain_hash })
}

/// The record in the columns from `first` on.
fn record(row: &Row, first: usize) -> Option<IdempotencyRecord> {
    let item_id = <[u8; 16]>::try_from(row.try_get::<_, &[u8]>(first + 4).ok()?).ok()?;
    Some(IdempotencyRecord {
        content: RecordedContent {
            open_id: row.try_get(first).ok()?,
            zone_id: row.try_get(first + 1).ok()?,
            amount: row.try_get(first + 2).ok()?,
            pay_priority: row.try_get(first + 3).ok()?,
            item_id: ItemId(item_id),
            extension: row.try_get(first + 5).ok()?,
        },
        free_balance: row.try_get(first + 6).ok()?,
        charge_balance: row.try_get(first + 7).ok()?,
        is_expired: row.try_get(first + 8).ok()?,
    })
}
