//! The state of the database that a batch is decided on, as [`Batch::decide`] takes it, and when it was read.

use domain::ids::WalletNo;
use domain::ledger::micros;
use time::OffsetDateTime;

use super::batch::{Batch, ExchangeDetail, Rows, WalletState};
use super::record::Record;
use crate::error::StoreError;
use crate::writer::SessionFault;

/// The database's rows of a batch, and the time of the read.
pub(super) struct ReadRows {
    pub(super) rows: Rows,
    pub(super) at: OffsetDateTime,
}

/// The results of the statements that read a locked batch, each row with its position.
pub(super) struct LockedRows {
    pub(super) wallets: Vec<(usize, WalletState)>,
    pub(super) at: OffsetDateTime,
    pub(super) records: Vec<(usize, Record<'static>)>,
    /// The wallets that exist, when not all of the batch were locked. It must be read later than the records: a wallet
    /// that is unknown then has none of them.
    pub(super) existing: Vec<(usize, WalletNo)>,
}

impl ReadRows {
    pub(super) fn nothing(batch: &Batch<'_>) -> Self {
        let rows = Rows {
            wallets: vec![WalletState::Unknown; batch.wallets.names.len()],
            records: vec![None; batch.numbers.names.len()],
            details: vec![None; batch.requests.len()],
            are_locked: false,
        };
        Self { rows, at: OffsetDateTime::UNIX_EPOCH }
    }

    pub(super) fn of_locked(batch: &Batch<'_>, locked: LockedRows) -> Result<Self, SessionFault> {
        let mut known = Self { at: locked.at, ..Self::nothing(batch) };
        let Rows { wallets, records, are_locked, .. } = &mut known.rows;
        *are_locked = true;
        // A wallet that exists and was not locked is held by another session, or is newer than the lock.
        for (position, wallet_no) in locked.existing {
            *wallets.get_mut(position).ok_or_else(|| damaged("wallets"))? = WalletState::Held(wallet_no);
        }
        for (position, wallet) in locked.wallets {
            *wallets.get_mut(position).ok_or_else(|| damaged("wallets"))? = wallet;
        }
        for (position, record) in locked.records {
            *records.get_mut(position).ok_or_else(|| damaged("ledger_entries"))? = Some(record);
        }
        Ok(known)
    }

    /// The same with the details of the batch's queries.
    pub(super) fn with_details(
        mut self,
        batch: &Batch<'_>,
        details: Vec<(usize, ExchangeDetail)>,
    ) -> Result<Self, SessionFault> {
        let queries: Vec<usize> = batch.queries().collect();
        for (position, detail) in details {
            let query = queries.get(position).ok_or_else(|| damaged("ledger_entries"))?;
            self.rows.details[*query] = Some(detail);
        }
        Ok(self)
    }

    /// The time of the read, as [`domain::ledger::LedgerEntry::at`] counts it.
    pub(super) fn at(&self) -> i64 {
        micros(self.at)
    }
}

/// The fault of a row that does not parse.
pub(super) fn damaged(table: &str) -> SessionFault {
    SessionFault::Other(StoreError::damaged(table))
}
