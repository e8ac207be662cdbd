//! What is not counted but read off when somebody asks: how things stand, and the process itself.

use std::sync::Arc;
use std::time::Duration;

use prometheus::core::Collector;
use prometheus::{Counter, Gauge, IntGauge, IntGaugeVec, Opts, Registry};
use store::{LastAudit, PoolState};

use super::{
    CONNECTIONS, CONSTANT, CPU, DATABASE_PROBE, DATABASE_UP, FETCHES, LAST_AUDIT_DIFFERENCES,
    LAST_CLEAN_AUDIT, Named, OPEN_FILES, OPEN_FILES_MAX, POOL, POOL_MAX, QUEUE, QUEUE_MAX, RESIDENT,
    UPLOAD_MEMORY, UPLOAD_MEMORY_MAX, UPTIME, gauge,
};

/// What is read off when somebody asks.
#[derive(Debug)]
pub(super) struct ReadOff {
    connections: IntGauge,
    queue: IntGauge,
    queue_max: IntGauge,
    pool: IntGaugeVec,
    pool_max: IntGauge,
    database_up: IntGauge,
    database_probe: Gauge,
    fetches: IntGauge,
    upload_memory: IntGauge,
    upload_memory_max: IntGauge,
    last_clean_audit: IntGaugeVec,
    last_audit_differences: IntGaugeVec,
    uptime: Gauge,
    cpu: Counter,
    resident: IntGauge,
    open_files: IntGauge,
    open_files_max: IntGauge,
}

/// What a scrape finds beside what was counted.
#[derive(Debug, Clone)]
pub struct Reading {
    /// Open connections of the public listener.
    pub connections: usize,
    /// Exchanges that wait, and how many may.
    pub queue: (usize, usize),
    /// The pool of connections.
    pub pool: PoolState,
    /// Whether the database can serve.
    pub database_up: bool,
    /// How long the question took.
    pub database_probe: Duration,
    /// Places for fetches that are taken.
    pub fetches: u64,
    /// Bytes that uploads hold, and may hold.
    pub upload_memory: (u64, u64),
    /// The last audits; none where there were none, or where the database did not tell.
    pub audits: Arc<[LastAudit]>,
}

impl ReadOff {
    pub(super) fn new(registry: &Registry) -> Self {
        let read_off = Self {
            connections: gauge(CONNECTIONS),
            queue: gauge(QUEUE),
            queue_max: gauge(QUEUE_MAX),
            pool: IntGaugeVec::new(Opts::new(POOL.0, POOL.1), &["state"]).expect(CONSTANT),
            pool_max: gauge(POOL_MAX),
            database_up: gauge(DATABASE_UP),
            database_probe: Gauge::new(DATABASE_PROBE.0, DATABASE_PROBE.1).expect(CONSTANT),
            fetches: gauge(FETCHES),
            upload_memory: gauge(UPLOAD_MEMORY),
            upload_memory_max: gauge(UPLOAD_MEMORY_MAX),
            last_clean_audit: by_scope(LAST_CLEAN_AUDIT),
            last_audit_differences: by_scope(LAST_AUDIT_DIFFERENCES),
            uptime: Gauge::new(UPTIME.0, UPTIME.1).expect(CONSTANT),
            cpu: Counter::new(CPU.0, CPU.1).expect(CONSTANT),
            resident: gauge(RESIDENT),
            open_files: gauge(OPEN_FILES),
            open_files_max: gauge(OPEN_FILES_MAX),
        };
        let collectors: [Box<dyn Collector>; 17] = [
            Box::new(read_off.connections.clone()),
            Box::new(read_off.queue.clone()),
            Box::new(read_off.queue_max.clone()),
            Box::new(read_off.pool.clone()),
            Box::new(read_off.pool_max.clone()),
            Box::new(read_off.database_up.clone()),
            Box::new(read_off.database_probe.clone()),
            Box::new(read_off.fetches.clone()),
            Box::new(read_off.upload_memory.clone()),
            Box::new(read_off.upload_memory_max.clone()),
            Box::new(read_off.last_clean_audit.clone()),
            Box::new(read_off.last_audit_differences.clone()),
            Box::new(read_off.uptime.clone()),
            Box::new(read_off.cpu.clone()),
            Box::new(read_off.resident.clone()),
            Box::new(read_off.open_files.clone()),
            Box::new(read_off.open_files_max.clone()),
        ];
        for collector in collectors {
            registry.register(collector).expect(CONSTANT);
        }
        read_off
    }

    pub(super) fn set(&self, reading: &Reading, uptime: Duration) {
        set(&self.connections, reading.connections as u64);
        set(&self.queue, reading.queue.0 as u64);
        set(&self.queue_max, reading.queue.1 as u64);
        set(&self.pool.with_label_values(&["idle"]), reading.pool.idle.into());
        set(
            &self.pool.with_label_values(&["used"]),
            reading.pool.size.saturating_sub(reading.pool.idle).into(),
        );
        set(&self.pool_max, reading.pool.size_max.into());
        set(&self.database_up, reading.database_up.into());
        self.database_probe.set(reading.database_probe.as_secs_f64());
        set(&self.fetches, reading.fetches);
        set(&self.upload_memory, reading.upload_memory.0);
        set(&self.upload_memory_max, reading.upload_memory.1);
        for audit in &*reading.audits {
            let scope = [audit.scope.as_str()];
            self.last_audit_differences.with_label_values(&scope).set(audit.differences);
            if let Some(at) = audit.last_clean_at {
                self.last_clean_audit.with_label_values(&scope).set(at.unix_timestamp());
            }
        }
        self.uptime.set(uptime.as_secs_f64());
        // A counter can only be added to; two scrapes at once may read it in the other order.
        self.cpu.inc_by((cpu_seconds() - self.cpu.get()).max(0.0));
        set(&self.resident, resident_bytes().unwrap_or(0));
        set(&self.open_files, open_files().unwrap_or(0));
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        set(&self.open_files_max, limit.unwrap_or(u64::MAX));
    }
}

fn by_scope((name, help): Named) -> IntGaugeVec {
    IntGaugeVec::new(Opts::new(name, help), &["scope"]).expect(CONSTANT)
}

fn set(gauge: &IntGauge, value: u64) {
    gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
}

/// Processor time of the process; no clock that tells what time it is.
fn cpu_seconds() -> f64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(used).map_or(0.0, |used| used.as_secs_f64())
}

/// Memory of this process; none where the system has no /proc.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    kib.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Open files of this process, the folder that is read for it not among them.
fn open_files() -> Option<u64> {
    let files = std::fs::read_dir("/proc/self/fd").ok()?.count();
    u64::try_from(files.saturating_sub(1)).ok()
}
