//! Reads rows in PostgreSQL's binary copy format. It is the fastest way to read millions of rows,
//! and keeps none in memory.

use bytes::{Buf as _, Bytes};
use domain::audit::{WalletAfterEntry, WalletRow};
use domain::ledger::{ChainHash, LedgerEntry};
use futures_util::TryStreamExt as _;
use futures_util::stream::BoxStream;
use sqlx::PgConnection;

use crate::error::{Result, StoreError};

/// Length of the header of a copy: a signature of 11 bytes, flags, and the length of an extension.
const HEADING_BYTES: usize = 19;

/// The columns that [`CopyRow::entry`] reads.
pub(super) const ENTRY_COLUMNS: &str = "\
e.app_no, e.wallet_no, e.seq, e.kind, e.reference, e.of_biz_no, e.remaining, e.item_id, e.pay_priority,
e.free_change, e.charge_change, e.free_balance, e.charge_balance, e.at, e.chain_hash";

/// The stream of rows of a statement.
pub(super) struct Copied<'c> {
    messages: BoxStream<'c, Result<Bytes, sqlx::Error>>,
    message: Bytes,
    has_begun: bool,
}

impl<'c> Copied<'c> {
    /// Runs a `SELECT`. A copy takes no parameters, so the text must be a constant.
    pub(super) async fn of(connection: &'c mut PgConnection, select: &str) -> Result<Self> {
        let statement = format!("COPY ({select}) TO STDOUT (FORMAT binary)");
        let messages = connection.copy_out_raw(&statement).await?;
        Ok(Self { messages, message: Bytes::new(), has_begun: false })
    }

    /// The next row, or `None` at the end. PostgreSQL sends one row in each message.
    pub(super) async fn next(&mut self) -> Result<Option<CopyRow<'_>>> {
        while let Some(message) = self.messages.try_next().await? {
            self.message = message;
            if !std::mem::replace(&mut self.has_begun, true) {
                if self.message.len() < HEADING_BYTES {
                    return Err(malformed());
                }
                self.message.advance(HEADING_BYTES);
            }
            match self.message.first_chunk().map(|count| i16::from_be_bytes(*count)) {
                // The header came alone, or this is the last message.
                None | Some(-1) => {}
                Some(0..) => return Ok(Some(CopyRow(&self.message[size_of::<i16>()..]))),
                Some(_) => return Err(malformed()),
            }
        }
        Ok(None)
    }
}

/// The columns of a row, from left to right.
pub(super) struct CopyRow<'a>(&'a [u8]);

impl<'a> CopyRow<'a> {
    /// The next column: bytes, or null.
    pub(super) fn bytes_if_any(&mut self) -> Result<Option<&'a [u8]>> {
        let (length, rest) = self.0.split_first_chunk().ok_or_else(malformed)?;
        let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
            self.0 = rest;
            return Ok(None);
        };
        let (column, rest) = rest.split_at_checked(length).ok_or_else(malformed)?;
        self.0 = rest;
        Ok(Some(column))
    }

    /// The next column: bytes that are not null.
    pub(super) fn bytes(&mut self) -> Result<&'a [u8]> {
        self.bytes_if_any()?.ok_or_else(malformed)
    }

    /// The next column: a text, or null.
    pub(super) fn text_if_any(&mut self) -> Result<Option<&'a str>> {
        self.bytes_if_any()?.map(|column| std::str::from_utf8(column).map_err(|_| malformed())).transpose()
    }

    /// The next column: a text that is not null.
    pub(super) fn text(&mut self) -> Result<&'a str> {
        self.text_if_any()?.ok_or_else(malformed)
    }

    /// The next column: a `bigint` or a time, or null.
    pub(super) fn number_if_any(&mut self) -> Result<Option<i64>> {
        let Some(column) = self.bytes_if_any()? else { return Ok(None) };
        Ok(Some(i64::from_be_bytes(column.try_into().map_err(|_| malformed())?)))
    }

    /// The next column: a `bigint`, or a time in microseconds since 2000, that is not null.
    pub(super) fn number(&mut self) -> Result<i64> {
        self.number_if_any()?.ok_or_else(malformed)
    }

    /// The next column: an `integer` that is not null.
    pub(super) fn small_number(&mut self) -> Result<i32> {
        Ok(i32::from_be_bytes(self.bytes()?.try_into().map_err(|_| malformed())?))
    }

    /// The next columns: a wallet's number of entries, balances and hash. `None` when they are null.
    pub(super) fn wallet_if_any(&mut self) -> Result<Option<WalletRow>> {
        let Some(entry_count) = self.number_if_any()? else {
            for _ in 0..3 {
                self.bytes_if_any()?;
            }
            return Ok(None);
        };
        let (free_balance, charge_balance) = (self.number()?, self.number()?);
        Ok(Some(WalletRow { entry_count, free_balance, charge_balance, chain_hash: self.hash()? }))
    }

    /// The next columns: a wallet's newest state in an archive, if it has one.
    pub(super) fn standing_if_any(&mut self) -> Result<Option<WalletAfterEntry>> {
        let state = self.wallet_if_any()?;
        Ok(state.map(|WalletRow { free_balance, charge_balance, entry_count, chain_hash }| {
            WalletAfterEntry {
                seq: entry_count,
                free_balance,
                charge_balance,
                chain_hash: chain_hash.unwrap_or_default(),
            }
        }))
    }

    /// The same of a wallet that must be there.
    pub(super) fn wallet(&mut self) -> Result<WalletRow> {
        self.wallet_if_any()?.ok_or_else(malformed)
    }

    /// The next columns: all that a ledger entry's hash covers, and the hash.
    pub(super) fn entry(&mut self) -> Result<(LedgerEntry<'a>, Option<ChainHash>)> {
        let entry = LedgerEntry {
            app_no: self.small_number()?,
            wallet_no: self.number()?,
            seq: self.number()?,
            kind: self.text()?,
            reference: self.text()?,
            of_biz_no: self.text_if_any()?,
            remaining: self.number_if_any()?,
            item_id: self.bytes_if_any()?.and_then(|bytes| bytes.try_into().ok()),
            pay_priority: self
                .bytes_if_any()?
                .and_then(|bytes| Some(i16::from_be_bytes(bytes.try_into().ok()?))),
            free_change: self.number()?,
            charge_change: self.number()?,
            free_balance: self.number()?,
            charge_balance: self.number()?,
            at: self.number()?,
        };
        Ok((entry, self.hash()?))
    }

    /// The next column: a hash. `None` when the column holds no hash.
    pub(super) fn hash(&mut self) -> Result<Option<ChainHash>> {
        Ok(self.bytes_if_any()?.and_then(|bytes| bytes.try_into().ok()))
    }
}

fn malformed() -> StoreError {
    StoreError::Internal("PostgreSQL sent rows that are not in its binary copy format".to_owned())
}
