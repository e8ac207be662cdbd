//! Pseudonyms of erased players, and what the entries of one lack (contract 13.7).

use domain::ids::OpenId;
use domain::wallet::DeveloperTexts;
use sqlx::{AssertSqlSafe, PgConnection};

use crate::error::Result;
use crate::secrets::random_bytes;

/// A new pseudonym.
pub(crate) fn new_pseudonym() -> String {
    OpenId::pseudonym(random_bytes()).to_string()
}

/// Removes what ledger entries of these wallets tell of the person. Of `zone_id` the zone stays, for the sums by zone.
#[expect(clippy::disallowed_methods, reason = "the columns are those of the texts of the developer")]
pub(crate) async fn scrub_entries(
    connection: &mut PgConnection,
    app_no: i32,
    wallet_nos: &[i64],
) -> Result<u64> {
    let texts = DeveloperTexts::NAMES.map(|name| format!("{name} = left({name}, 0)")).join(", ");
    let sql = format!(
        "UPDATE ledger_entries SET user_ip = NULL, zone_id = split_part(zone_id, '_', 1), {texts},
             remark = left(remark, 0)
         WHERE app_no = $1 AND wallet_no = ANY ($2)"
    );
    let entries = sqlx::query(AssertSqlSafe(sql)).bind(app_no).bind(wallet_nos);
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
         WHERE app_no = $1 AND wallet_no = ANY ($2) AND open_id ~ $3",
        app_no,
        wallet_nos,
        OpenId::PSEUDONYM_PATTERN
    );
    let erased = erased.fetch_all(&mut *connection).await?;
    if !erased.is_empty() {
        scrub_entries(connection, app_no, &erased).await?;
    }
    Ok(())
}
