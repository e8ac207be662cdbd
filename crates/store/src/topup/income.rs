//! Income of the payments of an app in a span of time (contract 19.8.1).

use std::collections::BTreeMap;
use std::io;

use domain::csv::csv_text;
use domain::fields::Expected;
use domain::ids::AppId;
use domain::moment::rfc3339;
use domain::operation::books::{empty_span, sums_too_large, too_many_rows};
use domain::period::{TimeSpan, TimeZone};
use futures_util::TryStreamExt as _;
use serde::Serialize;
use sqlx::{Connection as _, PgConnection};
use time::OffsetDateTime;

use crate::app_number::number_of;
use crate::error::{OperationError, StoreError};
use crate::store::Store;
use crate::transaction::snapshot_of;
use crate::wallet::csv_of;

/// The most rows of a report of payments.
const INCOME_ROWS_MAX: usize = 100_000;

domain::word_enum! {
    /// What payments are grouped by, beside their currency.
    pub enum IncomeGroup {
        /// The day in the time zone of the report.
        Day = "day",
        /// The payment provider.
        Provider = "provider",
        /// The product that was credited.
        Product = "product_id",
        /// Platform of the player, as told.
        Os = "os",
    }
}

impl IncomeGroup {
    /// Reads names of groups, and gives them in the order of the columns.
    ///
    /// # Errors
    /// Another text, or a name that stands twice. `currency` may stand among them, because it is always one.
    pub fn parse_groups(text: &str) -> Result<Vec<Self>, Expected> {
        let wrong = Expected::new(
            "day, provider, product_id, currency and os, each at most once, with commas between them",
        );
        let mut names: Vec<&str> = text.split(',').collect();
        let given = names.len();
        names.sort_unstable();
        names.dedup();
        if names.len() != given {
            return Err(wrong);
        }
        let groups = names.into_iter().filter(|name| *name != "currency").map(Self::parse);
        let mut groups: Vec<_> = groups.collect::<Result<_, _>>().map_err(|_| wrong)?;
        groups.sort_unstable();
        Ok(groups)
    }
}

/// Sums of payments of one currency.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct IncomeSums {
    /// Number of payments that were credited.
    pub payments: i64,
    /// Their money, in minor units.
    pub amount: i64,
    /// What the providers keep of it, as far as they told.
    pub fee: i64,
    /// The money of refunds that were carried out, of whatever day their payments are.
    pub refunded: i64,
    /// Charged coins that were credited, before refunds.
    pub charge: i64,
    /// Gifted coins that were credited, before refunds.
    pub bonus: i64,
}

impl IncomeSums {
    /// In the order of [`IncomeReport::columns`].
    #[must_use]
    pub const fn figures(&self) -> [i64; 6] {
        let Self { payments, amount, fee, refunded, charge, bonus } = *self;
        [payments, amount, fee, refunded, charge, bonus]
    }
}

/// The sums of one group and one currency.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct IncomeRow {
    /// The day, such as 2026-11-21. There if rows are grouped by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub day: Option<String>,
    /// The payment provider. There if rows are grouped by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The product. There if rows are grouped by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product_id: Option<String>,
    /// Platform of the player; empty where nobody told it. There if rows are grouped by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os: Option<String>,
    /// Code of the currency.
    pub currency: String,
    /// The sums.
    #[serde(flatten)]
    pub sums: IncomeSums,
}

impl IncomeRow {
    /// The name of its group. Empty where rows are not grouped by it.
    #[must_use]
    pub fn name(&self, group: IncomeGroup) -> &str {
        let name = match group {
            IncomeGroup::Day => &self.day,
            IncomeGroup::Provider => &self.provider,
            IncomeGroup::Product => &self.product_id,
            IncomeGroup::Os => &self.os,
        };
        name.as_deref().unwrap_or_default()
    }
}

/// Payments that were told of in the span and wait for an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct UnmatchedSums {
    /// Code of the currency.
    pub currency: String,
    /// Number of payments.
    pub payments: i64,
    /// Their money, in minor units.
    pub amount: i64,
}

/// Income from payments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "TopupReport")]
pub struct IncomeReport {
    /// The app.
    #[schemars(with = "AppId")]
    pub app_id: String,
    /// The first moment of the span.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub since: OffsetDateTime,
    /// The first moment after it.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub until: OffsetDateTime,
    /// The IANA name of the time zone in which days begin.
    pub time_zone: String,
    /// In the order of their groups.
    pub rows: Vec<IncomeRow>,
    /// Unmatched payments by currency. They are in no row.
    pub unmatched: Vec<UnmatchedSums>,
}

impl IncomeReport {
    /// The columns of the rows.
    pub fn columns(groups: &[IncomeGroup]) -> impl Iterator<Item = &'static str> {
        let sums = ["currency", "payments", "amount", "fee", "refunded", "charge", "bonus"];
        groups.iter().map(|group| group.as_str()).chain(sums)
    }

    /// The cells of the rows in the order of the columns. No text begins with what a spreadsheet calculates.
    #[must_use]
    pub fn lines(&self, groups: &[IncomeGroup]) -> Vec<Vec<String>> {
        let line = |row: &IncomeRow| {
            let names = groups.iter().map(|group| csv_text(row.name(*group)).into_owned());
            names.chain([row.currency.clone()]).chain(row.sums.figures().map(|sum| sum.to_string())).collect()
        };
        self.rows.iter().map(line).collect()
    }

    /// The report as CSV, with the groups that it was asked with.
    ///
    /// # Errors
    /// None is known, because it writes into memory.
    pub fn csv(&self, groups: &[IncomeGroup]) -> io::Result<Vec<u8>> {
        csv_of(Self::columns(groups), self.lines(groups))
    }
}

/// The request.
#[derive(Debug, Clone)]
pub struct IncomeQuery {
    /// A payment counts when it was credited, a refund when it was carried out.
    pub span: TimeSpan,
    /// What each row is of, in the order of the columns.
    pub groups: Vec<IncomeGroup>,
    /// The time zone in which days begin.
    pub time_zone: TimeZone,
}

/// The group of a row: its day and its names.
type IncomeKey = (Option<String>, [String; 3], String);

impl Store {
    /// The income of an app from payments (contract 19.8.1).
    ///
    /// # Errors
    /// There is no such app, the span is empty, a sum needs more than 64 bits, or there are more than 100,000 rows.
    /// `Overloaded` as a statement.
    pub async fn topup_income(
        &self,
        app_id: &AppId,
        query: IncomeQuery,
    ) -> Result<IncomeReport, OperationError> {
        if query.span.since >= query.span.until {
            return Err(empty_span().into());
        }
        let (store, of) = (self.clone(), app_id.clone());
        self.in_turn_of_statements(app_id, async move { store.make_income(of, query).await }).await
    }

    async fn make_income(&self, app_id: AppId, query: IncomeQuery) -> Result<IncomeReport, OperationError> {
        let mut connection = self.connect_without_limits().await?;
        let mut snapshot = snapshot_of(&mut connection).await?;
        let app_no = number_of(&mut *snapshot, &app_id).await?;
        let TimeSpan { since, until } = query.span;
        let is_by = |group| query.groups.contains(&group);
        // Days of all time zones begin at a quarter of an hour, so the database need not know the zone.
        let mut rows = sqlx::query!(
            r#"SELECT CASE WHEN $4 THEN date_bin('15 minutes', t.at, 'epoch') END AS quarter,
                   CASE WHEN $5 THEN t.provider ELSE '' END AS "provider!", CASE WHEN $6 THEN t.product_id ELSE '' END AS "product_id!",
                   CASE WHEN $7 THEN t.os ELSE '' END AS "os!", t.currency AS "currency!", sum(t.payments)::text AS "payments!",
                   sum(t.amount)::text AS "amount!", sum(t.fee)::text AS "fee!", sum(t.refunded)::text AS "refunded!",
                   sum(t.charge)::text AS "charge!", sum(t.bonus)::text AS "bonus!"
               FROM (
                   SELECT credited_at AS at, provider, paid_product_id AS product_id, coalesce(os, '') AS os, currency, 1 AS payments,
                       amount, coalesce(fee, 0) AS fee, 0::bigint AS refunded, charge, bonus
                   FROM topup_payments
                   WHERE app_no = $1 AND state = 'paid' AND credited_at >= $2 AND credited_at < $3
                   UNION ALL
                   SELECT r.refunded_at, p.provider, p.paid_product_id, coalesce(p.os, ''), p.currency, 0, 0, 0, r.amount, 0, 0
                   FROM topup_refunds r JOIN topup_payments p
                       ON p.app_no = $1 AND p.provider = r.provider AND p.provider_order_id = r.provider_order_id
                   WHERE r.app_no = $1 AND r.state = 'refunded' AND p.state = 'paid' AND r.refunded_at >= $2 AND r.refunded_at < $3
               ) t GROUP BY 1, 2, 3, 4, 5"#,
            app_no,
            since,
            until,
            is_by(IncomeGroup::Day),
            is_by(IncomeGroup::Provider),
            is_by(IncomeGroup::Product),
            is_by(IncomeGroup::Os)
        )
        .fetch(&mut *snapshot);
        let mut groups = BTreeMap::<IncomeKey, [i128; 6]>::new();
        while let Some(row) = rows.try_next().await.map_err(StoreError::from)? {
            let day = row.quarter.map(|at| query.time_zone.clock(at).date().to_string());
            let sums = groups.entry((day, [row.provider, row.product_id, row.os], row.currency)).or_default();
            let added = [row.payments, row.amount, row.fee, row.refunded, row.charge, row.bonus];
            for (sum, added) in sums.iter_mut().zip(&added) {
                *sum += number(added)?;
            }
            if groups.len() > INCOME_ROWS_MAX {
                return Err(too_many_rows(INCOME_ROWS_MAX).into());
            }
        }
        drop(rows);
        let unmatched = unmatched_sums(&mut snapshot, app_no, query.span).await?;
        snapshot.rollback().await?;
        connection.close().await?;
        let rows = groups.into_iter().map(|(key, sums)| query.row(key, sums));
        Ok(IncomeReport {
            app_id: app_id.to_string(),
            since,
            until,
            time_zone: query.time_zone.to_string(),
            rows: rows.collect::<Result<_, _>>()?,
            unmatched,
        })
    }
}

async fn unmatched_sums(
    connection: &mut PgConnection,
    app_no: i32,
    span: TimeSpan,
) -> Result<Vec<UnmatchedSums>, OperationError> {
    let unmatched = sqlx::query!(
        r#"SELECT currency, count(*) AS "payments!", sum(amount)::text AS "amount!" FROM topup_payments
               WHERE app_no = $1 AND state = 'unmatched' AND created_at >= $2 AND created_at < $3
               GROUP BY currency ORDER BY currency"#,
        app_no,
        span.since,
        span.until
    );
    let mut sums = Vec::new();
    for row in unmatched.fetch_all(connection).await.map_err(StoreError::from)? {
        let amount = figure(number(&row.amount)?, span.since)?;
        sums.push(UnmatchedSums { currency: row.currency, payments: row.payments, amount });
    }
    Ok(sums)
}

impl IncomeQuery {
    fn row(&self, key: IncomeKey, sums: [i128; 6]) -> Result<IncomeRow, OperationError> {
        let (day, [provider, product_id, os], currency) = key;
        let mut figures = [0; 6];
        for (figure_of, sum) in figures.iter_mut().zip(sums) {
            *figure_of = figure(sum, self.span.since)?;
        }
        let [payments, amount, fee, refunded, charge, bonus] = figures;
        let named = |group, name| self.groups.contains(&group).then_some(name);
        Ok(IncomeRow {
            day,
            provider: named(IncomeGroup::Provider, provider),
            product_id: named(IncomeGroup::Product, product_id),
            os: named(IncomeGroup::Os, os),
            currency,
            sums: IncomeSums { payments, amount, fee, refunded, charge, bonus },
        })
    }
}

fn figure(sum: i128, since: OffsetDateTime) -> Result<i64, OperationError> {
    i64::try_from(sum).map_err(|_| sums_too_large("since", rfc3339(since)).into())
}

pub(super) fn number(text: &str) -> Result<i128, StoreError> {
    text.parse().map_err(|_| StoreError::damaged("topup_payments"))
}
