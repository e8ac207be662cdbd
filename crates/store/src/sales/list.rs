//! Lists of exchanges, presents and cancels by their time, newest first (contract 13.2.1).

#![expect(
    clippy::disallowed_methods,
    reason = "a wallet has an index of its own, so the statement has two forms"
)]

use std::fmt;
use std::str::FromStr;

use domain::fields::Expected;
use domain::ids::{AppId, BizNo, OpenId, Os, ZoneId};
use domain::ledger::told_reference;
use domain::rights::Apps;
use serde::Serialize;
use sqlx::AssertSqlSafe;
use time::OffsetDateTime;

use super::revenue::ItemFilter;
use crate::error::Result;
use crate::paging::{CursorKey, ListPage, TimeCursor};
use crate::search_period::is_bounded;
use crate::store::Store;

/// How many entries of an app a page examines at most. The next page continues from there.
const LOOKED_THROUGH_MAX: i64 = 100_000;

domain::word_enum! {
    /// What a list shows.
    pub enum ListedKind {
        /// A deduction by an exchange.
        Exchange = "exchange",
        /// A present by a game.
        Present = "present",
        /// An exchange, or a part of it, that was given back.
        Cancel = "cancel",
    }
}

/// A zone: what a `zone_id` has before its first underscore; or a whole `zone_id`, with the role, as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone(String);

impl Zone {
    /// The accepted form, in words that follow "expected".
    pub const EXPECTED: &'static str = "a zone without an underscore, or a whole zone_id";

    /// Parses a zone.
    ///
    /// # Errors
    /// A text that no `zone_id` has before its underscore, and that is none.
    pub fn parse(text: &str) -> Result<Self, Expected> {
        let is_zone = (1..=126).contains(&text.len())
            && !text.contains(|letter: char| letter.is_control() || "_&=".contains(letter));
        if is_zone || ZoneId::parse(text).is_ok() {
            Ok(Self(text.to_owned()))
        } else {
            Err(Expected::new(Self::EXPECTED))
        }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The zone alone.
    #[must_use]
    pub fn without_role(&self) -> &str {
        self.0.split_once('_').map_or(self.as_str(), |(zone, _)| zone)
    }

    /// Whether it is a whole `zone_id`.
    #[must_use]
    pub fn has_role(&self) -> bool {
        self.0.contains('_')
    }
}

/// A filter. The default lets all through.
#[derive(Debug, Clone, Default)]
pub struct SaleFilter {
    /// Only of this app.
    pub app_id: Option<AppId>,
    /// Only of these apps.
    pub apps: Apps,
    /// At or after this time.
    pub since: Option<OffsetDateTime>,
    /// Before this time.
    pub until: Option<OffsetDateTime>,
    /// Only of this player.
    pub open_id: Option<OpenId>,
    /// Only of this zone, or of this `zone_id`.
    pub zone: Option<Zone>,
    /// Only of these items.
    pub item: Option<ItemFilter>,
    /// Only of players on this platform. An operator's cancel has that of its exchange.
    pub os: Option<Os>,
    /// Only of this kind.
    pub kind: Option<ListedKind>,
}

impl SaleFilter {
    /// Whether it looks in all apps for what no index has. In one app a page examines a limited number of entries.
    #[must_use]
    pub fn is_unbounded(&self) -> bool {
        let has_filter =
            self.zone.is_some() || self.item.is_some() || self.os.is_some() || self.kind.is_some();
        self.app_id.is_none() && has_filter
    }

    /// Whether it does so in no period or in a long one.
    #[must_use]
    pub fn lacks_period(&self, now: OffsetDateTime) -> bool {
        self.is_unbounded() && !is_bounded(self.since, self.until, now)
    }
}

/// An exchange, a present or a cancel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "Sale")]
pub struct SaleRow {
    /// The app.
    #[schemars(with = "AppId")]
    pub app_id: String,
    /// What it is.
    #[schemars(with = "ListedKind")]
    pub kind: String,
    /// The number of a game's exchange, present or cancel.
    #[schemars(with = "Option<BizNo>")]
    pub biz_no: Option<String>,
    /// The ref of an operator's cancel.
    #[serde(rename = "ref")]
    pub reference: Option<String>,
    /// The exchange that a cancel gives back.
    #[schemars(with = "Option<BizNo>")]
    pub pay_biz_no: Option<String>,
    /// The player.
    #[schemars(with = "OpenId")]
    pub open_id: String,
    /// Zone and role, as sent. Of a cancel: those of its exchange.
    pub zone_id: String,
    /// What was bought. Of a cancel: what its exchange bought. Null for a present.
    pub product_name: Option<String>,
    /// What was deducted, given or given back.
    pub amount: i64,
    /// Change of the gifted purse. A deduction is negative.
    pub free_change: i64,
    /// Change of the charged purse.
    pub charge_change: i64,
    /// Database time.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub created_at: OffsetDateTime,
}

/// What distinguishes rows of the same time: the number, and then the app. As text `<app_id>.<number>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SaleKey {
    reference: String,
    app_id: String,
}

/// A position in the list.
pub type SaleCursor = TimeCursor<SaleKey>;
/// A page of the list, newest first. A page that has examined 100,000 entries of an app may have few items and a `next`.
pub type SalesPage = ListPage<SaleRow, SaleCursor>;

impl fmt::Display for SaleKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.app_id, self.reference)
    }
}

impl FromStr for SaleKey {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        let (app_id, reference) = text.split_once('.').ok_or(Expected::new(Self::EXPECTED))?;
        let app_id: AppId = app_id.parse()?;
        Ok(Self { reference: reference.to_owned(), app_id: app_id.to_string() })
    }
}

impl CursorKey for SaleKey {
    const EXPECTED: &'static str = "the place of an entry, as an earlier page gave it";
}

/// Entries of an app, newest first. `{wallet}` is a condition of the ledger. The parameters: app, since, until, the place to
/// go on from, whether that place is included, and how many are examined. Each table is sorted by itself, so that its index
/// by time is read no further than a page needs.
const LOOKED_THROUGH: &str = "
    SELECT * FROM (
        (SELECT app_no, at, reference, wallet_no, kind, free_change, charge_change, item_id, zone_id, os, of_biz_no
        FROM ledger_entries
        WHERE app_no = $1 AND at >= $2 AND at < $3 AND at <= $4
            AND ((at, reference) < ($4, $5) OR $6 AND (at, reference) = ($4, $5)) {wallet}
        ORDER BY at DESC, reference DESC LIMIT $7)
        UNION ALL
        (SELECT app_no, at, reference, wallet_no, kind, free_change, charge_change, item_id, zone_id, os, of_biz_no
        FROM archived_entries
        WHERE app_no = $1 AND at >= $2 AND at < $3 AND at <= $4
            AND ((at, reference) < ($4, $5) OR $6 AND (at, reference) = ($4, $5))
        ORDER BY at DESC, reference DESC LIMIT $7)) of_app
    ORDER BY at DESC, reference DESC LIMIT $7";

/// The rows of them that match. Each text is looked up by its key: a plan for all of them at once would read all tables.
const MATCHING: &str = "
SELECT e.kind, e.reference, e.of_biz_no, w.open_id, sold.zone_id, i.product_name, e.free_change, e.charge_change, e.at
FROM ({looked_through}) e
CROSS JOIN LATERAL (SELECT open_id FROM wallets w WHERE w.app_no = $1 AND w.wallet_no = e.wallet_no OFFSET 0) w
LEFT JOIN LATERAL (
    SELECT item_id, zone_id, os FROM numbers x WHERE x.app_no = $1 AND x.reference = e.of_biz_no OFFSET 0) x ON true
CROSS JOIN LATERAL (
    SELECT coalesce(x.item_id, e.item_id) AS item_id, coalesce(x.zone_id, e.zone_id) AS zone_id,
        coalesce(x.os, e.os) AS os) sold
LEFT JOIN LATERAL (
    SELECT product_name FROM items i WHERE i.app_no = $1 AND i.item_id = sold.item_id OFFSET 0) i ON true
WHERE e.kind IN ('exchange', 'present', 'cancel') AND ($8::bigint IS NULL OR e.wallet_no = $8)
    AND ($9::text IS NULL OR e.kind = $9) AND ($10::text IS NULL OR $10 IN (split_part(sold.zone_id, '_', 1), sold.zone_id))
    AND ($11::text IS NULL OR i.product_name = $11
        OR $13 AND strpos(lower(i.product_name COLLATE \"C\"), lower($11 COLLATE \"C\")) > 0)
    AND ($14::text IS NULL OR sold.os = $14)
ORDER BY e.at DESC, e.reference DESC LIMIT $12";

#[derive(sqlx::FromRow)]
struct StoredSale {
    kind: String,
    reference: String,
    of_biz_no: Option<String>,
    open_id: String,
    zone_id: String,
    product_name: Option<String>,
    free_change: i64,
    charge_change: i64,
    at: OffsetDateTime,
}

impl StoredSale {
    fn into_row(self, app_id: &str) -> (SaleKey, SaleRow) {
        let key = SaleKey { reference: self.reference.clone(), app_id: app_id.to_owned() };
        let (biz_no, reference) = told_reference(&self.reference);
        let (biz_no, reference) = (biz_no.map(str::to_owned), reference.map(str::to_owned));
        let row = SaleRow {
            app_id: app_id.to_owned(),
            kind: self.kind,
            biz_no,
            reference,
            pay_biz_no: self.of_biz_no,
            open_id: self.open_id,
            zone_id: self.zone_id,
            product_name: self.product_name,
            amount: (self.free_change + self.charge_change).abs(),
            free_change: self.free_change,
            charge_change: self.charge_change,
            created_at: self.at,
        };
        (key, row)
    }
}

/// The part of the order that a page reads in one app.
struct AppSales<'a> {
    app_id: String,
    app_no: i32,
    filter: &'a SaleFilter,
    since: OffsetDateTime,
    after: Option<&'a SaleCursor>,
}

impl Store {
    /// At most `limit` exchanges, presents and cancels, newest first. Without an app it reads app by app, so the work
    /// depends on the number of apps.
    pub async fn sales(
        &self,
        filter: &SaleFilter,
        after: Option<&SaleCursor>,
        limit: u32,
    ) -> Result<SalesPage> {
        let apps = sqlx::query!(
            "SELECT app_id, app_no FROM apps
             WHERE ($1::text IS NULL OR app_id = $1) AND ($2::text[] IS NULL OR app_id = ANY ($2))",
            filter.app_id.as_ref().map(AppId::as_str),
            filter.apps.ids()
        );
        let apps = apps.fetch_all(&self.pool).await?;
        let wanted = usize::try_from(limit).unwrap_or(usize::MAX).saturating_add(1);
        let mut since = filter.since.unwrap_or(OffsetDateTime::UNIX_EPOCH);
        let mut found: Vec<(SaleKey, SaleRow)> = Vec::new();
        // The newest place to which only a part of an app was examined.
        let mut through: Option<SaleCursor> = None;
        for app in apps {
            let part = AppSales { app_id: app.app_id, app_no: app.app_no, filter, since, after };
            let (rows, looked_through) = self.sales_of_app(&part, wanted).await?;
            found.extend(rows);
            found.sort_unstable_by(|one, other| place(other).cmp(&place(one)));
            found.truncate(wanted);
            if let Some(last) = found.get(wanted - 1) {
                since = since.max(last.1.created_at);
            }
            let later = |one: &SaleCursor, other: &SaleCursor| (one.at, &one.key) > (other.at, &other.key);
            through = match (through, looked_through) {
                (Some(known), Some(new)) => Some(if later(&known, &new) { known } else { new }),
                (known, new) => known.or(new),
            };
        }
        if let Some(through) = &through {
            found.retain(|row| place(row) >= (through.at, &through.key));
        }
        let page =
            ListPage::cut(found, limit, |(key, row)| SaleCursor { at: row.created_at, key: key.clone() });
        let items = page.items.into_iter().map(|(_, row)| row).collect();
        Ok(ListPage { items, next: page.next.or(through) })
    }

    /// The first rows of an app, and the place to which it was examined, where it was not examined to its end.
    async fn sales_of_app(
        &self,
        part: &AppSales<'_>,
        wanted: usize,
    ) -> Result<(Vec<(SaleKey, SaleRow)>, Option<SaleCursor>)> {
        let AppSales { app_id, app_no, filter, since, after } = part;
        let mut wallet_no = None;
        if let Some(open_id) = &filter.open_id {
            let wallet = sqlx::query_scalar!(
                "SELECT wallet_no FROM wallets WHERE app_no = $1 AND open_id = $2",
                app_no,
                open_id.as_str()
            );
            wallet_no = wallet.fetch_optional(&self.pool).await?;
            if wallet_no.is_none() {
                return Ok((Vec::new(), None));
            }
        }
        let wallet = if wallet_no.is_some() { "AND wallet_no = $8" } else { "" };
        let looked_through = LOOKED_THROUGH.replace("{wallet}", wallet);
        let until = filter.until.unwrap_or(time::macros::datetime!(9999-12-31 00:00 UTC));
        let (at, key) = after.map_or((until, None), |after| (after.at, Some(&after.key)));
        let reference = key.map_or("", |key| key.reference.as_str());
        // Rows of the same time and number are in the order of their apps.
        let is_included = key.is_some_and(|key| *app_id < key.app_id);
        let rows = sqlx::query_as(AssertSqlSafe(MATCHING.replace("{looked_through}", &looked_through)))
            .bind(app_no)
            .bind(since)
            .bind(until)
            .bind(at)
            .bind(reference)
            .bind(is_included)
            .bind(LOOKED_THROUGH_MAX)
            .bind(wallet_no)
            .bind(filter.kind.map(ListedKind::as_str))
            .bind(filter.zone.as_ref().map(Zone::as_str))
            .bind(filter.item.as_ref().map(|item| item.text.as_str()))
            .bind(i64::try_from(wanted).unwrap_or(i64::MAX))
            .bind(filter.item.as_ref().is_some_and(|item| item.is_part))
            .bind(filter.os.as_ref().map(Os::as_str));
        let rows: Vec<StoredSale> = rows.fetch_all(&self.pool).await?;
        let mut through = None;
        if rows.len() < wanted {
            let last = format!(
                "SELECT at, reference FROM ({looked_through}) e WHERE ($8::bigint IS NULL OR true) OFFSET $7 - 1"
            );
            let last = sqlx::query_as(AssertSqlSafe(last))
                .bind(app_no)
                .bind(since)
                .bind(until)
                .bind(at)
                .bind(reference)
                .bind(is_included)
                .bind(LOOKED_THROUGH_MAX)
                .bind(wallet_no);
            let last: Option<(OffsetDateTime, String)> = last.fetch_optional(&self.pool).await?;
            through = last.map(|(at, reference)| {
                let key = SaleKey { reference, app_id: app_id.clone() };
                SaleCursor { at, key }
            });
        }
        Ok((rows.into_iter().map(|row| row.into_row(app_id)).collect(), through))
    }
}

fn place((key, row): &(SaleKey, SaleRow)) -> (OffsetDateTime, &SaleKey) {
    (row.created_at, key)
}
