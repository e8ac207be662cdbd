//! The statements of a batch in PostgreSQL.

use std::time::Duration;

use domain::ids::WalletNo;
use domain::wallet::REPLAY_HOURS;
use futures_util::future::{join, join3, join4};
use time::OffsetDateTime;
use tokio::time::Instant;
use tokio_postgres::types::ToSql;

use super::batch::{Batch, ReadRows, WalletState};
use super::columns::Columns;
use super::database::{DatabaseClient, WriterDatabase};
use super::query::ExchangeDetail;
use super::record::Record;
use super::rows;
use super::statements::{WalletStatements, Writing};
use crate::engine::Engine;
use crate::writer::{Connection, Opening, SessionFault, answered, connect, drive, execute, fault};

/// A session with its prepared statements.
pub(super) struct PostgresClient {
    client: tokio_postgres::Client,
    statements: WalletStatements,
}

impl WriterDatabase for Opening {
    type Client = PostgresClient;
    type Connection = Connection;

    async fn connect(&self) -> Result<(Self::Client, Self::Connection), SessionFault> {
        let (client, mut connection) = connect(self).await?;
        let engine = self.engine.get();
        let preparing = async {
            execute(&client, &self.settings(engine)).await?;
            WalletStatements::prepare(&client, engine).await.map_err(|error| fault(&error))
        };
        let statements = drive(&mut connection, self.pause(self.answer_timeout()), preparing).await?;
        Ok((PostgresClient { client, statements }, connection))
    }

    fn engine(&self) -> Engine {
        self.engine.get()
    }

    fn answer_timeout(&self) -> Duration {
        self.answer_timeout()
    }

    fn now(&self) -> Instant {
        Instant::now()
    }

    async fn pause(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

impl DatabaseClient for PostgresClient {
    async fn begin(&self, discards_plans: bool) -> Result<(), SessionFault> {
        execute(&self.client, if discards_plans { "DISCARD PLANS; BEGIN" } else { "BEGIN" }).await
    }

    async fn commit(&self) -> Result<(), SessionFault> {
        execute(&self.client, "COMMIT").await
    }

    async fn roll_back(&self) -> Result<(), SessionFault> {
        execute(&self.client, "ROLLBACK").await
    }

    async fn read(&self, batch: &Batch<'_>, discards_plans: bool) -> Result<ReadRows, SessionFault> {
        let app_nos: Vec<i32> = batch.lookups().map(|(wallet, _)| batch.wallets.app_nos[wallet]).collect();
        let open_ids: Vec<&str> = batch.lookups().map(|(wallet, _)| batch.wallets.names[wallet]).collect();
        let numbers: Vec<&str> = batch.lookups().map(|(_, number)| batch.numbers.names[number]).collect();
        let (discarded, rows) = join(
            async { if discards_plans { execute(&self.client, "DISCARD PLANS").await } else { Ok(()) } },
            self.client.query(&self.statements.read, &[&REPLAY_HOURS, &app_nos, &open_ids, &numbers]),
        )
        .await;
        discarded?;
        rows::known(batch, &answered(rows)?)
    }

    async fn lock(
        &self,
        batch: &Batch<'_>,
        skips_held: bool,
    ) -> Result<Vec<(usize, WalletState)>, SessionFault> {
        let lock = if skips_held { &self.statements.lock_skipping_held } else { &self.statements.lock };
        let wallets = &batch.wallets;
        let rows = self.client.query(lock, &[&wallets.app_nos, &wallets.names]).await;
        rows::wallets(&answered(rows)?)
    }

    async fn time(&self) -> Result<OffsetDateTime, SessionFault> {
        let row = self.client.query_one(&self.statements.now, &[]).await;
        row.and_then(|row| row.try_get(0)).map_err(|error| fault(&error))
    }

    async fn existing(&self, batch: &Batch<'_>) -> Result<Vec<(usize, WalletNo)>, SessionFault> {
        let wallets = &batch.wallets;
        let rows = self.client.query(&self.statements.existing, &[&wallets.app_nos, &wallets.names]).await;
        rows::existing(&answered(rows)?)
    }

    async fn records(&self, batch: &Batch<'_>) -> Result<Vec<(usize, Record<'static>)>, SessionFault> {
        let numbers = &batch.numbers;
        let parameters: [&(dyn ToSql + Sync); 3] = [&REPLAY_HOURS, &numbers.app_nos, &numbers.names];
        rows::records(&answered(self.client.query(&self.statements.records, &parameters).await)?)
    }

    async fn details(&self, batch: &Batch<'_>) -> Result<Vec<(usize, ExchangeDetail)>, SessionFault> {
        let queries = || batch.queries().map(|position| batch.requests[position]);
        let app_nos: Vec<i32> = queries().map(|(app_no, _)| app_no.0).collect();
        let numbers: Vec<&str> = queries().map(|(_, request)| request.reference.as_str()).collect();
        rows::details(&answered(self.client.query(&self.statements.details, &[&app_nos, &numbers]).await)?)
    }

    async fn write(&self, columns: &Columns<'_>, is_alone: bool) -> Result<(), SessionFault> {
        let parameters = columns.parameters();
        match &self.statements.write {
            Writing::Together { without_items, with_items } => {
                let has_items = !columns.items.item_id.is_empty();
                let statement = if has_items { with_items } else { without_items };
                answered(self.client.query(statement, &parameters).await).map(drop)
            }
            Writing::Apart { .. } if is_alone => {
                let (begun, written, committed) =
                    join3(self.begin(false), self.write_apart(&parameters), self.commit()).await;
                // After a failed write, COMMIT rolls back and reports no error.
                begun?;
                written?;
                committed
            }
            Writing::Apart { .. } => self.write_apart(&parameters).await,
        }
    }
}

impl PostgresClient {
    /// Sends the statements of [`Writing::Apart`] without a wait. After the first failure the others report only that
    /// failure.
    async fn write_apart(&self, parameters: &[&(dyn ToSql + Sync)]) -> Result<(), SessionFault> {
        let Writing::Apart { items, entries, wallets, outbox } = &self.statements.write else {
            return Ok(());
        };
        let (of_entries, rest) = parameters.split_at(entries.params().len());
        let (of_wallets, rest) = rest.split_at(wallets.params().len());
        let (of_outbox, of_items) = rest.split_at(outbox.params().len());
        let store_items = async {
            match of_items {
                [] => Ok(()),
                _ => answered(self.client.query(items, of_items).await).map(drop),
            }
        };
        let (stored, entered, changed, told) = join4(
            store_items,
            async { answered(self.client.query(entries, of_entries).await).map(drop) },
            async { answered(self.client.query(wallets, of_wallets).await).map(drop) },
            async { answered(self.client.query(outbox, of_outbox).await).map(drop) },
        )
        .await;
        stored.and(entered).and(changed).and(told)
    }
}
