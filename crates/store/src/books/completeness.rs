//! The moment from which a period gets no more ledger entries (docs/decisions/0049).
//!
//! The time of an entry is read before the entry is written, and the commit comes later still. The write refuses a time
//! that is a minute old (`crate::wallet_writer`). So two minutes after the end of a period each late entry is committed, or in
//! a transaction that holds a lock on its table. Such transactions are waited for, prepared ones too. On Citus the locks are
//! those of each node.

use std::collections::BTreeSet;
use std::time::Duration;

use sqlx::PgConnection;
use time::OffsetDateTime;
use tokio::time::Instant;

use crate::engine::Engine;
use crate::error::{Result, StoreError};

/// From this time after its end a period is complete. It is more than the minute that writes keep to, because PostgreSQL
/// may pause between the start of a statement and its locks.
pub(crate) const COMPLETE_AFTER: Duration = Duration::from_mins(2);
/// How long transactions are waited for. They normally take milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(50);

/// Whether more entries may come before a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Completeness {
    /// None can come.
    Complete,
    /// The time has not come.
    NotEnded,
    /// The time was less than [`COMPLETE_AFTER`] ago.
    TooYoung,
    /// A transaction that may write such an entry does not end.
    Written,
}

/// A transaction that writes: its node, 0 where there is one alone, and its name there.
type WritingTransaction = (i32, String);

/// Whether more entries may come before `until`. It waits for transactions that may write them.
///
/// # Errors
/// The database is away, or a node of Citus does not answer.
pub(crate) async fn completeness(
    connection: &mut PgConnection,
    engine: Engine,
    until: OffsetDateTime,
) -> Result<Completeness> {
    let now = sqlx::query!(
        r#"SELECT clock_timestamp() < $1 AS "is_before!",
               clock_timestamp() < $1 + make_interval(secs => $2) AS "is_young!""#,
        until,
        COMPLETE_AFTER.as_secs_f64()
    );
    let now = now.fetch_one(&mut *connection).await?;
    if now.is_before {
        return Ok(Completeness::NotEnded);
    }
    if now.is_young {
        return Ok(Completeness::TooYoung);
    }
    let have_ended = await_writers(connection, engine, &["ledger_entries", "wallets"]).await?;
    Ok(if have_ended { Completeness::Complete } else { Completeness::Written })
}

/// Waits for the transactions that write one of these tables now, for some seconds at most. Returns whether all have ended.
///
/// # Errors
/// The database is away, or a node of Citus does not answer.
pub(crate) async fn await_writers(
    connection: &mut PgConnection,
    engine: Engine,
    tables: &[&str],
) -> Result<bool> {
    let deadline = Instant::now() + PATIENCE;
    let mut awaited = writers(connection, engine, tables).await?;
    while !awaited.is_empty() {
        if Instant::now() >= deadline {
            return Ok(false);
        }
        tokio::time::sleep(POLL).await;
        let mut still = writers(connection, engine, tables).await?;
        still.retain(|writer| awaited.contains(writer) || is_recovered(writer));
        awaited = still;
    }
    Ok(true)
}

/// Whether this is a prepared transaction from before a restart of its node. The restart has given it another name.
fn is_recovered((_, name): &WritingTransaction) -> bool {
    name.starts_with("-1/")
}

/// The transactions that write one of these tables now.
async fn writers(
    connection: &mut PgConnection,
    engine: Engine,
    tables: &[&str],
) -> Result<BTreeSet<WritingTransaction>> {
    if engine == Engine::Citus {
        return writers_on_nodes(connection, tables).await;
    }
    let tables: Vec<String> = tables.iter().map(ToString::to_string).collect();
    // A prepared transaction has its locks and its name here, too.
    let writers = sqlx::query_scalar!(
        r#"SELECT coalesce(array_agg(DISTINCT virtualtransaction), '{}') AS "writers!" FROM pg_locks
           WHERE mode = 'RowExclusiveLock' AND relation = ANY ($1::text[]::regclass[])
             AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"#,
        &tables
    );
    Ok(writers.fetch_one(connection).await?.into_iter().map(|name| (0, name)).collect())
}

/// The same of all nodes. A transaction locks the table itself on the node that it speaks to, and the shards where they lie.
/// What is half done after a crash of the coordinator is a prepared transaction of a worker, which has locked a shard.
#[expect(clippy::disallowed_methods, reason = "only Citus has this function")]
async fn writers_on_nodes(
    connection: &mut PgConnection,
    tables: &[&str],
) -> Result<BTreeSet<WritingTransaction>> {
    let command = format!(
        "SELECT coalesce(string_agg(DISTINCT virtualtransaction, ' '), '') \
         FROM pg_locks JOIN pg_class c ON c.oid = relation \
         WHERE mode = 'RowExclusiveLock' AND relname ~ '^({})(_[0-9]+)?$' \
         AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
        tables.join("|")
    );
    let statement = "SELECT nodeid, success, coalesce(result, '') FROM run_command_on_all_nodes($1)";
    let answers: Vec<(i32, bool, String)> =
        sqlx::query_as(statement).bind(command).fetch_all(connection).await?;
    let mut writers = BTreeSet::new();
    for (node, has_answered, told) in answers {
        if !has_answered {
            let cause = format!("the node {node} of Citus does not tell who writes: {told}");
            return Err(StoreError::unavailable(cause));
        }
        writers.extend(told.split_whitespace().map(|name| (node, name.to_owned())));
    }
    Ok(writers)
}
