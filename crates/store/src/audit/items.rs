//! Checks the items: the texts that say what exchanges bought.

use std::collections::BTreeMap;

use domain::audit::{Check, Findings};
use domain::ids::ItemId;
use futures_util::TryStreamExt as _;
use sqlx::PgConnection;

use super::AuditError;
use super::copy_reader::Copied;

/// The digests of texts that erasures of players have put into items, by the id of the app and of the item.
pub(super) type ErasedItems = BTreeMap<(String, Vec<u8>), Vec<u8>>;

/// Reads what the lines of erasures tell of items. The last one counts.
pub(super) async fn erased(connection: &mut PgConnection) -> Result<ErasedItems, AuditError> {
    let rows = sqlx::query!(
        r#"SELECT l.app_id, i.key AS "item_id!", i.value AS "digest!"
           FROM operator_log l, jsonb_each_text(CASE WHEN jsonb_typeof(l.after -> 'items') = 'object' THEN l.after -> 'items' END) i
           WHERE l.action = 'player.erase' ORDER BY l.seq"#
    );
    let items = rows.fetch_all(connection).await?.into_iter();
    let decoded = |text: &str| hex::decode(text).unwrap_or_default();
    Ok(items.map(|row| ((row.app_id, decoded(&row.item_id)), decoded(&row.digest))).collect())
}

/// Every item must have the texts of its id, or those that the line of an erasure has. Every exchange and order of a
/// top-up must have its item.
pub(super) async fn check_all(
    connection: &mut PgConnection,
    erased: &ErasedItems,
    findings: &mut Findings,
) -> Result<(), AuditError> {
    let select = "SELECT coalesce(a.app_id, 'app ' || i.app_no), i.item_id, i.product_name, i.product_info,
        i.product_desc FROM items i LEFT JOIN apps a ON a.app_no = i.app_no";
    let mut rows = Copied::of(&mut *connection, select).await?;
    while let Some(mut row) = rows.next().await? {
        let (app_id, item_id) = (row.text()?, row.bytes()?);
        let (name, info, desc) = (row.text()?, row.text()?, row.text()?);
        let digest = ItemId::of(name, info, desc).0;
        let is_erased = || {
            let told = erased.get(&(app_id.to_owned(), item_id.to_vec()));
            told.is_some_and(|told| *told == digest)
        };
        if item_id != digest && !is_erased() {
            findings.add(Check::Item, app_id, name, || {
                format!("item {}: its texts are not those of its id", hex::encode(item_id))
            });
        }
    }
    drop(rows);
    let mut missing = sqlx::query!(
        r#"SELECT p.app_id AS "app_id!", p.open_id AS "open_id!", n.seq, n.reference AS "reference!"
           FROM numbers n
           JOIN players p ON p.app_no = n.app_no AND p.wallet_no = n.wallet_no
           LEFT JOIN items i ON i.app_no = n.app_no AND i.item_id = n.item_id
           WHERE n.kind IN ('exchange', 'topup_order') AND i.item_id IS NULL"#
    )
    .fetch(connection);
    while let Some(row) = missing.try_next().await? {
        match row.seq {
            Some(seq) => report_missing(&row.app_id, &row.open_id, seq, &row.reference, findings),
            None => findings.add(Check::Item, &row.app_id, &row.open_id, || {
                format!("nothing is stored of what was ordered under {}", row.reference)
            }),
        }
    }
    Ok(())
}

/// Reports an exchange whose item is not stored.
pub(super) fn report_missing(
    app_id: &str,
    open_id: &str,
    seq: i64,
    reference: &str,
    findings: &mut Findings,
) {
    findings.add(Check::Item, app_id, open_id, || {
        format!("entry {seq}: nothing is stored of what exchange {reference} bought")
    });
}
