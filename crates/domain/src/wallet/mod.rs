//! The wallet of a player: its two purses, what games and operators ask of it, and what becomes of that (contract 3, 8.3
//! and 10).
//!
//! - `call`: the six calls that a game server signs.
//! - `fields`: the fields of each call, read, bounded and described in one line each.
//! - `request`: a call, or an operator's change, with checked fields.
//! - `purses`: the arithmetic of gifted and charged currency.
//! - `string_to_sign`: what of a call is signed.
//! - `outcome`: receipts and refusals.

mod call;
mod fields;
mod outcome;
mod purses;
mod request;
mod string_to_sign;

pub use call::{SignedFields, WalletCall, WalletForm};
pub use fields::{EXTENSION_BYTES_MAX, Sender};
pub use outcome::{
    CancelSummary, GivenBack, LedgerEnd, NumberChange, NumberKind, NumberState, OrderReceipt, REPLAY_HOURS,
    Receipt, Refused, Repeat, WalletOutcome,
};
pub use purses::{
    AMOUNT_MAX, Amount, BalanceOutOfRange, Balances, InsufficientBalance, NotGivenBack, Paid, PayPriority,
    PurseChange, check_credit,
};
pub use request::{
    Action, Change, LedgerItem, Purchase, Reading, TS_AHEAD_MAX, TS_BEHIND_MAX, Timestamp, WalletRequest,
};
pub(crate) use string_to_sign::join;
pub use string_to_sign::{canonical_string, is_ambiguous, string_to_sign};
