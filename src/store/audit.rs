//! The audit: reads everything about money in one snapshot and names every difference.

use serde::Serialize;
use sqlx::{Connection as _, PgConnection};

use super::{Store, StoreError};

/// How many differences of one kind are named; all are counted.
const NAMED_MAX: usize = 20;

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditFinding {
    /// Which check found it.
    pub check: &'static str,
    /// The app.
    pub app_id: String,
    /// The wallet, `biz_no` or ref at fault.
    pub subject: String,
    /// What differs.
    pub detail: String,
}

/// What an audit looked at, and what it found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditReport {
    /// Whether nothing differs.
    pub clean: bool,
    /// Wallets that were checked.
    pub wallets: i64,
    /// Ledger entries that were checked.
    pub entries: i64,
    /// Exchanges that were checked.
    pub exchanges: i64,
    /// Number of differences.
    pub differences: usize,
    /// The first of each kind.
    pub findings: Vec<AuditFinding>,
}

/// A row of any check.
struct Row {
    app_id: String,
    subject: String,
    detail: String,
}

impl Store {
    /// Checks every wallet against its ledger and every ledger entry against its record.
    ///
    /// # Errors
    /// The database is away.
    pub async fn audit(&self) -> Result<AuditReport, StoreError> {
        let options = self.pool.connect_options();
        // In a task of its own, like every transaction; on a session of its own, without the
        // time limit of requests.
        let task = tokio::spawn(async move {
            let mut connection = PgConnection::connect_with(&options).await?;
            let mut snapshot =
                connection.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
            let report = audit_snapshot(&mut snapshot).await;
            snapshot.rollback().await?;
            report
        });
        task.await.unwrap_or_else(|fault| Err(StoreError::Internal(format!("audit: {fault}"))))
    }
}

async fn audit_snapshot(connection: &mut PgConnection) -> Result<AuditReport, StoreError> {
    let counts = sqlx::query!(
        r#"SELECT (SELECT count(*) FROM wallets) AS "wallets!", (SELECT count(*) FROM ledger_entries) AS "entries!",
                  (SELECT count(*) FROM exchanges) AS "exchanges!""#
    )
    .fetch_one(&mut *connection)
    .await?;
    let mut report = AuditReport {
        clean: true,
        wallets: counts.wallets,
        entries: counts.entries,
        exchanges: counts.exchanges,
        differences: 0,
        findings: Vec::new(),
    };
    report.add("ledger chain", chain_breaks(connection).await?);
    report.add("wallet against ledger", wallet_differences(connection).await?);
    report.add("deduction without its record", entries_without_record(connection).await?);
    report.add("record without its deduction", exchanges_without_entry(connection).await?);
    report.add("credit without its entry", credits_without_entry(connection).await?);
    Ok(report)
}

impl AuditReport {
    fn add(&mut self, check: &'static str, rows: Vec<Row>) {
        self.clean &= rows.is_empty();
        self.differences += rows.len();
        self.findings.extend(rows.into_iter().take(NAMED_MAX).map(|row| AuditFinding {
            check,
            app_id: row.app_id,
            subject: row.subject,
            detail: row.detail,
        }));
    }
}

/// Entries that do not follow from the one before: a gap in the sequence, a balance that is not
/// the one before plus the change, a sign that does not fit the kind, a negative balance.
async fn chain_breaks(connection: &mut PgConnection) -> Result<Vec<Row>, StoreError> {
    Ok(sqlx::query_as!(
        Row,
        r#"SELECT app_id AS "app_id!", open_id AS "subject!",
                  format('entry %s: %s', seq, CASE
                      WHEN seq <> seq_before + 1 THEN format('expected entry %s', seq_before + 1)
                      WHEN free_balance <> free_before + free_change
                          THEN format('free balance %s is not %s %s', free_balance, free_before, signed_free)
                      WHEN charge_balance <> charge_before + charge_change
                          THEN format('charge balance %s is not %s %s', charge_balance, charge_before, signed_charge)
                      WHEN free_balance < 0 OR charge_balance < 0 THEN 'negative balance'
                      ELSE format('a %s cannot change the purses by %s and %s', kind, free_change, charge_change)
                  END) AS "detail!"
           FROM (
               SELECT *, lag(seq, 1, 0::bigint) OVER wallet AS seq_before,
                      lag(free_balance::numeric, 1, 0) OVER wallet AS free_before,
                      lag(charge_balance::numeric, 1, 0) OVER wallet AS charge_before,
                      to_char(free_change, 'SGFM9999999999999999999') AS signed_free,
                      to_char(charge_change, 'SGFM9999999999999999999') AS signed_charge
               FROM ledger_entries WINDOW wallet AS (PARTITION BY app_id, open_id ORDER BY seq)
           ) AS chained
           WHERE seq <> seq_before + 1
              OR free_balance <> free_before + free_change OR charge_balance <> charge_before + charge_change
              OR free_balance < 0 OR charge_balance < 0
              OR (kind = 'credit' AND (free_change < 0 OR charge_change < 0))
              OR (kind = 'exchange' AND (free_change > 0 OR charge_change > 0))
              OR kind NOT IN ('credit', 'exchange')
           ORDER BY app_id, open_id, seq"#
    )
    .fetch_all(connection)
    .await?)
}

/// Wallets that are not what their ledger adds up to, and entries of wallets that are not there.
async fn wallet_differences(connection: &mut PgConnection) -> Result<Vec<Row>, StoreError> {
    Ok(sqlx::query_as!(
        Row,
        r#"SELECT coalesce(w.app_id, l.app_id) AS "app_id!", coalesce(w.open_id, l.open_id) AS "subject!",
                  CASE WHEN w.app_id IS NULL THEN format('%s entries of a wallet that does not exist', l.entries)
                       ELSE format('the wallet holds free %s, charge %s after %s entries; the ledger adds up to free %s, charge %s in %s entries',
                                   w.free_balance, w.charge_balance, w.entry_count,
                                   coalesce(l.free, 0), coalesce(l.charge, 0), coalesce(l.entries, 0))
                  END AS "detail!"
           FROM wallets w FULL JOIN (
               SELECT app_id, open_id, sum(free_change) AS free, sum(charge_change) AS charge, count(*) AS entries,
                      max(seq) AS last_seq
               FROM ledger_entries GROUP BY app_id, open_id
           ) AS l ON l.app_id = w.app_id AND l.open_id = w.open_id
           WHERE w.app_id IS NULL
              OR w.free_balance <> coalesce(l.free, 0) OR w.charge_balance <> coalesce(l.charge, 0)
              OR w.entry_count <> coalesce(l.entries, 0) OR w.entry_count <> coalesce(l.last_seq, 0)
              OR w.free_balance < 0 OR w.charge_balance < 0
           ORDER BY 1, 2"#
    )
    .fetch_all(connection)
    .await?)
}

/// Ledger entries whose `biz_no` or ref has no record that points back at them.
async fn entries_without_record(connection: &mut PgConnection) -> Result<Vec<Row>, StoreError> {
    Ok(sqlx::query_as!(
        Row,
        r#"SELECT e.app_id, e.open_id AS "subject!",
                  format('entry %s: %s %s has no record', e.seq, e.kind, e.reference) AS "detail!"
           FROM ledger_entries e
           LEFT JOIN exchanges x ON e.kind = 'exchange' AND x.app_id = e.app_id AND x.biz_no = e.reference
                AND x.open_id = e.open_id AND x.seq = e.seq
           LEFT JOIN credits c ON e.kind = 'credit' AND c.app_id = e.app_id AND c.ref = e.reference
                AND c.open_id = e.open_id AND c.seq = e.seq
           WHERE x.app_id IS NULL AND c.app_id IS NULL
           ORDER BY e.app_id, e.open_id, e.seq"#
    )
    .fetch_all(connection)
    .await?)
}

/// Records whose ledger entry is missing, or deducts another amount.
async fn exchanges_without_entry(connection: &mut PgConnection) -> Result<Vec<Row>, StoreError> {
    Ok(sqlx::query_as!(
        Row,
        r#"SELECT x.app_id, x.biz_no AS "subject!",
                  CASE WHEN e.app_id IS NULL THEN format('no entry %s in wallet %s', x.seq, x.open_id)
                       ELSE format('amount %s, but entry %s of wallet %s takes %s', x.amount, x.seq, x.open_id,
                                   -(e.free_change::numeric + e.charge_change))
                  END AS "detail!"
           FROM exchanges x
           LEFT JOIN ledger_entries e ON e.app_id = x.app_id AND e.open_id = x.open_id AND e.seq = x.seq
                AND e.kind = 'exchange' AND e.reference = x.biz_no
           WHERE e.app_id IS NULL OR x.amount <> -(e.free_change::numeric + e.charge_change)
           ORDER BY x.app_id, x.biz_no"#
    )
    .fetch_all(connection)
    .await?)
}

/// Credits whose ledger entry is missing.
async fn credits_without_entry(connection: &mut PgConnection) -> Result<Vec<Row>, StoreError> {
    Ok(sqlx::query_as!(
        Row,
        r#"SELECT c.app_id, c.ref AS "subject!", format('no entry %s in wallet %s', c.seq, c.open_id) AS "detail!"
           FROM credits c
           LEFT JOIN ledger_entries e ON e.app_id = c.app_id AND e.open_id = c.open_id AND e.seq = c.seq
                AND e.kind = 'credit' AND e.reference = c.ref
           WHERE e.app_id IS NULL
           ORDER BY c.app_id, c.ref"#
    )
    .fetch_all(connection)
    .await?)
}
