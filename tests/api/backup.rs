//! `deploy/backup` and `deploy/restore`. A backup that is taken under load is a whole till again on a new server. Each
//! fault is told in words before anything is harmed.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use private_postgres::Programs;
use tokio::task::JoinSet;

use crate::game::Game;
use crate::support::program::Program;
use crate::support::{MASTER_KEY, TestTill, empty_database};
use crate::topups::sell;

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a script of `deploy/` with PostgreSQL's programs of the version that runs.
fn script(name: &str, argument: &Path, variables: &[(&str, &str)]) -> Output {
    let programs = Programs::find(None).expect("its server runs").path("psql");
    let mut path = OsString::from(programs.parent().expect("it lies in a folder"));
    path.push(":/usr/bin:/bin");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").join(name);
    let mut command = Command::new(script);
    command.arg(argument).env_clear().env("PATH", path).env("PGCONNECT_TIMEOUT", "10");
    command.env("MINITILL", env!("CARGO_BIN_EXE_minitill"));
    command.envs(variables.iter().copied()).output().expect("the script starts")
}

fn backup(folder: &Path, database_url: &str) -> PathBuf {
    let output = script("backup", folder, &[("DATABASE_URL", database_url), ("BACKUPS_KEPT", "2")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().into()
}

/// Standard error of a restore that must fail.
fn refusal(dump: &Path, database_url: &str, master_key: (&str, &str)) -> String {
    let output = script("restore", dump, &[("DATABASE_URL", database_url), master_key]);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

const KEY: &str = "MINITILL_SECRETS__MASTER_KEY";

/// A payment, and a refund of a part of it.
const TOPUPS: [&[&str]; 2] = [
    &[
        "topup",
        "pay",
        "a1",
        "bank",
        "n1",
        "--currency",
        "CNY",
        "--amount",
        "600",
        "--paid-at",
        "2026-11-21T08:00:00Z",
        "--open-id",
        "payer",
        "--product-id",
        "gems60",
    ],
    &["topup", "refund", "a1", "bank", "n1", "--refund-id", "r1", "--amount", "300", "--reason", "asked"],
];

/// Rule: a backup is one moment, taken while servers work; restored into a new database it is the same till, which its audit
/// proves. The newest are kept.
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_under_load_is_restored_and_proved() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    for caller in 0..3 {
        till.player(&app, &format!("o{caller}"), 0, 1_000_000).await;
    }
    let before = Game::new(&app, "o0", "before", 60);
    let acknowledged = before.send(&till).await;
    till.player(&app, "payer", 0, 0).await;
    sell(&till, &app).await;
    let topped_up = TOPUPS.map(|command| Program::on(&till.database_url).json(command));
    let folder = Folder(std::env::temp_dir().join(format!("minitill-backup-{}", std::process::id())));
    let stop = Arc::new(AtomicBool::new(false));
    let mut callers = JoinSet::new();
    for caller in 0..3 {
        let (app, stop, address) = (app.clone(), Arc::clone(&stop), till.address);
        callers.spawn(async move {
            for count in 0.. {
                if stop.load(Ordering::SeqCst) {
                    return count;
                }
                let game = Game::new(&app, &format!("o{caller}"), &format!("c{caller}n{count}"), 1);
                assert_eq!(game.request().send(address).await.code(), 1);
            }
            0
        });
    }
    let (path, url) = (folder.0.clone(), till.database_url.clone());
    let dumps = tokio::task::spawn_blocking(move || {
        // A name has the second in it.
        let taken = (0..3).map(|_| {
            let within_second = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_millis();
            std::thread::sleep(Duration::from_millis(1010 - u64::from(within_second)));
            backup(&path, &url)
        });
        taken.collect::<Vec<_>>()
    });
    let dumps = dumps.await.unwrap();
    stop.store(true, Ordering::SeqCst);
    let asked: i64 = callers.join_all().await.into_iter().sum();
    let mut kept: Vec<_> = std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().path()).collect();
    kept.sort();
    assert_eq!(kept, dumps[1..], "the newest two, and nothing half-made");

    let restored = empty_database("backup_restored").await;
    let output = script("restore", &dumps[2], &[("DATABASE_URL", &restored), (KEY, MASTER_KEY)]);
    let (told, faults) =
        (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && faults.is_empty(), "{told}{faults}");
    assert!(told.contains("Clean: 4 wallets") && told.contains("no differences."), "{told}");
    let audit = Program::on(&restored).json(&["audit"]);
    let exchanges = audit["all"]["changes"]["exchange"]["entries"].as_i64().unwrap();
    assert!(exchanges > 1 && exchanges <= asked + 1, "{exchanges} of {asked}");

    for (command, mut told) in TOPUPS.into_iter().zip(topped_up) {
        assert_eq!(told["replayed"], false, "{told}");
        told["replayed"] = true.into();
        assert_eq!(Program::on(&restored).json(command), told, "it was done before the backup");
    }
    let server = Program::on(&restored).serve(None).await;
    let replayed = before.request().send(server.address).await;
    assert_eq!(
        (&*replayed.body, replayed.header("idempotent-replayed")),
        (&*acknowledged.body, Some("true"))
    );
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let fresh = Game::new(&app, "o0", "fresh", 1).with("ts", now);
    assert_eq!(fresh.request().send(server.address).await.code(), 1);
}

/// Rule: the wrong master key, none, a database that holds something and a damaged dump are refused in
/// words. So are a password in the URL, and a number of backups that keeps none. Nothing that was there is
/// touched.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_restore_is_told_in_words() {
    let till = TestTill::start().await;
    till.app("a1").await;
    let folder = Folder(std::env::temp_dir().join(format!("minitill-restore-{}", std::process::id())));
    let dump = backup(&folder.0, &till.database_url);
    let key = (KEY, MASTER_KEY);

    let other_key = "2".repeat(64);
    let told = refusal(&dump, &empty_database("restore_other_key").await, (KEY, &other_key));
    assert!(told.contains("the master key does not fit this database"), "{told}");
    assert!(told.contains("restore: the rows are there, but this could not be proved."), "{told}");
    let data_dir = folder.0.to_str().unwrap();
    let told =
        refusal(&dump, &empty_database("restore_no_key").await, ("MINITILL_DATABASE__DATA_DIR", data_dir));
    assert!(told.contains(&format!("there is no master key at {data_dir}/master.key")), "{told}");

    let told = refusal(&dump, &till.database_url, key);
    assert!(told.contains("is not empty; make a new one"), "{told}");
    till.assert_audit_clean().await;

    let empty = empty_database("restore_damaged").await;
    let whole = std::fs::read(&dump).unwrap();
    for damaged in [&whole[..whole.len() / 2], b"no dump"] {
        std::fs::write(&dump, damaged).unwrap();
        let told = refusal(&dump, &empty, key);
        assert!(told.contains("pg_restore: error:"), "{told}");
    }
    std::fs::write(&dump, &whole).unwrap();
    let output = script("restore", &dump, &[("DATABASE_URL", &empty), key]);
    assert!(
        output.status.success(),
        "a restore that failed left nothing: {}",
        String::from_utf8_lossy(&output.stderr)
    );

    let dumps = || std::fs::read_dir(&folder.0).unwrap().count();
    let before = dumps();
    for kept in ["0", "abc", "-1", "1.5", "07"] {
        let output =
            script("backup", &folder.0, &[("DATABASE_URL", &till.database_url), ("BACKUPS_KEPT", kept)]);
        let told = String::from_utf8(output.stderr).unwrap();
        let expected =
            format!("backup: BACKUPS_KEPT is \"{kept}\"; expected an integer from 1 to 999999999\n");
        assert_eq!((output.status.code(), told, dumps()), (Some(1), expected, before));
    }

    let of_the_user = "postgres://minitill:hush@localhost/minitill";
    let of_a_parameter = "postgres://minitill@localhost/minitill?sslmode=disable&password=hush";
    let each = ["backup", "restore"].map(|name| [(name, of_the_user), (name, of_a_parameter)]);
    for (name, with_password) in each.concat() {
        let output = script(name, &dump, &[("DATABASE_URL", with_password), key]);
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.code() == Some(1) && told.contains("PGPASSFILE") && !told.contains("hush"),
            "{told}"
        );
    }
}
