//! The PostgreSQL that Minitill owns when it is given no `DATABASE_URL` (contract 9.1). The real
//! program is started, killed and asked, on data folders of its own.

#![expect(clippy::unwrap_used, reason = "helpers of tests end where the test would")]

use std::env;
use std::fs::{self, DirBuilder};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpgid, kill_process, test_kill_process};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgSslMode};
use sqlx::{ConnectOptions, Connection, Executor, Row};
use testkit::PATIENCE;
use testkit::cluster::folder_for_data;

mod upgrade;

/// A data folder that ends with its test, after everything that runs on it.
struct DataDir {
    parent: PathBuf,
    path: PathBuf,
}

impl DataDir {
    fn new() -> Self {
        Self::named("minitill-data")
    }

    fn named(name: &str) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let parent = folder_for_data().join(format!("minitill-pg-{}-{number}", std::process::id()));
        // Enterable, so that the test does the same for root, whose PostgreSQL is another user.
        DirBuilder::new().mode(0o755).create(&parent).unwrap();
        fs::set_permissions(&parent, fs::Permissions::from_mode(0o755)).unwrap();
        let parent = fs::canonicalize(parent).unwrap();
        Self { path: parent.join(name), parent }
    }

    /// The program, without any setting from the environment that could lead it elsewhere.
    fn program(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_minitill"));
        command.args(arguments).current_dir(&self.parent).stdin(Stdio::null());
        command.env_remove("DATABASE_URL");
        for (name, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("MINITILL_")) {
            command.env_remove(name);
        }
        command.env("MINITILL_DATABASE__DATA_DIR", &self.path);
        command.env("MINITILL_PUBLIC__LISTEN", "127.0.0.1:0").env("MINITILL_OPS__LISTEN", "127.0.0.1:0");
        command
    }

    /// Starts a server and waits until its PostgreSQL accepts connections.
    fn serve(&self) -> Server {
        let child = self.program(&["serve"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut server = Server { child };
        let old = self.postmaster();
        until("PostgreSQL accepts connections", || {
            if let Some(status) = server.child.try_wait().unwrap() {
                panic!("the server ended ({status}): {}", server.said());
            }
            self.is_ready() && self.postmaster() != old && listens_to_sigterm(server.pid())
        });
        server
    }

    /// A command that needs the database.
    fn command(&self) -> Output {
        self.program(&["app", "list", "--json"]).output().unwrap()
    }

    fn pid_file(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path.join("pgdata/postmaster.pid")).unwrap_or_default();
        text.lines().map(|line| line.trim().to_owned()).collect()
    }

    fn postmaster(&self) -> Option<Pid> {
        Pid::from_raw(self.pid_file().first()?.parse().ok()?)
    }

    fn is_ready(&self) -> bool {
        self.pid_file().get(7).is_some_and(|status| status == "ready")
    }

    /// Connects as Minitill does; tries again while PostgreSQL recovers.
    async fn connect(&self) -> PgConnection {
        let started = Instant::now();
        loop {
            let socket_dir = self.pid_file().get(4).map_or_else(|| self.path.join("run"), PathBuf::from);
            let options = PgConnectOptions::new_without_pgpass().socket(socket_dir).port(5432);
            let options = options.username("minitill").database("postgres").ssl_mode(PgSslMode::Disable);
            match options.connect().await {
                Ok(connection) => return connection,
                Err(error) => assert!(started.elapsed() < PATIENCE, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Commits something that must not be lost.
    async fn keep(&self) {
        let mut connection = self.connect().await;
        connection.execute("CREATE TABLE kept (id int); INSERT INTO kept VALUES (1)").await.unwrap();
        connection.close().await.unwrap();
    }

    async fn assert_kept(&self) {
        let mut connection = self.connect().await;
        let row = connection.fetch_one("SELECT count(*) FROM kept").await.unwrap();
        assert_eq!(row.get::<i64, _>(0), 1);
        connection.close().await.unwrap();
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        // After a failed test PostgreSQL is still on its way out.
        let started = Instant::now();
        while self.postmaster().is_some_and(is_alive) && started.elapsed() < PATIENCE {
            sleep(Duration::from_millis(20));
        }
        let _ = fs::remove_dir_all(&self.parent);
    }
}

/// A running `minitill serve`, killed with its test.
struct Server {
    child: Child,
}

impl Server {
    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to end, which it does in good order.
    fn terminate(mut self) {
        kill_process(self.pid(), Signal::TERM).unwrap();
        until("the server ends", || self.child.try_wait().unwrap().is_some());
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {}", self.said());
    }

    fn said(&mut self) -> String {
        let mut said = String::new();
        if let Some(stderr) = &mut self.child.stderr {
            stderr.read_to_string(&mut said).unwrap();
        }
        said
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < PATIENCE, "waited too long until {what}");
        sleep(Duration::from_millis(10));
    }
}

/// Whether a process is there and not merely waiting for its parent to notice its end.
fn is_alive(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).unwrap_or_default();
    let ended = stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X']));
    !ended && test_kill_process(pid) != Err(rustix::io::Errno::SRCH)
}

/// Whether a server is so far that SIGTERM is a request to it and not its end; true where the system does not tell.
fn listens_to_sigterm(pid: Pid) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_pid())).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_none_or(|mask| mask & (1 << (Signal::TERM.as_raw() - 1)) != 0)
}

fn assert_success(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn contract_9_the_cluster_starts_and_stops_with_the_server_and_keeps_its_data() {
    let data = DataDir::new();
    let server = data.serve();
    data.keep().await;
    let postmaster = data.postmaster().unwrap();
    server.terminate();
    assert!(!is_alive(postmaster), "PostgreSQL is stopped before the server ends");
    assert!(data.pid_file().is_empty(), "it was shut down in good order");

    let server = data.serve();
    data.assert_kept().await;
    server.terminate();
}

#[tokio::test]
async fn contract_9_the_cluster_is_durable_and_private() {
    let data = DataDir::new();
    let _server = data.serve();
    let mut connection = data.connect().await;
    for (setting, value) in [
        ("fsync", "on"),
        ("full_page_writes", "on"),
        ("synchronous_commit", "on"),
        ("data_checksums", "on"),
        ("listen_addresses", ""),
        ("server_encoding", "UTF8"),
    ] {
        let sql = sqlx::AssertSqlSafe(format!("SELECT current_setting('{setting}')"));
        let row = sqlx::raw_sql(sql).fetch_one(&mut connection).await.unwrap();
        assert_eq!(row.get::<String, _>(0), value, "{setting}");
    }
    let mode = |name: &str| fs::metadata(data.path.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("pgdata"), mode("run"), mode("postgres.log")), (0o700, 0o700, 0o600));
    assert_eq!(mode("") & 0o066, 0, "nobody else may list the data folder or write to it");
}

#[tokio::test]
async fn contract_9_a_killed_server_takes_postgresql_along_and_the_next_one_finds_all_data() {
    let data = DataDir::new();
    let server = data.serve();
    data.keep().await;
    let postmaster = data.postmaster().unwrap();
    server.kill();
    // Elsewhere the next start ends it.
    if cfg!(target_os = "linux") {
        until("PostgreSQL follows", || !is_alive(postmaster));
    }
    let _server = data.serve();
    assert!(!is_alive(postmaster));
    data.assert_kept().await;
}

#[tokio::test]
async fn contract_9_a_server_that_starts_at_once_after_a_kill_waits_for_the_old_postgresql() {
    let data = DataDir::new();
    for round in 0..3 {
        let server = data.serve();
        if round == 0 {
            data.keep().await;
        }
        server.kill();
    }
    let _server = data.serve();
    data.assert_kept().await;
}

#[tokio::test]
async fn contract_9_a_killed_postgresql_is_started_again() {
    let data = DataDir::new();
    let server = data.serve();
    data.keep().await;
    let old = data.postmaster().unwrap();
    // A session that keeps the memory of the old PostgreSQL for a moment.
    let busy = data.connect().await;
    kill_process(old, Signal::KILL).unwrap();
    until("another PostgreSQL is ready", || data.is_ready() && data.postmaster() != Some(old));
    data.assert_kept().await;
    drop(busy);
    assert!(is_alive(server.pid()));
    assert_success(&data.command());
    server.terminate();
}

#[tokio::test]
async fn contract_9_a_killed_session_is_recovered_from_by_postgresql_itself() {
    let data = DataDir::new();
    let _server = data.serve();
    data.keep().await;
    let postmaster = data.postmaster();
    let mut connection = data.connect().await;
    let session: i32 = connection.fetch_one("SELECT pg_backend_pid()").await.unwrap().get(0);
    kill_process(Pid::from_raw(session).unwrap(), Signal::KILL).unwrap();
    until("the session is gone", || !is_alive(Pid::from_raw(session).unwrap()));
    data.assert_kept().await;
    assert_eq!(data.postmaster(), postmaster);
}

#[tokio::test]
async fn a_second_server_on_one_folder_is_refused_and_told_about_the_first() {
    let data = DataDir::new();
    let server = data.serve();
    let second = data.program(&["serve"]).output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(said.contains(&format!("process {}", server.pid().as_raw_pid())), "{said}");
    data.connect().await.close().await.unwrap();
}

#[tokio::test]
async fn contract_9_a_command_works_on_the_cluster_of_the_server_that_runs() {
    let data = DataDir::new();
    let server = data.serve();
    let postmaster = data.postmaster();
    assert_success(&data.command());
    assert_eq!(data.postmaster(), postmaster, "the command left it running");
    data.connect().await.close().await.unwrap();
    server.terminate();
}

#[test]
fn contract_9_without_a_server_commands_take_turns_and_leave_nothing_running() {
    let data = DataDir::new();
    let start = || {
        let mut command = data.program(&["app", "list", "--json"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    // The first of them makes the cluster while the others wait.
    let commands: Vec<Child> = (0..3).map(|_| start()).collect();
    for command in commands {
        assert_success(&command.wait_with_output().unwrap());
    }
    assert!(data.pid_file().is_empty(), "PostgreSQL was stopped");
    assert!(!data.path.join("owner").exists());
}

#[test]
fn contract_9_without_postgresql_programs_one_sentence_tells_every_way_out() {
    let data = DataDir::new();
    let empty = data.parent.join("empty");
    fs::create_dir(&empty).unwrap();
    let output = data.program(&["serve"]).env("PG_BIN", &empty).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    for part in ["apt install postgresql", "dnf install", "brew install", "DATABASE_URL"] {
        assert!(said.contains(part), "{part} is missing in: {said}");
    }
}

#[tokio::test]
async fn a_data_folder_with_a_long_name_works_for_servers_and_commands() {
    let data = DataDir::named(&format!("{} a,b \"c\"", "long".repeat(40)));
    let server = data.serve();
    data.keep().await;
    assert_success(&data.command());
    let socket_dir = PathBuf::from(&data.pid_file()[4]);
    server.kill();
    let server = data.serve();
    data.assert_kept().await;
    assert_eq!(Path::new(&data.pid_file()[4]), socket_dir, "what the kill left behind is used again");
    server.terminate();
    assert!(!socket_dir.exists());
}

/// As root the data folder is another user's, who would become the owner of whatever the links lead to.
#[test]
fn links_in_the_data_folder_are_refused_and_what_they_lead_to_is_left_alone() {
    let state = |path: &Path| {
        let metadata = fs::metadata(path).unwrap();
        (metadata.uid(), metadata.gid(), metadata.mode() & 0o7777)
    };
    for (folder, names) in [
        ("minitill-data".to_owned(), ["lock", "owner.new", "run", "postgres.log"].as_slice()),
        ("long".repeat(40), &["socket"]),
    ] {
        let data = DataDir::named(&folder);
        DirBuilder::new().mode(0o711).create(&data.path).unwrap();
        if rustix::process::geteuid().is_root() {
            chown(&data.path, Some(65534), Some(65534)).unwrap();
        }
        assert_success(&data.command());
        let (letter, home) = (data.parent.join("letter"), data.parent.join("home"));
        fs::write(&letter, "dear").unwrap();
        DirBuilder::new().mode(0o750).create(&home).unwrap();
        let were = (state(&letter), state(&home));
        for name in names {
            let path = data.path.join(name);
            let _ = fs::remove_dir(&path).or_else(|_| fs::remove_file(&path));
            symlink(if *name == "run" { &home } else { &letter }, &path).unwrap();

            let output = data.command();

            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{name}: {said}");
            assert!(said.contains(&format!("{}: it is a symbolic link", path.display())), "{name}: {said}");
            assert_eq!((state(&letter), state(&home)), were, "{name}");
            assert_eq!(fs::read_to_string(&letter).unwrap(), "dear", "{name}");
            fs::remove_file(&path).unwrap();
            assert_success(&data.command());
        }
    }
}

#[test]
fn ctrl_c_in_a_terminal_reaches_the_program_alone() {
    let data = DataDir::new();
    let server = data.serve();
    let group_of = |pid: Pid| getpgid(Some(pid)).unwrap();
    assert_ne!(group_of(data.postmaster().unwrap()), group_of(server.pid()));
}
