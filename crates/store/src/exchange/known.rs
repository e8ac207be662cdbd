//! The rows of a batch that the database holds, as [`Batch::decide`] takes them.

use domain::ledger::micros;
use time::OffsetDateTime;

use super::batch::{Batch, IdempotencyRecord, WalletState};
use super::fault::SessionFault;
use crate::StoreError;

/// The database's rows of a batch, in the order of the batch's keys, and the time of the read.
pub(super) struct Known {
    pub(super) wallets: Vec<WalletState>,
    pub(super) records: Vec<Option<IdempotencyRecord>>,
    pub(super) at: OffsetDateTime,
}

impl Known {
    pub(super) fn nothing(batch: &Batch<'_>) -> Self {
        Self {
            wallets: vec![WalletState::Unknown; batch.wallets.names.len()],
            records: vec![None; batch.biz_nos.names.len()],
            at: OffsetDateTime::UNIX_EPOCH,
        }
    }

    /// From the results of the statements that lock, each with its position in the batch.
    pub(super) fn of_locked(
        batch: &Batch<'_>,
        locked: Vec<(usize, WalletState)>,
        present: Vec<usize>,
        recorded: Vec<(usize, IdempotencyRecord)>,
        at: OffsetDateTime,
    ) -> Result<Self, SessionFault> {
        let mut known = Self { at, ..Self::nothing(batch) };
        // A wallet that exists and was not locked is held by another session.
        for position in present {
            *known.wallets.get_mut(position).ok_or_else(|| damaged("wallets"))? = WalletState::Held;
        }
        for (position, wallet) in locked {
            *known.wallets.get_mut(position).ok_or_else(|| damaged("wallets"))? = wallet;
        }
        for (position, record) in recorded {
            *known.records.get_mut(position).ok_or_else(|| damaged("ledger_entries"))? = Some(record);
        }
        Ok(known)
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
