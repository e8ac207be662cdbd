//! Reads the rows that PostgreSQL returns for a batch.

use std::borrow::Cow;

use domain::ids::{ItemId, WalletNo};
use domain::ledger::{ChainHash, ReferenceKind, micros, unix_millis};
use domain::wallet::{Balances, CancelSummary, PayPriority};
use sqlx::postgres::PgRow;
use time::OffsetDateTime;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use super::batch::{Batch, ExchangeDetail, OpenWallet, Record, WalletState};
use super::known::{Known, damaged};
use crate::writer::SessionFault;

/// How many cancels of an exchange a query shows (contract 10).
const CANCELS_SHOWN_MAX: usize = 100;

/// A row of either driver. The writers use tokio-postgres, and operators' changes use sqlx.
pub(super) trait Columns {
    /// The column at this place, if it has this type.
    fn column<'r, T>(&'r self, place: usize) -> Option<T>
    where
        T: FromSql<'r> + sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>;
}

impl Columns for Row {
    fn column<'r, T>(&'r self, place: usize) -> Option<T>
    where
        T: FromSql<'r> + sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
    {
        self.try_get(place).ok()
    }
}

impl Columns for PgRow {
    fn column<'r, T>(&'r self, place: usize) -> Option<T>
    where
        T: FromSql<'r> + sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
    {
        sqlx::Row::try_get(self, place).ok()
    }
}

/// The position of a row's key in the batch.
fn position(row: &impl Columns) -> Option<usize> {
    // WITH ORDINALITY counts from 1.
    usize::try_from(row.column::<i64>(0)?.checked_sub(1)?).ok()
}

/// From the rows of [`super::statements::PreparedStatements::read`], one for each number of a request.
pub(super) fn known(batch: &Batch<'_>, rows: &[Row]) -> Result<Known, SessionFault> {
    let (mut known, lookups) = (Known::nothing(batch), batch.lookups().collect::<Vec<_>>());
    for row in rows {
        let lookup = position(row).and_then(|position| lookups.get(position));
        let (place_of_wallet, place_of_number) = *lookup.ok_or_else(|| damaged("wallets"))?;
        if row.try_get::<_, Option<i64>>(1).map_err(|_| damaged("wallets"))?.is_some() {
            let wallet = wallet(row).ok_or_else(|| damaged("wallets"))?;
            known.rows.wallets[place_of_wallet] = wallet;
        }
        if row.try_get::<_, Option<i64>>(6).map_err(|_| damaged("ledger_entries"))?.is_some() {
            let record = record(row, 6).ok_or_else(|| damaged("ledger_entries"))?;
            known.rows.records[place_of_number] = Some(record);
        }
        known.at = row.try_get(21).map_err(|_| damaged("wallets"))?;
    }
    Ok(known)
}

/// From the rows of [`super::statements::PreparedStatements::lock`].
pub(super) fn wallets<R: Columns>(rows: &[R]) -> Result<Vec<(usize, WalletState)>, SessionFault> {
    rows.iter().map(|row| position(row).zip(wallet(row)).ok_or_else(|| damaged("wallets"))).collect()
}

/// From the rows of [`super::statements::EXISTING`].
pub(super) fn existing<R: Columns>(rows: &[R]) -> Result<Vec<(usize, WalletNo)>, SessionFault> {
    let existing = |row: &R| Some((position(row)?, WalletNo(row.column(1)?)));
    rows.iter().map(|row| existing(row).ok_or_else(|| damaged("wallets"))).collect()
}

/// From the rows of [`super::statements::PreparedStatements::records`].
pub(super) fn records<R: Columns>(rows: &[R]) -> Result<Vec<(usize, Record<'static>)>, SessionFault> {
    rows.iter()
        .map(|row| position(row).zip(record(row, 1)).ok_or_else(|| damaged("ledger_entries")))
        .collect()
}

/// From the rows of [`super::statements::PreparedStatements::details`].
pub(super) fn details(rows: &[Row]) -> Result<Vec<(usize, ExchangeDetail)>, SessionFault> {
    rows.iter().map(|row| position(row).zip(detail(row)).ok_or_else(|| damaged("ledger_entries"))).collect()
}

/// The wallet in the columns after the position.
fn wallet(row: &impl Columns) -> Option<WalletState> {
    let wallet_no = WalletNo(row.column(1)?);
    let balances = Balances::new(row.column(2)?, row.column(3)?).ok()?;
    let chain_hash = ChainHash::try_from(row.column::<&[u8]>(5)?).ok()?;
    let entry_count = row.column(4)?;
    Some(WalletState::Open(OpenWallet { wallet_no, balances, entry_count, chain_hash }))
}

/// The record in the columns from `first` on.
fn record(row: &impl Columns, first: usize) -> Option<Record<'static>> {
    let text = |column| Some(row.column::<Option<String>>(first + column)?.map(Cow::Owned));
    let pay_priority = match row.column::<Option<i16>>(first + 8)? {
        Some(code) => Some(PayPriority::from_code(code)?),
        None => None,
    };
    let item_id = match row.column::<Option<&[u8]>>(first + 9)? {
        Some(bytes) => Some(ItemId(<[u8; 16]>::try_from(bytes).ok()?)),
        None => None,
    };
    Some(Record {
        wallet_no: WalletNo(row.column(first)?),
        kind: ReferenceKind::parse(row.column(first + 1)?).ok()?,
        free_change: row.column(first + 2)?,
        charge_change: row.column(first + 3)?,
        balances: Balances::new(row.column(first + 4)?, row.column(first + 5)?).ok()?,
        remaining: row.column::<Option<i64>>(first + 6)?.unwrap_or_default(),
        of: text(7)?,
        pay_priority,
        item_id,
        zone_id: text(10)?,
        extension: text(11)?,
        remark: text(12)?,
        at: micros(row.column::<OffsetDateTime>(first + 13)?),
        is_expired: row.column(first + 14)?,
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
