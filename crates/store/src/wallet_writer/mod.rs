//! Requests to wallets (contract 3 and 10).
//!
//! [`NodeWriters::submit`] is the door ([`door`]). The writers of a process ([`crate::writer`]) carry the requests out.
//! Each has a session of its own ([`work`]) and carries out all requests that wait in one transaction. A pure function
//! decides each of them ([`batch`]) by the rows that were read ([`rows`]). [`mod@write`] has the statements that write
//! what was decided. Changes that belong to a transaction of the caller do not pass the door ([`in_transaction`]).

mod batch;
mod citus;
mod door;
mod in_transaction;
mod postgres;
mod query;
mod rows;
mod work;
mod write;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use domain::caller::Signed;
use domain::wallet::{WalletOutcome, WalletRequest};

use crate::writer;

pub(super) use batch::WalletState;
pub(super) use door::NodeWriters;
pub(super) use in_transaction::{
    ChangeOutcome, Changed, DecidedChanges, MadeEntry, change, change_unheld, foresee, plan_by_keys,
};
pub(super) use rows::{WALLET_COLUMNS, wallets};
pub(super) use write::write_statement;

/// The writers of wallets.
pub(super) type WalletWriters = writer::Writers<Signed<WalletRequest>, WalletOutcome>;
