//! Answers to what only asks of a wallet: the state of a number, and where a ledger ends (contract 10.5 and 10.6).

use super::request::OrderReceipt;
use crate::ids::WalletNo;

/// The outcome of a reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberState {
    /// The reference.
    pub reference: String,
    /// When it was used, in Unix milliseconds of the database.
    pub created_at: i64,
    /// The change. `None` for a closed reference.
    pub change: Option<NumberChange>,
}

/// The change that a reference has made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberChange {
    /// Its kind.
    pub kind: NumberKind,
    /// Change of the gifted purse; a deduction is negative.
    pub free_change: i64,
    /// Change of the charged purse; a deduction is negative.
    pub charge_change: i64,
    /// Zone and role, as sent.
    pub zone_id: String,
}

/// The kind of a reference that has changed a wallet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NumberKind {
    /// An exchange.
    Exchange {
        /// Name of what was bought.
        product_name: String,
        /// What can still be given back.
        remaining: i64,
        /// What was given back, oldest first.
        cancels: Vec<CancelSummary>,
        /// True when there are more cancels than these.
        has_more_cancels: bool,
    },
    /// A present.
    Present,
    /// A cancel of this exchange.
    Cancel {
        /// The exchange.
        of: String,
    },
    /// An order of a top-up.
    Order(OrderReceipt),
}

/// One cancel of an exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CancelSummary {
    /// Its `biz_no`, or [`REF_MARK`](crate::ledger::REF_MARK) and the ref of an operator.
    pub reference: String,
    /// What it gave back.
    pub amount: i64,
    /// When, in Unix milliseconds of the database.
    pub created_at: i64,
}

/// The end of the ledger of a wallet at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerEnd {
    /// The wallet.
    pub wallet_no: WalletNo,
    /// Sequence number of its last entry. 0 before the first.
    pub seq: i64,
}
