//! Transactions that are repeated as a whole when the database asks for it, each in a task that nobody drops.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use sqlx::{Connection as _, Executor as _, PgConnection, PgPool, PgTransaction};
use tokio::runtime::Handle;

use crate::error::{AsStoreError, Result, StoreError};
use crate::silence::unless_silent;

/// A transaction is tried at most this often.
pub(crate) const ATTEMPTS_MAX: u32 = 12;

/// The future of one attempt at a transaction.
pub(crate) type AttemptFuture<'c, T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'c>>;

/// Begins a transaction that only reads, and sees the database as it is at its first statement.
pub(crate) async fn snapshot_of(connection: &mut PgConnection) -> Result<PgTransaction<'_>> {
    let mut snapshot = connection.begin().await?;
    snapshot.execute(sqlx::raw_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")).await?;
    Ok(snapshot)
}

/// Runs `work` as [`Store::transaction`](crate::Store) says. Without `silence_max`, a silent session is waited for.
pub(crate) async fn run<C, T, E, F>(
    runtime: &Handle,
    pool: PgPool,
    silence_max: Option<Duration>,
    context: C,
    work: F,
) -> Result<T, E>
where
    C: Send + Sync + 'static,
    T: Send + 'static,
    E: From<StoreError> + AsStoreError + Send + 'static,
    F: for<'c> Fn(&'c mut PgConnection, &'c C) -> AttemptFuture<'c, T, E> + Send + Sync + 'static,
{
    let task = runtime.spawn(async move {
        let mut attempt = 1;
        loop {
            let outcome = attempt_transaction(&pool, silence_max, &context, &work).await;
            match &outcome {
                Err(error) if error.is_again() && attempt < ATTEMPTS_MAX => attempt += 1,
                Ok(_) | Err(_) => return outcome,
            }
        }
    });
    task.await.unwrap_or_else(|fault| {
        Err(StoreError::Internal(format!("a transaction's task ended: {fault}")).into())
    })
}

/// Tries a transaction once, in a task that is never dropped half-way. A session that falls silent is dropped with it, and
/// never repeated: its COMMIT may have arrived.
async fn attempt_transaction<C, T, E, F>(
    pool: &PgPool,
    silence_max: Option<Duration>,
    context: &C,
    work: &F,
) -> Result<T, E>
where
    E: From<StoreError>,
    F: for<'c> Fn(&'c mut PgConnection, &'c C) -> AttemptFuture<'c, T, E>,
{
    let mut connection = pool.acquire().await.map_err(StoreError::from)?;
    let Some(silence_max) = silence_max else { return attempt_on(&mut connection, context, work).await };
    let outcome = unless_silent(silence_max, attempt_on(&mut connection, context, work)).await;
    outcome.unwrap_or_else(|| {
        // The pool would wait for its answer, and count it all the time.
        drop(connection.detach());
        Err(StoreError::Unavailable("it does not answer".to_owned()).into())
    })
}

/// The same on a session that is outside any transaction.
pub(crate) async fn attempt_on<C, T, E, F>(
    connection: &mut PgConnection,
    context: &C,
    work: &F,
) -> Result<T, E>
where
    E: From<StoreError>,
    F: for<'c> Fn(&'c mut PgConnection, &'c C) -> AttemptFuture<'c, T, E>,
{
    let mut transaction = connection.begin().await.map_err(StoreError::from)?;
    match work(&mut transaction, context).await {
        Ok(value) => {
            transaction.commit().await.map_err(StoreError::from)?;
            Ok(value)
        }
        Err(error) => {
            // A session that cannot roll back is broken. Whoever keeps it detects that.
            let _ = transaction.rollback().await;
            Err(error)
        }
    }
}
