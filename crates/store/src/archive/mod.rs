//! Archives (docs/archives.md): entries of closed periods leave `ledger_entries` for files. What decides about a repeat
//! stays in `archived_entries`, and `archived_wallets` has the state that each ledger goes on from.

mod check;
mod file;
mod moving;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use domain::ids::AppId;
use domain::moment::rfc3339;
use domain::operator::Operator;
use futures_util::TryStreamExt as _;
use serde::Serialize;
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};
use time::OffsetDateTime;

use crate::operator_log::{Action, LogLine};
use crate::{Result, Store, StoreError};

/// The youngest age of an entry that may be archived. Order numbers are replayed for 48 hours.
const AGE_MIN_HOURS: i32 = 72;

/// An archive of an app.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Archive {
    /// The app.
    pub app_id: String,
    /// 1 for the first archive of the app.
    pub archive_no: i32,
    /// It has the entries before this time.
    #[serde(with = "time::serde::rfc3339")]
    pub before: OffsetDateTime,
    /// Number of rows: ledger entries and closed numbers.
    pub entries: i64,
    /// Path of the file when it was written.
    pub file: String,
    /// SHA-256 of the file, in hexadecimal.
    pub sha256: String,
    /// Database time when the entries began to move.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// Database time when all of them were moved. `None` while they move.
    #[serde(with = "time::serde::rfc3339::option")]
    pub finished_at: Option<OffsetDateTime>,
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

/// Gets the number of rows that were moved, and how many there are.
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
    /// Moves all entries before a time to files in `folder`, one file for each app, and returns the new archives. It
    /// first completes archives that were not finished. `only` limits it to one app.
    ///
    /// # Errors
    /// `before` is too young, the ledger has a difference, or the folder cannot be written.
    pub async fn archive(
        &self,
        operator: &Operator,
        only: Option<&AppId>,
        before: OffsetDateTime,
        folder: &Path,
        progress: ArchiveProgress,
    ) -> Result<Vec<Archive>, ArchiveError> {
        self.must_own_ledger().await?;
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
        let apps = sqlx::query!(
            "SELECT app_id, app_no FROM apps WHERE $1::text IS NULL OR app_id = $1 ORDER BY app_id",
            only.map(AppId::as_str)
        );
        let apps = apps.fetch_all(&self.pool).await?;
        if let (Some(app_id), []) = (only, apps.as_slice()) {
            return Err(refused(format!("there is no app {app_id}")));
        }
        let folder = fs::create_dir_all(folder).and_then(|()| folder.canonicalize());
        let folder = folder.map_err(|error| refused(format!("the folder of the archives: {error}")))?;
        let mut connection = self.connect_without_limits().await?;
        let mut archives = Vec::new();
        for app in apps {
            let app_id = AppId::parse(&app.app_id).map_err(|_| StoreError::damaged("apps"))?;
            if let Some(unfinished) =
                self.newest_archive(&app_id).await?.filter(|it| it.finished_at.is_none())
            {
                let file = PathBuf::from(&unfinished.file);
                confirm_sha256(&file, &unfinished.sha256)?;
                moving::archive(&mut connection, app.app_no, &unfinished, &file, &progress).await?;
                archives.extend(self.finish(&app_id).await?);
            }
            let Some(draft) = write_file(&mut connection, (&app_id, app.app_no), before, &folder).await?
            else {
                continue;
            };
            archives.push(
                self.archive_app(&mut connection, operator, (&app_id, app.app_no), before, draft, &progress)
                    .await?,
            );
        }
        if !archives.is_empty() {
            vacuum(&mut connection).await?;
        }
        Ok(archives)
    }

    /// The archives of an app or of all, the newest of each app first.
    pub async fn archives(&self, only: Option<&AppId>) -> Result<Vec<Archive>> {
        Ok(sqlx::query_as!(
            Archive,
            r#"SELECT app_id, archive_no, before, entries, file, encode(sha256, 'hex') AS "sha256!", created_at, finished_at
               FROM archives WHERE $1::text IS NULL OR app_id = $1 ORDER BY app_id, archive_no DESC"#,
            only.map(AppId::as_str)
        )
        .fetch_all(&self.pool)
        .await?)
    }

    /// Checks a file: its checksum, each hash of its entries, and that they lead to the states that the ledgers go on
    /// from.
    ///
    /// # Errors
    /// It is no file of this database, or it is damaged.
    pub async fn verify_archive(&self, file: &Path) -> Result<VerifiedArchive, ArchiveError> {
        let archive = self.archive_of(file).await?;
        let mut connection = self.connect_without_limits().await?;
        check::file(&mut connection, &archive, file).await?;
        let Archive { app_id, archive_no, entries, .. } = archive;
        Ok(VerifiedArchive { file: file.display().to_string(), app_id, archive_no, entries })
    }

    /// Moves the entries of a file back to the ledger, and forgets the archive. It must be the newest of its app.
    ///
    /// # Errors
    /// It is no file of this database, it is damaged, or a newer archive must be restored first.
    pub async fn restore_archive(
        &self,
        operator: &Operator,
        file: &Path,
        progress: ArchiveProgress,
    ) -> Result<Archive, ArchiveError> {
        self.must_own_ledger().await?;
        let archive = self.archive_of(file).await?;
        let app_id = AppId::parse(&archive.app_id).map_err(|_| StoreError::damaged("archives"))?;
        let newest = self.newest_archive(&app_id).await?.map_or(0, |newest| newest.archive_no);
        if archive.archive_no != newest {
            return Err(refused(format!("restore archive {newest} of the app {app_id} first: it is newer")));
        }
        let mut connection = self.connect_without_limits().await?;
        check::file(&mut connection, &archive, file).await?;
        let context = (operator.clone(), archive.clone(), app_id.clone());
        self.transaction(context, |connection, (operator, archive, app_id)| {
            Box::pin(async move {
                sqlx::query!(
                    "UPDATE archives SET finished_at = NULL WHERE app_id = $1 AND archive_no = $2",
                    archive.app_id,
                    archive.archive_no
                )
                .execute(&mut *connection)
                .await?;
                let subject = archive.archive_no.to_string();
                LogLine::new(operator, Action::ArchiveRestore, &subject)
                    .of_app(app_id)
                    .before(json!(archive))
                    .record(connection)
                    .await
            })
        })
        .await?;
        let app_no = sqlx::query_scalar!("SELECT app_no FROM apps WHERE app_id = $1", app_id.as_str());
        let app_no = app_no.fetch_one(&self.pool).await?;
        moving::restore(&mut connection, app_no, &archive, file, &progress).await?;
        sqlx::query!(
            "DELETE FROM archives WHERE app_id = $1 AND archive_no = $2",
            archive.app_id,
            archive.archive_no
        )
        .execute(&self.pool)
        .await?;
        vacuum(&mut connection).await?;
        Ok(archive)
    }

    /// Returns the space of archived entries to the disk. All exchanges wait meanwhile.
    ///
    /// # Errors
    /// The role of the session does not own the table.
    pub async fn compact_ledger(&self) -> Result<(), ArchiveError> {
        self.must_own_ledger().await?;
        let mut connection = self.connect_without_limits().await?;
        // The keys of archived entries came in the order of the wallets, which leaves their pages half full.
        for statement in
            ["VACUUM (FULL, ANALYZE) ledger_entries", "REINDEX TABLE CONCURRENTLY archived_entries"]
        {
            connection.execute(sqlx::raw_sql(statement)).await?;
        }
        Ok(connection.close().await?)
    }

    /// Refuses a role that must not take rows away, such as that of servers (`deploy/rights.sql`).
    async fn must_own_ledger(&self) -> Result<(), ArchiveError> {
        let owns = sqlx::query_scalar!(
            r#"SELECT pg_has_role(relowner, 'USAGE') AS "owns!" FROM pg_class WHERE oid = 'ledger_entries'::regclass"#
        );
        if owns.fetch_one(&self.pool).await? {
            Ok(())
        } else {
            Err(refused(
                "run this command as the role that owns the tables: no other role may move entries"
                    .to_owned(),
            ))
        }
    }

    /// Checks a file that was written, names it, and moves its entries.
    async fn archive_app(
        &self,
        connection: &mut PgConnection,
        operator: &Operator,
        (app_id, app_no): (&AppId, i32),
        before: OffsetDateTime,
        (draft, entries): (PathBuf, i64),
        progress: &ArchiveProgress,
    ) -> Result<Archive, ArchiveError> {
        let archive_no = self.newest_archive(app_id).await?.map_or(1, |newest| newest.archive_no + 1);
        let day = before.date();
        let file = draft.with_file_name(format!("{app_id}-{archive_no}-before-{day}.tsv.gz"));
        let named = || -> io::Result<[u8; 32]> {
            let sha256 = file::sha256(&draft)?;
            // It never takes the place of a file that is there.
            fs::hard_link(&draft, &file)?;
            fs::remove_file(&draft)?;
            let name = file.file_name().unwrap_or_default().display().to_string();
            fs::write(checksum_of(&file), format!("{}  {name}\n", hex::encode(sha256)))?;
            File::open(file.parent().unwrap_or(&file))?.sync_all()?;
            Ok(sha256)
        };
        let sha256 = named().map_err(|error| refused(format!("{}: {error}", file.display())))?;
        let archive = Archive {
            app_id: app_id.to_string(),
            archive_no,
            before,
            entries,
            file: file.display().to_string(),
            sha256: hex::encode(sha256),
            created_at: before,
            finished_at: None,
        };
        if let Err(error) = check::file(connection, &archive, &file).await {
            let _ = fs::remove_file(&file).and_then(|()| fs::remove_file(checksum_of(&file)));
            return Err(error);
        }
        self.begin_archive(operator, app_id, &archive).await?;
        moving::archive(connection, app_no, &archive, &file, progress).await?;
        let finished = self.finish(app_id).await?;
        finished.ok_or_else(|| refused(format!("the archive {archive_no} of the app {app_id} is gone")))
    }

    async fn begin_archive(
        &self,
        operator: &Operator,
        app_id: &AppId,
        archive: &Archive,
    ) -> Result<(), ArchiveError> {
        let context = (operator.clone(), archive.clone(), app_id.clone());
        let begun = self.transaction(context, |connection, (operator, archive, app_id)| {
            Box::pin(async move {
                sqlx::query!(
                    "INSERT INTO archives (app_id, archive_no, before, entries, file, sha256)
                     VALUES ($1, $2, $3, $4, $5, decode($6, 'hex'))",
                    archive.app_id,
                    archive.archive_no,
                    archive.before,
                    archive.entries,
                    archive.file,
                    archive.sha256
                )
                .execute(&mut *connection)
                .await?;
                let subject = archive.archive_no.to_string();
                let after = json!({ "before": rfc3339(archive.before), "entries": archive.entries,
                    "file": archive.file, "sha256": archive.sha256 });
                let line = LogLine::new(operator, Action::ArchiveWrite, &subject).of_app(app_id);
                line.after(after).record(connection).await
            })
        });
        Ok(begun.await?)
    }

    /// Marks the archive of an app that is not finished.
    async fn finish(&self, app_id: &AppId) -> Result<Option<Archive>> {
        let finish = sqlx::query!(
            "UPDATE archives SET finished_at = now() WHERE app_id = $1 AND finished_at IS NULL",
            app_id.as_str()
        );
        finish.execute(&self.pool).await?;
        self.newest_archive(app_id).await
    }

    async fn newest_archive(&self, app_id: &AppId) -> Result<Option<Archive>> {
        Ok(self.archives(Some(app_id)).await?.into_iter().next())
    }

    /// The archive of a file, which must be unchanged.
    async fn archive_of(&self, file: &Path) -> Result<Archive, ArchiveError> {
        let sha256 = file::sha256(file).map_err(|error| refused(format!("{}: {error}", file.display())))?;
        let sha256 = hex::encode(sha256);
        let found = self.archives(None).await?.into_iter().find(|archive| archive.sha256 == sha256);
        found.ok_or_else(|| {
            refused(format!("{}: no archive of this database has this checksum", file.display()))
        })
    }

    /// A session without time limits.
    async fn connect_without_limits(&self) -> Result<PgConnection> {
        let mut connection = PgConnection::connect_with(&self.pool.connect_options()).await?;
        let session = "SET statement_timeout = 0; SET lock_timeout = 0; SET timezone = 'UTC'; \
                       SET datestyle = 'ISO, YMD'; SET bytea_output = 'hex'; SET jit = off; SET work_mem = '128MB'";
        connection.execute(sqlx::raw_sql(session)).await?;
        Ok(connection)
    }
}

/// Writes the entries of an app before a time to a new file, and returns its path and the number of rows. `None` when
/// there are none. Of each wallet it takes the entries before the first that must stay, so the clock of the database may
/// have gone back.
async fn write_file(
    connection: &mut PgConnection,
    (app_id, app_no): (&AppId, i32),
    before: OffsetDateTime,
    folder: &Path,
) -> Result<Option<(PathBuf, i64)>, ArchiveError> {
    let draft = folder.join(format!(".{app_id}.new-{}", std::process::id()));
    let fault = |error: io::Error| refused(format!("{}: {error}", draft.display()));
    let columns = format!("e.{}", file::ENTRY_COLUMNS.replace(", ", ", e."));
    // A copy takes no parameters. Both are numbers.
    let before = before.unix_timestamp();
    let select = format!(
        "SELECT {columns}, w.open_id, i.product_name, i.product_info, i.product_desc
         FROM ledger_entries e
         JOIN wallets w ON w.app_no = {app_no} AND w.wallet_no = e.wallet_no
         LEFT JOIN items i ON i.app_no = {app_no} AND i.item_id = e.item_id
         LEFT JOIN (
             SELECT wallet_no, min(seq) AS seq FROM ledger_entries
             WHERE app_no = {app_no} AND at >= to_timestamp({before}) AND seq IS NOT NULL GROUP BY wallet_no
         ) stays ON stays.wallet_no = e.wallet_no
         WHERE e.app_no = {app_no} AND e.at < to_timestamp({before})
             AND (e.seq IS NULL OR stays.seq IS NULL OR e.seq < stays.seq)
         ORDER BY e.wallet_no, e.seq"
    );
    let mut writer = file::Writer::create(&draft).map_err(fault)?;
    let mut entries = 0;
    let written = async {
        let statement = AssertSqlSafe(format!("COPY ({select}) TO STDOUT"));
        let mut lines = connection.copy_out_raw(&statement.0).await?;
        // PostgreSQL sends one row in each message.
        while let Some(line) = lines.try_next().await? {
            writer.write(&line).map_err(fault)?;
            entries += 1;
        }
        writer.finish().map_err(fault)
    };
    let written: Result<(), ArchiveError> = written.await;
    if written.is_err() || entries == 0 {
        let _ = fs::remove_file(&draft);
    }
    written.map(|()| (entries > 0).then_some((draft, entries)))
}

/// Makes the space of rows that have left usable again.
async fn vacuum(connection: &mut PgConnection) -> Result<()> {
    for table in ["ledger_entries", "archived_entries", "archived_wallets"] {
        connection.execute(sqlx::raw_sql(AssertSqlSafe(format!("VACUUM (ANALYZE) {table}")))).await?;
    }
    Ok(())
}

fn confirm_sha256(file: &Path, expected: &str) -> Result<(), ArchiveError> {
    let found = file::sha256(file).map_err(|error| {
        refused(format!("{}: {error}; its entries were not all moved, so the file is needed", file.display()))
    })?;
    if hex::encode(found) == expected {
        Ok(())
    } else {
        Err(refused(format!("{} was changed after it was written", file.display())))
    }
}

/// The file beside an archive with its checksum, as `sha256sum --check` reads it.
fn checksum_of(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".sha256");
    PathBuf::from(name)
}

fn refused(cause: String) -> ArchiveError {
    ArchiveError::Refused(cause)
}
