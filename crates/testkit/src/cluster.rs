//! One throw-away PostgreSQL for a whole test run, without any set-up. Whoever needs it first starts it, and every test
//! and every process of the run uses it. A keeper ends it when the runner is gone, however that ended.
//!
//! Each test has a database of its own, copied in some milliseconds from one that was migrated once, and dropped when
//! the test has ended.

use std::cell::RefCell;
use std::env;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, chown};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use private_postgres::Programs;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgSslMode};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};
use tokio::sync::{OnceCell, oneshot};
use tokio::time::sleep;

use super::PATIENCE;

/// The superuser of this PostgreSQL, and of the one that Minitill runs by itself.
pub const USER: &str = store::DatabaseAddress::PRIVATE_USER;

/// Set to `citus`, it makes the databases of tests distributed ones, on one node. `PG_BIN` names the programs with the
/// extension then.
const ENGINE: &str = "MINITILL_TEST_ENGINE";

const TEMPLATE: &str = "template_minitill";

const IN_MEMORY: &str = "/dev/shm";
/// The socket in a run's folder.
const SOCKET: &str = ".s.PGSQL.5432";
/// The file in it that the processes of the run lock.
const LOCK: &str = "lock";
/// How the name of a run's folder begins.
const FOLDER: &str = "minitill-test-";
/// A database is some 14 MB when its test ends. All tests of the API take 2 GB at most on two cores. Memory is used only
/// where there is plenty.
const SHARED_MEMORY_BYTES_MIN: u64 = 3 * 1024 * 1024 * 1024;

/// Waits while the runner lives: its process id may be given to another program, its start time may not.
/// Arguments: the folder of the programs, the folder of the cluster, the runner's process id and start time, more
/// options.
const KEEPER: &str = r#"
trap '' INT HUP TERM
alive() {
    if [ ! -d /proc/self ]; then kill -0 "$1" 2>/dev/null; return; fi
    { read -r stat < "/proc/$1/stat"; } 2>/dev/null || return 1
    wanted=$2
    set -- ${stat##*) }
    case $1 in Z|X) return 1 ;; esac
    [ "${20}" = "$wanted" ]
}
"$1/initdb" -D "$2/data" --username=minitill --encoding=UTF8 --locale=C --auth-local=trust --auth-host=reject \
    --no-sync --no-instructions || exit 1
"$1/postgres" -D "$2/data" -k "$2" -c listen_addresses= -c port=5432 -c max_connections=500 -c shared_buffers=64MB \
    -c fsync=off -c synchronous_commit=off -c full_page_writes=off -c wal_level=minimal -c max_wal_senders=0 \
    -c min_wal_size=80MB -c max_wal_size=256MB -c autovacuum=off -c jit=off -c dynamic_shared_memory_type=mmap $5 &
postgres=$!
while alive "$3" "$4"; do
    kill -0 $postgres 2>/dev/null || break
    sleep 0.2
done
# It ignores the signal until it is so far as to handle it.
while kill -QUIT $postgres 2>/dev/null; do sleep 0.1; done
wait $postgres
rm -rf "$2"
"#;

/// A database of one test's own.
#[derive(Debug)]
pub struct Database {
    /// How to reach it, as `DATABASE_URL` takes it.
    pub url: String,
}

/// The folder of the socket of the run's PostgreSQL, which is started if it does not run yet.
pub async fn socket_dir() -> PathBuf {
    static STARTED: OnceCell<PathBuf> = OnceCell::const_new();
    STARTED.get_or_init(start).await.clone()
}

/// Makes a database like the one that `migrate` fills. `migrate` is called for the first database of the run only, with
/// the URL of an empty one, and must close its connections.
pub async fn create(migrate: impl AsyncFnOnce(&str)) -> Database {
    static TEMPLATE_MADE: OnceCell<()> = OnceCell::const_new();
    static MADE: AtomicU32 = AtomicU32::new(0);
    let folder = socket_dir().await;
    TEMPLATE_MADE.get_or_init(|| make_template(&folder, migrate)).await;
    let name = format!("test_{}_{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
    copy(&folder, TEMPLATE, name).await
}

/// Makes a database without a schema. Its name begins with `name`, which is one test's own.
pub async fn create_empty(name: &str) -> Database {
    copy(&socket_dir().await, "template0", format!("{name}_{}", std::process::id())).await
}

/// Copies a database, and has the copy dropped when this test has ended.
async fn copy(folder: &Path, template: &'static str, name: String) -> Database {
    static COPIER: OnceLock<mpsc::Sender<Order>> = OnceLock::new();
    let (made, is_made) = oneshot::channel();
    let copier = COPIER.get_or_init(|| start_copier(folder.to_owned()));
    copier
        .send(Order::Copy { template, name: name.clone(), made })
        .expect("the copier runs as long as the process does");
    is_made.await.expect("a database is copied");
    let database = Database { url: url(folder, &name) };
    OF_THIS_TEST.with_borrow_mut(|of_test| of_test.0.push((name, copier.clone())));
    database
}

thread_local! {
    /// The databases that this thread made. A test has a thread of its own, which ends with the test.
    static OF_THIS_TEST: RefCell<DropAtEnd> = const { RefCell::new(DropAtEnd(Vec::new())) };
}

/// Has databases dropped, by their names, when it is dropped itself.
struct DropAtEnd(Vec<(String, mpsc::Sender<Order>)>);

impl Drop for DropAtEnd {
    fn drop(&mut self) {
        for (name, copier) in self.0.drain(..) {
            // The last databases of a process go with the cluster.
            let _ = copier.send(Order::Drop { name });
        }
    }
}

/// An operation on databases.
enum Order {
    /// A copy, for which a test waits.
    Copy { template: &'static str, name: String, made: oneshot::Sender<()> },
    /// A database whose test has ended.
    Drop { name: String },
}

/// Copies and drops databases in one session for all tests of this process. Each test has a runtime of its own,
/// and a session ends with its runtime.
fn start_copier(folder: PathBuf) -> mpsc::Sender<Order> {
    let (copier, orders) = mpsc::channel::<Order>();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a thread starts");
    thread::spawn(move || {
        let connecting = connect(&folder);
        let mut connection =
            runtime.block_on(connecting).expect("PostgreSQL runs as long as the runner does");
        // Before version 15 every copy is made that way.
        let strategy = if connection.server_version_num().is_some_and(|version| version >= 150_000) {
            " STRATEGY FILE_COPY"
        } else {
            ""
        };
        for order in orders {
            match order {
                Order::Copy { template, name, made } => {
                    let copy = format!("CREATE DATABASE {name} TEMPLATE {template}{strategy}");
                    runtime.block_on(run(&mut connection, copy));
                    let _ = made.send(());
                }
                Order::Drop { name } => {
                    let drop = AssertSqlSafe(format!("DROP DATABASE {name} WITH (FORCE)"));
                    // What a prepared transaction or a subscription holds back goes with the cluster.
                    let _ = runtime.block_on(sqlx::raw_sql(drop).execute(&mut connection));
                }
            }
        }
    });
    copier
}

async fn start() -> PathBuf {
    remove_remains();
    let folder = folder_of_run();
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => panic!("{}: {error}", folder.display()),
        Ok(()) | Err(_) => {}
    }
    let _lock = lock(&folder).await;
    let ready = folder.join("ready");
    if ready.exists() {
        return folder;
    }
    let mut keeper = start_keeper(&folder);
    let started = Instant::now();
    let connection = loop {
        match connect(&folder).await {
            Ok(connection) => break connection,
            Err(error) => {
                let ended = keeper.try_wait().expect("the keeper is our child");
                assert!(
                    ended.is_none() && started.elapsed() < PATIENCE,
                    "no PostgreSQL to test with: {error}; {}",
                    fs::read_to_string(folder.join("log")).unwrap_or_default()
                );
                sleep(Duration::from_millis(10)).await;
            }
        }
    };
    connection.close().await.expect("an idle connection closes");
    File::create(ready).expect("the folder is ours");
    folder
}

/// Whoever must outlive the cluster: `cargo` or nextest, or this process when it was started by hand. A process whose
/// parent was killed has another one that lives for ever, so the parent's name counts where the system tells it.
fn runner() -> u32 {
    let started_by_runner = env::var_os("NEXTEST_RUN_ID").is_some() || env::var_os("CARGO").is_some();
    let parent = rustix::process::getppid().map_or(0, |parent| parent.as_raw_pid().unsigned_abs());
    let is_runner = match fs::read_to_string(format!("/proc/{parent}/comm")) {
        Ok(name) => name.starts_with("cargo"),
        Err(_) => parent > 1,
    };
    if started_by_runner && is_runner { parent } else { std::process::id() }
}

/// When a process was started, in the system's ticks; 0 where the system does not tell it in /proc.
fn start_time(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name, in parentheses, may hold anything.
    let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    after_name.split(' ').nth(19).and_then(|ticks| ticks.parse().ok()).unwrap_or(0)
}

/// The same for all processes of a run, in memory where there is room.
fn folder_of_run() -> PathBuf {
    let runner = runner();
    let name = format!("{FOLDER}{runner}-{}", start_time(runner));
    let in_memory = Path::new(IN_MEMORY).join(&name);
    let on_disk = env::temp_dir().join(&name);
    if in_memory.exists() || (has_room_in_memory() && !on_disk.exists()) { in_memory } else { on_disk }
}

/// Removes the folders of runs whose keeper was killed too, for example when the container stopped.
fn remove_remains() {
    for folder in [PathBuf::from(IN_MEMORY), env::temp_dir()] {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        for remains in entries.map(|entry| entry.path()).filter(|path| is_of_dead_run(path)) {
            // Another user's folder stays.
            let _ = fs::remove_dir_all(remains);
        }
    }
}

/// Whether this is the folder of a run that has ended, with its PostgreSQL.
fn is_of_dead_run(folder: &Path) -> bool {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let Some((pid, started)) = name.strip_prefix(FOLDER).and_then(|run| run.split_once('-')) else {
        return false;
    };
    let (Ok(pid), Ok(started)) = (pid.parse(), started.parse::<u64>()) else { return false };
    // The runner of another container is not in our /proc. But it holds the lock, or its PostgreSQL listens at the socket.
    let is_free = || File::open(folder.join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok());
    let is_deaf = || match UnixStream::connect(folder.join(SOCKET)) {
        Ok(_) => false,
        Err(error) => matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused),
    };
    started != 0 && start_time(pid) != started && is_free() && is_deaf()
}

/// The folder of a test's own cluster. It is in memory where there is room, so that no test waits
/// for a disk.
pub fn folder_for_data() -> PathBuf {
    if has_room_in_memory() { PathBuf::from(IN_MEMORY) } else { env::temp_dir() }
}

fn has_room_in_memory() -> bool {
    let room = rustix::fs::statvfs(IN_MEMORY).map_or(0, |memory| memory.f_bavail * memory.f_frsize);
    room >= SHARED_MEMORY_BYTES_MIN
}

/// All processes of a run meet here; released when it is dropped.
async fn lock(folder: &Path) -> File {
    let lock = File::options().create(true).truncate(false).write(true).open(folder.join(LOCK));
    let lock = lock.expect("the folder is ours");
    loop {
        match lock.try_lock() {
            Ok(()) => return lock,
            Err(TryLockError::WouldBlock) => sleep(Duration::from_millis(10)).await,
            Err(TryLockError::Error(error)) => panic!("cannot lock {}: {error}", folder.display()),
        }
    }
}

fn start_keeper(folder: &Path) -> Child {
    let programs = Programs::find(None).unwrap_or_else(|error| panic!("{error}"));
    let postgres = programs.path("postgres");
    let programs = postgres.parent().expect("the program lies in a folder");
    let runner = runner();
    let log = File::create(folder.join("log")).expect("the folder is ours");
    let mut keeper = Command::new("/bin/sh");
    keeper.args(["-c", KEEPER, "minitill-test-keeper"]).arg(programs).arg(folder);
    keeper.arg(runner.to_string()).arg(start_time(runner).to_string());
    keeper.arg(if is_on_citus() { citus_options(folder) } else { String::new() });
    keeper.env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C").env("TZ", "UTC").current_dir("/");
    // Nothing of the runner's is inherited, or the runner would wait for it; and Ctrl-C is not for the keeper.
    keeper.stdin(Stdio::null()).stdout(log.try_clone().expect("a file can be shared")).stderr(log);
    keeper.process_group(0);
    if rustix::process::geteuid().is_root() {
        // PostgreSQL does not run as root.
        let (uid, gid) = unprivileged_user();
        chown(folder, Some(uid), Some(gid)).expect("root may give folders away");
        keeper.uid(uid).gid(gid);
    }
    keeper.spawn().expect("every system has /bin/sh")
}

/// User and group that PostgreSQL runs as where the tests run as root, which it refuses.
pub fn unprivileged_user() -> (u32, u32) {
    let passwd = fs::read_to_string("/etc/passwd").expect("users are listed");
    let find = |name: &str| {
        let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut numbers = line.split(':').skip(2).map(str::parse);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    };
    find("postgres").or_else(|| find("nobody")).expect("there is an ordinary user to run PostgreSQL as")
}

/// Whether the databases of tests are distributed by Citus.
fn is_on_citus() -> bool {
    env::var(ENGINE).is_ok_and(|engine| engine == "citus")
}

/// Options of a node that is the whole cluster, with two shards of each table.
fn citus_options(folder: &Path) -> String {
    format!(
        "-c shared_preload_libraries=citus -c citus.shard_count=2 -c citus.node_conninfo=sslmode=disable \
         -c citus.local_hostname={} -c max_prepared_transactions=200 -c client_min_messages=error",
        folder.display()
    )
}

async fn make_template(folder: &Path, migrate: impl AsyncFnOnce(&str)) {
    let _lock = lock(folder).await;
    let made = folder.join("template");
    if made.exists() {
        return;
    }
    let mut connection = connect(folder).await.expect("PostgreSQL was started");
    // Another process of the run may have failed half-way.
    run(&mut connection, format!("DROP DATABASE IF EXISTS {TEMPLATE} WITH (FORCE)")).await;
    run(&mut connection, format!("CREATE DATABASE {TEMPLATE}")).await;
    if is_on_citus() {
        let mut template = connect_to(folder, TEMPLATE).await.expect("the template was made");
        run(&mut template, "CREATE EXTENSION citus".to_owned()).await;
        template.close().await.expect("it is idle");
    }
    migrate(&url(folder, TEMPLATE)).await;
    // The first session after a change of the schema writes a file for the next ones. So every copy has it.
    connect_to(folder, TEMPLATE).await.expect("the template was made").close().await.expect("it is idle");
    // Nobody may be connected to what is copied.
    run(&mut connection, format!("ALTER DATABASE {TEMPLATE} WITH ALLOW_CONNECTIONS false")).await;
    let others =
        format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{TEMPLATE}'");
    run(&mut connection, others).await;
    connection.close().await.expect("an idle connection closes");
    File::create(made).expect("the folder is ours");
}

async fn connect(folder: &Path) -> Result<PgConnection, sqlx::Error> {
    connect_to(folder, "postgres").await
}

async fn connect_to(folder: &Path, database: &str) -> Result<PgConnection, sqlx::Error> {
    let options = PgConnectOptions::new_without_pgpass().socket(folder).port(5432).username(USER);
    options.database(database).ssl_mode(PgSslMode::Disable).disable_statement_logging().connect().await
}

async fn run(connection: &mut PgConnection, sql: String) {
    let done = sqlx::raw_sql(AssertSqlSafe(sql.clone())).execute(connection).await;
    if let Err(error) = done {
        panic!("{sql}: {error}");
    }
}

fn url(folder: &Path, database: &str) -> String {
    let host: String = form_urlencoded::byte_serialize(folder.as_os_str().as_encoded_bytes()).collect();
    format!("postgres://{USER}@localhost:5432/{database}?host={host}&sslmode=disable")
}
