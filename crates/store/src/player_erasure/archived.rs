//! Erases what the database has of archived entries. The files of archives are the operator's.

use sqlx::PgConnection;

use crate::error::Result;

/// Removes texts of a wallet's archived entries, and corrects the digests of the archives that have them. Returns the number
/// of entries, and the files that still have the texts.
pub(super) async fn scrub(
    connection: &mut PgConnection,
    app_id: &str,
    app_no: i32,
    wallet_no: i64,
) -> Result<(u64, Vec<String>)> {
    let files = sqlx::query_scalar!(
        "SELECT a.file FROM archives a JOIN archived_wallets w ON w.app_no = $2 AND w.archive_no = a.archive_no
         WHERE a.app_id = $1 AND w.wallet_no = $3 ORDER BY a.archive_no",
        app_id,
        app_no,
        wallet_no
    );
    let files = files.fetch_all(&mut *connection).await?;
    if files.is_empty() {
        return Ok((0, files));
    }
    let former = sqlx::query!(
        r#"SELECT archive_no AS "archive_no!", sum(hash)::text AS "hash!" FROM archived_hashes
           WHERE app_no = $1 AND wallet_no = $2 AND archive_no IS NOT NULL GROUP BY archive_no"#,
        app_no,
        wallet_no
    );
    let former = former.fetch_all(&mut *connection).await?;
    let (archive_nos, hashes): (Vec<_>, Vec<_>) =
        former.into_iter().map(|row| (row.archive_no, row.hash)).unzip();
    let scrubbed = sqlx::query!(
        "UPDATE archived_entries SET zone_id = split_part(zone_id, '_', 1), remark = left(remark, 0)
         WHERE app_no = $1 AND wallet_no = $2 AND seq IS NOT NULL",
        app_no,
        wallet_no
    );
    let scrubbed = scrubbed.execute(&mut *connection).await?.rows_affected();
    // The digest of an archive is that of all rows that were archived when it was kept.
    sqlx::query!(
        "UPDATE archives a SET digest = digest + (
             SELECT coalesce(sum(h.hash), 0) FROM archived_hashes h
             WHERE h.app_no = $2 AND h.wallet_no = $3 AND h.archive_no <= a.archive_no
         ) - (
             SELECT coalesce(sum(f.hash::numeric), 0) FROM unnest($4::integer[], $5::text[]) AS f (archive_no, hash)
             WHERE f.archive_no <= a.archive_no
         )
         WHERE a.app_id = $1",
        app_id,
        app_no,
        wallet_no,
        &archive_nos,
        &hashes
    )
    .execute(connection)
    .await?;
    Ok((scrubbed, files))
}
