//! Sessions of the pools: the time limits of a new one, and whether one is outside any transaction.

use std::time::Duration;

use sqlx::{Connection as _, Executor as _, PgConnection, Row as _};

use crate::hosts::takes_writes;
use crate::silence::unless_silent;

/// The database ends a session that idles in a transaction for this long.
pub(crate) const IDLE_IN_TRANSACTION_TIMEOUT: Duration = Duration::from_secs(10);

/// What every session sets: whoever waits for a lock must see the commit that it waited for. A role or a database may have
/// another default.
pub(crate) const READ_COMMITTED: &str = "SET default_transaction_isolation = 'read committed'";

/// Gives a new session its time limits: for a statement, and for a transaction that idles.
pub(crate) async fn prepare_session(
    connection: &mut PgConnection,
    statement_timeout: Duration,
    must_write: bool,
) -> Result<(), sqlx::Error> {
    let session = format!(
        "SET statement_timeout = {}; SET idle_in_transaction_session_timeout = {}; SET timezone = 'UTC'; {READ_COMMITTED}",
        statement_timeout.as_millis(),
        IDLE_IN_TRANSACTION_TIMEOUT.as_millis()
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(session)).execute(&mut *connection).await?;
    if must_write && !takes_writes(connection).await? {
        return Err(sqlx::Error::Protocol("it takes no writes: is it a standby?".to_owned()));
    }
    Ok(())
}

/// Gives an error for a session that comes back to its pool and is silent for this long: the pool then closes it. The
/// pool asks such a session too, but waits for the answer without a limit, and counts the session all the time. So a
/// query that was given up would take a place for ever.
pub(crate) async fn answers_within(
    connection: &mut PgConnection,
    silence_max: Duration,
) -> Result<(), sqlx::Error> {
    let answer = unless_silent(silence_max, connection.ping()).await;
    answer.unwrap_or_else(|| Err(sqlx::Error::Protocol("it does not answer".to_owned())))
}

/// True when a session is outside any transaction. The pool hands out only such sessions: one round trip detects a dead
/// session, too.
pub async fn is_between_transactions(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    // Inside a transaction, the transaction's time is older than the statement's. It must be a simple
    // query: in the extended protocol the two times always differ. Both are the machine's, on a sandbox server too.
    let times = "SELECT pg_catalog.now() = pg_catalog.statement_timestamp()";
    let row = connection.fetch_one(sqlx::raw_sql(times)).await?;
    row.try_get(0)
}
