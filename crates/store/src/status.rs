//! What an operator asks first of a database: its version, and how much is in it.

use domain::ids::AppId;
use serde::Serialize;
use time::OffsetDateTime;

use crate::token::fingerprint;
use crate::{Result, Store};

/// A list of what belongs to an app ends here.
const LISTED_MAX: i64 = 1_000;

/// Facts of the database. A count above 10,000 is an estimate of PostgreSQL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DatabaseStatus {
    /// The version of PostgreSQL.
    pub postgresql: String,
    /// Number of apps.
    pub apps: i64,
    /// Number of wallets, which is that of players.
    pub players: i64,
    /// Number of exchanges.
    pub exchanges: i64,
    /// Number of orders.
    pub orders: i64,
    /// Number of images.
    pub images: i64,
}

/// An access token without the token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TokenSummary {
    /// The start of its hash, as in the operator's log.
    pub token: String,
    /// When it was issued.
    #[serde(with = "time::serde::rfc3339")]
    pub issued_at: OffsetDateTime,
    /// When it expires.
    #[serde(with = "time::serde::rfc3339")]
    pub expires_at: OffsetDateTime,
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
                   (SELECT greatest(reltuples::bigint, (SELECT count(*) FROM (SELECT FROM exchanges LIMIT 10000) AS x))
                    FROM pg_class WHERE oid = 'exchanges'::regclass) AS "exchanges!",
                   (SELECT greatest(reltuples::bigint, (SELECT count(*) FROM (SELECT FROM orders LIMIT 10000) AS o))
                    FROM pg_class WHERE oid = 'orders'::regclass) AS "orders!",
                   (SELECT greatest(reltuples::bigint, (SELECT count(*) FROM (SELECT FROM images LIMIT 10000) AS i))
                    FROM pg_class WHERE oid = 'images'::regclass) AS "images!""#
        )
        .fetch_one(&self.pool)
        .await?)
    }

    /// The tokens of an app that have not expired, newest first, 1,000 at most.
    pub async fn tokens(&self, app_id: &AppId) -> Result<Vec<TokenSummary>> {
        let rows = sqlx::query!(
            "SELECT token_hash, issued_at, expires_at FROM access_tokens WHERE app_id = $1 AND expires_at > now()
             ORDER BY issued_at DESC, token_hash LIMIT $2",
            app_id.as_str(),
            LISTED_MAX
        );
        let tokens = rows.fetch_all(&self.pool).await?.into_iter().map(|row| TokenSummary {
            token: fingerprint(&row.token_hash),
            issued_at: row.issued_at,
            expires_at: row.expires_at,
        });
        Ok(tokens.collect())
    }

    /// The points of interest of an app in the order of their ids, 1,000 at most.
    pub async fn pois(&self, app_id: &AppId) -> Result<Vec<String>> {
        Ok(sqlx::query_scalar!(
            "SELECT poi_id FROM pois WHERE app_id = $1 ORDER BY poi_id LIMIT $2",
            app_id.as_str(),
            LISTED_MAX
        )
        .fetch_all(&self.pool)
        .await?)
    }

    /// The payment pre-orders of an app in the order of their numbers, 1,000 at most.
    pub async fn preorders(&self, app_id: &AppId) -> Result<Vec<String>> {
        Ok(sqlx::query_scalar!(
            "SELECT out_order_no FROM preorders WHERE app_id = $1 ORDER BY out_order_no LIMIT $2",
            app_id.as_str(),
            LISTED_MAX
        )
        .fetch_all(&self.pool)
        .await?)
    }
}
