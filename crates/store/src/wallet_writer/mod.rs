//! Requests to wallets (contract 3 and 10).
//!
//! The writers of a process ([`crate::writer`]) carry the requests out. Each has a session of its own
//! ([`work`]) and carries out all requests that wait in one transaction. A pure function decides
//! each of them ([`batch`]). Requests to one wallet always go to the same writer.

mod batch;
mod citus;
mod operators;
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
pub(super) use citus::NodeWriters;
pub(super) use operators::{
    ChangeOutcome, Changed, DecidedChanges, MadeEntry, change, change_unheld, foresee, plan_by_keys,
};
pub(super) use rows::{WALLET_COLUMNS, wallets};
pub(super) use write::write_statement;

/// The writers of wallets.
pub(super) type WalletWriters = writer::Writers<Signed<WalletRequest>, WalletOutcome>;
