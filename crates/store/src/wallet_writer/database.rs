//! The interface between a writer and its database: the statements of a session, and time.
//!
//! The code above it is the same for PostgreSQL (`driver.rs`) and for the simulation (`simulation`),
//! which tries every order of events.

use std::time::Duration;

use domain::ids::WalletNo;
use time::OffsetDateTime;
use tokio::time::Instant;

use super::batch::{Batch, ReadRows, WalletState};
use super::columns::Columns;
use super::query::ExchangeDetail;
use super::record::Record;
use crate::engine::Engine;
use crate::writer::SessionFault;

/// A database in which a writer opens sessions.
pub(super) trait WriterDatabase: Clone {
    /// Sends the statements of a session.
    type Client: DatabaseClient;
    /// Drives a session while it is polled. It ends with the session, and returns the fault.
    type Connection: Future<Output = SessionFault> + Unpin;

    /// Opens a session and prepares every statement of [`DatabaseClient`]. The fault is `Other`
    /// when the database refuses, and `Lost` when the session ended meanwhile.
    async fn connect(&self) -> Result<(Self::Client, Self::Connection), SessionFault>;

    /// How the tables lie.
    fn engine(&self) -> Engine {
        Engine::Postgres
    }

    /// How long the writer waits for an answer before it gives the session up.
    fn answer_timeout(&self) -> Duration;

    /// The present time.
    fn now(&self) -> Instant;

    /// Waits for this duration.
    async fn pause(&self, duration: Duration);
}

/// The statements of a session. A statement is sent at the first poll of its future, without a wait
/// for earlier ones. The database executes them in the order of sending.
pub(super) trait DatabaseClient {
    /// `BEGIN`. With `discards_plans` it first discards the query plans.
    async fn begin(&self, discards_plans: bool) -> Result<(), SessionFault>;

    /// `COMMIT`. After a failed statement it rolls back and reports no error.
    async fn commit(&self) -> Result<(), SessionFault>;

    /// `ROLLBACK`.
    async fn roll_back(&self) -> Result<(), SessionFault>;

    /// Reads wallets and records of a batch in one snapshot. It locks nothing.
    async fn read(&self, batch: &Batch<'_>, discards_plans: bool) -> Result<ReadRows, SessionFault>;

    /// Locks the wallets of a batch in the order of their keys, and reads them. With `skips_held`
    /// it skips wallets that another session has locked.
    async fn lock(
        &self,
        batch: &Batch<'_>,
        skips_held: bool,
    ) -> Result<Vec<(usize, WalletState)>, SessionFault>;

    /// The database's time.
    async fn time(&self) -> Result<OffsetDateTime, SessionFault>;

    /// The wallets of a batch that exist, each with its position.
    async fn existing(&self, batch: &Batch<'_>) -> Result<Vec<(usize, WalletNo)>, SessionFault>;

    /// Reads the records of a batch in one snapshot, each with its position.
    async fn records(&self, batch: &Batch<'_>) -> Result<Vec<(usize, Record<'static>)>, SessionFault>;

    /// Reads what the queries of a batch show of exchanges, each with its position among the queries.
    async fn details(&self, batch: &Batch<'_>) -> Result<Vec<(usize, ExchangeDetail)>, SessionFault>;

    /// Writes entries, closed numbers and wallets: all of them, or none. It fails when a reference or an
    /// entry exists already, or a wallet has changed since it was read.
    /// Outside a transaction `is_alone` is true.
    async fn write(&self, columns: &Columns<'_>, is_alone: bool) -> Result<(), SessionFault>;
}
