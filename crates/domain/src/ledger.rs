//! The ledger's hash chain: each entry of a wallet has a hash over itself and over the hash of the
//! entry before it, so that a changed entry shows even where all sums still fit.

#[cfg(test)]
mod tests;

use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;

/// SHA-256 of an entry and of all entries before it in its wallet.
pub type ChainHash = [u8; 32];

/// What the first entry of a wallet is chained to.
pub const CHAIN_START: ChainHash = [0; 32];

/// From where [`LedgerEntry::at`] is counted, as PostgreSQL does: 2000-01-01 00:00 UTC, in
/// seconds since the Unix epoch.
const EPOCH_UNIX_SECONDS: i64 = 946_684_800;

/// `kind` of an entry that a credit made.
pub const CREDIT: &str = "credit";
/// `kind` of an entry that an exchange made.
pub const EXCHANGE: &str = "exchange";

/// A ledger entry with every column that is stored, but for its hash. Texts and numbers are taken
/// as they are: the audit reads entries that somebody may have damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerEntry<'a> {
    /// The app.
    pub app_id: &'a str,
    /// The player.
    pub open_id: &'a str,
    /// Its place in the wallet, from 1.
    pub seq: i64,
    /// [`CREDIT`] or [`EXCHANGE`].
    pub kind: &'a str,
    /// The ref of a credit, the `biz_no` of an exchange.
    pub reference: &'a str,
    /// Change of the gifted purse; a deduction is negative.
    pub free_change: i64,
    /// Change of the charged purse; a deduction is negative.
    pub charge_change: i64,
    /// Gifted currency after it.
    pub free_balance: i64,
    /// Charged currency after it.
    pub charge_balance: i64,
    /// Database time in microseconds since 2000-01-01 00:00 UTC; see [`micros`].
    pub at: i64,
}

impl LedgerEntry<'_> {
    /// The entry's place in its wallet's chain: SHA-256 of the hash of the entry before it
    /// ([`CHAIN_START`] for the first) and of the columns `app_id`, `open_id`, `seq`, `kind`,
    /// `reference`, `free_change`, `charge_change`, `free_balance`, `charge_balance` and `at`.
    ///
    /// Each column is preceded by its length in bytes, as four bytes; texts are UTF-8, numbers and
    /// the time eight bytes; every number has its highest byte first. So two different entries are
    /// never encoded alike. PostgreSQL's own binary form is the same, so that SQL can check it:
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

/// A moment of the database as [`LedgerEntry::at`] counts it.
#[must_use]
pub fn micros(at: OffsetDateTime) -> i64 {
    (at.unix_timestamp() - EPOCH_UNIX_SECONDS) * 1_000_000 + i64::from(at.microsecond())
}

fn add(hasher: &mut Sha256, column: &[u8]) {
    let length = u32::try_from(column.len()).expect("PostgreSQL keeps no text of 4 GiB");
    hasher.update(length.to_be_bytes());
    hasher.update(column);
}
