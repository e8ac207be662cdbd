//! The audit: reads everything about money in one snapshot and names every difference
//! (docs/audit.md). The rows stream through; only sums and the first differences stay.

mod checkpoint;
mod copied;
mod full;
mod naming;
mod noted;
mod since;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use domain::audit::{Check, Finding, Findings, Sums};
use serde::Serialize;
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection, Row as _};
use time::OffsetDateTime;

use self::checkpoint::{Checkpoint, Counts};
use super::{Store, StoreError};

pub(super) use noted::LastAudits;
pub use noted::{AuditScope, LastAudit};

/// What is asked of an audit.
#[derive(Debug, Clone, Default)]
pub struct AuditOptions {
    /// Go on from this checkpoint instead of reading everything.
    pub since: Option<PathBuf>,
    /// Write a checkpoint here when nothing differs.
    pub checkpoint: Option<PathBuf>,
}

/// Is told, every few thousand rows, how many were read and about how many there are.
pub type AuditProgress = Box<dyn Fn(u64, u64) + Send + Sync>;

/// What an audit looked at, and what it found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditReport {
    /// Whether nothing differs.
    pub clean: bool,
    /// When the snapshot was taken, database time.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// When the checkpoint was taken that the audit went on from.
    #[serde(with = "time::serde::rfc3339::option")]
    pub since: Option<OffsetDateTime>,
    /// Wallets that were checked.
    pub wallets: u64,
    /// Ledger entries that were checked.
    pub entries: u64,
    /// Exchanges that were checked.
    pub exchanges: u64,
    /// Credits that were checked.
    pub credits: u64,
    /// Number of differences.
    pub differences: u64,
    /// Number of differences of each kind that there is.
    pub kinds: BTreeMap<Check, u64>,
    /// Everything added up.
    pub all: AppTotals,
    /// By app.
    pub apps: BTreeMap<String, AppTotals>,
    /// The first differences of each kind.
    pub findings: Vec<Finding>,
    /// Why this audit is not among those that the database knows of; `None` where it is.
    pub not_noted: Option<String>,
}

/// What the wallets hold, and what went through the entries that were checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct AppTotals {
    /// Wallets.
    pub wallets: u64,
    /// Gifted currency in all of them.
    pub free_balance: i128,
    /// Charged currency in all of them.
    pub charge_balance: i128,
    /// What the entries did.
    #[serde(flatten)]
    pub sums: Sums,
}

impl AppTotals {
    fn merge(&mut self, other: &Self) {
        self.wallets += other.wallets;
        self.free_balance += other.free_balance;
        self.charge_balance += other.charge_balance;
        self.sums.merge(&other.sums);
    }
}

/// Why there is no report.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuditError {
    /// The checkpoint cannot be used or written, in words.
    #[error("{0}")]
    Checkpoint(String),
    /// The database is away.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<sqlx::Error> for AuditError {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

impl Store {
    /// Checks every wallet against its ledger and every ledger entry against its record; or, with
    /// `since`, what came after a checkpoint (docs/audit.md tells what each of them proves). What it
    /// came to is noted down in the database, where that may be written to.
    ///
    /// # Errors
    /// The database is away; the checkpoint is not one of ours or not of this database; a new one
    /// cannot be written.
    pub async fn audit(
        &self,
        options: AuditOptions,
        progress: AuditProgress,
    ) -> Result<AuditReport, AuditError> {
        let connecting = (*self.pool.connect_options()).clone();
        let keyring = self.directory.keyring()?;
        // In a task of its own, like every transaction; on sessions of its own, without the time
        // limit of requests.
        let task = tokio::spawn(async move {
            let mut snapshot = Snapshot::open(&connecting, progress).await?;
            let earlier = match &options.since {
                Some(path) => Some(Checkpoint::open(path, &keyring, &snapshot.database)?),
                None => None,
            };
            let outcome = match earlier {
                Some(checkpoint) => since::audit(&mut snapshot, checkpoint).await?,
                None => full::audit(&mut snapshot).await?,
            };
            if let (Some(path), 0) = (&options.checkpoint, outcome.findings.count()) {
                let key = keyring.first().checkpoint_key();
                checkpoint::write(&mut snapshot, path, &key, outcome.counts).await?;
            }
            let report = outcome.report(snapshot.at);
            snapshot.close().await;
            Ok(report)
        });
        let audited: Result<AuditReport, AuditError> =
            task.await.unwrap_or_else(|fault| Err(StoreError::Internal(format!("audit: {fault}")).into()));
        let mut report = audited?;
        report.not_noted = self.note_audit(&report).await.err().map(|error| error.to_string());
        Ok(report)
    }
}

/// Two sessions that see the database as of one moment.
struct Snapshot {
    first: PgConnection,
    second: PgConnection,
    at: OffsetDateTime,
    /// What tells this database from others that have the same master key.
    database: String,
    meter: Arc<Meter>,
}

impl Snapshot {
    async fn open(options: &PgConnectOptions, progress: AuditProgress) -> Result<Self, AuditError> {
        let mut first = begin(options).await?;
        let exported = first.fetch_one(sqlx::raw_sql("SELECT pg_export_snapshot()")).await?;
        let exported: String = exported.try_get(0)?;
        let mut second = begin(options).await?;
        // The name is PostgreSQL's own, of digits and hyphens.
        second
            .execute(sqlx::raw_sql(AssertSqlSafe(format!("SET TRANSACTION SNAPSHOT '{exported}'"))))
            .await?;
        let facts = sqlx::query!(
            r#"SELECT now() AS "at!",
                   (SELECT encode(sha256(value), 'hex') FROM master_key_check WHERE id = 1) AS database,
                   (SELECT sum(greatest(reltuples, 0))::bigint FROM pg_class WHERE oid IN
                       ('ledger_entries'::regclass, 'exchanges'::regclass, 'credits'::regclass)) AS rows"#
        )
        .fetch_one(&mut first)
        .await?;
        let rows = u64::try_from(facts.rows.unwrap_or_default()).unwrap_or_default();
        Ok(Self {
            first,
            second,
            at: facts.at,
            database: facts.database.unwrap_or_default(),
            meter: Arc::new(Meter { read: AtomicU64::new(0), expected: rows, progress }),
        })
    }

    async fn close(self) {
        // Nothing was written: however the sessions end, they end well.
        let _ = self.first.close().await;
        let _ = self.second.close().await;
    }
}

/// A session in a read-only transaction. Other time limits than those of requests: a sort of
/// millions of rows takes its time, and one session may wait for the other.
async fn begin(options: &PgConnectOptions) -> Result<PgConnection, AuditError> {
    let mut connection = PgConnection::connect_with(options).await?;
    let session = "SET statement_timeout = 0; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0; \
                   SET timezone = 'UTC'; SET jit = off; SET work_mem = '128MB'";
    connection.execute(sqlx::raw_sql(session)).await?;
    connection.execute(sqlx::raw_sql("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")).await?;
    Ok(connection)
}

/// Counts the rows that were read.
struct Meter {
    read: AtomicU64,
    expected: u64,
    progress: AuditProgress,
}

/// A [`Meter`] is told in such steps.
const METER_STEP: u64 = 4096;

impl Meter {
    /// To be called for each row with its number, from 1.
    fn row(&self, number: u64) {
        if number.is_multiple_of(METER_STEP) {
            let read = self.read.fetch_add(METER_STEP, Ordering::Relaxed) + METER_STEP;
            (self.progress)(read, self.expected.max(read));
        }
    }
}

/// What an audit came to.
struct Outcome {
    since: Option<OffsetDateTime>,
    findings: Findings,
    apps: BTreeMap<String, AppTotals>,
    entries: u64,
    exchanges: u64,
    credits: u64,
    /// Rows in all, for the next checkpoint.
    counts: Counts,
}

impl Outcome {
    fn report(self, at: OffsetDateTime) -> AuditReport {
        let mut all = AppTotals::default();
        self.apps.values().for_each(|app| all.merge(app));
        let (differences, kinds) = (self.findings.count(), self.findings.counts());
        AuditReport {
            clean: differences == 0,
            at,
            since: self.since,
            wallets: all.wallets,
            entries: self.entries,
            exchanges: self.exchanges,
            credits: self.credits,
            differences,
            kinds,
            all,
            apps: self.apps,
            findings: self.findings.named(),
            not_noted: None,
        }
    }
}
