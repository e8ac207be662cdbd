//! The seam below a writer: the statements that it sends, and the time that it goes by.
//!
//! Everything above decides what is sent next, and is the same code whether PostgreSQL is below
//! (`postgres`) or the simulation of it (`simulation`), which tries every order of events.

use std::ops::Range;
use std::time::Duration;

use domain::ledger::ChainHash;
use time::OffsetDateTime;
use tokio::time::Instant;

use super::batch::{Batch, Record};
use super::columns::Columns;
use super::session::Fault;
use super::statements::{FoundWallet, Known};

/// A database that sessions can be opened with.
pub(super) trait Database: Clone {
    /// What sends the statements of a session.
    type Client: Client;
    /// Drives a session for as long as it is polled; ends when the session does, with its fault.
    type Connection: Future<Output = Fault> + Unpin;

    /// Opens a session in which every statement of [`Client`] is ready. A database that refuses is
    /// away; a session that was made and ended meanwhile is lost, and another may do better.
    async fn connect(&self) -> Result<(Self::Client, Self::Connection), Fault>;

    /// How long an answer is waited for, before the session counts as lost.
    fn answer_timeout(&self) -> Duration;

    /// The time now.
    fn now(&self) -> Instant;

    /// Ends after this long.
    async fn pause(&self, duration: Duration);
}

/// The statements of a session. Each is sent when its future is first polled, without waiting for
/// those before; they are carried out in that order.
pub(super) trait Client {
    /// `BEGIN`, and before it the plans of all statements may be forgotten.
    async fn begin(&self, forgets_plans: bool) -> Result<(), Fault>;

    /// `COMMIT`. Behind a statement that failed it rolls back, and says nothing about it.
    async fn commit(&self) -> Result<(), Fault>;

    /// `ROLLBACK`.
    async fn roll_back(&self) -> Result<(), Fault>;

    /// Wallets and records of a batch as of one moment; nothing is locked.
    async fn read(&self, batch: &Batch<'_>, forgets_plans: bool) -> Result<Known, Fault>;

    /// Locks the wallets of a batch in the order of their keys and gives them as they are then. With
    /// `skips_held` without those that somebody else has locked.
    async fn lock(&self, batch: &Batch<'_>, skips_held: bool) -> Result<Vec<FoundWallet>, Fault>;

    /// The database's time.
    async fn time(&self) -> Result<OffsetDateTime, Fault>;

    /// Goes on with the chain of a wallet, which reaches the start of `entries` with `chain_hash`, towards their
    /// end; gives the entry that it reaches then. It may take several calls.
    async fn chain_on(
        &self,
        batch: &Batch<'_>,
        wallet: usize,
        entries: Range<i64>,
        chain_hash: &mut ChainHash,
    ) -> Result<i64, Fault>;

    /// The places of those wallets of a batch that are there at all.
    async fn present(&self, batch: &Batch<'_>) -> Result<Vec<usize>, Fault>;

    /// What is recorded under the numbers of a batch, each with its place, as of one moment.
    async fn records(&self, batch: &Batch<'_>) -> Result<Vec<(usize, Record)>, Fault>;

    /// Writes records, entries and wallets, all or none of them. A fault when a number or an entry
    /// is there already, or a wallet is not as it was read.
    async fn write(&self, columns: &Columns<'_>) -> Result<(), Fault>;
}
