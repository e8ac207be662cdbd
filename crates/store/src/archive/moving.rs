//! Moves the rows of a file out of the ledger and back. Each batch of whole wallets is one transaction, so at every
//! moment a number is in one of both tables, and the ledger of each wallet goes on from its state.

use std::path::Path;

use sqlx::{Connection as _, Executor as _, PgConnection};
use time::OffsetDateTime;

use super::file::{self, Batch, ENTRY_COLUMNS, READER_COLUMNS};
use super::{Archive, ArchiveError, ArchiveProgress, refused};

/// Takes lines of a file in a transaction.
const LINES: &str = "CREATE TEMPORARY TABLE IF NOT EXISTS archive_lines (LIKE ledger_entries, open_id text, \
    product_name text, product_info text, product_desc text) ON COMMIT DELETE ROWS";

/// Moves the entries of a file out of the ledger, but for those that have moved already.
pub(super) async fn archive(
    connection: &mut PgConnection,
    app_no: i32,
    archive: &Archive,
    path: &Path,
    progress: &ArchiveProgress,
) -> Result<(), ArchiveError> {
    let mut batches = Batches::open(archive, path, progress)?;
    while let Some(batch) = batches.next()? {
        let mut transaction = connection.begin().await?;
        let moved = sqlx::query!(
            "WITH moved AS (DELETE FROM ledger_entries WHERE app_no = $1 AND reference = ANY ($2) RETURNING *)
             INSERT INTO archived_entries (app_no, reference, wallet_no, seq, kind, at, free_change, charge_change,
                 free_balance, charge_balance, remaining, of_biz_no, pay_priority, item_id, zone_id, remark)
             SELECT app_no, reference, wallet_no, seq, kind, at, free_change, charge_change,
                 CASE WHEN reference LIKE '!%' THEN free_balance END,
                 CASE WHEN reference LIKE '!%' THEN charge_balance END,
                 remaining, of_biz_no, pay_priority, item_id, zone_id, CASE WHEN reference LIKE '!%' THEN remark END
             FROM moved",
            app_no,
            &references(&batch)
        );
        let moved = moved.execute(&mut *transaction).await?.rows_affected();
        if batches.is_new(moved, &batch)? {
            write_states(&mut transaction, app_no, archive.archive_no, &batch).await?;
        }
        transaction.commit().await?;
    }
    Ok(())
}

/// Moves the entries of a file back to the ledger, but for those that have moved already.
pub(super) async fn restore(
    connection: &mut PgConnection,
    app_no: i32,
    archive: &Archive,
    path: &Path,
    progress: &ArchiveProgress,
) -> Result<(), ArchiveError> {
    let mut batches = Batches::open(archive, path, progress)?;
    connection.execute(sqlx::raw_sql(LINES)).await?;
    while let Some(batch) = batches.next()? {
        let mut transaction = connection.begin().await?;
        let moved = sqlx::query!(
            "DELETE FROM archived_entries WHERE app_no = $1 AND reference = ANY ($2)",
            app_no,
            &references(&batch)
        );
        let moved = moved.execute(&mut *transaction).await?.rows_affected();
        if batches.is_new(moved, &batch)? {
            let copy = format!("COPY archive_lines ({ENTRY_COLUMNS}, {READER_COLUMNS}) FROM STDIN");
            let mut lines = transaction.copy_in_raw(&copy).await?;
            lines.send(batch.lines.as_slice()).await?;
            lines.finish().await?;
            let entered = format!(
                "INSERT INTO ledger_entries ({ENTRY_COLUMNS}) SELECT {ENTRY_COLUMNS} FROM archive_lines"
            );
            transaction.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(entered))).await?;
            let wallet_nos: Vec<i64> = ends(&batch).map(|end| end.wallet_no).collect();
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
    Ok(())
}

/// The batches of a file.
struct Batches<'a> {
    reader: file::Reader,
    path: &'a Path,
    progress: &'a ArchiveProgress,
    read: u64,
    expected: u64,
}

impl<'a> Batches<'a> {
    fn open(archive: &Archive, path: &'a Path, progress: &'a ArchiveProgress) -> Result<Self, ArchiveError> {
        let reader = file::Reader::open(path).map_err(|error| fault(path, &error))?;
        let expected = u64::try_from(archive.entries).unwrap_or_default();
        Ok(Self { reader, path, progress, read: 0, expected })
    }

    fn next(&mut self) -> Result<Option<Batch>, ArchiveError> {
        (self.progress)(self.read, self.expected);
        let batch = self.reader.batch().map_err(|error| fault(self.path, &error))?;
        self.read += batch.as_ref().map_or(0, |batch| batch.rows.len() as u64);
        Ok(batch)
    }

    /// True when this transaction has moved the batch, and false when an earlier one has.
    fn is_new(&self, moved: u64, batch: &Batch) -> Result<bool, ArchiveError> {
        match moved {
            0 => Ok(false),
            all if all == batch.rows.len() as u64 => Ok(true),
            some => Err(refused(format!(
                "{}: {some} of {} rows of a batch are there; the batch was not moved, run minitill audit",
                self.path.display(),
                batch.rows.len()
            ))),
        }
    }
}

fn fault(path: &Path, error: &std::io::Error) -> ArchiveError {
    refused(format!("{}: {error}", path.display()))
}

fn references(batch: &Batch) -> Vec<String> {
    batch.rows.iter().map(|row| row.reference.clone()).collect()
}

/// The last entry of a wallet in a batch.
struct End {
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

fn ends(batch: &Batch) -> impl Iterator<Item = End> {
    batch.rows.chunk_by(|one, next| one.wallet_no == next.wallet_no).filter_map(|rows| {
        let entries = || rows.iter().filter(|row| row.seq.is_some());
        let (first, last) = (entries().next()?, entries().next_back()?);
        let sum = |change: fn(&file::Row) -> i64| entries().map(|row| i128::from(change(row).max(0))).sum();
        Some(End {
            wallet_no: last.wallet_no,
            seq: last.seq?,
            free_balance: last.free_balance,
            charge_balance: last.charge_balance,
            free_in: sum(|row| row.free_change),
            charge_in: sum(|row| row.charge_change),
            first_at: first.at,
            last_at: last.at,
            chain_hash: last.chain_hash.unwrap_or_default().to_vec(),
        })
    })
}

/// Stores the states that the ledgers of these wallets go on from.
async fn write_states(
    connection: &mut PgConnection,
    app_no: i32,
    archive_no: i32,
    batch: &Batch,
) -> Result<(), ArchiveError> {
    let ends: Vec<End> = ends(batch).collect();
    let numbers = |of: fn(&End) -> i64| ends.iter().map(of).collect::<Vec<_>>();
    let sums = |of: fn(&End) -> i128| ends.iter().map(|end| of(end).to_string()).collect::<Vec<_>>();
    let times = |of: fn(&End) -> OffsetDateTime| ends.iter().map(of).collect::<Vec<_>>();
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
    .await?;
    Ok(())
}
