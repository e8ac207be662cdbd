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

/// A durable PostgreSQL with the schema, one session on it, and a folder. Dropped in this order.
pub(crate) struct Stage {
    runtime: Runtime,
    connection: PgConnection,
    url: String,
    _cluster: PrivateCluster,
    folder: Folder,
}

/// One run of the program.
pub(crate) struct Audit {
    pub(crate) name: &'static str,
    pub(crate) entries: u64,
    pub(crate) elapsed: Duration,
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
        let stage = Self { runtime, connection, url, _cluster: cluster, folder };
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
        let report: Value = serde_json::from_reader(child.stdout.take().ok_or("no output")?)?;
        if !ended.success() || report["clean"] != true {
            return Err(format!("the audit is not clean: {report}").into());
        }
        let entries = report["entries"].as_u64().unwrap_or_default();
        Ok(Audit { name, entries, elapsed, peak_mebibytes: peak_kibibytes / 1024 })
    }
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
