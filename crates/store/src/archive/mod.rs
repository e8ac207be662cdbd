//! Archives (docs/archives.md): entries of closed periods leave `ledger_entries` for files. What decides about a repeat
//! stays in `archived_entries`, and `archived_wallets` has the state that each ledger goes on from.

mod check;
mod file;
mod moving;
mod states;
mod written;

use std::path::{Path, PathBuf};

use domain::ids::AppId;
use domain::moment::rfc3339;
use domain::operator::Operator;
use serde::Serialize;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};
use time::OffsetDateTime;

pub(crate) use self::states::{ArchiveState, lock_newest, newest};
use crate::app_number::number_if_any;
use crate::engine::Engine;
use crate::error::{Result, StoreError};
use crate::store::Store;

/// The youngest age of an entry that may be archived. Order numbers are replayed for 48 hours.
const AGE_MIN_HOURS: i32 = 72;

/// An archive of an app.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Archive {
    /// The app.
    pub app_id: String,
    /// 1 for the first archive of the app.
    pub archive_no: i32,
    /// It has entries before this time.
    #[serde(with = "time::serde::rfc3339")]
    pub before: OffsetDateTime,
    /// Number of rows: ledger entries, closed numbers and orders of top-ups.
    pub entries: i64,
    /// `moving`, `kept` or `restoring`.
    pub state: String,
    /// Path of the file when it was written.
    pub file: String,
    /// SHA-256 of the file, in hexadecimal.
    pub sha256: String,
    /// Database time when the entries began to move.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
}

impl Archive {
    fn is(&self, state: ArchiveState) -> bool {
        self.state == state.as_str()
    }
}

/// A file that agrees with its archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VerifiedArchive {
    /// The file.
    pub file: String,
    /// The app.
    pub app_id: String,
    /// Its archive.
    pub archive_no: i32,
    /// Number of rows.
    pub entries: i64,
}

/// Gets how many rows of a file were read to move them, and how many it has.
pub type ArchiveProgress = Box<dyn Fn(u64, u64) + Send + Sync>;

/// The reason why nothing was archived or restored, or not all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArchiveError {
    /// The command or the file is refused.
    #[error("{0}")]
    Refused(String),
    /// The store has failed.
    #[error(transparent)]
    Store(StoreError),
}

impl<E: Into<StoreError>> From<E> for ArchiveError {
    fn from(error: E) -> Self {
        Self::Store(error.into())
    }
}

impl Store {
    /// The apps whose entries may be archived: all, or the one that was named.
    ///
    /// # Errors
    /// There is no such app, `before` is too young, an event still tells of such an entry, or the role does not own the
    /// tables.
    pub async fn archivable_apps(
        &self,
        only: Option<&AppId>,
        before: OffsetDateTime,
    ) -> Result<Vec<AppId>, ArchiveError> {
        self.may_move_entries().await?;
        let is_old = sqlx::query_scalar!(
            r#"SELECT $1 <= now() - make_interval(hours => $2) AS "is_old!""#,
            before,
            AGE_MIN_HOURS
        );
        if !is_old.fetch_one(&self.pool).await? {
            return Err(refused(format!(
                "only entries that are {AGE_MIN_HOURS} hours old can be archived: order numbers are replayed for 48 hours"
            )));
        }
        let apps = sqlx::query_scalar!(
            "SELECT app_id FROM apps WHERE $1::text IS NULL OR app_id = $1 ORDER BY app_id",
            only.map(AppId::as_str)
        );
        let apps = apps.fetch_all(&self.pool).await?;
        if let (Some(app_id), []) = (only, apps.as_slice()) {
            return Err(refused(format!("there is no app {app_id}")));
        }
        self.may_lose_entries(&apps, before).await?;
        apps.iter().map(|app| AppId::parse(app).map_err(|_| StoreError::damaged("apps").into())).collect()
    }

    /// Moves the entries of an app before a time to a file in `folder`, and returns the new archive. `None` when no entry
    /// is that old. It first completes an archive that was not finished, and returns that too.
    ///
    /// # Errors
    /// An archive is being restored, the ledger has a difference, or the folder cannot be written.
    pub async fn archive(
        &self,
        operator: &Operator,
        app_id: &AppId,
        before: OffsetDateTime,
        folder: &Path,
        progress: &ArchiveProgress,
    ) -> Result<Vec<Archive>, ArchiveError> {
        let mut connection = self.connect_without_limits().await?;
        let app_no = self.number_of_app(app_id).await?;
        let mut archives = Vec::new();
        let mut newest = self.newest_archive(app_id).await?;
        if let Some(unfinished) = newest.take_if(|newest| !newest.is(ArchiveState::Kept)) {
            if unfinished.is(ArchiveState::Restoring) {
                return Err(refused(format!(
                    "archive {} of the app {app_id} is being restored; to complete that, run minitill archive restore {}",
                    unfinished.archive_no, unfinished.file
                )));
            }
            moving::archive(&mut connection, app_no, &unfinished, progress).await?;
            archives.push(self.keep_archive(&unfinished, app_no).await?);
            newest = archives.last().cloned();
        }
        // Before the snapshot of the file: so no other command has moved entries when the archive begins with this number.
        let archive_no = newest.map_or(1, |newest| newest.archive_no + 1);
        // A refusal leaves no folder.
        let folder = written::folder(folder)?;
        let draft = written::write(&mut connection, (app_id, app_no), before, &folder).await?;
        if let Some(draft) = draft {
            check::follows(&mut connection, app_id.as_str(), archive_no, &draft).await?;
            let archive =
                self.begin_archive(operator, app_id, archive_no, draft.named(app_id, archive_no)?).await?;
            moving::archive(&mut connection, app_no, &archive, progress).await?;
            archives.push(self.keep_archive(&archive, app_no).await?);
        }
        if !archives.is_empty() {
            vacuum(&mut connection).await;
        }
        Ok(archives)
    }

    /// The archives of an app or of all, the newest of each app first.
    pub async fn archives(&self, only: Option<&AppId>) -> Result<Vec<Archive>> {
        Ok(sqlx::query_as!(
            Archive,
            r#"SELECT app_id, archive_no, before, entries, state, file, encode(sha256, 'hex') AS "sha256!", created_at
               FROM archives WHERE $1::text IS NULL OR app_id = $1 ORDER BY app_id, archive_no DESC"#,
            only.map(AppId::as_str)
        )
        .fetch_all(&self.pool)
        .await?)
    }

    /// Checks a file of an archive that is kept: its checksum and each hash of its entries. What stays in the database
    /// must be what the file has.
    ///
    /// # Errors
    /// It is no file of this database, or the database differs from it.
    pub async fn verify_archive(&self, file: &Path) -> Result<VerifiedArchive, ArchiveError> {
        let archive = self.archive_of(file).await?;
        if !archive.is(ArchiveState::Kept) {
            return Err(refused(format!("{}: its archive is {}", file.display(), archive.state)));
        }
        let mut connection = self.connect_without_limits().await?;
        check::stays(&mut connection, &archive, file).await?;
        let Archive { app_id, archive_no, entries, .. } = archive;
        Ok(VerifiedArchive { file: file.display().to_string(), app_id, archive_no, entries })
    }

    /// Moves the entries of a file back to the ledger, and forgets the archive. It must be the newest of its app.
    ///
    /// # Errors
    /// It is no file of this database, the database differs from it, or a newer archive must be restored first.
    pub async fn restore_archive(
        &self,
        operator: &Operator,
        file: &Path,
        progress: &ArchiveProgress,
    ) -> Result<Archive, ArchiveError> {
        self.may_move_entries().await?;
        let archive = Archive { file: file.display().to_string(), ..self.archive_of(file).await? };
        let app_id = AppId::parse(&archive.app_id).map_err(|_| StoreError::damaged("archives"))?;
        let app_no = self.number_of_app(&app_id).await?;
        let mut connection = self.connect_without_limits().await?;
        self.begin_restore(operator, &app_id, &archive).await?;
        moving::restore(&mut connection, app_no, &archive, progress).await?;
        self.forget_archive(&archive, app_no).await?;
        vacuum(&mut connection).await;
        Ok(archive)
    }

    /// Returns the space of archived entries to the disk. All exchanges wait meanwhile.
    ///
    /// # Errors
    /// The role does not own the tables.
    pub async fn compact_ledger(&self) -> Result<(), ArchiveError> {
        self.may_move_entries().await?;
        let mut connection = self.connect_without_limits().await?;
        // The keys of archived entries came in the order of the wallets, which leaves their pages half full.
        for statement in
            ["VACUUM (FULL, ANALYZE) ledger_entries", "REINDEX TABLE CONCURRENTLY archived_entries"]
        {
            connection.execute(sqlx::raw_sql(statement)).await?;
        }
        Ok(connection.close().await?)
    }

    /// Refuses a role that must not take rows away, such as that of servers (`deploy/rights.sql`), and Citus.
    async fn may_move_entries(&self) -> Result<(), ArchiveError> {
        if self.engine.get() == Engine::Citus {
            return Err(refused("archives are not for Citus".to_owned()));
        }
        let owns = sqlx::query_scalar!(
            r#"SELECT pg_has_role(relowner, 'USAGE') AS "owns!" FROM pg_class WHERE oid = 'ledger_entries'::regclass"#
        );
        if owns.fetch_one(&self.pool).await? {
            Ok(())
        } else {
            let cause = "run this command as the role that owns the tables: no other role may move entries";
            Err(refused(cause.to_owned()))
        }
    }

    /// Refuses entries of which an event still tells: an archived entry cannot be sent to a receiver.
    async fn may_lose_entries(&self, apps: &[String], before: OffsetDateTime) -> Result<(), ArchiveError> {
        let told = sqlx::query!(
            r#"SELECT app_id AS "app_id!", at AS "at!" FROM (
                   SELECT a.app_id, e.at FROM unnest($1::text[]) AS a (app_id)
                   CROSS JOIN LATERAL (SELECT at FROM events WHERE app_id = a.app_id ORDER BY last_no LIMIT 1) e
                   UNION ALL
                   SELECT a.app_id, o.at FROM wallet_outbox o JOIN apps a ON a.app_no = o.app_no WHERE a.app_id = ANY ($1)
               ) first
               WHERE at < $2 ORDER BY at LIMIT 1"#,
            apps,
            before
        );
        let Some(told) = told.fetch_optional(&self.pool).await? else { return Ok(()) };
        Err(refused(format!(
            "events of the app {} since {} are kept (notify.keep, or a receiver waits for them): archive what was before, \
             or later",
            told.app_id,
            rfc3339(told.at)
        )))
    }

    async fn number_of_app(&self, app_id: &AppId) -> Result<i32> {
        number_if_any(&self.pool, app_id).await?.ok_or_else(|| StoreError::damaged("apps"))
    }

    async fn newest_archive(&self, app_id: &AppId) -> Result<Option<Archive>> {
        Ok(self.archives(Some(app_id)).await?.into_iter().next())
    }

    /// The archive of a file, which must be unchanged.
    async fn archive_of(&self, file: &Path) -> Result<Archive, ArchiveError> {
        let sha256 = file::sha256(file).map_err(|error| unusable(file, error))?;
        let sha256 = hex::encode(sha256);
        let found = self.archives(None).await?.into_iter().find(|archive| archive.sha256 == sha256);
        found.ok_or_else(|| unusable(file, "no archive of this database has this checksum"))
    }

    /// A session without time limits.
    pub(crate) async fn connect_without_limits(&self) -> Result<PgConnection> {
        let mut connection = PgConnection::connect_with(&self.pool.connect_options()).await?;
        let session = "SET statement_timeout = 0; SET lock_timeout = 0; SET timezone = 'UTC'; \
                       SET datestyle = 'ISO, YMD'; SET bytea_output = 'hex'; SET jit = off; SET work_mem = '128MB'";
        connection.execute(sqlx::raw_sql(session)).await?;
        Ok(connection)
    }
}

/// Makes the space of rows that have left usable again. Autovacuum would do it later, so a failure is no error.
async fn vacuum(connection: &mut PgConnection) {
    for table in ["ledger_entries", "archived_entries", "archived_wallets"] {
        let vacuum = AssertSqlSafe(format!("VACUUM (ANALYZE) {table}"));
        if let Err(error) = connection.execute(sqlx::raw_sql(vacuum)).await {
            tracing::warn!(table, %error, "vacuum failed");
        }
    }
}

fn refused(cause: String) -> ArchiveError {
    ArchiveError::Refused(cause)
}

/// The refusal of a file.
fn unusable(file: &Path, cause: impl std::fmt::Display) -> ArchiveError {
    refused(format!("{}: {cause}", file.display()))
}

/// The path of an archive's file.
fn path(archive: &Archive) -> PathBuf {
    PathBuf::from(&archive.file)
}
