//! Top-ups (contract 19): prices, orders, and payments that providers report. An order is a number of the ledger, which
//! the exchange writers take (`crate::wallet_writer`). A payment is credited in a transaction with its ledger entry.

mod consumption;
mod debt;
mod find;
mod income;
mod list;
mod orders;
mod payment;
mod payment_credit;
mod payment_rows;
mod prices;
mod provider;
mod refund;
mod settle;
mod unused;
mod waiting_refunds;

use domain::ids::{AppId, ItemId};
use domain::topup::Offer;

use crate::error::{Result, StoreError};
use crate::store::Store;

pub use consumption::ConsumptionReport;
pub(crate) use find::orders_of_wallet;
pub use find::{EntryMoney, OpenTopupOrder, PaymentMatch, TopupOrderMatch};
pub use income::{IncomeGroup, IncomeQuery, IncomeReport, IncomeRow, IncomeSums, UnmatchedSums};
pub use list::{RefundRow, TopupCursor, TopupFilter, TopupRow, TopupsPage};
pub use prices::{ListedPrice, PRICE_COLUMNS, PriceList, prices_of_csv};
pub use provider::TopupProvider;
pub use refund::RefundReport;
pub use settle::{SettledPayment, SettlementEffect};
pub use unused::{UnusedMoney, UnusedReport, UnusedRow};

/// An order of a top-up with what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopupOrderState {
    /// The product.
    pub product_id: String,
    /// The terms that the order has fixed.
    pub offer: Offer,
    /// When it was paid, in Unix milliseconds. `None` while it is not.
    pub paid_at: Option<i64>,
    /// How much of the money went back.
    pub refunded: RefundedPart,
}

/// How much of the money of a payment went back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefundedPart {
    /// Nothing.
    Nothing,
    /// A part.
    Part,
    /// All of it.
    Whole,
}

impl Store {
    /// Product and figures of an order that the writers took, and what became of it.
    pub async fn topup_order(
        &self,
        app_id: &AppId,
        item_id: ItemId,
        biz_no: &str,
    ) -> Result<TopupOrderState> {
        let row = sqlx::query!(
            r#"SELECT i.product_name, i.product_info,
                   floor(extract(epoch FROM p.credited_at) * 1000)::bigint AS paid_at, p.amount AS "amount?",
                   (SELECT coalesce(sum(r.amount), 0)::bigint FROM topup_refunds r
                    WHERE r.app_no = a.app_no AND r.provider = p.provider AND r.provider_order_id = p.provider_order_id
                        AND r.state = 'refunded') AS "refunded!"
               FROM apps a JOIN items i ON i.app_no = a.app_no AND i.item_id = $2
               LEFT JOIN topup_payments p ON p.app_no = a.app_no AND p.paid_biz_no = $3
               WHERE a.app_id = $1"#,
            app_id.as_str(),
            item_id.0.as_slice(),
            biz_no
        );
        let row = row.fetch_one(&self.pool).await?;
        let offer = Offer::of_figures(&row.product_info).ok_or_else(|| StoreError::damaged("items"))?;
        let refunded = match (row.refunded, row.amount) {
            (0, _) | (_, None) => RefundedPart::Nothing,
            (refunded, Some(amount)) if refunded >= amount => RefundedPart::Whole,
            (_, Some(_)) => RefundedPart::Part,
        };
        Ok(TopupOrderState { product_id: row.product_name, offer, paid_at: row.paid_at, refunded })
    }
}
