//! The PostgreSQL that is audited, the folder that goes away with it, and the program's runs.

use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use minitill::postgres::{self, PrivateCluster, Role};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};
use tokio::runtime::Runtime;

use crate::{Fallible, Options};

/// The key of a database that lives as long as the run.
const MASTER_KEY: &str = "33333333333333333333333333333333333333333333333333333333333333ff";
/// How often a run's memory is looked at; its peak cannot be read once it has ended.
const MEMORY_EVERY: Duration = Duration::from_millis(5);
/// How long PostgreSQL may take to notice that the program has gone.
const SESSIONS_END_WITHIN: Duration = Duration::from_millis(500);
/// The unit of processor time in `/proc`.
const TICKS_PER_SECOND: f64 = 100.0;

/// A durable PostgreSQL with the schema, one session on it, and a folder. Dropped in this order.
pub(crate) struct Stage {
    runtime: Runtime,
    connection: PgConnection,
    url: String,
    cluster: PrivateCluster,
    folder: Folder,
}

/// One run of the program.
pub(crate) struct Audit {
    pub(crate) name: &'static str,
    pub(crate) entries: u64,
    pub(crate) elapsed: Duration,
    /// Processor time of the program and of PostgreSQL's processes: much the same on a busy machine.
    pub(crate) program_seconds: f64,
    pub(crate) postgres_seconds: f64,
    pub(crate) peak_mebibytes: u64,
}

impl Stage {
    pub(crate) fn open(options: &Options) -> Fallible<Self> {
        let folder = Folder::create(options.folder.as_deref())?;
        let data_dir = folder.0.join("postgresql");
        let cluster =
            PrivateCluster::open(postgres::Options { data_dir, role: Role::Server, settings: Vec::new() })?;
        let host = utf8_percent_encode(&cluster.socket_dir().to_string_lossy(), NON_ALPHANUMERIC).to_string();
        let url = format!("postgres:///postgres?host={host}&user={}", postgres::USER);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let connection = runtime.block_on(PgConnection::connect(&url))?;
        let stage = Self { runtime, connection, url, cluster, folder };
        if !stage.command(&["migrate"]).status()?.success() {
            return Err("minitill migrate failed".into());
        }
        Ok(stage)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder.0
    }

    pub(crate) fn execute(&mut self, statements: &str) -> Fallible<()> {
        let statements = sqlx::raw_sql(AssertSqlSafe(statements));
        self.runtime.block_on(self.connection.execute(statements))?;
        Ok(())
    }

    /// Sends rows, as `COPY ... FROM STDIN` takes them, in portions.
    pub(crate) fn copy(&mut self, into: &str, portions: impl Iterator<Item = String>) -> Fallible<()> {
        self.runtime.block_on(async {
            let mut copy = self.connection.copy_in_raw(&format!("COPY {into} FROM STDIN")).await?;
            for portion in portions {
                copy.send(portion.into_bytes()).await?;
            }
            copy.finish().await?;
            Ok(())
        })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_minitill"));
        command
            .args(arguments)
            .stdin(Stdio::null())
            .env("DATABASE_URL", &self.url)
            .env("MINITILL_DATABASE__DATA_DIR", self.folder.0.join("data"))
            .env("MINITILL_SECRETS__MASTER_KEY", MASTER_KEY);
        command
    }

    /// Runs an audit, which must find nothing.
    pub(crate) fn audit(&self, name: &'static str, arguments: &[&str]) -> Fallible<Audit> {
        eprintln!("{name} ...");
        let (ours, theirs) = (ended_children_seconds("self")?, ended_children_seconds(&self.postmaster()?)?);
        let started = Instant::now();
        let mut child = self.command(arguments).arg("--json").stdout(Stdio::piped()).spawn()?;
        let status = PathBuf::from(format!("/proc/{}/status", child.id()));
        let mut peak_kibibytes = 0;
        let ended = loop {
            if let Some(peak) = fs::read_to_string(&status).ok().and_then(|text| peak_of(&text)) {
                peak_kibibytes = peak;
            }
            if let Some(ended) = child.try_wait()? {
                break ended;
            }
            thread::sleep(MEMORY_EVERY);
        };
        let elapsed = started.elapsed();
        // Its sessions end a moment after it.
        thread::sleep(SESSIONS_END_WITHIN);
        let program_seconds = ended_children_seconds("self")? - ours;
        let postgres_seconds = ended_children_seconds(&self.postmaster()?)? - theirs;
        let report: Value = serde_json::from_reader(child.stdout.take().ok_or("no output")?)?;
        if !ended.success() || report["clean"] != true {
            return Err(format!("the audit is not clean: {report}").into());
        }
        let entries = report["entries"].as_u64().unwrap_or_default();
        let peak_mebibytes = peak_kibibytes / 1024;
        Ok(Audit { name, entries, elapsed, program_seconds, postgres_seconds, peak_mebibytes })
    }

    /// The process id of PostgreSQL's first process.
    fn postmaster(&self) -> Fallible<String> {
        let text = fs::read_to_string(self.cluster.folder().join("pgdata/postmaster.pid"))?;
        Ok(text.lines().next().unwrap_or_default().trim().to_owned())
    }
}

/// Processor time of all children of a process that have ended, with theirs.
fn ended_children_seconds(process: &str) -> Fallible<f64> {
    let text = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // Behind the name, which may hold spaces: cutime and cstime are the 14th and 15th field.
    let fields = text.rsplit_once(')').ok_or("a process without a name")?.1.split_whitespace();
    let ticks = fields.skip(13).take(2).map(str::parse::<u32>).sum::<Result<u32, _>>()?;
    Ok(f64::from(ticks) / TICKS_PER_SECOND)
}

/// The most memory that a process had, in KiB.
fn peak_of(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// A folder of this run, removed when dropped.
struct Folder(PathBuf);

impl Folder {
    /// Under the folder that was asked for; else in Cargo's, unless PostgreSQL may not enter that:
    /// under root it runs as another user.
    fn create(asked_for: Option<&Path>) -> Fallible<Self> {
        let usual = [Path::new(env!("CARGO_TARGET_TMPDIR")), Path::new("/var/tmp")];
        for parent in asked_for.map_or(usual.to_vec(), |folder| vec![folder]) {
            let path = std::path::absolute(parent)?.join(format!("audit-{}", std::process::id()));
            if postgres::data_folder(&path)?.notice().is_none() {
                DirBuilder::new().recursive(true).create(&path)?;
                let folder = Self(path);
                // Whatever the umask says, for the same reason.
                fs::set_permissions(&folder.0, Permissions::from_mode(0o755))?;
                return Ok(folder);
            }
        }
        Err("PostgreSQL may not enter the folder; name another with --folder".into())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
