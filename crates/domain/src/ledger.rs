//! The hash chain of the ledger. The hash of an entry covers the entry and the hash of the entry
//! before it. So a changed entry is visible even if all sums still fit.

#[cfg(test)]
mod tests;

use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;

/// SHA-256 of an entry and of all entries before it in its wallet.
pub type ChainHash = [u8; 32];

/// The hash before the first entry of a wallet.
pub const CHAIN_START: ChainHash = [0; 32];

/// The start of [`LedgerEntry::at`], as in PostgreSQL: 2000-01-01 00:00 UTC, in seconds since the
/// Unix epoch.
const EPOCH_UNIX_SECONDS: i64 = 946_684_800;

/// `kind` of a credit.
pub const CREDIT: &str = "credit";
/// `kind` of an exchange.
pub const EXCHANGE: &str = "exchange";

/// A ledger entry with all stored columns but its hash. It accepts any values, because the audit
/// reads damaged entries, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerEntry<'a> {
    /// The app.
    pub app_id: &'a str,
    /// The player.
    pub open_id: &'a str,
    /// Its sequence number in the wallet, from 1.
    pub seq: i64,
    /// [`CREDIT`] or [`EXCHANGE`].
    pub kind: &'a str,
    /// The ref of a credit, or the `biz_no` of an exchange.
    pub reference: &'a str,
    /// Change of the gifted purse. A deduction is negative.
    pub free_change: i64,
    /// Change of the charged purse. A deduction is negative.
    pub charge_change: i64,
    /// Gifted currency after it.
    pub free_balance: i64,
    /// Charged currency after it.
    pub charge_balance: i64,
    /// Database time in microseconds since 2000-01-01 00:00 UTC. See [`micros`].
    pub at: i64,
}

impl LedgerEntry<'_> {
    /// The hash of the entry: SHA-256 of the hash of the entry before it ([`CHAIN_START`] for the
    /// first) and of the columns `app_id`, `open_id`, `seq`, `kind`, `reference`, `free_change`,
    /// `charge_change`, `free_balance`, `charge_balance` and `at`.
    ///
    /// Four bytes with the length precede each column. Texts are UTF-8. Numbers and the time have
    /// eight bytes, the highest first. So two different entries never have the same encoding.
    /// PostgreSQL's own binary form is the same, so that SQL can compute it:
    /// `int4send(octet_length(app_id)) || convert_to(app_id, 'UTF8') || ... || int4send(8) ||
    /// timestamptz_send(at)`.
    #[must_use]
    pub fn chain_hash(&self, previous: &ChainHash) -> ChainHash {
        let Self {
            app_id,
            open_id,
            seq,
            kind,
            reference,
            free_change,
            charge_change,
            free_balance,
            charge_balance,
            at,
        } = self;
        let mut hasher = Sha256::new();
        hasher.update(previous);
        add(&mut hasher, app_id.as_bytes());
        add(&mut hasher, open_id.as_bytes());
        add(&mut hasher, &seq.to_be_bytes());
        add(&mut hasher, kind.as_bytes());
        add(&mut hasher, reference.as_bytes());
        for number in [free_change, charge_change, free_balance, charge_balance, at] {
            add(&mut hasher, &number.to_be_bytes());
        }
        hasher.finalize().into()
    }
}

/// Converts a database time to [`LedgerEntry::at`].
#[must_use]
pub fn micros(at: OffsetDateTime) -> i64 {
    (at.unix_timestamp() - EPOCH_UNIX_SECONDS) * 1_000_000 + i64::from(at.microsecond())
}

/// Adds a column, with its length in front.
pub(super) fn add(hasher: &mut Sha256, column: &[u8]) {
    let length = u32::try_from(column.len()).expect("PostgreSQL keeps no text of 4 GiB");
    hasher.update(length.to_be_bytes());
    hasher.update(column);
}
