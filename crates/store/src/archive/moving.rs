//! Moves the rows of a file out of the ledger and back. Each batch of whole wallets is one transaction. So at every
//! moment a number is in one of both tables, and the ledger of each wallet goes on from its state.

use std::path::PathBuf;

use domain::ids::OpenId;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};
use time::OffsetDateTime;

use super::file::{ArchiveBatch, ArchiveColumns, ArchiveRow, Reader};
use super::states::{ArchiveState, fence};
use super::{Archive, ArchiveError, ArchiveProgress, path, refused, unusable};
use crate::error::StoreError;
use crate::pseudonym::scrub_restored;

/// Takes lines of a file in a transaction.
const LINES: &str = "CREATE TEMPORARY TABLE IF NOT EXISTS archive_lines (LIKE ledger_entries INCLUDING DEFAULTS, open_id text, \
    product_name text, product_info text, product_desc text) ON COMMIT DELETE ROWS";
/// How many bytes of lines are sent in a piece.
const PIECE_BYTES: usize = 1 << 20;

/// Moves the entries of an archive out of the ledger, but for those that have moved already.
pub(super) async fn archive(
    connection: &mut PgConnection,
    app_no: i32,
    archive: &Archive,
    progress: &ArchiveProgress,
) -> Result<(), ArchiveError> {
    let mut batches = Batches::open(archive, progress)?;
    while let Some(batch) = batches.next()? {
        let mut transaction = connection.begin().await?;
        fence(&mut transaction, archive, ArchiveState::Moving).await?;
        let references = references(&batch);
        let moved = sqlx::query!(
            "WITH moved AS (DELETE FROM ledger_entries WHERE app_no = $1 AND reference = ANY ($2) RETURNING *)
             INSERT INTO archived_entries (app_no, reference, wallet_no, seq, kind, at, free_change, charge_change,
                 free_balance, charge_balance, remaining, of_biz_no, pay_priority, item_id, zone_id, os, remark)
             SELECT app_no, reference, wallet_no, seq, kind, at, free_change, charge_change,
                 CASE WHEN reference LIKE '!%' THEN free_balance END,
                 CASE WHEN reference LIKE '!%' THEN charge_balance END,
                 remaining, of_biz_no, pay_priority, item_id, zone_id, os,
                 CASE WHEN reference LIKE '!%' THEN remark END
             FROM moved",
            app_no,
            &references
        );
        let moved = moved.execute(&mut *transaction).await?.rows_affected();
        if batches.moves(&mut transaction, app_no, moved, &references).await? {
            write_states(&mut transaction, app_no, archive.archive_no, &batch).await?;
        }
        transaction.commit().await?;
        if batches.is_first {
            // Statements that were planned for an empty table would read all of it.
            connection.execute(sqlx::raw_sql("ANALYZE archived_entries, archived_wallets")).await?;
            batches.is_first = false;
        }
    }
    batches.end(archive)
}

/// Moves the entries of an archive back to the ledger, but for those that have moved already.
pub(super) async fn restore(
    connection: &mut PgConnection,
    app_no: i32,
    archive: &Archive,
    progress: &ArchiveProgress,
) -> Result<(), ArchiveError> {
    let mut batches = Batches::open(archive, progress)?;
    make_lines(connection).await?;
    while let Some(batch) = batches.next()? {
        let mut transaction = connection.begin().await?;
        fence(&mut transaction, archive, ArchiveState::Restoring).await?;
        let references = references(&batch);
        let moved = sqlx::query!(
            "DELETE FROM archived_entries WHERE app_no = $1 AND reference = ANY ($2)",
            app_no,
            &references
        );
        let moved = moved.execute(&mut *transaction).await?.rows_affected();
        if batches.moves(&mut transaction, app_no, moved, &references).await? {
            let columns = batches.reader.columns();
            send_lines(&mut transaction, columns, &batch).await?;
            let own = columns.of_entries("");
            let enter = format!("INSERT INTO ledger_entries ({own}) SELECT {own} FROM archive_lines");
            transaction.execute(sqlx::raw_sql(AssertSqlSafe(enter))).await?;
            let wallet_nos: Vec<i64> = ends(&batch)?.into_iter().map(|end| end.wallet_no).collect();
            scrub_restored(&mut transaction, app_no, &wallet_nos).await?;
            sqlx::query!(
                "DELETE FROM archived_wallets WHERE app_no = $1 AND archive_no = $2 AND wallet_no = ANY ($3)",
                app_no,
                archive.archive_no,
                &wallet_nos
            )
            .execute(&mut *transaction)
            .await?;
        }
        transaction.commit().await?;
    }
    batches.end(archive)
}

/// Makes the temporary table that takes lines.
pub(super) async fn make_lines(connection: &mut PgConnection) -> Result<(), ArchiveError> {
    connection.execute(sqlx::raw_sql(LINES)).await?;
    Ok(())
}

async fn send_lines(
    connection: &mut PgConnection,
    columns: &ArchiveColumns,
    batch: &ArchiveBatch,
) -> Result<(), ArchiveError> {
    let copy = format!("COPY archive_lines ({}) FROM STDIN", columns.all());
    let mut lines = connection.copy_in_raw(&copy).await?;
    for piece in batch.lines.chunks(PIECE_BYTES) {
        lines.send(piece).await?;
    }
    lines.finish().await?;
    Ok(())
}

/// Names a number of an archive that is kept, or a player, of which the database does not have what the file has.
#[expect(clippy::disallowed_methods, reason = "the macros do not know the temporary table")]
pub(super) async fn differs(
    connection: &mut PgConnection,
    archive_no: i32,
    columns: &ArchiveColumns,
    batch: &ArchiveBatch,
) -> Result<Option<String>, ArchiveError> {
    let mut transaction = connection.begin().await?;
    // Without statistics of the lines PostgreSQL would read all archived entries for each batch.
    let by_keys = "SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off";
    transaction.execute(sqlx::raw_sql(by_keys)).await?;
    send_lines(&mut transaction, columns, batch).await?;
    let number = sqlx::query_scalar(
        "SELECT l.reference FROM archive_lines l
         LEFT JOIN archived_entries e ON e.app_no = l.app_no AND e.reference = l.reference
         LEFT JOIN wallets w ON w.app_no = l.app_no AND w.wallet_no = l.wallet_no AND w.open_id ~ $1
         WHERE (e.wallet_no, e.seq, e.kind, e.at, e.free_change, e.charge_change, e.remaining, e.of_biz_no,
                 e.pay_priority, e.item_id, e.zone_id)
             IS DISTINCT FROM (l.wallet_no, l.seq, l.kind, l.at, l.free_change, l.charge_change, l.remaining, l.of_biz_no,
                 l.pay_priority, l.item_id,
                 CASE WHEN w.wallet_no IS NULL OR l.seq IS NULL THEN l.zone_id ELSE split_part(l.zone_id, '_', 1) END)
             OR l.reference LIKE '!%' AND (e.free_balance, e.charge_balance, e.remark)
                 IS DISTINCT FROM (l.free_balance, l.charge_balance,
                     CASE WHEN w.wallet_no IS NULL THEN l.remark ELSE left(l.remark, 0) END)
         LIMIT 1",
    );
    // The texts of a player who was erased are only in the file.
    let number: Option<String> =
        number.bind(OpenId::PSEUDONYM_PATTERN).fetch_optional(&mut *transaction).await?;
    let state = sqlx::query_scalar(
        "SELECT l.open_id FROM (
             SELECT DISTINCT ON (wallet_no) * FROM archive_lines WHERE seq IS NOT NULL ORDER BY wallet_no, seq DESC) l
         LEFT JOIN archived_wallets s ON s.app_no = l.app_no AND s.wallet_no = l.wallet_no AND s.archive_no = $1
         WHERE (s.seq, s.free_balance, s.charge_balance, s.chain_hash, s.last_at)
             IS DISTINCT FROM (l.seq, l.free_balance, l.charge_balance, l.chain_hash, l.at)
         LIMIT 1",
    );
    let state: Option<String> = state.bind(archive_no).fetch_optional(&mut *transaction).await?;
    // The commit empties the table. After a rollback the lines of all batches would stay in its file, and be read again.
    transaction.commit().await?;
    Ok(number.or(state))
}

/// The batches of a file.
struct Batches<'a> {
    reader: Reader,
    path: PathBuf,
    progress: &'a ArchiveProgress,
    read: u64,
    expected: u64,
    is_first: bool,
}

impl<'a> Batches<'a> {
    fn open(archive: &Archive, progress: &'a ArchiveProgress) -> Result<Self, ArchiveError> {
        let path = path(archive);
        let reader = Reader::open(&path).map_err(|error| {
            let cause =
                format!("{error}; put the file back, or run minitill archive restore with its new path");
            unusable(&path, cause)
        })?;
        let expected = u64::try_from(archive.entries).unwrap_or_default();
        Ok(Self { reader, path, progress, read: 0, expected, is_first: true })
    }

    fn next(&mut self) -> Result<Option<ArchiveBatch>, ArchiveError> {
        (self.progress)(self.read, self.expected);
        let batch = self.reader.batch().map_err(|error| unusable(&self.path, error))?;
        self.read += batch.as_ref().map_or(0, |batch| batch.rows.len() as u64);
        Ok(batch)
    }

    /// Whether a transaction has moved a batch: all its rows, or none because an earlier one has. Refuses all else.
    async fn moves(
        &self,
        connection: &mut PgConnection,
        app_no: i32,
        moved: u64,
        references: &[String],
    ) -> Result<bool, ArchiveError> {
        let all = references.len() as u64;
        if moved == all {
            return Ok(true);
        }
        // Those that could not move can only be on the other side.
        let there = sqlx::query_scalar!(
            r#"SELECT count(*) AS "there!" FROM numbers WHERE app_no = $1 AND reference = ANY ($2)"#,
            app_no,
            references
        );
        let there = u64::try_from(there.fetch_one(connection).await?).unwrap_or_default();
        if (moved, there) == (0, all) {
            return Ok(false);
        }
        let cause = format!("of {all} rows of a batch, only {moved} can move; run minitill audit");
        Err(unusable(&self.path, cause))
    }

    /// Refuses a file that has changed since the archive was made.
    fn end(self, archive: &Archive) -> Result<(), ArchiveError> {
        let Self { reader, path, read, expected, .. } = self;
        let sha256 = reader.sha256().map_err(|error| unusable(&path, error))?;
        if read == expected && hex::encode(sha256) == archive.sha256 {
            return Ok(());
        }
        Err(unusable(&path, "the file was changed after it was written"))
    }
}

fn references(batch: &ArchiveBatch) -> Vec<String> {
    batch.rows.iter().map(|row| row.reference.clone()).collect()
}

/// The last entry of a wallet in a batch.
struct LastEntry {
    wallet_no: i64,
    seq: i64,
    free_balance: i64,
    charge_balance: i64,
    /// What came in with the entries of the batch.
    free_in: i128,
    charge_in: i128,
    first_at: OffsetDateTime,
    last_at: OffsetDateTime,
    chain_hash: Vec<u8>,
}

/// The ends of the wallets that have entries in a batch.
fn ends(batch: &ArchiveBatch) -> Result<Vec<LastEntry>, ArchiveError> {
    let wallets = batch.rows.chunk_by(|one, next| one.wallet_no == next.wallet_no);
    let with_entries = wallets.filter(|rows| rows.iter().any(|row| row.seq.is_some()));
    with_entries.map(|rows| end(rows).ok_or_else(|| refused("an entry has no hash".to_owned()))).collect()
}

fn end(rows: &[ArchiveRow]) -> Option<LastEntry> {
    let entries = || rows.iter().filter(|row| row.seq.is_some());
    let (first, last) = (entries().next()?, entries().next_back()?);
    let sum = |change: fn(&ArchiveRow) -> i64| entries().map(|row| i128::from(change(row).max(0))).sum();
    Some(LastEntry {
        wallet_no: last.wallet_no,
        seq: last.seq?,
        free_balance: last.free_balance,
        charge_balance: last.charge_balance,
        free_in: sum(|row| row.free_change),
        charge_in: sum(|row| row.charge_change),
        first_at: first.at,
        last_at: last.at,
        chain_hash: last.chain_hash?.to_vec(),
    })
}

/// Stores the states that the ledgers of these wallets go on from.
async fn write_states(
    connection: &mut PgConnection,
    app_no: i32,
    archive_no: i32,
    batch: &ArchiveBatch,
) -> Result<(), ArchiveError> {
    let ends = ends(batch)?;
    let numbers = |of: fn(&LastEntry) -> i64| ends.iter().map(of).collect::<Vec<_>>();
    let sums = |of: fn(&LastEntry) -> i128| ends.iter().map(|end| of(end).to_string()).collect::<Vec<_>>();
    let times = |of: fn(&LastEntry) -> OffsetDateTime| ends.iter().map(of).collect::<Vec<_>>();
    sqlx::query!(
        "INSERT INTO archived_wallets (app_no, archive_no, wallet_no, seq, free_balance, charge_balance, free_in,
             charge_in, first_at, last_at, chain_hash)
         SELECT $1, $2, e.wallet_no, e.seq, e.free_balance, e.charge_balance, coalesce(b.free_in, 0) + e.free_in::numeric,
             coalesce(b.charge_in, 0) + e.charge_in::numeric, coalesce(b.first_at, e.first_at), e.last_at, e.chain_hash
         FROM unnest($3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[], $8::text[], $9::timestamptz[],
                 $10::timestamptz[], $11::bytea[])
             AS e (wallet_no, seq, free_balance, charge_balance, free_in, charge_in, first_at, last_at, chain_hash)
         LEFT JOIN LATERAL (
             SELECT * FROM archived_wallets b WHERE b.app_no = $1 AND b.wallet_no = e.wallet_no AND b.archive_no < $2
             ORDER BY b.archive_no DESC LIMIT 1) b ON true",
        app_no,
        archive_no,
        &numbers(|end| end.wallet_no),
        &numbers(|end| end.seq),
        &numbers(|end| end.free_balance),
        &numbers(|end| end.charge_balance),
        &sums(|end| end.free_in),
        &sums(|end| end.charge_in),
        &times(|end| end.first_at),
        &times(|end| end.last_at),
        &ends.iter().map(|end| end.chain_hash.clone()).collect::<Vec<_>>()
    )
    .execute(connection)
    .await
    .map_err(StoreError::from)?;
    Ok(())
}
