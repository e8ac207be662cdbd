//! Pseudonyms of erased players, and what the entries of one lack (contract 13.7).

use domain::ids::OpenId;
use sqlx::PgConnection;

use crate::error::Result;

/// What a pseudonym begins with.
pub(crate) const PSEUDONYM: &str = "erased-";

/// Whether this is the pseudonym of an erased player.
pub(crate) fn is_pseudonym(open_id: &OpenId) -> bool {
    open_id.as_str().starts_with(PSEUDONYM)
}

/// Removes what ledger entries of these wallets tell of the person. Of `zone_id` the zone stays, for the sums by zone.
pub(crate) async fn scrub_entries(
    connection: &mut PgConnection,
    app_no: i32,
    wallet_nos: &[i64],
) -> Result<u64> {
    let entries = sqlx::query!(
        "UPDATE ledger_entries SET user_ip = NULL, zone_id = split_part(zone_id, '_', 1),
             extension = left(extension, 0), remark = left(remark, 0)
         WHERE app_no = $1 AND wallet_no = ANY ($2)",
        app_no,
        wallet_nos
    );
    Ok(entries.execute(connection).await?.rows_affected())
}

/// Does the same to entries that came back from a file of an archive, of wallets whose player was erased.
pub(crate) async fn scrub_restored(
    connection: &mut PgConnection,
    app_no: i32,
    wallet_nos: &[i64],
) -> Result<()> {
    let erased = sqlx::query_scalar!(
        "SELECT wallet_no FROM wallets
         WHERE app_no = $1 AND wallet_no = ANY ($2) AND starts_with(open_id, $3)",
        app_no,
        wallet_nos,
        PSEUDONYM
    );
    let erased = erased.fetch_all(&mut *connection).await?;
    if !erased.is_empty() {
        scrub_entries(connection, app_no, &erased).await?;
    }
    Ok(())
}
