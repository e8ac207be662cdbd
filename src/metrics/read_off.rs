//! Metrics that are not counted but read at each scrape: queue, pool, database and the process.

use std::sync::Arc;
use std::time::Duration;

use domain::audit::LastAudit;
use prometheus::proto::MetricFamily;
use prometheus::{Counter, Gauge, IntCounter, IntGauge, IntGaugeVec, Opts, Registry};
use store::{PoolState, ReceiverCounts};
use telemetry::metrics::register;

const DATABASE_UP: &str = "1 when the database answered this scrape and holds the schema, else 0.";

/// What a scrape finds beside what was counted.
#[derive(Debug, Clone)]
pub struct Gauges {
    /// Open connections of the public listener.
    pub connections: usize,
    /// Connections that were reset because their address had too many, since the start.
    pub connections_refused: u64,
    /// Idle connections that were closed to make room, since the start.
    pub connections_closed: u64,
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
    /// What waits for places that are shared in turns, by the kind of place.
    pub waiting: Vec<(&'static str, u64)>,
    /// Whether the disk has room for new pictures.
    pub takes_uploads: bool,
    /// Instances that share the rate limits.
    pub instances: u32,
    /// How the receivers of events are.
    pub receivers: ReceiverCounts,
    /// Payments for top-ups that fit nothing and wait for an operator.
    pub unmatched_payments: u64,
    /// The last audits; none where there were none, or where the database did not tell.
    pub audits: Arc<[LastAudit]>,
}

impl Gauges {
    /// The metrics of this reading and of the process.
    pub(super) fn gather(&self, started_at_millis: i64, uptime: Duration) -> Vec<MetricFamily> {
        let registry = Registry::new();
        let Self { pool, upload_memory: (upload, upload_max), fetches, .. } = *self;
        let (open, waiting, waiting_max) =
            (self.connections as u64, self.queue.0 as u64, self.queue.1 as u64);
        let (resident, files) = (resident_bytes().unwrap_or(0), open_files().unwrap_or(0));
        let files_max =
            rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
        for (name, help, value) in [
            ("minitill_connections_open", "Open connections of the public listener.", open),
            ("minitill_exchange_queue_length", "Exchanges that wait or are being written.", waiting),
            (
                "minitill_exchange_queue_length_max",
                "Exchanges that may wait; one more is answered 503.",
                waiting_max,
            ),
            (
                "minitill_database_pool_connections_max",
                "Connections that the pool may have.",
                pool.size_max.into(),
            ),
            ("minitill_database_up", DATABASE_UP, self.database_up.into()),
            ("minitill_fetches_under_way", "Places for fetches that are taken.", fetches),
            ("minitill_upload_memory_bytes", "Memory that uploads by file hold.", upload),
            (
                "minitill_upload_memory_bytes_max",
                "Memory that uploads by file may hold; more wait.",
                upload_max,
            ),
            (
                "minitill_uploads_have_room",
                "1 while the disk has room for new pictures, 0 below image.disk_free_min.",
                self.takes_uploads.into(),
            ),
            ("minitill_instances", "Servers that share the rate limits.", self.instances.into()),
            (
                "minitill_receivers_paused",
                "Receivers to which nothing is sent, until an operator resumes them.",
                self.receivers.paused,
            ),
            (
                "minitill_receivers_failing",
                "Receivers that did not take what was sent last.",
                self.receivers.failing,
            ),
            (
                "minitill_unmatched_payments",
                "Payments for top-ups that fit nothing and wait for an operator.",
                self.unmatched_payments,
            ),
            ("process_resident_memory_bytes", "Memory of the process, without its PostgreSQL.", resident),
            ("process_open_fds", "Open files of the process.", files),
            ("process_max_fds", "Files that the process may open.", files_max),
        ] {
            set(&register(&registry, IntGauge::new(name, help)), value);
        }
        self.count_connections(&registry);
        self.measure_times(&registry, started_at_millis, uptime);
        let labelled = |name: &str, help: &str, label: &str| {
            register(&registry, IntGaugeVec::new(Opts::new(name, help), &[label]))
        };
        let by_state =
            labelled("minitill_database_pool_connections", "Connections of the pool, by state.", "state");
        set(&by_state.with_label_values(&["idle"]), pool.idle.into());
        set(&by_state.with_label_values(&["used"]), pool.in_use().into());
        self.count_waiting(&registry);
        let build = labelled("minitill_build_info", "1, with the version of the program.", "version");
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        let cpu = Counter::new("process_cpu_seconds_total", "Processor time that the process has used.");
        register(&registry, cpu).inc_by(cpu_seconds());
        registry.gather()
    }

    /// What waits, by the kind of place.
    fn count_waiting(&self, registry: &Registry) {
        let help = "What waits for a place that is shared in turns, by kind.";
        let by_kind = IntGaugeVec::new(Opts::new("minitill_waiting_for_place", help), &["kind"]);
        let by_kind = register(registry, by_kind);
        for (kind, count) in &self.waiting {
            set(&by_kind.with_label_values(&[kind]), *count);
        }
    }

    /// Times and ages.
    fn measure_times(&self, registry: &Registry, started_at_millis: i64, uptime: Duration) {
        for (name, help, seconds) in [
            (
                "minitill_database_probe_duration_seconds",
                "Time that this scrape waited for a connection and a first answer.",
                self.database_probe.as_secs_f64(),
            ),
            ("minitill_uptime_seconds", "Time since the server started.", uptime.as_secs_f64()),
            (
                "minitill_receivers_failing_seconds",
                "How long the receiver has failed that fails longest.",
                self.receivers.failing_for.as_secs_f64(),
            ),
            (
                "minitill_notify_lag_seconds",
                "Age of the oldest event that waits for its number, or for a try at a receiver that is not paused.",
                self.receivers.lag.as_secs_f64(),
            ),
            (
                "process_start_time_seconds",
                "When the server started, in Unix time.",
                seconds(started_at_millis),
            ),
        ] {
            register(registry, Gauge::new(name, help)).set(seconds);
        }
    }

    /// What the public listener did with connections that were too many.
    fn count_connections(&self, registry: &Registry) {
        for (name, help, value) in [
            (
                "minitill_connections_refused_total",
                "Connections that were reset because their address had as many as it may have.",
                self.connections_refused,
            ),
            (
                "minitill_connections_closed_for_room_total",
                "Idle connections that were closed to make room for new ones.",
                self.connections_closed,
            ),
        ] {
            register(registry, IntCounter::new(name, help)).inc_by(value);
        }
    }
}

fn set(gauge: &IntGauge, value: u64) {
    gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
}

fn seconds(millis: i64) -> f64 {
    // Exact for every moment of the next thousands of years: whole seconds fit, and so do the rest.
    Duration::from_millis(u64::try_from(millis).unwrap_or(0)).as_secs_f64()
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
