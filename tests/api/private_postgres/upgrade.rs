//! `minitill postgres upgrade` (contract 9.1.9). Its refusals and failures are tested with programs that only say
//! that they are of another version. `tests/proofs/postgres_upgrade` goes from one version to another.

use private_postgres::Programs;

use super::*;

/// A folder of programs of a version that is not installed.
struct Bin(PathBuf);

impl Bin {
    /// The programs of the PostgreSQL that is here. They say that they are of the version `major`, and those of
    /// `scripts` do something else.
    fn new(major: u32, scripts: &[(&str, &str)]) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        // Programs in memory may not run.
        let folder = env::temp_dir().join(format!("minitill-bin-{}-{number}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        let bin = Self(fs::canonicalize(folder).unwrap());
        let real = Programs::find(None).unwrap();
        let real = |name| real.path(name).display().to_string();
        symlink(real("initdb"), bin.0.join("initdb")).unwrap();
        let version = format!("postgres (PostgreSQL) {major}.0");
        bin.script(
            "postgres",
            &format!("[ \"$1\" = --version ] && echo '{version}' || exec '{}' \"$@\"", real("postgres")),
        );
        for (name, script) in scripts {
            bin.script(name, script);
        }
        bin
    }

    /// With all programs that an upgrade needs, and this `pg_upgrade`.
    fn complete(major: u32, pg_upgrade: &str) -> Self {
        let names = [
            "pg_controldata",
            "pg_ctl",
            "pg_resetwal",
            "pg_dump",
            "pg_dumpall",
            "pg_restore",
            "psql",
            "vacuumdb",
        ];
        let mut scripts = names.map(|name| (name, "exit 0")).to_vec();
        scripts.push(("pg_upgrade", pg_upgrade));
        Self::new(major, &scripts)
    }

    /// Of the version that is here.
    fn present() -> Self {
        Self::complete(present(), "exit 1")
    }

    fn script(&self, name: &str, script: &str) {
        let path = self.0.join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

impl Drop for Bin {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The major version of the PostgreSQL that is here.
fn present() -> u32 {
    let postgres = Programs::find(None).unwrap().path("postgres");
    let said = Command::new(postgres).arg("--version").output().unwrap().stdout;
    let said = String::from_utf8(said).unwrap();
    said.split_whitespace().nth(2).unwrap().split('.').next().unwrap().parse().unwrap()
}

impl DataDir {
    /// Data that only says that it is of the version `major`.
    fn claim(&self, name: &str, major: u32) {
        let cluster = self.path.join(name);
        fs::create_dir_all(&cluster).unwrap();
        fs::set_permissions(&self.path, fs::Permissions::from_mode(0o711)).unwrap();
        fs::write(cluster.join("PG_VERSION"), format!("{major}\n")).unwrap();
    }

    fn upgrade(&self, old: &Bin, new: &Bin) -> Command {
        let mut command = self.program(&["postgres", "upgrade", "--json", "--old-bin"]);
        command.arg(&old.0).env("PG_BIN", &new.0);
        command
    }

    fn version(&self, name: &str) -> String {
        fs::read_to_string(self.path.join(name).join("PG_VERSION")).unwrap().trim().to_owned()
    }

    /// All that the data folder holds, but for the lock.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .map(|entry| entry.file_name().into_string().unwrap())
            .filter(|name| name != "lock")
            .collect();
        names.sort_unstable();
        names
    }
}

/// The error of a program with `--json`, which may have logged something before.
fn error(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stdout));
    let said = str::from_utf8(&output.stderr).unwrap().lines().last().unwrap();
    let said: serde_json::Value = serde_json::from_str(said).unwrap();
    said["error"].as_str().unwrap().to_owned()
}

#[test]
fn contract_9_1_9_data_of_another_version_is_refused_in_one_sentence_and_left_alone() {
    for (made_by, found, way_out) in [(15, 18, ", or run `minitill postgres upgrade`"), (19, 18, "")] {
        let (data, bin) = (DataDir::new(), Bin::new(found, &[]));
        data.claim("pgdata", made_by);
        for words in [&["serve", "--json"][..], &["app", "list", "--json"]] {
            let output = data.program(words).env("PG_BIN", &bin.0).output().unwrap();
            let (pgdata, folder) = (data.path.join("pgdata"), &bin.0);
            assert_eq!(
                error(&output),
                format!(
                    "the data in {} was made by PostgreSQL {made_by}, found only {found} in {}: install PostgreSQL \
                     {made_by}, or point PG_BIN at the folder of its programs{way_out}",
                    pgdata.display(),
                    folder.display()
                )
            );
            assert_eq!(
                (data.names(), data.version("pgdata")),
                (vec!["pgdata".to_owned()], made_by.to_string())
            );
        }
    }
}

#[test]
fn contract_9_1_9_what_cannot_be_upgraded_is_refused_and_left_alone() {
    let new = Bin::complete(18, "exit 0");
    let old = Bin::complete(15, "exit 0");
    let bare_new = Bin::new(18, &[("pg_controldata", ""), ("pg_ctl", ""), ("pg_resetwal", "")]);
    let bare_old = Bin::new(15, &[]);
    for (made_by, kept, old, new, expected) in [
        (None, None, &old, &new, "there is no cluster in DATA, so there is nothing to upgrade"),
        (
            Some(19),
            None,
            &old,
            &new,
            "the data in DATA/pgdata was made by PostgreSQL 19, found only 18 in NEW: install PostgreSQL 19, or point \
             PG_BIN at the folder of its programs",
        ),
        (
            Some(14),
            None,
            &old,
            &new,
            "the upgrade needs the programs of PostgreSQL 14 too, found 15 in OLD: install them, or name their folder \
             with --old-bin",
        ),
        (
            Some(15),
            None,
            &bare_old,
            &new,
            "the upgrade needs the program pg_controldata, which is not in OLD: install all programs of that PostgreSQL",
        ),
        (
            Some(15),
            None,
            &old,
            &bare_new,
            "the upgrade needs the program pg_upgrade, which is not in NEW: install all programs of that PostgreSQL",
        ),
        (
            Some(15),
            Some(15),
            &old,
            &new,
            "DATA/pgdata.postgresql-15 is there, from a former upgrade: move it away",
        ),
    ] {
        let data = DataDir::new();
        for (name, major) in [("pgdata", made_by), ("pgdata.postgresql-15", kept)] {
            if let Some(major) = major {
                data.claim(name, major);
            }
        }
        let before = data.names();
        let said = error(&data.upgrade(old, new).output().unwrap());
        let places = [("DATA", &data.path), ("OLD", &old.0), ("NEW", &new.0)];
        let expected = places
            .iter()
            .fold(expected.to_owned(), |text, (name, path)| text.replace(name, path.to_str().unwrap()));
        assert_eq!((said, data.names()), (expected, before));
    }
}

#[test]
fn contract_9_1_9_a_database_of_ones_own_is_not_upgraded() {
    let data = DataDir::new();
    let mut command = data.program(&["postgres", "upgrade", "--json"]);
    let output = command.env("DATABASE_URL", "postgres://localhost/nothing").output().unwrap();
    assert_eq!(
        error(&output),
        "`minitill postgres upgrade` is for the private PostgreSQL, and database.url names another one: upgrade \
         that as its documentation describes"
    );
}

#[tokio::test]
async fn contract_9_1_9_no_upgrade_begins_while_a_server_runs() {
    let data = DataDir::new();
    let server = data.serve();
    let (old, new) = (Bin::present(), Bin::complete(99, "exit 0"));
    let output = data.upgrade(&old, &new).output().unwrap();
    let (pid, folder) = (server.pid().as_raw_pid(), data.path.display());
    assert_eq!(
        error(&output),
        format!("another server (process {pid}) already runs on {folder}: stop it first")
    );
    data.connect().await.close().await.unwrap();
    server.terminate();
}

#[test]
fn contract_9_1_9_an_upgrade_to_the_version_that_is_there_changes_nothing() {
    let data = DataDir::new();
    data.claim("pgdata", 18);
    let output = data.upgrade(&Bin::new(15, &[]), &Bin::new(18, &[])).output().unwrap();
    assert_success(&output);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "{\"from\":18,\"kept\":null,\"to\":18}\n");
    assert_eq!(data.names(), ["pgdata"]);
}

/// The same after a kill: `pg_upgrade` ends with the command that started it, though it ignores SIGINT.
#[tokio::test]
async fn contract_9_1_9_a_failed_or_killed_upgrade_leaves_the_data_and_can_be_run_again() {
    let data = DataDir::new();
    let server = data.serve();
    data.keep().await;
    server.kill();
    let (present, old) = (present(), Bin::present());

    let new = Bin::complete(99, "echo 'It is full.'; exit 3");
    let said = error(&data.upgrade(&old, &new).output().unwrap());
    let start = "pg_upgrade failed (exit status: 3), and the cluster is as it was; its files are in ";
    assert!(said.starts_with(start) && said.ends_with(": It is full."), "{said}");
    assert_eq!(data.version("pgdata"), present.to_string());
    data.serve().terminate();

    let begun = data.parent.join("begun");
    let new = Bin::complete(99, &format!("trap '' INT; echo $$ > '{}'; sleep 60", begun.display()));
    fs::write(&begun, "").unwrap();
    fs::set_permissions(&begun, fs::Permissions::from_mode(0o666)).unwrap();
    let mut killed = data.upgrade(&old, &new).stderr(Stdio::null()).spawn().unwrap();
    let pg_upgrade = || Pid::from_raw(fs::read_to_string(&begun).unwrap().trim().parse().ok()?);
    until("pg_upgrade runs", || pg_upgrade().is_some());
    killed.kill().unwrap();
    killed.wait().unwrap();
    if cfg!(target_os = "linux") {
        until("pg_upgrade follows", || !is_alive(pg_upgrade().unwrap()));
    }
    let server = data.serve();
    data.assert_kept().await;
    server.terminate();

    // What an upgrade leaves that was killed right before the exchange.
    let kept = format!("pgdata.postgresql-{present}");
    data.claim(&kept, 99);
    let new = Bin::complete(99, "exit 0");
    let output = data.upgrade(&old, &new).output().unwrap();
    assert_success(&output);
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said, serde_json::json!({ "from": present, "to": 99, "kept": data.path.join(&kept) }));
    let clusters: Vec<String> = data.names().into_iter().filter(|name| name.starts_with("pgdata")).collect();
    assert_eq!(clusters, ["pgdata", &*kept]);
    // This `pg_upgrade` brought nothing over, so the data that was kept is only in the old folder.
    assert!(!data.pid_file().iter().any(|line| !line.is_empty()), "nothing runs");
    fs::rename(data.path.join("pgdata"), data.path.join("empty")).unwrap();
    fs::rename(data.path.join(&kept), data.path.join("pgdata")).unwrap();
    let server = data.serve();
    data.assert_kept().await;
    server.terminate();
}
