//! The data of the last release, which `scripts/release-data` has kept, under the schema of this version.

use std::path::Path;
use std::process::{Command, Stdio};

use private_postgres::Programs;

use crate::support::empty_database;
use crate::support::program::Program;

/// Rule: this version migrates the last release's data, and its books are right; numbers keep their meaning.
#[tokio::test(flavor = "multi_thread")]
async fn the_data_of_the_last_release_is_migrated() {
    let releases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/releases");
    let version = |path: &Path| -> Vec<u32> {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.split('.').filter_map(|part| part.parse().ok()).collect()
    };
    let folders = releases.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let last = folders.max_by_key(|path| version(path)).unwrap();
    let url = empty_database("release_data").await;
    let mut psql = Command::new(Programs::find(None).expect("its server runs").path("psql"));
    psql.args(["--quiet", "--set", "ON_ERROR_STOP=1", "--file"]).arg(last.join("data.sql")).arg(&url);
    assert!(psql.stdout(Stdio::null()).status().unwrap().success(), "{}", last.display());

    let program = Program::on(&url).with("MINITILL_SECRETS__MASTER_KEY", &"0".repeat(64));
    assert!(program.run(&["migrate"]).status.success());
    let player = program.json(&["wallet", "show", "mygame", "player-1"]);
    assert_eq!((&player["free_balance"], &player["charge_balance"]), (&45.into(), &50.into()), "{player}");
    let order = program.json(&["exchange", "show", "mygame", "order1001"]);
    assert_eq!(order["biz_no"], "order1001", "{order}");
    let audit = program.run(&["audit"]);
    assert!(audit.status.success(), "{}", String::from_utf8_lossy(&audit.stdout));
    // The keys of the release open what it has encrypted, and the server takes the schema.
    let server = program.serve(None).await;
    server.kill();
    let secret = program.json(&["app", "rotate-secret", "mygame", "--yes"]);
    assert!(secret["app_secret"].is_string(), "{secret}");
}
