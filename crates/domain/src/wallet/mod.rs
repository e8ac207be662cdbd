//! The wallet of a player: its two purses, what games and operators ask of it, and what becomes of that (contract 3, 8.3
//! and 10).
//!
//! - `call`: the six calls that a game server signs, and what of each is signed.
//! - `fields`: the fields of each call, read, bounded and described in one line each.
//! - `request`: a call, or an operator's change, with checked fields; and its outcome.
//! - `purses`: the arithmetic of gifted and charged currency.
//! - `query`: the answers to what only asks.
//! - `user_ip`: the address of the player, and what is sent in its place.

mod call;
mod fields;
mod purses;
mod query;
mod request;
mod user_ip;

pub(crate) use call::join;
pub use call::{SignedFields, WalletCall, WalletForm, canonical_string, is_ambiguous, string_to_sign};
pub use fields::{DeveloperTexts, Reading, Sender, TS_AHEAD_MAX, TS_BEHIND_MAX, Timestamp};
pub use purses::{
    AMOUNT_MAX, Amount, BalanceOutOfRange, Balances, InsufficientBalance, NotGivenBack, Paid, PayPriority,
    PurseChange, check_credit,
};
pub use query::{CancelSummary, LedgerEnd, NumberChange, NumberKind, NumberState};
pub use request::{
    Action, Change, GivenBack, LedgerItem, OrderReceipt, Purchase, REPLAY_HOURS, Receipt, Refused, Repeat,
    WalletOutcome, WalletRequest,
};
