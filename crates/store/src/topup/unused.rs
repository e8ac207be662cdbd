//! The charged coins that were in the purses of an app at a moment, by what they have cost (contract 19.8.4).

use std::collections::BTreeMap;
use std::io;

use domain::ids::AppId;
use domain::moment::rfc3339;
use domain::operation::books::{not_closed, sums_too_large};
use domain::text;
use domain::text::TextMoment;
use domain::topup::CoinPrice;
use serde::Serialize;
use sqlx::Connection as _;
use time::OffsetDateTime;

use super::income::number;
use crate::app_number::number_of;
use crate::books::{COMPLETE_AFTER, Completeness, completeness};
use crate::error::{OperationError, StoreError};
use crate::store::Store;
use crate::transaction::snapshot_of;
use crate::wallet::csv_of;

/// Unused coins of one price.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct UnusedRow {
    /// Code of the currency.
    pub currency: String,
    /// What a coin has cost, in minor units: a whole number, or a fraction in lowest terms such as 100/11.
    pub price: String,
    /// Charged coins.
    pub unused: i64,
    /// What they have cost, in minor units, rounded down.
    pub money: i64,
}

/// Unused coins of one currency.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct UnusedMoney {
    /// Code of the currency.
    pub currency: String,
    /// Charged coins of all its prices.
    pub unused: i64,
    /// The money of the rows together, in minor units.
    pub money: i64,
}

/// The unused charged coins of an app.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "UnusedReport")]
pub struct UnusedReport {
    /// The app.
    #[schemars(with = "AppId")]
    pub app_id: String,
    /// The moment. Entries before it count.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub at: OffsetDateTime,
    /// By currency and price, cheapest first.
    pub rows: Vec<UnusedRow>,
    /// The sums of the rows, by currency.
    pub by_currency: Vec<UnusedMoney>,
    /// Coins of credits, which nobody paid.
    pub without_price: i64,
    /// All of them: the sum of all charged purses.
    pub total: i64,
}

impl UnusedReport {
    /// The columns of the rows.
    pub const COLUMNS: [&str; 4] = ["currency", "price", "unused", "money"];

    /// The cells of the rows in the order of the columns.
    #[must_use]
    pub fn lines(&self) -> Vec<Vec<String>> {
        let line = |row: &UnusedRow| {
            vec![row.currency.clone(), row.price.clone(), row.unused.to_string(), row.money.to_string()]
        };
        self.rows.iter().map(line).collect()
    }

    /// The report as CSV. The sums stand below the rows.
    ///
    /// # Errors
    /// None is known, because it writes into memory.
    pub fn csv(&self) -> io::Result<Vec<u8>> {
        let sum = |name: &str, coins: i64| [name, "", &coins.to_string(), ""].map(str::to_owned).to_vec();
        let sums = [sum("without_price", self.without_price), sum("total", self.total)];
        csv_of(Self::COLUMNS, self.lines().into_iter().chain(sums))
    }
}

impl Store {
    /// The unused charged coins of an app, before a moment or now. By the law of lots (19.6), the newest lots are the unused
    /// ones, so a purse and its lots are all that it takes.
    ///
    /// # Errors
    /// There is no such app, entries before the moment may still come, or a sum needs more than 64 bits; `Overloaded` as a
    /// statement.
    pub async fn unused_coins(
        &self,
        app_id: &AppId,
        at: Option<OffsetDateTime>,
    ) -> Result<UnusedReport, OperationError> {
        let (store, of) = (self.clone(), app_id.clone());
        self.in_turn_of_statements(app_id, async move { store.count_unused(of, at).await }).await
    }

    async fn count_unused(
        &self,
        app_id: AppId,
        at: Option<OffsetDateTime>,
    ) -> Result<UnusedReport, OperationError> {
        let mut connection = self.connect_without_limits().await?;
        if let Some(at) = at {
            must_be_complete(completeness(&mut connection, self.engine.get(), at).await?, at)?;
        }
        let mut snapshot = snapshot_of(&mut connection).await?;
        let app_no = number_of(&mut *snapshot, &app_id).await?;
        let now = sqlx::query_scalar!(r#"SELECT clock_timestamp() AS "now!""#);
        let now = now.fetch_one(&mut *snapshot).await.map_err(StoreError::from)?;
        let lots = sqlx::query_as!(
            PricedLots,
            r#"WITH purses AS (
                   SELECT wallet_no, sum(charge_change) AS coins FROM numbers
                   WHERE app_no = $1 AND seq IS NOT NULL AND at < coalesce($2::timestamptz, 'infinity') GROUP BY wallet_no
               ), settled AS (
                   SELECT wallet_no, sum(charge_settled) AS coins FROM topup_settlements
                   WHERE app_no = $1 AND settled_at < coalesce($2::timestamptz, 'infinity') GROUP BY wallet_no
               ), refunded AS (
                   -- Settlements settle the oldest debt first.
                   SELECT r.provider, r.provider_order_id, sum(r.charge_taken
                       + greatest(least(coalesce(s.coins, 0) - r.debt_before, r.charge_debt), 0)) AS coins
                   FROM (
                       SELECT *, sum(charge_debt) OVER (PARTITION BY wallet_no ORDER BY seq) - charge_debt AS debt_before
                       FROM topup_refunds
                       WHERE app_no = $1 AND wallet_no IS NOT NULL AND refunded_at < coalesce($2::timestamptz, 'infinity')
                   ) r LEFT JOIN settled s ON s.wallet_no = r.wallet_no
                   GROUP BY 1, 2
               ), lots AS (
                   SELECT p.wallet_no, p.seq, p.charge - coalesce(r.coins, 0) AS size, p.currency, p.amount, p.charge
                   FROM topup_payments p LEFT JOIN refunded r
                       ON r.provider = p.provider AND r.provider_order_id = p.provider_order_id
                   WHERE p.app_no = $1 AND p.state = 'paid' AND p.charge > 0 AND p.credited_at < coalesce($2::timestamptz, 'infinity')
                   UNION ALL
                   SELECT wallet_no, seq, charge_change, '', 0, 0 FROM numbers
                   WHERE app_no = $1 AND kind = 'credit' AND charge_change > 0 AND at < coalesce($2::timestamptz, 'infinity')
               ), newest AS (
                   SELECT *, sum(size) OVER (PARTITION BY wallet_no ORDER BY seq DESC) - size AS newer FROM lots
               )
               SELECT n.currency AS "currency!", n.amount AS "amount!", n.charge AS "charge!",
                   sum(least(p.coins - n.newer, n.size))::text AS "unused!"
               FROM newest n JOIN purses p ON p.wallet_no = n.wallet_no
               WHERE p.coins > n.newer AND n.size > 0 GROUP BY 1, 2, 3
               UNION ALL
               SELECT 'total', 0, 0, coalesce(sum(coins), 0)::text FROM purses"#,
            app_no,
            at
        );
        let lots = lots.fetch_all(&mut *snapshot).await.map_err(StoreError::from)?;
        snapshot.rollback().await?;
        connection.close().await?;
        report_of(&app_id, at.unwrap_or(now), lots)
    }
}

/// Unused coins of lots with one price, or the sum of all purses under the name `total`.
struct PricedLots {
    currency: String,
    amount: i64,
    charge: i64,
    unused: String,
}

/// The sums of lots, and of the purses: their currency is `total`.
fn report_of(
    app_id: &AppId,
    at: OffsetDateTime,
    lots: Vec<PricedLots>,
) -> Result<UnusedReport, OperationError> {
    let (mut priced, mut without_price, mut total) = (BTreeMap::<_, i128>::new(), 0, 0);
    for lot in lots {
        let coins = number(&lot.unused)?;
        match (lot.currency.as_str(), CoinPrice::new(lot.amount, lot.charge)) {
            (_, Some(price)) => *priced.entry((lot.currency, price)).or_default() += coins,
            ("total", None) => total += coins,
            (_, None) => without_price += coins,
        }
    }
    // The audit names the wallet (19.5.10).
    if priced.values().sum::<i128>() + without_price != total {
        return Err(StoreError::damaged("topup_payments").into());
    }
    let figure = |sum: i128| i64::try_from(sum).ok();
    let row = |((currency, price), coins): ((String, CoinPrice), i128)| {
        let unused = figure(coins)?;
        Some(UnusedRow { currency, price: price.to_string(), unused, money: price.money_of(unused)? })
    };
    let rows: Option<Vec<_>> = priced.into_iter().map(row).collect();
    let rows = rows.and_then(|rows| Some((money_of(&rows)?, rows)));
    let report = rows.zip(figure(without_price)).zip(figure(total));
    let (((by_currency, rows), without_price), total) =
        report.ok_or_else(|| sums_too_large("at", rfc3339(at)))?;
    Ok(UnusedReport { app_id: app_id.to_string(), at, rows, by_currency, without_price, total })
}

/// The sums of rows, which are in the order of their currencies. `None` where one needs more than 64 bits.
fn money_of(rows: &[UnusedRow]) -> Option<Vec<UnusedMoney>> {
    let sum = |rows: &[UnusedRow]| {
        let sums = rows.iter().try_fold((0_i64, 0_i64), |(unused, money), row| {
            Some((unused.checked_add(row.unused)?, money.checked_add(row.money)?))
        });
        let (unused, money) = sums?;
        Some(UnusedMoney { currency: rows.first()?.currency.clone(), unused, money })
    };
    rows.chunk_by(|one, next| one.currency == next.currency).map(sum).collect()
}

fn must_be_complete(state: Completeness, at: OffsetDateTime) -> Result<(), OperationError> {
    let (complete_at, at) = (TextMoment(at + COMPLETE_AFTER), TextMoment(at));
    let why = match state {
        Completeness::Complete => return Ok(()),
        Completeness::NotEnded => text!("expected a moment that has been, or none for now"),
        Completeness::TooYoung => text!("entries before {at} may come until {complete_at}", at, complete_at),
        Completeness::Written => {
            text!(
                "entries before {at} may still come: a transaction that writes to the ledger does not end",
                at
            )
        }
    };
    Err(not_closed("at", why).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract 19.8.6.
    #[test]
    fn currencies_are_summed_apart() {
        let row = |currency: &str, unused, money| UnusedRow {
            currency: currency.to_owned(),
            price: "10".to_owned(),
            unused,
            money,
        };
        let sums = |rows: &[UnusedRow]| {
            let sums = money_of(rows)?;
            Some(sums.into_iter().map(|sum| (sum.currency, sum.unused, sum.money)).collect::<Vec<_>>())
        };
        let rows = [row("CNY", 60, 545), row("CNY", 6, 60), row("EUR", 5, 7)];
        assert_eq!(sums(&rows), Some(vec![("CNY".to_owned(), 66, 605), ("EUR".to_owned(), 5, 7)]));
        assert_eq!(sums(&[]), Some(Vec::new()));
        assert_eq!(sums(&[row("CNY", 1, i64::MAX), row("CNY", 1, 1)]), None);
    }
}
