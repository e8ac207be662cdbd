//! Finds payments and orders of top-ups by what a person holds: an id of a provider, or a number of an order.

use std::collections::HashMap;

use domain::ids::{AppId, BizNo, OpenId};
use domain::rights::Apps;
use domain::topup::{PaymentKey, PlacedOrder};
use sqlx::PgConnection;
use time::OffsetDateTime;

use super::orders::{placed_order, placed_orders};
use super::payment_rows::key_columns;
use crate::app_number::number_if_any;
use crate::engine::Engine;
use crate::error::Result;
use crate::store::Store;

/// A payment that a search has found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PaymentMatch {
    /// The app.
    pub app_id: String,
    /// The payment provider.
    pub provider: String,
    /// The provider's id.
    pub provider_order_id: String,
}

/// An order of a top-up that a search has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopupOrderMatch {
    /// The app.
    pub app_id: String,
    /// The player.
    pub open_id: String,
}

/// An order of a top-up that no payment has paid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenTopupOrder {
    /// Its number.
    pub biz_no: String,
    /// When it was made.
    pub at: OffsetDateTime,
    /// What it has fixed.
    pub order: PlacedOrder,
}

/// The money of a ledger entry of a top-up or a refund.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryMoney {
    /// The entry.
    pub seq: i64,
    /// The product that was credited. `None` for a refund.
    pub product_id: Option<String>,
    /// Code of the currency.
    pub currency: String,
    /// The money, in minor units.
    pub amount: i64,
    /// Whether the operator's log has a line about it.
    pub is_logged: bool,
}

/// The numbers of the orders of top-ups of a wallet, archived ones too. A payment that names one of them and no player is
/// about this wallet's player, also while nobody has credited it.
pub(crate) async fn orders_of_wallet(
    connection: &mut PgConnection,
    app_no: i32,
    wallet_no: i64,
) -> Result<Vec<String>> {
    // The condition of kinds is that of the index of entries that are no exchanges.
    let orders = sqlx::query_scalar!(
        r#"SELECT n.reference AS "biz_no!" FROM numbers n
           WHERE n.app_no = $1 AND n.wallet_no = $2 AND n.seq IS NULL
               AND n.kind = 'topup_order' AND n.kind NOT IN ('exchange', 'cancel', 'closed')"#,
        app_no,
        wallet_no
    );
    Ok(orders.fetch_all(connection).await?)
}

impl Store {
    /// At most `limit` payments of these apps. They have this id of their provider, also behind the provider and a
    /// slash. Or they have paid the order with this number, or name it and wait. On Citus, one that does not wait is
    /// found with its provider alone.
    pub async fn find_payments(&self, apps: &Apps, text: &str, limit: u32) -> Result<Vec<PaymentMatch>> {
        // Each statement has an index of its own. Together they would be one condition without any.
        macro_rules! those {
            ($from:literal $(, $parameter:expr)*) => {
                sqlx::query_as!(
                    PaymentMatch,
                    r#"SELECT a.app_id AS "app_id!", p.provider AS "provider!", p.provider_order_id AS "provider_order_id!"
                       FROM apps a "# + $from + " AND ($1::text[] IS NULL OR a.app_id = ANY ($1))
                     ORDER BY a.app_id, p.provider, p.provider_order_id LIMIT $2",
                    apps.ids(),
                    i64::from(limit)
                    $(, $parameter)*
                )
                .fetch_all(&self.pool)
                .await?
            };
        }
        let mut found = those!("JOIN topup_payments p ON p.app_no = a.app_no WHERE p.paid_biz_no = $3", text);
        found.extend(those!(
            "JOIN topup_payments p ON p.app_no = a.app_no
             WHERE p.state = 'unmatched' AND (p.biz_no = $3 OR p.provider_order_id = $3)",
            text
        ));
        if let Some((provider, id)) = text.split_once('/') {
            found.extend(those!(
                "JOIN topup_payments p ON p.app_no = a.app_no WHERE p.provider = $3 AND p.provider_order_id = $4",
                provider,
                id
            ));
        }
        if self.engine.get() == Engine::Postgres {
            // No index begins with the id. An app has few providers, so its key leads from one to the next, and to the id of
            // each. With OFFSET 0, each is looked up by itself.
            found.extend(those!(
                "CROSS JOIN LATERAL (
                     WITH RECURSIVE v AS (
                         SELECT min(f.provider) AS provider FROM topup_payments f WHERE f.app_no = a.app_no
                         UNION ALL
                         SELECT (SELECT min(n.provider) FROM topup_payments n
                             WHERE n.app_no = a.app_no AND n.provider > v.provider)
                         FROM v WHERE v.provider IS NOT NULL)
                     SELECT provider FROM v WHERE provider IS NOT NULL) v
                 CROSS JOIN LATERAL (
                     SELECT k.provider, k.provider_order_id FROM topup_payments k
                     WHERE k.app_no = a.app_no AND k.provider = v.provider AND k.provider_order_id = $3 OFFSET 0) p
                 WHERE true",
                text
            ));
        }
        found.sort();
        found.dedup();
        found.truncate(limit as usize);
        Ok(found)
    }

    /// At most `limit` payments of these apps, of which a refund has this id of the provider. A payment that nobody told
    /// of yet has no page, so a refund that waits for it leads nowhere.
    pub async fn find_refunded_payments(
        &self,
        apps: &Apps,
        refund_id: &str,
        limit: u32,
    ) -> Result<Vec<PaymentMatch>> {
        let found = sqlx::query_as!(
            PaymentMatch,
            r#"SELECT a.app_id AS "app_id!", r.provider AS "provider!", r.provider_order_id AS "provider_order_id!"
               FROM apps a JOIN topup_refunds r ON r.app_no = a.app_no
               JOIN topup_payments p ON p.app_no = r.app_no AND p.provider = r.provider
                   AND p.provider_order_id = r.provider_order_id
               WHERE r.refund_id = $3 AND ($1::text[] IS NULL OR a.app_id = ANY ($1))
               ORDER BY a.app_id, r.provider, r.provider_order_id LIMIT $2"#,
            apps.ids(),
            i64::from(limit),
            refund_id
        );
        Ok(found.fetch_all(&self.pool).await?)
    }

    /// The apps beside this one that have payments with these keys, by the provider and its id with a slash between both.
    pub async fn other_apps_of_payments(
        &self,
        app_id: &AppId,
        keys: &[&PaymentKey],
    ) -> Result<HashMap<String, String>> {
        let (providers, ids) = key_columns(keys);
        macro_rules! those {
            ($from:literal) => {
                sqlx::query_as!(
                    PaymentMatch,
                    r#"SELECT a.app_id AS "app_id!", p.provider AS "provider!", p.provider_order_id AS "provider_order_id!"
                       "# + $from + " ORDER BY a.app_id",
                    app_id.as_str(),
                    &providers,
                    &ids
                )
                .fetch_all(&self.pool)
                .await?
            };
        }
        let rows = match self.engine.get() {
            // No index begins with the provider. With OFFSET 0, each key is looked up by itself in each app.
            Engine::Postgres => those!(
                "FROM apps a CROSS JOIN unnest($2::text[], $3::text[]) AS k (provider, provider_order_id)
                 CROSS JOIN LATERAL (
                     SELECT t.provider, t.provider_order_id FROM topup_payments t
                     WHERE t.app_no = a.app_no AND t.provider = k.provider AND t.provider_order_id = k.provider_order_id
                     OFFSET 0) p
                 WHERE a.app_id <> $1"
            ),
            // Citus does not send such an OFFSET to the nodes. It may find other pairs of these texts, which nobody asks for.
            Engine::Citus => those!(
                "FROM apps a JOIN topup_payments p ON p.app_no = a.app_no
                 WHERE a.app_id <> $1 AND p.provider = ANY ($2) AND p.provider_order_id = ANY ($3)"
            ),
        };
        let mut apps = HashMap::new();
        for PaymentMatch { app_id, provider, provider_order_id } in rows {
            apps.entry(format!("{provider}/{provider_order_id}")).or_insert(app_id);
        }
        Ok(apps)
    }

    /// At most `limit` orders of top-ups of these apps with this number.
    pub async fn find_topup_orders(
        &self,
        apps: &Apps,
        biz_no: &BizNo,
        limit: u32,
    ) -> Result<Vec<TopupOrderMatch>> {
        // With the concatenation, an index that knows the kind is not read in place of the key.
        let orders = sqlx::query_as!(
            TopupOrderMatch,
            r#"SELECT a.app_id AS "app_id!", w.open_id AS "open_id!"
               FROM apps a JOIN numbers n ON n.app_no = a.app_no AND n.reference = $3
               JOIN wallets w ON w.app_no = n.app_no AND w.wallet_no = n.wallet_no
               WHERE n.kind || '' = 'topup_order' AND ($1::text[] IS NULL OR a.app_id = ANY ($1))
               ORDER BY a.app_id LIMIT $2"#,
            apps.ids(),
            i64::from(limit),
            biz_no.as_str()
        );
        Ok(orders.fetch_all(&self.pool).await?)
    }

    /// The order of a top-up with this number. `None` where there is none.
    pub async fn placed_topup_order(&self, app_id: &AppId, biz_no: &BizNo) -> Result<Option<PlacedOrder>> {
        let mut session = self.pool.acquire().await?;
        let Some(app_no) = number_if_any(&mut *session, app_id).await? else { return Ok(None) };
        Ok(placed_orders(&mut session, app_no, &[biz_no]).await?.remove(biz_no))
    }

    /// At most `limit` orders of top-ups of a player that no payment has paid, newest first.
    pub async fn open_topup_orders(
        &self,
        (app_id, open_id): (&AppId, &OpenId),
        limit: u32,
    ) -> Result<Vec<OpenTopupOrder>> {
        let Some((app_no, wallet_no)) = self.wallet_key(app_id, open_id).await? else {
            return Ok(Vec::new());
        };
        // The condition of kinds is that of the index of entries that are no exchanges.
        let rows = sqlx::query!(
            r#"SELECT n.reference AS "biz_no!", n.at AS "at!", i.product_name AS "product_name!",
                   i.product_info AS "product_info!"
               FROM numbers n JOIN items i ON i.app_no = n.app_no AND i.item_id = n.item_id
               WHERE n.app_no = $1 AND n.wallet_no = $2 AND n.seq IS NULL
                   AND n.kind = 'topup_order' AND n.kind NOT IN ('exchange', 'cancel', 'closed')
                   AND NOT EXISTS (SELECT 1 FROM topup_payments p WHERE p.app_no = $1 AND p.paid_biz_no = n.reference)
               ORDER BY n.at DESC, n.reference DESC LIMIT $3"#,
            app_no,
            wallet_no,
            i64::from(limit)
        );
        let orders = rows.fetch_all(&self.pool).await?.into_iter().map(|row| {
            let order = placed_order(open_id.as_str(), (&row.product_name, &row.product_info), false)?;
            Ok(OpenTopupOrder { biz_no: row.biz_no, at: row.at, order })
        });
        orders.collect()
    }

    /// Providers and their ids of the payments that wait and name an order of this player.
    pub(super) async fn waiting_for_orders(
        &self,
        app_id: &AppId,
        open_id: &OpenId,
    ) -> Result<(Vec<String>, Vec<String>)> {
        let Some((app_no, wallet_no)) = self.wallet_key(app_id, open_id).await? else {
            return Ok((Vec::new(), Vec::new()));
        };
        // With the concatenation, an index that knows the kind is not read in place of the key.
        let rows = sqlx::query!(
            "SELECT p.provider, p.provider_order_id
             FROM topup_payments p JOIN numbers n ON n.app_no = p.app_no AND n.reference = p.biz_no
             WHERE p.app_no = $1 AND p.state = 'unmatched' AND n.wallet_no = $2 AND n.kind || '' = 'topup_order'",
            app_no,
            wallet_no
        );
        let rows = rows.fetch_all(&self.pool).await?.into_iter();
        Ok(rows.map(|row| (row.provider, row.provider_order_id)).unzip())
    }

    /// The money of those of a player's ledger entries that are top-ups or refunds, by their numbers.
    pub async fn money_of_entries(
        &self,
        (app_id, open_id): (&AppId, &OpenId),
        entries: &[i64],
    ) -> Result<HashMap<i64, EntryMoney>> {
        if entries.is_empty() {
            return Ok(HashMap::new());
        }
        let Some((app_no, wallet_no)) = self.wallet_key(app_id, open_id).await? else {
            return Ok(HashMap::new());
        };
        // A payment that fitted at once has no line in the operator's log, and each refund has one.
        let rows = sqlx::query_as!(
            EntryMoney,
            r#"SELECT p.seq AS "seq!", p.paid_product_id AS "product_id?", p.currency AS "currency!", p.amount AS "amount!",
                   p.reason IS NOT NULL AS "is_logged!"
               FROM topup_payments p WHERE p.app_no = $1 AND p.wallet_no = $2 AND p.seq = ANY ($3)
               UNION ALL
               SELECT r.seq, NULL::text, o.currency, r.amount, true
               FROM topup_refunds r JOIN topup_payments o
                   ON o.app_no = r.app_no AND o.provider = r.provider AND o.provider_order_id = r.provider_order_id
               WHERE r.app_no = $1 AND o.app_no = $1 AND r.wallet_no = $2 AND r.seq = ANY ($3)"#,
            app_no,
            wallet_no,
            entries
        );
        let rows = rows.fetch_all(&self.pool).await?.into_iter();
        Ok(rows.map(|row| (row.seq, row)).collect())
    }

    /// The numbers of a player's app and wallet. `None` for a player whom the app does not know.
    pub(super) async fn wallet_key(&self, app_id: &AppId, open_id: &OpenId) -> Result<Option<(i32, i64)>> {
        let wallet = sqlx::query!(
            r#"SELECT app_no AS "app_no!", wallet_no AS "wallet_no!" FROM players WHERE app_id = $1 AND open_id = $2"#,
            app_id.as_str(),
            open_id.as_str()
        );
        let wallet = wallet.fetch_optional(&self.pool).await?;
        Ok(wallet.map(|wallet| (wallet.app_no, wallet.wallet_no)))
    }
}
