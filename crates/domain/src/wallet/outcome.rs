//! Outcomes of requests to a wallet: a receipt, the state of a `biz_no`, or why it was refused (contract 3, 8.3 and
//! 10).

use serde::Serialize;

use super::purses::Balances;
use crate::ids::{ItemId, WalletNo};

/// The result of a change of a wallet: the balances right after it, for ever the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The `biz_no`, or [`REF_MARK`](crate::ledger::REF_MARK) and the ref.
    pub reference: String,
    /// Both purses.
    pub balances: Balances,
    /// What a cancel gave back.
    pub given_back: Option<GivenBack>,
    /// What an order of a top-up has fixed.
    pub ordered: Option<OrderReceipt>,
}

/// What an order of a top-up has fixed, for ever the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderReceipt {
    /// The texts with product and figures.
    pub item_id: ItemId,
    /// When, in Unix milliseconds of the database.
    pub created_at: i64,
}

/// What a cancel gave back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenBack {
    /// The exchange.
    pub of: String,
    /// Gifted currency.
    pub free: i64,
    /// Charged currency.
    pub charge: i64,
    /// What can still be given back of the exchange.
    pub remaining: i64,
}

/// What became of a reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberState {
    /// The reference.
    pub reference: String,
    /// When it was used, in Unix milliseconds of the database.
    pub created_at: i64,
    /// The change. `None` for a closed reference.
    pub change: Option<NumberChange>,
}

/// What a reference has changed.
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

/// Where the ledger of a wallet ended at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerEnd {
    /// The wallet.
    pub wallet_no: WalletNo,
    /// Sequence number of its last entry. 0 before the first.
    pub seq: i64,
}

/// What became of a request to a wallet. Only `Done` has written anything, and `Number` when it closed the number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WalletOutcome {
    /// Carried out now, and committed.
    Done(Receipt),
    /// Carried out before under the same reference with the same content.
    Replayed(Receipt),
    /// Both purses of a balance.
    Balance {
        /// The purses.
        balances: Balances,
        /// Whether an operator has frozen the wallet (contract 17).
        is_frozen: bool,
        /// The last entry that made them.
        end: LedgerEnd,
    },
    /// What became of the number of a query.
    Number(Box<NumberState>),
    /// Nothing was changed. With both purses at that moment, where they were looked at.
    Refused(Refused, Option<Balances>),
}

/// Why a request to a wallet was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The reference was used with other content.
    Conflict,
    /// The reference was used more than 48 hours ago.
    Expired,
    /// A query has closed the reference.
    Closed,
    /// `ts` was outside the window, and the reference is new.
    TsOutsideWindow,
    /// The app has no wallet for this open id.
    UnknownWallet,
    /// An operator has frozen the wallet, which has these purses (contract 17).
    Frozen(Balances),
    /// The purses do not cover the deduction.
    InsufficientBalance(Balances),
    /// The cancel asks for more than is left of the exchange.
    MoreThanLeft {
        /// What is left.
        remaining: i64,
    },
    /// The player has no such number.
    UnknownNumber,
    /// A purse would hold more than 64 bits.
    PurseFull,
    /// The app does not sell the product that was ordered.
    NotForSale,
}

/// How long a `biz_no` is replayed, in hours after its first success (contract 3.3.4).
pub const REPLAY_HOURS: i32 = 48;

/// The answer to a request whose reference was used before (contract 3, "Meaning").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "UsedNumber")]
pub enum Repeat {
    /// The answer of the first success, again.
    Replayed,
    /// 10000602: the number stands for something else.
    Conflict,
    /// 10000603, with the same content and with other.
    Expired,
}

impl Repeat {
    /// `is_expired`: the first success is too long ago. `is_same`: the business content is that of then.
    #[must_use]
    pub fn answer(is_expired: bool, is_same: bool) -> Self {
        match (is_expired, is_same) {
            (true, _) => Self::Expired,
            (false, true) => Self::Replayed,
            (false, false) => Self::Conflict,
        }
    }
}
