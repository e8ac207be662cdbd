//! Migrations: they bring a database to the schema of this program. Several instances may start at
//! once (contract 9.3).

use sqlx::migrate::{Migrate as _, MigrateError, Migrator};
use sqlx::{Connection as _, PgConnection};

use crate::engine::{self, Engine};
use crate::error::{Result, StoreError};
use crate::store::Store;

/// The error of a role that serves and does not own the tables.
const OWNER_MUST_MIGRATE: &str = "a migration is due, and this role may not create tables: \
                                  run `minitill migrate` as the role that owns the tables";

/// The migrations, compiled in.
fn migrator() -> Migrator {
    let mut migrator = sqlx::migrate!("../../migrations");
    // Not every engine has advisory locks. A locked row does the same.
    migrator.set_locking(false);
    // During an upgrade, instance by instance, an older program may meet a newer schema.
    migrator.set_ignore_missing(true);
    migrator
}

impl Store {
    /// Applies the migrations that are due, and distributes the tables where the database has Citus. One instance does
    /// the work, and the others wait for it. Returns the tables that were distributed.
    ///
    /// # Errors
    /// An applied migration differs from the program's own. One is due, and the role may not create tables. The engine
    /// must be Citus, and the database does not have it.
    pub async fn migrate(&self, engine: Option<Engine>) -> Result<Vec<&'static str>> {
        if !self.may_create_tables().await? {
            // The server has a role of its own without this right. The owner migrates.
            self.ensure_migrated().await?;
            return Ok(Vec::new());
        }
        let options = self.pool.connect_options();
        let store = self.clone();
        // In a task of its own, like every transaction, so that nobody drops it half-way.
        let task = tokio::spawn(async move {
            let mut lock = PgConnection::connect_with(&options).await?;
            make_lock_row(&mut lock).await?;
            // The wait for other instances may be longer than the server's own limit.
            sqlx::raw_sql("SET idle_in_transaction_session_timeout = 0").execute(&mut lock).await?;
            let mut held = lock.begin().await?;
            sqlx::raw_sql("SELECT 1 FROM minitill_migration_lock FOR UPDATE").execute(&mut *held).await?;
            let outcome = match store.apply_migrations().await {
                Ok(()) => store.distribute(engine).await,
                Err(error) => Err(error),
            };
            held.rollback().await?;
            outcome
        });
        task.await.unwrap_or_else(|fault| Err(StoreError::Internal(format!("migrations: {fault}"))))
    }

    /// Distributes the tables for this engine, or for the one that the database has.
    async fn distribute(&self, engine: Option<Engine>) -> Result<Vec<&'static str>> {
        let mut connection = PgConnection::connect_with(&self.pool.connect_options()).await?;
        let has_citus = engine::has_citus(&mut connection).await?;
        let mut distributed = Vec::new();
        match engine {
            Some(Engine::Citus) if !has_citus => {
                let cause = "the database does not have the extension citus; run CREATE EXTENSION citus on every node";
                return Err(StoreError::Internal(cause.to_owned()));
            }
            Some(Engine::Citus) | None if has_citus => {
                distributed = engine::distribute(&mut connection).await?;
            }
            Some(_) | None => {}
        }
        self.engine.find(&mut connection).await?;
        let _ = connection.close().await;
        Ok(distributed)
    }

    /// Refuses where a migration is due, in words that say who can apply it.
    ///
    /// # Errors
    /// One is due, or the database is away.
    pub async fn ensure_migrated(&self) -> Result<()> {
        if self.pending_migrations().await?.is_none() {
            return Ok(());
        }
        let words = if self.may_create_tables().await? {
            "the database does not have the schema of this program; run `minitill migrate`"
        } else {
            OWNER_MUST_MIGRATE
        };
        Err(StoreError::Internal(words.to_owned()))
    }

    async fn may_create_tables(&self) -> Result<bool> {
        Ok(sqlx::query_scalar!(r#"SELECT has_schema_privilege(current_schema(), 'CREATE') AS "may!""#)
            .fetch_one(&self.pool)
            .await?)
    }

    /// Whether the role of this process may change lines of the operator's log: it owns the table, or has the right.
    pub async fn may_rewrite_log(&self) -> Result<bool> {
        Ok(sqlx::query_scalar!(r#"SELECT has_table_privilege('operator_log', 'UPDATE, DELETE') AS "may!""#)
            .fetch_one(&self.pool)
            .await?)
    }

    async fn apply_migrations(&self) -> Result<()> {
        let mut connection = PgConnection::connect_with(&self.pool.connect_options()).await?;
        let outcome = migrator().run_direct(None, &mut connection, false).await;
        let _ = connection.close().await;
        outcome.map_err(fault)
    }

    /// The number of migrations that are due, or `None`.
    pub async fn pending_migrations(&self) -> Result<Option<usize>> {
        pending_migrations(&mut *self.pool.acquire().await?).await
    }
}

/// The number of migrations that are due, or `None`.
pub(crate) async fn pending_migrations(connection: &mut PgConnection) -> Result<Option<usize>> {
    let table = sqlx::query_scalar!(r#"SELECT to_regclass('_sqlx_migrations') IS NOT NULL AS "there!""#)
        .fetch_one(&mut *connection)
        .await?;
    let applied = if table {
        connection.list_applied_migrations("_sqlx_migrations").await.map_err(unread)?
    } else {
        Vec::new()
    };
    let migrator = migrator();
    let is_applied = |version| applied.iter().any(|applied| applied.version == version);
    let pending = migrator.iter().filter(|migration| !is_applied(migration.version)).count();
    Ok((pending > 0).then_some(pending))
}

/// The error of migrations that ended early.
fn fault(error: MigrateError) -> StoreError {
    let (at, cause) = match error {
        MigrateError::Execute(cause) => ("migrations".to_owned(), cause),
        MigrateError::ExecuteMigration(cause, version) => (format!("migration {version}"), cause),
        other => return StoreError::Internal(format!("migrations: {other}")),
    };
    match StoreError::from(cause) {
        // Nobody can ask a migration for less.
        StoreError::Unavailable(_, words) => StoreError::unavailable(format!("{at}: {words}")),
        other => StoreError::Internal(format!("{at}: {other}")),
    }
}

/// The error of a list of migrations that could not be read. Without its rights a role cannot serve, and no wait helps.
fn unread(error: MigrateError) -> StoreError {
    let cause = match error {
        MigrateError::Execute(cause) => cause,
        other => return StoreError::unavailable(other.to_string()),
    };
    let has_no_right =
        cause.as_database_error().is_some_and(|fault| fault.code().as_deref() == Some("42501"));
    match StoreError::from(cause) {
        StoreError::Internal(words) if has_no_right => StoreError::Internal(format!(
            "this role may not read the tables: run rights.sql as the role that owns them ({words})"
        )),
        away @ StoreError::Unavailable(..) => away,
        other => StoreError::unavailable(other.to_string()),
    }
}

/// Makes the row that migrations lock. `CREATE TABLE IF NOT EXISTS` of two instances at once can
/// fail in one of them. Then the table exists.
async fn make_lock_row(connection: &mut PgConnection) -> Result<()> {
    let statement = "CREATE TABLE IF NOT EXISTS minitill_migration_lock (id smallint PRIMARY KEY); \
                     INSERT INTO minitill_migration_lock VALUES (1) ON CONFLICT DO NOTHING";
    let mut outcome = Ok(());
    for _ in 0..10 {
        outcome = sqlx::raw_sql(statement).execute(&mut *connection).await.map(|_| ());
        if outcome.is_ok() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    outcome.map_err(StoreError::from)
}
