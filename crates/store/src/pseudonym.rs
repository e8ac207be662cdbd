//! Pseudonyms of erased players, and what the entries of one lack (contract 13.7).

use domain::wallet::DeveloperTexts;
use sqlx::{AssertSqlSafe, PgConnection};

use crate::error::Result;
use crate::secrets::random_bytes;

/// The form of a pseudonym, as an expression of PostgreSQL. A game may name a player `erased-fan`.
pub(crate) const PSEUDONYM: &str = "^erased-[0-9a-f]{20}$";

/// A new pseudonym.
pub(crate) fn new_pseudonym() -> String {
    format!("erased-{}", hex::encode(random_bytes::<10>()))
}

/// Whether this is the pseudonym of an erased player.
pub(crate) fn is_pseudonym(open_id: &str) -> bool {
    let digits = open_id.strip_prefix("erased-").unwrap_or_default();
    digits.len() == 20 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
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
        PSEUDONYM
    );
    let erased = erased.fetch_all(&mut *connection).await?;
    if !erased.is_empty() {
        scrub_entries(connection, app_no, &erased).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pseudonym_has_twenty_digits() {
        assert!(is_pseudonym(&new_pseudonym()));
        for other in
            ["erased-fan", "erased-", "player", "erased-5f0c1a2b3c4d5e6f7a8B", "erased-5f0c1a2b3c4d5e6f7a8b0"]
        {
            assert!(!is_pseudonym(other), "{other}");
        }
    }
}
