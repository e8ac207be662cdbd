//! Commands of operators to a wallet, once for each ref: credits (contract 8.3), debits and cancels (contract 10.7). A
//! large one waits for a second person (contract 8.6.40).

mod credit_list;
mod give_back_limit;
mod refusal;

use schemars::JsonSchema;
use serde::Serialize;

use crate::fields::FieldError;
use crate::ids::{BizNo, CreditRef, OpenId};
use crate::ledger::{ReferenceKind, without_ref_mark};
use crate::wallet::{Amount, Change, GivenBack, Receipt, WalletRequest};

pub use credit_list::{
    CreditCells, CreditStatus, CreditsForAll, REF_PREFIX_BYTES_MAX, credit_amount, ref_prefix,
};
pub use give_back_limit::GiveBackLimit;
pub use refusal::{
    above_limit, above_rest_of_limit, balance_too_large, erased_player, gift_differs, more_than_left,
    needs_command_line, needs_second_person, not_covered, own_request, ref_used, refused, unknown_exchange,
    unknown_gift, unknown_player, unknown_request,
};

/// A new credit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credit {
    /// The player.
    pub open_id: OpenId,
    /// Gifted currency to add.
    pub free: i64,
    /// Charged currency to add.
    pub charge: i64,
    /// The operator's reference, unique in the app.
    pub reference: CreditRef,
    /// Note for people.
    pub note: String,
    /// Whether the credit registers a player whom the app does not know (contract 8.3.2).
    pub create: bool,
}

/// A new debit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Debit {
    /// The player.
    pub open_id: OpenId,
    /// Gifted currency to take.
    pub free: i64,
    /// Charged currency to take.
    pub charge: i64,
    /// The operator's reference, unique in the app.
    pub reference: CreditRef,
    /// Note for people.
    pub note: String,
}

/// A new cancel by an operator: an exchange is given back, or a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GiveBack {
    /// The exchange.
    pub biz_no: BizNo,
    /// How much of it.
    pub amount: Amount,
    /// The operator's reference, unique in the app.
    pub reference: CreditRef,
    /// Note for people.
    pub note: String,
}

/// A command to a wallet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WalletCommand {
    /// Coins are added.
    Credit(Credit),
    /// Coins are taken.
    Debit(Debit),
    /// An exchange is given back, or a part of it.
    GiveBack(GiveBack),
}

impl From<Credit> for WalletCommand {
    fn from(credit: Credit) -> Self {
        Self::Credit(credit)
    }
}

impl From<Debit> for WalletCommand {
    fn from(debit: Debit) -> Self {
        Self::Debit(debit)
    }
}

impl From<GiveBack> for WalletCommand {
    fn from(give_back: GiveBack) -> Self {
        Self::GiveBack(give_back)
    }
}

impl Credit {
    /// The credit as a request to its wallet.
    #[must_use]
    pub fn request(&self) -> WalletRequest {
        WalletRequest::of_operator(self.open_id.clone(), &self.reference, self.change(), self.note.clone())
    }

    const fn change(&self) -> Change {
        Change::Credit { free: self.free, charge: self.charge }
    }
}

impl WalletCommand {
    /// The operator's reference.
    #[must_use]
    pub const fn reference(&self) -> &CreditRef {
        match self {
            Self::Credit(Credit { reference, .. })
            | Self::Debit(Debit { reference, .. })
            | Self::GiveBack(GiveBack { reference, .. }) => reference,
        }
    }

    /// The note for people.
    #[must_use]
    pub fn note(&self) -> &str {
        match self {
            Self::Credit(Credit { note, .. })
            | Self::Debit(Debit { note, .. })
            | Self::GiveBack(GiveBack { note, .. }) => note,
        }
    }

    /// Its kind in the ledger.
    #[must_use]
    pub const fn kind(&self) -> ReferenceKind {
        match self {
            Self::Credit(_) => ReferenceKind::Credit,
            Self::Debit(_) => ReferenceKind::Debit,
            Self::GiveBack(_) => ReferenceKind::Cancel,
        }
    }

    /// Gifted and charged coins of a credit or a debit. What an exchange gives back is known only when it does.
    #[must_use]
    pub const fn purses(&self) -> Option<(i64, i64)> {
        match self {
            Self::Credit(Credit { free, charge, .. }) | Self::Debit(Debit { free, charge, .. }) => {
                Some((*free, *charge))
            }
            Self::GiveBack(_) => None,
        }
    }

    /// The amount that is given back, and its exchange.
    #[must_use]
    pub const fn given_back(&self) -> Option<(&BizNo, Amount)> {
        match self {
            Self::GiveBack(GiveBack { biz_no, amount, .. }) => Some((biz_no, *amount)),
            Self::Credit(_) | Self::Debit(_) => None,
        }
    }

    /// What it changes, but for the player: two commands with the same content are the same change.
    #[must_use]
    pub fn content(&self) -> impl PartialEq + '_ {
        (self.reference(), self.kind(), self.purses(), self.given_back(), self.makes_known())
    }

    /// How many coins it moves, of both purses.
    #[must_use]
    pub fn coins(&self) -> i64 {
        let given = self.given_back().map_or(0, |(_, amount)| amount.get());
        self.purses().map_or(given, |(free, charge)| free.saturating_add(charge))
    }

    /// Whether it registers a player.
    #[must_use]
    pub const fn makes_known(&self) -> bool {
        matches!(self, Self::Credit(Credit { create: true, .. }))
    }

    /// The command as a request to the wallet of this player.
    #[must_use]
    pub fn request(&self, open_id: &OpenId) -> WalletRequest {
        let change = match self {
            Self::Credit(credit) => credit.change(),
            Self::Debit(Debit { free, charge, .. }) => Change::Debit { free: *free, charge: *charge },
            Self::GiveBack(GiveBack { biz_no, amount, .. }) => {
                Change::Cancel { of: biz_no.clone(), amount: *amount }
            }
        };
        WalletRequest::of_operator(open_id.clone(), self.reference(), change, self.note().to_owned())
    }
}

/// Checks the player of a credit, whom it registers where `create` says so.
///
/// # Errors
/// It would register an erased player (contract 13.7.12).
pub fn check_registered(open_id: &OpenId, create: bool) -> Result<(), FieldError> {
    let checked = if create { open_id.check_new() } else { Ok(()) };
    checked.map_err(|expected| FieldError::malformed("open_id", expected.0, open_id.as_str()))
}

/// A credit that was made.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "Credit")]
pub struct ChangedPurses {
    #[serde(rename = "ref")]
    #[expect(missing_docs, reason = "the schema shows it without a description")]
    pub reference: String,
    /// Gifted currency right after the credit.
    pub free_balance: i64,
    /// Charged currency right after it.
    pub charge_balance: i64,
    /// Whether an earlier request made it.
    pub replayed: bool,
}

/// What was given back of an exchange.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "ExchangeCancel")]
pub struct ReturnedExchange {
    #[serde(rename = "ref")]
    #[expect(missing_docs, reason = "the schema shows it without a description")]
    pub reference: String,
    /// The exchange.
    #[schemars(with = "BizNo")]
    pub biz_no: String,
    /// Gifted currency that this cancel gave back.
    pub free_refunded: i64,
    /// Charged currency that this cancel gave back.
    pub charge_refunded: i64,
    /// What can still be given back.
    pub remaining: i64,
    /// Gifted currency right after it.
    pub free_balance: i64,
    /// Charged currency right after it.
    pub charge_balance: i64,
    /// Whether an earlier request made it.
    pub replayed: bool,
}

/// The change of a wallet.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum WalletReport {
    /// A credit or a debit was made.
    Changed(ChangedPurses),
    /// An exchange was given back.
    Returned(ReturnedExchange),
}

impl ChangedPurses {
    /// The content of a receipt. `replayed`: an earlier command with the same ref made the change.
    #[must_use]
    pub fn new(receipt: &Receipt, replayed: bool) -> Self {
        let reference = without_ref_mark(&receipt.reference).to_owned();
        let (free_balance, charge_balance) = (receipt.balances.free(), receipt.balances.charge());
        Self { reference, free_balance, charge_balance, replayed }
    }
}

impl WalletReport {
    /// The content of a receipt. `replayed`: an earlier command with the same ref made the change.
    #[must_use]
    pub fn new(receipt: &Receipt, replayed: bool) -> Self {
        let changed = ChangedPurses::new(receipt, replayed);
        let Some(GivenBack { of, free, charge, remaining }) = &receipt.given_back else {
            return Self::Changed(changed);
        };
        let ChangedPurses { reference, free_balance, charge_balance, replayed } = changed;
        Self::Returned(ReturnedExchange {
            reference,
            biz_no: of.clone(),
            free_refunded: *free,
            charge_refunded: *charge,
            remaining: *remaining,
            free_balance,
            charge_balance,
            replayed,
        })
    }

    /// Whether an earlier command with the same ref made the change.
    #[must_use]
    pub const fn is_replayed(&self) -> bool {
        match self {
            Self::Changed(ChangedPurses { replayed, .. })
            | Self::Returned(ReturnedExchange { replayed, .. }) => *replayed,
        }
    }
}
