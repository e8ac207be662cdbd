//! The engine of the database: PostgreSQL, or PostgreSQL with Citus, which spreads the tables over nodes.
//!
//! On Citus all rows of an app about money lie on one node. A statement of a batch names one app, so Citus sends it to
//! that node as it is. Every node has a copy of the apps. All other tables stay on the coordinator.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use domain::ids::AppNo;
use sqlx::{Connection as _, PgConnection, Row as _};

use crate::error::{Result, StoreError};

/// How the tables lie in the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// All on one node.
    Postgres,
    /// The money is distributed over nodes by app.
    Citus,
}

/// The engine that a process uses. All clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct PresentEngine(Arc<AtomicBool>);

/// Tables that are distributed by `app_no`. The rows of an app lie together.
const DISTRIBUTED: [&str; 11] = [
    "wallets",
    "ledger_entries",
    "items",
    "wallet_outbox",
    "archived_entries",
    "archived_wallets",
    "topup_price_lists",
    "topup_prices",
    "topup_payments",
    "topup_refunds",
    "topup_settlements",
];
/// The table that statements join with them. Every node has a copy.
const COPIED: &str = "apps";

impl Engine {
    /// The app of a row of a batch: `column`, or on Citus the first element of the array `parameter`. Citus finds the
    /// node of a statement by a constant alone, so a batch there has one app.
    pub(crate) fn key(self, column: &str, parameter: u8, kind: &str) -> String {
        match self {
            Self::Postgres => column.to_owned(),
            Self::Citus => format!("(${parameter}::{kind}[])[1]"),
        }
    }
}

impl PresentEngine {
    pub(crate) fn get(&self) -> Engine {
        if self.0.load(Ordering::Relaxed) { Engine::Citus } else { Engine::Postgres }
    }

    /// Looks how the tables lie.
    pub(crate) async fn find(&self, connection: &mut PgConnection) -> Result<()> {
        let is_distributed = has_citus(connection).await? && is_distributed(connection, "wallets").await?;
        self.0.store(is_distributed, Ordering::Relaxed);
        Ok(())
    }
}

/// Whether the database has the extension.
pub(crate) async fn has_citus(connection: &mut PgConnection) -> Result<bool> {
    let statement = "SELECT count(*) = 1 FROM pg_extension WHERE extname = 'citus'";
    Ok(sqlx::raw_sql(statement).fetch_one(connection).await?.try_get(0)?)
}

#[expect(clippy::disallowed_methods, reason = "only Citus has this table")]
async fn is_distributed(connection: &mut PgConnection, table: &str) -> Result<bool> {
    let statement = "SELECT count(*) = 1 FROM pg_dist_partition WHERE logicalrelid = to_regclass($1)";
    Ok(sqlx::query_scalar(statement).bind(table).fetch_one(connection).await?)
}

/// Host and port of the node that holds an app's money. `None` for an app without a shard.
#[expect(clippy::disallowed_methods, reason = "only Citus has these tables")]
pub(crate) async fn node_of(connection: &mut PgConnection, app_no: AppNo) -> Result<Option<(String, u16)>> {
    let statement = "SELECT n.nodename, n.nodeport FROM pg_dist_placement p JOIN pg_dist_node n USING (groupid) \
                     WHERE p.shardid = get_shard_id_for_distribution_column('wallets', $1) AND n.noderole = 'primary'";
    let found: Option<(String, i32)> =
        sqlx::query_as(statement).bind(app_no.0).fetch_optional(connection).await?;
    Ok(found.and_then(|(host, port)| Some((host, u16::try_from(port).ok()?))))
}

/// Distributes the tables that are not distributed yet, with their rows, and returns their names. All of them, or none.
///
/// # Errors
/// The session is not with the coordinator, or the role may not distribute tables.
#[expect(clippy::disallowed_methods, reason = "only Citus has these functions")]
pub(crate) async fn distribute(connection: &mut PgConnection) -> Result<Vec<&'static str>> {
    let mut transaction = connection.begin().await?;
    let archived = "SELECT count(*) FROM archives";
    if sqlx::raw_sql(archived).fetch_one(&mut *transaction).await?.try_get::<i64, _>(0)? > 0 {
        return Err(StoreError::Internal("archives are not for Citus: restore all of them first".to_owned()));
    }
    // A reference table and a distributed one in one transaction.
    let settings =
        "SET LOCAL citus.multi_shard_modify_mode = 'sequential'; SET LOCAL client_min_messages = error";
    sqlx::raw_sql(settings).execute(&mut *transaction).await?;
    let mut moved = Vec::new();
    if !is_distributed(&mut transaction, COPIED).await? {
        let copy = sqlx::query("SELECT create_reference_table($1::text::regclass)").bind(COPIED);
        copy.execute(&mut *transaction).await?;
        moved.push(COPIED);
    }
    for table in DISTRIBUTED {
        if !is_distributed(&mut transaction, table).await? {
            let beside = if table == DISTRIBUTED[0] { "none" } else { DISTRIBUTED[0] };
            let statement =
                "SELECT create_distributed_table($1::text::regclass, 'app_no', colocate_with => $2)";
            sqlx::query(statement).bind(table).bind(beside).execute(&mut *transaction).await?;
            moved.push(table);
        }
    }
    if moved.contains(&DISTRIBUTED[0]) {
        // The search of players through all apps. On one node it goes app by app.
        let index = "CREATE INDEX IF NOT EXISTS wallets_open_id ON wallets (open_id, app_no)";
        sqlx::raw_sql(index).execute(&mut *transaction).await?;
    }
    for table in &moved {
        // Citus has copied the rows, and hides those that were there.
        let truncate = sqlx::query("SELECT truncate_local_data_after_distributing_table($1::text::regclass)")
            .bind(table);
        truncate.execute(&mut *transaction).await?;
    }
    transaction.commit().await?;
    Ok(moved)
}
