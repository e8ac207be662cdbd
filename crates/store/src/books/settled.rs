//! The moment from which a period gets no more ledger entries (docs/decisions/0049).
//!
//! The time of an entry is read before the entry is written, and the commit comes later still. The write refuses a time
//! that is a minute old (`crate::wallet_writer`). So two minutes after the end of a period each late entry is committed, or in
//! a transaction that holds a lock on its table. Such transactions are waited for.

use std::time::Duration;

use sqlx::PgConnection;
use time::OffsetDateTime;
use tokio::time::Instant;

use crate::error::Result;

/// From this time after its end a period is settled. It is more than the minute that writes keep to, because PostgreSQL
/// may pause between the start of a statement and its locks.
pub(crate) const SETTLES_IN: Duration = Duration::from_mins(2);
/// How long transactions are waited for. They normally take milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(50);

/// Whether more entries may come before a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settled {
    /// None can come.
    Yes,
    /// The time has not come.
    NotEnded,
    /// The time was less than [`SETTLES_IN`] ago.
    TooYoung,
    /// A transaction that may write such an entry does not end.
    Written,
}

/// Whether more entries may come before `until`. It waits for transactions that may write them.
pub(crate) async fn settled(connection: &mut PgConnection, until: OffsetDateTime) -> Result<Settled> {
    let now = sqlx::query!(
        r#"SELECT clock_timestamp() < $1 AS "is_before!",
               clock_timestamp() < $1 + make_interval(secs => $2) AS "is_young!""#,
        until,
        SETTLES_IN.as_secs_f64()
    );
    let now = now.fetch_one(&mut *connection).await?;
    if now.is_before {
        return Ok(Settled::NotEnded);
    }
    if now.is_young {
        return Ok(Settled::TooYoung);
    }
    let have_ended = await_writers(connection, &["ledger_entries", "wallets"]).await?;
    Ok(if have_ended { Settled::Yes } else { Settled::Written })
}

/// Waits for the transactions that write one of these tables now, for some seconds at most. Returns whether all have ended.
pub(crate) async fn await_writers(connection: &mut PgConnection, tables: &[&str]) -> Result<bool> {
    let tables: Vec<String> = tables.iter().map(ToString::to_string).collect();
    let writers = sqlx::query_scalar!(
        r#"SELECT coalesce(array_agg(DISTINCT virtualtransaction), '{}') AS "writers!" FROM pg_locks
           WHERE mode = 'RowExclusiveLock' AND relation = ANY ($1::text[]::regclass[])
             AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"#,
        &tables
    );
    let mut writers = writers.fetch_one(&mut *connection).await?;
    let deadline = Instant::now() + PATIENCE;
    while !writers.is_empty() {
        if Instant::now() >= deadline {
            return Ok(false);
        }
        tokio::time::sleep(POLL).await;
        let still = sqlx::query_scalar!(
            r#"SELECT coalesce(array_agg(DISTINCT virtualtransaction), '{}') AS "writers!" FROM pg_locks
               WHERE mode = 'RowExclusiveLock' AND relation = ANY ($1::text[]::regclass[])
                 AND virtualtransaction = ANY ($2)"#,
            &tables,
            &writers
        );
        writers = still.fetch_one(&mut *connection).await?;
    }
    Ok(true)
}
