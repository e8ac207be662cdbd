//! Reads payments for people and programs.

use std::collections::HashMap;
use std::str::FromStr;

use domain::ids::{AppId, OpenId};
use domain::rights::Apps;
use domain::topup::{PaymentKey, PaymentState, RefundId, RefundState, UnmatchedReason};
use serde::Serialize;
use time::OffsetDateTime;

use super::payment_rows::{split_reporter, stored_payment_state};
use super::refund::stored_refund_state;
use crate::error::Result;
use crate::paging::{CursorKey, ListPage, TimeCursor};
use crate::store::Store;

/// A payment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "TopupPayment")]
pub struct TopupRow {
    /// The app.
    pub app_id: String,
    /// The payment provider.
    pub provider: String,
    /// The provider's id.
    pub provider_order_id: String,
    /// `paid`, `unmatched` or `paid_back`.
    pub state: PaymentState,
    /// Why it fitted nothing when it was first told of. It stays after the settlement.
    #[schemars(with = "Option<UnmatchedReason>")]
    pub reason: Option<String>,
    /// Code of the currency.
    pub currency: String,
    /// The money, in minor units.
    pub amount: i64,
    /// What the provider keeps, in minor units.
    pub fee: Option<i64>,
    /// When it was paid, as the provider says.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub paid_at: OffsetDateTime,
    /// The order that it has paid, or that it names.
    pub biz_no: Option<String>,
    /// The player who was credited, or whom it names.
    pub open_id: Option<String>,
    /// The product that was credited, or that it names.
    pub product_id: Option<String>,
    /// Platform of the player.
    pub os: Option<String>,
    /// Note for people.
    pub note: String,
    /// Charged coins that were credited.
    pub charge: Option<i64>,
    /// Gifted coins that were credited.
    pub bonus: Option<i64>,
    /// Gifted currency right after it.
    pub free_balance: Option<i64>,
    /// Charged currency right after it.
    pub charge_balance: Option<i64>,
    /// Number of its ledger entry in the wallet.
    pub seq: Option<i64>,
    /// Who told of it first.
    pub told_by: String,
    /// When it was first told of.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub created_at: OffsetDateTime,
    /// When it was credited.
    #[serde(with = "time::serde::rfc3339::option")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub credited_at: Option<OffsetDateTime>,
    /// Its refunds, oldest first.
    pub refunds: Vec<RefundRow>,
}

/// A refund of a payment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "RefundOfTopup")]
pub struct RefundRow {
    /// The provider's id of the refund.
    #[schemars(with = "RefundId")]
    pub refund_id: String,
    /// `refunded`, `waiting` or `refused`.
    #[schemars(extend("enum" = [RefundState::Refunded, RefundState::Waiting, RefundState::Refused]))]
    pub state: RefundState,
    /// The money, in minor units.
    pub amount: i64,
    /// Why.
    pub reason: String,
    /// Gifted coins that were taken from the purse. `null` where nothing was to be taken.
    pub free_taken: Option<i64>,
    /// Charged coins that were taken from the purse.
    pub charge_taken: Option<i64>,
    /// Gifted coins that became debt.
    pub free_debt: Option<i64>,
    /// Charged coins that became debt.
    pub charge_debt: Option<i64>,
    /// What is left of the gifted debt.
    pub free_owed: Option<i64>,
    /// What is left of the charged debt.
    pub charge_owed: Option<i64>,
    /// Number of its ledger entry in the wallet.
    pub seq: Option<i64>,
    /// Who told of it first.
    pub told_by: String,
    /// When it was first told of.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub created_at: OffsetDateTime,
    /// When it was carried out.
    #[serde(with = "time::serde::rfc3339::option")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub refunded_at: Option<OffsetDateTime>,
}

impl TopupRow {
    /// How much of the money its refunds have brought back, in minor units.
    #[must_use]
    pub fn refunded(&self) -> i64 {
        let refunds = self.refunds.iter().filter(|refund| refund.state == RefundState::Refunded);
        refunds.fold(0_i64, |sum, refund| sum.saturating_add(refund.amount))
    }

    /// Kind and name of who told of it first. A text without a blank is a name alone.
    #[must_use]
    pub fn reporter(&self) -> (&str, &str) {
        split_reporter(&self.told_by).unwrap_or(("", &self.told_by))
    }
}

/// The payments that are listed.
#[derive(Debug, Clone, Default)]
pub struct TopupFilter {
    /// Those that fit nothing and wait for an operator.
    pub unmatched: bool,
    /// Of this player: credited or named, or named by their order while they wait.
    pub open_id: Option<OpenId>,
    /// Told of at or after this moment.
    pub since: Option<OffsetDateTime>,
    /// Told of before this moment.
    pub until: Option<OffsetDateTime>,
}

/// The pair of a payment, in a cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentPlace(String);

impl FromStr for PaymentPlace {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if text.contains('/') { Ok(Self(text.to_owned())) } else { Err(()) }
    }
}

impl std::fmt::Display for PaymentPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl CursorKey for PaymentPlace {
    const EXPECTED: &'static str = "the place of a payment, as an earlier page gave it";
}

/// A position in a list of payments, newest first.
pub type TopupCursor = TimeCursor<PaymentPlace>;
/// A page of payments, newest first.
pub type TopupsPage = ListPage<TopupRow, TopupCursor>;

/// Reads payments, without their refunds. A row with a damaged state is an error. `$rest` is the condition and the
/// order.
macro_rules! payments {
    ($rest:literal $(+ $more:literal)? $(, $parameter:expr)*) => {
        sqlx::query!(
            r#"SELECT a.app_id, p.provider, p.provider_order_id, p.state, p.reason, p.currency, p.amount, p.fee, p.paid_at,
                   coalesce(p.paid_biz_no, p.biz_no) AS biz_no, coalesce(w.open_id, p.open_id) AS open_id,
                   coalesce(p.paid_product_id, p.product_id) AS product_id, p.os, p.note, p.charge, p.bonus, p.free_balance,
                   p.charge_balance, p.seq, p.told_by, p.created_at, p.credited_at
               FROM topup_payments p
               JOIN apps a ON a.app_no = p.app_no
               LEFT JOIN wallets w ON w.app_no = p.app_no AND w.wallet_no = p.wallet_no
               WHERE "# + $rest $(+ $more)?
            $(, $parameter)*
        )
        .map(|row| -> Result<TopupRow> {
            Ok(TopupRow {
                app_id: row.app_id,
                provider: row.provider,
                provider_order_id: row.provider_order_id,
                state: stored_payment_state(&row.state)?,
                reason: row.reason,
                currency: row.currency,
                amount: row.amount,
                fee: row.fee,
                paid_at: row.paid_at,
                biz_no: row.biz_no,
                open_id: row.open_id,
                product_id: row.product_id,
                os: row.os,
                note: row.note,
                charge: row.charge,
                bonus: row.bonus,
                free_balance: row.free_balance,
                charge_balance: row.charge_balance,
                seq: row.seq,
                told_by: row.told_by,
                created_at: row.created_at,
                credited_at: row.credited_at,
                refunds: Vec::new(),
            })
        })
    };
}

impl Store {
    /// A payment. `None` for one that was never told of.
    pub async fn topup(&self, app_id: &AppId, key: &PaymentKey) -> Result<Option<TopupRow>> {
        let row = payments!(
            "p.app_no = (SELECT app_no FROM apps WHERE app_id = $1) AND p.provider = $2 AND p.provider_order_id = $3",
            app_id.as_str(),
            key.provider.as_str(),
            key.provider_order_id.as_str()
        );
        let row = row.fetch_optional(&self.pool).await?.transpose()?;
        Ok(self.with_refunds(app_id, row.into_iter().collect()).await?.pop())
    }

    /// Payments with their refunds.
    async fn with_refunds(&self, app_id: &AppId, mut payments: Vec<TopupRow>) -> Result<Vec<TopupRow>> {
        let column =
            |of: fn(&TopupRow) -> &String| payments.iter().map(|row| of(row).clone()).collect::<Vec<_>>();
        let rows = sqlx::query!(
            "SELECT r.provider, r.provider_order_id, r.refund_id, r.state, r.amount, r.reason, r.free_taken, r.charge_taken,
                 r.free_debt, r.charge_debt, r.free_owed, r.charge_owed, r.seq, r.told_by, r.created_at, r.refunded_at
             FROM topup_refunds r
             WHERE r.app_no = (SELECT app_no FROM apps WHERE app_id = $1)
                 AND (r.provider, r.provider_order_id) IN (SELECT unnest($2::text[]), unnest($3::text[]))
             ORDER BY r.created_at, r.refund_id",
            app_id.as_str(),
            &column(|row| &row.provider),
            &column(|row| &row.provider_order_id)
        );
        let mut refunds: HashMap<_, Vec<RefundRow>> = HashMap::new();
        for row in rows.fetch_all(&self.pool).await? {
            refunds.entry((row.provider, row.provider_order_id)).or_default().push(RefundRow {
                refund_id: row.refund_id,
                state: stored_refund_state(&row.state)?,
                amount: row.amount,
                reason: row.reason,
                free_taken: row.free_taken,
                charge_taken: row.charge_taken,
                free_debt: row.free_debt,
                charge_debt: row.charge_debt,
                free_owed: row.free_owed,
                charge_owed: row.charge_owed,
                seq: row.seq,
                told_by: row.told_by,
                created_at: row.created_at,
                refunded_at: row.refunded_at,
            });
        }
        for payment in &mut payments {
            let key = (payment.provider.clone(), payment.provider_order_id.clone());
            payment.refunds = refunds.remove(&key).unwrap_or_default();
        }
        Ok(payments)
    }

    /// At most `limit` payments of an app, newest first.
    pub async fn topups(
        &self,
        app_id: &AppId,
        filter: &TopupFilter,
        after: Option<&TopupCursor>,
        limit: u32,
    ) -> Result<TopupsPage> {
        let place = after.map(|after| after.key.0.as_str());
        // Those that fit the filter, and come after a place.
        macro_rules! page_of {
            ($those:literal $(, $parameter:expr)*) => {
                payments!(
                    $those + " AND ($2::boolean = false OR p.state = 'unmatched')
                         AND ($3::timestamptz IS NULL OR p.created_at >= $3) AND ($4::timestamptz IS NULL OR p.created_at < $4)
                         AND ($5::timestamptz IS NULL OR (p.created_at, p.provider || '/' || p.provider_order_id) < ($5, $6))
                     ORDER BY p.created_at DESC, p.provider || '/' || p.provider_order_id DESC LIMIT $7",
                    app_id.as_str(),
                    filter.unmatched,
                    filter.since,
                    filter.until,
                    after.map(|after| after.at),
                    place,
                    i64::from(limit) + 1
                    $(, $parameter)*
                )
                .fetch_all(&self.pool)
                .await?
            };
        }
        let rows = match &filter.open_id {
            None => page_of!("p.app_no = (SELECT app_no FROM apps WHERE app_id = $1)"),
            // The payments of a player are found by two indexes, and not among all of the app by their time. One that
            // fitted at once has credited the player whom it names. One that waits may name an order of the player alone.
            Some(open_id) => {
                let (providers, ids) = self.waiting_for_orders(app_id, open_id).await?;
                page_of!(
                    "(p.app_no, p.provider, p.provider_order_id) IN (
                         SELECT app_no, provider, provider_order_id FROM topup_payments
                         WHERE app_no = (SELECT app_no FROM apps WHERE app_id = $1)
                             AND wallet_no = (SELECT wallet_no FROM players WHERE app_id = $1 AND open_id = $8)
                         UNION SELECT app_no, provider, provider_order_id FROM topup_payments
                         WHERE app_no = (SELECT app_no FROM apps WHERE app_id = $1) AND open_id = $8 AND reason IS NOT NULL
                         UNION SELECT app_no, provider, provider_order_id FROM topup_payments
                         WHERE app_no = (SELECT app_no FROM apps WHERE app_id = $1) AND state = 'unmatched'
                             AND (provider, provider_order_id) IN (SELECT unnest($9::text[]), unnest($10::text[])))",
                    open_id.as_str(),
                    &providers,
                    &ids
                )
            }
        };
        let rows = rows.into_iter().collect::<Result<Vec<_>>>()?;
        let rows = self.with_refunds(app_id, rows).await?;
        Ok(ListPage::cut(rows, limit, |last| TimeCursor {
            at: last.created_at,
            key: PaymentPlace(format!("{}/{}", last.provider, last.provider_order_id)),
        }))
    }

    /// At most `limit` payments of these apps that fit nothing and wait for an operator, oldest first, without their refunds.
    pub async fn waiting_payments(&self, apps: &Apps, limit: u32) -> Result<Vec<TopupRow>> {
        let rows = payments!(
            "p.state = 'unmatched' AND ($1::text[] IS NULL OR a.app_id = ANY ($1)) ORDER BY p.created_at LIMIT $2",
            apps.ids(),
            i64::from(limit)
        );
        rows.fetch_all(&self.pool).await?.into_iter().collect()
    }

    /// How many payments of these apps fit nothing and wait for an operator.
    pub async fn unmatched_payments(&self, apps: &Apps) -> Result<i64> {
        let count = sqlx::query_scalar!(
            r#"SELECT count(*) AS "count!" FROM topup_payments p JOIN apps a ON a.app_no = p.app_no
               WHERE p.state = 'unmatched' AND ($1::text[] IS NULL OR a.app_id = ANY ($1))"#,
            apps.ids()
        );
        Ok(count.fetch_one(&self.pool).await?)
    }
}
