//! What an operator does to a wallet, once for each ref: credits (contract 8.3), debits and cancels (contract 10.7). A
//! large one waits for a second person (contract 8.6.40).

use std::fmt::Display;

use schemars::JsonSchema;
use serde::Serialize;

use super::{OperationRefusal, RefusalKind, Subject};
use crate::ids::{AppId, BizNo, CreditRef, OpenId};
use crate::ledger::{REF_MARK, ReferenceKind};
use crate::text;
use crate::wallet::{Amount, Change, GivenBack, Receipt, Refused, WalletRequest};

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
    /// Whether the credit makes a player known whom the app does not know (contract 8.3.2).
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

/// What is done to a wallet.
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
        let change = Change::Credit { free: self.free, charge: self.charge };
        WalletRequest::of_operator(self.open_id.clone(), &self.reference, change, self.note.clone())
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

    /// What is given back of which exchange.
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

    /// Whether it makes a player known.
    #[must_use]
    pub const fn makes_known(&self) -> bool {
        matches!(self, Self::Credit(Credit { create: true, .. }))
    }

    /// The command as a request to the wallet of this player.
    #[must_use]
    pub fn request(&self, open_id: &OpenId) -> WalletRequest {
        let change = match self {
            Self::Credit(Credit { free, charge, .. }) => Change::Credit { free: *free, charge: *charge },
            Self::Debit(Debit { free, charge, .. }) => Change::Debit { free: *free, charge: *charge },
            Self::GiveBack(GiveBack { biz_no, amount, .. }) => {
                Change::Cancel { of: biz_no.clone(), amount: *amount }
            }
        };
        WalletRequest::of_operator(open_id.clone(), self.reference(), change, self.note().to_owned())
    }
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

/// What was done to a wallet.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum WalletReport {
    /// A credit or a debit was made.
    Changed(ChangedPurses),
    /// An exchange was given back.
    Returned(ReturnedExchange),
}

impl ChangedPurses {
    /// What a receipt tells. `replayed`: an earlier command with the same ref made the change.
    #[must_use]
    pub fn new(receipt: &Receipt, replayed: bool) -> Self {
        let reference = receipt.reference.trim_start_matches(REF_MARK).to_owned();
        let (free_balance, charge_balance) = (receipt.balances.free(), receipt.balances.charge());
        Self { reference, free_balance, charge_balance, replayed }
    }
}

impl WalletReport {
    /// What a receipt tells. `replayed`: an earlier command with the same ref made the change.
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

/// Why the wallet of this player does not take an operator's change.
#[must_use]
pub fn refused(why: Refused, app_id: &AppId, open_id: &OpenId, reference: &CreditRef) -> OperationRefusal {
    match why {
        Refused::UnknownWallet => unknown_player(app_id, open_id),
        Refused::InsufficientBalance(purses) => not_covered(purses.free(), purses.charge()),
        Refused::MoreThanLeft { remaining } => more_than_left(remaining),
        Refused::PurseFull => balance_too_large(),
        // What only a request of a game meets is a ref that was used, too.
        Refused::Conflict
        | Refused::Expired
        | Refused::Closed
        | Refused::TsOutsideWindow
        | Refused::UnknownNumber => ref_used(reference),
    }
}

/// The app does not know the player, and the change makes nobody known.
#[must_use]
pub fn unknown_player(app_id: impl Display, open_id: impl Display) -> OperationRefusal {
    let text = text!("there is no player {open_id} of an app {app_id}", open_id, app_id);
    OperationRefusal::new(RefusalKind::Unknown(Subject::Player), text).of_app(app_id)
}

/// The app has sold nothing under this number.
#[must_use]
pub fn unknown_exchange(app_id: impl Display, biz_no: impl Display) -> OperationRefusal {
    let text = text!("there is no exchange {biz_no} of an app {app_id}", biz_no, app_id);
    OperationRefusal::new(RefusalKind::Unknown(Subject::Exchange), text).of_app(app_id)
}

/// The purses do not cover a debit.
#[must_use]
pub fn not_covered(free: impl Display, charge: impl Display) -> OperationRefusal {
    let text = text!("the player has {free} gifted and {charge} charged coins", free, charge);
    OperationRefusal::new(RefusalKind::Conflict, text)
}

/// Less is left of the exchange.
#[must_use]
pub fn more_than_left(remaining: impl Display) -> OperationRefusal {
    OperationRefusal::new(RefusalKind::Conflict, text!("{remaining} is left to give back", remaining))
}

/// The ref stands for another change, or for a request of one.
#[must_use]
pub fn ref_used(reference: impl Display) -> OperationRefusal {
    let text = text!("the ref {reference} was used for another player or with other amounts", reference);
    OperationRefusal::new(RefusalKind::Conflict, text)
}

/// A purse cannot hold that much.
#[must_use]
pub fn balance_too_large() -> OperationRefusal {
    OperationRefusal::new(RefusalKind::Limit, text!("a balance would be more than 9223372036854775807"))
}

/// The role of whoever asked gives back no more of an exchange (contract 8.6.38).
#[must_use]
pub fn above_limit(max: impl Display) -> OperationRefusal {
    let text = text!("the role support gives back at most {max} coins of an exchange", max);
    OperationRefusal::new(RefusalKind::NotAllowed, text)
}

/// There is no such request of a change.
#[must_use]
pub fn unknown_request(app_id: impl Display, reference: impl Display) -> OperationRefusal {
    let text = text!("there is no request {reference} of an app {app_id}", reference, app_id);
    OperationRefusal::new(RefusalKind::Unknown(Subject::Request), text).of_app(app_id)
}

/// Nobody confirms what they asked for themselves (contract 8.6.40).
#[must_use]
pub fn own_request() -> OperationRefusal {
    let text = text!("you asked for this change yourself, and another admin must confirm it");
    OperationRefusal::new(RefusalKind::NotAllowed, text)
}
