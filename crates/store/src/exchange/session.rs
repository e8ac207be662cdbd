//! A writer's session: what is sent for a batch, in which order, and what follows from a fault.

use std::future::Future;
use std::time::Duration;

use futures_util::future::{join, join5};
use tokio::time::Instant;

use super::batch::{Batch, Decisions, WalletState};
use super::columns::Columns;
use super::database::{Client as _, Database};
use super::statements::Known;
use crate::StoreError;

/// How long a batch waits for a wallet that another transaction holds, before it goes on without.
pub(super) const LOCK_TIMEOUT: Duration = Duration::from_millis(200);

/// How old the plans of the statements may be. They follow the sizes of the tables, and a plan for
/// a table that was nearly empty would read the whole of it for every batch once it has grown.
const PLANS_KEPT_FOR: Duration = Duration::from_secs(1);

/// Why a batch was not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// The whole transaction is to be run again.
    Again,
    /// Somebody else holds a lock for long.
    Blocked,
    /// The session is gone. Whether a COMMIT that was on its way has happened is not known.
    Lost(String),
    /// Anything else; the session can go on.
    Other(StoreError),
}

impl Fault {
    /// What follows from a code of PostgreSQL.
    pub(super) fn from_code(code: &str, words: String) -> Self {
        match code {
            // The guard of the write: a wallet has changed. Or two transactions for one number have met, at
            // whatever a partition calls its keys.
            "22012" | "23505" => Self::Again,
            "55P03" => Self::Blocked,
            // The session is with a server that has become a standby: another one finds the new primary.
            "25006" => Self::Lost(words),
            code => match StoreError::from_code(code, words) {
                StoreError::Again => Self::Again,
                other => Self::Other(other),
            },
        }
    }
}

/// One session, outside any transaction between two batches.
pub(super) struct Session<D: Database> {
    database: D,
    client: D::Client,
    connection: D::Connection,
    planned_at: Instant,
}

impl<D: Database> Session<D> {
    /// Connects, and makes everything ready that a batch needs.
    pub(super) async fn open(database: &D) -> Result<Self, Fault> {
        let (client, connection) = database.connect().await?;
        Ok(Self { client, connection, planned_at: database.now(), database: database.clone() })
    }

    /// Waits until the session ends by itself, as when the database goes away.
    pub(super) async fn ended(&mut self) {
        let _ = (&mut self.connection).await;
    }

    /// Reads what the batch needs, without a lock: [`Session::write`] finds out when it changes.
    pub(super) async fn read(&mut self, batch: &Batch<'_>) -> Result<Known, Fault> {
        let forgets_plans = self.forgets_plans();
        let reading = self.client.read(batch, forgets_plans);
        let mut known = drive(&self.database, &mut self.connection, reading).await?;
        self.catch_up(batch, &mut known).await?;
        Ok(known)
    }

    /// Brings the chains of wallets up to their last entry where a program that knew no hashes has
    /// written. However many entries that are, it happens once: the batch writes where it ends.
    async fn catch_up(&mut self, batch: &Batch<'_>, known: &mut Known) -> Result<(), Fault> {
        let Self { database, client, connection, .. } = self;
        for (place, mut reached) in std::mem::take(&mut known.unchained) {
            let WalletState::Open { entry_count, chain_hash, .. } = &mut known.wallets[place] else {
                continue;
            };
            while reached < *entry_count {
                let chaining = client.chain_on(batch, place, reached..*entry_count, chain_hash);
                reached = drive(database, connection, chaining).await?;
            }
        }
        Ok(())
    }

    /// Writes what was decided about what [`Session::read`] gave, in one statement: all of it,
    /// durably, or nothing. `Again` when it is not as it was read any more.
    pub(super) async fn write(
        &mut self,
        batch: &Batch<'_>,
        known: &Known,
        decisions: &Decisions,
    ) -> Result<(), Fault> {
        let columns = Columns::new(batch, decisions, known.at);
        drive(&self.database, &mut self.connection, self.client.write(&columns)).await
    }

    /// Begins a transaction, locks the wallets of the batch and reads what is recorded under its
    /// numbers. With `skips_held` the wallets that somebody else has locked are left out.
    pub(super) async fn begin(&mut self, batch: &Batch<'_>, skips_held: bool) -> Result<Known, Fault> {
        let forgets_plans = self.forgets_plans();
        let Self { database, client, connection, .. } = self;
        // Polled from left to right, and sent when first polled.
        let work = async {
            let (begun, locked, at, recorded, present) = join5(
                client.begin(forgets_plans),
                client.lock(batch, skips_held),
                client.time(),
                client.records(batch),
                async { if skips_held { client.present(batch).await } else { Ok(Vec::new()) } },
            )
            .await;
            begun?;
            // In the order they were sent: behind the first that fails the others say only that it did.
            Ok((locked?, at?, recorded?, present?))
        };
        let driven = drive(database, connection, work).await;
        let known = driven.and_then(|(locked, at, recorded, present)| {
            Known::of_locked(batch, locked, present, recorded, at)
        });
        let caught_up = match known {
            Ok(mut known) => self.catch_up(batch, &mut known).await.map(|()| known),
            Err(fault) => Err(fault),
        };
        match caught_up {
            Ok(_) | Err(Fault::Lost(_)) => caught_up,
            Err(fault) => {
                self.roll_back().await?;
                Err(fault)
            }
        }
    }

    /// Writes what was decided in the transaction that [`Session::begin`] began, and commits,
    /// durably. A fault but `Lost` means that nothing was written.
    pub(super) async fn commit(
        &mut self,
        batch: &Batch<'_>,
        known: &Known,
        decisions: &Decisions,
    ) -> Result<(), Fault> {
        let Self { database, client, connection, .. } = self;
        let work = async {
            if decisions.deductions.is_empty() {
                return client.commit().await;
            }
            let columns = Columns::new(batch, decisions, known.at);
            let (written, committed) = join(client.write(&columns), client.commit()).await;
            // After a fault COMMIT has rolled back, and says nothing about it.
            written?;
            committed
        };
        drive(database, connection, work).await
    }

    fn forgets_plans(&mut self) -> bool {
        let now = self.database.now();
        let forgets = now.duration_since(self.planned_at) >= PLANS_KEPT_FOR;
        if forgets {
            self.planned_at = now;
        }
        forgets
    }

    async fn roll_back(&mut self) -> Result<(), Fault> {
        drive(&self.database, &mut self.connection, self.client.roll_back()).await
    }
}

/// Runs the session until `work` is done.
pub(super) async fn drive<D: Database, T>(
    database: &D,
    connection: &mut D::Connection,
    work: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    tokio::select! {
        biased;
        done = work => done,
        lost = connection => Err(lost),
        () = database.pause(database.answer_timeout()) => Err(Fault::Lost("it does not answer".to_owned())),
    }
}
