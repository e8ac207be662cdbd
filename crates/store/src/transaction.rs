//! Transactions that are repeated as a whole when the database asks for it, each in a task that nobody drops.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
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

/// An attempt at a transaction without the types of its work. What repeats and ends it is compiled once, and not for each
/// transaction.
type UntypedAttempt =
    Box<dyn for<'c> Fn(&'c mut PgConnection) -> AttemptFuture<'c, (), AttemptFault> + Send + Sync>;

/// Why an attempt was rolled back.
enum AttemptFault {
    /// The work failed, and has kept its own error.
    Work {
        is_again: bool,
    },
    Store(StoreError),
}

impl From<StoreError> for AttemptFault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl AsStoreError for AttemptFault {
    fn is_again(&self) -> bool {
        match self {
            Self::Work { is_again } => *is_again,
            Self::Store(error) => error.is_again(),
        }
    }
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
    let work = Arc::new((work, context, Mutex::new(None)));
    let kept = Arc::clone(&work);
    let attempt: UntypedAttempt = Box::new(move |connection| {
        let work = Arc::clone(&work);
        Box::pin(async move {
            let (work, context, outcome) = &*work;
            let done = work(connection, context).await;
            let ended = match &done {
                Ok(_) => Ok(()),
                Err(error) => Err(AttemptFault::Work { is_again: error.is_again() }),
            };
            *outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
            ended
        })
    });
    let ended = runtime.spawn(repeat(pool, silence_max, attempt)).await.unwrap_or_else(|fault| {
        Err(AttemptFault::Store(StoreError::Internal(format!("a transaction's task ended: {fault}"))))
    });
    if let Err(AttemptFault::Store(error)) = ended {
        return Err(error.into());
    }
    let outcome = kept.2.lock().unwrap_or_else(PoisonError::into_inner).take();
    outcome.unwrap_or_else(|| Err(StoreError::Internal("a transaction has no outcome".to_owned()).into()))
}

/// Repeats an attempt as often as the database asks for it.
async fn repeat(
    pool: PgPool,
    silence_max: Option<Duration>,
    attempt: UntypedAttempt,
) -> Result<(), AttemptFault> {
    let mut attempts = 1;
    loop {
        let ended = attempt_once(&pool, silence_max, &attempt).await;
        match &ended {
            Err(fault) if fault.is_again() && attempts < ATTEMPTS_MAX => attempts += 1,
            Ok(()) | Err(_) => return ended,
        }
    }
}

/// Tries a transaction once, in a task that is never dropped half-way. A session that falls silent is dropped with it, and
/// never repeated: its COMMIT may have arrived.
async fn attempt_once(
    pool: &PgPool,
    silence_max: Option<Duration>,
    attempt: &UntypedAttempt,
) -> Result<(), AttemptFault> {
    let mut connection = pool.acquire().await.map_err(StoreError::from)?;
    let ended = attempt_on(&mut connection, attempt, &|connection, attempt| attempt(connection));
    let Some(silence_max) = silence_max else { return ended.await };
    let outcome = unless_silent(silence_max, ended).await;
    outcome.unwrap_or_else(|| {
        // The pool would wait for its answer, and count it all the time.
        drop(connection.detach());
        Err(StoreError::unavailable("it does not answer").into())
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
