//! The status of a database: its version, and how much is in it.

use serde::Serialize;

use crate::error::Result;
use crate::store::Store;

/// Facts of the database. A count above 10,000 is an estimate of PostgreSQL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DatabaseStatus {
    /// The version of PostgreSQL.
    pub postgresql: String,
    /// Number of apps.
    pub apps: i64,
    /// Number of wallets, which is that of players.
    pub players: i64,
    /// Number of rows of the ledger: entries, closed numbers and orders of top-ups, archived ones too.
    pub entries: i64,
    /// Number of orders.
    pub orders: i64,
    /// Number of images.
    pub images: i64,
}

impl Store {
    /// Facts of the database.
    pub async fn status(&self) -> Result<DatabaseStatus> {
        // An exact count of a large table would read all of it.
        Ok(sqlx::query_as!(
            DatabaseStatus,
            r#"SELECT current_setting('server_version') AS "postgresql!",
                   (SELECT count(*) FROM apps) AS "apps!",
                   (SELECT greatest(reltuples::bigint, (SELECT count(*) FROM (SELECT FROM wallets LIMIT 10000) AS w))
                    FROM pg_class WHERE oid = 'wallets'::regclass) AS "players!",
                   (SELECT greatest(reltuples::bigint, (SELECT count(*) FROM (SELECT FROM ledger_entries LIMIT 10000) AS x))
                    FROM pg_class WHERE oid = 'ledger_entries'::regclass)
                   + (SELECT greatest(reltuples::bigint, 0) FROM pg_class WHERE oid = 'archived_entries'::regclass) AS "entries!",
                   (SELECT greatest(reltuples::bigint, (SELECT count(*) FROM (SELECT FROM orders LIMIT 10000) AS o))
                    FROM pg_class WHERE oid = 'orders'::regclass) AS "orders!",
                   (SELECT greatest(reltuples::bigint, (SELECT count(*) FROM (SELECT FROM images LIMIT 10000) AS i))
                    FROM pg_class WHERE oid = 'images'::regclass) AS "images!""#
        )
        .fetch_one(&self.pool)
        .await?)
    }
}
