//! What there is to see of a wallet's ledger: pages, the whole of it, sums, and one credit.

use domain::fields::Expected;
use domain::ids::{AppId, CreditRef, OpenId};
use domain::ledger::{CREDIT, EXCHANGE};
use serde::Serialize;
use time::OffsetDateTime;

use super::{LedgerLine, Wallet};
use crate::{Store, StoreError};

/// Entries that a page looks through at most, whatever its filter: it bounds the time of a look-up
/// in a wallet that has millions. The next page goes on from there.
const LOOKED_THROUGH_MAX: i64 = 100_000;
/// Entries of a wallet that are added up at most.
const ADDED_UP_MAX: i64 = 20_000;

/// What made a ledger entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// An operator gave.
    Credit,
    /// An exchange took.
    Exchange,
}

impl EntryKind {
    /// The word in the database.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Credit => CREDIT,
            Self::Exchange => EXCHANGE,
        }
    }

    /// Reads the word.
    pub fn parse(text: &str) -> Result<Self, Expected> {
        match text {
            CREDIT => Ok(Self::Credit),
            EXCHANGE => Ok(Self::Exchange),
            _ => Err(Expected::new("credit or exchange")),
        }
    }
}

/// Which entries are wanted; the default is all.
#[derive(Debug, Clone, Default)]
pub struct LedgerFilter {
    /// Of this kind alone.
    pub kind: Option<EntryKind>,
    /// At or after this moment.
    pub since: Option<OffsetDateTime>,
    /// Before this moment.
    pub until: Option<OffsetDateTime>,
    /// The exchange with this `biz_no`, and the credit with this ref.
    pub reference: Option<String>,
}

/// A ledger entry and what it was for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LedgerRow {
    /// The entry.
    #[serde(flatten)]
    pub line: LedgerLine,
    /// Name of what was bought, or the note of the credit, which may be empty.
    pub text: String,
}

/// Some of the entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LedgerPage {
    /// Newest first.
    pub items: Vec<LedgerRow>,
    /// Where to go on, when there are older entries that were not looked at: entries whose `seq`
    /// is below it. A page that looked through 100,000 entries in vain has no items and a `next`.
    pub next: Option<i64>,
}

/// What a wallet's entries add up to. Sums are text: they may need more than 64 bits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WalletTotals {
    /// Credits.
    pub credits: i64,
    /// Gifted currency that they gave.
    pub credited_free: String,
    /// Charged currency that they gave.
    pub credited_charge: String,
    /// Exchanges.
    pub exchanges: i64,
    /// Gifted currency that they took.
    pub deducted_free: String,
    /// Charged currency that they took.
    pub deducted_charge: String,
    /// Time of the first entry.
    #[serde(with = "time::serde::rfc3339::option")]
    pub first_at: Option<OffsetDateTime>,
    /// Time of the last entry.
    #[serde(with = "time::serde::rfc3339::option")]
    pub last_at: Option<OffsetDateTime>,
}

/// A credit that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CreditRecord {
    /// The app.
    pub app_id: String,
    /// The player.
    pub open_id: String,
    /// Its ledger entry.
    #[serde(flatten)]
    pub line: LedgerLine,
    /// The operator's note; may be empty.
    pub note: String,
}

impl Store {
    /// Entries of a wallet, newest first, `limit` at most, and of those whose `seq` is below
    /// `after`, where that is given. Entries that are added meanwhile change no later page.
    pub async fn ledger(
        &self,
        app_id: &AppId,
        open_id: &OpenId,
        filter: &LedgerFilter,
        after: Option<i64>,
        limit: u32,
    ) -> Result<LedgerPage, StoreError> {
        let Some(newest) = self.entry_count(app_id, open_id).await? else {
            return Ok(LedgerPage { items: Vec::new(), next: None });
        };
        let (mut lowest, mut highest) =
            (1, after.map_or(newest, |after| newest.min(after.saturating_sub(1))));
        if let Some(reference) = &filter.reference {
            let (first, last) = self.entries_of(app_id, open_id, reference).await?;
            (lowest, highest) = (lowest.max(first), highest.min(last));
        }
        let floor = lowest.max(highest.saturating_sub(LOOKED_THROUGH_MAX - 1));
        let wanted = (floor, highest);
        let mut items = self.ledger_rows(app_id, open_id, filter, wanted, i64::from(limit) + 1).await?;
        let wanted = usize::try_from(limit).unwrap_or(usize::MAX);
        let has_more = items.len() > wanted;
        items.truncate(wanted);
        let next = match items.last() {
            Some(last) if has_more => Some(last.line.seq),
            Some(_) | None => (floor > lowest).then_some(floor),
        };
        Ok(LedgerPage { items, next })
    }

    /// Of the entries from `floor` to `highest` the newest that the filter lets through.
    async fn ledger_rows(
        &self,
        app_id: &AppId,
        open_id: &OpenId,
        filter: &LedgerFilter,
        (floor, highest): (i64, i64),
        limit: i64,
    ) -> Result<Vec<LedgerRow>, StoreError> {
        let rows = sqlx::query!(
            r#"SELECT e.seq AS "seq!", e.kind AS "kind!", e.reference AS "reference!",
                      e.free_change AS "free_change!", e.charge_change AS "charge_change!",
                      e.free_balance AS "free_balance!", e.charge_balance AS "charge_balance!", e.at AS "at!",
                      coalesce(x.product_name, c.note, '') AS "text!"
               FROM (
                   SELECT seq, kind, reference, free_change, charge_change, free_balance, charge_balance, at
                   FROM ledger_entries
                   WHERE app_id = $1 AND open_id = $2 AND seq BETWEEN $3 AND $4
                     AND ($5::text IS NULL OR kind = $5)
                     AND ($6::timestamptz IS NULL OR at >= $6) AND ($7::timestamptz IS NULL OR at < $7)
                     AND ($8::text IS NULL OR reference = $8)
                   ORDER BY seq DESC LIMIT $9
               ) e
               LEFT JOIN exchanges x ON e.kind = 'exchange' AND x.app_id = $1 AND x.biz_no = e.reference
               LEFT JOIN credits c ON e.kind = 'credit' AND c.app_id = $1 AND c.ref = e.reference
               ORDER BY e.seq DESC"#,
            app_id.as_str(),
            open_id.as_str(),
            floor,
            highest,
            filter.kind.map(EntryKind::as_str),
            filter.since,
            filter.until,
            filter.reference,
            limit
        )
        .fetch_all(&self.pool)
        .await?;
        let rows = rows.into_iter().map(|row| LedgerRow {
            line: LedgerLine::new(
                (row.seq, row.kind, row.reference),
                (row.free_change, row.charge_change),
                (row.free_balance, row.charge_balance),
                row.at,
            ),
            text: row.text,
        });
        Ok(rows.collect())
    }

    async fn entry_count(&self, app_id: &AppId, open_id: &OpenId) -> Result<Option<i64>, StoreError> {
        Ok(self.wallet(app_id, open_id).await?.map(|wallet| wallet.entries))
    }

    /// The first and the last entry of a wallet that have this `biz_no` or ref: there are two at
    /// most. Nothing lies between them where there is none.
    async fn entries_of(
        &self,
        app_id: &AppId,
        open_id: &OpenId,
        reference: &str,
    ) -> Result<(i64, i64), StoreError> {
        let found = sqlx::query!(
            r#"SELECT coalesce(min(seq), 1) AS "first!", coalesce(max(seq), 0) AS "last!" FROM (
                   SELECT seq FROM exchanges WHERE app_id = $1 AND biz_no = $3 AND open_id = $2
                   UNION ALL SELECT seq FROM credits WHERE app_id = $1 AND ref = $3 AND open_id = $2
               ) found"#,
            app_id.as_str(),
            open_id.as_str(),
            reference
        )
        .fetch_one(&self.pool)
        .await?;
        Ok((found.first, found.last))
    }

    /// What a wallet's entries add up to; `None` where there are more than 20,000 of them, which
    /// take longer than somebody wants to wait for a page.
    pub async fn wallet_totals(&self, wallet: &Wallet) -> Result<Option<WalletTotals>, StoreError> {
        if wallet.entries > ADDED_UP_MAX {
            return Ok(None);
        }
        let totals = sqlx::query_as!(
            WalletTotals,
            r#"SELECT count(*) FILTER (WHERE kind = 'credit') AS "credits!",
                      coalesce(sum(free_change) FILTER (WHERE kind = 'credit'), 0)::text AS "credited_free!",
                      coalesce(sum(charge_change) FILTER (WHERE kind = 'credit'), 0)::text AS "credited_charge!",
                      count(*) FILTER (WHERE kind = 'exchange') AS "exchanges!",
                      coalesce(-sum(free_change) FILTER (WHERE kind = 'exchange'), 0)::text AS "deducted_free!",
                      coalesce(-sum(charge_change) FILTER (WHERE kind = 'exchange'), 0)::text AS "deducted_charge!",
                      min(at) AS first_at, max(at) AS last_at
               FROM ledger_entries WHERE app_id = $1 AND open_id = $2"#,
            wallet.app_id,
            wallet.open_id
        )
        .fetch_one(&self.pool)
        .await?;
        Ok(Some(totals))
    }

    /// The credit with this ref, `None` when the app has none.
    pub async fn credit_by_ref(
        &self,
        app_id: &AppId,
        reference: &CreditRef,
    ) -> Result<Option<CreditRecord>, StoreError> {
        let row = sqlx::query!(
            "SELECT c.open_id, c.note, e.seq, e.kind, e.reference, e.free_change, e.charge_change,
                    e.free_balance, e.charge_balance, e.at
             FROM credits c JOIN ledger_entries e USING (app_id, open_id, seq)
             WHERE c.app_id = $1 AND c.ref = $2",
            app_id.as_str(),
            reference.as_str()
        )
        .fetch_optional(&self.pool)
        .await?;
        Ok(row.map(|row| CreditRecord {
            app_id: app_id.to_string(),
            open_id: row.open_id,
            line: LedgerLine::new(
                (row.seq, row.kind, row.reference),
                (row.free_change, row.charge_change),
                (row.free_balance, row.charge_balance),
                row.at,
            ),
            note: row.note,
        }))
    }
}
