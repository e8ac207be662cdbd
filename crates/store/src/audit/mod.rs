//! The audit: it reads all data about money in one snapshot and reports every difference
//! (docs/audit.md). Memory holds only sums and the first differences.

mod archived;
mod cancels;
mod checkpoint;
mod copy_reader;
mod details;
mod events;
mod full;
mod items;
mod log;
mod nodes;
mod refunds;
mod results;
mod since;
mod states;
mod topups;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use domain::audit::{Check, Finding, Findings, Sums};
use domain::operator_log::LogHead;
use serde::Serialize;
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection, Row as _};
use time::OffsetDateTime;

use self::checkpoint::Checkpoint;
use self::nodes::NodeSnapshot;
use crate::engine::Engine;
use crate::error::StoreError;
use crate::store::Store;

/// Options of an audit.
#[derive(Debug, Clone, Default)]
pub struct AuditOptions {
    /// Continue from this checkpoint, and do not read everything.
    pub since: Option<PathBuf>,
    /// Write a checkpoint to this file when there is no difference.
    pub checkpoint: Option<PathBuf>,
}

/// Gets the number of rows that were read, and the expected number, every few thousand rows.
pub type AuditProgress = Box<dyn Fn(u64, u64) + Send + Sync>;

/// The result of an audit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditReport {
    /// True when there is no difference.
    pub clean: bool,
    /// Database time of the snapshot.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// Time of the checkpoint from which the audit continued.
    #[serde(with = "time::serde::rfc3339::option")]
    pub since: Option<OffsetDateTime>,
    /// Wallets that were checked.
    pub wallets: u64,
    /// Ledger entries that were checked.
    pub entries: u64,
    /// Archived ledger entries, whose sums were checked.
    pub archived_entries: u64,
    /// Lines of the operator's log that were checked.
    pub operator_log_lines: u64,
    /// Number of differences.
    pub differences: u64,
    /// Number of differences of each kind.
    pub kinds: BTreeMap<Check, u64>,
    /// Totals of all apps.
    pub all: AppTotals,
    /// Totals of each app.
    pub apps: BTreeMap<String, AppTotals>,
    /// The first differences of each kind.
    pub findings: Vec<Finding>,
    /// The reason why the audit could not add its row to `audits`, or `None`.
    pub not_noted: Option<String>,
}

/// Totals of wallets and of the entries that were checked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct AppTotals {
    /// Number of wallets.
    pub wallets: u64,
    /// Gifted currency of all wallets.
    pub free_balance: i128,
    /// Charged currency of all wallets.
    pub charge_balance: i128,
    /// Sums of the entries, by kind.
    pub changes: Sums,
}

impl AppTotals {
    fn merge(&mut self, other: &Self) {
        self.wallets += other.wallets;
        self.free_balance += other.free_balance;
        self.charge_balance += other.charge_balance;
        self.changes.merge(&other.changes);
    }
}

/// The reason why an audit has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuditError {
    /// The checkpoint cannot be used or written.
    #[error("{0}")]
    Checkpoint(String),
    /// The store has failed.
    #[error(transparent)]
    Store(StoreError),
}

impl<E: Into<StoreError>> From<E> for AuditError {
    fn from(error: E) -> Self {
        Self::Store(error.into())
    }
}

impl Store {
    /// Audits everything, or with `since` what came after a checkpoint. docs/audit.md describes
    /// what each of them proves. It records the result in the database when it may write there.
    ///
    /// # Errors
    /// The checkpoint is refused, or a new one cannot be written.
    pub async fn audit(
        &self,
        options: AuditOptions,
        progress: AuditProgress,
    ) -> Result<AuditReport, AuditError> {
        let connecting = (*self.pool.connect_options()).clone();
        let (engine, hosts) = (self.engine.get(), self.hosts.clone());
        if engine == Engine::Citus && (options.since.is_some() || options.checkpoint.is_some()) {
            let cause = "an audit on Citus reads everything: leave --since and --checkpoint out";
            return Err(AuditError::Checkpoint(cause.to_owned()));
        }
        let keyring = self.app_cache.keyring()?;
        // It runs in a task of its own, like every transaction. Its sessions have no time limit of
        // requests.
        let task = tokio::spawn(async move {
            let mut snapshot = Snapshot::open(&connecting, progress).await?;
            if engine == Engine::Citus {
                snapshot.nodes = nodes::open(&connecting, &hosts).await?;
            }
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
                checkpoint::write(&mut snapshot, path, &key, &outcome).await?;
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

/// Two sessions that share one snapshot.
struct Snapshot {
    first: PgConnection,
    second: PgConnection,
    /// On Citus the money of each node, in a snapshot of that node.
    nodes: Vec<NodeSnapshot>,
    /// The address of both sessions.
    coordinator: PgConnectOptions,
    at: OffsetDateTime,
    /// Distinguishes this database from others with the same master key.
    database: String,
    meter: Arc<Meter>,
}

impl Snapshot {
    async fn open(options: &PgConnectOptions, progress: AuditProgress) -> Result<Self, AuditError> {
        let (mut first, second) = begin_both(options, "").await?;
        let facts = sqlx::query!(
            r#"SELECT now() AS "at!",
                   (SELECT encode(sha256(value), 'hex') FROM master_key_check WHERE id = 1) AS database,
                   (SELECT sum(greatest(reltuples, 0))::bigint FROM pg_class WHERE oid IN
                       ('ledger_entries'::regclass, 'operator_log'::regclass)) AS rows"#
        )
        .fetch_one(&mut first)
        .await?;
        let rows = u64::try_from(facts.rows.unwrap_or_default()).unwrap_or_default();
        Ok(Self {
            first,
            second,
            nodes: Vec::new(),
            coordinator: options.clone(),
            at: facts.at,
            database: facts.database.unwrap_or_default(),
            meter: Arc::new(Meter { read: AtomicU64::new(0), expected: rows, progress }),
        })
    }

    async fn close(self) {
        // Nothing was written, so an error at the end does not matter.
        let _ = self.first.close().await;
        let _ = self.second.close().await;
        for node in self.nodes {
            let _ = node.first.close().await;
            let _ = node.second.close().await;
        }
    }
}

/// Opens two sessions that share one snapshot. Each first runs `preparation`.
async fn begin_both(
    options: &PgConnectOptions,
    preparation: &'static str,
) -> Result<(PgConnection, PgConnection), AuditError> {
    let mut first = begin(options, preparation).await?;
    let exported = first.fetch_one(sqlx::raw_sql("SELECT pg_export_snapshot()")).await?;
    let exported: String = exported.try_get(0)?;
    let mut second = begin(options, preparation).await?;
    // PostgreSQL made the name, of digits and hyphens.
    second.execute(sqlx::raw_sql(AssertSqlSafe(format!("SET TRANSACTION SNAPSHOT '{exported}'")))).await?;
    Ok((first, second))
}

/// Opens a session with a read-only transaction. It has no time limits: a sort of millions of rows
/// takes long, and one session may wait for the other.
async fn begin(options: &PgConnectOptions, preparation: &'static str) -> Result<PgConnection, AuditError> {
    let mut connection = PgConnection::connect_with(options).await?;
    let session = "SET statement_timeout = 0; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0; \
                   SET timezone = 'UTC'; SET jit = off; SET work_mem = '128MB'";
    connection.execute(sqlx::raw_sql(session)).await?;
    connection.execute(sqlx::raw_sql(preparation)).await?;
    connection.execute(sqlx::raw_sql("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")).await?;
    Ok(connection)
}

/// Counts the rows that were read.
struct Meter {
    read: AtomicU64,
    expected: u64,
    progress: AuditProgress,
}

/// The progress is reported in such steps.
const METER_STEP: u64 = 4096;

impl Meter {
    /// Counts a row. `number` is its number, from 1.
    fn row(&self, number: u64) {
        if number.is_multiple_of(METER_STEP) {
            let read = self.read.fetch_add(METER_STEP, Ordering::Relaxed) + METER_STEP;
            (self.progress)(read, self.expected.max(read));
        }
    }
}

/// The result before the report.
struct AuditOutcome {
    since: Option<OffsetDateTime>,
    findings: Findings,
    apps: BTreeMap<String, AppTotals>,
    /// Number of ledger entries that were checked.
    checked: u64,
    /// Number of archived entries whose sums were checked.
    archived: u64,
    /// Number of all ledger entries, for the next checkpoint.
    entries: u64,
    /// Number of lines of the operator's log that were checked.
    log_lines: u64,
    /// The head of the operator's log, for the next checkpoint.
    log_head: LogHead,
}

impl AuditOutcome {
    fn report(self, at: OffsetDateTime) -> AuditReport {
        let mut all = AppTotals::default();
        self.apps.values().for_each(|app| all.merge(app));
        let (differences, kinds) = (self.findings.count(), self.findings.counts());
        AuditReport {
            clean: differences == 0,
            at,
            since: self.since,
            wallets: all.wallets,
            entries: self.checked,
            archived_entries: self.archived,
            operator_log_lines: self.log_lines,
            differences,
            kinds,
            all,
            apps: self.apps,
            findings: self.findings.named(),
            not_noted: None,
        }
    }
}
