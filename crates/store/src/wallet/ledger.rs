//! Reading of a wallet's ledger: pages, totals, and one change by an operator.

use domain::ids::{AppId, CreditRef, OpenId};
use domain::ledger::REF_MARK;
use serde::Serialize;
use time::OffsetDateTime;

use super::{LedgerLine, Wallet, ledger_line};
use crate::error::{Result, StoreError};
use crate::paging::ListPage;
use crate::store::Store;

/// How many entries a page examines at most. It limits the time of a search in a wallet with
/// millions of entries. The next page continues from there.
const LOOKED_THROUGH_MAX: i64 = 100_000;
/// The maximum number of entries for totals.
const ADDED_UP_MAX: i64 = 20_000;

domain::word_enum! {
    /// The kind of a ledger entry.
    pub enum EntryKind {
        /// A credit by an operator.
        Credit = "credit",
        /// A debit by an operator.
        Debit = "debit",
        /// A deduction by an exchange.
        Exchange = "exchange",
        /// A present by a game.
        Present = "present",
        /// An exchange, or a part of it, that was given back.
        Cancel = "cancel",
        /// A payment that was credited.
        Topup = "topup",
        /// The coins that a refund of a payment took.
        Refund = "refund",
        /// The part of the wallet's debt that a top-up has settled.
        Settlement = "settlement",
    }
}

/// A filter of entries. The default lets all entries through.
#[derive(Debug, Clone, Default)]
pub struct LedgerFilter {
    /// Only of this kind.
    pub kind: Option<EntryKind>,
    /// At or after this time.
    pub since: Option<OffsetDateTime>,
    /// Before this time.
    pub until: Option<OffsetDateTime>,
    /// The entry with this `biz_no`, and that with this ref.
    pub reference: Option<String>,
}

/// A ledger entry with its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "LedgerEntry")]
pub struct LedgerRow {
    /// The entry.
    #[serde(flatten)]
    pub line: LedgerLine,
    /// Name of the item, remark of the game, or note of the operator. It may be empty.
    pub text: String,
    /// The `biz_no` of the exchange that a cancel gives back.
    pub pay_biz_no: Option<String>,
    /// The operator who made it.
    #[serde(skip)]
    pub operator: Option<String>,
}

/// A page of entries, newest first. The cursor is the `seq` of the last entry that was examined. A page
/// that has examined 100,000 entries without a match has no items and a `next`.
pub type LedgerPage = ListPage<LedgerRow, i64>;

/// Totals of a wallet's entries. Sums are text, because they may need more than 64 bits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WalletTotals {
    /// Gifted currency that came in.
    pub free_in: String,
    /// Charged currency that came in.
    pub charge_in: String,
    /// Gifted currency that went out.
    pub free_out: String,
    /// Charged currency that went out.
    pub charge_out: String,
    /// Time of the first entry.
    #[serde(with = "time::serde::rfc3339::option")]
    pub first_at: Option<OffsetDateTime>,
    /// Time of the last entry.
    #[serde(with = "time::serde::rfc3339::option")]
    pub last_at: Option<OffsetDateTime>,
}

/// The part of a wallet's ledger that is in archives: its first entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchivedPart {
    /// Number of these entries.
    pub entries: i64,
    /// Gifted currency after the last of them.
    pub free_balance: i64,
    /// Charged currency after the last of them.
    pub charge_balance: i64,
    /// The file with the newest of them.
    pub file: String,
}

/// A change that an operator made: a credit, a debit or a cancel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeRecord {
    /// The player.
    pub open_id: String,
    /// Its ledger entry.
    pub line: LedgerLine,
    /// The exchange that a cancel gives back.
    pub of_biz_no: Option<String>,
}

impl Store {
    /// At most `limit` entries of a wallet, newest first. With `after`, only entries with a lower
    /// `seq`. Entries that are added meanwhile do not change later pages.
    pub async fn ledger(
        &self,
        app_id: &AppId,
        open_id: &OpenId,
        filter: &LedgerFilter,
        after: Option<i64>,
        limit: u32,
    ) -> Result<LedgerPage> {
        let Some(Wallet { entries: newest, .. }) = self.wallet(app_id, open_id).await? else {
            return Ok(LedgerPage { items: Vec::new(), next: None });
        };
        let archived = self.archived_part(app_id, open_id).await?;
        let oldest = archived.map_or(1, |archived| archived.entries.saturating_add(1));
        let (mut lowest, mut highest) =
            (oldest, after.map_or(newest, |after| newest.min(after.saturating_sub(1))));
        if let Some(reference) = &filter.reference {
            let (first, last) = self.entries_of(app_id, open_id, reference).await?;
            (lowest, highest) = (lowest.max(first), highest.min(last));
        }
        let floor = lowest.max(highest.saturating_sub(LOOKED_THROUGH_MAX - 1));
        let wanted = (floor, highest);
        let rows = self.ledger_rows(app_id, open_id, filter, wanted, i64::from(limit) + 1).await?;
        let page = ListPage::cut(rows, limit, |last| last.line.seq);
        Ok(ListPage { next: page.next.or((floor > lowest).then_some(floor)), ..page })
    }

    /// The newest entries from `floor` to `highest` that match the filter.
    pub(super) async fn ledger_rows(
        &self,
        app_id: &AppId,
        open_id: &OpenId,
        filter: &LedgerFilter,
        (floor, highest): (i64, i64),
        limit: i64,
    ) -> Result<Vec<LedgerRow>> {
        let rows = sqlx::query!(
            r#"SELECT e.seq AS "seq!", e.kind AS "kind!", e.reference AS "reference!", e.of_biz_no,
                      e.free_change AS "free_change!", e.charge_change AS "charge_change!",
                      e.free_balance AS "free_balance!", e.charge_balance AS "charge_balance!", e.at AS "at!",
                      coalesce(i.product_name, e.remark, '') AS "text!", line.operator AS "operator?"
               FROM (
                   SELECT * FROM ledger_entries
                   WHERE (app_no, wallet_no) = (SELECT app_no, wallet_no FROM players WHERE app_id = $1 AND open_id = $2)
                     AND seq BETWEEN $3 AND $4
                     AND ($5::text IS NULL OR kind = $5)
                     AND ($6::timestamptz IS NULL OR at >= $6) AND ($7::timestamptz IS NULL OR at < $7)
                     AND ($8::text IS NULL OR reference IN ($8, '!' || $8, '$' || $8, '%' || $8, '&' || $8))
                   ORDER BY seq DESC LIMIT $9
               ) e
               LEFT JOIN items i ON i.app_no = e.app_no AND i.item_id = e.item_id
               -- The line was written in the transaction of the entry, so few lines are read.
               LEFT JOIN LATERAL (
                   SELECT operator FROM operator_log
                   WHERE app_id = $1 AND e.reference LIKE '!%' AND at BETWEEN e.at AND e.at + interval '5 minutes'
                     AND (action IN ('wallet.credit', 'wallet.debit', 'wallet.cancel') AND subject = $2
                          AND after ->> 'ref' = substr(e.reference, 2)
                          -- All credits of one call have the moment that its line names.
                          OR action = 'wallet.credits' AND (after ->> 'at')::timestamptz = e.at)
                   ORDER BY at LIMIT 1) AS line ON true
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
            operator: row.operator,
            text: row.text,
            pay_biz_no: row.of_biz_no,
            line: ledger_line!(row),
        });
        Ok(rows.collect())
    }

    /// The first and the last entry with this `biz_no` or ref. There are at most two. Without any,
    /// the range is empty.
    async fn entries_of(&self, app_id: &AppId, open_id: &OpenId, reference: &str) -> Result<(i64, i64)> {
        let found = sqlx::query!(
            r#"SELECT coalesce(min(e.seq), 1) AS "first!", coalesce(max(e.seq), 0) AS "last!"
               FROM players p JOIN ledger_entries e
                   ON e.app_no = p.app_no AND e.wallet_no = p.wallet_no AND e.reference IN ($3, '!' || $3, '$' || $3, '%' || $3, '&' || $3)
               WHERE p.app_id = $1 AND p.open_id = $2"#,
            app_id.as_str(),
            open_id.as_str(),
            reference
        )
        .fetch_one(&self.pool)
        .await?;
        Ok((found.first, found.last))
    }

    /// The part of a wallet's ledger that is in archives. `None` when nothing is.
    pub async fn archived_part(&self, app_id: &AppId, open_id: &OpenId) -> Result<Option<ArchivedPart>> {
        Ok(sqlx::query_as!(
            ArchivedPart,
            r#"SELECT s.seq AS entries, s.free_balance, s.charge_balance, coalesce(a.file, '') AS "file!"
               FROM players p
               JOIN archived_wallets s ON s.app_no = p.app_no AND s.wallet_no = p.wallet_no
               LEFT JOIN archives a ON a.app_id = p.app_id AND a.archive_no = s.archive_no
               WHERE p.app_id = $1 AND p.open_id = $2 ORDER BY s.archive_no DESC LIMIT 1"#,
            app_id.as_str(),
            open_id.as_str()
        )
        .fetch_optional(&self.pool)
        .await?)
    }

    /// The totals of a wallet, with its archived entries. `None` for more than 20,000 others, which would take too long
    /// for a page.
    pub async fn wallet_totals(&self, wallet: &Wallet) -> Result<Option<WalletTotals>> {
        let (Ok(app_id), Ok(open_id)) = (AppId::parse(&wallet.app_id), OpenId::parse(&wallet.open_id)) else {
            return Err(StoreError::damaged("wallets"));
        };
        let archived = self.archived_part(&app_id, &open_id).await?.map_or(0, |archived| archived.entries);
        if wallet.entries.saturating_sub(archived) > ADDED_UP_MAX {
            return Ok(None);
        }
        let totals = sqlx::query_as!(
            WalletTotals,
            r#"SELECT (coalesce(s.free_in, 0) + coalesce(e.free_in, 0))::text AS "free_in!",
                      (coalesce(s.charge_in, 0) + coalesce(e.charge_in, 0))::text AS "charge_in!",
                      (coalesce(s.free_in - s.free_balance, 0) + coalesce(e.free_out, 0))::text AS "free_out!",
                      (coalesce(s.charge_in - s.charge_balance, 0) + coalesce(e.charge_out, 0))::text AS "charge_out!",
                      coalesce(s.first_at, e.first_at) AS first_at, coalesce(e.last_at, s.last_at) AS last_at
               FROM players p
               LEFT JOIN LATERAL (
                   SELECT s.* FROM archived_wallets s WHERE s.app_no = p.app_no AND s.wallet_no = p.wallet_no
                   ORDER BY s.archive_no DESC LIMIT 1) s ON true
               CROSS JOIN LATERAL (
                   SELECT sum(free_change) FILTER (WHERE free_change > 0) AS free_in,
                       sum(charge_change) FILTER (WHERE charge_change > 0) AS charge_in,
                       -sum(free_change) FILTER (WHERE free_change < 0) AS free_out,
                       -sum(charge_change) FILTER (WHERE charge_change < 0) AS charge_out,
                       min(at) AS first_at, max(at) AS last_at
                   FROM ledger_entries e
                   WHERE e.app_no = p.app_no AND e.wallet_no = p.wallet_no AND e.seq IS NOT NULL) e
               WHERE p.app_id = $1 AND p.open_id = $2"#,
            wallet.app_id,
            wallet.open_id
        )
        .fetch_one(&self.pool)
        .await?;
        Ok(Some(totals))
    }

    /// What an operator changed with this ref. `None` when nothing has used it.
    pub async fn change_by_ref(&self, app_id: &AppId, reference: &CreditRef) -> Result<Option<ChangeRecord>> {
        let row = sqlx::query!(
            r#"SELECT open_id AS "open_id!", of_biz_no, seq AS "seq!", kind AS "kind!",
                    reference AS "reference!", free_change AS "free_change!",
                    charge_change AS "charge_change!", numbers.free_balance AS "free_balance!",
                    numbers.charge_balance AS "charge_balance!", at AS "at!"
             FROM numbers JOIN wallets w USING (app_no, wallet_no)
             WHERE app_no = (SELECT app_no FROM apps WHERE app_id = $1) AND reference = $2"#,
            app_id.as_str(),
            format!("{REF_MARK}{}", reference.as_str())
        )
        .fetch_optional(&self.pool)
        .await?;
        Ok(row.map(|row| ChangeRecord {
            open_id: row.open_id,
            of_biz_no: row.of_biz_no,
            line: ledger_line!(row),
        }))
    }
}
