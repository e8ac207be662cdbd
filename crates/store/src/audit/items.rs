//! Checks the items: the texts that say what exchanges bought.

use domain::audit::{Check, Findings};
use domain::ids::ItemId;
use futures_util::TryStreamExt as _;
use sqlx::PgConnection;

use super::AuditError;
use super::copy_reader::Copied;

/// Every item must have the texts of its id, and every exchange must have its item.
pub(super) async fn check_all(
    connection: &mut PgConnection,
    findings: &mut Findings,
) -> Result<(), AuditError> {
    let select = "SELECT coalesce(a.app_id, 'app ' || i.app_no), i.item_id, i.product_name, i.product_info,
        i.product_desc FROM items i LEFT JOIN apps a ON a.app_no = i.app_no";
    let mut rows = Copied::of(&mut *connection, select).await?;
    while let Some(mut row) = rows.next().await? {
        let (app_id, item_id) = (row.text()?, row.bytes()?);
        let (name, info, desc) = (row.text()?, row.text()?, row.text()?);
        if item_id != ItemId::of(name, info, desc).0 {
            findings.add(Check::Item, app_id, name, || {
                format!("item {}: its texts are not those of its id", hex::encode(item_id))
            });
        }
    }
    drop(rows);
    let mut missing = sqlx::query!(
        r#"SELECT p.app_id AS "app_id!", p.open_id AS "open_id!", n.seq AS "seq!", n.reference AS "reference!"
           FROM numbers n
           JOIN players p ON p.app_no = n.app_no AND p.wallet_no = n.wallet_no
           LEFT JOIN items i ON i.app_no = n.app_no AND i.item_id = n.item_id
           WHERE n.kind = 'exchange' AND i.item_id IS NULL"#
    )
    .fetch(connection);
    while let Some(row) = missing.try_next().await? {
        report_missing(&row.app_id, &row.open_id, row.seq, &row.reference, findings);
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
