//! A durable PostgreSQL of one proof's own, on a disk, with fsync. It can be killed and started again, and ends with
//! the proof, however that ends.

use std::fs::{self, DirBuilder, File};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use private_postgres::Programs;
use rustix::process::{Pid, Signal, kill_process};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgSslMode};
use sqlx::{ConnectOptions as _, Connection as _};
use tokio::time::sleep;

use crate::service::cluster::{USER, unprivileged_user};

const START_WITHIN: Duration = Duration::from_mins(1);

/// Runs PostgreSQL until it reads a word or the end of its input, which comes when the proof's process ends in
/// whatever way. Without the word the folder goes too.
const KEEPER: &str = r#"
trap '' INT HUP TERM
if [ ! -d "$2/data" ]; then
    "$1/initdb" -D "$2/data" --username=minitill --encoding=UTF8 --locale=C --auth-local=trust --auth-host=reject \
        --no-sync --no-instructions || exit 1
fi
"$1/postgres" -D "$2/data" -k "$2" -c listen_addresses= -c port=5432 -c max_connections=300 -c shared_buffers=128MB \
    -c max_wal_size=1GB -c jit=off &
postgres=$!
read -r word
# It ignores the signal until it is so far as to handle it.
while kill -QUIT $postgres 2>/dev/null; do sleep 0.1; done
wait $postgres
[ "$word" = stay ] || rm -rf "$2"
"#;

/// A cluster that runs, or that was killed and can be started again.
#[derive(Debug)]
pub(crate) struct Postgres {
    folder: PathBuf,
    keeper: Child,
}

impl Postgres {
    /// Makes a cluster and starts it.
    pub(crate) async fn start() -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("minitill-proof-pg-{}-{number}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&folder).unwrap();
        let mut postgres = Self { keeper: start_keeper(&folder), folder };
        postgres.accepts().await;
        postgres
    }

    /// `kill -9` for PostgreSQL itself; its sessions end with it. Returns when all its processes are gone.
    pub(crate) async fn kill(&mut self) {
        let postmaster = self.postmaster();
        let children = children_of(postmaster);
        kill_process(postmaster, Signal::KILL).unwrap();
        let killed = Instant::now();
        while children.iter().any(|child| Path::new(&format!("/proc/{child}/exe")).exists()) {
            assert!(killed.elapsed() < START_WITHIN, "sessions outlive PostgreSQL");
            sleep(Duration::from_millis(5)).await;
        }
        self.end_keeper("stay\n");
    }

    /// Starts it again after [`Postgres::kill`]; returns when it accepts sessions.
    pub(crate) async fn restart(&mut self) {
        self.keeper = start_keeper(&self.folder);
        self.accepts().await;
    }

    /// The folder of its Unix socket.
    pub(crate) fn socket_dir(&self) -> &Path {
        &self.folder
    }

    /// Its first process.
    pub(crate) fn postmaster(&self) -> Pid {
        let text = fs::read_to_string(self.folder.join("data/postmaster.pid")).unwrap();
        Pid::from_raw(text.lines().next().unwrap().trim().parse().unwrap()).unwrap()
    }

    /// As `DATABASE_URL` takes it.
    pub(crate) fn url(&self) -> String {
        let host: String =
            form_urlencoded::byte_serialize(self.folder.as_os_str().as_encoded_bytes()).collect();
        format!("postgres://{USER}@localhost:5432/postgres?host={host}&sslmode=disable")
    }

    /// A session of the proof's own.
    pub(crate) async fn connect(&self) -> Result<PgConnection, sqlx::Error> {
        connect(&self.folder).await
    }

    async fn accepts(&mut self) {
        let started = Instant::now();
        loop {
            match self.connect().await {
                Ok(connection) => {
                    connection.close().await.unwrap();
                    return;
                }
                Err(error) => {
                    let ended = self.keeper.try_wait().unwrap();
                    let log = || fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                    assert!(ended.is_none() && started.elapsed() < START_WITHIN, "{error}; {}", log());
                    sleep(Duration::from_millis(5)).await;
                }
            }
        }
    }

    fn end_keeper(&mut self, word: &str) {
        if let Some(mut input) = self.keeper.stdin.take() {
            // It may have ended before.
            let _ = input.write_all(word.as_bytes());
        }
        let _ = self.keeper.wait();
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.end_keeper("");
    }
}

/// A session with the PostgreSQL whose socket is in this folder.
pub(crate) async fn connect(socket_dir: &Path) -> Result<PgConnection, sqlx::Error> {
    let options = PgConnectOptions::new_without_pgpass().socket(socket_dir).port(5432).username(USER);
    options.database("postgres").ssl_mode(PgSslMode::Disable).disable_statement_logging().connect().await
}

fn start_keeper(folder: &Path) -> Child {
    let programs = Programs::find(None).unwrap_or_else(|error| panic!("{error}"));
    let postgres = programs.path("postgres");
    let programs = postgres.parent().expect("the program lies in a folder");
    let log = File::options().create(true).append(true).open(folder.join("log")).unwrap();
    let mut keeper = Command::new("/bin/sh");
    keeper.args(["-c", KEEPER, "minitill-proof-keeper"]).arg(programs).arg(folder);
    keeper.env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C").env("TZ", "UTC").current_dir("/");
    keeper.stdin(Stdio::piped()).stdout(log.try_clone().unwrap()).stderr(log);
    // Ctrl-C is for the proofs; the end of their process ends the keeper.
    keeper.process_group(0);
    if rustix::process::geteuid().is_root() {
        let (uid, gid) = unprivileged_user();
        chown(folder, Some(uid), Some(gid)).unwrap();
        keeper.uid(uid).gid(gid);
    }
    keeper.spawn().expect("every system has /bin/sh")
}

/// Processes whose parent this is.
pub(crate) fn children_of(parent: Pid) -> Vec<i32> {
    let processes =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let parent_of = |pid: i32| -> Option<i32> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name, in parentheses, may hold anything.
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
    };
    processes.filter(|pid| parent_of(*pid) == Some(parent.as_raw_pid())).collect()
}
