//! Checks a file of an archive against the states that the ledgers go on from.

use std::collections::HashMap;
use std::path::Path;

use domain::audit::{Findings, Standing, WalletCheck};
use sqlx::PgConnection;

use super::file::{self, Batch};
use super::{Archive, ArchiveError, refused};
use crate::StoreError;

/// Checks that the file has as many rows as its archive, and that the entries of each wallet follow from its state in
/// the archive before.
pub(super) async fn file(
    connection: &mut PgConnection,
    archive: &Archive,
    path: &Path,
) -> Result<(), ArchiveError> {
    let fault = |error: std::io::Error| refused(format!("{}: {error}", path.display()));
    let mut reader = file::Reader::open(path).map_err(fault)?;
    let mut rows = 0;
    while let Some(batch) = reader.batch().map_err(fault)? {
        rows += i64::try_from(batch.rows.len()).unwrap_or(i64::MAX);
        let mut findings = Findings::default();
        let from = standings(connection, archive.archive_no, &batch).await?;
        check(&archive.app_id, &batch, &from, &mut findings);
        if let Some(first) = findings.named().first() {
            let (subject, detail) = (&first.subject, &first.detail);
            return Err(refused(format!(
                "nothing was moved, because the ledger of {subject} has a difference: {detail}; run minitill audit"
            )));
        }
    }
    if rows == archive.entries {
        Ok(())
    } else {
        Err(refused(format!("{}: it has {rows} rows, expected {}", path.display(), archive.entries)))
    }
}

fn check(app_id: &str, batch: &Batch, from: &HashMap<i64, Standing>, findings: &mut Findings) {
    for rows in batch.rows.chunk_by(|one, next| one.wallet_no == next.wallet_no) {
        let first = &rows[0];
        let from = from.get(&first.wallet_no).copied().unwrap_or(Standing::EMPTY);
        let names = (app_id, first.open_id.as_str());
        let mut check = WalletCheck::new(names, (first.app_no, first.wallet_no), from, None);
        for row in rows {
            if let Some(entry) = row.entry() {
                check.entry(&entry, row.chain_hash, findings);
            }
        }
    }
}

/// The states of wallets in the archives before this one.
async fn standings(
    connection: &mut PgConnection,
    archive_no: i32,
    batch: &Batch,
) -> Result<HashMap<i64, Standing>, ArchiveError> {
    let wallet_nos: Vec<i64> = batch
        .rows
        .chunk_by(|one, next| one.wallet_no == next.wallet_no)
        .map(|rows| rows[0].wallet_no)
        .collect();
    let rows = sqlx::query!(
        "SELECT DISTINCT ON (wallet_no) wallet_no, seq, free_balance, charge_balance, chain_hash FROM archived_wallets
         WHERE app_no = $1 AND wallet_no = ANY ($2) AND archive_no < $3 ORDER BY wallet_no, archive_no DESC",
        batch.rows[0].app_no,
        &wallet_nos,
        archive_no
    )
    .fetch_all(connection)
    .await?;
    rows.into_iter()
        .map(|row| {
            let chain_hash =
                row.chain_hash.try_into().map_err(|_| StoreError::damaged("archived_wallets"))?;
            let standing = Standing {
                seq: row.seq,
                free_balance: row.free_balance,
                charge_balance: row.charge_balance,
                chain_hash,
            };
            Ok((row.wallet_no, standing))
        })
        .collect()
}
