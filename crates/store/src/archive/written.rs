//! Writes the file of a new archive.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use domain::ids::AppId;
use domain::moment::rfc3339;
use futures_util::TryStreamExt as _;
use sqlx::PgConnection;
use time::OffsetDateTime;

use super::file::{ArchiveColumns, ArchiveWriter, FileDigest};
use super::{ArchiveError, unusable};
use crate::secrets::random_bytes;

/// How many digits of the checksum a name has. So a file that was left behind never blocks another.
const SUM_DIGITS: usize = 8;

/// A file that has not got its name yet. It is removed when nobody names it.
pub(super) struct Draft {
    pub(super) path: PathBuf,
    pub(super) before: OffsetDateTime,
    pub(super) entries: i64,
    sha256: FileDigest,
    log_seq: i64,
}

/// A file with its name.
#[derive(Debug, Clone)]
pub(super) struct Written {
    pub(super) file: PathBuf,
    pub(super) before: OffsetDateTime,
    pub(super) entries: i64,
    pub(super) sha256: FileDigest,
    /// Number of the operator's last log line before the file was written. An erasure of a later line is not in the file.
    pub(super) log_seq: i64,
}

impl Drop for Draft {
    fn drop(&mut self) {
        // After it was named there is nothing to remove.
        let _ = fs::remove_file(&self.path);
    }
}

impl Written {
    /// Removes the file and its checksum, which nobody needs then.
    pub(super) fn remove(&self) {
        for file in [self.file.clone(), checksum_of(&self.file)] {
            let _ = fs::remove_file(file);
        }
    }
}

/// The path of the checksum of a file.
fn checksum_of(file: &Path) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(".sha256");
    path.into()
}

impl Draft {
    /// Names the file, and writes its checksum beside it. Both are on disk then.
    pub(super) fn named(self, app_id: &AppId, archive_no: i32) -> Result<Written, ArchiveError> {
        let sum = hex::encode(self.sha256);
        let name =
            format!("{app_id}-{archive_no}-before-{}-{}.tsv.gz", self.before.date(), &sum[..SUM_DIGITS]);
        let file = self.path.with_file_name(&name);
        let write = || -> io::Result<()> {
            let mut beside = File::create(checksum_of(&file))?;
            writeln!(beside, "{sum}  {name}")?;
            beside.sync_all()?;
            fs::rename(&self.path, &file)?;
            sync_folder(&file)
        };
        write().map_err(|error| unusable(&file, error))?;
        let Self { before, entries, sha256, log_seq, .. } = &self;
        Ok(Written { file, before: *before, entries: *entries, sha256: *sha256, log_seq: *log_seq })
    }
}

/// Makes the folder of the archives, if it is not there. Only its owner may enter it: the files tell of players.
pub(super) fn folder(folder: &Path) -> Result<PathBuf, ArchiveError> {
    let make = || -> io::Result<PathBuf> {
        if !folder.exists() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            sync_folder(folder)?;
        }
        folder.canonicalize()
    };
    make().map_err(|error| unusable(folder, error))
}

/// Brings the name of a file to disk.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.canonicalize()?;
    folder.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

/// Writes the entries of an app before a time. `None` when there are none. Of each wallet it takes the entries before the
/// first that must stay, because the clock of the database may have gone back.
pub(super) async fn write(
    connection: &mut PgConnection,
    (app_id, app_no): (&AppId, i32),
    before: OffsetDateTime,
    folder: &Path,
) -> Result<Option<Draft>, ArchiveError> {
    let path = folder.join(format!(".{app_id}-{}.new", hex::encode(random_bytes::<8>())));
    // Before the snapshot of the file.
    let log_seq =
        sqlx::query_scalar!("SELECT seq FROM operator_log_head").fetch_one(&mut *connection).await?;
    let mut draft = Draft { path, before, entries: 0, sha256: FileDigest::default(), log_seq };
    let columns = ArchiveColumns::written().of_entries("e.");
    // A copy takes no parameters. The program has made both texts.
    let time = rfc3339(before);
    let select = format!(
        "SELECT {columns}, w.open_id, i.product_name, i.product_info, i.product_desc
         FROM ledger_entries e
         JOIN wallets w ON w.app_no = {app_no} AND w.wallet_no = e.wallet_no
         LEFT JOIN items i ON i.app_no = {app_no} AND i.item_id = e.item_id
         LEFT JOIN (
             SELECT wallet_no, min(seq) AS seq FROM ledger_entries
             WHERE app_no = {app_no} AND at >= '{time}' AND seq IS NOT NULL GROUP BY wallet_no
         ) stays ON stays.wallet_no = e.wallet_no
         WHERE e.app_no = {app_no} AND e.at < '{time}'
             AND (e.seq IS NULL OR stays.seq IS NULL OR e.seq < stays.seq)
         ORDER BY e.wallet_no, e.seq"
    );
    let fault = |error: io::Error| unusable(&draft.path, error);
    let mut writer = ArchiveWriter::create(&draft.path).map_err(fault)?;
    let mut lines = connection.copy_out_raw(&format!("COPY ({select}) TO STDOUT")).await?;
    // PostgreSQL sends one row in each message.
    let mut entries = 0;
    while let Some(line) = lines.try_next().await? {
        writer.write(&line).map_err(fault)?;
        entries += 1;
    }
    let sha256 = writer.finish().map_err(fault)?;
    (draft.entries, draft.sha256) = (entries, sha256);
    Ok(Some(draft).filter(|draft| draft.entries > 0))
}
