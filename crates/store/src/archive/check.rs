//! Checks a file of an archive: before its entries leave the ledger, and against what has stayed of them.

use std::collections::HashMap;
use std::path::Path;

use domain::audit::{Findings, WalletAfterEntry, WalletCheck};
use sqlx::PgConnection;

use super::file::{ArchiveBatch, Reader};
use super::written::Draft;
use super::{Archive, ArchiveError, moving, refused, unusable};
use crate::error::StoreError;

/// Checks that the entries of each wallet follow from its state in the archive before.
pub(super) async fn follows(
    connection: &mut PgConnection,
    app_id: &str,
    archive_no: i32,
    draft: &Draft,
) -> Result<(), ArchiveError> {
    let mut reader = Reader::open(&draft.path).map_err(|error| unusable(&draft.path, error))?;
    let mut rows = 0;
    while let Some(batch) = reader.batch().map_err(|error| unusable(&draft.path, error))? {
        rows += i64::try_from(batch.rows.len()).unwrap_or(i64::MAX);
        if let Some(difference) = follow(connection, app_id, archive_no, &batch).await? {
            return Err(refused(format!("nothing was moved, because {difference}; run minitill audit")));
        }
    }
    if rows == draft.entries {
        Ok(())
    } else {
        Err(unusable(&draft.path, format!("it has {rows} rows, expected {}", draft.entries)))
    }
}

/// Checks the same of a file that is kept, and that the database has kept its rows and the states of its wallets.
pub(super) async fn stays(
    connection: &mut PgConnection,
    archive: &Archive,
    path: &Path,
) -> Result<(), ArchiveError> {
    moving::make_lines(connection).await?;
    let mut reader = Reader::open(path).map_err(|error| unusable(path, error))?;
    while let Some(batch) = reader.batch().map_err(|error| unusable(path, error))? {
        let difference = follow(connection, &archive.app_id, archive.archive_no, &batch).await?;
        if let Some(difference) = difference {
            return Err(unusable(path, difference));
        }
        if let Some(number) =
            moving::differs(connection, archive.archive_no, reader.columns(), &batch).await?
        {
            return Err(unusable(path, format!("the database does not have {number} as the file has it")));
        }
    }
    Ok(())
}

/// Names the first wallet of a batch whose entries do not follow.
async fn follow(
    connection: &mut PgConnection,
    app_id: &str,
    archive_no: i32,
    batch: &ArchiveBatch,
) -> Result<Option<String>, ArchiveError> {
    let mut findings = Findings::default();
    let from = standings(connection, archive_no, batch).await?;
    for rows in batch.rows.chunk_by(|one, next| one.wallet_no == next.wallet_no) {
        let first = &rows[0];
        let from = from.get(&first.wallet_no).copied().unwrap_or(WalletAfterEntry::EMPTY);
        let names = (app_id, first.open_id.as_str());
        let mut check = WalletCheck::new(names, (first.app_no, first.wallet_no), from, None);
        for row in rows {
            if let Some(entry) = row.entry() {
                check.entry(&entry, row.chain_hash, &mut findings);
            }
        }
    }
    let first = findings.named().into_iter().next();
    Ok(first.map(|first| format!("the ledger of {} has a difference: {}", first.subject, first.detail)))
}

/// The states of wallets in the archives before this one.
async fn standings(
    connection: &mut PgConnection,
    archive_no: i32,
    batch: &ArchiveBatch,
) -> Result<HashMap<i64, WalletAfterEntry>, ArchiveError> {
    let wallets = batch.rows.chunk_by(|one, next| one.wallet_no == next.wallet_no);
    let wallet_nos: Vec<i64> = wallets.map(|rows| rows[0].wallet_no).collect();
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
            let standing = WalletAfterEntry {
                seq: row.seq,
                free_balance: row.free_balance,
                charge_balance: row.charge_balance,
                chain_hash,
            };
            Ok((row.wallet_no, standing))
        })
        .collect()
}
