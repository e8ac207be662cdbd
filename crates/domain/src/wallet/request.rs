//! Requests of games and operators to a wallet, with checked fields, and their outcomes. An outcome is a receipt, or
//! the reason of a refusal (contract 3, 8.3 and 10).

use serde::Serialize;

use super::fields::{Sender, Timestamp};
use super::purses::{Amount, Balances, PayPriority};
use super::query::{LedgerEnd, NumberState};
use crate::ids::{BizNo, CreditRef, ItemId, OpenId, ProductText};
use crate::ledger::{REF_MARK, ReferenceKind};
use crate::product_info::ProductInfo;
use crate::topup::{CoinPair, Shortfall, TopupOrder};

/// A request to a wallet with checked fields. The caller beside it says who asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WalletRequest {
    /// The player.
    pub open_id: OpenId,
    /// The idempotency key, unique in the app: a `biz_no`, or [`REF_MARK`] and the ref of an operator. Empty for a
    /// balance.
    pub reference: String,
    /// What is asked.
    pub action: Action,
    /// The time of the request. `None` for an operator.
    pub ts: Option<Timestamp>,
    /// Whether `ts` was inside the window when the request arrived. It is checked only after
    /// the order number: a replay may be older. True for an operator.
    pub is_fresh: bool,
    /// The game's statements about itself and its player. `None` for an operator and for a query.
    pub sender: Option<Sender>,
    /// The `product_desc` of a present or a cancel, or the note of an operator.
    pub remark: Option<String>,
}

/// What is asked of a wallet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// A change, once for each reference.
    Change(Change),
    /// Orders a top-up, once for each reference. It moves no coins.
    Order(TopupOrder),
    /// Shows both purses.
    Balance,
    /// Shows what became of the reference.
    Query {
        /// Closes the reference if nothing has used it.
        closes: bool,
    },
}

/// A change of a wallet. Each kind is a ledger entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Deducts an amount for what is bought.
    Exchange(Purchase),
    /// Adds gifted currency.
    Present(Amount),
    /// Gives back an exchange, or a part of it.
    Cancel {
        /// The exchange.
        of: BizNo,
        /// How much of it.
        amount: Amount,
    },
    /// Adds to both purses, for an operator.
    Credit {
        /// Gifted currency to add.
        free: i64,
        /// Charged currency to add.
        charge: i64,
    },
    /// Takes from both purses, for an operator.
    Debit {
        /// Gifted currency to take.
        free: i64,
        /// Charged currency to take.
        charge: i64,
    },
    /// Adds what a payment has bought to both purses.
    Topup {
        /// Gifted currency to add.
        bonus: i64,
        /// Charged currency to add.
        charge: i64,
    },
    /// Takes back what a refund owes.
    Refund {
        /// The coins that are owed.
        owed: CoinPair,
        /// What becomes of those that the purses do not hold.
        shortfall: Shortfall,
    },
    /// Takes what settles debt of the wallet.
    Settlement(CoinPair),
}

impl Change {
    /// Its kind in the ledger.
    #[must_use]
    pub const fn kind(&self) -> ReferenceKind {
        match self {
            Self::Exchange(_) => ReferenceKind::Exchange,
            Self::Present(_) => ReferenceKind::Present,
            Self::Cancel { .. } => ReferenceKind::Cancel,
            Self::Credit { .. } => ReferenceKind::Credit,
            Self::Debit { .. } => ReferenceKind::Debit,
            Self::Topup { .. } => ReferenceKind::Topup,
            Self::Refund { .. } => ReferenceKind::Refund,
            Self::Settlement(_) => ReferenceKind::Settlement,
        }
    }
}

/// Texts that many rows of the ledger share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerItem<'a> {
    /// Their digest.
    pub id: &'a ItemId,
    /// Name of what is bought, or the product of an order.
    pub product_name: &'a str,
    /// JSON text: the items, or the figures of an order.
    pub product_info: &'a str,
    /// Remark of an exchange.
    pub product_desc: &'a str,
}

/// The price of an exchange, and its item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Purchase {
    /// What is deducted.
    pub amount: Amount,
    /// Effective priority: an empty field has become the default.
    pub pay_priority: PayPriority,
    /// Name of the item or bundle.
    pub product_name: ProductText,
    /// The items, as JSON text.
    pub product_info: ProductInfo,
    /// Remark.
    pub product_desc: ProductText,
    /// The three texts, as the ledger names them.
    pub item_id: ItemId,
}

impl WalletRequest {
    /// A request of an operator under a ref.
    #[must_use]
    pub fn of_operator(open_id: OpenId, reference: &CreditRef, change: Change, note: String) -> Self {
        Self {
            open_id,
            reference: format!("{REF_MARK}{reference}"),
            action: Action::Change(change),
            ts: None,
            is_fresh: true,
            sender: None,
            remark: Some(note),
        }
    }

    /// A change that a payment, its refund or a settlement of debt makes, under the reference of its ledger entry.
    #[must_use]
    pub fn of_payment(open_id: OpenId, reference: String, change: Change) -> Self {
        Self {
            open_id,
            reference,
            action: Action::Change(change),
            ts: None,
            is_fresh: true,
            sender: None,
            remark: None,
        }
    }

    /// Whether a game asks, and no operator.
    #[must_use]
    pub const fn is_of_game(&self) -> bool {
        self.ts.is_some()
    }

    /// The exchange that is to be given back.
    #[must_use]
    pub fn target(&self) -> Option<&str> {
        if let Action::Change(Change::Cancel { of, .. }) = &self.action { Some(of.as_str()) } else { None }
    }

    /// The item that an exchange buys.
    #[must_use]
    pub fn purchase(&self) -> Option<&Purchase> {
        if let Action::Change(Change::Exchange(purchase)) = &self.action { Some(purchase) } else { None }
    }

    /// The kind of the row that it writes into the ledger. `None` for what only asks.
    #[must_use]
    pub const fn kind(&self) -> Option<ReferenceKind> {
        match &self.action {
            Action::Change(change) => Some(change.kind()),
            Action::Order(_) => Some(ReferenceKind::TopupOrder),
            Action::Balance | Action::Query { .. } => None,
        }
    }

    /// The texts that the ledger keeps apart: what an exchange buys, or what an order has fixed.
    #[must_use]
    pub fn item(&self) -> Option<LedgerItem<'_>> {
        match &self.action {
            Action::Change(Change::Exchange(bought)) => Some(LedgerItem {
                id: &bought.item_id,
                product_name: bought.product_name.as_str(),
                product_info: bought.product_info.as_str(),
                product_desc: bought.product_desc.as_str(),
            }),
            Action::Order(TopupOrder { product_id, offered: Some(offered) }) => Some(LedgerItem {
                id: &offered.item_id,
                product_name: product_id.as_str(),
                product_info: &offered.figures,
                product_desc: "",
            }),
            Action::Order(TopupOrder { offered: None, .. })
            | Action::Change(_)
            | Action::Balance
            | Action::Query { .. } => None,
        }
    }
}

/// The outcome of a request to a wallet. Only `Done` has written anything, and `Number` when it closed the number.
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
    /// The outcome of the number of a query.
    Number(Box<NumberState>),
    /// Nothing was changed. With both purses at that moment, where they were looked at.
    Refused(Refused, Option<Balances>),
}

/// The result of a change of a wallet: the balances right after it, for ever the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The `biz_no`, or [`REF_MARK`](crate::ledger::REF_MARK) and the ref.
    pub reference: String,
    /// Both purses.
    pub balances: Balances,
    /// The coins that a cancel gave back.
    pub given_back: Option<GivenBack>,
    /// The terms that an order of a top-up has fixed.
    pub ordered: Option<OrderReceipt>,
}

/// The terms that an order of a top-up has fixed, for ever the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderReceipt {
    /// The texts with product and figures.
    pub item_id: ItemId,
    /// When, in Unix milliseconds of the database.
    pub created_at: i64,
}

/// The coins that a cancel gave back.
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
