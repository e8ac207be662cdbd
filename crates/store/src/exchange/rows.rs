//! Reads the rows that PostgreSQL returns for a batch.

use std::borrow::Cow;

use domain::exchange::{Balances, PayPriority};
use domain::ids::{ItemId, WalletNo};
use domain::ledger::{ChainHash, ReferenceKind, micros, unix_millis};
use domain::wallet::CancelSummary;
use time::OffsetDateTime;
use tokio_postgres::Row;

use super::batch::{Batch, ExchangeDetail, OpenWallet, Record, WalletState};
use super::fault::SessionFault;
use super::known::{Known, damaged};

/// How many cancels of an exchange a query shows (contract 10).
const CANCELS_SHOWN_MAX: usize = 100;

/// The position of a row's key in the batch.
fn position(row: &Row) -> Option<usize> {
    // WITH ORDINALITY counts from 1.
    usize::try_from(row.try_get::<_, i64>(0).ok()?.checked_sub(1)?).ok()
}

/// From the rows of [`super::statements::PreparedStatements::read`], one for each number of a request.
pub(super) fn known(batch: &Batch<'_>, rows: &[Row]) -> Result<Known, SessionFault> {
    let mut known = Known::nothing(batch);
    for row in rows {
        let position = position(row).filter(|position| *position < batch.owners.len());
        let position = position.ok_or_else(|| damaged("wallets"))?;
        if row.try_get::<_, Option<i64>>(1).map_err(|_| damaged("wallets"))?.is_some() {
            let wallet = wallet(row).ok_or_else(|| damaged("wallets"))?;
            known.rows.wallets[batch.wallets.position_of[batch.owners[position]]] = wallet;
        }
        if row.try_get::<_, Option<i64>>(6).map_err(|_| damaged("ledger_entries"))?.is_some() {
            let record = record(row, 6).ok_or_else(|| damaged("ledger_entries"))?;
            known.rows.records[batch.numbers.position_of[position]] = Some(record);
        }
        known.at = row.try_get(21).map_err(|_| damaged("wallets"))?;
    }
    Ok(known)
}

/// From the rows of [`super::statements::PreparedStatements::lock`].
pub(super) fn wallets(rows: &[Row]) -> Result<Vec<(usize, WalletState)>, SessionFault> {
    rows.iter().map(|row| position(row).zip(wallet(row)).ok_or_else(|| damaged("wallets"))).collect()
}

/// From the rows of [`super::statements::PreparedStatements::existing`].
pub(super) fn existing(rows: &[Row]) -> Result<Vec<(usize, WalletNo)>, SessionFault> {
    let existing = |row: &Row| Some((position(row)?, WalletNo(row.try_get(1).ok()?)));
    rows.iter().map(|row| existing(row).ok_or_else(|| damaged("wallets"))).collect()
}

/// From the rows of [`super::statements::PreparedStatements::records`].
pub(super) fn records(rows: &[Row]) -> Result<Vec<(usize, Record<'static>)>, SessionFault> {
    rows.iter()
        .map(|row| position(row).zip(record(row, 1)).ok_or_else(|| damaged("ledger_entries")))
        .collect()
}

/// From the rows of [`super::statements::PreparedStatements::details`].
pub(super) fn details(rows: &[Row]) -> Result<Vec<(usize, ExchangeDetail)>, SessionFault> {
    rows.iter().map(|row| position(row).zip(detail(row)).ok_or_else(|| damaged("ledger_entries"))).collect()
}

/// The wallet in the columns after the position.
fn wallet(row: &Row) -> Option<WalletState> {
    let wallet_no = WalletNo(row.try_get(1).ok()?);
    let balances = Balances::new(row.try_get(2).ok()?, row.try_get(3).ok()?).ok()?;
    let chain_hash = ChainHash::try_from(row.try_get::<_, &[u8]>(5).ok()?).ok()?;
    let entry_count = row.try_get(4).ok()?;
    Some(WalletState::Open(OpenWallet { wallet_no, balances, entry_count, chain_hash }))
}

/// The record in the columns from `first` on.
fn record(row: &Row, first: usize) -> Option<Record<'static>> {
    let text = |column| Some(row.try_get::<_, Option<String>>(first + column).ok()?.map(Cow::Owned));
    let pay_priority = match row.try_get::<_, Option<i16>>(first + 8).ok()? {
        Some(code) => Some(PayPriority::from_code(code)?),
        None => None,
    };
    let item_id = match row.try_get::<_, Option<&[u8]>>(first + 9).ok()? {
        Some(bytes) => Some(ItemId(<[u8; 16]>::try_from(bytes).ok()?)),
        None => None,
    };
    Some(Record {
        wallet_no: WalletNo(row.try_get(first).ok()?),
        kind: ReferenceKind::parse(row.try_get(first + 1).ok()?).ok()?,
        free_change: row.try_get(first + 2).ok()?,
        charge_change: row.try_get(first + 3).ok()?,
        balances: Balances::new(row.try_get(first + 4).ok()?, row.try_get(first + 5).ok()?).ok()?,
        remaining: row.try_get::<_, Option<i64>>(first + 6).ok()?.unwrap_or_default(),
        of: text(7)?,
        pay_priority,
        item_id,
        zone_id: text(10)?,
        extension: text(11)?,
        remark: text(12)?,
        at: micros(row.try_get::<_, OffsetDateTime>(first + 13).ok()?),
        is_expired: row.try_get(first + 14).ok()?,
    })
}

fn detail(row: &Row) -> Option<ExchangeDetail> {
    let references: Vec<String> = row.try_get(3).ok()?;
    let amounts: Vec<i64> = row.try_get(4).ok()?;
    let times: Vec<OffsetDateTime> = row.try_get(5).ok()?;
    let has_more_cancels = references.len() > CANCELS_SHOWN_MAX;
    let cancels = references.into_iter().zip(amounts).zip(times).take(CANCELS_SHOWN_MAX);
    let summary =
        |((reference, amount), at)| CancelSummary { reference, amount, created_at: unix_millis(micros(at)) };
    Some(ExchangeDetail {
        product_name: row.try_get(1).ok()?,
        remaining: row.try_get(2).ok()?,
        cancels: cancels.map(summary).collect(),
        has_more_cancels,
    })
}
