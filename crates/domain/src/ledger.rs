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

crate::word_enum! {
    /// The kind of a ledger entry, or of another row that has used a reference.
    pub enum ReferenceKind {
        /// A game deducted (contract 3.3).
        Exchange = "exchange",
        /// A game gave gifted currency (contract 10.3).
        Present = "present",
        /// An exchange was given back, or a part of it (contract 10.4 and 10.7.3).
        Cancel = "cancel",
        /// A game closed a `biz_no`. It is no ledger entry.
        Closed = "closed",
        /// An operator added currency (contract 8.3).
        Credit = "credit",
        /// An operator took currency back (contract 10.7.2).
        Debit = "debit",
        /// A game ordered a top-up (contract 19.2). It is no ledger entry.
        TopupOrder = "topup_order",
        /// A payment was credited (contract 19.3).
        Topup = "topup",
        /// A payment was refunded, or a part of it (contract 19.5).
        Refund = "refund",
        /// A top-up has settled debt of its wallet (contract 19.5).
        Settlement = "settlement",
    }
}

/// `kind` of a credit.
pub const CREDIT: &str = ReferenceKind::Credit.as_str();
/// `kind` of an exchange.
pub const EXCHANGE: &str = ReferenceKind::Exchange.as_str();

/// The start of a reference that an operator gave. No `biz_no` has this character, so the namespaces of
/// games and operators never meet.
pub const REF_MARK: char = '!';

/// The start of the reference of a top-up: the provider and its order id follow, with a slash between them. No `biz_no` and
/// no reference of an operator begins so.
pub const TOPUP_MARK: char = '$';

/// The start of the reference of a refund: that of its payment follows without the mark, a slash, and the refund's id.
pub const REFUND_MARK: char = '%';

/// The start of the reference of a settlement of debt: that of the payment of its top-up follows without the mark.
pub const SETTLEMENT_MARK: char = '&';

/// The marks of refunds and settlements, whose references have their own rows beside the payments.
pub const REFUND_MARKS: [char; 2] = [REFUND_MARK, SETTLEMENT_MARK];

/// A reference as whoever made it wrote it: the ref of an operator without its mark, which may begin with one of its own.
#[must_use]
pub fn without_ref_mark(reference: &str) -> &str {
    reference.strip_prefix(REF_MARK).unwrap_or(reference)
}

/// What people and programs are told of a reference: a `biz_no`, or an operator's ref, or the payment of a top-up or
/// the refund.
#[must_use]
pub fn told_reference(reference: &str) -> (Option<&str>, Option<&str>) {
    match reference.strip_prefix([REF_MARK, TOPUP_MARK, REFUND_MARK, SETTLEMENT_MARK]) {
        Some(of_operator) => (None, Some(of_operator)),
        None => (Some(reference), None),
    }
}

/// A ledger entry with all columns that its hash covers. It accepts any values, because the audit
/// reads damaged entries, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerEntry<'a> {
    /// Number of the app.
    pub app_no: i32,
    /// Number of the wallet.
    pub wallet_no: i64,
    /// Its sequence number in the wallet, from 1.
    pub seq: i64,
    /// A [`ReferenceKind`].
    pub kind: &'a str,
    /// The `biz_no` of an exchange, [`REF_MARK`] and the ref of a credit, or [`TOPUP_MARK`] and a payment.
    pub reference: &'a str,
    /// The exchange that a cancel gives back.
    pub of_biz_no: Option<&'a str>,
    /// The amount that can still be given back of that exchange.
    pub remaining: Option<i64>,
    /// The item that an exchange bought: an [`ItemId`](crate::ids::ItemId).
    pub item_id: Option<[u8; 16]>,
    /// Effective priority of an exchange: 0 charged first, 1 gifted first.
    pub pay_priority: Option<i16>,
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
    /// The hash that chains this entry to the one before it in its wallet, from the hash of that one.
    ///
    /// It is the SHA-256 of `previous` ([`CHAIN_START`] for the first entry) and of these columns:
    /// `app_no`, `wallet_no`, `seq`, `kind`, `reference`, `of_biz_no`, `remaining`, `item_id`,
    /// `pay_priority`, `free_change`, `charge_change`, `free_balance`, `charge_balance` and `at`.
    ///
    /// Four bytes with the length precede each column. Texts are UTF-8. `app_no` has four bytes,
    /// `pay_priority` two, the other numbers and the time eight, the highest first. A null has the length −1 and no bytes.
    /// So two different entries never have the same encoding.
    /// PostgreSQL's own binary form is the same, so that SQL can compute it:
    /// `int4send(4) || int4send(app_no) || ... || int4send(octet_length(kind)) || convert_to(kind, 'UTF8')
    /// || ... || int4send(8) || timestamptz_send(at)`.
    #[must_use]
    pub fn chain_hash(&self, previous: &ChainHash) -> ChainHash {
        let Self {
            app_no,
            wallet_no,
            seq,
            kind,
            reference,
            of_biz_no,
            remaining,
            item_id,
            pay_priority,
            free_change,
            charge_change,
            free_balance,
            charge_balance,
            at,
        } = self;
        let mut hasher = Sha256::new();
        hasher.update(previous);
        add(&mut hasher, &app_no.to_be_bytes());
        add(&mut hasher, &wallet_no.to_be_bytes());
        add(&mut hasher, &seq.to_be_bytes());
        add(&mut hasher, kind.as_bytes());
        add(&mut hasher, reference.as_bytes());
        add_if_any(&mut hasher, of_biz_no.map(str::as_bytes));
        add_if_any(&mut hasher, remaining.map(i64::to_be_bytes));
        add_if_any(&mut hasher, *item_id);
        add_if_any(&mut hasher, pay_priority.map(i16::to_be_bytes));
        for number in [free_change, charge_change, free_balance, charge_balance, at] {
            add(&mut hasher, &number.to_be_bytes());
        }
        hasher.finalize().into()
    }
}

/// Converts [`LedgerEntry::at`] to milliseconds since the Unix epoch.
#[must_use]
pub fn unix_millis(at: i64) -> i64 {
    at.div_euclid(1_000) + EPOCH_UNIX_SECONDS * 1_000
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

/// Adds a column that may be null.
pub(super) fn add_if_any(hasher: &mut Sha256, column: Option<impl AsRef<[u8]>>) {
    match column {
        Some(column) => add(hasher, column.as_ref()),
        None => hasher.update((-1_i32).to_be_bytes()),
    }
}
