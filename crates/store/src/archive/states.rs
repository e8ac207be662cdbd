//! The states of archives. Two commands may run at once, so each transaction that moves entries first locks the row of
//! its archive and reads its state ([`fence`]). A command that finds another state stops.

use domain::ids::AppId;
use domain::moment::rfc3339;
use domain::operator::Operator;
use serde_json::json;
use sqlx::PgConnection;

use super::written::Written;
use super::{Archive, ArchiveError, refused};
use crate::error::Refusable;
use crate::error::{Result, StoreError};
use crate::operator_log::{LogLine, OperatorAction};
use crate::store::Store;

domain::word_enum! {
    /// The state of an archive, by its entries.
    pub(crate) enum ArchiveState {
        /// They leave the ledger.
        Moving = "moving",
        /// All of them have left.
        Kept = "kept",
        /// They go back.
        Restoring = "restoring",
    }
}

/// Locks the row of an archive until the transaction ends.
///
/// # Errors
/// The archive has another state.
pub(super) async fn fence(
    connection: &mut PgConnection,
    archive: &Archive,
    state: ArchiveState,
) -> Result<(), ArchiveError> {
    let row = sqlx::query_scalar!(
        r#"SELECT 1 AS "is_there!" FROM archives WHERE app_id = $1 AND archive_no = $2 AND state = $3 FOR SHARE"#,
        archive.app_id,
        archive.archive_no,
        state.as_str()
    );
    row.fetch_optional(connection).await?.map(|_| ()).ok_or_else(|| overtaken(archive))
}

fn overtaken(archive: &Archive) -> ArchiveError {
    let Archive { app_id, archive_no, .. } = archive;
    refused(format!(
        "another command has changed archive {archive_no} of the app {app_id}; see minitill archive list"
    ))
}

/// The newest archive of an app and its state. It locks all of them until the transaction ends.
pub(crate) async fn lock_newest(
    connection: &mut PgConnection,
    app_id: &str,
) -> Result<(i32, Option<String>)> {
    let lock = sqlx::query!("SELECT archive_no FROM archives WHERE app_id = $1 FOR UPDATE", app_id);
    lock.fetch_all(&mut *connection).await?;
    // A second statement sees what was committed while the first one waited.
    newest(connection, app_id).await
}

/// The newest archive of an app and its state, without a lock.
pub(crate) async fn newest(connection: &mut PgConnection, app_id: &str) -> Result<(i32, Option<String>)> {
    let newest = sqlx::query!(
        "SELECT archive_no, state FROM archives WHERE app_id = $1 ORDER BY archive_no DESC LIMIT 1",
        app_id
    );
    let newest = newest.fetch_optional(connection).await?;
    Ok(newest.map_or((0, None), |row| (row.archive_no, Some(row.state))))
}

impl Store {
    /// Stores a new archive whose entries begin to move. Before it, nothing has left the ledger.
    pub(super) async fn begin_archive(
        &self,
        operator: &Operator,
        app_id: &AppId,
        archive_no: i32,
        written: Written,
    ) -> Result<Archive, ArchiveError> {
        let context = (operator.clone(), app_id.clone(), written);
        // It waits for an erasure, which may take long.
        self.long_transaction(context, move |connection, (operator, app_id, written)| {
            Box::pin(async move {
                let no_limit = sqlx::query!("SET LOCAL statement_timeout = 0");
                no_limit.execute(&mut *connection).await.map_err(StoreError::from)?;
                let (newest, state) = lock_newest(connection, app_id.as_str()).await?;
                let is_kept = state.is_none_or(|state| state == ArchiveState::Kept.as_str());
                let moved = || {
                    Refusable::Refused(format!(
                        "another command has moved entries of the app {app_id}; nothing was moved, run this one again"
                    ))
                };
                if newest + 1 != archive_no || !is_kept {
                    return Err(moved());
                }
                let file = written.file.display().to_string();
                let begun = sqlx::query!(
                    "INSERT INTO archives (app_id, archive_no, before, entries, state, file, sha256)
                     VALUES ($1, $2, $3, $4, 'moving', $5, $6) ON CONFLICT DO NOTHING",
                    app_id.as_str(),
                    archive_no,
                    written.before,
                    written.entries,
                    file,
                    written.sha256.as_slice()
                )
                .execute(&mut *connection)
                .await
                .map_err(StoreError::from)?;
                // Another command with the same bytes, and so the same file, may have removed it below.
                if begun.rows_affected() == 0 || !written.file.exists() {
                    return Err(moved());
                }
                let after = json!({ "before": rfc3339(written.before), "entries": written.entries, "file": file,
                    "sha256": hex::encode(written.sha256) });
                let subject = archive_no.to_string();
                let line = LogLine::new(operator, OperatorAction::ArchiveWrite, &subject).of_app(app_id);
                line.after(after).record(connection).await?;
                // Behind the head of the log. An erasure that comes later finds this archive.
                let erased = sqlx::query_scalar!(
                    r#"SELECT EXISTS (
                           SELECT 1 FROM operator_log WHERE app_id = $1 AND action = 'player.erase' AND seq > $2) AS "erased!""#,
                    app_id.as_str(),
                    written.log_seq
                );
                if erased.fetch_one(&mut *connection).await.map_err(StoreError::from)? {
                    // No archive has this file: the row above is taken back.
                    written.remove();
                    return Err(Refusable::Refused(format!(
                        "a player of the app {app_id} was erased while the file was written; nothing was moved, run this one again"
                    )));
                }
                Ok(())
            })
        })
        .await
        .map_err(of_refusable)?;
        let begun =
            self.archives(Some(app_id)).await?.into_iter().find(|archive| archive.archive_no == archive_no);
        begun.ok_or_else(|| {
            refused(format!("another command has removed archive {archive_no} of the app {app_id}"))
        })
    }

    /// Marks an archive as kept, after all its entries have left.
    pub(super) async fn keep_archive(&self, archive: &Archive, app_no: i32) -> Result<Archive, ArchiveError> {
        let kept = sqlx::query!(
            "UPDATE archives SET state = 'kept', digest = (
                 SELECT coalesce(sum(digest), 0) FROM archived_digests WHERE app_no = $3)
             WHERE app_id = $1 AND archive_no = $2 AND state = 'moving'",
            archive.app_id,
            archive.archive_no,
            app_no
        );
        let mut connection = self.connect_without_limits().await?;
        if kept.execute(&mut connection).await?.rows_affected() == 0 {
            return Err(overtaken(archive));
        }
        Ok(Archive { state: ArchiveState::Kept.as_str().to_owned(), ..archive.clone() })
    }

    /// Marks the newest archive of an app as one that is being restored.
    pub(super) async fn begin_restore(
        &self,
        operator: &Operator,
        app_id: &AppId,
        archive: &Archive,
    ) -> Result<(), ArchiveError> {
        let context = (operator.clone(), archive.clone(), app_id.clone());
        self.transaction(context, |connection, (operator, archive, app_id)| {
            Box::pin(async move {
                let (newest, state) = lock_newest(connection, &archive.app_id).await?;
                if newest > archive.archive_no {
                    return Err(Refusable::Refused(format!(
                        "restore archive {newest} of the app {app_id} first: it is newer"
                    )));
                }
                let begun = sqlx::query!(
                    "UPDATE archives SET state = 'restoring', digest = NULL
                     WHERE app_id = $1 AND archive_no = $2 AND state <> 'restoring'",
                    archive.app_id,
                    archive.archive_no
                );
                let begun = begun.execute(&mut *connection).await.map_err(StoreError::from)?;
                // A restore that was not finished has its line already.
                if begun.rows_affected() == 1 {
                    let subject = archive.archive_no.to_string();
                    let line =
                        LogLine::new(operator, OperatorAction::ArchiveRestore, &subject).of_app(app_id);
                    let before = json!({ "before": rfc3339(archive.before), "entries": archive.entries,
                        "file": archive.file, "sha256": archive.sha256, "state": state });
                    line.before(before).record(connection).await?;
                }
                Ok(())
            })
        })
        .await
        .map_err(of_refusable)
    }

    /// Forgets an archive, after all its entries are in the ledger again.
    pub(super) async fn forget_archive(&self, archive: &Archive, app_no: i32) -> Result<(), ArchiveError> {
        let forgotten = sqlx::query!(
            "DELETE FROM archives WHERE app_id = $1 AND archive_no = $2 AND state = 'restoring'
             AND NOT EXISTS (SELECT 1 FROM archived_wallets WHERE app_no = $3 AND archive_no = $2)",
            archive.app_id,
            archive.archive_no,
            app_no
        );
        if forgotten.execute(&self.pool).await?.rows_affected() == 0 {
            return Err(overtaken(archive));
        }
        Ok(())
    }
}

fn of_refusable(error: Refusable<String>) -> ArchiveError {
    match error {
        Refusable::Refused(cause) => refused(cause),
        Refusable::Store(error) => ArchiveError::Store(error),
    }
}
