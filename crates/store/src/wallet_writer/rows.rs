//! Reads the rows that PostgreSQL returns for a batch.

use domain::ids::WalletNo;
use domain::ledger::{ChainHash, micros, unix_millis};
use domain::wallet::{Balances, CancelSummary};
use sqlx::postgres::PgRow;
use time::OffsetDateTime;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use super::batch::{Batch, OpenWallet, ReadRows, WalletState, damaged};
use super::query::ExchangeDetail;
use super::record::Record;
use crate::writer::SessionFault;

/// How many cancels of an exchange a query shows (contract 10).
const CANCELS_SHOWN_MAX: usize = 100;

/// The columns of a row of either driver. The writers use tokio-postgres, and operators' changes use sqlx.
pub(super) trait ColumnReader {
    /// The column of this name, if it has this type.
    fn column<'r, T>(&'r self, name: &str) -> Option<T>
    where
        T: FromSql<'r> + sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>;
}

impl ColumnReader for Row {
    fn column<'r, T>(&'r self, name: &str) -> Option<T>
    where
        T: FromSql<'r> + sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
    {
        self.try_get(name).ok()
    }
}

impl ColumnReader for PgRow {
    fn column<'r, T>(&'r self, name: &str) -> Option<T>
    where
        T: FromSql<'r> + sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
    {
        sqlx::Row::try_get(self, name).ok()
    }
}

/// The position of a row's key in the batch.
fn position(row: &impl ColumnReader) -> Option<usize> {
    // WITH ORDINALITY counts from 1.
    usize::try_from(row.column::<i64>("position")?.checked_sub(1)?).ok()
}

/// From the rows of [`super::statements::WalletStatements::read`], one for each number of a request.
pub(super) fn known(batch: &Batch<'_>, rows: &[Row]) -> Result<ReadRows, SessionFault> {
    let (mut known, lookups) = (ReadRows::nothing(batch), batch.lookups().collect::<Vec<_>>());
    for row in rows {
        let lookup = position(row).and_then(|position| lookups.get(position));
        let (place_of_wallet, place_of_number) = *lookup.ok_or_else(|| damaged("wallets"))?;
        if row.column::<Option<i64>>("wallet_no").ok_or_else(|| damaged("wallets"))?.is_some() {
            let wallet = wallet(row).ok_or_else(|| damaged("wallets"))?;
            known.rows.wallets[place_of_wallet] = wallet;
        }
        if Record::is_in(row).ok_or_else(|| damaged("ledger_entries"))? {
            let record = Record::read(row).ok_or_else(|| damaged("ledger_entries"))?;
            known.rows.records[place_of_number] = Some(record);
        }
        known.at = row.column("read_at").ok_or_else(|| damaged("wallets"))?;
    }
    Ok(known)
}

/// From the rows of [`super::statements::WalletStatements::lock`].
pub(super) fn wallets<R: ColumnReader>(rows: &[R]) -> Result<Vec<(usize, WalletState)>, SessionFault> {
    rows.iter().map(|row| position(row).zip(wallet(row)).ok_or_else(|| damaged("wallets"))).collect()
}

/// From the rows of [`super::statements::existing`].
pub(super) fn existing<R: ColumnReader>(rows: &[R]) -> Result<Vec<(usize, WalletNo)>, SessionFault> {
    let existing = |row: &R| Some((position(row)?, WalletNo(row.column("wallet_no")?)));
    rows.iter().map(|row| existing(row).ok_or_else(|| damaged("wallets"))).collect()
}

/// From the rows of [`super::statements::WalletStatements::records`].
pub(super) fn records<R: ColumnReader>(rows: &[R]) -> Result<Vec<(usize, Record<'static>)>, SessionFault> {
    let record = |row: &R| position(row).zip(Record::read(row));
    rows.iter().map(|row| record(row).ok_or_else(|| damaged("ledger_entries"))).collect()
}

/// From the rows of [`super::statements::WalletStatements::details`].
pub(super) fn details(rows: &[Row]) -> Result<Vec<(usize, ExchangeDetail)>, SessionFault> {
    rows.iter().map(|row| position(row).zip(detail(row)).ok_or_else(|| damaged("ledger_entries"))).collect()
}

/// The wallet in the columns that [`super::statements`] names.
fn wallet(row: &impl ColumnReader) -> Option<WalletState> {
    let wallet_no = WalletNo(row.column("wallet_no")?);
    let balances = Balances::new(row.column("free_balance")?, row.column("charge_balance")?).ok()?;
    let chain_hash = ChainHash::try_from(row.column::<&[u8]>("chain_hash")?).ok()?;
    let entry_count = row.column("entry_count")?;
    let is_frozen = row.column("is_frozen")?;
    Some(WalletState::Open(OpenWallet { wallet_no, balances, entry_count, chain_hash, is_frozen }))
}

fn detail(row: &Row) -> Option<ExchangeDetail> {
    let references: Vec<String> = row.column("references")?;
    let amounts: Vec<i64> = row.column("amounts")?;
    let times: Vec<OffsetDateTime> = row.column("times")?;
    let has_more_cancels = references.len() > CANCELS_SHOWN_MAX;
    let cancels = references.into_iter().zip(amounts).zip(times).take(CANCELS_SHOWN_MAX);
    let summary =
        |((reference, amount), at)| CancelSummary { reference, amount, created_at: unix_millis(micros(at)) };
    Some(ExchangeDetail {
        product_name: row.column("product_name")?,
        remaining: row.column("remaining")?,
        cancels: cancels.map(summary).collect(),
        has_more_cancels,
    })
}
