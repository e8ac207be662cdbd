//! Orders and players that payments and settlements name.

use std::collections::{HashMap, HashSet};

use domain::ids::{BizNo, OpenId};
use domain::topup::{Offer, PlacedOrder, PricedProductId};
use sqlx::PgConnection;

use crate::error::{Result, StoreError};

/// Those of these numbers that are orders.
pub(super) async fn placed_orders(
    connection: &mut PgConnection,
    app_no: i32,
    numbers: &[&BizNo],
) -> Result<HashMap<BizNo, PlacedOrder>> {
    if numbers.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = sqlx::query!(
        r#"SELECT n.reference AS "reference!", n.kind AS "kind!", w.open_id AS "open_id!", i.product_name AS "product_name!",
               i.product_info AS "product_info!",
               EXISTS (SELECT 1 FROM topup_payments p WHERE p.app_no = $1 AND p.paid_biz_no = n.reference) AS "is_paid!"
           FROM numbers n
           JOIN wallets w ON w.app_no = n.app_no AND w.wallet_no = n.wallet_no
           JOIN items i ON i.app_no = n.app_no AND i.item_id = n.item_id
           WHERE n.app_no = $1 AND n.reference = ANY ($2)"#,
        app_no,
        &numbers.iter().map(ToString::to_string).collect::<Vec<_>>()
    );
    // The kind is no condition: an index that knows it would be read in place of the key.
    let orders = rows.fetch_all(connection).await?.into_iter().filter(|row| row.kind == "topup_order");
    let rows = orders.map(|row| {
        let number = BizNo::parse(&row.reference).map_err(|_| StoreError::damaged("ledger_entries"))?;
        Ok((number, placed_order(&row.open_id, (&row.product_name, &row.product_info), row.is_paid)?))
    });
    rows.collect()
}

/// An order, from its player and the texts of its item.
pub(super) fn placed_order(
    open_id: &str,
    (product_name, product_info): (&str, &str),
    is_paid: bool,
) -> Result<PlacedOrder> {
    let damaged = || StoreError::damaged("items");
    let Offer { currency, amount, charge, bonus, .. } =
        Offer::of_figures(product_info).ok_or_else(damaged)?;
    Ok(PlacedOrder {
        open_id: OpenId::parse(open_id).map_err(|_| StoreError::damaged("wallets"))?,
        product_id: PricedProductId::parse(product_name).map_err(|_| damaged())?,
        currency,
        amount,
        charge,
        bonus,
        is_paid,
    })
}

/// Those of these players whom the app knows. An erased player is none (contract 13.7.13).
pub(super) async fn known_players(
    connection: &mut PgConnection,
    app_no: i32,
    players: &[&OpenId],
) -> Result<HashSet<OpenId>> {
    if players.is_empty() {
        return Ok(HashSet::new());
    }
    let known = sqlx::query_scalar!(
        "SELECT open_id FROM wallets WHERE app_no = $1 AND open_id = ANY ($2)",
        app_no,
        &players.iter().map(ToString::to_string).collect::<Vec<_>>()
    );
    let known = known.fetch_all(connection).await?;
    let players =
        known.iter().map(|open_id| OpenId::parse(open_id).map_err(|_| StoreError::damaged("wallets")));
    players.filter(|player| !player.as_ref().is_ok_and(OpenId::is_pseudonym)).collect()
}
