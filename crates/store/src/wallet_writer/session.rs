//! The session of a writer: the statements of a batch and their order.

use std::collections::HashSet;
use std::future::Future;

use domain::ids::{AppNo, ItemId};
use domain::wallet::LedgerItem;
use futures_util::future::{join, join5};

use super::batch::{Batch, LockedRows, ReadRows};
use super::columns::{Columns, Items};
use super::database::{DatabaseClient, WriterDatabase};
use super::decide::Decisions;
use super::query::ExchangeDetail;
use crate::writer::{PlansMade, SessionFault};

/// How many stored items a session remembers. It limits the memory (some 2 MB).
const ITEMS_REMEMBERED_MAX: usize = 32_768;

/// A session. Between two batches it is outside any transaction.
pub(super) struct Session<D: WriterDatabase> {
    database: D,
    client: D::Client,
    connection: D::Connection,
    plans: PlansMade,
    items: StoredItems,
}

impl<D: WriterDatabase> Session<D> {
    /// Connects and prepares the statements.
    pub(super) async fn open(database: &D) -> Result<Self, SessionFault> {
        let (client, connection) = database.connect().await?;
        Ok(Self {
            client,
            connection,
            plans: PlansMade::at(database.now()),
            database: database.clone(),
            items: StoredItems::default(),
        })
    }

    /// Waits until the database ends the session.
    pub(super) async fn ended(&mut self) {
        let _ = (&mut self.connection).await;
    }

    /// Reads the rows of the batch without a lock. [`Session::write`] detects a later change.
    pub(super) async fn read(&mut self, batch: &Batch<'_>) -> Result<ReadRows, SessionFault> {
        let discards_plans = self.plans.are_outdated(self.database.now());
        let Self { database, client, connection, .. } = self;
        let reading = async {
            let (known, details) = join(client.read(batch, discards_plans), details(client, batch)).await;
            known?.with_details(batch, details?)
        };
        drive(database, connection, reading).await
    }

    /// Writes the decisions in one statement, durably, or writes nothing. The fault is `Again` when
    /// the rows have changed since [`Session::read`].
    pub(super) async fn write(
        &mut self,
        batch: &Batch<'_>,
        known: &ReadRows,
        decisions: &Decisions,
    ) -> Result<(), SessionFault> {
        let columns = Columns::new(batch, decisions, known.at, self.items.missing(batch, decisions));
        let written = drive(&self.database, &mut self.connection, self.client.write(&columns, true)).await;
        if written.is_ok() {
            self.items.add(&columns.items);
        }
        written
    }

    /// Begins a transaction, locks the wallets of the batch and reads its records. With
    /// `skips_held` it skips wallets that another session has locked.
    pub(super) async fn begin(
        &mut self,
        batch: &Batch<'_>,
        skips_held: bool,
    ) -> Result<ReadRows, SessionFault> {
        let discards_plans = self.plans.are_outdated(self.database.now());
        let Self { database, client, connection, .. } = self;
        // They are polled from left to right. Each is sent at its first poll.
        let work = async {
            let (begun, wallets, at, records, details) = join5(
                client.begin(discards_plans),
                client.lock(batch, skips_held),
                client.time(),
                client.records(batch),
                details(client, batch),
            )
            .await;
            begun?;
            // In the order of sending. After the first failure the others report only that failure.
            let (wallets, at, records, details) = (wallets?, at?, records?, details?);
            let are_all_locked = wallets.len() == batch.wallets.names.len();
            let existing = if are_all_locked { Vec::new() } else { client.existing(batch).await? };
            ReadRows::of_locked(batch, LockedRows { wallets, at, records, existing })?
                .with_details(batch, details)
        };
        let known = drive(database, connection, work).await;
        match known {
            Ok(_) | Err(SessionFault::Lost(_)) => known,
            Err(fault) => {
                self.roll_back().await?;
                Err(fault)
            }
        }
    }

    /// Writes the decisions in the transaction of [`Session::begin`] and commits durably. After a
    /// fault other than `Lost`, nothing was written.
    pub(super) async fn commit(
        &mut self,
        batch: &Batch<'_>,
        known: &ReadRows,
        decisions: &Decisions,
    ) -> Result<(), SessionFault> {
        let Self { database, client, connection, items, .. } = self;
        if decisions.rows.is_empty() {
            return drive(database, connection, client.commit()).await;
        }
        let columns = Columns::new(batch, decisions, known.at, items.missing(batch, decisions));
        let work = async {
            let (written, committed) = join(client.write(&columns, false), client.commit()).await;
            // After a failed write, COMMIT rolls back and reports no error.
            written?;
            committed
        };
        drive(database, connection, work).await?;
        items.add(&columns.items);
        Ok(())
    }

    async fn roll_back(&mut self) -> Result<(), SessionFault> {
        drive(&self.database, &mut self.connection, self.client.roll_back()).await
    }
}

/// The items that this session has stored, as far as it remembers. A new session begins without any, so
/// a database that was restored to an earlier time gets them again.
#[derive(Default)]
struct StoredItems(HashSet<(AppNo, ItemId)>);

impl StoredItems {
    /// The items of new entries that are not known to be stored, each once, in the order of their keys.
    fn missing<'a>(&self, batch: &Batch<'a>, decisions: &Decisions) -> Items<'a> {
        let bought = decisions.rows.iter().filter_map(|row| {
            let (app_no, request) = batch.requests[row.request];
            // The row of a closed number has none, and neither has a change of an operator.
            Some((app_no, request.item()?))
        });
        let mut missing: Vec<(AppNo, LedgerItem<'a>)> =
            bought.filter(|(app_no, item)| !self.0.contains(&(*app_no, *item.id))).collect();
        missing.sort_unstable_by_key(|(app_no, item)| (*app_no, item.id));
        missing.dedup_by_key(|(app_no, item)| (*app_no, item.id));
        let texts = |of: fn(&LedgerItem<'a>) -> &'a str| missing.iter().map(|(_, item)| of(item)).collect();
        Items {
            app_no: missing.iter().map(|(app_no, _)| app_no.0).collect(),
            item_id: missing.iter().map(|(_, item)| item.id.0.as_slice()).collect(),
            product_name: texts(|item| item.product_name),
            product_info: texts(|item| item.product_info),
            product_desc: texts(|item| item.product_desc),
        }
    }

    /// Remembers items after their commit.
    fn add(&mut self, stored: &Items<'_>) {
        if self.0.len() > ITEMS_REMEMBERED_MAX {
            self.0.clear();
        }
        let ids = stored.item_id.iter().filter_map(|id| Some(ItemId(<[u8; 16]>::try_from(*id).ok()?)));
        self.0.extend(stored.app_no.iter().map(|app_no| AppNo(*app_no)).zip(ids));
    }
}

/// What the queries of a batch show of exchanges. Without queries it sends nothing.
async fn details<C: DatabaseClient>(
    client: &C,
    batch: &Batch<'_>,
) -> Result<Vec<(usize, ExchangeDetail)>, SessionFault> {
    if batch.queries().next().is_none() { Ok(Vec::new()) } else { client.details(batch).await }
}

/// Drives the session until `work` has ended.
async fn drive<D: WriterDatabase, T>(
    database: &D,
    connection: &mut D::Connection,
    work: impl Future<Output = Result<T, SessionFault>>,
) -> Result<T, SessionFault> {
    crate::writer::drive(connection, database.pause(database.answer_timeout()), work).await
}
